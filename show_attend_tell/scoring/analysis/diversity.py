"""How varied captions are: words, pairs, repeated captions, captions copied from training."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from show_attend_tell.scoring.measure import Protocol, find_protocol


@dataclass(frozen=True)
class Diversity:
    """What a set of captions holds.

    Parameters
    ----------
    distinct_1, distinct_2
        Different words and pairs of neighbours as a share of all of them.
    unique
        Different captions as a share of all.
    unseen
        Share of the captions that none of the training captions equals; None without those.
    lengths
        Words -> number of captions that long.
    """

    captions: int
    vocabulary: int
    distinct_1: float
    distinct_2: float
    unique: float
    unseen: float | None
    lengths: dict[int, int]


def measure_diversity(
    captions: Iterable[str],
    *,
    training: Iterable[str] | None = None,
    protocol: str | Protocol = "plain",
) -> Diversity:
    """Describe the variety of captions after the protocol's tokenisation.

    >>> measure_diversity(["A dog .", "a dog", "a cat"]).unique  # doctest: +ELLIPSIS
    0.666...
    """
    tokenise = find_protocol(protocol).tokenise
    texts = [tokenise(caption) for caption in captions]
    words = [text.split() for text in texts]
    singles = [word for line in words for word in line]
    pairs = [pair for line in words for pair in pairwise(line)]
    unseen = None
    if training is not None:
        known = {tokenise(caption) for caption in training}
        unseen = _share(sum(text not in known for text in texts), len(texts))
    return Diversity(
        captions=len(texts),
        vocabulary=len(set(singles)),
        distinct_1=_share(len(set(singles)), len(singles)),
        distinct_2=_share(len(set(pairs)), len(pairs)),
        unique=_share(len(set(texts)), len(texts)),
        unseen=unseen,
        lengths=dict(sorted(Counter(map(len, words)).items())),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
