"""The figure: a tile for each word, light where it looked."""

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from show_attend_tell.drawing import draw
from show_attend_tell.drawing.figure import MOST_COLUMNS, TILE_WIDTH
from show_attend_tell.errors import UserError
from tests.drawing.cases import SQUEEZE, caption_of, grey, with_metadata


def tiles_of(figure: Image.Image, tile: tuple[int, int]) -> list[npt.NDArray[np.uint8]]:
    """What lies in each place of the figure that is not paper, row by row."""
    pixels = np.asarray(figure)
    dark = pixels.max(axis=2) < 200
    width, height = tile
    corners = dark.copy()  # dark, with paper above and to the left
    corners[1:] &= ~dark[:-1]
    corners[:, 1:] &= ~dark[:, :-1]
    found = zip(*np.nonzero(corners), strict=True)
    tiles = [pixels[y : y + height, x : x + width] for y, x in found]
    return [tile for tile in tiles if tile.shape[:2] == (height, width) and (tile < 200).all()]


SMALL = (TILE_WIDTH, TILE_WIDTH * 90 // 160)


@pytest.mark.parametrize("words", [0, 1, MOST_COLUMNS - 1, MOST_COLUMNS, 12])
def test_a_figure_has_a_tile_for_the_picture_and_one_for_each_word(words: int) -> None:
    figure = draw(caption_of("a " * words), grey())
    assert figure.mode == "RGB"
    assert len(tiles_of(figure, SMALL)) == words + 1


def test_tiles_wrap_into_rows() -> None:
    long, short = (draw(caption_of("a " * words), grey()) for words in (20, 4))
    assert long.width == short.width
    assert long.height > short.height + 3 * SMALL[1]


def test_the_first_tile_is_the_picture_itself() -> None:
    first, *_ = tiles_of(draw(caption_of("a dog"), grey()), SMALL)
    assert (first == 128).all()


def test_a_tile_is_lightest_where_its_word_looked() -> None:
    caption = caption_of("a dog runs", preprocessing=SQUEEZE)
    _, *tiles = tiles_of(draw(caption, grey()), SMALL)
    for index, tile in enumerate(tiles):
        y, x = np.unravel_index(tile[:, :, 0].argmax(), tile.shape[:2])
        assert (y * 7 // tile.shape[0], x * 5 // tile.shape[1]) == (index, index)


def test_what_the_crop_left_out_is_darker_than_what_was_seen() -> None:
    caption = caption_of("a")
    _, tile = tiles_of(draw(caption, grey()), SMALL)
    edge = int(caption.crop.x0 * TILE_WIDTH / 160)
    seen = tile[SMALL[1] // 2, edge + 1 : -edge - 1]
    assert tile[:, :edge].mean() < seen.min()


def test_the_bar_under_a_tile_is_as_long_as_the_gate() -> None:
    def accent(gate: float) -> int:
        pixels = np.asarray(draw(caption_of("a", gates=gate), grey())).astype(int)
        return int((pixels[:, :, 0] - pixels[:, :, 2] > 100).sum())

    assert accent(0.0) == 0
    assert accent(0.5) * 2 == accent(1.0) > 0


def test_a_long_word_stays_over_its_tile() -> None:
    pixels = np.asarray(draw(caption_of("w" * 200), grey()))
    assert (pixels[:, -20:] == 255).all()


@pytest.mark.parametrize("size", [(1, 1), (3000, 10), (10, 3000)])
def test_odd_pictures_can_be_drawn(size: tuple[int, int]) -> None:
    assert draw(caption_of("a dog", size), grey(size)).width > TILE_WIDTH


def test_a_smaller_copy_of_the_picture_draws_alike() -> None:
    whole = draw(caption_of("a dog", (1600, 900)), grey((1600, 900)))
    assert whole == draw(caption_of("a dog", (1600, 900)), grey((320, 180)))


@pytest.mark.parametrize("size", [(90, 160), (160, 120)])
def test_a_picture_of_another_shape_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(UserError, match="160 × 90") as refused:
        draw(caption_of("a dog", (160, 90)), grey(size))
    assert refused.value.code == "request.picture"


def test_nothing_that_came_with_the_file_is_in_the_figure() -> None:
    assert draw(caption_of("a dog"), with_metadata()).info == {}
