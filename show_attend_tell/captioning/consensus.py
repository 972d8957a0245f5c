"""Consensus: of the sentences that a beam found, the one that agrees best with what else is told.

The likeliest sentence is often a short and general one. Here further sentences are drawn from the
model, and each of the beam's is rated by how many n-grams it shares with them (minimum Bayes risk
decoding): what most of them say of a picture is said, also where no single wording is likely. Rare
words weigh more. Measured in docs/log.md.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from show_attend_tell.captioning import search as one_by_one
from show_attend_tell.captioning.model import CaptioningModel, Floats
from show_attend_tell.captioning.search import Decoded, Search
from show_attend_tell.errors import UserError

TEMPERATURE = 0.5  # of the sentences drawn; 0.8 was as good on dev
AMONG = 50  # likeliest words that each of theirs is drawn from; the others hardly ever come
LIKELIHOOD = 0.3  # what a sentence's own score counts beside its agreement; chosen on dev
TOGETHER = 256 << 20  # bytes that the search of a batch may take; of one picture alone more:
MOST_BYTES = 1 << 30
ORDERS = range(1, 5)  # n of the n-grams
SIGMA = 6.0  # words by which lengths may differ before it costs much, as in CIDEr-D


def decode(model: CaptioningModel, annotations: Floats, search: Search) -> list[list[Decoded]]:
    """Caption each picture as `search.decode` does, reranked by consensus if the search says so.

    The parameters and what is returned are those of `search.decode`; the score of a reranked
    caption is its agreement with the samples and a share of its own score.
    """
    passes = _passes(search)
    if len(passes) == 1:
        return one_by_one.decode(model, annotations, search)
    found, drawn = (one_by_one.decode(model, annotations, one) for one in passes)
    return [
        _by_consensus(sentences, votes)[: search.n_best]
        for sentences, votes in zip(found, drawn, strict=True)
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
        (one_by_one.bytes_foreseen(one, places, words), name)
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
    """The search for sentences, and that for votes if there are to be any."""
    if not search.consensus or search.temperature is not None:
        return (search,)
    return (
        replace(search, n_best=search.beam),
        replace(search, n_best=search.consensus, temperature=TEMPERATURE, among=AMONG),
    )


def _by_consensus(sentences: Sequence[Decoded], votes: Sequence[Decoded]) -> list[Decoded]:
    counted = Counter(Phrases(vote.words) for vote in votes)
    rated = []
    for one in sentences:
        own = Phrases(one.words)
        agreed = sum(count * agreement(own, vote) for vote, count in counted.items()) / len(votes)
        rated.append(replace(one, score=agreed + LIKELIHOOD * one.score))
    return sorted(rated, key=lambda one: (not one.ended, -one.score))


@dataclass(frozen=True)
class Phrases:
    """A sentence and its n-grams."""

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
    """How alike two sentences are, from 0 to 1: as CIDEr-D, with a rarity of its own."""
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
