"""Training on the tiny world: it learns, it looks, it stops and goes on to the same bits."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from show_attend_tell.captioning.search import Search
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.errors import UserError
from show_attend_tell.files import RunLock
from show_attend_tell.learning.evaluate import caption_rows
from show_attend_tell.learning.loop import checkpoint, trainer
from show_attend_tell.learning.loop.dev import DevScores
from show_attend_tell.learning.loop.trainer import train
from show_attend_tell.learning.model.decoder import Decoder
from show_attend_tell.learning.objectives import objective
from show_attend_tell.learning.recipe import Recipe, load_recipe
from show_attend_tell.learning.run import BEST, LAST, Run
from show_attend_tell.learning.watching.events import Dev, Event, Progress, Start, Step, Stop
from show_attend_tell.learning.watching.history import read
from show_attend_tell.scoring import METRICS
from show_attend_tell.scoring.metrics.rouge import rouge_rows
from tests.faults import failing_call
from tests.tiny_world import COLOURS, Scene, make_store, tiny_recipe

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[FeatureStore, list[Scene]]:
    return make_store(tmp_path_factory.mktemp("tiny") / "store")


@pytest.fixture(scope="module")
def trained(
    world: tuple[FeatureStore, list[Scene]], tmp_path_factory: pytest.TempPathFactory
) -> Run:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(world[0], folder, tiny_recipe("training.epochs=15", "training.patience=15"))
    return Run.open(folder)


@pytest.fixture(scope="module")
def one_epoch(
    world: tuple[FeatureStore, list[Scene]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A run of one epoch: to be copied, not changed."""
    folder = tmp_path_factory.mktemp("one epoch") / "run"
    train(world[0], folder, quick_recipe("training.epochs=1"))
    return folder


SAVE_EVERY_STEP = "training.save_minutes=0.0"


def quick_recipe(*overrides: str) -> Recipe:
    return tiny_recipe("training.epochs=2", *overrides)


def weights_of(folder: Path, name: str = LAST) -> dict[str, torch.Tensor]:
    tensors, _ = checkpoint.load(folder / name)
    return tensors


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def test_the_tiny_world_is_memorised(trained: Run, world: tuple[FeatureStore, list[Scene]]) -> None:
    store, scenes = world
    rows = store.rows("train")
    captions, _ = caption_rows(trained.decoder, trained.vocabulary, store, rows, Search(beam=3))
    right = sum(captions[str(row)] == scenes[row].caption for row in rows)
    assert right / len(rows) > 0.97


def test_a_colour_is_told_while_looking_at_the_thing_of_that_colour(
    trained: Run, world: tuple[FeatureStore, list[Scene]]
) -> None:
    store, scenes = world
    rows = store.rows("dev")
    _, told = caption_rows(trained.decoder, trained.vocabulary, store, rows, Search(beam=3))
    weights = []
    for row in rows:
        words = trained.vocabulary.decode(told[str(row)].words)
        for cell, colour in zip(scenes[row].cells, scenes[row].colours, strict=True):
            if COLOURS[colour] in words:
                step = words.index(COLOURS[colour])
                weights.append(told[str(row)].attention[step, cell])
    assert len(weights) > len(rows)
    assert np.mean(weights) > 0.5  # one of sixteen places; evenly spread it would be 0.06


def test_maps_differ_between_words_and_between_pictures(
    trained: Run, world: tuple[FeatureStore, list[Scene]]
) -> None:
    store, _ = world
    rows = store.rows("dev")
    _, told = caption_rows(trained.decoder, trained.vocabulary, store, rows, Search(beam=3))
    maps = [told[str(row)].attention for row in rows]
    between_words = np.mean([np.abs(np.diff(one, axis=0)).sum(axis=1).mean() for one in maps])
    first_words = np.stack([one[1] for one in maps])
    between_pictures = np.abs(first_words[:, None] - first_words[None]).sum(axis=2).mean()
    assert between_words > 0.1  # of at most 2; a collapsed attention has 0
    assert between_pictures > 0.1


def test_the_run_folder_holds_what_the_design_says(trained: Run) -> None:
    names = {path.name for path in trained.folder.iterdir()}
    assert {"recipe.toml", "vocabulary.txt", "log.jsonl", "curves.html", BEST, LAST} <= names
    events = read(trained.folder / "log.jsonl")
    assert isinstance(events[0], Start)
    assert isinstance(events[-1], Stop)
    step = next(event for event in events if isinstance(event, Step))
    for term in ("nats_per_word", "penalty_excess", "penalty_floor", "gradient_norm"):
        assert np.isfinite(getattr(step, term))


def test_save_and_load_tell_the_same(trained: Run, world: tuple[FeatureStore, list[Scene]]) -> None:
    store, _ = world
    rows = store.rows("dev")
    again = Run.open(trained.folder)
    first, second = (
        caption_rows(run.decoder, run.vocabulary, store, rows, Search(beam=2))[1]
        for run in (trained, again)
    )
    assert all(first[k].words == second[k].words for k in first)
    assert all(np.array_equal(first[k].attention, second[k].attention) for k in first)


@pytest.mark.parametrize(
    "options",
    [
        ["training.optimiser=adam"],
        pytest.param(["training.optimiser=rmsprop"], marks=pytest.mark.slow),
        ["model.attention=hard"],
        ["reward.weight=0.8", "reward.samples=2", "search.max_words=10"],
    ],
    ids=["adam", "rmsprop", "hard", "reward"],
)
def test_a_run_stopped_by_a_person_goes_on_to_the_same_bits(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path, options: list[str]
) -> None:
    recipe = quick_recipe("training.learning_rate=0.001", "model.dropout=0.3", *options)
    train(world[0], tmp_path / "whole", recipe)

    def press_ctrl_c(event: Event) -> None:
        if isinstance(event, Progress) and event.step == 5:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(world[0], tmp_path / "broken", recipe, watch=[press_ctrl_c])
    _, meta = checkpoint.load(tmp_path / "broken" / LAST)
    assert meta["place"]["step"] == 5
    train(world[0], tmp_path / "broken", None, resume=True)
    assert same(weights_of(tmp_path / "whole"), weights_of(tmp_path / "broken"))
    assert same(weights_of(tmp_path / "whole", BEST), weights_of(tmp_path / "broken", BEST))


def test_ctrl_c_during_the_last_dev_score_is_heard_and_the_run_is_finished(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path
) -> None:
    def press_ctrl_c(event: Event) -> None:
        if isinstance(event, Dev) and event.epoch == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(world[0], tmp_path, quick_recipe("training.epochs=1"), watch=[press_ctrl_c])
    assert isinstance(read(tmp_path / "log.jsonl")[-1], Stop)


HANG_UP = """
import os, pty, signal, sys, time
from pathlib import Path
store, run, *settings = sys.argv[1:]
child, terminal = pty.fork()
if not child:
    words = ["sat", "train", store, run, *settings]
    main = "import sys; sys.argv = %r; from show_attend_tell.cli import main; main()" % words
    os.execv(sys.executable, [sys.executable, "-c", main])
said = b""
while b"epoch  1" not in said:  # the dev score of the first
    said += os.read(terminal, 1000)
os.close(terminal)  # the window is closed: SIGHUP, and every further word to it fails
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) % 256)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no hang-ups here")
def test_a_terminal_that_is_closed_lets_the_trainer_save_and_stop(tmp_path: Path) -> None:
    store, _ = make_store(tmp_path / "store", train=200, dev=4)
    recipe = tiny_recipe("training.epochs=500", "training.patience=500")
    (tmp_path / "recipe.toml").write_text(recipe.to_toml())
    words = [str(store.folder), str(tmp_path / "run"), "--recipe", str(tmp_path / "recipe.toml")]
    code = subprocess.run(
        [sys.executable, "-c", HANG_UP, *words], cwd=ROOT, timeout=120, check=False
    ).returncode
    _, meta = checkpoint.load(tmp_path / "run" / LAST)
    steps = [e.step for e in read(tmp_path / "run" / "log.jsonl")]
    assert code == 130
    assert meta["place"]["step"] > 0
    assert meta["place"]["step"] >= max(steps)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_other_requests_to_stop_save_as_ctrl_c_does(
    name: str, world: tuple[FeatureStore, list[Scene]], tmp_path: Path
) -> None:
    if not hasattr(signal, name):
        pytest.skip("not here")

    def ask(event: Event) -> None:
        if isinstance(event, Progress) and event.step == 5:
            signal.raise_signal(getattr(signal, name))

    with pytest.raises(KeyboardInterrupt):
        train(world[0], tmp_path, tiny_recipe(), watch=[ask])
    assert checkpoint.load(tmp_path / LAST)[1]["place"]["step"] == 5


def test_a_clock_that_jumps_changes_no_bit_and_no_save(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe("training.epochs=2")
    saves = {"steady": 0, "jumping": 0}
    really_save = checkpoint.save
    for name in saves:

        def save(*arguments: Any, name: str = name) -> None:
            saves[name] += 1
            really_save(*arguments)

        monkeypatch.setattr(checkpoint, "save", save)
        if name == "jumping":
            days = iter(range(0, 10**9, 86_400))
            monkeypatch.setattr(time, "time", lambda days=days: 2e9 - next(days))
        train(world[0], tmp_path / name, recipe)
    assert saves["steady"] == saves["jumping"]
    assert same(weights_of(tmp_path / "steady"), weights_of(tmp_path / "jumping"))


def test_the_state_is_saved_at_the_start_once_an_epoch_and_at_the_end(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[tuple[int, int]] = []
    really_save = checkpoint.save

    def save(path: Path, tensors: Any, meta: dict[str, Any]) -> None:
        if path.name == LAST:
            saved.append((meta["place"]["epoch"], meta["place"]["batch"]))
        really_save(path, tensors, meta)

    monkeypatch.setattr(checkpoint, "save", save)
    train(world[0], tmp_path, tiny_recipe("training.epochs=2", "training.save_minutes=60.0"))
    (start, one, two, end) = saved
    assert (start, end) == ((0, 0), (2, 0))
    assert (one[0], two[0]) == (0, 1)
    assert min(one[1], two[1]) > 1


TRAIN_AND_DIE = """
import os, random, signal, sys, threading, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.learning.loop import trainer
from show_attend_tell.learning.watching.events import Progress
from tests.tiny_world import tiny_recipe

store, run, attention, how, seed = sys.argv[1:6]
chance = random.Random(int(seed))

def die():
    os.kill(os.getpid(), signal.SIGKILL)

if how == "in a write":  # between two of the system calls that write a checkpoint
    fatal, calls = chance.randrange(1, 25), 0
    def mortal(real):
        def call(*args, **options):
            global calls
            calls += 1
            if calls == fatal:
                die()
            return real(*args, **options)
        return call
    os.fsync, Path.replace = mortal(os.fsync), mortal(Path.replace)

def watch(event):
    if how == "at a step" and isinstance(event, Progress) and chance.random() < 0.15:
        threading.Timer(chance.random() * 0.02, die).start()

options = ["training.epochs=2", "training.save_minutes=0.0", "model.dropout=0.3"]
recipe = tiny_recipe(*options, f"model.attention={attention}")
trainer.train(FeatureStore.open(Path(store)), Path(run), recipe, resume=True, watch=[watch])
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("attention", "kills"), [("soft", 10), ("hard", 4)])
def test_kill_9_at_random_moments_still_gives_the_same_bits(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path, attention: str, kills: int
) -> None:
    def attempt(folder: Path, how: str, seed: int) -> int:
        arguments = [world[0].folder, folder, attention, how, str(seed)]
        command = [sys.executable, "-c", TRAIN_AND_DIE, *arguments]
        return subprocess.run(command, cwd=ROOT, timeout=300, check=False).returncode

    assert attempt(tmp_path / "whole", "never", 0) == 0
    killed = {"at a step": 0, "in a write": 0}
    for how in killed:
        seed = 0
        while killed[how] < kills:
            folder = tmp_path / f"broken {how} {seed}"
            for attempt_number in range(3):
                code = attempt(folder, how, 100 * seed + attempt_number)
                assert code in (0, -signal.SIGKILL)
                killed[how] += code == -signal.SIGKILL
            assert attempt(folder, "never", 0) == 0
            assert same(weights_of(tmp_path / "whole"), weights_of(folder)), folder.name
            assert same(weights_of(tmp_path / "whole", BEST), weights_of(folder, BEST))
            seed += 1
    assert min(killed.values()) >= kills


def test_the_resumed_log_tells_each_step_once(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path
) -> None:
    recipe = quick_recipe("training.save_minutes=60.0")

    class Died(Exception):
        pass

    def die(event: Event) -> None:
        if isinstance(event, Step) and event.step == 20:
            raise Died

    with pytest.raises(Died):
        train(world[0], tmp_path / "run", recipe, watch=[die])
    train(world[0], tmp_path / "run", None, resume=True)
    steps = [e.step for e in read(tmp_path / "run" / "log.jsonl") if isinstance(e, Step)]
    assert steps == sorted(set(steps))


def poison(monkeypatch: pytest.MonkeyPatch, at_step: int, term: str) -> None:
    real = objective.soft_cost
    calls = 0

    def poisoned(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        cost = real(*args, **options)
        if calls == at_step:
            if term == "gradient":
                cost.loss = cost.loss * float("inf")
            else:
                setattr(cost, {"likelihood": "nats"}.get(term, term), float("nan"))
        return cost

    monkeypatch.setattr(objective, "soft_cost", poisoned)


@pytest.mark.parametrize("term", ["likelihood", "penalty", "gradient"])
def test_nonsense_stops_the_run_names_step_and_term_and_keeps_the_last_good_state(
    term: str,
    world: tuple[FeatureStore, list[Scene]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    poison(monkeypatch, 4, term)
    with pytest.raises(UserError, match=f"the {term} became nan at step 4"):
        train(world[0], tmp_path / "run", quick_recipe(SAVE_EVERY_STEP))
    tensors, meta = checkpoint.load(tmp_path / "run" / LAST)
    assert meta["place"]["step"] == 3
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())


def mistakes() -> dict[str, tuple[Callable[[Path, FeatureStore], object], str]]:
    """What a person does wrong with a run that is there, and the words of the answer."""

    def another_recipe(run: Path, store: FeatureStore) -> None:
        train(store, run, quick_recipe("training.seed=9"), resume=True)

    def no_resume(run: Path, store: FeatureStore) -> None:
        train(store, run, quick_recipe())

    def other_vocabulary(run: Path, store: FeatureStore) -> None:
        words = (run / "vocabulary.txt").read_text().replace("triangle", "hexagon")
        (run / "vocabulary.txt").write_text(words)
        Run.open(run)

    def nothing_there(run: Path, store: FeatureStore) -> None:
        train(store, run / "none", None, resume=True)

    def other_encoder(run: Path, store: FeatureStore) -> None:
        train(store, run / "other", quick_recipe("encoder.name=vgg19"))

    def too_few_augmentations(run: Path, store: FeatureStore) -> None:
        train(store, run / "augmentations", quick_recipe("encoder.augmentations=3"))

    def start_from_another_shape(run: Path, store: FeatureStore) -> None:
        train(store, run / "wide", quick_recipe("model.hidden=50"), start_from=run)

    def start_from_other_words(run: Path, store: FeatureStore) -> None:
        train(store, run / "words", quick_recipe("vocabulary.size=9"), start_from=run)

    def not_a_run(run: Path, store: FeatureStore) -> None:
        Run.open(store.folder)

    return {
        "another recipe": (another_recipe, "begun with another recipe"),
        "no --resume": (no_resume, "add --resume"),
        "other vocabulary": (other_vocabulary, "not the vocabulary"),
        "nothing to resume": (nothing_there, "no run to resume"),
        "other encoder": (other_encoder, "--set encoder.name=tiny"),
        "too few augmentations": (too_few_augmentations, "--augmentations 3"),
        "start from another shape": (start_from_another_shape, "other shapes"),
        "start from other words": (start_from_other_words, "its vocabulary is not this run's"),
        "not a run": (not_a_run, "not a run folder"),
    }


@pytest.mark.parametrize("mistake", mistakes())
def test_a_mistake_is_told_in_a_sentence(
    mistake: str, world: tuple[FeatureStore, list[Scene]], one_epoch: Path, tmp_path: Path
) -> None:
    shutil.copytree(one_epoch, tmp_path / "run")
    before = (tmp_path / "run" / LAST).read_bytes()
    do, words = mistakes()[mistake]
    with pytest.raises(UserError, match=words):
        do(tmp_path / "run", world[0])
    assert (tmp_path / "run" / LAST).read_bytes() == before


@pytest.mark.slow
def test_hard_attention_learns_the_tiny_world_and_looks_at_single_places(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path
) -> None:
    rule = ["samples=4", "baseline=others", "reward=rest", "entropy_weight=0.02"]
    recipe = tiny_recipe("model.attention=hard", *(f"hard.{choice}" for choice in rule))
    train(world[0], tmp_path / "run", recipe)
    events = read(tmp_path / "run" / "log.jsonl")
    assert max(event.scores["BLEU-4"] for event in events if isinstance(event, Dev)) > 0.95
    entropies = [event.entropy_nats for event in events if isinstance(event, Step)]
    assert entropies[-1] < entropies[0] - 0.5


def test_a_reward_without_weight_changes_no_bit(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path
) -> None:
    options = {
        "plain": [],
        "off": ["reward.weight=0.0", "reward.samples=3"],
        "reward": ["reward.weight=0.5", "reward.samples=2", "search.max_words=10"],
    }
    for name, changes in options.items():
        recipe = tiny_recipe("training.epochs=1", "model.dropout=0.3", *changes)
        train(world[0], tmp_path / name, recipe)
    plain = weights_of(tmp_path / "plain")
    assert same(plain, weights_of(tmp_path / "off"))
    assert not same(plain, weights_of(tmp_path / "reward"))


@pytest.mark.slow
def test_rewards_rise_when_they_are_learned_from(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path
) -> None:
    """From half-learned weights, by rewards alone, the drawn captions get better."""
    train(world[0], tmp_path / "begun", tiny_recipe("training.epochs=4"))
    recipe = tiny_recipe(
        "reward.weight=1.0",
        "reward.bleu=1.0",
        "training.epochs=4",
        "training.learning_rate=0.002",
        "search.max_words=12",
    )
    train(world[0], tmp_path / "run", recipe, start_from=tmp_path / "begun")
    steps = [e for e in read(tmp_path / "run" / "log.jsonl") if isinstance(e, Step)]
    rewards = [event.reward for event in steps]
    assert rewards[0] > 4  # of 11: the references are those of the same pictures
    assert rewards[-1] > rewards[0] + 0.5


def test_a_run_can_start_from_another_s_best_weights(
    trained: Run, world: tuple[FeatureStore, list[Scene]], tmp_path: Path
) -> None:
    recipe = tiny_recipe("model.attention=hard", "training.epochs=1")

    def stop(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # before the first step
        train(world[0], tmp_path / "hard", recipe, start_from=trained.folder, watch=[stop])
    tensors, _ = checkpoint.load(tmp_path / "hard" / LAST)
    for name, tensor in trained.decoder.state_dict().items():
        assert torch.equal(tensors[f"decoder.{name}"], tensor)


def test_training_draws_from_all_views_and_dev_sees_the_first(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = world[0].index.model_copy(update={"augmentations": 3})
    store = FeatureStore.create(tmp_path / "augmentations", index, world[0].examples)
    pictures = [row for row, _ in store.sources]
    store.write(range(len(store.sources)), world[0].read(pictures).astype(np.float16))
    read: set[int] = set()
    really_read = FeatureStore.read

    def reading(self: FeatureStore, rows: list[int]) -> np.ndarray:
        read.update(rows)
        return really_read(self, rows)

    monkeypatch.setattr(FeatureStore, "read", reading)
    train(store, tmp_path / "run", quick_recipe("encoder.augmentations=3", "training.epochs=1"))
    augmentations = Counter(
        store.sources[row][1] for row in read if store.example(row).split == "train"
    )
    assert sum(augmentations.values()) == len(
        store.rows("train")
    )  # one caption a picture, one view each
    assert min(augmentations[0], augmentations[1], augmentations[2]) > len(store.rows("train")) / 6
    assert {row for row in read if store.example(row).split == "dev"} == set(store.rows("dev"))


OTHERS: dict[str, Any] = {
    "weights_hash": "another",
    "encoder": "vgg19",
    "preprocessing": Preprocessing(mean=(1, 0, 0), std=(1, 1, 1)),
    "grid": (2, 8),
    "fine_tuned": 1,
}


def test_features_of_another_kind_are_refused(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path
) -> None:
    # With a recipe that does not name what it wants: the checkpoint does.
    recipe = quick_recipe("training.epochs=1", "encoder.grid=none")
    train(world[0], tmp_path / "run", recipe)
    for name, value in OTHERS.items():
        other = world[0].index.model_copy(update={name: value})
        store = FeatureStore(world[0].folder, other, world[0].examples)
        with pytest.raises(UserError, match=rf"{name} is") as caught:
            Run.open(tmp_path / "run").check_features(store)
        assert caught.value.code == "model.features"
        with pytest.raises(UserError, match="store") as caught:
            train(store, tmp_path / "run", None, resume=True)
        assert caught.value.code == "model.features"


@pytest.mark.parametrize("name", [BEST, LAST])
def test_weights_of_another_run_are_refused(
    name: str, world: tuple[FeatureStore, list[Scene]], one_epoch: Path, tmp_path: Path
) -> None:
    shutil.copytree(one_epoch, tmp_path / "run")
    train(world[0], tmp_path / "wide", quick_recipe("training.epochs=1", "model.hidden=50"))
    for source in (tmp_path / "wide" / name, tmp_path / "run" / (LAST if name == BEST else BEST)):
        (tmp_path / "run" / name).write_bytes(source.read_bytes())
        with pytest.raises(UserError, match="not the weights of the model that") as caught:
            if name == BEST:
                Run.open(tmp_path / "run")
            else:
                train(world[0], tmp_path / "run", None, resume=True)
        assert str(caught.value).startswith(f"{tmp_path / 'run' / name}: ")
        assert caught.value.code == "model.shape"


def test_a_second_trainer_is_kept_out_and_told_who_is_there(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    with (
        RunLock(tmp_path / "run"),
        pytest.raises(UserError, match=rf"process {os.getpid()}") as caught,
    ):
        train(world[0], tmp_path / "run", quick_recipe())
    assert caught.value.code == "run.locked"


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
def test_whatever_write_of_a_run_fails_nothing_is_lost(number: int, tmp_path: Path) -> None:
    """Lock, vocabulary, recipe, checkpoints, log and curves: the n-th system call fails."""
    store, _ = make_store(tmp_path / "store", train=8, dev=1)
    small = ["model.hidden=8", "search.beam=1", "search.max_words=3"]
    recipe = quick_recipe("training.epochs=1", SAVE_EVERY_STEP, *small)
    train(store, tmp_path / "whole", recipe)
    failed = unnoticed = 0
    for allowed in range(0, 1000, 2 if number == errno.ENOSPC else 7):
        run = tmp_path / str(allowed)
        raised = None
        with failing_call(allowed, OSError(number, os.strerror(number))) as faults:
            try:
                train(store, run, recipe)
            except UserError as error:
                raised = error
        if not faults.happened:
            break
        failed += 1
        if raised is None:  # matplotlib tries whether it may keep a list of fonts
            unnoticed += 1
        else:
            assert raised.code == ("disk.full" if number == errno.ENOSPC else "disk.unwritable")
            assert raised.exit_code == 1
        assert not list(run.glob("*.part"))
        if (run / LAST).exists():
            checkpoint.load_newest(run / LAST)
        train(store, run, recipe, resume=True)
        for name in (BEST, LAST):
            assert (run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        shutil.rmtree(run)
    assert failed > 5
    assert unnoticed <= 1


def test_training_keeps_no_graph_alive(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path
) -> None:
    import gc
    import weakref

    from show_attend_tell.learning.objectives.likelihood import soft_cost

    decoder = Decoder(tiny_recipe().model, 8, 5)
    annotations = torch.randn(3, 4, 8, requires_grad=True)
    captions = torch.ones(3, 4, dtype=torch.long)
    lesson = decoder(annotations, captions)
    soft_cost(decoder, lesson, captions, double_stochastic=1.0, label_smoothing=0.0).loss.backward()
    graph = weakref.ref(annotations)
    del lesson, annotations
    gc.collect()
    assert graph() is None


def judge_by(
    monkeypatch: pytest.MonkeyPatch, scores: list[float], nats: list[float] | None = None
) -> None:
    """Let the dev scores, and perhaps the dev losses, of the epochs be these."""
    really_score = trainer.score_dev

    def score(*given: Any) -> DevScores:
        found, epoch = really_score(*given), given[-1]
        found.scores["BLEU-4-bp"] = scores[epoch - 1]
        return replace(found, nats_per_word=nats[epoch - 1]) if nats else found

    monkeypatch.setattr(trainer, "score_dev", score)


def test_early_stopping_waits_for_patience(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_by(monkeypatch, [0.1] * 9)
    recipe = tiny_recipe("training.epochs=9", "training.patience=2")
    train(world[0], tmp_path / "run", recipe)
    events = read(tmp_path / "run" / "log.jsonl")
    devs = [event for event in events if isinstance(event, Dev)]
    assert [event.best for event in devs] == [True, False, False]
    assert isinstance(events[-1], Stop)
    assert events[-1].reason == "dev BLEU-4-bp has not risen for 2 epochs"


def test_there_is_no_early_stop_while_the_score_is_zero_and_the_dev_loss_decides(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What BLEU-4 gives without a single 4-gram: 0.00, and not the same from epoch to epoch.
    judge_by(monkeypatch, [3e-10, 1e-13, 2e-12, 1e-9, 0.0], nats=[3.0, 2.5, 2.7, 2.6, 2.8])
    train(world[0], tmp_path / "run", tiny_recipe("training.epochs=5", "training.patience=1"))
    events = read(tmp_path / "run" / "log.jsonl")
    devs = [event.best for event in events if isinstance(event, Dev)]
    assert devs == [True, True, False, False, False]
    assert isinstance(events[-1], Stop)
    assert events[-1].reason == (
        "all 5 epochs are done; dev BLEU-4-bp stayed at 0.00, so the dev loss chose the best"
    )
    assert Run.open(tmp_path / "run").meta["epoch"] == 2


def test_a_score_above_zero_decides_again_whatever_the_dev_loss_is(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_by(monkeypatch, [1e-9, 0.02, 0.01, 0.0, 0.0], nats=[2.0, 3.0, 2.5, 1.0, 1.0])
    train(world[0], tmp_path / "run", tiny_recipe("training.epochs=5", "training.patience=2"))
    events = read(tmp_path / "run" / "log.jsonl")
    devs = [event.best for event in events if isinstance(event, Dev)]
    assert devs == [True, True, False, False]
    assert "has not risen for 2 epochs" in events[-1].reason


def test_a_small_set_is_gone_through_several_times_an_epoch(tmp_path: Path) -> None:
    store, _ = make_store(tmp_path / "store", train=20, dev=4)
    batches = trainer.Trainer(
        store, new_folder(tmp_path / "run"), tiny_recipe("training.minimum_steps=9"), ()
    ).feed.epoch(0)
    assert 9 <= len(batches) < 9 + 4
    counts = Counter(caption for batch in batches for caption in batch.tolist())
    assert set(counts) == set(range(20))
    assert len(set(counts.values())) == 1
    passes = [tuple(np.concatenate(batches[i : i + 3]).tolist()) for i in (0, 3)]
    assert passes[0] != passes[1]  # each pass in an order of its own


def test_an_epoch_of_many_pictures_is_one_pass_in_the_same_order(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path
) -> None:
    orders = [
        trainer.Trainer(
            world[0],
            new_folder(tmp_path / name),
            tiny_recipe(f"training.minimum_steps={name}"),
            (),
        ).feed.epoch(3)
        for name in ("0", "5")
    ]
    assert all(np.array_equal(*pair) for pair in zip(*orders, strict=True))


STOCK = ["encoder.name=tiny", "encoder.grid=4", "encoder.size=none", "encoder.fit=crop"]


@pytest.mark.slow
def test_a_stock_recipe_learns_fifty_pictures_of_one_s_own(tmp_path: Path) -> None:
    store, scenes = make_store(tmp_path / "store", train=40, dev=10)
    recipe = load_recipe("flickr8k-soft", [*STOCK, "encoder.augmentations=1"])
    train(store, tmp_path / "run", recipe)
    run = Run.open(tmp_path / "run")
    rows = store.rows("train")
    captions, _ = caption_rows(run.decoder, run.vocabulary, store, rows, Search(beam=3))
    right = sum(captions[str(row)] == scenes[row].caption for row in rows)
    assert right / len(rows) > 0.9
    assert len(set(captions.values())) > len(rows) / 2


def test_the_average_of_a_short_run_has_left_the_first_weights(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path
) -> None:
    recipe = tiny_recipe("training.average=0.998", "training.epochs=4")

    def stop(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(world[0], tmp_path / "begun", recipe, watch=[stop])
    train(world[0], tmp_path / "run", recipe)  # 52 steps: 0.998 of each would keep 90 %
    begun, end = weights_of(tmp_path / "begun"), weights_of(tmp_path / "run")

    def norm(one: str, begin: dict[str, torch.Tensor]) -> float:
        names = [n.removeprefix("decoder.") for n in end if n.startswith("decoder.")]
        parts = [begin[f"decoder.{n}"] - end[f"{one}.{n}"] for n in names]
        return float(torch.cat([part.flatten() for part in parts]).norm())

    assert norm("average", end) < 0.25 * norm("decoder", begun)


def test_one_training_picture_is_enough_to_train(tmp_path: Path) -> None:
    store, scenes = make_store(tmp_path / "store", train=1, dev=1)
    train(store, tmp_path / "run", tiny_recipe("training.minimum_steps=30", "training.epochs=2"))
    run = Run.open(tmp_path / "run")
    captions, _ = caption_rows(run.decoder, run.vocabulary, store, [0], Search(beam=1))
    assert captions["0"] == scenes[0].caption


def test_a_run_that_goes_on_on_another_set_up_says_so(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def notes() -> str:
        start = read(tmp_path / "run" / "log.jsonl")[-2]
        assert isinstance(start, Start)
        return " ".join(start.notes)

    recipe = quick_recipe("training.epochs=1")
    train(world[0], tmp_path / "run", recipe)
    train(world[0], tmp_path / "run", None, resume=True)
    assert "another set-up" not in notes()
    here = trainer.setup()
    monkeypatch.setattr(trainer, "setup", lambda: here | {"threads": 63, "torch": "9.9"})
    train(world[0], tmp_path / "run", None, resume=True)
    assert "resumed on another set-up (torch is 9.9, not" in notes()
    assert "threads is 63, not" in notes()
    assert "not be bit-identical" in notes()


def test_the_same_seed_gives_equal_bytes_and_another_does_not(
    world: tuple[FeatureStore, list[Scene]], one_epoch: Path, tmp_path: Path
) -> None:
    train(world[0], tmp_path / "again", quick_recipe("training.epochs=1"))
    train(world[0], tmp_path / "other", quick_recipe("training.epochs=1", "training.seed=2"))
    for name in (BEST, LAST):
        assert (one_epoch / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert not same(weights_of(one_epoch), weights_of(tmp_path / "other"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_a_hundred_epochs_keep_memory_log_and_folder_bounded(tmp_path: Path) -> None:
    store, _ = make_store(tmp_path / "store", train=32, dev=4)
    recipe = tiny_recipe(
        *("training.epochs=100", "training.patience=100", "training.learning_rate=0.001"),
        *("search.beam=1", "search.max_words=9"),
    )
    megabytes: list[float] = []

    def weigh(event: Event) -> None:
        if isinstance(event, Dev):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            megabytes.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)

    train(store, tmp_path / "run", recipe, watch=[weigh])
    assert len(megabytes) == 100
    print(f"MB after 20, 60, 100 epochs: {[round(megabytes[i]) for i in (19, 59, 99)]}")
    assert megabytes[99] < megabytes[19] * 1.05
    size = (tmp_path / "run" / "log.jsonl").stat().st_size
    print(
        f"bytes of the log: {size}, files: {sorted(p.name for p in (tmp_path / 'run').iterdir())}"
    )
    assert size < 100 * 2000
    weights = {path.name for path in (tmp_path / "run").glob("*.safetensors*")}
    assert weights <= {
        *(BEST, LAST),
        *(f"{Path(n).stem}.previous.safetensors" for n in (BEST, LAST)),
    }


def new_folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_the_best_epoch_is_best_by_the_metric_asked_for(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path
) -> None:
    train(world[0], tmp_path / "run", quick_recipe("training.stop_on=CIDEr-D"))
    devs = [e for e in read(tmp_path / "run" / "log.jsonl") if isinstance(e, Dev)]
    best = [event for event in devs if event.best][-1]
    assert best.scores["CIDEr-D"] == max(event.scores["CIDEr-D"] for event in devs) > 0
    meta = Run.open(tmp_path / "run").meta
    assert (meta["epoch"], meta["CIDEr-D"]) == (best.epoch, best.scores["CIDEr-D"])


def test_nothing_is_scored_to_learn_whether_a_metric_can_be_computed(
    world: tuple[FeatureStore, list[Scene]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = []

    def count(captions: Sequence[str], references: Sequence[Sequence[str]]) -> Any:
        scored.append(len(captions))
        return rouge_rows(captions, references)

    monkeypatch.setitem(METRICS, "ROUGE-L", replace(METRICS["ROUGE-L"], count=count))
    recipe = quick_recipe("training.stop_on=ROUGE-L")
    train(world[0], tmp_path / "run", recipe)
    assert set(scored) == {len(world[0].rows("dev"))}
    lack = UserError("extra.missing", "not there")
    monkeypatch.setitem(METRICS, "ROUGE-L", replace(METRICS["ROUGE-L"], why_not=lambda: lack))
    with pytest.raises(UserError, match="not there"):
        train(world[0], tmp_path / "other", recipe)
