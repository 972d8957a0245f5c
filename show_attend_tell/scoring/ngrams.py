"""N-grams of one to four words, counted together."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

ORDERS = 4


def ngrams(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Give every run of one to four words."""
    shifted = [words[start:] for start in range(ORDERS)]
    return chain.from_iterable(zip(*shifted[:n], strict=False) for n in range(1, ORDERS + 1))


def count_ngrams(words: Sequence[str]) -> Counter[tuple[str, ...]]:
    """Count every run of one to four words; a key's length is its order.

    >>> count_ngrams("a dog a".split())[("a",)]
    2
    """
    return Counter(ngrams(words))
