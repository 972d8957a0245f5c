"""Grounding: attention against boxes, worked by hand and against a fine raster."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from show_attend_tell.errors import UserError
from show_attend_tell.scoring.analysis.grounding import GroundedWord, covered, measure_grounding
from show_attend_tell.scoring.score import score_measured

LEFT_HALF = np.array([[0.0, 0.0, 0.5, 1.0]])
sides = st.integers(-20, 120).map(lambda value: value / 100)
boxes = st.lists(st.tuples(sides, sides, sides, sides), min_size=1, max_size=4)


def at(cell: tuple[int, int], grid: tuple[int, int] = (4, 4)) -> np.ndarray:
    weights = np.zeros(grid)
    weights[cell] = 1
    return weights


@given(boxes, st.integers(1, 5), st.integers(1, 5))
def test_the_covered_share_is_that_of_a_fine_raster(
    corners: list[tuple[float, ...]], rows: int, columns: int
) -> None:
    found = np.array([(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in corners])
    fine = 300  # divisible by every grid and by the hundredths that boxes end at
    middles = (np.arange(fine) + 0.5) / fine
    inside = np.zeros((fine, fine), bool)
    for x0, y0, x1, y1 in found:
        inside |= np.outer((y0 <= middles) & (middles < y1), (x0 <= middles) & (middles < x1))
    expected = [
        [part.mean() for part in np.array_split(strip, columns, axis=1)]
        for strip in np.array_split(inside, rows, axis=0)
    ]
    np.testing.assert_allclose(covered(found, (rows, columns)), expected, atol=1e-9)


def test_all_attention_in_the_box_is_all_of_it() -> None:
    scores = measure_grounding([GroundedWord("a", at((2, 1)), LEFT_HALF)])
    assert (scores["mass"].value, scores["pointing"].value) == (1, 1)


def test_attention_beside_the_box_is_none_of_it() -> None:
    scores = measure_grounding([GroundedWord("a", at((2, 2)), LEFT_HALF)])
    assert (scores["mass"].value, scores["pointing"].value) == (0, 0)


def test_even_attention_has_the_share_of_the_area() -> None:
    word = GroundedWord("a", np.full((4, 4), 1 / 16), np.array([[0.0, 0.0, 0.6, 0.5]]))
    scores = measure_grounding([word])
    assert scores["mass"].value == scores["mass-even"].value == pytest.approx(0.3)
    # Two columns of centres and two rows of them lie inside: a quarter of all places.
    assert scores["pointing"].value == scores["pointing-even"].value == pytest.approx(4 / 16)


@pytest.mark.parametrize(("grid", "share"), [((4, 4), 0.5), ((5, 5), 0.0), ((3, 4), 0.5)])
def test_the_central_baseline_rests_on_the_middle_places(
    grid: tuple[int, int], share: float
) -> None:
    word = GroundedWord("a", at((0, 0), grid), np.array([[0.0, 0.0, 0.5, 1.0]]))
    scores = measure_grounding([word])
    assert scores["pointing-centre"].value == pytest.approx(share)
    assert scores["mass-centre"].value == pytest.approx(0.5)


def test_boxes_that_were_cropped_away_are_counted_and_left_out() -> None:
    beyond = np.array([[1.1, 0.0, 1.6, 1.0]])
    scores = measure_grounding(
        [GroundedWord("a", at((0, 0)), LEFT_HALF), GroundedWord("b", at((0, 0)), beyond)]
    )
    assert scores["mass"].value == 1
    assert "n:1|words:1|outside:1|grid:4x4" in scores["mass"].signature


def test_nothing_to_measure_is_an_error() -> None:
    with pytest.raises(UserError, match="no word"):
        measure_grounding([GroundedWord("a", at((0, 0)), np.array([[1.1, 0.0, 1.6, 1.0]]))])


def test_the_mean_is_over_words_and_the_order_of_pictures_does_not_matter() -> None:
    words = [
        GroundedWord("b", at((0, 0)), LEFT_HALF),
        GroundedWord("a", at((0, 3)), LEFT_HALF),
        GroundedWord("b", at((1, 0)), LEFT_HALF),
    ]
    one, other = measure_grounding(words), measure_grounding(words[::-1])
    assert one["mass"].value == other["mass"].value == pytest.approx(2 / 3)
    assert one["mass"].per_caption == {"a": 0, "b": 1}
    score = score_measured(one, resamples=1000)["mass"]
    assert score.low is not None and score.high is not None
    assert score.low <= score.value <= score.high
