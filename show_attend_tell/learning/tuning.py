"""Tuning: Optuna proposes values for a recipe's keys, and the dev score judges what they train.

It stands where the paper used Whetlab. A trial is an ordinary run folder, trained by the ordinary
loop; one that does worse after an epoch than half of the finished trials did is given up.

A study can be killed at any moment: the same call goes on with the trial that was being trained.
What is proposed is drawn from the recipe's seed and the number of the trial, so a study that was
stopped ends as one that never was.
"""

import csv
import io
import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from show_attend_tell.data.features import FeatureStore
from show_attend_tell.errors import UserError
from show_attend_tell.files import cannot_write, write_text
from show_attend_tell.learning.checkpoint import RunLock
from show_attend_tell.learning.history import Event
from show_attend_tell.learning.recipe import Recipe, example_of, parse_value, vary
from show_attend_tell.learning.run import BEST, refuse_other_encoder
from show_attend_tell.learning.trainer import train
from show_attend_tell.learning.tuning_chart import draw_study

Values = CategoricalDistribution | FloatDistribution | IntDistribution
Space = Mapping[str, Values]  # what may stand for each `section.key`

DATABASE, BEST_RECIPE, TRIALS, CHART = "study.db", "best.toml", "trials.csv", "what-mattered.png"
RUNS = "runs"

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
SPARED_EPOCHS = 1  # in which no trial is given up: a small learning rate starts slowly

_NAME = "sat tune"  # of the one study in a database
_ABOUT = "about"  # the study's attribute that says what it is a study of


def usual_search(overrides: Sequence[str]) -> list[str]:
    """What is searched when nothing is named: USUAL, but for what `--set` gives a value."""
    is_set = {text.partition("=")[0].strip() for text in overrides}
    return [text for text in USUAL if text.partition("=")[0] not in is_set]


def read_space(texts: Sequence[str]) -> Space:
    """What to search, as `--search` takes it.

    Parameters
    ----------
    texts
        `section.key=low..high`, the same with `:log` where factors count and not differences, or
        `section.key=a,b,c`.

    Raises
    ------
    UserError
        `request.recipe` or `request.search`: an unknown key, or values that are no choice.

    Examples
    --------
    >>> space = read_space(["model.hidden=256..1024:log", "model.readout=linear,tanh"])
    >>> space["model.hidden"].low, space["model.readout"].choices
    (256, ('linear', 'tanh'))
    """
    space: dict[str, Values] = {}
    if not texts:
        raise UserError("request.search", "--set leaves nothing to search; name it with --search")
    for text in texts:
        key, equals, values = (part.strip() for part in text.partition("="))
        if not equals:
            raise _refuse(
                text, "no values; write section.key=low..high, low..high:log, or section.key=a,b,c"
            )
        example = example_of(key, f"--search {text}")
        if key in space:
            raise _refuse(text, f"{key} is searched already; name it once")
        if key == "training.stop_on":
            raise _refuse(text, "trials are compared by this score; choose it with --set")
        space[key] = _range(text, values, example) if ".." in values else _choice(text, values)
    return space


def _range(text: str, values: str, example: Any) -> Values:
    bounds, colon, scale = values.partition(":")
    is_whole = isinstance(example, int)
    if isinstance(example, bool | str):
        raise _refuse(text, "this key is not a number; name the values, as in a,b,c")
    if colon and scale != "log":
        raise _refuse(text, f"unknown scale {scale!r}; write low..high or low..high:log")
    try:
        low, high = (int(end) if is_whole else float(end) for end in bounds.split(".."))
    except ValueError:
        kind = "two whole numbers" if is_whole else "two numbers"
        raise _refuse(text, f"a range is {kind}, low..high") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise _refuse(text, "the range is empty; the lower end comes first")
    if colon and low <= 0:
        raise _refuse(text, "a range in factors (:log) begins above 0")
    if is_whole:
        return IntDistribution(int(low), int(high), log=bool(colon))
    return FloatDistribution(low, high, log=bool(colon))


def _choice(text: str, values: str) -> Values:
    choices = [parse_value(value.strip()) for value in values.split(",")]
    if len(set(choices)) < max(2, len(choices)):
        raise _refuse(text, "a search needs two different values or more; one is set with --set")
    return CategoricalDistribution(choices)


def _refuse(text: str, why: str) -> UserError:
    return UserError("request.search", f"--search {text}: {why}")


def tune(
    store: FeatureStore,
    folder: Path,
    recipe: Recipe,
    space: Space,
    *,
    trials: int,
    watch: Sequence[Callable[[Event], None]] = (),
) -> FrozenTrial | None:
    """Search a recipe's keys for the best dev score, or go on with a search.

    Parameters
    ----------
    store
        The prepared data set.
    folder
        The study folder; made if it is not there.
    recipe
        What every trial has in common. Its own values are the first trial, where they are in
        `space`; `training.stop_on` is the score, `training.seed` also decides what is tried.
    space
        What `read_space` gives.
    trials
        How many the study shall have in all.
    watch
        Each hears the trainer's events, and "trial" and "judged" around them.

    Returns
    -------
    FrozenTrial or None
        The best of the finished trials, if there is one.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C or SIGTERM, once the state is saved.
    UserError
        What a person can mend; the same call then goes on.
    """
    store.refuse_half_made()
    for key, values in space.items():
        for value in _extremes(values):
            refuse_other_encoder(vary(recipe, {key: value}, "--search").encoder, store)
    _make_folder(folder)
    with RunLock(folder), _opened(folder / DATABASE) as study:
        return _Tuner(study, store, folder, recipe, space, watch).run(trials)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise cannot_write(folder, error) from error
    if DATABASE not in names and names - {"lock"}:
        raise UserError(
            "study.foreign", f"{folder}: holds other things, but no {DATABASE}; name another folder"
        )


@contextmanager
def _opened(path: Path) -> Iterator[optuna.Study]:
    """The study in a database; what SQLite cannot do is told in a sentence."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = None
    try:
        # A path is not put into a URL, which would read `?` and `%` in it its own way.
        storage = optuna.storages.RDBStorage(
            "sqlite://", engine_kwargs={"creator": lambda: sqlite3.connect(path)}
        )
        yield optuna.create_study(
            storage=storage,
            study_name=_NAME,
            direction="maximize",
            pruner=optuna.pruners.MedianPruner(
                n_startup_trials=FINISHED_FIRST, n_warmup_steps=SPARED_EPOCHS + 1
            ),
            load_if_exists=True,
        )
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        why = error.__cause__ or error
        raise UserError(
            "study.unusable",
            f"{path}: SQLite cannot use it ({str(why).splitlines()[0]}); free some space if the "
            "disk is full, else restore the file or name another folder",
        ) from error
    finally:
        if storage:
            storage.remove_session()
            storage.engine.dispose()


class _Tuner:
    def __init__(
        self,
        study: optuna.Study,
        store: FeatureStore,
        folder: Path,
        recipe: Recipe,
        space: Space,
        watch: Sequence[Callable[[Event], None]],
    ) -> None:
        self.study, self.store, self.folder = study, store, folder
        self.recipe, self.space, self.watch = recipe, space, watch
        self.score = recipe.training.stop_on
        self._refuse_other_study()

    def _refuse_other_study(self) -> None:
        about = {
            "recipe": self.recipe.to_toml(),
            "space": {key: distribution_to_json(values) for key, values in self.space.items()},
            "store": self.store.index.model_dump(mode="json"),
        }
        remedies = {
            "recipe": "repeat its --recipe and --set",
            "space": "repeat its --search, and --set if there was none",
            "store": "name its feature store",
        }
        known = self.study.user_attrs.get(_ABOUT)
        if known is None:
            self.study.set_user_attr(_ABOUT, about)
            return
        for what, remedy in remedies.items():
            if known[what] != about[what]:
                raise UserError(
                    f"study.{what}",
                    f"{self.folder}: was begun with another {what}; {remedy} to go on, "
                    "or name another folder",
                )

    def run(self, trials: int) -> FrozenTrial | None:
        self._write_up()  # a kill may have come between the end of a trial and this
        for number in range(trials):
            if number == len(self.study.get_trials(deepcopy=False)):
                self.study.enqueue_trial(self._propose(number))
            known = self.study.get_trials(deepcopy=False)[number]
            if known.state == TrialState.WAITING:
                self._try(self.study.ask())
            elif known.state == TrialState.RUNNING:  # when the study was stopped
                self._try(Trial(self.study, known._trial_id))
        return self._best()

    def _propose(self, number: int) -> dict[str, Any]:
        """Values for the next trial, drawn aside: the database gets all of them or none."""
        seed = self.recipe.training.seed * 1_000_003 + number
        aside = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed)
        )
        aside.add_trials(self.study.get_trials(deepcopy=False))
        if number == 0:
            aside.enqueue_trial(_own_values(self.recipe, self.space))
        trial = aside.ask()
        return {key: _suggest(trial, key, values) for key, values in self.space.items()}

    def _try(self, trial: Trial) -> None:
        """Train one trial to its end, and write down what became of it."""
        values = {key: _suggest(trial, key, choice) for key, choice in self.space.items()}
        self._show({"event": "trial", "trial": trial.number, "values": values})
        score, state = None, TrialState.COMPLETE
        try:
            recipe = vary(self.recipe, values, f"trial {trial.number}")
            report = _Report(trial, self.score)
            run = self._run(trial.number)
            train(self.store, run, recipe, resume=True, watch=[report, *self.watch])
            score = max(report.scores.values())
        except optuna.TrialPruned:
            state = TrialState.PRUNED
        except UserError as error:
            # A place where training diverges is one to keep away from, as pruning says; of
            # values that do not go together nothing is learned.
            states = {"training.diverged": TrialState.PRUNED, "request.recipe": TrialState.FAIL}
            if error.code not in states:
                raise
            state = states[error.code]
            trial.set_user_attr("why", str(error))
        self.study.tell(trial, score, state)
        self._write_up()
        told, best = self.study.trials[trial.number], self._best()
        self._show(
            {
                "event": "judged",
                **_facts(told),
                "metric": self.score,
                "best": best is not None and best.number == trial.number,
            }
        )

    def _run(self, number: int) -> Path:
        return self.folder / RUNS / f"{number:03}"

    def _best(self) -> FrozenTrial | None:
        finished = self.study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
        return max(finished, key=lambda trial: trial.value or 0.0, default=None)

    def _write_up(self) -> None:
        """Write what is known so far: the best recipe, every trial, what mattered."""
        trials = [one for one in self.study.trials if one.state.is_finished()]
        if not trials:
            return
        best = self._best()
        if best:
            recipe = vary(self.recipe, best.params, f"trial {best.number}")
            head = f"# Trial {best.number} of a study: {self.score} {best.value:.4f} on dev.\n\n"
            write_text(self.folder / BEST_RECIPE, head + recipe.to_toml())
        write_text(self.folder / TRIALS, _table(trials, self.score, list(self.space)))
        draw_study(self.study, self.space, self.score, self.folder / CHART)
        for trial in trials:
            for weights in self._run(trial.number).glob("*.safetensors*"):
                if not (best and trial.number == best.number and weights.name == BEST):
                    weights.unlink()

    def _show(self, event: Event) -> None:
        for hear in self.watch:
            hear(event)


class _Report:
    """Hears the trainer: tells Optuna each dev score, and gives up a trial without hope."""

    def __init__(self, trial: Trial, metric: str) -> None:
        self.trial, self.metric = trial, metric
        # Also those from before a kill: the trainer may score the last epoch once more.
        self.scores = dict(trial.study.trials[trial.number].intermediate_values)
        self.is_hopeless = False

    def __call__(self, event: Event) -> None:
        if event["event"] == "dev" and event["epoch"] not in self.scores:
            self.scores[event["epoch"]] = event[self.metric]
            self.trial.report(event[self.metric], event["epoch"])
        if event["event"] in ("start", "dev"):
            self.is_hopeless = self.trial.should_prune()
        elif event["event"] == "progress" and self.is_hopeless:
            # Not at the dev score itself: the trainer saves after it, and the last one is an end.
            raise optuna.TrialPruned


def _suggest(trial: Trial, key: str, values: Values) -> Any:
    if isinstance(values, CategoricalDistribution):
        return trial.suggest_categorical(key, values.choices)
    if isinstance(values, IntDistribution):
        return trial.suggest_int(key, values.low, values.high, log=values.log)
    return trial.suggest_float(key, values.low, values.high, log=values.log)


def _extremes(values: Values) -> Sequence[Any]:
    """Values that all must fit for every one between them to fit."""
    if isinstance(values, CategoricalDistribution):
        return values.choices
    return values.low, values.high


def _own_values(recipe: Recipe, space: Space) -> dict[str, Any]:
    """The recipe's own values of what is searched, where a trial could have them."""
    own = {}
    for key, values in space.items():
        section, name = key.split(".")
        value = getattr(getattr(recipe, section), name)
        if isinstance(values, CategoricalDistribution):
            value = "none" if value is None else value
            is_allowed = value in values.choices
        else:
            is_allowed = value is not None and values.low <= value <= values.high
        if is_allowed:
            own[key] = value
    return own


def _facts(trial: FrozenTrial) -> dict[str, Any]:
    """What became of a trial, in plain words."""
    why = trial.user_attrs.get("why", "")
    words = {
        TrialState.COMPLETE: "finished",
        TrialState.PRUNED: "diverged" if why else "pruned",
        TrialState.FAIL: "refused",
    }
    return {
        "trial": trial.number,
        "outcome": words[trial.state],
        "score": max(trial.intermediate_values.values(), default=None),
        "epochs": len(trial.intermediate_values),
        "why": why,
    }


def _table(trials: Sequence[FrozenTrial], metric: str, keys: Sequence[str]) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["trial", "outcome", metric, "epochs", *keys, "why"])
    for trial in trials:
        *head, why = _facts(trial).values()
        rows.writerow([*head, *(trial.params[key] for key in keys), why])
    return text.getvalue()
