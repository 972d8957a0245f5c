"""Files are whole or absent: whatever fails while one is written, the old one stays."""

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from show_attend_tell import files
from show_attend_tell.errors import UserError
from show_attend_tell.files import sha256_of, write_atomically, write_json, write_text


class PowerCut(BaseException):
    """Nothing catches this, as nothing catches the end of the power."""


def failing(error: BaseException) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_written_file_holds_its_content_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "naïve 🐕\n")
    assert (tmp_path / "a.txt").read_bytes() == "naïve 🐕\n".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_file_is_replaced(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "old and long")
    write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "new"


@pytest.mark.parametrize(
    ("call", "number", "code"),
    [
        ("fsync", errno.ENOSPC, "disk.full"),
        ("fsync", errno.EDQUOT, "disk.full"),
        ("fsync", errno.EIO, "disk.unwritable"),
        ("replace", errno.EACCES, "disk.unwritable"),
        ("open", errno.EROFS, "disk.unwritable"),
    ],
)
def test_a_failing_call_leaves_the_old_file_and_says_which(
    call: str, number: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    owner: Any = os if call == "fsync" else Path
    with monkeypatch.context() as patch:
        patch.setattr(owner, call, failing(OSError(number, os.strerror(number))))
        with pytest.raises(UserError, match=r"a\.txt") as caught:
            write_text(path, "new")
    assert caught.value.code == code
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def half(stream: BinaryIO) -> None:
        stream.write(b"ne")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(UserError, match="free some space") as caught:
        write_atomically(path, half)
    assert caught.value.code == "disk.full"
    assert path.read_text() == "old"


def test_the_content_is_on_disk_before_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    monkeypatch.setattr(os, "fsync", failing(PowerCut()))
    with pytest.raises(PowerCut):
        write_text(path, "new")
    assert path.read_text() == "old"


def test_a_part_left_by_a_crash_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "a.txt.part").write_text("what a crash left, longer than the new content")
    write_text(tmp_path / "a.txt", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "new"


@pytest.mark.parametrize("place", ["file/a.txt", "none/a.txt", "x" * 300])
def test_a_place_where_no_file_can_be_is_told(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match="cannot be written") as caught:
        write_text(tmp_path / place, "new")
    assert caught.value.code == "disk.unwritable"


@pytest.mark.parametrize("text", ["plain", "naïve 🐕", 'quote " and \\ and \n', "caf\udce9.png"])
def test_json_keeps_every_text_and_is_utf_8(text: str, tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {text: [text]})
    assert json.loads((tmp_path / "a.json").read_text("utf-8")) == {text: [text]}


def test_json_is_readable_by_a_person(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"name": "naïve"})
    assert (tmp_path / "a.json").read_text("utf-8") == '{\n "name": "naïve"\n}\n'


@pytest.mark.parametrize("size", [0, 3, (1 << 20) + 5])
def test_the_hash_is_that_of_the_whole_content(size: int, tmp_path: Path) -> None:
    content = os.urandom(size)
    (tmp_path / "a").write_bytes(content)
    assert sha256_of(tmp_path / "a") == hashlib.sha256(content).hexdigest()


def test_the_folder_is_flushed_after_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Path, bool]] = []
    monkeypatch.setattr(
        files, "_flush_folder", lambda folder: seen.append((folder, (folder / "a").exists()))
    )
    write_text(tmp_path / "a", "new")
    assert seen == [(tmp_path, True)]
