"""Tuning the encoder's last stages: the map is cut in two, and only the upper part learns."""

from pathlib import Path

import numpy as np
import pytest
import torch

from show_attend_tell.captioning.exported import ExportedModel
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.errors import UserError
from show_attend_tell.learning.average import average_runs
from show_attend_tell.learning.encoders import make_encoder
from show_attend_tell.learning.encoders.base import UpperStages
from show_attend_tell.learning.encoders.prepare import read_pixels
from show_attend_tell.learning.export.folder import export_model
from show_attend_tell.learning.loop import checkpoint
from show_attend_tell.learning.loop.trainer import train
from show_attend_tell.learning.model.decoder import Decoder
from show_attend_tell.learning.recipe import Recipe
from show_attend_tell.learning.run import LAST, Run, encoder_of, is_fine_tuned
from show_attend_tell.learning.watching.events import Event, Progress
from tests.small_photos import small_recipe, small_store

TUNED = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fine_tuned")


@pytest.fixture(scope="module")
def store(folder: Path) -> FeatureStore:
    return small_store(folder, fine_tuned=TUNED, exported=False)


def fine_tuned_recipe(*overrides: str) -> Recipe:
    return small_recipe(
        f"encoder.fine_tuned={TUNED}", "training.batch_of=pictures", "training.batch=2", *overrides
    )


def upper_of(run: Run) -> torch.nn.Module:
    assert isinstance(run.decoder, Decoder)
    return run.decoder.upper


@pytest.mark.parametrize("name", ["efficientnet-lite0", "efficientnet-lite0+efficientnet-lite2"])
@pytest.mark.parametrize("grid", [2, 4])
@pytest.mark.parametrize("fine_tuned", range(1, 7))
def test_the_two_parts_give_what_the_whole_gives(fine_tuned: int, grid: int, name: str) -> None:
    encoder = make_encoder(name, weights="random:3", size=64, grid=grid)
    lower, upper = encoder.split(fine_tuned)
    pixels = torch.randint(256, (2, 64, 64, 3), dtype=torch.uint8)
    stored = lower(pixels)
    assert stored.shape == (2, lower.grid[0] * lower.grid[1], lower.depth)
    torch.testing.assert_close(upper(stored), encoder(pixels))


def test_only_the_upper_part_learns_and_its_normalisation_never_does() -> None:
    encoder = make_encoder("efficientnet-lite0", weights="random:3", size=64)
    _, upper = encoder.split(2)
    uppers = {id(parameter) for parameter in upper.parameters()}
    for parameter in encoder.parameters():
        assert parameter.requires_grad == (id(parameter) in uppers)
    torch.nn.Sequential(upper).train()
    before = {name: buffer.clone() for name, buffer in upper.named_buffers()}
    upper(torch.randn(3, 16, 112))
    assert all(torch.equal(before[name], buffer) for name, buffer in upper.named_buffers())


@pytest.mark.parametrize(
    ("name", "fine_tuned", "says"),
    [("efficientnet-lite0", 7, "1 to 6"), ("vgg16", 1, "cannot be fine-tuned")],
)
def test_stages_that_cannot_be_tuned_are_refused(name: str, fine_tuned: int, says: str) -> None:
    with pytest.raises(UserError, match=says):
        make_encoder(name, weights="random").split(fine_tuned)


@pytest.mark.slow
def test_the_store_holds_the_map_below(tmp_path: Path) -> None:
    store = small_store(tmp_path, fine_tuned=TUNED)
    encoder = encoder_of(store.index)
    lower, _ = encoder.split(TUNED)
    pixels = torch.from_numpy(np.stack([read_pixels(store, row) for row in (0, 1)]))
    np.testing.assert_allclose(store.read([0, 1]), lower(pixels), rtol=1e-2, atol=1e-2)
    assert (store.index.grid, store.index.depth) == (encoder.grid, encoder.depth)


def test_tuning_moves_the_upper_stages_and_goes_on_after_a_stop_to_the_same_bits(
    store: FeatureStore, tmp_path: Path
) -> None:
    recipe = fine_tuned_recipe("training.epochs=2")
    train(store, tmp_path / "whole", recipe)
    fine_tuned = upper_of(Run.open(tmp_path / "whole")).state_dict()
    _, upper = encoder_of(store.index).split(TUNED)
    moved = [
        name for name, was in upper.state_dict().items() if not torch.equal(was, fine_tuned[name])
    ]
    assert set(moved) == {name for name, _ in upper.named_parameters()}

    def stop(event: Event) -> None:
        if isinstance(event, Progress) and event.step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(store, tmp_path / "parts", recipe, watch=[stop])
    train(store, tmp_path / "parts", None, resume=True)
    one, other = (checkpoint.load(tmp_path / name / LAST)[0] for name in ("whole", "parts"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_all_stages_of_two_encoders_are_tuned_saved_and_gone_on_with(tmp_path: Path) -> None:
    both = "efficientnet-lite1+efficientnet-lite2"
    store = small_store(tmp_path, fine_tuned=6, encoder=both)
    recipe = fine_tuned_recipe(f"encoder.name={both}", "encoder.fine_tuned=6")
    train(store, tmp_path / "run", recipe)
    tensors, _ = checkpoint.load(tmp_path / "run" / LAST)
    upper = upper_of(Run.open(tmp_path / "run"))
    learned = sum(parameter.requires_grad for parameter in upper.parameters())
    assert len(tensors) > 3 * learned > 1000  # weights and Adam's two moments


@pytest.mark.parametrize(
    "options",
    [(), ("reward.weight=0.5",), ("model.attention=hard", "hard.samples=2")],
    ids=["soft", "reward", "hard"],
)
def test_a_step_sees_its_pictures_once_however_many_captions_are_taught(
    options: tuple[str, ...],
    store: FeatureStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, steps = [], []
    see = UpperStages.forward

    def count(upper: UpperStages, stored: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            seen.append(len(stored))
        return see(upper, stored)

    def listen(event: Event) -> None:
        if isinstance(event, Progress):
            steps.append(event.step)

    monkeypatch.setattr(UpperStages, "forward", count)
    train(store, tmp_path / "run", fine_tuned_recipe(*options), watch=[listen])
    assert len(seen) == len(steps) > 1


def test_tuning_starts_from_a_run_of_the_frozen_encoder(
    folder: Path, store: FeatureStore, tmp_path: Path
) -> None:
    frozen = small_store(folder, exported=False)
    train(frozen, tmp_path / "frozen", small_recipe())
    still = fine_tuned_recipe("training.learning_rate=1e-12", "training.fine_tuned_rate=1e-12")
    train(store, tmp_path / "fine_tuned", still, start_from=tmp_path / "frozen")
    one, other = Run.open(tmp_path / "frozen"), Run.open(tmp_path / "fine_tuned")
    rows = store.rows("dev")
    captions = torch.tensor([[3, 4, 5], [6, 3, 2], [4, 4, 4], [5, 3, 6]])
    with torch.no_grad():
        first = one.decoder(torch.from_numpy(frozen.read(rows)), captions)
        seen = other.decoder.encode(torch.from_numpy(store.read(rows)))
        second = other.decoder(seen, captions)
    torch.testing.assert_close(second.readout, first.readout, rtol=1e-2, atol=1e-2)
    with pytest.raises(UserError, match="fine_tuned is 0"):
        train(frozen, tmp_path / "back", small_recipe(), start_from=tmp_path / "fine_tuned")


def test_tuned_runs_are_averaged_with_their_stages_and_not_with_frozen_ones(
    folder: Path, store: FeatureStore, tmp_path: Path
) -> None:
    one, other, frozen = tmp_path / "one", tmp_path / "other", tmp_path / "frozen"
    train(store, one, fine_tuned_recipe())
    train(store, other, fine_tuned_recipe("training.fine_tuned_rate=0.01"), start_from=one)
    average_runs([one, other], tmp_path / "mean")
    states = [Run.open(run).decoder.state_dict() for run in (one, other, tmp_path / "mean")]
    stages = [name for name in states[0] if is_fine_tuned(name)]
    assert any(not torch.equal(states[0][name], states[1][name]) for name in stages)
    for name in stages:
        expected = (states[0][name].double() + states[1][name].double()) / 2
        torch.testing.assert_close(states[2][name], expected.to(states[2][name].dtype))
    train(small_store(folder, exported=False), frozen, small_recipe())
    with pytest.raises(UserError, match="fine_tuned is 0, not"):
        average_runs([one, frozen], tmp_path / "both")


@pytest.mark.slow
def test_the_exported_encoder_is_the_tuned_one(store: FeatureStore, tmp_path: Path) -> None:
    train(store, tmp_path / "run", fine_tuned_recipe("training.fine_tuned_rate=0.01"))
    run = Run.open(tmp_path / "run")
    rows = store.rows("dev")
    pixels = np.stack([read_pixels(store, row) for row in rows])
    with torch.no_grad():
        fine_tuned = upper_of(run)(torch.from_numpy(store.read(rows)))
        before = encoder_of(store.index)(torch.from_numpy(pixels))
    export_model(run, tmp_path / "model")
    told_from = ExportedModel(tmp_path / "model").encode(pixels)
    scale = float(fine_tuned.abs().max())
    assert (
        np.abs(told_from - fine_tuned.numpy()).max() < 0.02 * scale
    )  # stored and rounded as float16
    assert float((before - fine_tuned).abs().max()) > 0.1 * scale
