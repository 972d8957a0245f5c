"""Distillation: what teachers say, that a pupil can learn it, and who may not teach."""

from pathlib import Path
from typing import Any

import pytest
import torch

from show_attend_tell.data.batches import PADDING, Captions
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.errors import UserError
from show_attend_tell.learning.loop.checkpoint import load
from show_attend_tell.learning.loop.trainer import train
from show_attend_tell.learning.objectives.distillation import Teachers
from show_attend_tell.learning.objectives.likelihood import SoftTargets, soft_cost
from show_attend_tell.learning.recipe import load_recipe
from show_attend_tell.learning.run import LAST, Run
from show_attend_tell.learning.watching.events import Event, Progress
from tests.tiny_world import make_store, tiny_recipe


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return make_store(tmp_path_factory.mktemp("world") / "store", train=60)[0]


@pytest.fixture(scope="module")
def runs(store: FeatureStore, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Two half-taught runs."""
    folder = tmp_path_factory.mktemp("teachers")
    for seed in (1, 2):
        recipe = tiny_recipe("training.epochs=2", f"training.seed={seed}")
        train(store, folder / str(seed), recipe)
    return [Run.open(folder / str(seed)) for seed in (1, 2)]


def distilled(runs: list[Run], *overrides: str) -> Any:
    folders = [str(run.folder) for run in runs]
    return tiny_recipe(
        "distillation.weight=0.5",
        f"distillation.teachers={folders}",
        "training.epochs=1",
        *overrides,
    )


def lesson_of(store: FeatureStore, run: Run) -> tuple[torch.Tensor, torch.Tensor]:
    captions = Captions.of(store, "train", run.vocabulary)
    some = list(range(6))
    annotations = torch.from_numpy(store.read([captions.rows[i] for i in some]))
    return annotations, torch.from_numpy(captions.padded(some))  # type: ignore[arg-type]


def test_advice_is_the_mean_of_what_each_would_tell_after_the_same_words(
    store: FeatureStore, runs: list[Run]
) -> None:
    annotations, captions = lesson_of(store, runs[0])
    teachers = Teachers([str(run.folder) for run in runs], store, runs[0].vocabulary)
    soft_targets = iter(teachers.soft_targets(annotations, captions))
    for row, caption in enumerate(captions):
        each = []
        for run in runs:
            places, state = run.decoder.start(annotations[row : row + 1])
            before, told = torch.tensor([run.decoder.words]), []
            for word in caption[caption != PADDING]:
                alpha, gate = run.decoder.look(places, state)
                state, logits = run.decoder.advance(places, state, alpha, gate, before)
                told.append(logits.softmax(1)[0])
                before = word.view(1)
            each.append(torch.stack(told))
        for expected in torch.stack(each).mean(0):
            assert torch.allclose(next(soft_targets), expected, atol=1e-6)
    assert next(soft_targets, None) is None


def test_who_is_advised_by_itself_alone_has_nothing_to_learn(
    store: FeatureStore, runs: list[Run]
) -> None:
    """The cross entropy of p with itself is at its least: every gradient is zero."""
    run = Run.open(runs[0].folder)
    annotations, captions = lesson_of(store, run)
    probs = Teachers([str(run.folder)], store, run.vocabulary).soft_targets(annotations, captions)

    def largest_gradient(soft_targets: SoftTargets | None) -> float:
        run.decoder.zero_grad()
        lesson = run.decoder(annotations, captions)
        cost = soft_cost(
            run.decoder,
            lesson,
            captions,
            double_stochastic=0.0,
            label_smoothing=0.1,
            soft_targets=soft_targets,
        )
        cost.loss.backward()
        return max(
            float(p.grad.abs().max()) for p in run.decoder.parameters() if p.grad is not None
        )

    assert largest_gradient(SoftTargets(probs, 1.0)) < 1e-5
    assert largest_gradient(None) > 1e-2


def test_a_pupil_comes_nearer_to_its_teachers_than_one_without(
    store: FeatureStore, runs: list[Run], tmp_path: Path
) -> None:
    alone = tiny_recipe("training.epochs=1", "training.seed=3")
    train(store, tmp_path / "alone", alone)
    train(store, tmp_path / "pupil", distilled(runs, "training.seed=3", "distillation.weight=1.0"))
    annotations, captions = lesson_of(store, runs[0])
    soft_targets = Teachers(
        [str(run.folder) for run in runs], store, runs[0].vocabulary
    ).soft_targets(annotations, captions)

    def distance(name: str) -> float:
        own = Teachers([str(tmp_path / name)], store, runs[0].vocabulary)
        probs = own.soft_targets(annotations, captions)
        return float((soft_targets * (soft_targets / probs).log()).sum(1).mean())

    assert distance("pupil") < 0.9 * distance("alone")


def test_a_stopped_pupil_goes_on_to_the_same_bits(
    store: FeatureStore, runs: list[Run], tmp_path: Path
) -> None:
    recipe = distilled(runs)
    train(store, tmp_path / "whole", recipe)

    def stop(event: Event) -> None:
        if isinstance(event, Progress) and event.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(store, tmp_path / "stopped", recipe, watch=[stop])
    train(store, tmp_path / "stopped", None, resume=True)
    one, other = (load(tmp_path / name / LAST)[0] for name in ("whole", "stopped"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_who_cannot_teach_is_refused(store: FeatureStore, runs: list[Run], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="its vocabulary is not this run's"):
        train(store, tmp_path / "words", distilled(runs, "vocabulary.size=5"))
    with pytest.raises(UserError, match="not a run folder"):
        train(store, tmp_path / "none", distilled(runs, 'distillation.teachers=["no-such-run"]'))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["distillation.weight=0.5"], "needs both weight and teachers"),
        (['distillation.teachers=["runs/a"]'], "needs both weight and teachers"),
        (
            ["distillation.weight=0.5", 'distillation.teachers=["runs/a"]', "model.attention=hard"],
            'of use with model.attention = "soft" alone',
        ),
        (["distillation.weight=0.5", "distillation.teachers=runs/a"], "should be a valid list"),
    ],
)
def test_half_a_distillation_is_refused(changes: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_recipe("flickr8k-soft", changes)
