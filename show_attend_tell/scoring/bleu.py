"""BLEU-1 to BLEU-4 (Papineni et al. 2002) as coco-caption computes it.

Nothing is smoothed. Two tiny numbers keep the divisions defined, and stay because published scores
hold them: a perfect caption scores 0.9999999998.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.scoring.ngrams import ORDERS, count_ngrams

TINY, SMALL = 1e-15, 1e-9


def bleu_rows(
    candidates: Sequence[str], references: Sequence[Sequence[str]]
) -> NDArray[np.float64]:
    """Count what BLEU needs, caption by caption.

    Parameters
    ----------
    candidates
        One tokenised caption a picture.
    references
        The tokenised references of each picture.

    Returns
    -------
    (captions, 10): correct n-grams for n = 1..4 (clipped by the largest count in any reference),
    guessed n-grams for n = 1..4, words of the caption, words of the reference nearest in length
    (the shorter of two equally near).
    """
    return np.array(
        [
            _row(candidate.split(), [reference.split() for reference in own])
            for candidate, own in zip(candidates, references, strict=True)
        ],
        dtype=np.float64,
    )


def _row(words: list[str], references: list[list[str]]) -> list[int]:
    reference_counts = [count_ngrams(reference) for reference in references]
    correct = [0] * ORDERS
    for ngram, count in count_ngrams(words).items():
        most = max([counts.get(ngram, 0) for counts in reference_counts])
        correct[len(ngram) - 1] += min(count, most)
    guessed = [max(0, len(words) - n) for n in range(ORDERS)]
    closest = min((abs(len(reference) - len(words)), len(reference)) for reference in references)
    return [*correct, *guessed, len(words), closest[1]]


def bleu(sums: NDArray[np.float64], order: int, *, brevity_penalty: bool) -> NDArray[np.float64]:
    """Give BLEU of `order` from counts summed over any set of captions.

    Parameters
    ----------
    sums
        (..., 10): rows of `bleu_rows`, or sums of them.

    Returns
    -------
    (...): one value for each row given.
    """
    correct, guessed = sums[..., :order], sums[..., ORDERS : ORDERS + order]
    value = np.prod((correct + TINY) / (guessed + SMALL), axis=-1) ** (1 / order)
    if brevity_penalty:
        ratio = (sums[..., -2] + TINY) / (sums[..., -1] + SMALL)
        value = value * np.exp(np.minimum(0.0, 1 - 1 / ratio))
    return np.asarray(value)
