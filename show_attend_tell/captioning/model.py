"""The model when captioning: what a model must offer so that search can caption with it.

An exported model and the thin adapter round the PyTorch modules offer the same functions, so
every caption, and every score made while training, comes from the same search.

Rows are hypotheses: row r belongs to picture r // beams, where beams = rows // pictures. Memory
has one row a picture and is never repeated: the beams of one picture share it.
"""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.integer[Any]]
Arrays = tuple[npt.NDArray[Any], ...]  # with the same leading axis


def pick(arrays: Arrays, rows: Integers) -> Arrays:
    """The rows of every array."""
    return tuple(part[rows] for part in arrays)


class CaptioningModel(Protocol):
    """A decoder in three functions; returned arrays are fresh, the caller may keep them."""

    @property
    def start_word(self) -> int:
        """Index given as the previous word at the first step."""

    @property
    def end_word(self) -> int:
        """Index of the end of a caption."""

    @property
    def unknown_word(self) -> int:
        """Index that stands for every word outside the vocabulary."""

    @property
    def vocabulary_size(self) -> int:
        """How many words `advance` chooses among, the end and the unknown word included."""

    def start(self, annotations: Floats) -> tuple[Arrays, Arrays]:
        """Begin a caption for each picture.

        Parameters
        ----------
        annotations
            (pictures, L, D): the annotation vectors a.

        Returns
        -------
        memory, state
            What stays and what changes from word to word, both with one row a picture.
        """

    def look(self, memory: Arrays, state: Arrays) -> tuple[Floats, Floats]:
        """Where to look for the next word (equations 4, 5), and how much it counts.

        Returns
        -------
        alpha, gate
            (rows, L), each row summing to 1, and (rows,), the gate β of section 4.2.1.
        """

    def advance(
        self,
        memory: Arrays,
        state: Arrays,
        weights: Floats,
        gate: Floats,
        words: Integers,
        best: int,
    ) -> tuple[Arrays, Floats, Integers]:
        """Read the previous word and the place looked at, and rate the next word.

        Equations 6, 1 to 3, and 7.

        Parameters
        ----------
        weights
            (rows, L): alpha itself, one place, or what a caller's function returned.
        gate
            (rows,), as `look` returned it.
        words
            (rows,) int64: the previous words; `start_word` at the first step.
        best
            How many words to return, at most `vocabulary_size`.

        Returns
        -------
        state, log_probs, ids
            The new state; log-probabilities (rows, best) of the best words, highest first and of
            equal ones the lower index first; their indices (rows, best).
        """


class Model(CaptioningModel, Protocol):
    """A whole captioner in four functions: a `CaptioningModel` that also encodes."""

    def encode(self, pictures: npt.NDArray[np.uint8]) -> Floats:
        """Turn framed pictures (pictures, S, S, 3) into annotations (pictures, L, D)."""
