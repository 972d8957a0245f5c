"""What mattered in a study, as one picture: its history, the weight of each key, and slices."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState

from show_attend_tell.files import write_atomically
from show_attend_tell.private import matplotlib_figure

_INK, _FAINT, _GRID = "#222222", "#777777", "#e4e4e4"
_TRIAL, _BEST = "#2a6f97", "#d1495b"
_COLUMNS = 3
_BEST_SHARE = 0.25  # of the trials; a key weighs as much as its values there differ from all
_FEWEST = 8  # finished trials, below which that says nothing


def draw_study(study: optuna.Study, space: Mapping[str, Any], metric: str, path: Path) -> None:
    """Draw what is known of a study into a PNG file.

    Parameters
    ----------
    study
        With one finished trial or more.
    space
        What may stand for each key.
    metric
        The name of the score.
    path
        The picture.
    """
    finished = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    pruned = study.get_trials(deepcopy=False, states=[TrialState.PRUNED])
    rows = math.ceil(len(space) / _COLUMNS)
    figure = matplotlib_figure()(figsize=(12, 3.4 + 3 * rows), dpi=120, layout="constrained")
    # Two figures, so that the names of keys in the upper one do not push the lower one apart.
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=[3.4, 3 * rows]).flat
    history, weights = upper.subplots(1, 2, width_ratios=[2, 1])
    _draw_history(history, finished, pruned, metric)
    _draw_weights(weights, weights_of(study), len(finished))
    for place, (key, values) in enumerate(space.items(), start=1):
        axes = lower.add_subplot(rows, _COLUMNS, place)
        _draw_slice(axes, key, values, finished, pruned)
    write_atomically(path, lambda stream: figure.savefig(stream, format="png"))


def weights_of(study: optuna.Study) -> dict[str, float]:
    """How much each key had to do with being among the best (PED-ANOVA); empty if unknown."""
    finished = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    scores = sorted((trial.value or 0.0 for trial in finished), reverse=True)
    if len(scores) < _FEWEST or scores[math.ceil(_BEST_SHARE * len(scores)) - 1] == scores[-1]:
        return {}
    evaluator = PedAnovaImportanceEvaluator(target_quantile=_BEST_SHARE)
    return get_param_importances(study, evaluator=evaluator)


def _draw_history(
    axes: Any, finished: list[FrozenTrial], pruned: list[FrozenTrial], metric: str
) -> None:
    _prepare(axes, f"dev {metric} of each trial")
    best, steps = -math.inf, []
    for trial in finished:
        best = max(best, trial.value or 0.0)
        steps.append(best)
    numbers = [trial.number for trial in finished]
    axes.step(numbers, steps, where="post", color=_BEST, linewidth=1.5, label="best so far")
    _draw_trials(axes, numbers, finished, [trial.number for trial in pruned])
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("trial", color=_INK)
    axes.legend(frameon=False, labelcolor=_INK, loc="lower right", ncols=3, bbox_to_anchor=(1, 1))


def _draw_weights(axes: Any, weights: Mapping[str, float], count: int) -> None:
    _prepare(axes, "what mattered")
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    if not weights:
        axes.set_yticks([])
        text = f"too few finished trials to say, or all alike\n({_FEWEST} at least; {count} so far)"
        axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=_FAINT)
        return
    keys = list(weights)[::-1]  # barh begins at the bottom
    shares = [weights[key] for key in keys]
    axes.barh(keys, shares, color=_TRIAL, height=0.6)
    for place, share in enumerate(shares):
        axes.annotate(
            f"{100 * share:.0f} %",
            (share, place),
            (4, 0),
            textcoords="offset points",
            va="center",
            color=_INK,
        )
    axes.set_xlim(0, 1.2 * max(shares))
    axes.set_xlabel(f"the best quarter of {count} finished trials", color=_FAINT)


def _draw_slice(
    axes: Any, key: str, values: Any, finished: list[FrozenTrial], pruned: list[FrozenTrial]
) -> None:
    _prepare(axes, key)
    if isinstance(values, CategoricalDistribution):
        places = {choice: place for place, choice in enumerate(values.choices)}
        axes.set_xticks(range(len(places)), [str(choice) for choice in places])
        axes.set_xlim(-0.5, len(places) - 0.5)
    else:
        places = None
        margin = 0.03
        if values.log:
            axes.set_xscale("log")
            factor = (values.high / values.low) ** margin
            axes.set_xlim(values.low / factor, values.high * factor)
        else:
            width = (values.high - values.low) * margin
            axes.set_xlim(values.low - width, values.high + width)

    def at(trials: list[FrozenTrial]) -> list[Any]:
        return [places[one.params[key]] if places else one.params[key] for one in trials]

    _draw_trials(axes, at(finished), finished, at(pruned))


def _draw_trials(
    axes: Any, places: list[Any], finished: list[FrozenTrial], pruned_places: list[Any]
) -> None:
    """Finished trials by their scores, the best in red; pruned ones as ticks at the bottom."""
    scores = [trial.value or 0.0 for trial in finished]
    axes.plot(places, scores, "o", color=_TRIAL, alpha=0.7, markersize=6, label="finished")
    if scores:
        best = max(range(len(scores)), key=scores.__getitem__)
        axes.plot(places[best], scores[best], "o", color=_BEST, markersize=9)
    axes.plot(
        pruned_places,
        [0.02] * len(pruned_places),  # their scores are of fewer epochs: no height would be fair
        "|",
        transform=axes.get_xaxis_transform(),
        color=_FAINT,
        markersize=9,
        label="given up",
    )


def _prepare(axes: Any, title: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_FAINT)
    axes.tick_params(colors=_FAINT, labelcolor=_INK, which="both")
    axes.grid(axis="y", color=_GRID)
    axes.set_axisbelow(True)
    axes.set_title(title, loc="left", color=_INK)
