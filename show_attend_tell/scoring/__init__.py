"""How good captions are: the field's scores, exact and without Java."""

from show_attend_tell.scoring.analysis.diversity import Diversity, measure_diversity
from show_attend_tell.scoring.measure import (
    BLEU,
    DEFAULT_METRICS,
    METRICS,
    PROTOCOLS,
    Measured,
    Protocol,
    measure,
)
from show_attend_tell.scoring.metrics.cider import DocumentFrequencies
from show_attend_tell.scoring.score import Score, score_captions
from show_attend_tell.scoring.statistics import Comparison, compare, intervals

__all__ = [
    "BLEU",
    "DEFAULT_METRICS",
    "METRICS",
    "PROTOCOLS",
    "Comparison",
    "Diversity",
    "DocumentFrequencies",
    "Measured",
    "Protocol",
    "Score",
    "compare",
    "intervals",
    "measure",
    "measure_diversity",
    "score_captions",
]
