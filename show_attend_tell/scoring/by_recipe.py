"""Scores of the same captions under every recipe: BLEU under each, the other metrics under coco's.

A paper's figures and coco-caption's can then both be compared with.
"""

from collections.abc import Callable, Mapping, Sequence

from show_attend_tell.scoring.measure import BLEU, RECIPES, Measured, measure
from show_attend_tell.scoring.report import choose_metrics
from show_attend_tell.scoring.score import Score, score_measured

RESAMPLES = 1000


def measure_by_recipe(
    captions: Mapping[str, str],
    people: Mapping[str, Sequence[str]],
    watch: Callable[[int], object] = lambda done: None,
) -> dict[str, dict[str, Measured]]:
    """What was measured, by recipe of scoring and metric; BLEU with and without brevity penalty.

    Parameters
    ----------
    captions, people
        What a model told and what people said of each picture, by id.
    watch
        As in `measure`.
    """
    bleu = [f"{name}-{penalty}" for penalty in ("nobp", "bp") for name in BLEU]
    further = [name for name in choose_metrics()[0] if name not in BLEU]
    return {
        recipe: measure(
            captions,
            people,
            metrics=[*bleu, *(further if recipe == "coco" else [])],
            recipe=recipe,
            watch=watch,
        )
        for recipe in RECIPES
    }


def score_by_recipe(measured: Mapping[str, Mapping[str, Measured]]) -> dict[str, dict[str, Score]]:
    """The scores of what was measured, each with its interval."""
    return {name: score_measured(found, resamples=RESAMPLES) for name, found in measured.items()}
