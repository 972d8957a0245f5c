"""What a report is made of: numbers, words and pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from show_attend_tell.captioning.caption import Caption
from show_attend_tell.scoring import Diversity, Score
from show_attend_tell.scoring.analysis.calibration import Bin
from show_attend_tell.scoring.analysis.health import Health, Moment
from show_attend_tell.scoring.analysis.usage import WordUse

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Entry:
    """One picture: its caption, the captions by people, and how the two compare.

    Parameters
    ----------
    scores
        Of this caption alone, by metric; the first is what pictures are ranked by.
    thumbnail
        A small picture as an address that holds all of it; None where the picture is not there.
    """

    id: str
    caption: str
    references: tuple[str, ...]
    scores: Mapping[str, float]
    confidence: float
    thumbnail: str | None = None


@dataclass(frozen=True)
class Shown:
    """A picture shown large, with where each word looked; without it, only its entry."""

    entry: Entry
    caption: Caption | None = None
    picture: Image.Image | None = None


@dataclass(frozen=True)
class Curves:
    """How learning went, by epochs and parts of them.

    Parameters
    ----------
    training, dev
        Nats a word.
    scores
        Dev BLEU-1 to BLEU-4.
    best
        The epoch whose weights are the model's.
    """

    training: Points
    dev: Points
    scores: Mapping[str, Points]
    best: int


@dataclass(frozen=True)
class Attention:
    """Where the model looked while it captioned.

    Parameters
    ----------
    coverage
        (rows, columns): Σ_t α at each place, the mean over captions.
    gates
        Mean β of frequent words, from the highest to the lowest; empty for a model without a gate.
    """

    health: Health
    moments: Sequence[Moment]
    coverage: NDArray[np.float64]
    gates: Mapping[str, float]


@dataclass(frozen=True)
class Calibration:
    """How well the model's confidence matches what comes of it.

    Parameters
    ----------
    words
        The likeliest next word of the references, by its probability: how often it was the word
        that the person wrote.
    captions
        Generated captions, by their confidence: their mean score.
    correlation
        Of confidence and score over captions; None where it has no meaning.
    """

    words: Sequence[Bin]
    captions: Sequence[Bin]
    correlation: float | None


@dataclass(frozen=True)
class Facts:
    """All of a report.

    Parameters
    ----------
    about
        Name and value of what there is to know of model, data and search, in order.
    scores
        By protocol and metric.
    lack
        Why a metric is missing.
    shown
        By title, such as "Best".
    gallery
        From the lowest score to the highest; of a large split only the lowest.
    pictures, without_picture
        How many captions there are, and of how many the picture is not there any more.
    words
        From the most over-used to the most under-used.
    generated, references
        How varied the captions and the references are.
    grounding
        Scores of `measure_grounding`; empty without boxes.
    """

    run: str
    split: str
    about: Mapping[str, str]
    scores: Mapping[str, Mapping[str, Score]]
    lack: str | None
    curves: Curves | None
    shown: Mapping[str, Sequence[Shown]]
    gallery: Sequence[Entry]
    pictures: int
    without_picture: int
    words: Sequence[WordUse]
    generated: Diversity
    references: Diversity
    attention: Attention
    calibration: Calibration
    grounding: Mapping[str, Score]
