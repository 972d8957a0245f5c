"""Files are whole or absent: whatever fails while one is written, the old one stays."""

import errno
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from show_attend_tell import files
from show_attend_tell.errors import UserError
from show_attend_tell.files import (
    make_room,
    read_object,
    sha256_of,
    write_atomically,
    write_json,
    write_text,
)


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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", failing(PowerCut()))
        with pytest.raises(PowerCut):
            write_text(tmp_path / "a.txt", "what a crash left, longer than the new content")
    assert len(list(tmp_path.glob("a.txt.*.part"))) == 1
    (tmp_path / "a.txt.mine.part").touch()
    (tmp_path / "b.txt.01234567.part").touch()
    write_text(tmp_path / "a.txt", "new")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"a.txt", "a.txt.mine.part", "b.txt.01234567.part"}
    assert (tmp_path / "a.txt").read_text() == "new"


def test_make_room_takes_nothing_from_a_writer_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.txt"
    make_room(path)
    assert list(path.parent.iterdir()) == []

    def write(stream: BinaryIO) -> None:
        stream.write(b"a")
        make_room(path)
        write_text(path, "of another")
        stream.write(b"b")

    write_atomically(path, write)
    assert path.read_text() == "ab"
    assert list(path.parent.iterdir()) == [path]
    for bad in (path.parent, path / "b", tmp_path / ("x" * 300)):
        with pytest.raises(UserError, match="cannot be written"):
            make_room(bad)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions")
def test_permissions_are_those_of_the_file_before_or_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a", "1")
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
        (tmp_path / "a").chmod(0o604)
        write_text(tmp_path / "a", "2")
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o604
    finally:
        os.umask(before)


WRITE = """
import sys
from pathlib import Path
from show_attend_tell.files import write_bytes
for _ in range(int(sys.argv[3])):
    write_bytes(Path(sys.argv[1]), sys.argv[2].encode() * 2_000_000)
"""


def writer(path: Path, letter: str, times: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITE, str(path), letter, str(times)])


def test_several_writers_of_one_file_leave_the_content_of_one_of_them(tmp_path: Path) -> None:
    path = tmp_path / "a"
    writers = [writer(path, letter, 20) for letter in "ab"]
    seen = set()
    while any(one.poll() is None for one in writers):
        content = path.read_bytes() if path.exists() else b""
        seen.add((len(content), *sorted(set(content))))
    assert [one.returncode for one in writers] == [0, 0]
    assert seen <= {(0,), (2_000_000, ord("a")), (2_000_000, ord("b"))}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="nobody is killed there")
def test_what_killed_writers_leave_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for _ in range(3):
        with writer(path, "a", 1_000_000) as one:
            while not list(tmp_path.glob("a.*.part")):
                assert one.poll() is None
            one.kill()
    write_text(path, "whole")
    assert list(tmp_path.iterdir()) == [path]


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


def test_where_folders_cannot_be_opened_files_are_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, flags: int) -> int:  # what Windows says to a folder
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "win32")
        patch.setattr(os, "open", refuse)
        write_text(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "new"


OBJECTS = {"": "cannot be read", "[]": "not a JSON object", "[" * 100_000: "cannot be read"}


@pytest.mark.parametrize("content", OBJECTS, ids=range(len(OBJECTS)))
def test_a_damaged_object_is_told_with_its_remedy(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UserError, match=f"{OBJECTS[content]}.*; do this") as caught:
        read_object(tmp_path / "a.json", "do this")
    assert caught.value.code == "data.unreadable"
