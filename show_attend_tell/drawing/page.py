"""The page: pictures whose words one moves through, in one HTML file that asks for nothing."""

import base64
import hashlib
import html
import io
import math
from collections.abc import Sequence
from importlib.resources import files

import numpy as np
from PIL import Image

from show_attend_tell.captioning.caption import Caption
from show_attend_tell.captioning.model import Floats
from show_attend_tell.data.pictures import Crop
from show_attend_tell.drawing.items import Item
from show_attend_tell.drawing.lettering import pieces
from show_attend_tell.drawing.light import (
    ONE_PLACE,
    attention_map,
    check_map,
    crop_on,
    resized,
    veil,
)

STYLE, SCRIPT = (
    files("show_attend_tell.drawing").joinpath(name).read_text("utf-8")
    for name in ("page.css", "page.js")
)
LONGEST_SIDE = 640  # of a picture, in pixels
SAMPLES_PER_CELL = 2  # of a map: the browser draws the rest of a smooth curve
PLACES = (
    ("upper left", "top", "upper right"),
    ("left", "centre", "right"),
    ("lower left", "bottom", "lower right"),
)


def page(items: Sequence[Item], title: str) -> str:
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
    figures = "\n".join(figure(*item) for item in items)
    return document(
        title,
        f"""<header>
<h1>{escaped(title)}</h1>
<p>Point at a word, touch it, or move through the words with the arrow keys: the picture stays
light where the model looked for that word. The line under a word shows how much the picture
counted for it (β). Hatched areas were outside the model's input.</p>
</header>
<main>
{figures}
</main>""",
        STYLE,
        SCRIPT,
    )


def document(title: str, body: str, style: str, script: str) -> str:
    """Write a page that holds all it needs, and whose policy lets it ask for nothing else.

    Parameters
    ----------
    title
        What the browser calls it, as plain text.
    body
        HTML; what is text in it has gone through `escaped`. Attributes `style` and `on…` do
        nothing on such a page.
    style, script
        All there is of both. With `STYLE` and `SCRIPT` in them, what `figure` returns comes alive.
    """
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash_of(style)}'; "
        f"script-src '{_hash_of(script)}'; base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escaped(title)}</title>
<style>{style}</style>
</head>
<body>
<svg class="patterns" width="0" height="0" aria-hidden="true"><pattern id="hatch" width="11"
 height="11" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="night"
 width="11" height="11"/><rect class="stripe" width="2" height="11"/></pattern></svg>
{body}
<script>{script}</script>
</body>
</html>
"""


def figure(name: str, caption: Caption, picture: Image.Image, level: int = 2) -> str:
    """One picture of a page, its maps, and its caption with a button for each word: HTML.

    Parameters
    ----------
    name
        What stands above it, as plain text.
    caption
        A caption of this picture.
    picture
        The whole upright picture, at any scale; embedded at most `LONGEST_SIDE` pixels long.
    level
        Of the heading that holds the name.

    Raises
    ------
    UserError
        `request.picture`: the picture has another shape than the captioned one.
    """
    check_map(caption, picture)
    scale = LONGEST_SIDE / max(picture.size)
    width, height = (max(1, round(side * scale)) for side in picture.size)
    crop = crop_on(caption, (width, height))
    box = f"{crop.x0:.2f} {crop.y0:.2f} {crop.x1:.2f} {crop.y1:.2f}".split()
    place = (
        f'x="{box[0]}" y="{box[1]}" width="{crop.x1 - crop.x0:.2f}" '
        f'height="{crop.y1 - crop.y0:.2f}" preserveAspectRatio="none"'
    )
    look = ONE_PLACE.get(caption.look)
    look = f'\n<p class="note">Outlined: {look}.</p>' if look else ""
    shape = "tall" if height > width else "wide"
    maps = "\n".join(
        f'<g class="map"><image href="{_veil_of(weights)}" {place}/>'
        f"{_outlined(caption, weights, crop)}</g>"
        for weights in caption.attention
    )
    return f"""<figure>
<h{level}>{escaped(name)}</h{level}>
<svg class="{shape}" viewBox="0 0 {width} {height}" preserveAspectRatio="xMinYMid"
 role="img" aria-label="{escaped(caption.text or name)}">
<image href="{data_uri(resized(picture, min(1.0, scale)), "JPEG", quality=82)}"
 width="{width}" height="{height}" preserveAspectRatio="none"/>
<path class="unseen" fill="url(#hatch)" fill-rule="evenodd" d="M0 0H{width}V{height}H0Z
M{box[0]} {box[1]}V{box[3]}H{box[2]}V{box[1]}Z"/>
{maps}
</svg>
<figcaption>
<p class="words" role="toolbar" aria-label="Words of the caption">{_buttons(caption)}</p>
<p class="note" role="status"></p>{look}
</figcaption>
</figure>"""


def _veil_of(weights: Floats) -> str:
    """The veil over the crop for one word, as a tiny picture that the browser stretches."""
    rows, columns = (SAMPLES_PER_CELL * cells for cells in weights.shape)
    light = attention_map(weights, (columns, rows), Crop(0, 0, columns, rows))
    pixels = (
        (np.stack(veil(light), 2) * (1, 255)).round().astype(np.uint8)
    )  # (rows, columns, grey and alpha)
    return data_uri(Image.fromarray(pixels), "PNG", optimize=True)


def _outlined(caption: Caption, weights: Floats, crop: Crop) -> str:
    """The cell of a word that looked at one place alone."""
    if caption.look not in ONE_PLACE:
        return ""
    cells = (crop.cell(int(i), int(j), weights.shape) for i, j in np.argwhere(weights > 0))
    return "".join(
        f'<rect class="{style}" x="{x0:.2f}" y="{y0:.2f}" width="{x1 - x0:.2f}" '
        f'height="{y1 - y0:.2f}"/>'
        for x0, y0, x1, y1 in cells
        for style in ("shade", "mark")
    )


def _buttons(caption: Caption) -> str:
    """The sentence, each word of it a button; no line begins with a full stop."""
    *words, rest = pieces(caption)
    groups = [""]
    for index, piece in enumerate(words):
        if piece.startswith(" "):
            groups.append("")
        groups[-1] += (
            f'<button type="button" data-beta="{caption.gates[index]:.2f}" '
            f'data-note="{escaped(_note(caption, index))}">{escaped(piece.lstrip())}</button>'
        )
    groups[-1] += escaped(rest)
    return " ".join(f'<span class="whole">{group}</span>' for group in groups)


def _note(caption: Caption, index: int) -> str:
    """What there is to know of a word, for those who cannot see the map."""
    weights = caption.attention[index]
    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    x0, y0, x1, y1 = caption.crop.cell(int(row), int(column), weights.shape)
    width, height = caption.picture_size
    where = PLACES[int(1.5 * (y0 + y1) / height)][int(1.5 * (x0 + x1) / width)]
    looked = "looked" if caption.look in ONE_PLACE else "looked most"
    return (
        f"{caption.words[index]}: {looked} at the {where} · β {caption.gates[index]:.2f} · "
        f"probability {math.exp(caption.log_probs[index]):.2f}"
    )


def data_uri(picture: Image.Image, kind: str, **options: int) -> str:
    """A picture as an address that holds all of it."""
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(stream.getvalue()).decode()}"


def escaped(text: str) -> str:
    """Text for HTML; what is not Unicode in a file's name becomes a question mark."""
    return html.escape(text.encode("utf-8", "replace").decode())


def _hash_of(source: str) -> str:
    """How a content security policy names a script or style that it allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
