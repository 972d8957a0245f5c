"""Confidence intervals and significance tests, by resampling pictures.

Everything is computed from the rows of statistics, so a thousand resamples cost two matrix
products; nothing is tokenised or aligned again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.errors import UserError
from show_attend_tell.scoring.measure import Measured

LEVEL = 95  # per cent of the resamples lie within an interval
SEED = 12345
BLOCK = 100  # resamples made at once: bounds memory, not the result

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """The first system's score less the second's, on the same pictures.

    Parameters
    ----------
    low, high
        95 % interval of the difference, from resamples that take the same pictures for both.
    p_value
        How often a difference at least as large comes about when, picture by picture, it is left
        to chance which caption is whose (approximate randomisation, two-sided).
    """

    name: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    signature: str


def intervals(
    measured: Mapping[str, Measured], *, resamples: int = 1000, seed: int = SEED
) -> dict[str, tuple[float, float]]:
    """Give each metric's 95 % bootstrap interval over resampled pictures."""
    values = _resampled(measured, resamples, seed)
    return {name: _percentiles(values[name]) for name in measured}


def compare(
    first: Mapping[str, Measured],
    second: Mapping[str, Measured],
    *,
    resamples: int = 1000,
    trials: int = 10_000,
    seed: int = SEED,
) -> dict[str, Comparison]:
    """Compare two systems' captions of the same pictures, metric by metric.

    Parameters
    ----------
    first, second
        What `measure` gave for each system, with the same references, metrics and protocol.
    resamples
        Of the paired bootstrap.
    trials
        Of the approximate randomisation; the smallest p-value is 1 / (trials + 1).
    """
    for name, one in first.items():
        other = second.get(name)
        if other is None or other.signature != one.signature or other.ids != one.ids:
            found = other.signature if other else "nothing"
            raise UserError(
                "score.incomparable",
                f"{name} was not measured alike, on the same pictures, for both systems: "
                f"{one.signature} and {found}",
            )
    one_values = _resampled(first, resamples, seed)
    other_values = _resampled(second, resamples, seed)
    p_values = _randomised(first, second, trials, seed)
    comparisons = {}
    for name, one in first.items():
        low, high = _percentiles(one_values[name] - other_values[name])
        values = one.value, second[name].value
        comparisons[name] = Comparison(
            name, *values, values[0] - values[1], low, high, p_values[name], one.signature
        )
    return comparisons


def _resampled(measured: Mapping[str, Measured], resamples: int, seed: int) -> dict[str, Array]:
    """Score `resamples` samples of the pictures, drawn with replacement: (resamples,) each."""
    pictures = len(next(iter(measured.values())).ids)
    random = np.random.default_rng(seed)
    values: dict[str, list[Array]] = {name: [] for name in measured}
    for size in _blocks(resamples):
        # How often each picture was drawn.
        times = np.stack(
            [
                np.bincount(random.integers(pictures, size=pictures), minlength=pictures)
                for _ in range(size)
            ]
        ).astype(np.float64)  # (size, pictures)
        for name, one in measured.items():
            values[name].append(one.formula(times @ one.rows))
    return {name: np.concatenate(parts) for name, parts in values.items()}


def _randomised(
    first: Mapping[str, Measured], second: Mapping[str, Measured], trials: int, seed: int
) -> dict[str, float]:
    pictures = len(next(iter(first.values())).ids)
    random = np.random.default_rng(seed)
    as_large = dict.fromkeys(first, 0)
    for size in _blocks(trials):
        swaps = random.integers(2, size=(size, pictures)).astype(np.float64)
        for name, one in first.items():
            other = second[name]
            moved = swaps @ (other.rows - one.rows)  # (size, k)
            difference = one.formula(one.rows.sum(axis=0) + moved) - one.formula(
                other.rows.sum(axis=0) - moved
            )
            # Sums in another order may differ in the last bit from an equal difference.
            observed = abs(one.value - other.value) - 1e-12
            as_large[name] += int(np.count_nonzero(np.abs(difference) >= observed))
    return {name: (count + 1) / (trials + 1) for name, count in as_large.items()}


def _blocks(total: int) -> Iterator[int]:
    for start in range(0, total, BLOCK):
        yield min(BLOCK, total - start)


def _percentiles(values: Array) -> tuple[float, float]:
    low, high = np.percentile(values, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return float(low), float(high)
