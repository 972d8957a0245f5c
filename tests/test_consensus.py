"""Consensus: the beam reranked by agreement with sampled captions."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from show_attend_tell.captioning import consensus, search
from show_attend_tell.captioning.consensus import Phrases, agreement
from show_attend_tell.captioning.model import Arrays, Floats, Integers
from show_attend_tell.captioning.search import Search
from show_attend_tell.errors import UserError
from tests.test_search import END, ToyModel, pictures, same

ODD, LEFT, RIGHT = 2, 3, 4  # first words; the last two are followed by the same three
TAIL = (5, 6, 7)


@dataclass
class Quarrelling:
    """Prefers one short caption to each of two long ones that nearly agree."""

    vocabulary_size: int = 8
    start_word: int = 8
    end_word: int = END
    unknown_word: int = 1

    def start(self, annotations: Floats) -> tuple[Arrays, Arrays]:
        return (annotations,), (np.zeros(len(annotations)),)

    def look(self, memory: Arrays, state: Arrays) -> tuple[Floats, Floats]:
        return np.ones((len(state[0]), 1)), np.ones(len(state[0]))

    def advance(
        self,
        memory: Arrays,
        state: Arrays,
        weights: Floats,
        gate: Floats,
        words: Integers,
        best: int,
    ) -> tuple[Arrays, Floats, Integers]:
        probs = np.full((len(words), self.vocabulary_size), 1e-6)
        for row, word in zip(probs, words.tolist(), strict=True):
            if word == self.start_word:
                row[[ODD, LEFT, RIGHT]] = 0.4, 0.3, 0.3
            elif word in (ODD, TAIL[-1]):
                row[END] = 1
            else:
                row[TAIL[0] if word in (LEFT, RIGHT) else word + 1] = 1
        ids = np.argsort(-probs, axis=1, kind="stable")[:, :best]
        return state, np.log(np.take_along_axis(probs, ids, axis=1)), ids


def test_what_most_captions_say_wins_where_one_odd_caption_is_likeliest() -> None:
    model, picture = Quarrelling(), np.zeros((1, 1, 1))
    how = Search(beam=3, max_words=6)
    ((likeliest,),) = consensus.decode(model, picture, how)
    ((agreed,),) = consensus.decode(model, picture, replace(how, consensus=40))
    assert likeliest.words == (ODD,)
    assert agreed.words in ((LEFT, *TAIL), (RIGHT, *TAIL))


def test_without_consensus_nothing_changes() -> None:
    model, batch = ToyModel(), pictures(5)
    for how in (Search(beam=4, n_best=2), Search(temperature=1.0, n_best=3, consensus=9)):
        plain, reranked = (module.decode(model, batch, how) for module in (search, consensus))
        for one, other in zip(plain, reranked, strict=True):
            assert all(map(same, one, other))


def test_consensus_chooses_among_the_captions_of_the_beam() -> None:
    model, batch = ToyModel(vocabulary_size=9), pictures(6)
    how = Search(beam=5, n_best=5, length_power=0.7, max_words=8, consensus=20)
    found = search.decode(model, batch, replace(how, consensus=0))
    reranked = consensus.decode(model, batch, how)
    for before, after in zip(found, reranked, strict=True):
        assert {one.words for one in before} == {one.words for one in after}
        ranks = [(not one.ended, -one.score) for one in after]  # what was cut comes last
        assert ranks == sorted(ranks)
    assert any(a[0].words != b[0].words for a, b in zip(found, reranked, strict=True))
    best = consensus.decode(model, batch, replace(how, n_best=2))
    assert [[one.words for one in ones] for ones in best] == [
        [one.words for one in ones[:2]] for ones in reranked
    ]


def test_the_decoder_is_started_once_for_both_passes() -> None:
    class Counting(ToyModel):
        starts = 0

        def start(self, annotations: Floats) -> tuple[Arrays, Arrays]:
            self.starts += 1
            return super().start(annotations)

    model = Counting()
    consensus.decode(model, pictures(3), Search(beam=3, max_words=5, consensus=4))
    assert model.starts == 1
    assert consensus.decode(model, pictures(0), Search(consensus=4)) == []


def test_a_picture_gets_the_same_captions_alone_and_in_company() -> None:
    model, batch = ToyModel(vocabulary_size=9), pictures(6)
    how = Search(beam=4, n_best=3, max_words=8, consensus=12)
    together = consensus.decode(model, batch, how)
    for i, ones in enumerate(together):
        (alone,) = consensus.decode(model, batch[i : i + 1], how)
        assert all(map(same, ones, alone))


SENTENCES = st.lists(st.integers(0, 4), min_size=1, max_size=9).map(tuple)


@given(one=SENTENCES, other=SENTENCES)
def test_agreement_lies_between_nothing_and_itself(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    assert 0 <= agreement(Phrases(one), Phrases(other)) <= 1 + 1e-12
    # n-grams that are longer than the sentence are not there to be shared.
    orders = min(4, len(one))
    assert agreement(Phrases(one), Phrases(one)) == pytest.approx(orders / 4)
    if not set(one) & set(other):
        assert agreement(Phrases(one), Phrases(other)) == 0


def test_agreement_by_hand() -> None:
    one, other = Phrases((5, 6, 7)), Phrases((5, 6, 8, 9))
    five, six, seven, eight, nine = np.log([7, 8, 9, 10, 11])
    pair = (five + six) / 2
    # One word apart; 2 words are shared and 1 pair, of triples none.
    words = (five**2 + six**2) / np.linalg.norm([five, six, seven])
    words /= np.linalg.norm([five, six, eight, nine])
    pairs = pair**2 / np.linalg.norm([pair, (six + seven) / 2])
    pairs /= np.linalg.norm([pair, (six + eight) / 2, (eight + nine) / 2])
    assert agreement(one, other) == pytest.approx((words + pairs) / 4 * np.exp(-1 / 72))


def test_a_rare_word_in_common_counts_more_than_a_common_one() -> None:
    own = Phrases((3, 900, 4))
    assert agreement(own, Phrases((5, 900, 6))) > agreement(own, Phrases((3, 800, 6)))


@pytest.mark.parametrize(
    ("how", "together"),
    [
        (Search(), 16),
        (
            Search(beam=10, consensus=30, max_words=30, repetition_penalty=3.0),
            16,
        ),  # the model that ships
        (Search(beam=100, max_words=50), 12),
        (Search(beam=300, max_words=50), 3),
        (Search(beam=1000), 1),
        (Search(consensus=1000), 1),
        (Search(temperature=1.0, n_best=100, max_words=50), 5),
    ],
)
def test_the_larger_the_search_the_fewer_pictures_are_captioned_together(
    how: Search, together: int
) -> None:
    assert consensus.pictures_together(how, 16, places=192, words=2933) == together


@pytest.mark.parametrize(
    ("how", "named"),
    [
        (Search(beam=1000, max_words=1000), "beam 1,000 and max_words 1,000"),
        (Search(temperature=1.0, n_best=10_000), "n_best 10,000 and max_words 30"),
        (Search(consensus=1000, max_words=1000), "consensus 1,000 and max_words 1,000"),
    ],
)
def test_a_search_that_would_take_too_much_memory_is_refused(how: Search, named: str) -> None:
    with pytest.raises(UserError, match=named) as refused:
        consensus.pictures_together(how, 16, places=192, words=2933)
    assert refused.value.code == "request.bad"
    assert "of memory for each picture, more than the 1.0 GB that a search may take" in str(
        refused.value
    )
