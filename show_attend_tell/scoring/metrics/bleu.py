"""BLEU-1 to BLEU-4 (Papineni et al. 2002) as coco-caption computes it.

Nothing is smoothed but by `smoothed_bleu`. Two tiny numbers keep the divisions defined, and stay
because published scores hold them: a perfect caption scores 0.9999999998.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.scoring.metrics.ngrams import ORDERS, NgramCounts

TINY, SMALL = 1e-15, 1e-9
ONE_MORE = np.array([0, 1, 1, 1, 0, 1, 1, 1, 0, 0])  # of each n-gram but single words, and right


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
    counts = NgramCounts.of(candidates, references)
    own, theirs = counts.shared()
    most = np.zeros_like(counts.count)
    np.maximum.at(most, own, counts.count[theirs])
    correct = counts.sums(np.minimum(counts.count, most))[: len(candidates)]
    words, others = np.split(counts.lengths, [len(candidates)])
    guessed = np.maximum(0, words[:, np.newaxis] - np.arange(ORDERS))
    # The difference decides, and of equal ones the length: as one number, the smallest.
    picture, base = counts.picture[len(candidates) :], counts.lengths.max() + 1
    nearness = np.abs(others - words[picture]) * base + others
    first_reference = np.searchsorted(picture, np.arange(len(candidates)))
    closest = np.minimum.reduceat(nearness, first_reference) % base
    return np.column_stack([correct, guessed, words, closest]).astype(np.float64)


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


def smoothed_bleu(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give BLEU-4 of single captions, which without smoothing is zero for most (Lin and Och 2004).

    Parameters
    ----------
    rows
        (..., 10): rows of `bleu_rows`, not summed.

    Returns
    -------
    (...): with brevity penalty, one right n-gram added to those of each order above 1.
    """
    return bleu(rows + ONE_MORE, ORDERS, brevity_penalty=True)
