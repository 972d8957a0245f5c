"""How good captions are: the field's scores, exact and without Java."""

from show_attend_tell.scoring.bootstrap import Comparison, compare, intervals
from show_attend_tell.scoring.cider import DocumentFrequencies
from show_attend_tell.scoring.diversity import Diversity, measure_diversity
from show_attend_tell.scoring.measure import (
    BLEU,
    DEFAULT_METRICS,
    METRICS,
    RECIPES,
    Measured,
    Recipe,
    measure,
)
from show_attend_tell.scoring.score import Score, score_captions

__all__ = [
    "BLEU",
    "DEFAULT_METRICS",
    "METRICS",
    "RECIPES",
    "Comparison",
    "Diversity",
    "DocumentFrequencies",
    "Measured",
    "Recipe",
    "Score",
    "compare",
    "intervals",
    "measure",
    "measure_diversity",
    "score_captions",
]
