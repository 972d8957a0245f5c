"""Where a model looks at each word, against boxes that people drew around what the word names.

Two questions of every word: what share of the attention lies in the boxes (mass), and does the most
attended place lie in one (the pointing game). Attention spread evenly, and attention that always
rests on the middle, answer the same questions as baselines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.errors import UserError
from show_attend_tell.scoring.measure import SIGNATURE_VERSION, Measured, mean

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GroundedWord:
    """One word: the attention that generated it, and the boxes of what it names.

    Parameters
    ----------
    weights
        (rows, columns) of the grid, summing to one.
    boxes
        (boxes, 4): x0, y0, x1, y1 as shares of what the encoder saw, so that 0 and 1 are its edges.
        A box may lie beyond them.
    """

    picture: str
    weights: Floats
    boxes: Floats


def measure_grounding(grounded: Sequence[GroundedWord]) -> dict[str, Measured]:
    """Mass and pointing, each also for even and for central attention; means over words.

    Words whose boxes the encoder did not see at all are left out and counted in the signature.
    """
    seen = [(word, covered(word.boxes, word.weights.shape)) for word in grounded]
    seen = sorted(((a, b) for a, b in seen if b.any()), key=lambda pair: pair[0].picture)
    if not seen:
        raise UserError("score.empty", "no word of these captions has a box within the picture")
    answers: dict[str, list[tuple[float, int]]] = {}
    ids = []
    for picture, words in groupby(seen, key=lambda pair: pair[0].picture):
        ids.append(picture)
        found = [_answers(word, inside) for word, inside in words]
        for name in found[0]:
            answers.setdefault(name, []).append((sum(one[name] for one in found), len(found)))
    rows, columns = grounded[0].weights.shape
    signature = (
        f"n:{len(ids)}|words:{len(seen)}|outside:{len(grounded) - len(seen)}|grid:{rows}x{columns}"
        f"|v:{SIGNATURE_VERSION}"
    )
    return {
        name: Measured(name, tuple(ids), np.array(sums, dtype=float), mean, f"{name}|{signature}")
        for name, sums in answers.items()
    }


def covered(boxes: Floats, grid: tuple[int, ...]) -> Floats:
    """Share of each cell's area that lies in at least one of the boxes: (rows, columns).

    >>> covered(np.array([[0.0, 0.0, 0.75, 1.0], [0.5, 0.0, 0.75, 0.5]]), (1, 2))
    array([[1. , 0.5]])
    """
    rows, columns = grid
    x0, y0, x1, y1 = np.clip(boxes, 0, 1).T
    # Cut the square at every edge of a cell or a box: each piece is inside a box or it is not.
    cells_x, cells_y = (np.arange(n + 1) / n for n in (columns, rows))
    edges_x = np.unique(np.concatenate([cells_x, x0, x1]))
    edges_y = np.unique(np.concatenate([cells_y, y0, y1]))
    in_x = (x0[:, None] <= edges_x[:-1]) & (edges_x[1:] <= x1[:, None])  # (boxes, pieces)
    in_y = (y0[:, None] <= edges_y[:-1]) & (edges_y[1:] <= y1[:, None])
    inside = (in_y[:, :, None] & in_x[:, None, :]).any(axis=0)
    areas = inside * np.outer(np.diff(edges_y), np.diff(edges_x))
    areas = np.add.reduceat(areas, np.searchsorted(edges_y, cells_y[:-1]), axis=0)
    areas = np.add.reduceat(areas, np.searchsorted(edges_x, cells_x[:-1]), axis=1)
    return np.asarray(areas * (rows * columns))


def _answers(word: GroundedWord, inside: Floats) -> dict[str, float]:
    rows, columns = grid = word.weights.shape
    even = np.full(grid, 1 / (rows * columns))
    centre = np.outer(_middle(rows), _middle(columns))
    weightings = {"": word.weights, "-even": even, "-centre": centre}
    hits = _centres_inside(word.boxes, grid)
    answers = {f"mass{name}": float((w * inside).sum()) for name, w in weightings.items()}
    # Among equally attended places one is taken by lot: the mean is what to expect.
    pointing = {f"pointing{n}": float(hits[w == w.max()].mean()) for n, w in weightings.items()}
    return answers | pointing


def _middle(count: int) -> Floats:
    """Weights of the middle one of a row of cells, or of the middle two."""
    away = np.abs(np.arange(count) - (count - 1) / 2)
    middle = (away == away.min()).astype(float)
    return np.asarray(middle / middle.sum())


def _centres_inside(boxes: Floats, grid: tuple[int, ...]) -> NDArray[np.bool_]:
    rows, columns = grid
    x, y = (np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows
    x0, y0, x1, y1 = boxes.T[:, :, None]
    in_x, in_y = (x0 <= x) & (x < x1), (y0 <= y) & (y < y1)  # (boxes, cells)
    return np.asarray((in_y[:, :, None] & in_x[:, None, :]).any(axis=0))
