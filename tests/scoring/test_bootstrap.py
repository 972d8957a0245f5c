"""Intervals and comparisons, against doing them the long way."""

import numpy as np
import pytest

from show_attend_tell.errors import UserError
from show_attend_tell.scoring import Measured, compare, intervals, measure, score_captions

WORDS = ("a", "dog", "runs", "fast", "in", "the", "snow", "cat")


def made_up(pictures: int, seed: int) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Captions that share about half of their words with their references."""
    random = np.random.default_rng(seed)
    references = {
        str(k): [" ".join(random.choice(WORDS, size=6)) for _ in range(3)] for k in range(pictures)
    }
    captions = {
        id_: " ".join(own[0].split()[:3] + random.choice(WORDS, size=3).tolist())
        for id_, own in references.items()
    }
    return captions, references


def of_rows(rows: list[float], name: str = "mean") -> dict[str, Measured]:
    columns = np.column_stack([rows, np.ones(len(rows))])
    ids = tuple(map(str, range(len(rows))))
    return {name: Measured(name, ids, columns, lambda s: s[..., 0] / s[..., 1], "sig")}


def test_the_interval_of_a_mean_is_that_of_its_standard_error() -> None:
    rows = np.random.default_rng(0).normal(size=2000).tolist()
    low, high = intervals(of_rows(rows), resamples=2000)["mean"]
    margin = 1.96 * np.std(rows) / 2000**0.5
    assert (low, high) == pytest.approx((np.mean(rows) - margin, np.mean(rows) + margin), abs=0.005)


def test_resampling_the_rows_equals_scoring_the_resampled_captions() -> None:
    captions, references = made_up(12, seed=1)
    measured = measure(captions, references, metrics=["BLEU-2", "ROUGE-L"])
    drawn = np.random.default_rng(2).integers(12, size=12)
    names = [measured["BLEU-2"].ids[k] for k in drawn]
    again = measure(
        {str(k): captions[name] for k, name in enumerate(names)},
        {str(k): references[name] for k, name in enumerate(names)},
        metrics=["BLEU-2", "ROUGE-L"],
    )
    for name, one in measured.items():
        assert float(one.formula(one.rows[drawn].sum(axis=0))) == pytest.approx(again[name].value)


def test_an_interval_holds_its_value_and_repeats_with_its_seed() -> None:
    captions, references = made_up(60, seed=3)
    first = score_captions(captions, references, resamples=200, seed=5)
    assert all(
        score.low is not None and score.high is not None and score.low < score.value < score.high
        for score in first.values()
    )
    assert score_captions(captions, references, resamples=200, seed=5) == first
    assert score_captions(captions, references, resamples=200, seed=6) != first


def test_a_system_does_not_differ_from_itself() -> None:
    measured = measure(*made_up(20, seed=4))
    for one in compare(measured, measured, resamples=50, trials=50).values():
        assert (one.difference, one.low, one.high, one.p_value) == (0, 0, 0, 1)


def test_the_p_value_is_the_share_of_swaps_that_do_as_well() -> None:
    """Of the 16 ways to swap four equal gains, only all and none reach the difference seen."""
    comparison = compare(of_rows([1, 1, 1, 1]), of_rows([0, 0, 0, 0]), trials=20_000)["mean"]
    assert comparison.p_value == pytest.approx(2 / 16, abs=0.01)


def test_a_clear_difference_is_found_and_noise_is_not() -> None:
    random = np.random.default_rng(7)
    base = random.normal(size=300)
    better = (base + 0.5 + 0.1 * random.normal(size=300)).tolist()
    alike = (base + 0.1 * random.normal(size=300)).tolist()
    clear = compare(of_rows(better), of_rows(base.tolist()), trials=999)["mean"]
    noise = compare(of_rows(alike), of_rows(base.tolist()), trials=999)["mean"]
    assert clear.p_value == 1 / 1000
    assert 0 < clear.low < clear.difference < clear.high
    assert noise.low < 0 < noise.high


def test_the_comparison_turned_round_has_the_same_p_value() -> None:
    captions, references = made_up(30, seed=8)
    first = measure(captions, references, metrics=["BLEU-1"])
    other = {id_: text.replace("dog", "cat") for id_, text in captions.items()}
    second = measure(other, references, metrics=["BLEU-1"])
    one = compare(first, second, trials=200)["BLEU-1"]
    two = compare(second, first, trials=200)["BLEU-1"]
    assert (one.difference, one.p_value) == (-two.difference, two.p_value)


def test_systems_measured_differently_are_not_compared() -> None:
    captions, references = made_up(5, seed=9)
    first = measure(captions, references, metrics=["BLEU-1"])
    with pytest.raises(UserError, match="not measured alike"):
        compare(first, measure(captions, references, metrics=["BLEU-1"], protocol="plain"))
    with pytest.raises(UserError, match="nothing"):
        compare(first, measure(captions, references, metrics=["BLEU-2"]))
