"""Calibration: whether confidence matches accuracy, and whether confident captions score higher."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bin:
    """Predictions of about equal confidence.

    Parameters
    ----------
    confidence
        Its mean.
    outcome
        The share that was right, or the mean score.
    """

    count: int
    confidence: float
    outcome: float


def reliability(probabilities: ArrayLike, hits: ArrayLike, bins: int = 10) -> list[Bin]:
    """Bin by probability, in bins of equal width; empty ones are left out.

    >>> reliability([0.1, 0.62, 0.68, 1.0], [0, 1, 0, 1], bins=2)  # doctest: +ELLIPSIS
    [Bin(count=1, confidence=0.1, outcome=0.0), Bin(count=3, confidence=0.766..., outcome=0.666...)]
    """
    confidence, right = np.asarray(probabilities, dtype=float), np.asarray(hits, dtype=float)
    at = np.minimum((confidence * bins).astype(int), bins - 1)
    return [_bin(confidence[at == i], right[at == i]) for i in range(bins) if (at == i).any()]


def calibration_error(bins: Sequence[Bin]) -> float:
    """Expected calibration error: mean distance of confidence and accuracy, weighted by count."""
    total = sum(one.count for one in bins)
    return sum(one.count * abs(one.confidence - one.outcome) for one in bins) / max(total, 1)


def by_confidence(confidences: ArrayLike, scores: ArrayLike, groups: int = 10) -> list[Bin]:
    """Bins of equal count, or nearly, from the lowest confidence to the highest.

    >>> by_confidence([0.9, 0.1, 0.5, 0.3], [4, 1, 3, 2], groups=2)
    [Bin(count=2, confidence=0.2, outcome=1.5), Bin(count=2, confidence=0.7, outcome=3.5)]
    """
    confidence, outcome = np.asarray(confidences, dtype=float), np.asarray(scores, dtype=float)
    order = np.argsort(confidence, kind="stable")
    parts = np.array_split(order, groups)
    return [_bin(confidence[part], outcome[part]) for part in parts if len(part)]


def rank_correlation(first: ArrayLike, second: ArrayLike) -> float | None:
    """Spearman's: 1 when one rises with the other, 0 when they have nothing to do with each other.

    None when either is the same everywhere.
    """
    ranks = np.array([_ranks(first), _ranks(second)])  # (2, n)
    apart = ranks - ranks.mean(axis=1, keepdims=True)
    scale = np.sqrt((apart**2).sum(axis=1).prod())
    return float((apart[0] * apart[1]).sum() / scale) if scale else None


def _bin(confidence: Floats, outcome: Floats) -> Bin:
    return Bin(len(confidence), float(confidence.mean()), float(outcome.mean()))


def _ranks(values: ArrayLike) -> Floats:
    """Places in ascending order; equal values share the mean of theirs."""
    _, which, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[which])
