"""Models that tell together, on models small enough to enumerate every sentence."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import UserError
from show_attend_tell.telling.ensemble import Ensemble, refuse_other_words
from show_attend_tell.telling.model import Arrays, Floats, Integers
from show_attend_tell.telling.search import Search, Told, tell
from tests.test_search import END, PLACES, ToyModel, all_sentences, pictures, same

SEARCHES = [
    Search(beam=1, max_words=8),
    Search(beam=4, n_best=3, length_power=0.7, max_words=8),
    Search(temperature=1.0, n_best=4, seed=3, max_words=8),
]


@dataclass
class Coarse(ToyModel):
    """A toy with two places instead of four."""

    def start(self, annotations: Floats) -> tuple[Arrays, Arrays]:
        return super().start(annotations.repeat(2, axis=1))

    def look(self, memory: Arrays, state: Arrays) -> tuple[Floats, Floats]:
        alpha, gate = super().look(memory, state)
        return alpha.reshape(-1, 2, 2).sum(axis=2), gate

    def advance(
        self,
        memory: Arrays,
        state: Arrays,
        weights: Floats,
        gate: Floats,
        words: Integers,
        best: int,
    ) -> tuple[Arrays, Floats, Integers]:
        assert weights.shape == (len(words), 2)
        fine = weights.repeat(2, axis=1) / 2
        return super().advance(memory, state, fine, gate, words, best)


def together(
    members: Sequence[ToyModel], seen: npt.NDArray[np.float64], search: Search
) -> list[list[Told]]:
    ensemble = Ensemble(members, share_places=True)
    return tell(ensemble, [(one,) * len(members) for one in seen], search)


def close(one: list[list[Told]], other: list[list[Told]]) -> None:
    """Equal but for the last bits."""
    for a, b in zip(itertools.chain(*one), itertools.chain(*other), strict=True):
        assert a.words == b.words
        assert a.end_log_prob == pytest.approx(b.end_log_prob, abs=1e-12)
        for name in ("log_probs", "attention", "weights", "gates"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-12)


def distributions(
    model: ToyModel, seen: npt.NDArray[np.float64], words: Sequence[int]
) -> npt.NDArray[np.float64]:
    """(T + 1, words): what a model alone thinks of each word of a sentence and of the end."""
    memory, state = model.start(seen[None])
    rows = []
    for previous in (model.start_word, *words):
        alpha, gate = model.look(memory, state)
        size = model.vocabulary_size
        state, row, ids = model.advance(memory, state, alpha, gate, np.array([previous]), size)
        probs = np.zeros(size)
        probs[ids[0]] = np.exp(row[0])
        rows.append(probs)
    return np.array(rows)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("count", [1, 2])
def test_a_model_alone_or_with_itself_is_the_model(count: int, search: Search) -> None:
    model, seen = ToyModel(vocabulary_size=12), pictures(5)
    close(together([model] * count, seen, search), tell(model, seen, search))


@pytest.mark.parametrize("search", SEARCHES)
def test_the_order_of_members_does_not_matter(search: Search) -> None:
    members, seen = [ToyModel(vocabulary_size=12, seed=i) for i in range(3)], pictures(5)
    first = together(members, seen, search)
    alone = tell(members[0], seen, search)
    assert [one.words for [one, *_] in first] != [one.words for [one, *_] in alone]
    for order in itertools.permutations(members):
        close(together(order, seen, search), first)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_picture_is_told_the_same_alone_and_among_others(search: Search) -> None:
    members, seen = [ToyModel(vocabulary_size=12, seed=i) for i in range(2)], pictures(7)
    all_at_once = together(members, seen, search)
    alone = [told for one in seen for told in together(members, one[None], search)]
    for ours, theirs in zip(all_at_once, alone, strict=True):
        assert all(map(same, ours, theirs))


def test_log_probabilities_are_those_of_the_mean_distribution() -> None:
    members, seen = [ToyModel(vocabulary_size=12, seed=i) for i in range(3)], pictures(6)
    for picture, [told] in zip(seen, together(members, seen, SEARCHES[0]), strict=True):
        own = [distributions(member, picture, told.words) for member in members]
        expected = np.log(np.mean(own, axis=0))  # (T + 1, words)
        np.testing.assert_allclose(np.exp(expected).sum(axis=1), 1)
        chosen = expected[np.arange(len(told.words)), list(told.words)]
        np.testing.assert_allclose(told.log_probs, chosen, atol=1e-12)
        if told.ended:
            assert told.end_log_prob == pytest.approx(expected[-1, END])


def test_a_wide_beam_finds_the_sentence_that_all_together_find_best() -> None:
    members = [ToyModel(vocabulary_size=5, seed=i) for i in range(2)]
    seen = pictures(4)
    told = together(members, seen, Search(beam=40, max_words=3))

    def score(picture: npt.NDArray[np.float64], words: tuple[int, ...]) -> float:
        mean = np.mean([distributions(one, picture, words) for one in members], axis=0)
        return float(np.log(mean[np.arange(len(words) + 1), [*words, END]]).sum())

    for picture, [best] in zip(seen, told, strict=True):
        sentences = all_sentences(members[0], 3)
        assert best.words == max(sentences, key=lambda words: score(picture, words))


def test_attention_is_the_mean_where_places_are_shared() -> None:
    members, seen = [ToyModel(seed=i) for i in range(2)], pictures(1)
    [[told]] = together(members, seen, SEARCHES[0])
    looks = []
    for member in members:
        memory, state = member.start(seen)
        looks.append(member.look(memory, state))
    np.testing.assert_allclose(told.attention[0], np.mean([alpha[0] for alpha, _ in looks], axis=0))
    assert told.gates[0] == pytest.approx(np.mean([gate[0] for _, gate in looks]))


def test_members_see_in_their_own_ways_and_the_first_is_shown() -> None:
    fine, coarse = ToyModel(vocabulary_size=12), Coarse(vocabulary_size=12, seed=1)
    seen = pictures(4)
    halves = seen[:, :2]
    one = tell(
        Ensemble([fine, coarse], share_places=False),
        list(zip(seen, halves, strict=True)),
        SEARCHES[1],
    )
    other = tell(
        Ensemble([coarse, fine], share_places=False),
        list(zip(halves, seen, strict=True)),
        SEARCHES[1],
    )
    for a, b in zip(itertools.chain(*one), itertools.chain(*other), strict=True):
        assert a.words == b.words
        assert (a.attention.shape[1], b.attention.shape[1]) == (PLACES, 2)
    memory, state = fine.start(seen)
    np.testing.assert_array_equal(one[0][0].attention[0], fine.look(memory, state)[0][0])


def test_of_equal_words_the_first_come_first() -> None:
    members = [ToyModel(vocabulary_size=9, sharpness=0, end_bias=0, seed=i) for i in range(2)]
    ensemble = Ensemble(members, share_places=True)
    memory, state = ensemble.start([(one, one) for one in pictures(3)])
    alpha, gate = ensemble.look(memory, state)
    for best in (1, 4, 9):
        _, log_probs, ids = ensemble.advance(memory, state, alpha, gate, np.array([2] * 3), best)
        np.testing.assert_array_equal(ids, [range(best)] * 3)
        np.testing.assert_allclose(log_probs, -np.log(9))


def point(alpha: Floats, step: int, words: Integers) -> Floats:
    return np.full_like(alpha, 1 / alpha.shape[1])


@pytest.mark.parametrize("look", ["most-likely", "sampled", point])
def test_members_are_not_told_where_to_look(look: object) -> None:
    members = [ToyModel(seed=i) for i in range(2)]
    with pytest.raises(UserError, match="look each where it wants"):
        together(members, pictures(2), Search(look=look))  # type: ignore[arg-type]


def test_other_words_are_refused_by_name() -> None:
    known = Vocabulary.build(["a dog runs"])
    refuse_other_words([("first", known), ("second", Vocabulary.build(["a dog runs"]))])
    answer = "third: its 4 words are not the 5 of first"
    with pytest.raises(UserError, match=re.escape(answer)):
        refuse_other_words([("first", known), ("third", Vocabulary.build(["a cat"]))])
