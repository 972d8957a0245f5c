"""The feature store: what is written comes back, what is damaged or of another kind does not."""

import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from show_attend_tell.data import features
from show_attend_tell.data.features import FeatureStore, StoreIndex, checksum, examples_hash
from show_attend_tell.data.layouts import Example
from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.errors import UserError
from show_attend_tell.files import write_json
from tests.faults import failing_call

PREPROCESSING = Preprocessing(mean=(0, 0, 0), std=(1, 1, 1))
EXAMPLES = [
    Example(Path(f"{name}.png"), (f"a {name}", f"the {name}"), split, f"{name}.png")
    for name, split in (
        ("dog", "train"),
        ("cat", "train"),
        ("cow", "train"),
        ("hen", "dev"),
        ("ass", "dev"),
    )
]
ROWS = range(len(EXAMPLES))
VALUES = np.random.default_rng(0).normal(size=(5, 4, 3)).astype(np.float16)


class PowerCut(BaseException):
    """Nothing catches this, as nothing catches the end of the power."""


def index_of(examples: list[Example], **changes: Any) -> StoreIndex:
    facts = {
        "encoder": "small",
        "weights_hash": "abc",
        "preprocessing": PREPROCESSING,
        "grid": (2, 2),
        "depth": 3,
        "layout": "folder",
        "examples_hash": examples_hash(examples),
    }
    return StoreIndex.model_validate(facts | changes)


@pytest.fixture
def empty(tmp_path: Path) -> FeatureStore:
    return FeatureStore.create(tmp_path / "store", index_of(EXAMPLES), EXAMPLES)


@pytest.fixture
def full(empty: FeatureStore) -> FeatureStore:
    empty.write(ROWS, VALUES)
    return empty


def fail_at(call: int, error: BaseException) -> Callable[[int], None]:
    """An `os.fsync` whose n-th call fails."""
    calls = 0

    def fsync(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise error

    return fsync


# There and back


def test_features_come_back_as_written(full: FeatureStore) -> None:
    again = FeatureStore.open(full.folder)
    found = again.read([3, 0, 3])
    assert found.dtype == np.float32
    assert np.array_equal(found, VALUES[[3, 0, 3]].astype(np.float32))


def test_examples_and_index_come_back_as_written(full: FeatureStore) -> None:
    again = FeatureStore.open(full.folder)
    assert (again.examples, again.index) == (tuple(EXAMPLES), full.index)


def test_rows_are_where_the_layout_says(full: FeatureStore) -> None:
    content = np.fromfile(full.folder / "features.f16", np.float16)
    assert np.array_equal(content.reshape(VALUES.shape), VALUES)


def test_a_new_store_has_no_rows(empty: FeatureStore) -> None:
    assert FeatureStore.open(empty.folder).missing() == list(ROWS)


def test_only_what_was_written_is_there(empty: FeatureStore) -> None:
    empty.write([4, 1], VALUES[[4, 1]])
    again = FeatureStore.open(empty.folder)
    assert again.missing() == [0, 2, 3]
    assert np.array_equal(again.read([1, 4]), VALUES[[1, 4]].astype(np.float32))


def test_a_row_written_after_a_first_read_can_be_read(empty: FeatureStore) -> None:
    empty.write([0], VALUES[:1])
    empty.read([0])
    empty.write([1], VALUES[1:2])
    assert np.array_equal(empty.read([1])[0], VALUES[1].astype(np.float32))


def test_a_row_that_is_not_there_cannot_be_read(empty: FeatureStore) -> None:
    with pytest.raises(UserError, match=r"dog\.png"):
        empty.read([0])


def test_no_row_has_the_checksum_that_means_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features.zlib, "crc32", lambda _: 0)
    assert checksum(VALUES[0]) != 0


ODD = {
    "emoji": "🐕‍🦺 größer",
    "a lone surrogate": "broken \ud83d emoji",
    "bytes that are not UTF-8": "caf\udce9.png",
    "line ends of many kinds": "a\nb\r\nc\u2028d\x85e",
    "quotes": 'she said "a\\b"',
    "nothing": "",
}


@pytest.mark.parametrize("what", ODD)
def test_odd_names_and_captions_survive(what: str, tmp_path: Path) -> None:
    text = ODD[what]
    examples = [Example(Path("pictures") / text, (text, "a dog"), "train", text)]
    FeatureStore.create(tmp_path / "store", index_of(examples), examples)
    assert FeatureStore.open(tmp_path / "store").examples == tuple(examples)


# Views


def test_further_views_are_of_training_pictures_only(tmp_path: Path) -> None:
    store = FeatureStore.create(tmp_path / "store", index_of(EXAMPLES, augmentations=3), EXAMPLES)
    assert store.sources[5:] == [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2)]
    assert [store.row_of(2, number) for number in range(3)] == [2, 7, 10]
    assert all(
        store.sources[store.row_of(row, number)] == (row, number) for row, number in store.sources
    )
    assert store.example(10) == EXAMPLES[2]
    assert store.missing() == list(range(11))


def test_a_view_comes_back_as_written(tmp_path: Path) -> None:
    store = FeatureStore.create(tmp_path / "store", index_of(EXAMPLES, augmentations=2), EXAMPLES)
    store.write(ROWS, VALUES)
    with pytest.raises(UserError, match=r"3 of 8 pictures have no features"):
        store.check_complete()
    store.write([5, 6, 7], VALUES[[2, 1, 0]])
    again = FeatureStore.open(store.folder)
    again.check_complete()
    assert np.array_equal(again.read([again.row_of(0, 1)])[0], VALUES[2].astype(np.float32))
    assert again.rows("train") == [0, 1, 2]


def test_a_store_from_before_there_were_views_opens(full: FeatureStore) -> None:
    path = full.folder / "index.json"
    facts = json.loads(path.read_text())
    del facts["augmentations"]
    path.write_text(json.dumps(facts))
    assert FeatureStore.open(full.folder).index == full.index


# Splits


def test_a_split_has_its_rows(full: FeatureStore) -> None:
    assert (full.rows("train"), full.rows("dev")) == ([0, 1, 2], [3, 4])


def test_rows_without_features_are_left_out_of_a_split(empty: FeatureStore) -> None:
    empty.write([0, 2], VALUES[[0, 2]])
    assert empty.rows("train") == [0, 2]


def test_an_empty_split_is_told(full: FeatureStore) -> None:
    with pytest.raises(UserError, match="no pictures in split 'test'") as caught:
        full.rows("test")
    assert caught.value.code == "data.empty_split"


def test_a_split_without_any_features_is_told(empty: FeatureStore) -> None:
    empty.write([0], VALUES[:1])
    with pytest.raises(UserError, match=r"split 'dev' has features yet.*sat prepare") as caught:
        empty.rows("dev")
    assert caught.value.code == "data.store"


# Half made


def test_a_finished_store_is_not_refused(full: FeatureStore) -> None:
    full.check_complete()


def test_a_half_made_store_is_refused_with_counts(empty: FeatureStore) -> None:
    empty.write([0, 3], VALUES[[0, 3]])
    with pytest.raises(UserError, match=r"store: 3 of 5 pictures.*sat prepare") as caught:
        empty.check_complete()
    assert caught.value.code == "data.store"


def test_skipped_pictures_do_not_make_a_store_half_made(empty: FeatureStore) -> None:
    empty.write([0, 1, 2, 3], VALUES[:4])
    write_json(empty.folder / "skipped.json", {"ass.png": "ass.png: the file is empty"})
    empty.check_complete()


def test_a_skipped_picture_does_not_excuse_another(empty: FeatureStore) -> None:
    empty.write([0, 1, 2], VALUES[:3])
    write_json(empty.folder / "skipped.json", {"ass.png": "ass.png: the file is empty"})
    with pytest.raises(UserError, match=r"1 of 5 pictures"):
        empty.check_complete()


# Damage


@pytest.mark.parametrize("name", ["features.f16", "checksums.u32"])
@pytest.mark.parametrize("row", [0, 2, 4])
def test_a_flipped_bit_is_noticed_and_its_picture_named(
    name: str, row: int, full: FeatureStore
) -> None:
    path = full.folder / name
    content = bytearray(path.read_bytes())
    content[row * len(content) // 5 + 1] ^= 0x10
    path.write_bytes(content)
    store = FeatureStore.open(full.folder)
    with pytest.raises(UserError, match=EXAMPLES[row].id) as caught:
        store.read(list(ROWS))
    assert caught.value.code == "data.store"


def test_rows_beside_a_damaged_one_can_be_read(full: FeatureStore) -> None:
    path = full.folder / "features.f16"
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    others = FeatureStore.open(full.folder).read([1, 2, 3, 4])
    assert np.array_equal(others, VALUES[1:].astype(np.float32))


def edited_index(**changes: Any) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps(json.loads(content) | changes).encode()


DAMAGE: dict[str, tuple[str, Callable[[bytes], bytes | None]]] = {
    "features cut": ("features.f16", lambda content: content[:-1]),
    "features too long": ("features.f16", lambda content: content + b"\0"),
    "no features": ("features.f16", lambda _: None),
    "checksums cut": ("checksums.u32", lambda content: content[:-4]),
    "no checksums": ("checksums.u32", lambda _: None),
    "a caption changed": ("examples.jsonl", lambda content: content.replace(b"a dog", b"a god")),
    "a line gone": ("examples.jsonl", lambda content: content.split(b"\n", 1)[1]),
    "a line cut": ("examples.jsonl", lambda content: content[:-9]),
    "a line that is not JSON": ("examples.jsonl", lambda content: b"dog\n" + content),
    "a line nested too deep": ("examples.jsonl", lambda content: b"[" * 100_000 + b"\n" + content),
    "a line of another kind": ("examples.jsonl", lambda content: b"[1, 2]\n" + content),
    "a line without captions": ("examples.jsonl", lambda _: b'{"picture": "a", "id": "a"}\n'),
    "no examples": ("examples.jsonl", lambda _: None),
    "an empty index": ("index.json", lambda _: b""),
    "an index cut": ("index.json", lambda content: content[:40]),
    "an index that is not UTF-8": ("index.json", lambda _: b"\xff\xfe\0"),
    "an index of another kind": ("index.json", lambda _: b"[]"),
    "an index with a wrong value": ("index.json", edited_index(depth="deep")),
    "an index with an unknown key": ("index.json", edited_index(colour="red")),
    "an index of a newer format": ("index.json", edited_index(format=2)),
    "a newer format with more in it": ("index.json", edited_index(format=2, colour="red")),
    "a grid of nothing": ("index.json", edited_index(grid=[0, 2])),
    "a depth below zero": ("index.json", edited_index(depth=-3)),
    "no augmentation at all": ("index.json", edited_index(augmentations=0)),
    "a line nested too deeply": ("examples.jsonl", lambda _: b"[" * 100_000 + b"\n"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_store_is_refused_in_a_sentence(what: str, full: FeatureStore) -> None:
    name, damage = DAMAGE[what]
    path = full.folder / name
    content = damage(path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        FeatureStore.open(full.folder)
    assert caught.value.code == "data.store"
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert "newer" in message if "newer" in what else "sat prepare" in message


@pytest.mark.parametrize("percent", range(0, 100, 7))
def test_examples_cut_anywhere_are_refused(percent: int, full: FeatureStore) -> None:
    path = full.folder / "examples.jsonl"
    path.write_bytes(path.read_bytes()[: path.stat().st_size * percent // 100])
    with pytest.raises(UserError, match=r"examples\.jsonl: .*sat prepare"):
        FeatureStore.open(full.folder)


def become_folder(path: Path) -> None:
    path.mkdir()


def become_pipe(path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes here")
    os.mkfifo(path)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("become", [become_folder, become_pipe])
@pytest.mark.parametrize("name", ["index.json", "examples.jsonl", "features.f16", "checksums.u32"])
def test_what_is_no_file_is_refused_and_not_waited_for(
    name: str, become: Callable[[Path], None], full: FeatureStore
) -> None:
    (full.folder / name).unlink()
    become(full.folder / name)
    with pytest.raises(UserError) as caught:
        FeatureStore.open(full.folder)
    assert caught.value.code == "data.store"
    assert str(caught.value).startswith(f"{full.folder / name}: ")


SKIPPED = ["", "{", "[]", '"a"', '{"a": 1}', "\xff", "[" * 100_000]


@pytest.mark.parametrize("content", SKIPPED, ids=range(len(SKIPPED)))
def test_a_damaged_list_of_skipped_pictures_is_told(content: str, empty: FeatureStore) -> None:
    (empty.folder / "skipped.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError, match=r"skipped\.json: .*sat prepare") as caught:
        empty.check_complete()
    assert caught.value.code == "data.unreadable"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("become", [become_folder, become_pipe])
def test_a_list_of_skipped_pictures_that_is_no_file_is_told(
    become: Callable[[Path], None], empty: FeatureStore
) -> None:
    become(empty.folder / "skipped.json")
    with pytest.raises(UserError, match=r"skipped\.json: "):
        empty.skipped()


@pytest.mark.parametrize("augmentations", [10**12, 0, -3])
def test_an_index_that_names_other_rows_than_there_are_is_refused_at_once(
    augmentations: int, full: FeatureStore
) -> None:
    path = full.folder / "index.json"
    path.write_bytes(edited_index(augmentations=augmentations)(path.read_bytes()))
    begin = time.process_time()
    with pytest.raises(
        UserError, match=r"features\.f16: expected [\d,]+ bytes|index\.json: .*augmentations"
    ) as caught:
        FeatureStore.open(full.folder)
    assert time.process_time() - begin < 1
    assert caught.value.code == "data.store"


def test_a_folder_without_an_index_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a feature store; `sat prepare") as caught:
        FeatureStore.open(tmp_path)
    assert caught.value.code == "data.store"


@pytest.mark.parametrize(("former", "key"), [("views", "augmentations"), ("tuned", "fine_tuned")])
def test_a_store_of_an_earlier_version_must_be_prepared_again(
    former: str, key: str, full: FeatureStore
) -> None:
    path = full.folder / "index.json"
    facts = json.loads(path.read_text())
    facts[former] = facts.pop(key)
    path.write_text(json.dumps(facts))
    with pytest.raises(
        UserError, match=f"earlier version .* names '{former}'.*run `sat prepare` again"
    ) as caught:
        FeatureStore.open(full.folder)
    assert caught.value.code == "data.store"


# Another kind


def test_a_store_with_the_same_index_is_continued(full: FeatureStore) -> None:
    again = FeatureStore.create(full.folder, index_of(EXAMPLES), EXAMPLES)
    assert again.missing() == []


@pytest.mark.parametrize(
    "change",
    [
        {"encoder": "large"},
        {"weights_hash": "abd"},
        {"preprocessing": PREPROCESSING.model_copy(update={"fit": "squeeze"})},
        {"preprocessing": PREPROCESSING.model_copy(update={"mean": (1.0, 0.0, 0.0)})},
        {"grid": (1, 4)},
        {"depth": 4},
        {"layout": "coco"},
        {"examples_hash": "other"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_store_of_another_kind_is_refused_and_left_alone(
    change: dict[str, Any], full: FeatureStore
) -> None:
    (name,) = change
    with pytest.raises(UserError, match=rf"expected {name} .*, found .*another folder") as caught:
        FeatureStore.create(full.folder, index_of(EXAMPLES, **change), EXAMPLES)
    assert caught.value.code == "data.store"
    assert np.array_equal(full.read(list(ROWS)), VALUES.astype(np.float32))


# Crashes and full disks


def test_features_are_flushed_before_the_checksums_are_written(
    empty: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, list[int]]] = []
    names = {path.stat().st_ino: path.name for path in empty.folder.iterdir()}

    def fsync(handle: int) -> None:
        seen.append((names[os.fstat(handle).st_ino], empty.missing()))

    monkeypatch.setattr(os, "fsync", fsync)
    empty.write([1, 2], VALUES[[1, 2]])
    assert seen == [("features.f16", [0, 1, 2, 3, 4]), ("checksums.u32", [0, 3, 4])]


def test_a_crash_before_the_features_are_flushed_leaves_the_rows_missing(
    empty: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", fail_at(1, PowerCut()))
    with pytest.raises(PowerCut):
        empty.write(ROWS, VALUES)
    assert FeatureStore.open(empty.folder).missing() == list(ROWS)


@pytest.mark.parametrize("call", [1, 2])
def test_after_a_crash_what_is_vouched_for_is_right_and_a_second_run_completes(
    call: int, empty: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(PowerCut):
        patch.setattr(os, "fsync", fail_at(call, PowerCut()))
        empty.write(ROWS, VALUES)
    again = FeatureStore.create(empty.folder, index_of(EXAMPLES), EXAMPLES)
    there = sorted(set(ROWS) - set(again.missing()))
    assert np.array_equal(again.read(np.array(there, int)), VALUES[there].astype(np.float32))
    missing = again.missing()
    again.write(missing, VALUES[missing])
    assert again.missing() == []
    assert np.array_equal(again.read(list(ROWS)), VALUES.astype(np.float32))


@pytest.mark.parametrize("call", range(1, 5))
def test_a_crash_while_a_store_is_laid_out_is_no_hindrance(
    call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "store"
    with monkeypatch.context() as patch, pytest.raises(PowerCut):
        patch.setattr(os, "fsync", fail_at(call, PowerCut()))
        FeatureStore.create(folder, index_of(EXAMPLES), EXAMPLES)
    store = FeatureStore.create(folder, index_of(EXAMPLES), EXAMPLES)
    assert FeatureStore.open(folder).missing() == store.missing() == list(ROWS)


@pytest.mark.parametrize("call", [1, 2])
def test_a_disk_that_fills_while_rows_are_written_is_told(
    call: int, empty: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", fail_at(call, OSError(errno.ENOSPC, "No space left")))
    with pytest.raises(UserError, match="free some space") as caught:
        empty.write(ROWS, VALUES)
    assert caught.value.code == "disk.full"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
def test_each_failing_system_call_of_a_preparation_loses_nothing(
    number: int, tmp_path: Path
) -> None:
    """Laid out, filled in two batches, what was skipped noted: the n-th call fails, for every n."""

    def prepare(folder: Path) -> FeatureStore:
        store = FeatureStore.create(folder, index_of(EXAMPLES), EXAMPLES)
        for rows in (store.missing()[:3], store.missing()[3:]):
            if rows:
                store.write(rows, VALUES[rows])
        write_json(folder / "skipped.json", {})
        return store

    for allowed in range(200):
        folder = tmp_path / str(allowed)
        raised = None
        with failing_call(allowed, OSError(number, os.strerror(number))) as faults:
            try:
                prepare(folder)
            except UserError as error:
                raised = error
        if not faults.happened:
            assert allowed > 20, "the shim does not see the system calls"
            return
        assert raised is not None, f"call {allowed} failed and nobody noticed"
        assert raised.code == ("disk.full" if number == errno.ENOSPC else "disk.unwritable")
        assert not list(folder.glob("*.part"))
        if (folder / "index.json").exists():  # what it vouches for is right
            store = FeatureStore.open(folder)
            there = sorted(set(ROWS) - set(store.missing()))
            assert np.array_equal(
                store.read(np.array(there, int)), VALUES[there].astype(np.float32)
            )
        assert np.array_equal(prepare(folder).read(list(ROWS)), VALUES.astype(np.float32))
    raise AssertionError("the preparation never ends")


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="no space can be reserved here")
def test_a_disk_too_full_for_the_store_is_told_and_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "store"

    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(UserError, match="store") as caught:
        patch.setattr(os, "posix_fallocate", refuse)
        FeatureStore.create(folder, index_of(EXAMPLES), EXAMPLES)
    assert caught.value.code == "disk.full"
    assert list(folder.iterdir()) == []


def test_the_disk_space_is_reserved_at_once(empty: FeatureStore) -> None:
    assert (empty.folder / "features.f16").stat().st_size == VALUES.nbytes
    assert (empty.folder / "checksums.u32").stat().st_size == 4 * len(EXAMPLES)


def test_a_store_where_a_file_lies_is_told(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    with pytest.raises(UserError, match="cannot be written") as caught:
        FeatureStore.create(tmp_path / "store", index_of(EXAMPLES), EXAMPLES)
    assert caught.value.code == "disk.unwritable"
