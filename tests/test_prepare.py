"""From pictures to features: the encoder's own numbers, whatever breaks on the way."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result
from PIL import Image
from typer.testing import CliRunner

from show_attend_tell import cli
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.layouts import Dataset, Example, load_dataset
from show_attend_tell.errors import UserError
from show_attend_tell.learning.encoders import Encoder, make_encoder, prepare
from show_attend_tell.learning.encoders.graph import encoder_function
from show_attend_tell.learning.encoders.prepare import Encode, Pixels, Preparation, read_pixels
from tests.small_photos import in_pytorch

ROOT = Path(__file__).resolve().parents[1]
COUNT = 12  # a batch of 8 and a batch of 4
SMALL = ("--encoder", "efficientnet-lite0", "--encoder-weights", "random", "--size", "64")


def small_encoder(weights: str = "random", size: int = 64) -> Encoder:
    return make_encoder("efficientnet-lite0", weights=weights, size=size)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return small_encoder()


@pytest.fixture(scope="module")
def encode(encoder: Encoder) -> Encode:
    """The exported encoder; the export takes seconds, so it is done once."""
    return encoder_function(encoder)


@pytest.fixture
def not_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export takes seconds: PyTorch computes the features, except where they are compared."""
    monkeypatch.setattr(prepare, "encoder_function", in_pytorch)


def instead(monkeypatch: pytest.MonkeyPatch, encode: Encode) -> None:
    """Let another function stand for the exported encoder."""
    monkeypatch.setattr(prepare, "encoder_function", lambda _: encode)


def first_pixels(pixels: Pixels) -> np.ndarray:
    """Stands for the encoder where its numbers do not matter: the first values as they are."""
    return pixels.reshape(len(pixels), -1)[:, : 4 * 1280].reshape(-1, 4, 1280).astype(np.float32)


def write_picture(path: Path, number: int) -> None:
    pixels = np.random.default_rng(number).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    Image.fromarray(pixels // (1 + number % 4)).save(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    lines = ["picture,caption,split"]
    for number in range(COUNT):
        write_picture(folder / f"{number:02}.png", number)
        lines.append(f"{number:02}.png,picture number {number},{'dev' if number > 9 else 'train'}")
    (folder / "captions.csv").write_text("\n".join(lines) + "\n")
    return folder


def prepared(photos: Path, folder: Path, encoder: Encoder) -> FeatureStore:
    Preparation(load_dataset(photos), folder, encoder).run()
    return FeatureStore.open(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(act: Callable[[], object]) -> UserError:
    with pytest.raises(UserError) as caught:
        act()
    return caught.value


# The numbers


@pytest.mark.slow
def test_the_exported_encoder_equals_the_learning_one(encoder: Encoder, encode: Encode) -> None:
    for count in (1, 3, 8):
        pixels = np.random.default_rng(count).integers(0, 256, (count, 64, 64, 3), dtype=np.uint8)
        expected = encoder(torch.from_numpy(pixels)).numpy()
        np.testing.assert_allclose(encode(pixels), expected, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_a_picture_has_the_same_features_in_any_batch(encode: Encode) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 64, 64, 3), dtype=np.uint8)
    alone = np.concatenate([encode(one[None]) for one in pixels])
    np.testing.assert_allclose(encode(pixels), alone, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_the_store_holds_what_the_encoder_gives(
    photos: Path, tmp_path: Path, encoder: Encoder, encode: Encode, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead(monkeypatch, encode)
    store = prepared(photos, tmp_path / "store", encoder)
    pixels = [read_pixels(store, row) for row in range(COUNT)]
    expected = encoder(torch.from_numpy(np.stack(pixels))).numpy()
    np.testing.assert_allclose(store.read(range(COUNT)), expected, rtol=1e-3, atol=2e-4)


def test_the_store_holds_every_view_of_the_training_pictures(
    photos: Path, tmp_path: Path, encoder: Encoder, not_exported: None
) -> None:
    dataset = load_dataset(photos)
    work = Preparation(dataset, tmp_path / "store", encoder, augmentations=3)
    told: list[int] = []
    work.run(told.append)
    store = FeatureStore.open(tmp_path / "store")
    assert store.missing() == []
    assert sum(told) == len(store.sources) == COUNT + 2 * len(store.rows("train"))
    row = store.row_of(store.rows("train")[1], 2)
    expected = encoder(torch.from_numpy(read_pixels(store, row)[None].copy())).numpy()
    np.testing.assert_allclose(store.read([row]), expected, rtol=1e-3, atol=2e-4)


def test_the_index_says_whose_features_they_are(
    photos: Path, tmp_path: Path, encoder: Encoder, not_exported: None
) -> None:
    index = prepared(photos, tmp_path / "store", encoder).index
    assert (index.encoder, index.weights_hash) == (encoder.name, encoder.weights_hash)
    assert (index.grid, index.depth) == (encoder.grid, encoder.depth)
    assert (index.preprocessing, index.layout) == (encoder.preprocessing, "folder")


def test_a_finished_preparation_is_whole_and_told_as_it_goes(
    photos: Path, tmp_path: Path, encoder: Encoder, not_exported: None
) -> None:
    told: list[int] = []
    work = Preparation(load_dataset(photos), tmp_path / "store", encoder)
    assert work.run(told.append) == {}
    assert told == [8, 4]
    FeatureStore.open(tmp_path / "store").check_complete()


# Going on


def test_a_preparation_goes_on_where_it_stopped(
    photos: Path, tmp_path: Path, encoder: Encoder, not_exported: None
) -> None:
    class Stop(Exception):
        pass

    def stop(_: int) -> None:
        raise Stop

    whole = prepared(photos, tmp_path / "whole", encoder)
    with pytest.raises(Stop):
        Preparation(load_dataset(photos), tmp_path / "broken", encoder).run(stop)
    again = Preparation(load_dataset(photos), tmp_path / "broken", encoder)
    assert again.waiting == [8, 9, 10, 11]
    again.run()
    assert contents(tmp_path / "broken") == contents(whole.folder)


def test_a_finished_store_is_left_as_it_is(
    photos: Path, tmp_path: Path, encoder: Encoder, not_exported: None
) -> None:
    before = contents(prepared(photos, tmp_path / "store", encoder).folder)
    again = Preparation(load_dataset(photos), tmp_path / "store", encoder)
    assert again.waiting == []
    again.run()
    assert contents(tmp_path / "store") == before


KILLED = """
import os, signal, sys
from pathlib import Path
from show_attend_tell.data.layouts import load_dataset
from show_attend_tell.learning.encoders.prepare import Preparation
from tests.test_prepare import small_encoder

work = Preparation(load_dataset(Path(sys.argv[1])), Path(sys.argv[2]), small_encoder())
work.run(lambda done: os.kill(os.getpid(), signal.SIGKILL))
"""


@pytest.mark.slow
def test_a_killed_preparation_ends_as_an_unbroken_one_byte_for_byte(
    photos: Path, tmp_path: Path, encoder: Encoder
) -> None:
    whole = prepared(photos, tmp_path / "whole", encoder)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(photos), str(tmp_path / "killed")],
        cwd=ROOT,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    again = Preparation(load_dataset(photos), tmp_path / "killed", encoder)
    assert again.waiting == [8, 9, 10, 11]
    again.run()
    assert contents(tmp_path / "killed") == contents(whole.folder)


# Bad pictures


def test_a_bad_picture_is_skipped_named_and_recorded(
    photos: Path, tmp_path: Path, encoder: Encoder, not_exported: None
) -> None:
    (photos / "03.png").write_text("not a picture")
    work = Preparation(load_dataset(photos), tmp_path / "store", encoder)
    skipped = work.run()
    assert list(skipped) == ["03.png"]
    assert str(photos / "03.png") in skipped["03.png"]
    store = FeatureStore.open(tmp_path / "store")
    assert (store.skipped(), store.missing()) == (skipped, [3])
    store.check_complete()


def test_a_mended_picture_is_all_that_a_second_run_does(
    photos: Path, tmp_path: Path, encoder: Encoder, not_exported: None
) -> None:
    whole = prepared(photos, tmp_path / "whole", encoder)
    (photos / "03.png").write_text("not a picture")
    prepared(photos, tmp_path / "store", encoder)
    write_picture(photos / "03.png", 3)
    told: list[int] = []
    again = Preparation(load_dataset(photos), tmp_path / "store", encoder)
    assert again.run(told.append) == {}
    assert told == [1]
    assert contents(tmp_path / "store") == contents(whole.folder)


def test_a_batch_of_bad_pictures_does_not_stop_the_rest(
    photos: Path, tmp_path: Path, encoder: Encoder, not_exported: None
) -> None:
    for number in range(8):
        (photos / f"{number:02}.png").unlink()
    skipped = Preparation(load_dataset(photos), tmp_path / "store", encoder).run()
    assert len(skipped) == 8
    assert FeatureStore.open(tmp_path / "store").missing() == list(range(8))


def test_a_bad_picture_whose_name_is_not_utf_8_is_recorded(
    tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead(monkeypatch, first_pixels)
    name = "caf\udce9.png"
    dataset = Dataset("folder", (Example(tmp_path / name, ("a café",), "train", name),), ())
    skipped = Preparation(dataset, tmp_path / "store", encoder).run()
    assert FeatureStore.open(tmp_path / "store").skipped() == skipped
    assert list(skipped) == [name]


# Bad encoders


@pytest.mark.parametrize("batch", [8, 1], ids=["within a batch", "across batches"])
def test_an_encoder_that_sees_no_difference_is_refused(
    batch: int, photos: Path, tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "BATCH", batch)
    instead(monkeypatch, lambda pixels: np.ones((len(pixels), 4, 1280), np.float32))
    for _ in range(2):  # what a first try left must not hide it from the second
        error = refused(lambda: prepared(photos, tmp_path / "store", encoder))
        assert error.code == "model.collapsed"
        assert "00.png and 01.png" in str(error)


@pytest.mark.parametrize("batch", [8, 1], ids=["within a batch", "across batches"])
def test_identical_pictures_may_have_the_same_features(
    batch: int, photos: Path, tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "BATCH", batch)
    instead(monkeypatch, first_pixels)
    shutil.copy(photos / "00.png", photos / "05.png")
    store = prepared(photos, tmp_path / "store", encoder)
    assert np.array_equal(*store.read([0, 5]))


@pytest.mark.parametrize("batch", [8, 1], ids=["within a batch", "across batches"])
def test_checksums_that_meet_by_chance_are_no_collapse(
    batch: int, photos: Path, tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "BATCH", batch)
    monkeypatch.setattr(prepare, "checksum", lambda _: 7)
    instead(monkeypatch, first_pixels)
    assert prepared(photos, tmp_path / "store", encoder).missing() == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 65_505.0, -1e6])
def test_features_that_float16_cannot_hold_are_refused(
    value: float, photos: Path, tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoiled(pixels: Pixels) -> np.ndarray:
        features = first_pixels(pixels)
        features[2, 1, 5] = value
        return features

    instead(monkeypatch, spoiled)
    error = refused(lambda: prepared(photos, tmp_path / "store", encoder))
    assert error.code == "model.out_of_range"
    assert "02.png" in str(error)
    assert FeatureStore.open(tmp_path / "store").missing() == list(range(COUNT))


def test_the_largest_number_that_float16_holds_is_kept(
    photos: Path, tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def large(pixels: Pixels) -> np.ndarray:
        features = first_pixels(pixels)
        features[:, 1, 5] = 65_504.0
        return features

    instead(monkeypatch, large)
    assert prepared(photos, tmp_path / "store", encoder).read([0])[0, 1, 5] == 65_504.0


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"weights": "random:1"}, "expected weights_hash random-seed-1, found random-seed-0"),
        ({"size": 96}, "preprocessing"),
    ],
    ids=["weights", "size"],
)
def test_another_encoder_is_refused_on_an_existing_store(
    other: dict[str, Any],
    named: str,
    photos: Path,
    tmp_path: Path,
    encoder: Encoder,
    not_exported: None,
) -> None:
    before = contents(prepared(photos, tmp_path / "store", encoder).folder)
    error = refused(lambda: prepared(photos, tmp_path / "store", small_encoder(**other)))
    assert error.code == "data.store"
    assert named in str(error)
    assert contents(tmp_path / "store") == before


def test_other_captions_are_refused_on_an_existing_store(
    photos: Path, tmp_path: Path, encoder: Encoder, not_exported: None
) -> None:
    prepared(photos, tmp_path / "store", encoder)
    captions = photos / "captions.csv"
    captions.write_text(captions.read_text().replace("number 4", "number four"))
    assert refused(lambda: prepared(photos, tmp_path / "store", encoder)).code == "data.store"


# Disk


def test_a_full_disk_is_told_before_any_work(
    photos: Path, tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "encoder_function", lambda _: pytest.fail("work was done"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    error = refused(lambda: Preparation(load_dataset(photos), tmp_path / "deep/store", encoder))
    assert error.code == "disk.full"
    assert "the features take 123 kB, only 1 kB are free" in str(error)
    assert not (tmp_path / "deep").exists()


def test_a_disk_with_just_enough_space_will_do(
    photos: Path, tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead(monkeypatch, first_pixels)
    needed = COUNT * 4 * 1280 * 2
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=needed))
    work = Preparation(load_dataset(photos), tmp_path / "store", encoder)
    assert work.bytes_needed == needed


def test_a_store_that_has_its_space_goes_on_upon_a_full_disk(
    photos: Path, tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead(monkeypatch, first_pixels)
    Preparation(load_dataset(photos), tmp_path / "store", encoder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    assert prepared(photos, tmp_path / "store", encoder).missing() == []


# The commands


def sat(*words: object) -> Result:
    return CliRunner().invoke(cli.app, [str(word) for word in words], env={"COLUMNS": "300"})


def test_prepare_makes_a_store(photos: Path, tmp_path: Path, not_exported: None) -> None:
    result = sat("prepare", photos, tmp_path / "store", *SMALL)
    assert result.exit_code == 0, result.output
    assert "done: 12 pictures" in result.stderr
    assert result.stdout == ""
    assert FeatureStore.open(tmp_path / "store").missing() == []


def test_prepare_tells_disk_and_time_before_it_starts(
    photos: Path, tmp_path: Path, not_exported: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: object) -> None:
        raise RuntimeError("the work starts")

    monkeypatch.setattr(Preparation, "run", start)
    result = sat("prepare", photos, tmp_path / "store", *SMALL)
    assert str(result.exception) == "the work starts"
    assert "2 × 2 × 1280 numbers each, 12 pictures, 123 kB in" in result.stderr
    assert re.search(r"about \d+ (seconds|minutes) for 12 pictures", result.stderr)


def test_prepare_names_a_bad_picture_and_exits_1_with_the_rest_done(
    photos: Path, tmp_path: Path, not_exported: None
) -> None:
    (photos / "03.png").write_text("not a picture")
    result = sat("prepare", photos, tmp_path / "store", *SMALL)
    assert result.exit_code == 1
    assert f"skipped {photos / '03.png'}: not a picture" in result.stderr
    assert "1 of 12 pictures could not be read" in result.stderr
    assert FeatureStore.open(tmp_path / "store").missing() == [3]


def test_prepare_says_what_is_done_already(
    photos: Path, tmp_path: Path, not_exported: None
) -> None:
    (photos / "03.png").write_text("not a picture")
    sat("prepare", photos, tmp_path / "store", *SMALL)
    write_picture(photos / "03.png", 3)
    result = sat("prepare", photos, tmp_path / "store", *SMALL)
    assert result.exit_code == 0
    assert "11 pictures done already" in result.stderr
    assert "for 1 picture\n" in result.stderr


@pytest.mark.parametrize("name", ["[red].png", "[/].png", "[/bold]x.png", "\x1b[31m.png"])
def test_a_bad_picture_with_an_odd_name_is_printed_harmlessly(
    name: str, photos: Path, tmp_path: Path, not_exported: None
) -> None:
    (photos / name).parent.mkdir(exist_ok=True)
    (photos / name).write_text("not a picture")
    with (photos / "captions.csv").open("a") as out:
        out.write(f'"{name}",an odd name,train\n')
    result = sat("prepare", photos, tmp_path / "[/]store", *SMALL)
    assert result.exit_code == 1, result.exception
    assert f"{name}: not a picture".replace("\x1b", "\\x1b") in result.stderr
    assert "[/]store" in result.stderr


@pytest.mark.slow
def test_prepare_from_a_shell_exits_1_without_a_traceback(photos: Path, tmp_path: Path) -> None:
    (photos / "03.png").write_text("not a picture")
    main = "from show_attend_tell.cli import main; main()"
    words = [sys.executable, "-c", main, "prepare", str(photos), str(tmp_path / "store"), *SMALL]
    result = subprocess.run(
        words, cwd=ROOT, capture_output=True, check=False, env=os.environ | {"COLUMNS": "300"}
    )
    told = result.stderr.decode()
    assert result.returncode == 1, told
    assert "03.png: not a picture" in told
    assert "Traceback" not in told
    assert FeatureStore.open(tmp_path / "store").missing() == [3]


def test_show_tells_what_a_store_holds(photos: Path, tmp_path: Path, not_exported: None) -> None:
    sat("prepare", photos, tmp_path / "store", *SMALL)
    result = sat("show", tmp_path / "store")
    assert result.exit_code == 0, result.output
    for fact in (
        "efficientnet-lite0",
        "random-seed-0",
        "2 × 2 places of 1280 numbers",
        "the central 64 × 64 pixels",
        "train: 10 of 10",
        "dev: 2 of 2",
    ):
        assert fact in result.stdout


def test_show_tells_how_far_a_half_made_store_is_and_what_was_skipped(
    photos: Path, tmp_path: Path, not_exported: None
) -> None:
    (photos / "03.png").write_text("not a picture")
    sat("prepare", photos, tmp_path / "store", *SMALL)
    result = sat("show", tmp_path / "store")
    assert "train: 9 of 10" in result.stdout
    assert "03.png: not a picture" in result.stdout
