"""A caption in a notebook: its sentence, and below each word where it looked.

A caption does not hold its picture: maps stand alone here, and `show_attend_tell.draw` lays them on
the picture.
"""

import base64
import io
import math
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from show_attend_tell.captioning.model import Floats

if TYPE_CHECKING:
    from show_attend_tell.captioning.caption import Caption

LONG_SIDE = 64  # of a map, in pixels


def as_html(caption: "Caption") -> str:
    """The sentence, and a small map for each word: white where it looked, black where not at all.

    The bar below a map shows how much the picture counted for the word, β.
    """
    crop = caption.crop
    scale = LONG_SIDE / max(crop.x1 - crop.x0, crop.y1 - crop.y0)
    width, height = (max(1, round(x * scale)) for x in (crop.x1 - crop.x0, crop.y1 - crop.y0))
    words = "".join(
        f'<div title="β {gate:.2f} · probability {math.exp(log_prob):.2f}">{escape(word)}'
        f'<img alt="where the word looked" src="{_map(weights)}" style="display: block; '
        f'margin: 2px 0 3px; width: {width}px; height: {height}px">'
        f'<div style="width: {width}px; background: #8884"><div style="width: {100 * gate:.0f}%; '
        f'height: 3px; background: #b4690e"></div></div></div>'
        for word, weights, gate, log_prob in zip(
            caption.words, caption.attention, caption.gates, caption.log_probs, strict=True
        )
    )
    return (
        f'<div><p style="font-size: 1.2em; margin: .3em 0">{escape(caption.text)}</p>'
        f'<div style="display: flex; flex-wrap: wrap; gap: 10px">{words}</div></div>'
    )


def _map(weights: Floats) -> str:
    light = weights / (weights.max() or 1)
    stream = io.BytesIO()
    Image.fromarray((255 * light).round().astype(np.uint8)).save(stream, "PNG")
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"
