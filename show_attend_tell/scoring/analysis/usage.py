"""Which words captions use more, or less, than the references of the same pictures."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from show_attend_tell.scoring.measure import Protocol, find_protocol


@dataclass(frozen=True)
class WordUse:
    """One word in the generated captions and in the references.

    Parameters
    ----------
    generated, reference
        Occurrences in each thousand words of the captions, and of the references.
    surplus
        Significance of the difference: the log-likelihood ratio G² of the counts (Dunning 1993),
        above zero where the word is over-used, below where under-used.
    """

    word: str
    generated: float
    reference: float
    surplus: float


def compare_words(
    captions: Iterable[str], references: Iterable[str], *, protocol: str | Protocol = "plain"
) -> list[WordUse]:
    """Compare the use of every word, the most over-used first, the most under-used last.

    >>> used = compare_words(["a dog", "a dog"], ["a cat", "a dog"])
    >>> [(one.word, one.generated, one.reference, round(one.surplus, 3)) for one in used]
    [('dog', 500.0, 250.0, 0.34), ('a', 500.0, 500.0, 0.0), ('cat', 0.0, 250.0, -1.386)]
    """
    generated, reference = (
        Counter(word for text in texts for word in find_protocol(protocol).tokenise(text).split())
        for texts in (captions, references)
    )
    totals = generated.total(), reference.total()
    used = [
        WordUse(
            word,
            1000 * generated[word] / max(totals[0], 1),
            1000 * reference[word] / max(totals[1], 1),
            _surplus(generated[word], reference[word], *totals),
        )
        for word in generated.keys() | reference.keys()
    ]
    return sorted(used, key=lambda one: (-one.surplus, one.word))


def _surplus(generated: int, reference: int, all_generated: int, all_reference: int) -> float:
    """G² of two counts, given how many words there were, with the sign of the difference."""
    share = (generated + reference) / (all_generated + all_reference)
    ratio = 2 * (_term(generated, share * all_generated) + _term(reference, share * all_reference))
    return math.copysign(max(ratio, 0.0), generated * all_reference - reference * all_generated)


def _term(found: int, expected: float) -> float:
    return found * math.log(found / expected) if found else 0.0
