"""Views: one picture encoded several times: the whole, its centre, its mirror image.

Attention does not depend on where an annotation vector comes from, so the places of all views lie
side by side and a word attends to any of them. To be shown on the picture, each view's weights are
carried back to the cells that it covers. Measured in docs/log.md.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from show_attend_tell.captioning.model import Floats
from show_attend_tell.data.pictures import Crop, Preprocessing, crop_of, frame


@dataclass(frozen=True)
class View:
    """Which part of the square an encoder is given, and whether it is mirrored."""

    part: float = 1.0  # of its width and height, round its centre
    direction: Literal[1, -1] = 1  # -1: mirrored


VIEWS = (View(), View(part=0.8), View(direction=-1))  # the first N of them are N views


def frame_views(
    picture: Image.Image, preprocessing: Preprocessing, count: int
) -> npt.NDArray[np.uint8]:
    """The squares that the encoder sees, one for each view: (count, size, size, 3)."""
    whole = crop_of(picture.size, preprocessing)
    squares = [
        frame(picture, preprocessing, _centre(whole, view.part))[:, :: view.direction]
        for view in VIEWS[:count]
    ]
    return np.stack(squares)


def on_picture(weights: Floats, grid: tuple[int, int]) -> Floats:
    """Carry the weights of all views' places (words, views × L) to the first's: (words, h, w)."""
    rows, columns = grid
    shown = np.zeros((len(weights), rows, columns), weights.dtype)
    count = weights.shape[1] // (rows * columns)
    for view, own in zip(VIEWS, np.split(weights, count, axis=1), strict=False):
        on_grid = own.reshape(shown.shape)[:, :, :: view.direction]
        if view.part < 1:
            on_grid = _shares(rows, view.part) @ on_grid @ _shares(columns, view.part).T
        shown += on_grid
    return shown


def _centre(crop: Crop, part: float) -> Crop:
    x, y = (1 - part) / 2 * (crop.x1 - crop.x0), (1 - part) / 2 * (crop.y1 - crop.y0)
    return Crop(crop.x0 + x, crop.y0 + y, crop.x1 - x, crop.y1 - y)


def _shares(cells: int, part: float) -> npt.NDArray[np.float64]:
    """How much of each place of the central part lies in each cell of the whole: (cell, place)."""
    edges = np.arange(cells + 1) / cells
    inner = (1 - part) / 2 + part * edges
    begin = np.maximum(edges[:-1, None], inner[None, :-1])
    end = np.minimum(edges[1:, None], inner[None, 1:])
    overlap: npt.NDArray[np.float64] = np.maximum(end - begin, 0)
    return overlap * cells / part
