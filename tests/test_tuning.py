"""`sat tune`: it finds, prunes, and continues; a mistake is one sentence."""

import csv
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from optuna.trial import FrozenTrial
from PIL import Image

import show_attend_tell.learning
from show_attend_tell.cli import terminal
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.errors import UserError
from show_attend_tell.learning import tuning
from show_attend_tell.learning.loop import checkpoint
from show_attend_tell.learning.recipe import Recipe, load_recipe, vary
from show_attend_tell.learning.run import BEST, Run
from show_attend_tell.learning.watching.events import Dev, Event, Progress, Start
from show_attend_tell.learning.watching.history import read
from show_attend_tell.private import matplotlib_figure
from tests.conftest import Sat
from tests.tiny_world import make_store, tiny_recipe

ROOT = Path(__file__).resolve().parents[1]
QUICK = ("training.epochs=2", "training.batch=4", "model.hidden=16", "search.beam=1")
RATES = ["training.learning_rate=1e-9,0.02"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return make_store(tmp_path_factory.mktemp("tiny") / "store", train=48, dev=6)[0]


def quick(*overrides: str) -> Recipe:
    return tiny_recipe(*QUICK, *overrides)


def tune(
    store: FeatureStore,
    study: Path,
    recipe: Recipe,
    search: list[str],
    trials: int,
    watch: tuning.Watch = lambda event: None,
) -> FrozenTrial | None:
    return tuning.tune(store, study, recipe, tuning.read_space(search), trials, watch)


def table(study: Path) -> list[dict[str, str]]:
    with (study / tuning.TRIALS).open(newline="") as lines:
        return list(csv.DictReader(lines))


def weights_in(study: Path) -> list[str]:
    return sorted(path.relative_to(study).as_posix() for path in study.rglob("*.safetensors*"))


def test_the_better_of_two_values_is_found_and_can_be_trained(
    store: FeatureStore, tmp_path: Path
) -> None:
    matplotlib_figure()  # first, or matplotlib leaves a list of fonts in the home folder
    import matplotlib

    recipe, style = quick("training.learning_rate=1e-9"), dict(matplotlib.rcParams)
    best = tune(store, tmp_path, recipe, RATES, trials=3)
    assert best and best.params == {"training.learning_rate": 0.02}

    rows = table(tmp_path)
    assert [row["outcome"] for row in rows] == ["finished"] * 3
    assert rows[0]["training.learning_rate"] == "1e-09"  # the recipe's own value comes first
    assert float(rows[best.number]["BLEU-4-bp"]) > float(rows[0]["BLEU-4-bp"])

    found = load_recipe(str(tmp_path / "best.toml"))
    assert found == vary(recipe, best.params, "")
    kept = Run.open(tmp_path / "runs" / f"{best.number:03}")
    assert (kept.recipe, kept.meta["BLEU-4-bp"]) == (found, best.value)
    assert weights_in(tmp_path) == [f"runs/{best.number:03}/{BEST}"]
    for name in (tuning.HISTORY, tuning.SLICES):
        with Image.open(tmp_path / name) as picture:
            assert min(picture.size) > 300
    assert dict(matplotlib.rcParams) == style  # the curves of the next run look as they did


def test_a_trial_that_falls_behind_is_pruned_and_keeps_its_log(
    store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "FINISHED_FIRST", 1)
    monkeypatch.setattr(tuning, "SPARED_EPOCHS", 0)
    monkeypatch.setattr(tuning, "draw_study", lambda *arguments: None)
    tune(store, tmp_path, quick("training.learning_rate=0.02"), RATES, trials=3)
    bad = [row for row in table(tmp_path) if row["training.learning_rate"] == "1e-09"]
    assert [(row["outcome"], row["epochs"]) for row in bad] == [("pruned", "1")] * len(bad) != []
    run = tmp_path / "runs" / f"{int(bad[0]['trial']):03}"
    assert [e.event for e in read(run / "log.jsonl")] == ["start", "step", "dev"]
    assert not list(run.glob("*.safetensors"))


def pretend(monkeypatch: pytest.MonkeyPatch, key: str, scores: dict[Any, list[float]]) -> None:
    """Let trials have these dev scores, by the value of a key, without training or drawing."""
    section, name = key.split(".")

    def train(store: Any, folder: Path, recipe: Recipe, *, resume: bool, watch: Any) -> None:
        def show(event: Event) -> None:
            for one in watch:
                one(event)

        show(Start(0, 0, 1, 1, 1, 1, 1, 1))
        for epoch, score in enumerate(scores[getattr(getattr(recipe, section), name)], start=1):
            show(Progress(1, epoch, 1, 1, 3.0, 9.0))
            if math.isnan(score):
                raise UserError("training.diverged", "the gradient became nan")
            show(Dev(1, epoch, {"BLEU-4-bp": score}, 3.0, 9.0, 1, 1.0, best=False))

    monkeypatch.setattr(tuning, "train", train)
    monkeypatch.setattr(tuning, "draw_study", lambda *arguments: None)


def test_only_a_trial_below_the_median_is_pruned_and_never_at_its_last_epoch(
    store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = {batch: [0.1, 0.2, 0.3] for batch in range(1, 5)}
    late, weak = [0.0, 0.3, 0.1], [0.1, 0.1, 0.9]
    last = [0.1, 0.2, 0.2]
    scores = {**good, 5: late, 6: weak, 7: last}
    pretend(monkeypatch, "training.batch", scores)

    for batch in scores:
        with tuning._opened(tmp_path / tuning.DATABASE) as study:
            study.enqueue_trial({"training.batch": batch})
        tune(store, tmp_path, quick("training.epochs=3"), ["training.batch=1..7"], trials=batch)
    outcomes = [(row["outcome"], row["epochs"]) for row in table(tmp_path)]
    assert outcomes == [("finished", "3")] * 5 + [("pruned", "2"), ("finished", "3")]


def test_a_rate_that_diverges_is_written_down_and_the_study_goes_on(
    store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, "training.learning_rate", {1e30: [0.5, math.nan], 1e-9: [0.1, 0.1]})
    best = tune(store, tmp_path, quick(), ["training.learning_rate=1e30,1e-9"], trials=4)
    outcomes = {row["training.learning_rate"]: row["outcome"] for row in table(tmp_path)}
    assert outcomes == {"1e+30": "diverged", "1e-09": "finished"}
    assert best and best.params == {"training.learning_rate": 1e-9}
    assert any("became" in row["why"] for row in table(tmp_path))


def test_values_that_do_not_go_together_are_written_down(
    store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, "hard.samples", {1: [0.1], 2: [0.2]})
    recipe = quick("model.attention=hard", "hard.samples=2")
    tune(store, tmp_path, recipe, ["hard.samples=1,2", "hard.baseline=average,others"], trials=8)
    for row in table(tmp_path):
        clash = (row["hard.samples"], row["hard.baseline"]) == ("1", "others")
        assert row["outcome"] == ("refused" if clash else "finished")
        assert ("set hard.samples to 2 or more" in row["why"]) == clash
    assert {row["outcome"] for row in table(tmp_path)} == {"refused", "finished"}


class Died(BaseException):
    pass


@pytest.mark.slow
def test_a_study_stopped_at_every_kind_of_moment_ends_as_one_that_never_was(
    store: FeatureStore, tmp_path: Path
) -> None:
    recipe = quick("training.epochs=1", "training.batch=16", "training.save_minutes=0.0")
    search = ["training.learning_rate=1e-3..1e-1:log", "model.dropout=0..0.5"]
    survived: list[str] = []

    def die_once_at_each(event: Event) -> None:
        if event.event not in survived:
            survived.append(event.event)
            raise Died

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    tune(store, whole, recipe, search, trials=2)
    stops = 0
    while True:
        try:
            tune(store, broken, recipe, search, trials=2, watch=die_once_at_each)
            break
        except Died:
            stops += 1
    assert set(survived) == {"trial", "start", "progress", "step", "dev", "stop", "judged"}
    assert stops == len(survived)
    for name in (tuning.TRIALS, tuning.BEST_RECIPE):
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name
    assert weights_in(whole) == weights_in(broken)
    (weights,) = weights_in(whole)
    one, other = (checkpoint.load(study / weights)[0] for study in (whole, broken))
    assert all(torch.equal(one[name], other[name]) for name in one)


TUNE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.learning.watching.events import Dev
from tests.test_tuning import RATES, quick, tune

def die(event):
    if isinstance(event, Dev) and event.epoch == 1:
        os.kill(os.getpid(), signal.SIGKILL)

store, study = map(Path, sys.argv[1:])
tune(FeatureStore.open(store), study, quick(), RATES, trials=2, watch=die)
"""


@pytest.mark.slow
def test_a_trial_killed_at_its_dev_score_is_taken_up_and_counted_once(
    store: FeatureStore, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", TUNE_AND_DIE, str(store.folder), str(tmp_path / "study")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, b"")  # Optuna logs nothing
    begins: list[int] = []

    def listen(event: Event) -> None:
        if isinstance(event, Start):
            begins.append(event.step)

    tune(store, tmp_path / "study", quick(), RATES, trials=2, watch=listen)
    assert begins == [12, 0]  # the first goes on after its epoch of 48 / 4 steps
    outcomes = [(row["outcome"], row["epochs"]) for row in table(tmp_path / "study")]
    assert outcomes == [("finished", "2")] * 2


def recipe_in(folder: Path) -> list[str]:
    path = folder / "recipe.toml"
    path.write_text(quick("training.epochs=1", "training.batch=16").to_toml())
    return ["--recipe", str(path)]


def test_ctrl_c_saves_exits_130_and_the_same_command_goes_on(
    sat: Sat, store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["tune", store.folder, tmp_path / "study", "--search", RATES[0], "--trials", 2]
    really_advance = terminal.TuningProgress._advance

    def press_ctrl_c(self: Any, event: Event) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(terminal.TuningProgress, "_advance", press_ctrl_c)
    code, _, err = sat(*command, *recipe_in(tmp_path))
    assert code == 130
    assert "stopped; the same command resumes" in err
    assert not (tmp_path / "study" / tuning.TRIALS).exists()

    monkeypatch.setattr(terminal.TuningProgress, "_advance", really_advance)
    code, _, err = sat(*command, *recipe_in(tmp_path))
    assert code == 0
    assert "resuming after step 1" in err
    assert "trial 1 finished after epoch 1, dev BLEU-4-bp" in err
    assert f"--recipe {tmp_path / 'study'}/best.toml" in err
    assert [row["trial"] for row in table(tmp_path / "study")] == ["0", "1"]


# What is searched, and words of the one-sentence answer.
MISTAKES: dict[str, tuple[str, str]] = {
    "unknown key": ("model.hiden=1..2", "unknown key model.hiden; did you mean model.hidden?"),
    "no values": ("model.hidden", "no values; write section.key=low..high"),
    "one value twice": ("model.hidden=256,256", "two different values"),
    "upside down": ("model.dropout=0.5..0.1", "a range is two numbers, low..high"),
    "infinite": ("training.clip=1..inf", "a range is two numbers"),
    "not numbers": ("model.dropout=a..b", "a range is two numbers"),
    "half a unit": ("model.hidden=1..2.5", "a range is two whole numbers"),
    "factors of nothing": ("model.dropout=0..0.5:log", "low..high:log with low above 0"),
    "unknown scale": ("model.dropout=0..0.5:ln", "or low..high:log with low above 0"),
    "a range of truths": ("model.gate=0..1", "name the values, as in a,b,c"),
    "too large": ("model.dropout=0..1", "--search: model.dropout = 1.0 should be less than 1"),
    "no such choice": ("model.readout=tanh,relu", '--search: model.readout = "relu" should be'),
    "the score itself": (
        "training.stop_on=BLEU-1-bp,CIDEr-D",
        "cannot be searched; give it a value",
    ),
    "a list": ("distillation.teachers=[1],[2]", "cannot be searched; give it a value"),
    "other features": ("encoder.grid=4,7", "encoder.grid is 4, not 7"),
    "no use": ("hard.samples=1..4", "hard.samples is of no use with model.attention"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_search_that_makes_no_sense_is_refused(
    mistake: str, sat: Sat, store: FeatureStore, tmp_path: Path
) -> None:
    text, answer = MISTAKES[mistake]
    code, _, err = sat(
        "tune", store.folder, tmp_path / "study", "--search", text, *recipe_in(tmp_path)
    )
    assert code == (1 if mistake == "other features" else 2)
    assert answer in err
    assert len(err.splitlines()) <= 2  # what is done, and the sentence
    assert not (tmp_path / "study").exists()


def test_a_key_is_searched_once(sat: Sat, store: FeatureStore, tmp_path: Path) -> None:
    twice = ["--search", "model.word=8..16", "--search", "model.word=8,16"]
    code, _, err = sat("tune", store.folder, tmp_path / "study", *twice)
    assert (code, "model.word is searched already; name it once" in err) == (2, True)


def test_what_is_set_is_not_searched_unless_asked_for(sat: Sat, tmp_path: Path) -> None:
    usual = set(tuning.read_space([]))
    left = set(tuning.read_space([], ["model.hidden=64", "training.epochs=1"]))
    assert usual - left == {"model.hidden"}
    everything = [word for text in tuning.USUAL for word in ("--set", text.split("..")[0])]
    code, _, err = sat("tune", tmp_path, tmp_path / "study", *everything)
    assert (code, "--set leaves nothing to search" in err) == (2, True)


def test_the_usual_search_fits_every_recipe_and_help_says_it(sat: Sat) -> None:
    _, out, _ = sat("tune", "--help")
    said = " ".join(out.replace("│", " ").split())
    for text in tuning.USUAL:
        key, values = text.split("=")
        assert key in said
        assert values.removesuffix(":log") in said
    for key, values in tuning.read_space(tuning.USUAL).items():
        for end in (values.low, values.high):
            vary(load_recipe("paper/flickr8k-hard"), {key: end}, "")


@pytest.fixture
def begun(store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pretend(monkeypatch, "training.learning_rate", {1e-9: [0.1], 0.02: [0.2]})
    tune(store, tmp_path / "study", quick(), RATES, trials=2)
    return tmp_path / "study"


def test_a_study_is_not_gone_on_with_as_another(
    begun: Path, store: FeatureStore, tmp_path: Path
) -> None:
    before = (begun / tuning.TRIALS).read_bytes()
    wider = ["training.learning_rate=1e-9,0.02,0.1"]
    other, _ = make_store(tmp_path / "other", train=20, dev=4, seed=5)
    for arguments, code in (
        ((store, begun, quick(), wider), "study.space"),
        ((store, begun, quick("model.word=9"), RATES), "study.recipe"),
        ((other, begun, quick(), RATES), "study.store"),
    ):
        with pytest.raises(UserError, match="was begun with another") as caught:
            tune(*arguments, trials=9)
        assert caught.value.code == code
    assert (begun / tuning.TRIALS).read_bytes() == before


def test_more_trials_can_be_asked_for_later(begun: Path, store: FeatureStore) -> None:
    tune(store, begun, quick(), RATES, trials=3)
    assert [row["trial"] for row in table(begun)] == ["0", "1", "2"]


def test_a_damaged_database_and_a_foreign_folder_are_told(begun: Path, store: FeatureStore) -> None:
    (begun / tuning.DATABASE).write_bytes(b"not a database" * 100)
    with pytest.raises(UserError, match="SQLite cannot use it") as caught:
        tune(store, begun, quick(), RATES, trials=2)
    assert caught.value.code == "study.unusable"
    (begun / tuning.DATABASE).unlink()
    with pytest.raises(UserError, match="name another folder") as caught:
        tune(store, begun, quick(), RATES, trials=2)
    assert caught.value.code == "study.foreign"


def test_a_missing_extra_is_named(
    sat: Sat, store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "show_attend_tell.learning.tuning")
    monkeypatch.delattr(show_attend_tell.learning, "tuning")
    code, _, err = sat("tune", store.folder, tmp_path / "study")
    assert code == 1
    assert "pip install 'show_attend_tell[tune]'" in err


@pytest.mark.slow
def test_what_mattered_is_drawn_when_enough_trials_finished(
    store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = tuning.draw_study
    pretend(monkeypatch, "training.batch", {batch: [batch / 100] for batch in range(1, 101)})
    search = ["training.batch=1..100", "model.readout=linear,tanh"]
    tune(store, tmp_path, quick(), search, trials=tuning.FEWEST - 1)
    with tuning._opened(tmp_path / tuning.DATABASE) as study:
        draw(study, "BLEU-4-bp", tmp_path)
    assert not (tmp_path / tuning.WHAT_MATTERED).exists()
    tune(store, tmp_path, quick(), search, trials=tuning.FEWEST)
    with tuning._opened(tmp_path / tuning.DATABASE) as study:
        draw(study, "BLEU-4-bp", tmp_path)
    with Image.open(tmp_path / tuning.WHAT_MATTERED) as picture:
        assert min(picture.size) > 300
