"""Tuning: Optuna proposes values for a recipe's keys, and the dev score judges what they train.

It stands where the paper used Whetlab; Optuna keeps the study in one SQLite file, prunes and plots.
A study can be killed at any moment: the same call resumes the trial that was training.
"""

import csv
import io
import math
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.distributions import distribution_to_json as to_json
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from show_attend_tell.data.features import FeatureStore
from show_attend_tell.errors import UserError
from show_attend_tell.files import RunLock, make_room, write_atomically, write_text
from show_attend_tell.learning.loop.trainer import train
from show_attend_tell.learning.recipe import Recipe, example_of, parse_value, vary
from show_attend_tell.learning.run import BEST, check_encoder
from show_attend_tell.learning.watching.events import Dev, Event, TrialEnd, TrialStart, Watch
from show_attend_tell.private import matplotlib_figure

Values = CategoricalDistribution | FloatDistribution | IntDistribution
Space = Mapping[str, Values]  # what may stand for each `section.key`

DATABASE, BEST_RECIPE, TRIALS, RUNS = "study.db", "best.toml", "trials.csv", "runs"
HISTORY, SLICES, WHAT_MATTERED = "history.png", "slices.png", "what-mattered.png"

# Searched when nothing else is named: what the paper leaves open and small data is touchy about.
USUAL = (
    "training.learning_rate=1e-4..2e-3:log",
    "training.label_smoothing=0..0.2",
    "model.dropout=0.2..0.7",
    "model.hidden=256..1024:log",
    "model.word=128..512:log",
    "vocabulary.minimum_count=1..8",
)
FINISHED_FIRST = 4  # trials; before that there is no median worth the name
SPARED_EPOCHS = 1  # in which no trial is pruned: a small learning rate starts slowly
FEWEST = 8  # finished trials, below which nothing can be said of what mattered


def read_space(texts: Sequence[str], overrides: Sequence[str] = ()) -> Space:
    """What to search, as `--search` takes it: `section.key=low..high`, `low..high:log` or `a,b,c`.

    Where nothing is named it is USUAL, but for what `--set` gives a value.

    >>> space = read_space(["model.hidden=256..1024:log", "model.readout=linear,tanh"])
    >>> space["model.hidden"].low, space["model.readout"].choices
    (256, ('linear', 'tanh'))
    """
    is_set = {text.partition("=")[0].strip() for text in overrides}
    space: dict[str, Values] = {}
    for text in texts or [usual for usual in USUAL if usual.partition("=")[0] not in is_set]:
        key, _, values = (part.strip() for part in text.partition("="))
        example = example_of(key, f"--search {text}")
        try:
            if not values:
                raise ValueError("no values; write section.key=low..high, low..high:log, or =a,b,c")
            if key in space:
                raise ValueError(f"{key} is searched already; name it once")
            if key == "training.stop_on" or isinstance(example, list):
                raise ValueError("this key cannot be searched; give it a value with --set")
            space[key] = _values(values, example)
        except ValueError as error:
            raise UserError("request.search", f"--search {text}: {error}") from error
    if not space:
        raise UserError("request.search", "--set leaves nothing to search; name it with --search")
    return space


def _values(text: str, example: Any) -> Values:
    if ".." not in text:
        choices = [parse_value(value.strip()) for value in text.split(",")]
        if len(set(map(str, choices))) < max(2, len(choices)):
            raise ValueError("a search needs two different values or more; one is set with --set")
        return CategoricalDistribution(choices)
    if type(example) not in (int, float):
        raise ValueError("this key is not a number; name the values, as in a,b,c")
    ends, _, scale = text.partition(":")
    with suppress(ValueError):  # not numbers, or a logarithm of none
        low, high = (type(example)(end) for end in ends.split(".."))
        if 0 < high - low < math.inf and scale in ("", "log"):
            kind = IntDistribution if isinstance(example, int) else FloatDistribution
            return kind(low, high, log=scale == "log")
    numbers = "whole numbers" if isinstance(example, int) else "numbers"
    raise ValueError(f"a range is two {numbers}, low..high, or low..high:log with low above 0")


def _ends(values: Any) -> Sequence[Any]:
    """Values that all must fit for every one between them to fit."""
    return values.choices if hasattr(values, "choices") else (values.low, values.high)


def tune(
    store: FeatureStore, folder: Path, recipe: Recipe, space: Space, trials: int, watch: Watch
) -> FrozenTrial | None:
    """Search a recipe's keys for the best dev score, or continue a search; the best trial, if any.

    The recipe's own values are the first trial, where they are in `space`; `training.stop_on` is
    the score, `training.seed` also decides what is tried. `trials` counts those of earlier calls.
    `watch` is called with every event of the trainer, and with a `TrialStart` and a `TrialEnd`
    around those of each trial.
    """
    store.check_complete()
    for key, values in space.items():
        for value in _ends(values):
            check_encoder(vary(recipe, {key: value}, "--search").encoder, store)
    make_room(folder / DATABASE)
    others = {path.name for path in folder.iterdir()} - {"lock", f"{DATABASE}.part"}
    if others and DATABASE not in others:
        raise UserError(
            "study.foreign", f"{folder}: holds other things, but no {DATABASE}; name another folder"
        )
    about: dict[str, tuple[Any, str]] = {
        "recipe": (recipe.to_toml(), "repeat its --recipe and --set"),
        "space": ({k: to_json(v) for k, v in space.items()}, "repeat its --search, or its --set"),
        "store": (store.index.model_dump(mode="json"), "name its feature store"),
    }
    with RunLock(folder), _opened(folder / DATABASE) as study:
        for what, (value, remedy) in about.items():
            if study.user_attrs.get(what, value) != value:
                raise UserError(
                    f"study.{what}",
                    f"{folder}: was begun with another {what}; {remedy}, or name another folder",
                )
            study.set_user_attr(what, value)
        best = _write_up(study, folder, recipe)  # a kill may have come before this was done
        for number in range(trials):
            if trial := _begun(study, number, recipe, space):
                watch(TrialStart(number, trial.params))
                _train(trial, store, folder, recipe, watch)
                best = _write_up(study, folder, recipe)
                facts = _facts(study.trials[number])
                is_best = bool(best and best.number == number)
                watch(TrialEnd(**facts, metric=recipe.training.stop_on, best=is_best))
        return best


@contextmanager
def _opened(path: Path) -> Iterator[optuna.Study]:
    """The study in a database; what SQLite cannot do becomes a sentence."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = None
    try:
        # A path is not put into a URL, which would read `?` and `%` in it its own way.
        storage = optuna.storages.RDBStorage(
            "sqlite://", engine_kwargs={"creator": lambda: sqlite3.connect(path)}
        )
        study = optuna.create_study(
            storage=storage, study_name="sat tune", direction="maximize", load_if_exists=True
        )
        study.pruner = optuna.pruners.MedianPruner(FINISHED_FIRST, SPARED_EPOCHS + 1)
        yield study
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        why = str(error.__cause__ or error).splitlines()[0]
        raise UserError(
            "study.unusable",
            f"{path}: SQLite cannot use it ({why}); free some space if the disk is full, else "
            "restore the file or name another folder",
        ) from error
    finally:
        if storage:
            storage.remove_session()
            storage.engine.dispose()


def _begun(study: optuna.Study, number: int, recipe: Recipe, space: Space) -> Trial | None:
    """A trial by number, proposed now or before the study was stopped; None if it has ended."""
    known = study.get_trials(deepcopy=False)
    state = known[number].state if number < len(known) else None
    if state and state.is_finished():
        return None
    # Seeded by number, so that a study that was stopped tries what it would have tried.
    study.sampler = optuna.samplers.TPESampler(seed=recipe.training.seed * 1_000_003 + number)
    if not known:
        study.enqueue_trial(_own_values(recipe, space))
    trial = Trial(study, known[number]._trial_id) if state == TrialState.RUNNING else study.ask()
    for key, values in space.items():
        if isinstance(values, CategoricalDistribution):
            trial.suggest_categorical(key, values.choices)
        elif isinstance(values, IntDistribution):
            trial.suggest_int(key, values.low, values.high, log=values.log)
        else:
            trial.suggest_float(key, values.low, values.high, log=values.log)
    return trial


def _own_values(recipe: Recipe, space: Space) -> dict[str, Any]:
    """The recipe's own values of what is searched, where a trial could have them."""
    table, own = recipe.model_dump(), dict[str, Any]()
    for key, values in space.items():
        section, name = key.split(".")
        value, ends = table[section][name], _ends(values)
        if isinstance(values, CategoricalDistribution):
            value = "none" if value is None else value
            own |= {key: value} if value in ends else {}
        elif value is not None and ends[0] <= value <= ends[1]:
            own[key] = value
    return own


def _train(trial: Trial, store: FeatureStore, folder: Path, recipe: Recipe, watch: Watch) -> None:
    """Train a trial to its end, and write into the study what became of it."""
    study, number = trial.study, trial.number
    # The trainer scores an epoch again if it was killed before that was saved.
    reported = set(study.trials[number].intermediate_values)

    def judge(event: Event) -> None:
        if isinstance(event, Dev):
            if event.epoch not in reported:
                trial.report(event.scores[recipe.training.stop_on], event.epoch)
            if event.epoch < own.training.epochs and trial.should_prune():
                raise optuna.TrialPruned

    score, state = None, TrialState.COMPLETE
    try:
        own = vary(recipe, trial.params, f"trial {number}")
        train(store, folder / RUNS / f"{number:03}", own, resume=True, watch=[judge, watch])
        score = _facts(study.trials[number])["score"]
    except optuna.TrialPruned:
        state = TrialState.PRUNED
    except UserError as error:
        # Values that diverge are ones to keep away from; those that clash say nothing of others.
        states = {"training.diverged": TrialState.PRUNED, "request.recipe": TrialState.FAIL}
        if error.code not in states:
            raise
        state = states[error.code]
        trial.set_user_attr("why", str(error))
    study.tell(trial, score, state)


def _facts(trial: FrozenTrial) -> dict[str, Any]:
    """How a trial ended: the columns of its row beside its values."""
    why = trial.user_attrs.get("why", "")
    words = {TrialState.PRUNED: "diverged" if why else "pruned", TrialState.FAIL: "refused"}
    return {
        "trial": trial.number,
        "outcome": words.get(trial.state, "finished"),
        "score": max(trial.intermediate_values.values(), default=None),
        "epochs": len(trial.intermediate_values),
        "why": why,
    }


def _write_up(study: optuna.Study, folder: Path, recipe: Recipe) -> FrozenTrial | None:
    """Write the table, the best recipe and the plots; keep the weights of the best alone."""
    trials = [trial for trial in study.trials if trial.state.is_finished()]
    finished = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    metric, best = recipe.training.stop_on, max(finished, key=lambda one: one.values, default=None)
    if trials:
        text = io.StringIO()
        columns = ["trial", "outcome", "score", "epochs", *trials[0].params, "why"]
        table = csv.DictWriter(text, columns, lineterminator="\n")
        table.writerow({name: name for name in columns} | {"score": metric})
        table.writerows(_facts(trial) | trial.params for trial in trials)
        write_text(folder / TRIALS, text.getvalue())
    if best:
        head = f"# Trial {best.number} of a study: {metric} {best.value:.4f} on dev.\n\n"
        found = vary(recipe, best.params, f"trial {best.number}")
        write_text(folder / BEST_RECIPE, head + found.to_toml())
        draw_study(study, metric, folder)
    for trial in trials:
        for weights in (folder / RUNS / f"{trial.number:03}").glob("*.safetensors*"):
            if trial is not best or weights.name != BEST:
                weights.unlink()
    return best


def draw_study(study: optuna.Study, metric: str, folder: Path) -> None:
    """Draw Optuna's own plots of a study with a finished trial or more, as PNG files."""
    matplotlib_figure()  # imports matplotlib without leaving fonts in the home folder
    from matplotlib import pyplot
    from optuna.visualization import matplotlib as plots

    plotted: dict[str, Any] = {HISTORY: plots.plot_optimization_history, SLICES: plots.plot_slice}
    if len(study.get_trials(states=[TrialState.COMPLETE])) >= FEWEST:
        plotted[WHAT_MATTERED] = plots.plot_param_importances
    # Optuna warns that its plots are experimental, and sets a style for the whole process.
    with warnings.catch_warnings(), pyplot.rc_context({"figure.figsize": (10, 5)}):
        warnings.simplefilter("ignore")
        pyplot.switch_backend("agg")
        for name, draw in plotted.items():
            axes = draw(study, target_name=f"dev {metric}")
            figure = getattr(axes, "flat", [axes])[0].figure
            write_atomically(folder / name, partial(figure.savefig, bbox_inches="tight"))
            pyplot.close(figure)
