"""Scores: each a number, its interval if asked for, and the signature that says how it was made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from show_attend_tell.scoring.measure import DEFAULT_METRICS, Measured, Protocol, measure
from show_attend_tell.scoring.metrics.cider import DocumentFrequencies
from show_attend_tell.scoring.statistics import SEED, intervals


@dataclass(frozen=True)
class Score:
    """One metric's value over a set of captions.

    Parameters
    ----------
    low, high
        The 95 % bootstrap interval; None where none was asked for.
    signature
        Everything that must be equal before two values may be compared.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    signature: str


def score_captions(
    candidates: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    protocol: str | Protocol = "coco",
    frequencies: DocumentFrequencies | None = None,
    resamples: int = 0,
    seed: int = SEED,
) -> dict[str, Score]:
    """Score one caption a picture against the picture's references.

    The arguments are those of `measure`, which also gives per-caption scores, and two more.

    Parameters
    ----------
    resamples
        How many for the 95 % interval; 1,000 is usual, 0 means no interval.
    seed
        Of the resampling.

    >>> score = score_captions({"1": "a dog"}, {"1": ["a dog runs"]}, protocol="plain")["BLEU-1"]
    >>> round(score.value, 6), score.signature
    (1.0, 'nrefs:1|n:1|tok:blanks|case:lc|punct:dropped|bleu:closest,nobp,eps1e-15/1e-9|v:1')
    """
    measured = measure(
        candidates, references, metrics=metrics, protocol=protocol, frequencies=frequencies
    )
    return score_measured(measured, resamples=resamples, seed=seed)


def score_measured(
    measured: Mapping[str, Measured], *, resamples: int = 0, seed: int = SEED
) -> dict[str, Score]:
    """Score what `measure` gave."""
    bounds = intervals(measured, resamples=resamples, seed=seed) if resamples else {}
    scores = {}
    for name, one in measured.items():
        low, high = bounds.get(name, (None, None))
        scores[name] = Score(name, one.value, low, high, one.signature)
    return scores
