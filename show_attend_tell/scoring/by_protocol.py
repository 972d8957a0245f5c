"""The same captions under every recipe: BLEU and METEOR under each, the rest under coco's.

A paper's figures and coco-caption's can then both be compared with: METEOR, too, counts a full stop
where the recipe keeps it.
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

    METEOR is left out where its data is not installed.

    Parameters
    ----------
    captions, people
        What a model told and what people said of each picture, by id.
    watch
        As in `measure`, so once a caption and recipe.
    """
    bleu = [f"{name}-{penalty}" for penalty in ("nobp", "bp") for name in BLEU]
    further = [name for name in choose_metrics()[0] if name not in BLEU]
    meteor = [name for name in further if name == "METEOR"]
    return {
        recipe: measure(
            captions,
            people,
            metrics=[*bleu, *(further if recipe == "coco" else meteor)],
            recipe=recipe,
            watch=watch,
        )
        for recipe in RECIPES
    }


def score_by_recipe(measured: Mapping[str, Mapping[str, Measured]]) -> dict[str, dict[str, Score]]:
    """The scores of what was measured, each with its interval."""
    return {name: score_measured(found, resamples=RESAMPLES) for name, found in measured.items()}
