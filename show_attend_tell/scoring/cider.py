"""CIDEr-D (Vedantam et al. 2015) as coco-caption computes it: n-grams weighted by rarity.

Three things differ from the paper and are kept, because published scores have them: counts are not
divided by the caption's length, nothing is stemmed, and lengths are compared in bigrams.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.errors import UserError
from show_attend_tell.files import write_json
from show_attend_tell.scoring.ngrams import ORDERS, count_ngrams, ngrams

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
        counts: Counter[Ngram] = Counter()
        pictures = 0
        for own in references:
            pictures += 1
            counts.update(set(chain.from_iterable(ngrams(text.split()) for text in own)))
        return cls(name, pictures, counts)

    def save(self, path: Path) -> None:
        """Write the table as JSON."""
        counts = {" ".join(ngram): count for ngram, count in self.counts.items()}
        write_json(path, {"name": self.name, "pictures": self.pictures, "counts": counts})

    @classmethod
    def load(cls, path: Path) -> "DocumentFrequencies":
        """Read a table that `save` wrote."""
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            counts = {tuple(ngram.split(" ")): int(n) for ngram, n in table["counts"].items()}
            return cls(str(table["name"]), int(table["pictures"]), counts)
        except FileNotFoundError as error:
            raise UserError("data.missing", f"{path}: no such file") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UserError(
                "score.frequencies",
                f"{path}: not a table of document frequencies ({error!r}); "
                "make one with DocumentFrequencies.of(...).save(...)",
            ) from error


@dataclass(frozen=True)
class _Vector:
    weights: dict[Ngram, float]
    norms: list[float]  # of each order
    bigrams: int


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
    frequencies = frequencies or DocumentFrequencies.of(references)
    log_pictures = math.log(max(1, frequencies.pictures))
    # An n-gram in every picture weighs nothing; one in no picture weighs like one in a single one.
    rarity = {
        ngram: log_pictures - math.log(max(1, count)) for ngram, count in frequencies.counts.items()
    }

    def vector(text: str) -> _Vector:
        words = text.split()
        weights: dict[Ngram, float] = {}
        squares = [0.0] * ORDERS
        for ngram, count in count_ngrams(words).items():
            weight = weights[ngram] = count * rarity.get(ngram, log_pictures)
            squares[len(ngram) - 1] += weight * weight
        return _Vector(weights, [math.sqrt(square) for square in squares], max(0, len(words) - 1))

    scores = []
    for candidate, own in zip(candidates, references, strict=True):
        caption = vector(candidate)
        alike = sum(_similarity(caption, vector(reference)) for reference in own)
        scores.append(10 * alike / ORDERS / len(own))
    return np.column_stack([scores, np.ones(len(scores))])


def _similarity(caption: _Vector, reference: _Vector) -> float:
    """Add up the orders' cosines, with a caption's weight clipped at the reference's."""
    products = [0.0] * ORDERS
    for ngram, weight in caption.weights.items():
        other = reference.weights.get(ngram)
        if other:
            products[len(ngram) - 1] += min(weight, other) * other
    cosines = sum(
        product / (norm * other_norm)
        for product, norm, other_norm in zip(products, caption.norms, reference.norms, strict=True)
        if product
    )
    distance = caption.bigrams - reference.bigrams
    return cosines * math.exp(-(distance**2) / (2 * SIGMA**2))
