"""ROUGE-L (Lin 2004) as coco-caption computes it: the longest common subsequence of words."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BETA = 1.2  # how much more recall counts than precision


def rouge_rows(
    candidates: Sequence[str], references: Sequence[Sequence[str]]
) -> NDArray[np.float64]:
    """Give every caption's ROUGE-L, and 1 to count it by.

    Precision and recall are each the best over the references, not of one reference. Words are cut
    at single blanks, so that an empty text is one empty word, as in coco-caption.

    Returns
    -------
    (captions, 2): the score, 1.
    """
    scores = [
        _score(candidate.split(" "), [reference.split(" ") for reference in own])
        for candidate, own in zip(candidates, references, strict=True)
    ]
    return np.column_stack([scores, np.ones(len(scores))])


def _score(words: list[str], references: list[list[str]]) -> float:
    common = [common_length(words, reference) for reference in references]
    precision = max(common) / len(words)
    recall = max(
        length / len(reference) for length, reference in zip(common, references, strict=True)
    )
    if not precision or not recall:
        return 0.0
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence, a whole row at a time in the bits of an integer.

    After each word of `first`, bit i of `rises` is 0 where the common length with the words of
    `second` grows at word i (Hyyrö 2004).

    >>> common_length("a dog runs fast".split(), "the dog is fast".split())
    2
    """
    places: dict[str, int] = {}
    for place, word in enumerate(second):
        places[word] = places.get(word, 0) | 1 << place
    full = (1 << len(second)) - 1
    rises = full
    for word in first:
        matched = rises & places.get(word, 0)
        rises = ((rises + matched) | (rises - matched)) & full
    return len(second) - rises.bit_count()
