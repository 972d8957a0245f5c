"""Attention health: dead attention differs from live attention."""

import math

import numpy as np
import pytest

from show_attend_tell.scoring.analysis.health import (
    AttendedCaption,
    coverage,
    gates_of_words,
    measure_health,
    over_time,
)

GATES = np.array([0.2, 0.8, 0.5])
WORDS = ("a", "dog", ".")


def watched(*places: int, gates: np.ndarray = GATES) -> AttendedCaption:
    return AttendedCaption(WORDS, np.eye(4)[list(places)], gates)


def test_even_attention_is_not_sharp() -> None:
    health = measure_health([AttendedCaption(WORDS, np.full((3, 4), 0.25), GATES)] * 2)
    assert health.entropy == pytest.approx(math.log(4))
    assert (health.sharpness, health.change, health.likeness) == pytest.approx((0, 0, 1))


def test_attention_on_single_places_that_moves_is_alive() -> None:
    health = measure_health([watched(0, 1, 2), watched(3, 0, 1)])
    assert (health.words, health.entropy) == (6, 0)
    assert (health.sharpness, health.change, health.likeness) == pytest.approx((1, 1, 0))


def test_half_of_the_weight_moving_is_a_change_of_a_half() -> None:
    weights = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])
    assert measure_health(
        [AttendedCaption(("a", "b"), weights, np.ones(2))]
    ).change == pytest.approx(0.5)


def test_captions_of_different_lengths_are_compared_as_far_as_both_go() -> None:
    long = watched(0, 1, 2)
    short = AttendedCaption(("dog",), np.eye(4)[[0]], np.ones(1))
    assert measure_health([long, short]).likeness == pytest.approx(1)


def test_gates_are_means_by_word_class() -> None:
    gates = measure_health([watched(0, 1, 2), watched(0, 1, 2, gates=np.array([0.4, 0.6, 0.5]))])
    assert gates.gates == pytest.approx({"content": 0.7, "function": 0.3, "punctuation": 0.5})


def test_moments_are_means_over_the_captions_that_go_so_far() -> None:
    even = AttendedCaption(("dog",), np.full((1, 4), 0.25), np.array([0.6]))
    first, second, third = over_time([watched(0, 0, 1), even])
    assert (first.captions, first.change) == (2, None)
    assert (first.entropy, first.gate) == pytest.approx((math.log(4) / 2, 0.4))
    assert (second.captions, second.change, third.change) == (1, 0, 1)


def test_coverage_sums_over_words_and_is_a_mean_over_captions() -> None:
    found = coverage([watched(0, 0, 1), watched(0, 3, 3)])
    assert found.tolist() == [1.5, 0.5, 0, 1]


def test_gates_of_words_leave_out_rare_words() -> None:
    rare = AttendedCaption(("emu",), np.eye(4)[[0]], np.ones(1))
    found = gates_of_words([watched(0, 1, 2), watched(0, 1, 2), rare], least=2)
    assert list(found) == ["dog", ".", "a"]
    assert found["dog"] == pytest.approx(0.8)
