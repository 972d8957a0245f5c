"""`sat average`: a run that is the mean of others, as good as a trained one to every command."""

from pathlib import Path

import pytest
import torch

import show_attend_tell as sat_package
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.errors import UserError
from show_attend_tell.learning import average
from show_attend_tell.learning.export.card import write_card
from show_attend_tell.learning.export.folder import export_model
from show_attend_tell.learning.loop import checkpoint
from show_attend_tell.learning.loop.trainer import train
from show_attend_tell.learning.recipe import Recipe
from show_attend_tell.learning.run import BEST, LAST, Run
from tests.conftest import Sat
from tests.small_photos import small_recipe, small_store
from tests.tiny_world import make_store, tiny_recipe


def quick(*overrides: str) -> Recipe:
    return tiny_recipe("training.epochs=1", "model.hidden=16", "search.beam=1", *overrides)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return make_store(tmp_path_factory.mktemp("tiny") / "store", train=48, dev=6)[0]


@pytest.fixture(scope="module")
def runs(store: FeatureStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, one that began with its weights, and some that go with neither."""
    folder = tmp_path_factory.mktemp("runs")
    train(store, folder / "one", quick())
    train(store, folder / "other", quick("training.seed=2"), start_from=folder / "one")
    train(store, folder / "wide", quick("model.hidden=20"))
    train(store, folder / "words", quick("vocabulary.size=9"))
    narrow, _ = make_store(folder / "store", train=20, dev=2)
    index = narrow.index.model_copy(update={"weights_hash": "others"})
    train(FeatureStore(narrow.folder, index, narrow.examples), folder / "strange", quick())
    (folder / "empty").mkdir()
    return folder


def weights(run: Path) -> dict[str, torch.Tensor]:
    return Run.open(run).decoder.state_dict()


def test_a_run_named_twice_counts_twice(sat: Sat, runs: Path, tmp_path: Path) -> None:
    mean = tmp_path / "mean"
    code, _, err = sat("average", *(runs / name for name in ("one", "other", "one")), "--out", mean)
    assert code == 0
    assert "one (2 of 3) and other (1 of 3)" in err
    one, other = weights(runs / "one"), weights(runs / "other")
    for name, tensor in weights(mean).items():
        expected = (2 * one[name].double() + other[name].double()) / 3
        assert torch.allclose(tensor.double(), expected, atol=1e-6)
    assert Run.open(mean).recipe == Run.open(runs / "one").recipe


def test_a_mean_can_be_evaluated_reported_shown_and_started_from(
    sat: Sat, runs: Path, store: FeatureStore, tmp_path: Path
) -> None:
    mean, further = tmp_path / "mean", tmp_path / "further"
    average.average_runs([runs / "one", runs / "other"], mean)
    assert "Not scored" in write_card(Run.open(mean))
    assert "the mean of the weights of one (1 of 2) and other (1 of 2)." in write_card(
        Run.open(mean)
    )
    for verb in ("evaluate", "report"):
        code, _, err = sat(verb, mean, store.folder, "--split", "dev")
        assert code == 0, err
    assert "| protocol |" in write_card(Run.open(mean))
    code, out, _ = sat("show", mean)
    assert "finished: the mean of the weights of one" in out

    train(store, further, quick("training.learning_rate=1e-12"), start_from=mean)
    for name, tensor in weights(further).items():
        torch.testing.assert_close(tensor, weights(mean)[name])
    assert "epoch 1; began with the weights of mean." in write_card(Run.open(further))


@pytest.mark.slow
def test_a_mean_can_be_exported(exported_run: Run, tmp_path: Path) -> None:
    photos, other, mean = exported_run.folder.parent / "photos", tmp_path / "other", tmp_path / "m"
    store = small_store(photos.parent)
    train(store, other, small_recipe("training.seed=2"), start_from=exported_run.folder)
    average.average_runs([exported_run.folder, other], mean)
    export_model(Run.open(mean), mean / "model", encoder_weights="random:3")
    assert sat_package.load(mean)(photos / "1.png").text


# The runs that are named, and words of the one-sentence answer.
MISTAKES: dict[str, tuple[list[str], str]] = {
    "one run": (["one", "one"], "needs two different runs or more"),
    "no run": (["one", "empty"], "not a run folder"),
    "other sizes": (["one", "wide"], "wide: its weights have other shapes"),
    "other words": (["one", "words"], "words: its vocabulary is not"),
    "other features": (["one", "strange"], "weights_hash is others"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_runs_that_do_not_go_together_are_refused(
    mistake: str, sat: Sat, runs: Path, tmp_path: Path
) -> None:
    names, answer = MISTAKES[mistake]
    code, _, err = sat("average", *(runs / name for name in names), "--out", tmp_path / "mean")
    assert code != 0
    assert answer in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "mean").exists()


def test_a_run_is_never_written_over(sat: Sat, runs: Path) -> None:
    before = (runs / "other" / BEST).read_bytes()
    code, _, err = sat("average", runs / "one", runs / "other", "--out", runs / "other")
    assert (code, "holds a run already; name another folder" in err) == (1, True)
    assert (runs / "other" / BEST).read_bytes() == before


def test_a_mean_that_was_cut_short_is_no_run_and_the_same_command_makes_it(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = [runs / "one", runs / "other"]
    with monkeypatch.context() as patch:
        patch.setattr(average, "write_text", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            average.average_runs(named, tmp_path)
    with pytest.raises(UserError, match="not a run folder"):
        Run.open(tmp_path)
    average.average_runs(named, tmp_path)
    assert weights(tmp_path)


def test_a_mean_has_no_training_to_go_on_with(
    runs: Path, store: FeatureStore, tmp_path: Path
) -> None:
    average.average_runs([runs / "one", runs / "other"], tmp_path)
    with pytest.raises(UserError, match=f"--start-from {tmp_path}"):
        train(store, tmp_path, None, resume=True)


@pytest.mark.parametrize(
    "words",
    [("--start-from", "A", "--start-from", "B"), ("--set", "training.epochs=0")],
    ids=["two to start from", "no epochs"],
)
def test_the_former_ways_to_average_name_the_verb(
    words: tuple[str, ...], sat: Sat, store: FeatureStore, tmp_path: Path
) -> None:
    code, _, err = sat("train", store.folder, tmp_path / "run", *words)
    assert (code, "`sat average" in err) == (2, True)
    assert not (tmp_path / "run").exists()


def test_the_state_of_training_is_not_averaged(runs: Path, tmp_path: Path) -> None:
    average.average_runs([runs / "one", runs / "other"], tmp_path)
    assert not (tmp_path / LAST).exists()
    assert checkpoint.load(tmp_path / BEST)[1]["epoch"] == 0
