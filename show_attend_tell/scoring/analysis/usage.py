"""Which words captions use more, or less, than the people who described the same pictures."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from show_attend_tell.scoring.measure import Protocol, find_protocol


@dataclass(frozen=True)
class WordUse:
    """One word in the captions told and in the references.

    Parameters
    ----------
    told, said
        Occurrences in each thousand words told, and in each thousand that people said.
    surplus
        How surely the two differ: the log-likelihood ratio G² of the counts (Dunning 1993), above
        zero where the word is told too often, below where too seldom.
    """

    word: str
    told: float
    said: float
    surplus: float


def compare_words(
    captions: Iterable[str], references: Iterable[str], *, protocol: str | Protocol = "plain"
) -> list[WordUse]:
    """Compare the use of every word, the most over-used first, the most under-used last.

    >>> used = compare_words(["a dog", "a dog"], ["a cat", "a dog"])
    >>> [(one.word, one.told, one.said, round(one.surplus, 3)) for one in used]
    [('dog', 500.0, 250.0, 0.34), ('a', 500.0, 500.0, 0.0), ('cat', 0.0, 250.0, -1.386)]
    """
    told, said = (
        Counter(word for text in texts for word in find_protocol(protocol).tokenise(text).split())
        for texts in (captions, references)
    )
    totals = told.total(), said.total()
    used = [
        WordUse(
            word,
            1000 * told[word] / max(totals[0], 1),
            1000 * said[word] / max(totals[1], 1),
            _surplus(told[word], said[word], *totals),
        )
        for word in told.keys() | said.keys()
    ]
    return sorted(used, key=lambda one: (-one.surplus, one.word))


def _surplus(told: int, said: int, all_told: int, all_said: int) -> float:
    """G² of two counts, given how many words there were, with the sign of the difference."""
    share = (told + said) / (all_told + all_said)
    ratio = 2 * (_term(told, share * all_told) + _term(said, share * all_said))
    return math.copysign(max(ratio, 0.0), told * all_said - said * all_told)


def _term(found: int, expected: float) -> float:
    return found * math.log(found / expected) if found else 0.0
