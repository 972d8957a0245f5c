"""Ensemble: several models that tell one sentence together.

Each member sees the picture and remembers the sentence in its own way; what they share is the next
word, whose probability is the mean of what the members give it. The mean of log-probabilities, put
back to a sum of 1, would let one member forbid a word, and was no better on dev (docs/log.md).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import UserError
from show_attend_tell.telling.model import Arrays, Floats, Integers, Teller


class Ensemble:
    """A `Teller` made of tellers that know the same words.

    A member looks where it wants to: what one of them attends to means nothing to another.

    Parameters
    ----------
    members
        They may have annotations of different kinds: `start` takes a tuple for each picture.
    share_places
        Whether a place is the same part of the picture for all members. The attention shown is
        then the mean of theirs, otherwise that of the first.
    """

    def __init__(self, members: Sequence[Teller[Floats]], *, share_places: bool) -> None:
        self.members = tuple(members)
        self.start_word = members[0].start_word
        self.end_word = members[0].end_word
        self.unknown_word = members[0].unknown_word
        self.vocabulary_size = members[0].vocabulary_size
        self._shown = len(members) if share_places else 1

    def start(self, annotations: Sequence[tuple[Floats, ...]]) -> tuple[Arrays, Arrays]:
        """Memory and state are tuples with the members' own.

        A member's state has also where it looks for the next word, since `advance` is not told.
        """
        of_members = zip(*annotations, strict=True)
        begun = [
            member.start(np.stack(own))
            for member, own in zip(self.members, of_members, strict=True)
        ]
        memory = tuple(memory for memory, _ in begun)
        return memory, self._looking(memory, [state for _, state in begun])

    def look(self, memory: Arrays, state: Arrays) -> tuple[Floats, Floats]:
        """Alpha and gate to be shown."""
        alphas = [alpha for _, alpha, _ in state[: self._shown]]
        gates = [gate for _, _, gate in state[: self._shown]]
        return np.mean(alphas, axis=0), np.mean(gates, axis=0)

    def advance(
        self,
        memory: Arrays,
        state: Arrays,
        weights: Floats,
        gate: Floats,
        words: Integers,
        best: int,
    ) -> tuple[Arrays, Floats, Integers]:
        """The members' next states, and the best words by the mean of their probabilities."""
        if not np.array_equal(weights, self.look(memory, state)[0]):
            raise UserError(
                "request.bad",
                "models that tell together look each where it wants to; take one model, or look "
                "as expected (--look expected)",
            )
        # A member that gave only its best words would leave the others' shares unknown.
        probs = np.zeros((len(words), self.vocabulary_size))
        after = []
        for member, own, (before, alpha, beta) in zip(self.members, memory, state, strict=True):
            new, log_probs, ids = member.advance(
                own, before, alpha, beta, words, self.vocabulary_size
            )
            after.append(new)
            by_index = np.empty_like(probs)
            np.put_along_axis(by_index, ids, np.exp(log_probs, dtype=np.float64), axis=1)
            probs += by_index
        probs /= len(self.members)
        ids = _highest(probs, best)
        with np.errstate(divide="ignore"):
            log_probs = np.log(np.take_along_axis(probs, ids, axis=1))
        return self._looking(memory, after), log_probs, ids

    def _looking(self, memory: Arrays, states: Sequence[Arrays]) -> Arrays:
        """Let every member look."""
        return tuple(
            (state, *member.look(own, state))
            for member, own, state in zip(self.members, memory, states, strict=True)
        )


def refuse_other_words(vocabularies: Sequence[tuple[object, Vocabulary]]) -> None:
    """Refuse models, each with its name, that do not know the same words."""
    (first, known), *others = vocabularies
    for name, vocabulary in others:
        if vocabulary != known:
            raise UserError(
                "model.vocabulary",
                f"{name}: its {len(vocabulary):,} words are not the {len(known):,} of {first}; "
                "only models with the same vocabulary tell together",
            )


def _highest(values: npt.NDArray[np.float64], count: int) -> Integers:
    """Indices of each row's highest values, highest first and of equal ones the lower index first.

    Sorting whole rows would take as long as a member.
    """
    ids = np.sort(np.argpartition(-values, count - 1, axis=1)[:, :count], axis=1)
    found = np.take_along_axis(values, ids, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    ids = np.take_along_axis(ids, order, axis=1)
    lowest = found.min(axis=1, keepdims=True)
    is_tied = (values >= lowest).sum(axis=1) > count  # which of equal ones got in was chance
    ids[is_tied] = np.argsort(-values[is_tied], axis=1, kind="stable")[:, :count]
    return ids
