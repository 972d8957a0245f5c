"""Caption: text as a person would write it, and where each of its words looked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from show_attend_tell.captioning.model import Floats
from show_attend_tell.captioning.search import Decoded
from show_attend_tell.captioning.settings import Look
from show_attend_tell.captioning.views import on_picture
from show_attend_tell.data.pictures import Crop

Looked: TypeAlias = Look | Literal["pointed"]  # `pointed`: where a caller's function said


@dataclass(frozen=True, eq=False)
class Caption:
    """Everything that drawing and JSON need to know of one caption of T words."""

    text: str
    words: tuple[str, ...]
    log_probs: npt.NDArray[np.float64]  # (T,)
    log_prob: float  # of the whole caption, its end included
    attention: Floats  # (T, h, w): where each word looked
    gates: Floats  # (T,): how much the picture counted for each word, β
    picture_size: tuple[int, int]  # width, height in pixels of the upright original
    crop: Crop  # the part of it that the grid of h × w covers
    look: Looked = "expected"  # with all places as weighed, or at one: the likeliest, or drawn
    warnings: tuple[str, ...] = ()  # what was done to the picture: `first_frame_only`, ...

    @classmethod
    def of(
        cls,
        decoded: Decoded,
        words: Sequence[str],
        grid: tuple[int, int],
        picture_size: tuple[int, int],
        crop: Crop,
        look: Looked = "expected",
        warnings: tuple[str, ...] = (),
    ) -> "Caption":
        """A caption in words from what the search returned.

        Parameters
        ----------
        decoded
            One of the captions that the search returned.
        words
            The same T words, spelled out.
        grid
            Rows and columns of a view's annotations; the L places run along the rows.
        picture_size, crop
            Where the grid lies on the original picture.
        look
            What the search used in place of the model's attention.
        warnings
            What a reader should know of how the picture was read.
        """
        return cls(
            text=sentence(words),
            words=tuple(words),
            log_probs=decoded.log_probs,
            log_prob=decoded.log_prob,
            attention=on_picture(decoded.weights, grid),
            gates=decoded.gates,
            picture_size=picture_size,
            crop=crop,
            look=look,
            warnings=warnings,
        )

    @property
    def confidence(self) -> float:
        """Mean probability of a word: the geometric mean over the words and the end, 0 to 1."""
        return float(np.exp(self.log_prob / (len(self.words) + 1)))

    def _repr_html_(self) -> str:
        """How it shows itself in a notebook."""
        from show_attend_tell.drawing.notebook import as_html

        return as_html(self)

    def to_dict(self) -> dict[str, object]:
        """The caption as plain numbers and text, as `sat caption --json` prints it."""
        return {
            "caption": self.text,
            "confidence": round(self.confidence, 4),
            "words": list(self.words),
            "log_probs": [round(float(x), 4) for x in self.log_probs],
            "warnings": list(self.warnings),
        }


def sentence(words: Sequence[str]) -> str:
    """Words as a sentence: capital first letter, punctuation in its place, a full stop.

    >>> sentence(["a", "dog", ",", "wet", ",", "shakes", "the", "man", "'s", "hand"])
    "A dog, wet, shakes the man's hand."
    """
    text = re.sub(r" (?=[.,;:!?%)]|'\w|n't\b)|(?<=\() ", "", " ".join(words))
    text = text.rstrip(" ,;:-")
    text = re.sub(r"(^|[.!?] )(\w)", lambda found: found[1] + found[2].upper(), text)
    return text if not text or text[-1] in ".!?" else text + "."
