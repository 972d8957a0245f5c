"""Search on models small enough to enumerate every sentence."""

import itertools
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from show_attend_tell.captioning import search as search_module
from show_attend_tell.captioning.model import Arrays, Floats, Integers
from show_attend_tell.captioning.search import Decoded, Search, decode
from show_attend_tell.errors import UserError

END, UNKNOWN = 0, 1
STATES, PLACES = 97, 4


@dataclass
class ToyModel:
    """A random recurrent model: an integer state chooses rows of random tables.

    Every operation is row by row, so that equal inputs give equal bits whatever the batch.
    """

    vocabulary_size: int = 6
    seed: int = 0
    sharpness: float = 3.0
    end_bias: float = -3.0
    start_word: int = -1
    end_word: int = END
    unknown_word: int = UNKNOWN

    def __post_init__(self) -> None:
        random = np.random.default_rng(self.seed)
        shape = (STATES, PLACES, self.vocabulary_size)
        self.logits = self.sharpness * random.normal(size=shape)
        self.logits[:, :, END] += self.end_bias
        self.scores = random.normal(size=(STATES, PLACES))
        self.rows_advanced: list[int] = []

    def start(self, annotations: Floats) -> tuple[Arrays, Arrays]:
        state = (annotations[:, 0, 1] * 100).astype(np.int64) % STATES
        return (annotations[:, :, 0],), (state,)

    def look(self, memory: Arrays, state: Arrays) -> tuple[Floats, Floats]:
        seen = memory[0].repeat(len(state[0]) // len(memory[0]), axis=0)  # (rows, L)
        alpha = np.exp(self.scores[state[0]] + seen)
        alpha /= alpha.sum(axis=1, keepdims=True)
        return alpha, 1 / (1 + state[0])

    def advance(
        self,
        memory: Arrays,
        state: Arrays,
        weights: Floats,
        gate: Floats,
        words: Integers,
        best: int,
    ) -> tuple[Arrays, Floats, Integers]:
        assert 1 <= best <= self.vocabulary_size
        self.rows_advanced.append(len(words))
        new = (state[0] * 31 + words * 7 + 11) % STATES
        logits = (weights[:, :, None] * self.logits[new]).sum(axis=1) + gate[:, None]
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        ids = np.argsort(-log_probs, axis=1, kind="stable")[:, :best]
        return (new,), np.take_along_axis(log_probs, ids, axis=1), ids


def pictures(count: int, seed: int = 0) -> npt.NDArray[np.float64]:
    return 2 * np.random.default_rng(seed).normal(size=(count, PLACES, 2))


def forced(
    model: ToyModel, annotations: Floats, words: tuple[int, ...]
) -> tuple[list[float], float, list[Floats], list[float]]:
    """Log-probabilities of given words and of the end after them, with where the model looked."""
    memory, state = model.start(annotations[None])
    log_probs, looks, gates = [], [], []
    previous = model.start_word
    for word in (*words, END):
        alpha, gate = model.look(memory, state)
        size = model.vocabulary_size
        state, row, ids = model.advance(memory, state, alpha, gate, np.array([previous]), size)
        log_probs.append(float(row[0, ids[0] == word][0]))
        looks.append(alpha[0])
        gates.append(float(gate[0]))
        previous = word
    return log_probs[:-1], log_probs[-1], looks[:-1], gates[:-1]


def all_sentences(model: ToyModel, longest: int, *, repeats: bool = False) -> list[tuple[int, ...]]:
    words = [w for w in range(model.vocabulary_size) if w not in (END, UNKNOWN)]
    return [
        sentence
        for length in range(1, longest + 1)
        for sentence in itertools.product(words, repeat=length)
        if repeats or all(a != b for a, b in itertools.pairwise(sentence))
    ]


def score_of(model: ToyModel, annotations: Floats, words: tuple[int, ...], power: float) -> float:
    log_probs, end, _, _ = forced(model, annotations, words)
    return (sum(log_probs) + end) / math.pow(len(words) + 1, power)


def same(one: Decoded, other: Decoded) -> bool:
    return (
        one.words == other.words
        and one.score == other.score
        and one.end_log_prob == other.end_log_prob
        and np.array_equal(one.log_probs, other.log_probs)
        and np.array_equal(one.attention, other.attention)
        and np.array_equal(one.weights, other.weights)
        and np.array_equal(one.gates, other.gates)
    )


@pytest.mark.parametrize("power", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_beam_wide_enough_finds_the_best_of_all_captions(seed: int, power: float) -> None:
    model, picture = ToyModel(seed=seed), pictures(1, seed)
    scores = {w: score_of(model, picture[0], w, power) for w in all_sentences(model, longest=5)}
    best = sorted(scores, key=lambda words: -scores[words])[:3]
    search = Search(beam=1000, n_best=3, length_power=power, max_words=5)
    (found,) = decode(model, picture, search)
    assert [one.words for one in found] == best
    assert [one.score for one in found] == pytest.approx([scores[words] for words in best])


def test_repeats_are_among_the_captions_when_allowed() -> None:
    model, picture = ToyModel(seed=0, vocabulary_size=4), pictures(1)
    sentences = all_sentences(model, longest=5, repeats=True)
    best = max(sentences, key=lambda words: score_of(model, picture[0], words, 1.0))
    assert any(a == b for a, b in itertools.pairwise(best)), "the seed must give such a sentence"
    search = Search(beam=500, length_power=1.0, max_words=5, allow_repeats=True)
    assert decode(model, picture, search)[0][0].words == best


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_a_beam_of_one_is_greedy(power: float) -> None:
    model, batch = ToyModel(), pictures(20)
    greedy = decode(model, batch, Search(beam=1, length_power=power, max_words=50))
    for picture, (found,) in zip(batch, greedy, strict=True):
        words: list[int] = []
        memory, state = model.start(picture[None])
        while len(words) < 50:
            alpha, gate = model.look(memory, state)
            previous = np.array([words[-1] if words else model.start_word])
            state, _, ids = model.advance(memory, state, alpha, gate, previous, 6)
            forbidden = {UNKNOWN, words[-1] if words else END}
            word = next(int(i) for i in ids[0] if int(i) not in forbidden)
            if word == END:
                break
            words.append(word)
        assert found.words == tuple(words)


@pytest.mark.parametrize(
    "search",
    [
        Search(beam=3, n_best=2),
        Search(beam=3, length_power=0.7),
        Search(temperature=1.0, n_best=8, seed=5),
        Search(beam=2, look="sampled", seed=5),
    ],
    ids=["beam", "length", "sampling", "sampled look"],
)
def test_the_batch_never_changes_the_captions_of_a_picture(search: Search) -> None:
    model, batch = ToyModel(), pictures(12)
    order = np.random.default_rng(1).permutation(12)
    together = decode(model, batch, search)
    assert len({found[0].words for found in together}) > 3, "the pictures must differ"
    shuffled = decode(model, batch[order], search)
    for index, alone in enumerate(decode(model, batch[i : i + 1], search)[0] for i in range(12)):
        moved = shuffled[int(np.flatnonzero(order == index)[0])]
        assert len(alone) == len(together[index]) == len(moved) == search.n_best
        assert all(map(same, alone, together[index]))
        assert all(map(same, alone, moved))


def test_pictures_that_are_done_leave_the_batch() -> None:
    model = ToyModel()
    found = decode(model, pictures(40), Search(beam=2))
    lengths = sorted({len(one[0].words) for one in found})
    assert len(lengths) > 1, "the pictures must not all end together"
    assert model.rows_advanced[0] == 40
    assert all(a >= b for a, b in itertools.pairwise(model.rows_advanced[1:]))
    assert model.rows_advanced[-1] < 80


def test_samples_that_have_ended_leave_the_batch() -> None:
    model = ToyModel()
    (found,) = decode(model, pictures(1), Search(temperature=1.0, n_best=30))
    assert model.rows_advanced[0] == 30
    for step, rows in enumerate(model.rows_advanced):
        assert rows == sum(len(one.words) >= step for one in found)


def test_a_picture_is_done_when_no_live_hypothesis_can_beat_what_ended() -> None:
    model, picture = ToyModel(sharpness=0.0, end_bias=-100.0), pictures(1)
    # The second word ends the sentence for sure; after any other the end never comes.
    _, (state,) = model.start(picture)
    first = (state[0] * 31 + model.start_word * 7 + 11) % STATES
    second = (first * 31 + 2 * 7 + 11) % STATES
    model.logits[first, :, 2] = model.logits[second, :, END] = 30
    ((found,),) = decode(model, picture, Search(beam=4))
    assert found.words == (2,)
    assert len(model.rows_advanced) == 2


def test_live_hypotheses_count_when_nothing_ends() -> None:
    model = ToyModel(end_bias=-1e6)
    for found in decode(model, pictures(3), Search(beam=4, n_best=4, max_words=7)):
        assert [len(one.words) for one in found] == [7] * 4
        assert not any(one.ended for one in found)
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert found[0].log_prob == pytest.approx(found[0].score)


def test_captions_that_ended_come_before_those_cut() -> None:
    found = decode(ToyModel(), pictures(30), Search(beam=4, n_best=4, max_words=3))
    kinds = {tuple(one.ended for one in ones) for ones in found}
    assert all(kind == tuple(sorted(kind, reverse=True)) for kind in kinds)
    assert any(len(set(kind)) == 2 for kind in kinds), "some picture must have both"


@pytest.mark.parametrize("temperature", [None, 1.0])
def test_a_search_that_forbids_every_word_still_finds_a_caption(temperature: float | None) -> None:
    # One real word, which may not be repeated, and three are asked for.
    model = ToyModel(vocabulary_size=3)
    search = Search(beam=2, min_words=3, max_words=5, temperature=temperature)
    for (found,) in decode(model, pictures(3), search):
        assert found.words == (2,)
        assert not found.ended


def test_the_unknown_word_appears_only_when_allowed() -> None:
    model, batch = ToyModel(), pictures(30)
    model.logits[:, :, UNKNOWN] += 2
    forbidden, allowed = (
        decode(model, batch, Search(beam=2, allow_unknown=allow)) for allow in (False, True)
    )
    assert not any(UNKNOWN in one.words for (one,) in forbidden)
    assert any(UNKNOWN in one.words for (one,) in allowed)


def test_no_word_follows_itself_unless_allowed() -> None:
    model, batch = ToyModel(), pictures(30)
    plain, allowed = (
        decode(model, batch, Search(beam=2, allow_repeats=allow)) for allow in (False, True)
    )

    def repeats(words: tuple[int, ...]) -> bool:
        return any(a == b for a, b in itertools.pairwise(words))

    assert not any(repeats(one.words) for (one,) in plain)
    assert any(repeats(one.words) for (one,) in allowed)


@pytest.mark.parametrize("power", [0.0, 0.7])
def test_a_repeated_word_costs_unless_it_is_common(
    power: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "COMMONEST", 4)
    model, (picture,) = ToyModel(seed=3), pictures(1, 3)
    nats = 2.5

    def score(words: tuple[int, ...]) -> float:
        repeated = sum(word >= 4 and word in words[:i] for i, word in enumerate(words))
        plain = score_of(model, picture, words, power)
        return plain - nats * repeated / math.pow(len(words) + 1, power)

    best = sorted(all_sentences(model, longest=5), key=lambda words: -score(words))[:300]
    asked = Search(beam=1000, n_best=300, length_power=power, max_words=5, repetition_penalty=nats)
    (found,) = decode(model, picture[None], asked)
    assert [one.words for one in found] == best
    assert [one.score for one in found] == pytest.approx([score(words) for words in best])
    assert any(len(set(words)) < len(words) for words in best)  # it costs, and is not forbidden
    for one in found[:20]:
        assert one.log_probs == pytest.approx(forced(model, picture, one.words)[0])


def test_draws_are_not_changed_by_the_cost_of_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "COMMONEST", 2)
    plain, costly = (
        decode(ToyModel(), pictures(4), Search(temperature=1.0, n_best=5, repetition_penalty=nats))
        for nats in (0.0, 5.0)
    )
    assert all(all(map(same, *pair)) for pair in zip(plain, costly, strict=True))


def test_forbidden_words_never_starve_the_beam() -> None:
    # The end, the unknown word and the repetition are the three likeliest words everywhere.
    model = ToyModel(vocabulary_size=30, end_bias=50.0)
    model.logits[:, :, UNKNOWN] += 50
    model.logits[:, :, 2] += 40
    search = Search(beam=6, n_best=6, min_words=4, max_words=4)
    for found in decode(model, pictures(4), search):
        assert len({one.words for one in found}) == 6
        assert all(len(one.words) == 4 for one in found)


@pytest.mark.parametrize("max_words", [2, 50])
def test_n_best_are_distinct_and_sorted(max_words: int) -> None:
    search = Search(beam=5, n_best=5, max_words=max_words)
    for found in decode(ToyModel(), pictures(20), search):
        assert len({one.words for one in found}) == 5
        ended = [one.score for one in found if one.ended]
        assert ended == sorted(ended, reverse=True)


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_asking_for_more_captions_never_changes_the_best(power: float) -> None:
    model, batch = ToyModel(), pictures(30)
    one, three = (
        decode(model, batch, Search(beam=3, n_best=n, length_power=power)) for n in (1, 3)
    )
    assert all(same(a[0], b[0]) for a, b in zip(one, three, strict=True))


@pytest.mark.parametrize("temperature", [None, 1.0])
def test_lengths_stay_between_min_words_and_max_words(temperature: float | None) -> None:
    model = ToyModel(end_bias=0.0)
    search = Search(min_words=3, max_words=4, temperature=temperature)
    lengths = {len(one.words) for (one,) in decode(model, pictures(40), search)}
    assert lengths == {3, 4}


@pytest.mark.parametrize("start_word", [-1, END])
def test_without_min_words_a_caption_may_be_empty(start_word: int) -> None:
    model = ToyModel(end_bias=20.0, start_word=start_word)
    (found,) = decode(model, pictures(1), Search(min_words=0))[0]
    assert found.words == ()
    assert found.attention.shape == found.weights.shape == (0, PLACES)
    assert found.ended


def test_a_caption_of_max_words_may_still_end() -> None:
    (found,) = decode(ToyModel(end_bias=20.0), pictures(1), Search(max_words=1))[0]
    assert (len(found.words), found.ended) == (1, True)


def test_a_length_power_makes_captions_longer() -> None:
    model, batch = ToyModel(), pictures(40)
    raw, mean = (
        sum(len(one.words) for (one,) in decode(model, batch, Search(length_power=power)))
        for power in (0.0, 1.0)
    )
    assert mean > raw


@pytest.mark.parametrize(
    "search",
    [Search(beam=4, n_best=4, max_words=6), Search(temperature=1.3, n_best=4, max_words=6)],
    ids=["beam", "sampling"],
)
def test_what_is_reported_equals_a_teacher_forced_run(search: Search) -> None:
    model, batch = ToyModel(), pictures(10)
    for picture, found in zip(batch, decode(model, batch, search), strict=True):
        for one in found:
            log_probs, end, looks, gates = forced(model, picture, one.words)
            np.testing.assert_array_equal(one.log_probs, log_probs)
            np.testing.assert_array_equal(one.attention, looks)
            np.testing.assert_array_equal(one.gates, gates)
            assert one.end_log_prob in (end, None)
            total = sum(log_probs) + (end if one.ended else 0)
            assert one.log_prob == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("temperature", [0.6, 1.0, 2.0])
def test_samples_are_as_frequent_as_they_are_probable(temperature: float) -> None:
    model, picture, samples = ToyModel(seed=3), pictures(1), 6_000
    search = Search(temperature=temperature, n_best=samples, max_words=2, seed=11)
    (found,) = decode(model, picture, search)
    counts = Counter((one.words, one.ended) for one in found)

    expected: dict[tuple[tuple[int, ...], bool], float] = {}
    memory, state = model.start(picture)

    def follow(state: Arrays, words: tuple[int, ...], probability: float) -> None:
        alpha, gate = model.look(memory, state)
        previous = np.array([words[-1] if words else model.start_word])
        state, (row,), (ids,) = model.advance(memory, state, alpha, gate, previous, 6)
        forbidden = {UNKNOWN, words[-1] if words else END}
        shares = {
            int(i): math.exp(value / temperature)
            for i, value in zip(ids, row, strict=True)
            if int(i) not in forbidden
        }
        for word, share in shares.items():
            part = probability * share / sum(shares.values())
            if word == END:
                expected[words, True] = part
            elif len(words) == 2:
                expected[words, False] = expected.get((words, False), 0) + part
            else:
                follow(state, (*words, word), part)

    follow(state, (), 1.0)
    assert sum(expected.values()) == pytest.approx(1)
    assert set(counts) <= set(expected)
    chi_square = sum((counts[k] - samples * p) ** 2 / (samples * p) for k, p in expected.items())
    freedom = len(expected) - 1
    assert chi_square < freedom + 4 * math.sqrt(2 * freedom)


def test_a_seed_gives_the_same_samples_again_and_another_seed_others() -> None:
    model, batch = ToyModel(), pictures(5)
    first, again, other = (
        decode(model, batch, Search(temperature=1.0, n_best=4, seed=seed)) for seed in (1, 1, 2)
    )
    assert all(all(map(same, a, b)) for a, b in zip(first, again, strict=True))
    assert [[one.words for one in ones] for ones in first] != [
        [one.words for one in ones] for ones in other
    ]


def test_words_are_drawn_among_the_likeliest_alone() -> None:
    model, picture = ToyModel(vocabulary_size=12, sharpness=0.3), pictures(1)
    memory, state = model.start(picture)
    first = (memory, state, *model.look(memory, state), np.array([model.start_word]))
    likeliest = model.advance(*first, best=4)[2][0].tolist()
    search = Search(temperature=1.0, n_best=300, max_words=1, among=4)
    (found,) = decode(model, picture, search)
    assert {one.words[0] for one in found} == set(likeliest) - {END, UNKNOWN}


def test_a_low_temperature_is_greedy() -> None:
    model, batch = ToyModel(), pictures(10)
    greedy = decode(model, batch, Search(beam=1))
    cold = decode(model, batch, Search(temperature=1e-4))
    assert all(same(a, b) for (a,), (b,) in zip(greedy, cold, strict=True))


def test_the_most_likely_look_is_at_one_place() -> None:
    for (found,) in decode(ToyModel(), pictures(5), Search(look="most-likely")):
        one_hot = np.eye(PLACES)[found.attention.argmax(axis=1)]
        np.testing.assert_array_equal(found.weights, one_hot)


def test_the_expected_look_is_the_attention_itself() -> None:
    for (found,) in decode(ToyModel(), pictures(5), Search()):
        np.testing.assert_array_equal(found.weights, found.attention)


def test_sampled_looks_are_as_frequent_as_attention_says() -> None:
    model, picture, samples = ToyModel(), pictures(1), 6_000
    search = Search(look="sampled", temperature=1.0, n_best=samples, max_words=1)
    (found,) = decode(model, picture, search)
    counts = sum(one.weights[0] for one in found)
    expected = samples * found[0].attention[0]
    assert counts.sum() == samples
    assert ((counts - expected) ** 2 / expected).sum() < 3 + 4 * math.sqrt(6)


def test_a_place_without_attention_is_never_sampled() -> None:
    model, picture = ToyModel(), pictures(1)
    picture[:, 2] = -np.inf
    (found,) = decode(model, picture, Search(look="sampled", temperature=1.0, n_best=500))
    assert all((one.weights[:, 2] == 0).all() for one in found)


def test_what_a_person_points_at_is_looked_at() -> None:
    model, picture = ToyModel(seed=2), pictures(1)

    def third_place(alpha: Floats, step: int, words: Integers) -> Floats:
        assert words.shape == (len(alpha), step)
        return np.broadcast_to(np.eye(PLACES)[2], alpha.shape)

    (found,) = decode(model, picture, Search(look=third_place))[0]
    model.logits[:] = model.logits[:, 2:3]  # now every place says what the third one says
    (wherever,) = decode(model, picture, Search())[0]
    assert found.words == wherever.words
    np.testing.assert_allclose(found.log_probs, wherever.log_probs)
    np.testing.assert_array_equal(found.weights, np.eye(PLACES)[[2] * len(found.words)])


def test_pointing_gets_the_words_so_far() -> None:
    heard: list[npt.NDArray[np.int64]] = []

    def listen(alpha: Floats, step: int, words: Integers) -> Floats:
        heard.append(np.array(words))
        return alpha

    (found,) = decode(ToyModel(end_bias=-6.0), pictures(1), Search(look=listen, max_words=6))[0]
    assert len(found.words) > 2
    for step in range(len(found.words)):
        assert found.words[:step] in [tuple(row) for row in heard[step].tolist()]


def test_weights_of_a_wrong_shape_are_refused() -> None:
    search = Search(look=lambda alpha, step, words: alpha[:, :2])
    with pytest.raises(UserError, match=r"shape \(1, 2\); it must be \(1, 4\)"):
        decode(ToyModel(), pictures(1), search)


def test_no_pictures_give_no_captions() -> None:
    assert decode(ToyModel(), pictures(0), Search()) == []


def test_ties_go_to_the_lower_index() -> None:
    model = ToyModel(sharpness=0.0, end_bias=0.0)  # all words equally likely
    (found,) = decode(model, pictures(1), Search(beam=3, n_best=3, min_words=2, max_words=2))
    assert [one.words for one in found] == [(2, 3), (2, 4), (2, 5)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beam": 0}, "beam is 0; it must be a whole number from 1 to 1,000"),
        ({"beam": -1}, "beam is -1; it must be a whole number from 1 to 1,000"),
        ({"beam": 100_000}, "beam is 100000; it must be a whole number from 1 to 1,000"),
        ({"beam": 10**9}, "beam is 1000000000; it must be a whole number from 1 to 1,000"),
        ({"beam": 10**5000}, "beam is a number of thousands of digits; it must be"),
        ({"beam": "3"}, "beam is '3', of type str; it must be a whole number from 1 to 1,000"),
        ({"beam": True}, "beam is True, of type bool; it must be a whole number"),
        ({"beam": 2.0}, "beam is 2.0, of type float; it must be a whole number"),
        ({"beam": None}, "beam is None, of type NoneType; it must be a whole number"),
        ({"beam": math.nan}, "beam is nan, of type float; it must be a whole number"),
        ({"n_best": 0}, "n_best is 0; it must be a whole number from 1 to 1,000"),
        ({"n_best": "1"}, "n_best is '1', of type str; it must be a whole number"),
        ({"n_best": 10**6}, "n_best is 1000000; it must be a whole number from 1 to 1,000"),
        (
            {"n_best": 10**6, "temperature": 1.0},
            "n_best is 1000000; it must be a whole number from 1 to 10,000",
        ),
        ({"beam": 2, "n_best": 3}, "n_best is 3; it must be at most beam (2)"),
        ({"length_power": -1.0}, "length_power is -1.0; it must be a number from 0 to 10"),
        ({"length_power": 1e9}, "length_power is 1000000000.0; it must be a number from 0 to 10"),
        ({"length_power": math.nan}, "length_power is nan; it must be a number from 0 to 10"),
        ({"length_power": "1"}, "length_power is '1', of type str; it must be a number"),
        ({"max_words": 0}, "max_words is 0; it must be a whole number from 1 to 1,000"),
        ({"max_words": 10**9}, "max_words is 1000000000; it must be a whole number from 1"),
        ({"max_words": 5.5}, "max_words is 5.5, of type float; it must be a whole number"),
        ({"min_words": 9, "max_words": 8}, "min_words is 9; it must be at most max_words (8)"),
        ({"min_words": -1}, "min_words is -1; it must be a whole number 0 or more"),
        ({"temperature": 0.0}, "temperature is 0.0; it must be a number from 0.0001 to 1,000"),
        ({"temperature": math.nan}, "temperature is nan; it must be a number from 0.0001 to 1,000"),
        ({"temperature": True}, "temperature is True, of type bool; it must be a number"),
        ({"among": 0}, "among is 0; it must be a whole number 1 or more"),
        ({"among": "5"}, "among is '5', of type str; it must be a whole number 1 or more"),
        (
            {"repetition_penalty": -1.0},
            "repetition_penalty is -1.0; it must be a number from 0 to 1,000",
        ),
        (
            {"repetition_penalty": math.inf},
            "repetition_penalty is inf; it must be a number from 0 to 1,000",
        ),
        ({"consensus": -1}, "consensus is -1; it must be a whole number from 0 to 1,000"),
        ({"consensus": 10**6}, "consensus is 1000000; it must be a whole number from 0 to 1,000"),
        ({"consensus": False}, "consensus is False, of type bool; it must be a whole number"),
        ({"seed": -1}, "seed is -1; it must be a whole number 0 or more"),
        ({"seed": 1.5}, "seed is 1.5, of type float; it must be a whole number 0 or more"),
        ({"allow_unknown": "no"}, "allow_unknown is 'no', of type str; it must be True or False"),
        ({"allow_repeats": 1}, "allow_repeats is 1, of type int; it must be True or False"),
        ({"look": "hard"}, "look is 'hard'; it must be one of expected, most-likely, sampled"),
        ({"look": ["sampled"]}, "look is ['sampled']; it must be one of expected"),
    ],
)
def test_an_impossible_search_is_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        Search(**wrong)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)
    assert caught.value.code == "request.bad"


def test_numbers_of_numpy_are_kept_as_pythons() -> None:
    search = Search(beam=np.int64(3), length_power=np.float32(0.5), temperature=None)
    assert search == Search(beam=3, length_power=0.5)
    assert (type(search.beam), type(search.length_power)) == (int, float)
