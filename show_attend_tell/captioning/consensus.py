"""Consensus: rerank the beam by agreement with captions sampled from the model.

The likeliest caption is often a short and general one. Here further captions are sampled, and each
of the beam's is scored by the n-grams that it shares with them (minimum Bayes risk decoding). So
what most samples say of a picture wins, also where no single wording is likely. Rare words weigh
more. Measured in docs/log.md.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from show_attend_tell.captioning.model import CaptioningModel, Floats
from show_attend_tell.captioning.search import Decoded, Search, bytes_foreseen, decode_started
from show_attend_tell.errors import UserError

TEMPERATURE = 0.5  # of the samples; 0.8 was as good on dev
AMONG = 50  # likeliest words that each of their words is drawn from; others hardly ever come
LIKELIHOOD = 0.3  # weight of a caption's own score beside its agreement; chosen on dev
TOGETHER = 256 << 20  # bytes that the search of a batch may take; of one picture alone more:
MOST_BYTES = 1 << 30
ORDERS = range(1, 5)  # n of the n-grams
SIGMA = 6.0  # words by which lengths may differ before it costs much, as in CIDEr-D


def decode(model: CaptioningModel, annotations: Floats, search: Search) -> list[list[Decoded]]:
    """The captions of each picture, as `search.decode`, reranked if the search asks for consensus.

    The score of a reranked caption is its agreement with the samples and a share of its own score.
    """
    if len(annotations) == 0:
        return []
    started = model.start(annotations)  # once for both passes
    found, *sampled = (decode_started(model, started, one) for one in _passes(search))
    if not sampled:
        return found
    return [
        _reranked(captions, samples)[: search.n_best]
        for captions, samples in zip(found, sampled[0], strict=True)
    ]


def pictures_together(search: Search, most: int, *, places: int, words: int) -> int:
    """How many pictures, at most so many, a search may have together, by the memory it will take.

    Parameters
    ----------
    places, words
        L, and the size of the vocabulary.

    Raises
    ------
    UserError
        `request.bad`: a single picture would take too much.
    """
    needed, largest = max(
        (bytes_foreseen(one, places, words), name)
        for one, name in zip(_passes(search), ("beam", "consensus"), strict=False)
    )
    if needed > MOST_BYTES:
        name = "n_best" if search.temperature is not None else largest
        raise UserError(
            "request.bad",
            f"{name} {getattr(search, name):,} and max_words {search.max_words:,} would take "
            f"{needed / 2**30:.1f} GB of memory for each picture, more than the "
            f"{MOST_BYTES / 2**30:.1f} GB that a search may take; ask for less of one of them",
        )
    return max(1, min(most, TOGETHER // needed))


def _passes(search: Search) -> tuple[Search, ...]:
    """The search for captions, and that for samples if it asks for consensus."""
    if not search.consensus or search.temperature is not None:
        return (search,)
    return (
        replace(search, n_best=search.beam),
        replace(search, n_best=search.consensus, temperature=TEMPERATURE, among=AMONG),
    )


def _reranked(captions: Sequence[Decoded], samples: Sequence[Decoded]) -> list[Decoded]:
    counted = Counter(Phrases(one.words) for one in samples)
    rated = []
    for one in captions:
        own = Phrases(one.words)
        agreed = sum(times * agreement(own, other) for other, times in counted.items())
        agreed /= len(samples)
        rated.append(replace(one, score=agreed + LIKELIHOOD * one.score))
    return sorted(rated, key=lambda one: (not one.ended, -one.score))


@dataclass(frozen=True)
class Phrases:
    """A caption and its n-grams."""

    words: tuple[int, ...]

    @cached_property
    def weights(self) -> tuple[Mapping[tuple[int, ...], float], ...]:
        """How much each n-gram weighs, by n: how often it occurs times how rare it is."""
        return tuple(
            {
                phrase: count * _rarity(phrase)
                for phrase, count in Counter(
                    zip(*(self.words[i:] for i in range(order)), strict=False)
                ).items()
            }
            for order in ORDERS
        )

    @cached_property
    def norms(self) -> tuple[float, ...]:
        """Lengths of those weights as vectors, by n."""
        return tuple(math.hypot(*weights.values()) for weights in self.weights)


def _rarity(phrase: tuple[int, ...]) -> float:
    """The mean over its words. They are numbered by how common they are, and by Zipf's law the
    logarithm of a word's number is how rare it is.
    """
    return sum(math.log(2 + word) for word in phrase) / len(phrase)


def agreement(one: Phrases, other: Phrases) -> float:
    """How alike two captions are, from 0 to 1: as CIDEr-D, with a rarity of its own."""
    cosines = 0.0
    both = zip(one.weights, other.weights, one.norms, other.norms, strict=True)
    for own, theirs, norm, their_norm in both:
        shared = sum(
            min(weight, theirs[phrase]) * theirs[phrase]
            for phrase, weight in own.items()
            if phrase in theirs
        )
        if shared:
            cosines += shared / (norm * their_norm)
    apart = len(one.words) - len(other.words)
    return cosines / len(ORDERS) * math.exp(-(apart**2) / (2 * SIGMA**2))
