"""The paper's figures: a picture, then one tile for each word with what it looked at lit.

One picture makes a figure; several, or one captioned by several models, make a sheet, one block
below the other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from PIL import Image, ImageDraw

from show_attend_tell.captioning.caption import Caption
from show_attend_tell.captioning.captioner import Picture, open_given
from show_attend_tell.data.pictures import Crop
from show_attend_tell.drawing.items import Item
from show_attend_tell.drawing.lettering import Lettering, shortened, wrapped
from show_attend_tell.drawing.light import ONE_PLACE, check_map, lit, resized
from show_attend_tell.errors import UserError, printable

PAPER, INK, MUTED, TRACK, ACCENT = "#ffffff", "#1c1c1e", "#66645f", "#e3e0d9", "#b4690e"
NO_WORDS = "(no words)"


@dataclass(frozen=True)
class Sizes:
    """How large things are, in pixels at scale 1."""

    columns: int  # of tiles, at most
    tile: int  # width
    tallest: int  # tile
    title: int  # letters
    word: int
    note: int = 14
    margin: int = 24
    gap: int = 16
    bar: int = 5
    rule: int = 1

    @property
    def width(self) -> int:
        """Of a full row of tiles."""
        return self.columns * (self.tile + self.gap) - self.gap

    def scaled(self, scale: float) -> "Sizes":
        """The same with all lengths longer."""
        lengths = {name: round(x * scale) for name, x in vars(self).items() if name != "columns"}
        return replace(self, **lengths)


FIGURE = Sizes(columns=5, tile=224, tallest=336, title=26, word=19)
SHEET = Sizes(columns=8, tile=134, tallest=201, title=21, word=16)  # as wide as a full figure


def draw(caption: Caption, picture: Picture, *, scale: float = 2) -> Image.Image:
    """Draw the paper's figure: the picture, then a tile for each word with what it looked at lit.

    Parameters
    ----------
    caption
        A caption of this picture, perhaps at another scale.
    picture
        Whatever a captioner takes: a path, bytes, an open file, a Pillow image or an array.
    scale
        1 for about 1,200 pixels across; 2, for screens with small pixels and for print.

    Raises
    ------
    UserError
        `request.picture`: the picture has another shape than the captioned one;
        `request.caption`: there are no words; `picture.*`: the picture cannot be read.
    """
    check_has_words(caption)
    sizes = FIGURE.scaled(scale)
    lettering = Lettering([caption.text, *caption.words])
    block = _block("", caption, open_given(picture).image, sizes, lettering)
    return _stacked([block], [caption], sizes, lettering)


def sheet(items: Sequence[Item], *, scale: float = 2) -> Image.Image:
    """Draw small figures one below the other: of several pictures, or by several models.

    Parameters
    ----------
    items
        For each a name, a caption, and the whole upright picture at any scale.
    scale
        As of `draw`.

    Raises
    ------
    UserError
        `request.picture`: a picture has another shape than the captioned one.
    """
    sizes = SHEET.scaled(scale)
    captions = [caption for _, caption, _ in items]
    names = [printable(name) for name, _, _ in items]
    texts = [text for caption in captions for text in (caption.text, *caption.words)]
    lettering = Lettering([*names, *texts])
    blocks = [
        _block(name, caption, picture, sizes, lettering)
        for name, (_, caption, picture) in zip(names, items, strict=True)
    ]
    return _stacked(blocks, captions, sizes, lettering)


def check_has_words(caption: Caption) -> None:
    """Refuse a caption without words: there is nothing to draw."""
    if not caption.words:
        raise UserError(
            "request.caption",
            "the caption has no words, so there is nowhere that they looked; "
            "caption the picture with min_words of at least 1",
        )


def _block(
    name: str, caption: Caption, picture: Image.Image, sizes: Sizes, lettering: Lettering
) -> Image.Image:
    """One picture's name, caption and tiles, without a margin."""
    check_map(caption, picture)
    scale = min(sizes.tile / picture.width, sizes.tallest / picture.height)
    small = resized(picture, scale)
    tiles = [small] + [lit(small, caption, weights) for weights in caption.attention]
    step = max(small.width, sizes.tile // 2) + sizes.gap  # a word over a narrow picture needs room
    fitting = (sizes.width + sizes.gap) // step
    rows = math.ceil(len(tiles) / fitting)
    # A figure of its own has rows of one length and is no wider; on a sheet tiles lie on one grid.
    columns = fitting if name else math.ceil(len(tiles) / rows)
    width = sizes.width if name else columns * step - sizes.gap

    title_font, word_font, note_font = (
        lettering.font(size) for size in (sizes.title, sizes.word, sizes.note)
    )
    note = " · ".join(filter(None, (name, ONE_PLACE.get(caption.look))))
    note = shortened(lettering.spell(note), note_font, width)
    title = wrapped(lettering.spell(caption.text or NO_WORDS), title_font, width)
    title_line, word_line = round(1.3 * sizes.title), round(1.6 * sizes.word)
    title_top = round(1.6 * sizes.note) if note else 0
    tiles_top = title_top + title_line * len(title) + sizes.word // 2
    row_height = word_line + small.height + 2 * sizes.bar + sizes.gap

    block = Image.new("RGB", (width, tiles_top + rows * row_height), PAPER)
    pen = ImageDraw.Draw(block)
    pen.text((0, 0), note, MUTED, note_font)
    for line, text in enumerate(title):
        pen.text((0, title_top + title_line * line), text, INK, title_font)
    for index, tile in enumerate(tiles):
        x, y = index % columns * step, tiles_top + index // columns * row_height
        block.paste(tile, (x, y + word_line))
        if index:
            word = shortened(lettering.spell(caption.words[index - 1]), word_font, step - sizes.gap)
            pen.text((x, y + word_line - 0.4 * sizes.word), word, INK, word_font, anchor="ls")
            bar = (x, y + word_line + small.height + sizes.bar, small.width, sizes.bar)
            _draw_bar(pen, *bar, float(caption.gates[index - 1]))
    return block


def _draw_bar(
    pen: ImageDraw.ImageDraw, x: int, y: int, width: int, height: int, share: float
) -> None:
    pen.rectangle((x, y, x + width - 1, y + height - 1), TRACK)
    if filled := round(share * width):
        pen.rectangle((x, y, x + filled - 1, y + height - 1), ACCENT)


def _stacked(
    blocks: Sequence[Image.Image], captions: Sequence[Caption], sizes: Sizes, lettering: Lettering
) -> Image.Image:
    """The blocks with rules between them, margins around, and a legend."""
    width = max(block.width for block in blocks)
    font = lettering.font(sizes.note)
    legend = wrapped(_legend(captions, lettering), font, width)
    line = round(1.4 * sizes.note)
    between = 2 * sizes.gap
    height = sum(block.height + between for block in blocks) - between
    figure = Image.new(
        "RGB",
        (width + 2 * sizes.margin, height + sizes.bar + line * len(legend) + 2 * sizes.margin),
        PAPER,
    )
    pen = ImageDraw.Draw(figure)
    y = sizes.margin
    for index, block in enumerate(blocks):
        if index:
            rule = y - between // 2 - sizes.gap // 2
            pen.rectangle(
                (sizes.margin, rule, sizes.margin + width - 1, rule + sizes.rule - 1), TRACK
            )
        figure.paste(block, (sizes.margin, y))
        y += block.height + between
    for number, text in enumerate(legend):
        pen.text((sizes.margin, y - between + sizes.bar + line * number), text, MUTED, font)
    return figure


def _legend(captions: Sequence[Caption], lettering: Lettering) -> str:
    parts = ["Light: where the word looked."]
    if any(caption.look in ONE_PLACE for caption in captions):
        parts.append("Outlined: the one place it looked at.")
    parts.append("Bar: how much the picture counted (beta).")
    if any(caption.crop != Crop(0, 0, *caption.picture_size) for caption in captions):
        parts.append("Hatched: outside the model's input.")
    if lettering.lacks:
        parts.append("?: a letter that no typeface here has.")
    return " ".join(parts)
