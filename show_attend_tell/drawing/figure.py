"""The paper's figure: a picture, then one tile for each word with what it looked at lit."""

import math

from PIL import Image, ImageDraw, ImageFont

from show_attend_tell.data.pictures import Crop
from show_attend_tell.drawing.light import crop_on, lit, refuse_another_shape, resized
from show_attend_tell.telling.caption import Caption

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

# All in pixels.
TILE_WIDTH = 224
TALLEST_TILE = 336
MOST_COLUMNS = 5
MARGIN, GAP = 24, 16
WORD_HEIGHT, BAR_HEIGHT = 28, 5
PAPER, INK, MUTED, TRACK, ACCENT = "#ffffff", "#1c1c1e", "#6b6a66", "#e6e4df", "#b4690e"


def draw(caption: Caption, picture: Image.Image) -> Image.Image:
    """Draw the paper's figure: the picture, then a tile for each word with what it looked at lit.

    Parameters
    ----------
    caption
        A caption of this picture.
    picture
        The whole upright picture, at any scale.

    Raises
    ------
    UserError
        `request.picture`: the picture has another shape than the captioned one.
    """
    refuse_another_shape(caption, picture)
    scale = min(TILE_WIDTH / picture.width, TALLEST_TILE / picture.height)
    small = resized(picture, scale)
    crop = crop_on(caption, small.size)
    tiles = [small] + [lit(small, weights, crop) for weights in caption.attention]
    rows = math.ceil(len(tiles) / MOST_COLUMNS)
    columns = math.ceil(len(tiles) / rows)
    width = 2 * MARGIN + columns * TILE_WIDTH + (columns - 1) * GAP
    row_height = WORD_HEIGHT + small.height + 6 + BAR_HEIGHT + GAP

    title_font, word_font, note_font = (ImageFont.load_default(size) for size in (26, 19, 14))
    title = _wrapped(caption.text, title_font, width - 2 * MARGIN)
    notes = _wrapped(_legend(caption), note_font, width - 2 * MARGIN)
    top = MARGIN + 34 * len(title) + 8
    foot = top + rows * row_height + 4

    figure = Image.new("RGB", (width, foot + 20 * len(notes) + MARGIN), PAPER)
    pen = ImageDraw.Draw(figure)
    for line, text in enumerate(title):
        pen.text((MARGIN, MARGIN + 34 * line), text, INK, title_font)
    for index, tile in enumerate(tiles):
        x = MARGIN + index % columns * (TILE_WIDTH + GAP)
        y = top + index // columns * row_height
        figure.paste(tile, (x, y + WORD_HEIGHT))
        if index:
            word = _shortened(caption.words[index - 1], word_font, TILE_WIDTH)
            pen.text((x, y + WORD_HEIGHT - 8), word, INK, word_font, anchor="ls")
            _draw_bar(pen, x, y + WORD_HEIGHT + small.height + 6, caption.gates[index - 1])
    for line, text in enumerate(notes):
        pen.text((MARGIN, foot + 20 * line), text, MUTED, note_font)
    return figure


def _legend(caption: Caption) -> str:
    width, height = caption.picture_size
    legend = "Light: where the word looked. Bar: how much the picture counted (beta)."
    if caption.crop != Crop(0, 0, width, height):
        legend += " Hatched: not seen."
    return legend


def _draw_bar(pen: ImageDraw.ImageDraw, x: int, y: int, share: float) -> None:
    pen.rectangle((x, y, x + TILE_WIDTH - 1, y + BAR_HEIGHT - 1), TRACK)
    if filled := round(share * TILE_WIDTH):
        pen.rectangle((x, y, x + filled - 1, y + BAR_HEIGHT - 1), ACCENT)


def _wrapped(text: str, font: Font, width: int) -> list[str]:
    """Lines of whole words, none wider than `width` pixels."""
    lines: list[str] = []
    for word in text.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(_shortened(word, font, width))
    return lines


def _shortened(word: str, font: Font, width: int) -> str:
    if font.getlength(word) <= width:
        return word
    while word and font.getlength(word + "…") > width:
        word = word[:-1]
    return word + "…"
