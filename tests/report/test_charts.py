"""Charts: numbers land where they should, and no label lies on another."""

import re

import numpy as np
import pytest

from show_attend_tell.report import charts
from show_attend_tell.report.charts import Line
from show_attend_tell.scoring.analysis.calibration import Bin


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split() for pair in path[1:].split("L"))]


def test_a_line_rises_with_its_numbers_and_keeps_within_the_drawing() -> None:
    line = Line("x", [(1, 0), (2, 5), (3, 10)], "generated")
    drawn = charts.lines("t", "s", [line], x_label="epoch", y=(0, 10))
    (path,) = re.findall(r'class="line generated" d="([^"]+)"', drawn)
    (x0, y0), (x1, y1), (x2, y2) = points(path)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)
    assert y2 == charts.TOP
    assert y0 == charts.HEIGHT - charts.BOTTOM
    assert 0 <= x0 < x2 <= charts.WIDTH


def test_labels_of_lines_that_end_together_lie_apart() -> None:
    drawn = charts.lines(
        "t",
        "s",
        [Line(name, [(1, 1), (2, 1)], "generated") for name in "abc"],
        x_label="",
        y=(0, 2),
    )
    heights = sorted(
        float(y) for y in re.findall(r'class="name generated" x="[^"]+" y="([^"]+)"', drawn)
    )
    assert np.diff(heights).min() >= charts.LABEL_HEIGHT - 0.11


@pytest.mark.parametrize("only", [[(3, 2.5)], [(1, 2.5), (1, 2.5)]])
def test_a_single_point_is_drawn(only: list[tuple[float, float]]) -> None:
    drawn = charts.lines(
        "t", "s", [Line("x", only, "generated", dotted=True)], x_label="", y=(0, 3)
    )
    assert "nan" not in drawn
    assert 'class="dot generated"' in drawn


def test_columns_are_as_high_as_their_shares() -> None:
    drawn = charts.columns(
        "t", "s", {"generated": {3: 0.2}, "reference": {3: 0.1, 5: 0.4}}, x_label=""
    )
    heights = {
        title: float(height)
        for height, title in re.findall(r'height="([\d.]+)"><title>([^<]+)<', drawn)
    }
    assert heights["3: 20.0%"] == pytest.approx(2 * heights["3: 10.0%"], abs=0.2)
    assert heights["5: 40.0%"] == pytest.approx(4 * heights["3: 10.0%"], abs=0.4)


def test_the_largest_place_of_a_map_is_yellow_and_the_least_blue() -> None:
    drawn = charts.heat_map("t", "s", np.array([[0.1, 0.9], [0.5, 0.2]]))
    colours = dict(
        (value, fill) for fill, value in re.findall(r'fill="(#\w+)"><title>([\d.]+)', drawn)
    )
    assert (colours["0.900"], colours["0.100"]) == ("#fee838", "#00224e")


def test_a_map_of_equal_places_has_one_colour() -> None:
    assert len(set(re.findall(r'fill="(#\w+)"', charts.heat_map("t", "s", np.ones((2, 3)))))) == 1


def test_a_calibrated_bin_lies_on_the_diagonal() -> None:
    drawn = charts.reliability_diagram("t", "s", [Bin(5, 0.25, 0.25), Bin(5, 0.75, 0.75)])
    (ideal,) = re.findall(r'class="ideal" d="([^"]+)"', drawn)
    (x0, y0), (x1, y1) = points(ideal)
    for x, y in re.findall(r'<circle class="generated" cx="([\d.]+)" cy="([\d.]+)"', drawn):
        share = (float(x) - x0) / (x1 - x0)
        assert float(y) == pytest.approx(y0 + share * (y1 - y0), abs=0.11)


def test_scores_of_zero_make_columns_without_height() -> None:
    drawn = charts.score_by_confidence("t", "s", [Bin(1, 0.5, 0.0)], ".2f")
    assert 'height="0.0"' in drawn


def test_captions_of_one_length_are_one_column() -> None:
    drawn = charts.columns("t", "s", {"generated": {7: 1.0}, "reference": {7: 1.0}}, x_label="")
    assert ">7</text>" in drawn


def test_a_line_of_zeros_on_an_axis_of_zeros_is_drawn() -> None:
    drawn = charts.lines("t", "s", [Line("x", [(1, 0), (2, 0)], "generated")], x_label="", y=(0, 0))
    assert 'class="line generated"' in drawn
