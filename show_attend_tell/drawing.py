"""Drawing: where each word looked, as a picture like the paper's figures, and as a page.

The paper (section 5.4) upsamples the weights by the encoder's stride and smooths them with a
Gaussian. Here both are one step, computed at the pixels of the whole original picture; what the
encoder's crop left out is hatched: not seen.
"""

import base64
import hashlib
import html
import io
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from show_attend_tell.data.pictures import Crop
from show_attend_tell.errors import UserError
from show_attend_tell.telling.caption import Caption
from show_attend_tell.telling.model import Floats

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

SIGMA = 20 / 224  # as in the authors' figures: 20 pixels on a crop of 224
DIM = 0.75  # how far a place fades into the night that the word did not look at
GLOW = 0.25  # how far the place that it looked at most fades into white: dark pictures need it
UNSEEN = 0.86  # how far everything fades that the crop left out
NIGHT, STRIPE = 12, 42  # greys of 0..255

# The figure, in pixels.
TILE_WIDTH = 224
TALLEST_TILE = 336
MOST_COLUMNS = 5
MARGIN, GAP = 24, 16
WORD_HEIGHT, BAR_HEIGHT = 28, 5
PAPER, INK, MUTED, TRACK, ACCENT = "#ffffff", "#1c1c1e", "#6b6a66", "#e6e4df", "#b4690e"

# The page.
LONGEST_SIDE = 640  # of a picture, in pixels
SAMPLES_PER_CELL = 2  # of a map: the browser draws the rest of a smooth curve
PLACES = (
    ("upper left", "top", "upper right"),
    ("left", "centre", "right"),
    ("lower left", "bottom", "lower right"),
)


def attention_map(
    weights: Floats, size: tuple[int, int], crop: Crop, sigma: float = SIGMA
) -> npt.NDArray[np.float64]:
    """Spread the weights of one word over the whole picture.

    Parameters
    ----------
    weights
        (h, w): how much each cell of the grid was looked at.
    size
        Width and height of the picture in pixels.
    crop
        Where the grid lies on it, in the same pixels.
    sigma
        Standard deviation of the Gaussian, as a share of the crop's sides.

    Returns
    -------
    light
        (height, width): 1 where the word looked most, 0 outside the crop.

    >>> attention_map(np.ones((2, 2)), (4, 2), Crop(1, 0, 3, 2)).round(6)
    array([[0., 1., 1., 0.],
           [0., 1., 1., 0.]])
    """
    (rows, columns), (width, height) = weights.shape, size
    down = _spread(rows, height, crop.y0, crop.y1, sigma)  # (height, h)
    across = _spread(columns, width, crop.x0, crop.x1, sigma)  # (width, w)
    light: npt.NDArray[np.float64] = down @ weights.astype(np.float64) @ across.T
    return light / (light.max() or 1.0)


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
    _refuse_another_shape(caption, picture)
    scale = min(TILE_WIDTH / picture.width, TALLEST_TILE / picture.height)
    small = _resized(picture, scale)
    crop = _crop_on(caption, small.size)
    tiles = [small] + [_lit(small, weights, crop) for weights in caption.attention]
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


def page(items: Sequence[tuple[str, Caption, Image.Image]], title: str) -> str:
    """Write one HTML page that shows where each word looked as one moves through the words.

    It holds all it needs, asks the network for nothing, and forbids itself to.

    Parameters
    ----------
    items
        For each picture a name, its caption, and the whole upright picture at any scale.
    title
        The heading.

    Raises
    ------
    UserError
        `request.picture`: a picture has another shape than the captioned one.
    """
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash_of(STYLE)}'; "
        f"script-src '{_hash_of(SCRIPT)}'; base-uri 'none'; form-action 'none'"
    )
    figures = "\n".join(_figure(*item) for item in items)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{_escaped(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<svg class="patterns" width="0" height="0" aria-hidden="true"><pattern id="hatch" width="11"
 height="11" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="night"
 width="11" height="11"/><rect class="stripe" width="2" height="11"/></pattern></svg>
<header>
<h1>{_escaped(title)}</h1>
<p>Point at a word, touch it, or move through the words with the arrow keys: the picture stays
light where the model looked for that word. The line under a word says how much the picture
counted for it (β). What is hatched, the model never saw.</p>
</header>
<main>
{figures}
</main>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _spread(
    cells: int, pixels: int, start: float, end: float, sigma: float
) -> npt.NDArray[np.float64]:
    """How much each cell lends to each pixel along one side: (pixels, cells), zero off the crop.

    A cell is a box convolved with the Gaussian, that is a difference of two of its cumulative
    values. The grid is mirrored at both ends, so that no weight leaks out of the crop.
    """
    places = (np.arange(pixels) + 0.5 - start) / (end - start) * cells  # (pixels,), in cells
    edges = np.arange(-cells, 2 * cells + 1)
    below = _erf((edges - places[:, None]) / (sigma * cells * math.sqrt(2))) / 2
    left, middle, right = np.split(np.diff(below, axis=1), 3, axis=1)  # (pixels, cells) each
    share: npt.NDArray[np.float64] = left[:, ::-1] + middle + right[:, ::-1]
    share[(places < 0) | (places >= cells)] = 0
    return share


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _refuse_another_shape(caption: Caption, picture: Image.Image) -> None:
    (width, height), (full_width, full_height) = picture.size, caption.picture_size
    # Scaling rounds either side by less than a pixel.
    if abs(width / full_width - height / full_height) > 1 / full_width + 1 / full_height:
        raise UserError(
            "request.picture",
            f"the picture has {width} × {height} pixels, but the caption is of one of "
            f"{full_width} × {full_height}; give the picture that was captioned, upright",
        )


def _resized(picture: Image.Image, scale: float) -> Image.Image:
    """A copy in RGB without EXIF, comments or anything else that came with the file."""
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    copy = picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    copy.info.clear()
    return copy


def _crop_on(caption: Caption, size: tuple[int, int]) -> Crop:
    """The caption's crop on the picture scaled to `size`."""
    across, down = size[0] / caption.picture_size[0], size[1] / caption.picture_size[1]
    crop = caption.crop
    return Crop(crop.x0 * across, crop.y0 * down, crop.x1 * across, crop.y1 * down)


def _lit(picture: Image.Image, weights: Floats, crop: Crop) -> Image.Image:
    """The picture with what was looked at light, the rest dim, and what was not seen hatched."""
    width, height = picture.size
    grey, alpha = _veil(attention_map(weights, picture.size, crop))
    x, y = np.arange(width) + 0.5, np.arange(height)[:, None] + 0.5
    unseen = (x < crop.x0) | (x >= crop.x1) | (y < crop.y0) | (y >= crop.y1)
    grey[unseen] = np.where((x + y) % 8 < 2, STRIPE, NIGHT)[unseen]
    alpha[unseen] = UNSEEN
    pixels = np.asarray(picture, dtype=np.float64)
    shown = pixels + (grey[:, :, None] - pixels) * alpha[:, :, None]
    return Image.fromarray(shown.round().astype(np.uint8))


def _veil(
    light: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """What to lay over a picture, its grey and its alpha: night in the dark, a glow in the light.

    The glow is laid over the night; both together are one veil.
    """
    night, glow = DIM * (1 - light), GLOW * light**2
    alpha = 1 - (1 - night) * (1 - glow)
    return (NIGHT * night * (1 - glow) + 255 * glow) / alpha, alpha


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


def _figure(name: str, caption: Caption, picture: Image.Image) -> str:
    """One picture of the page, its maps, and its caption with a button for each word."""
    _refuse_another_shape(caption, picture)
    scale = LONGEST_SIDE / max(picture.size)
    width, height = (max(1, round(side * scale)) for side in picture.size)
    crop = _crop_on(caption, (width, height))
    box = f"{crop.x0:.2f} {crop.y0:.2f} {crop.x1:.2f} {crop.y1:.2f}".split()
    place = (
        f'x="{box[0]}" y="{box[1]}" width="{crop.x1 - crop.x0:.2f}" '
        f'height="{crop.y1 - crop.y0:.2f}" preserveAspectRatio="none"'
    )
    shape = "tall" if height > width else "wide"
    maps = "\n".join(
        f'<image class="map" href="{_veil_of(weights)}" {place}/>' for weights in caption.attention
    )
    return f"""<figure>
<h2>{_escaped(name)}</h2>
<svg class="{shape}" viewBox="0 0 {width} {height}" preserveAspectRatio="xMinYMid"
 role="img" aria-label="{_escaped(caption.text or name)}">
<image href="{_data_uri(_resized(picture, min(1.0, scale)), "JPEG", quality=82)}"
 width="{width}" height="{height}" preserveAspectRatio="none"/>
<path class="unseen" fill="url(#hatch)" fill-rule="evenodd" d="M0 0H{width}V{height}H0Z
M{box[0]} {box[1]}V{box[3]}H{box[2]}V{box[1]}Z"/>
{maps}
</svg>
<figcaption>
<p class="words" role="toolbar" aria-label="Words of the caption">{_buttons(caption)}</p>
<p class="note" role="status"></p>
</figcaption>
</figure>"""


def _veil_of(weights: Floats) -> str:
    """The veil over the crop for one word, as a tiny picture that the browser stretches."""
    rows, columns = (SAMPLES_PER_CELL * cells for cells in weights.shape)
    veil = np.stack(_veil(attention_map(weights, (columns, rows), Crop(0, 0, columns, rows))), 2)
    pixels = (veil * (1, 255)).round().astype(np.uint8)  # (rows, columns, grey and alpha)
    return _data_uri(Image.fromarray(pixels), "PNG", optimize=True)


def _buttons(caption: Caption) -> str:
    """The sentence, each word of it a button."""
    written, rest = "", caption.text
    for index, word in enumerate(caption.words):
        space = " " if rest.startswith(" ") else ""
        rest = rest.lstrip()
        if rest[: len(word)].lower() == word.lower():  # else the sentence left the word out
            word, rest = rest[: len(word)], rest[len(word) :]
        written += (
            f'{space}<button type="button" data-beta="{caption.gates[index]:.2f}" '
            f'data-note="{_escaped(_note(caption, index))}">{_escaped(word)}</button>'
        )
    return written + _escaped(rest)


def _note(caption: Caption, index: int) -> str:
    """What there is to know of a word, for those who cannot see the map."""
    weights = caption.attention[index]
    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    x0, y0, x1, y1 = caption.crop.cell(int(row), int(column), weights.shape)
    width, height = caption.picture_size
    where = PLACES[int(1.5 * (y0 + y1) / height)][int(1.5 * (x0 + x1) / width)]
    return (
        f"{caption.words[index]}: looked most at the {where} · β {caption.gates[index]:.2f} · "
        f"probability {math.exp(caption.log_probs[index]):.2f}"
    )


def _data_uri(picture: Image.Image, kind: str, **options: int) -> str:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(stream.getvalue()).decode()}"


def _escaped(text: str) -> str:
    """Text for HTML; what is not Unicode in a file's name becomes a question mark."""
    return html.escape(text.encode("utf-8", "replace").decode())


def _hash_of(source: str) -> str:
    """How a content security policy names a script or style that it allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


STYLE = """
:root { --paper: #faf9f6; --ink: #1c1c1e; --muted: #66645f; --accent: #b4690e; --track: #dedbd3 }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16171a; --ink: #ececee; --muted: #a0a0a6; --accent: #f0b060; --track: #3a3b40 }
}
* { box-sizing: border-box }
body {
  margin: 0 auto; padding: clamp(1.25rem, 4vw, 3.5rem) clamp(1rem, 4vw, 3.5rem); max-width: 90rem;
  background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif;
}
header { max-width: 42rem; margin-bottom: 3rem }
h1 { margin: 0 0 .75rem; font: 500 clamp(1.6rem, 4vw, 2.2rem)/1.2 ui-serif, Georgia, serif }
h2 { margin: 0 0 .5rem; font-size: .85rem; font-weight: 400; overflow-wrap: anywhere }
header p, h2, .note { color: var(--muted) }
p { margin: 0 }
main {
  display: grid; align-items: start; gap: 3.5rem 3rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr));
}
figure { margin: 0; min-width: 0 }
figure svg { display: block; width: 100%; height: auto; max-height: 90vh; border-radius: .6rem }
figure svg.tall { max-width: 26rem }
.patterns { position: absolute }
.night { fill: #0c0c0c; fill-opacity: .86 }
.stripe { fill: #fff; fill-opacity: .1 }
.map, .unseen { opacity: 0; transition: opacity .18s }
.looking .unseen, .map.shown { opacity: 1 }
.words { margin: 1rem 0 .5rem; font: 1.35rem/1.6 ui-serif, Georgia, serif }
.words button {
  margin: 0; padding: .1em .08em .16em; border: 0; border-radius: .15em; color: inherit;
  font: inherit; line-height: 1.3; text-align: left; cursor: pointer;
  max-width: 100%; overflow-wrap: anywhere; background:
    linear-gradient(var(--accent) 0 0) 0 100% / calc(100% * var(--beta, 0)) 2px no-repeat,
    linear-gradient(var(--track) 0 0) 0 100% / 100% 2px no-repeat;
}
.words button.shown { color: var(--paper); background: var(--ink) }
.words button:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
.note { min-height: 1.55em; font-size: .9rem }
@media (prefers-reduced-motion: reduce) { .map, .unseen { transition: none } }
"""

SCRIPT = """
for (const figure of document.querySelectorAll("figure")) {
  const words = [...figure.querySelectorAll("button")];
  const maps = [...figure.querySelectorAll(".map")];
  const note = figure.querySelector(".note");
  let chosen = -1;
  const show = (index) => {
    for (const row of [words, maps]) {
      row.forEach((part, i) => part.classList.toggle("shown", i === index));
    }
    figure.classList.toggle("looking", index >= 0);
    note.textContent = index < 0 ? "" : words[index].dataset.note;
  };
  words.forEach((word, index) => {
    word.tabIndex = index ? -1 : 0;
    word.style.setProperty("--beta", word.dataset.beta);
    word.addEventListener("pointerenter", () => show(index));
    word.addEventListener("pointerleave", () => show(chosen));
    word.addEventListener("click", () => word.focus());
    word.addEventListener("focus", () => {
      words.forEach((other) => { other.tabIndex = other === word ? 0 : -1; });
      show(chosen = index);
    });
    word.addEventListener("blur", () => show(chosen = -1));
    word.addEventListener("keydown", (event) => {
      const last = words.length - 1;
      const next = {
        ArrowRight: Math.min(index + 1, last), ArrowDown: Math.min(index + 1, last),
        ArrowLeft: Math.max(index - 1, 0), ArrowUp: Math.max(index - 1, 0), Home: 0, End: last,
      }[event.key];
      if (event.key === "Escape") word.blur();
      if (next === undefined) return;
      event.preventDefault();
      words[next].focus();
    });
  });
}
"""
