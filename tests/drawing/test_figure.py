"""The figure: a tile for each word, light where it looked."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageDraw

from show_attend_tell import drawing
from show_attend_tell.captioning.caption import Caption, Looked
from show_attend_tell.drawing import lettering, sheet
from show_attend_tell.drawing.figure import FIGURE, SHEET
from show_attend_tell.errors import UserError
from tests.drawing.cases import SQUEEZE, caption_of, grey, with_metadata

TILE_WIDTH, MOST_COLUMNS = FIGURE.tile, FIGURE.columns


def draw(caption: Caption, picture: Image.Image) -> Image.Image:
    return drawing.draw(caption, picture, scale=1)


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


@pytest.mark.parametrize("words", [1, MOST_COLUMNS - 1, MOST_COLUMNS, 12])
def test_a_figure_has_a_tile_for_the_picture_and_one_for_each_word(words: int) -> None:
    figure = draw(caption_of("a " * words), grey())
    assert figure.mode == "RGB"
    assert len(tiles_of(figure, SMALL)) == words + 1


def test_tiles_wrap_into_rows() -> None:
    long, short = (draw(caption_of("a " * words), grey()) for words in (20, 4))
    assert long.width == short.width  # of rows with five tiles
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


def test_twice_the_scale_has_twice_the_pixels() -> None:
    once = draw(caption_of("a dog"), grey())
    twice = drawing.draw(caption_of("a dog"), grey())
    np.testing.assert_allclose(twice.size, 2 * np.array(once.size), atol=8)


def test_a_caption_without_words_is_refused() -> None:
    with pytest.raises(UserError, match="no words") as refused:
        draw(caption_of(""), grey())
    assert refused.value.code == "request.caption"


def test_a_long_caption_wraps() -> None:
    once, thrice = (draw(caption_of("elephant " * words), grey()) for words in (4, 10))
    title = np.asarray(thrice)[: thrice.height - once.height].min(axis=(1, 2)) < 128
    assert thrice.width <= FIGURE.width + 2 * FIGURE.margin
    assert (np.diff(title.astype(int)) == 1).sum() >= 2  # lines of text, one below the other


@pytest.mark.parametrize("look", ["most-likely", "sampled"])
def test_a_figure_says_how_the_place_was_chosen(look: Looked, said: list[str]) -> None:
    draw(replace(caption_of("a dog"), look=look), grey())
    chosen = "the most likely" if look == "most-likely" else "sampled"
    assert f"one place for each word, {chosen}" in said


# The sheet


def test_a_sheet_shows_every_picture_with_its_name_and_its_caption(said: list[str]) -> None:
    items = [("one.jpg", caption_of("a dog"), grey()), ("two.jpg", caption_of("a cat"), grey())]
    shown = sheet(items, scale=1)
    assert len(tiles_of(shown, (SHEET.tile, round(SHEET.tile * 90 / 160)))) == 6
    assert {"one.jpg", "A dog.", "two.jpg", "A cat."} <= set(said)


def test_a_sheet_is_as_wide_as_a_full_figure() -> None:
    shown = sheet([("one.jpg", caption_of("a"), grey())] * 2, scale=1)
    assert shown.width == draw(caption_of("a " * 9), grey()).width


def test_a_sheet_tells_models_apart(said: list[str]) -> None:
    soft, hard = caption_of("a dog"), replace(caption_of("a cat"), look="most-likely")
    sheet([("soft", soft, grey()), ("hard", hard, grey())])
    assert "soft" in said
    assert "hard · one place for each word, the most likely" in said


def test_a_caption_without_words_has_its_place_on_a_sheet(said: list[str]) -> None:
    sheet([("one.jpg", caption_of(""), grey()), ("two.jpg", caption_of("a dog"), grey())])
    assert "(no words)" in said


# Letters


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written on figures, line by line."""
    lines: list[str] = []
    write = ImageDraw.ImageDraw.text

    def text(self: ImageDraw.ImageDraw, xy: Any, text: str, *more: Any, **options: Any) -> None:
        lines.append(text)
        write(self, xy, text, *more, **options)

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", text)
    return lines


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("ein mädchen läuft", "Ein madchen lauft."),
        ("собака бежит", "?????? ?????."),
        ("naïve 日本", "Naive ??."),
    ],
)
def test_letters_that_no_typeface_has_are_replaced_and_named(
    words: str, written: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lettering, "OTHERS", ("no such typeface.ttf",))
    draw(caption_of(words), grey())
    assert written in said
    assert ("?: a letter that no typeface here has" in " ".join(said)) is ("?" in written)


def test_another_typeface_of_the_machine_is_used_where_it_has_the_letters(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = lettering._lacking
    other = lettering.BUILT_IN.font_variant(size=21)
    monkeypatch.setattr(lettering, "_typefaces", lambda: iter((lettering.BUILT_IN, other)))
    monkeypatch.setattr(
        lettering,
        "_lacking",
        lambda face, text: lacking(face, text) if face is not other else set(),
    )
    draw(caption_of("ein mädchen"), grey())
    assert "Ein mädchen." in said
