"""Words told against words said: counts by hand, and a sign that says which way."""

import math

import pytest

from show_attend_tell.scoring.analysis.usage import compare_words


def test_rates_are_of_a_thousand_words_and_surplus_is_dunning_s() -> None:
    told, said = ["a dog runs ."] * 2, ["A dog sleeps .", "a cat sleeps", "a cow sleeps"]
    used = {one.word: one for one in compare_words(told, said)}
    assert (used["dog"].told, used["dog"].said) == pytest.approx((1000 / 3, 1000 / 9))
    expected = 2 * (2 * math.log(2 / (3 * 6 / 15)) + 1 * math.log(1 / (3 * 9 / 15)))
    assert used["dog"].surplus == pytest.approx(expected)
    assert used["a"].surplus == pytest.approx(0)
    assert "." not in used


def test_words_are_ranked_by_how_surely_they_differ_not_by_their_ratio() -> None:
    told = ["dog"] * 50 + ["emu"] + ["man"] * 49
    said = ["dog"] * 20 + ["man"] * 79 + ["cat"]
    assert [one.word for one in compare_words(told, said)] == ["dog", "emu", "cat", "man"]


def test_nothing_told_is_compared_too() -> None:
    (one,) = compare_words([""], ["dog"])
    assert (one.told, one.said, one.surplus) == (0, 1000, 0)
