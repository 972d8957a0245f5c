"""Light: it falls where the word looked, on whatever picture."""

import io
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ExifTags, Image

from show_attend_tell.captioning.caption import Looked
from show_attend_tell.captioning.model import Floats
from show_attend_tell.data.pictures import Crop, Preprocessing, crop_of, open_picture
from show_attend_tell.drawing import attention_map, light, overlay
from show_attend_tell.drawing.light import lit
from show_attend_tell.errors import UserError
from tests.drawing.cases import PAPER, SIZES, SQUEEZE, caption_of, grey, looking_at


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


# The lit picture


def test_the_lit_picture_is_lightest_where_the_weight_is_largest_and_upright() -> None:
    """A photograph that a camera stored turned, as the captioner and the drawing see it."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    stream = io.BytesIO()
    grey((160, 90)).save(stream, "JPEG", exif=exif)
    picture = open_picture(stream.getvalue())
    caption = caption_of("a dog", picture.size)
    caption.attention[0] = looking_at(6, 1, (7, 5))
    shown = np.asarray(lit(picture, caption, caption.attention[0]))[:, :, 0]
    y, x = np.unravel_index(shown.argmax(), shown.shape)
    x0, y0, x1, y1 = caption.crop.cell(6, 1, (7, 5))
    assert picture.size == (90, 160)
    assert x0 <= x + 0.5 <= x1
    assert y0 <= y + 0.5 <= y1


def test_a_large_picture_is_lit_as_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    caption = caption_of("a")
    whole = lit(grey(), caption, caption.attention[0])
    monkeypatch.setattr(light, "BAND", 7)
    assert lit(grey(), caption, caption.attention[0]) == whole


def marked(picture: Image.Image) -> npt.NDArray[np.bool_]:
    """Where the outline of a cell lies."""
    return np.abs(np.asarray(picture).astype(int) - (255, 196, 92)).sum(axis=2) < 30


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("cell", [(0, 0), (6, 1), (2, 4)])
def test_the_cell_that_hard_attention_chose_is_outlined(
    size: tuple[int, int], cell: tuple[int, int]
) -> None:
    caption = replace(caption_of("dog", size), look="most-likely")
    caption.attention[:] = 0
    caption.attention[0][cell] = 1
    y, x = np.nonzero(marked(lit(grey(size), caption, caption.attention[0])))
    expected = caption.crop.cell(*cell, (7, 5))
    np.testing.assert_allclose((x.min(), y.min(), x.max() + 1, y.max() + 1), expected, atol=1)


@pytest.mark.parametrize("look", ["expected", "pointed"])
def test_a_word_that_weighed_all_places_has_no_outline(look: Looked) -> None:
    caption = replace(caption_of("dog"), look=look)
    assert not marked(lit(grey(), caption, caption.attention[0])).any()


# The overlay


def test_an_overlay_has_the_size_of_the_picture() -> None:
    assert overlay(caption_of("a dog"), grey((1600, 900)), "dog").size == (1600, 900)


def test_an_overlay_lights_where_the_word_looked_each_time_it_was_told() -> None:
    caption = caption_of("a dog a cat", preprocessing=SQUEEZE)
    shown = np.asarray(overlay(caption, grey(), "A"))[:, :, 0].astype(int)

    def at(row: int, column: int) -> int:
        x0, y0, x1, y1 = caption.crop.cell(row, column, (7, 5))
        return int(shown[int((y0 + y1) / 2), int((x0 + x1) / 2)])

    assert min(at(0, 0), at(2, 2)) > 20 + max(at(0, 4), at(6, 0), at(5, 4))


def test_a_word_that_was_not_told_is_answered_with_those_that_were() -> None:
    with pytest.raises(UserError, match="its words are: a, dog, runs") as refused:
        overlay(caption_of("a dog runs a"), grey(), "cat")
    assert refused.value.code == "request.word"


def test_a_caption_without_words_has_no_overlay() -> None:
    with pytest.raises(UserError, match="its words are: none"):
        overlay(caption_of(""), grey(), "cat")
