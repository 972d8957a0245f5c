"""N-grams of one to four words, counted in all captions and references at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

ORDERS = 4

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class NgramCounts:
    """How often each n-gram occurs in each text: first the captions, then all references.

    Parameters
    ----------
    captions
        How many of the texts are captions.
    words
        The words of all texts, one text after the other.
    lengths, picture
        (texts,): how many words each text has, and whose picture's it is.
    example, order
        (n-grams,): where in `words` each is first found, and how many words it has, less one.
    text, ngram, count
        (entries,): sorted by text, then by n-gram.
    """

    captions: int
    words: Sequence[str]
    lengths: Integers
    picture: Integers
    example: Integers
    order: Integers
    text: Integers
    ngram: Integers
    count: Integers

    @classmethod
    def of(cls, captions: Sequence[str], references: Sequence[Sequence[str]]) -> "NgramCounts":
        """Count what texts hold whose words are separated by blanks.

        >>> counts = NgramCounts.of(["a dog"], [["a dog runs", "cats"]])
        >>> [" ".join(phrase) for phrase in counts.phrases()]
        ['a', 'dog', 'runs', 'cats', 'a dog', 'dog runs', 'a dog runs']
        """
        lines = [text.split() for text in chain(captions, *references)]
        words = list(chain.from_iterable(lines))
        lengths = np.array([len(line) for line in lines], dtype=np.int64)
        pictures = np.arange(len(captions))
        numbers: dict[str, int] = {}
        word = np.array([numbers.setdefault(text, len(numbers)) for text in words], dtype=np.int64)
        text = np.repeat(np.arange(len(lines)), lengths)
        words_left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(words))

        start, ngram = np.arange(len(words)), np.zeros(len(words), dtype=np.int64)
        examples: list[Integers] = []
        orders, entries, known = [], [], 0
        for order in range(ORDERS):
            # An n-gram is the one a word shorter and the word after it.
            whole = words_left[start] > order
            start = start[whole]
            pairs = ngram[whole] * len(numbers) + word[start + order]
            _, first, ngram = np.unique(pairs, return_index=True, return_inverse=True)
            entries.append((text[start], known + ngram))
            examples.append(start[first])
            orders.append(np.full(len(first), order))
            known += len(first)
        texts, ngrams = map(np.concatenate, zip(*entries, strict=True))
        distinct, count = np.unique(texts * known + ngrams, return_counts=True)
        return cls(
            len(captions),
            words,
            lengths,
            np.concatenate([pictures, np.repeat(pictures, [len(own) for own in references])]),
            np.concatenate(examples),
            np.concatenate(orders),
            distinct // max(1, known),
            distinct % max(1, known),
            count,
        )

    def phrases(self) -> Iterator[tuple[str, ...]]:
        """Give the words of each n-gram."""
        for start, order in zip(self.example.tolist(), self.order.tolist(), strict=True):
            yield tuple(self.words[start : start + order + 1])

    def pictures_with(self) -> Integers:
        """Count for each n-gram the pictures in whose references it occurs."""
        own = self.text >= self.captions
        pictures, ngrams = self.picture[self.text[own]], self.ngram[own]
        distinct = np.unique(pictures * len(self.order) + ngrams)
        return np.bincount(distinct % max(1, len(self.order)), minlength=len(self.order))

    def shared(self) -> tuple[Integers, Integers]:
        """Pair the entries of captions with those of their references.

        Returns
        -------
        Two rows of places in `text`, `ngram` and `count`: an entry of a caption, an entry of one of
        its references with the same n-gram.
        """
        entries = self.picture[self.text] * len(self.order) + self.ngram
        first = int(np.searchsorted(self.text, self.captions))  # of the references
        place = np.searchsorted(entries[:first], entries[first:])
        found = np.flatnonzero(np.append(entries[:first], -1)[place] == entries[first:])
        return place[found], first + found

    def sums(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Add up numbers of all entries: (texts, orders)."""
        cells = self.text * ORDERS + self.order[self.ngram]
        total = np.bincount(cells, values, minlength=len(self.lengths) * ORDERS)
        return total.reshape(-1, ORDERS).astype(np.float64)
