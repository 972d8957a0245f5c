"""The animation: one picture, word by word, as a GIF, over its caption."""

import io

from PIL import Image, ImageDraw
from PIL.ImageColor import getrgb

from show_attend_tell.captioning.caption import Caption
from show_attend_tell.drawing.figure import ACCENT, INK, PAPER, TRACK, check_has_words
from show_attend_tell.drawing.lettering import Font, Lettering, pieces, shortened
from show_attend_tell.drawing.light import check_map, lit, resized

# In pixels.
LONGEST_SIDE = 480
LEAST_WIDTH = 320  # of the frame: a sentence below a narrow picture needs room
MARGIN, LETTERS, LINE, BAR = 16, 22, 34, 3

FAINT = "#8c8a84"  # the words of other frames
FIRST, EACH, LAST = 1500, 700, 1800  # how long a frame is seen, in milliseconds


def animate(caption: Caption, picture: Image.Image) -> bytes:
    """Make a GIF: the picture with its caption, then each word with what it looked at lit.

    Parameters
    ----------
    caption
        A caption of this picture.
    picture
        The whole upright picture, at any scale.

    Raises
    ------
    UserError
        `request.picture`: the picture has another shape than the captioned one;
        `request.caption`: there are no words.
    """
    check_has_words(caption)
    check_map(caption, picture)
    small = resized(picture, LONGEST_SIDE / max(picture.size))
    tiles = [small] + [lit(small, caption, weights) for weights in caption.attention]
    coded = [
        _in_few_colours(_frame(tile, caption, index - 1), tile) for index, tile in enumerate(tiles)
    ]
    stream = io.BytesIO()
    coded[0].save(
        stream,
        "GIF",
        save_all=True,
        append_images=coded[1:],
        duration=[FIRST, *[EACH] * (len(coded) - 2), LAST],
        loop=0,
    )
    return stream.getvalue()


def _frame(tile: Image.Image, caption: Caption, current: int) -> Image.Image:
    """A picture over the caption, with the word `current` highlighted; at -1 none is."""
    width = max(tile.width, LEAST_WIDTH)
    lettering = Lettering([caption.text, *caption.words])
    font = lettering.font(LETTERS)
    words = [lettering.spell(piece) for piece in pieces(caption)]
    places, lines = _flow(words, font, width - 2 * MARGIN)
    frame = Image.new("RGB", (width, tile.height + lines * LINE + 2 * MARGIN), PAPER)
    frame.paste(tile, ((width - tile.width) // 2, 0))
    pen = ImageDraw.Draw(frame)
    for index, (word, (x, line)) in enumerate(zip(words, places, strict=True)):
        word = shortened(word.lstrip(), font, width - 2 * MARGIN)
        left, top = MARGIN + x, tile.height + MARGIN + line * LINE
        pen.text((left, top), word, INK if current in (-1, index) else FAINT, font)
        if current == index:
            long = font.getlength(word)
            low = top + LINE - 2 * BAR
            pen.rectangle((left, low, left + long, low + BAR - 1), TRACK)
            share = float(caption.gates[index])
            pen.rectangle((left, low, left + share * long, low + BAR - 1), ACCENT)
    return frame


def _in_few_colours(frame: Image.Image, tile: Image.Image) -> Image.Image:
    """The frame in 256 colours: most are chosen for its own picture, some are those of the text.

    One palette for all frames would show steps in the shadows.
    """
    text = [value for colour in (PAPER, INK, FAINT, TRACK, ACCENT) for value in getrgb(colour)]
    small = tile.resize((max(1, tile.width // 2), max(1, tile.height // 2)))  # four times faster
    own = small.quantize(256 - len(text) // 3).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette(text + own)
    return frame.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)


def _flow(words: list[str], font: Font, width: int) -> tuple[list[tuple[float, int]], int]:
    """Where each piece of a sentence stands, x and line, and how many lines there are."""
    places: list[tuple[float, int]] = []
    x, line = 0.0, 0
    for word in words:
        space = font.getlength(" ") if word.startswith(" ") else 0
        long = font.getlength(word.lstrip())
        if x and x + space + long > width:
            x, line, space = 0.0, line + 1, 0
        places.append((x + space, line))
        x += space + long
    return places, line + 1
