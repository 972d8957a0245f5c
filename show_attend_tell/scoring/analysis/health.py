"""Whether attention is alive: how sharp it is, how it moves, and when the gate opens.

A model can generate fair captions with attention that never moves; no score of text shows it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# English words that name nothing to be seen: articles, prepositions, conjunctions, auxiliaries,
# pronouns. Short on purpose; what is not here counts as a content word.
FUNCTION_WORDS = frozenset(
    [
        *("a", "an", "the", "this", "that", "these", "those", "some", "another", "each", "other"),
        *("all", "both", "there"),
        *("in", "on", "at", "of", "to", "from", "with", "without", "by", "for", "into", "onto"),
        *("over", "under", "through", "across", "along", "around", "near", "behind", "beside"),
        *("between", "above", "below", "against", "down", "up", "off", "out", "outside", "inside"),
        *("toward", "towards", "while", "as", "and", "or", "but"),
        *("is", "are", "was", "were", "be", "been", "being", "has", "have"),
        *("his", "her", "its", "their", "he", "she", "it", "they", "him", "them", "who", "which"),
    ]
)


@dataclass(frozen=True)
class AttendedCaption:
    """One caption: its words, the attention over L places at each, and the gates.

    Parameters
    ----------
    weights, gates
        (words, L), each row summing to one, and (words,).
    """

    words: Sequence[str]
    weights: Floats
    gates: Floats


@dataclass(frozen=True)
class Health:
    """Means over the words of many captions.

    Parameters
    ----------
    entropy
        Of the weights, in nats; log L would be looking everywhere alike.
    sharpness
        1 − entropy / log L: 0 looks everywhere alike, 1 at a single place.
    change
        How much of the weight moves from one word to the next: 0 none, 1 all of it.
    likeness
        Share of the weight that two pictures' maps, in the same step, have in common: 1 would be
        maps that do not depend on the picture.
    gates
        Mean gate by word class.
    """

    words: int
    entropy: float
    sharpness: float
    change: float
    likeness: float
    gates: dict[str, float]


@dataclass(frozen=True)
class Moment:
    """One place in a sentence: means over the captions that have a word there.

    Parameters
    ----------
    captions
        How many have one.
    change
        How much of the weight moved since the word before; None at the first word.
    """

    captions: int
    entropy: float
    change: float | None
    gate: float


def measure_health(captions: Iterable[AttendedCaption]) -> Health:
    """Describe the attention of captions, generated or teacher-forced."""
    captions = list(captions)
    weights = np.concatenate([caption.weights for caption in captions])  # (all words, L)
    entropy = _entropy(weights)
    moves = [_moved(caption.weights[:-1], caption.weights[1:]) for caption in captions]
    # Each caption beside the next one, for as many words as both have.
    apart = [
        _moved(one.weights[: len(other.weights)], other.weights[: len(one.weights)])
        for one, other in pairwise(captions)
    ]
    gates: dict[str, list[float]] = defaultdict(list)
    for caption in captions:
        for word, gate in zip(caption.words, caption.gates.tolist(), strict=True):
            gates[word_class(word)].append(gate)
    return Health(
        words=len(weights),
        entropy=float(entropy.mean()),
        sharpness=float(1 - entropy.mean() / np.log(weights.shape[1])),
        change=_mean(moves),
        likeness=1 - _mean(apart),
        gates={name: sum(found) / len(found) for name, found in sorted(gates.items())},
    )


def over_time(captions: Sequence[AttendedCaption]) -> list[Moment]:
    """Describe attention at the first word, the second, and so on to the longest caption's last."""
    longest = max((len(caption.words) for caption in captions), default=0)
    moments = []
    for place in range(longest):
        here = [caption for caption in captions if len(caption.words) > place]
        weights = np.array([caption.weights[place] for caption in here])  # (captions, L)
        before = np.array([caption.weights[place - 1] for caption in here]) if place else None
        moments.append(
            Moment(
                captions=len(here),
                entropy=float(_entropy(weights).mean()),
                change=None if before is None else float(_moved(before, weights).mean()),
                gate=float(np.mean([caption.gates[place] for caption in here])),
            )
        )
    return moments


def coverage(captions: Sequence[AttendedCaption]) -> Floats:
    """How often a caption looks at each place, Σ_t α: the mean over captions, (L,)."""
    return np.asarray(np.mean([caption.weights.sum(axis=0) for caption in captions], axis=0))


def gates_of_words(captions: Iterable[AttendedCaption], least: int) -> dict[str, float]:
    """Mean gate of each word that occurs at least so often, from the highest to the lowest."""
    gates: dict[str, list[float]] = defaultdict(list)
    for caption in captions:
        for word, gate in zip(caption.words, caption.gates.tolist(), strict=True):
            gates[word].append(gate)
    means = {word: sum(found) / len(found) for word, found in gates.items() if len(found) >= least}
    return dict(sorted(means.items(), key=lambda item: (-item[1], item[0])))


def word_class(word: str) -> str:
    """The class of a word: function, content or punctuation.

    >>> [word_class(word) for word in ("a", "dog", "in", ".")]
    ['function', 'content', 'function', 'punctuation']
    """
    if not any(map(str.isalnum, word)):
        return "punctuation"
    return "function" if word.lower() in FUNCTION_WORDS else "content"


def _entropy(weights: Floats) -> Floats:
    """Of each row, in nats: (n, L) -> (n,)."""
    return np.asarray(-(weights * np.log(np.maximum(weights, 1e-30))).sum(axis=1))


def _moved(before: Floats, after: Floats) -> Floats:
    """Share of the weight that lies elsewhere: (n, L), (n, L) -> (n,)."""
    return np.asarray(np.abs(before - after).sum(axis=1) / 2)


def _mean(parts: Sequence[Floats]) -> float:
    values = np.concatenate(parts) if parts else np.empty(0)
    return float(values.mean()) if len(values) else 0.0
