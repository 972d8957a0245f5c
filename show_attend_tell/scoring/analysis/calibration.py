"""Whether a model is as sure as it is right, and whether what it is sure of is better."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """Things of which a model was about equally sure.

    Parameters
    ----------
    sure
        Mean probability or confidence.
    worth
        What came of them: the share that was right, or a mean score.
    """

    count: int
    sure: float
    worth: float


def reliability(probabilities: ArrayLike, hits: ArrayLike, bins: int = 10) -> list[Group]:
    """Group by probability, in bins of equal width; empty ones are left out.

    >>> reliability([0.1, 0.62, 0.68, 1.0], [0, 1, 0, 1], bins=2)  # doctest: +ELLIPSIS
    [Group(count=1, sure=0.1, worth=0.0), Group(count=3, sure=0.766..., worth=0.666...)]
    """
    sure, right = np.asarray(probabilities, dtype=float), np.asarray(hits, dtype=float)
    at = np.minimum((sure * bins).astype(int), bins - 1)
    return [_group(sure[at == i], right[at == i]) for i in range(bins) if (at == i).any()]


def calibration_error(groups: Sequence[Group]) -> float:
    """How far sureness and truth are apart, over all things: the expected calibration error."""
    total = sum(group.count for group in groups)
    return sum(group.count * abs(group.sure - group.worth) for group in groups) / max(total, 1)


def by_confidence(confidences: ArrayLike, scores: ArrayLike, groups: int = 10) -> list[Group]:
    """Groups as equal in number as can be, from the least sure to the surest.

    >>> by_confidence([0.9, 0.1, 0.5, 0.3], [4, 1, 3, 2], groups=2)
    [Group(count=2, sure=0.2, worth=1.5), Group(count=2, sure=0.7, worth=3.5)]
    """
    sure, worth = np.asarray(confidences, dtype=float), np.asarray(scores, dtype=float)
    order = np.argsort(sure, kind="stable")
    parts = np.array_split(order, groups)
    return [_group(sure[part], worth[part]) for part in parts if len(part)]


def rank_correlation(first: ArrayLike, second: ArrayLike) -> float | None:
    """Spearman's: 1 when one rises with the other, 0 when they have nothing to do with each other.

    None when either is the same everywhere.
    """
    ranks = np.array([_ranks(first), _ranks(second)])  # (2, n)
    apart = ranks - ranks.mean(axis=1, keepdims=True)
    scale = np.sqrt((apart**2).sum(axis=1).prod())
    return float((apart[0] * apart[1]).sum() / scale) if scale else None


def _group(sure: Floats, worth: Floats) -> Group:
    return Group(len(sure), float(sure.mean()), float(worth.mean()))


def _ranks(values: ArrayLike) -> Floats:
    """Places in ascending order; equal values share the mean of theirs."""
    _, which, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[which])
