"""Light: it falls where the word looked, on whatever picture."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from show_attend_tell.data.pictures import Crop, Preprocessing, crop_of
from show_attend_tell.drawing import attention_map
from show_attend_tell.telling.model import Floats
from tests.drawing.cases import PAPER, SIZES, SQUEEZE, looking_at


@pytest.mark.parametrize("preprocessing", [PAPER, SQUEEZE], ids=["crop", "squeeze"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@given(row=st.integers(0, 6), column=st.integers(0, 8))
def test_the_brightest_pixel_lies_in_the_cell_looked_at(
    size: tuple[int, int], preprocessing: Preprocessing, row: int, column: int
) -> None:
    crop = crop_of(size, preprocessing)
    light = attention_map(looking_at(row, column, (7, 9)), size, crop)
    y, x = np.unravel_index(light.argmax(), light.shape)
    x0, y0, x1, y1 = crop.cell(row, column, (7, 9))
    assert x0 <= x + 0.5 <= x1
    assert y0 <= y + 0.5 <= y1


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_no_light_falls_outside_the_crop(size: tuple[int, int]) -> None:
    crop = crop_of(size, PAPER)
    light = attention_map(looking_at(0, 0, (14, 14)), size, crop)
    x, y = np.arange(size[0]) + 0.5, np.arange(size[1])[:, None] + 0.5
    inside = (crop.x0 <= x) & (x < crop.x1) & (crop.y0 <= y) & (y < crop.y1)
    assert not light[~inside].any()
    assert light[inside].all()


def test_light_runs_from_none_to_one() -> None:
    light = attention_map(looking_at(3, 3, (14, 14)), (160, 90), crop_of((160, 90), PAPER))
    assert light.shape == (90, 160)
    assert (light.min(), light.max()) == (0, 1)


def test_a_word_that_looked_everywhere_lights_the_whole_crop_alike() -> None:
    light = attention_map(np.full((14, 14), 1 / 196), (100, 80), Crop(20, 10, 80, 70))
    np.testing.assert_allclose(light[10:70, 20:80], 1, atol=1e-6)


def smoothed(values: Floats, sigma: float) -> Floats:
    """A Gaussian filter along the first axis, mirrored at the ends."""
    reach = round(4 * sigma)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    kernel /= kernel.sum()
    padded = np.pad(values, ((reach, reach), (0, 0)), mode="symmetric")
    return np.stack([np.convolve(line, kernel, mode="valid") for line in padded.T], axis=1)


def test_the_map_is_that_of_the_paper_upsampled_by_16_and_filtered() -> None:
    weights = np.random.default_rng(0).dirichlet(np.full(196, 0.1)).reshape(14, 14)
    paper = smoothed(smoothed(np.kron(weights, np.ones((16, 16))), 20).T, 20).T
    ours = attention_map(weights, (224, 224), Crop(0, 0, 224, 224))
    np.testing.assert_allclose(ours, paper / paper.max(), atol=0.002)


def test_a_word_that_looked_nowhere_is_dark() -> None:
    assert not attention_map(np.zeros((7, 7)), (20, 20), Crop(0, 0, 20, 20)).any()
