"""How good captions are: the field's scores, exact and without Java."""

from show_attend_tell.scoring.measure import BLEU, METRICS, RECIPES, Measured, Recipe, measure
from show_attend_tell.scoring.score import Score, score_captions

__all__ = ["BLEU", "METRICS", "RECIPES", "Measured", "Recipe", "Score", "measure", "score_captions"]
