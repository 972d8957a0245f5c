"""CIDEr-D (Vedantam et al. 2015) as coco-caption computes it: n-grams weighted by rarity.

Three things differ from the paper and are kept, because published scores have them: counts are not
divided by the caption's length, nothing is stemmed, and lengths are compared in bigrams.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.scoring.metrics.ngrams import ORDERS, NgramCounts

SIGMA = 6.0  # bigrams by which lengths may differ before it costs much

Ngram = tuple[str, ...]


@dataclass(frozen=True)
class DocumentFrequencies:
    """In how many pictures' references each n-gram occurs.

    By default they are counted on the references being scored, so scores of different sets of
    pictures cannot be compared; a fixed table makes them comparable, and its name enters the
    signature.
    """

    name: str
    pictures: int
    counts: Mapping[Ngram, int]

    @classmethod
    def of(cls, references: Iterable[Sequence[str]], name: str = "refs") -> "DocumentFrequencies":
        """Count the tokenised references of each picture."""
        own = list(references)
        counts = NgramCounts.of([""] * len(own), own)
        frequencies = counts.pictures_with().tolist()
        return cls(name, len(own), dict(zip(counts.phrases(), frequencies, strict=True)))


def cider_rows(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    frequencies: DocumentFrequencies | None = None,
) -> NDArray[np.float64]:
    """Give every caption's CIDEr-D, and 1 to count it by.

    Returns
    -------
    (captions, 2): the score, from 0 to 10; 1.
    """
    counts = NgramCounts.of(candidates, references)
    if frequencies:
        pictures = frequencies.pictures
        known = np.array([frequencies.counts.get(phrase, 0) for phrase in counts.phrases()])
    else:
        pictures = len(candidates)
        known = counts.pictures_with()
    # An n-gram in every picture weighs nothing; one in no picture weighs like one in a single one.
    rarity = np.log(max(1, pictures)) - np.log(np.maximum(1, known))
    weights = counts.count * rarity[counts.ngram]
    norms = np.sqrt(counts.sums(weights**2))

    # Cosines of a caption with each reference, its weights clipped at the reference's.
    own, theirs = counts.shared()
    products = np.zeros_like(weights)
    products[theirs] = np.minimum(weights[own], weights[theirs]) * weights[theirs]
    of_reference = slice(len(candidates), None)
    picture = counts.picture[of_reference]
    product = counts.sums(products)[of_reference]
    norm = norms[picture] * norms[of_reference]
    cosines = np.divide(product, norm, out=np.zeros_like(product), where=product != 0).sum(axis=1)
    bigrams = np.maximum(0, counts.lengths - 1)
    distance = bigrams[picture] - bigrams[of_reference]
    alike = cosines * np.exp(-(distance**2) / (2 * SIGMA**2))
    scores = 10 / ORDERS * np.bincount(picture, alike) / np.bincount(picture)
    return np.column_stack([scores, np.ones(len(scores))])
