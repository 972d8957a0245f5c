"""Words of captions against words of references: counts by hand, and a sign that says which way."""

import math

import pytest

from show_attend_tell.scoring.analysis.usage import compare_words


def test_rates_are_of_a_thousand_words_and_surplus_is_dunning_s() -> None:
    generated, references = ["a dog runs ."] * 2, ["A dog sleeps .", "a cat sleeps", "a cow sleeps"]
    used = {one.word: one for one in compare_words(generated, references)}
    assert (used["dog"].generated, used["dog"].reference) == pytest.approx((1000 / 3, 1000 / 9))
    expected = 2 * (2 * math.log(2 / (3 * 6 / 15)) + 1 * math.log(1 / (3 * 9 / 15)))
    assert used["dog"].surplus == pytest.approx(expected)
    assert used["a"].surplus == pytest.approx(0)
    assert "." not in used


def test_words_are_ranked_by_how_surely_they_differ_not_by_their_ratio() -> None:
    generated = ["dog"] * 50 + ["emu"] + ["man"] * 49
    references = ["dog"] * 20 + ["man"] * 79 + ["cat"]
    assert [one.word for one in compare_words(generated, references)] == [
        "dog",
        "emu",
        "cat",
        "man",
    ]


def test_no_words_are_compared_too() -> None:
    (one,) = compare_words([""], ["dog"])
    assert (one.generated, one.reference, one.surplus) == (0, 1000, 0)
