"""Files that are either whole or absent: write beside, flush, rename; and files held alone."""

import contextlib
import errno
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

from show_attend_tell.errors import UserError


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Give `path` the content that `write` puts into the stream, or leave it as it was.

    A crash at any moment leaves the old file or the new one, and at worst a `.part` file beside it.
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):  # it may never have come to be
            part.unlink()
        raise cannot_write(path, error) from error


def make_room(path: Path) -> None:
    """Say now, before long work, if the file that it ends in cannot be written; make its folder."""
    part = path.with_name(path.name + ".part")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
        part.unlink()
    except OSError as error:
        raise cannot_write(path, error) from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes atomically."""
    write_atomically(path, lambda stream: stream.write(content))


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically.

    Lone surrogates, which stand for what is not UTF-8 in a file's name, are escaped.
    """
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, readable by a person."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def write_json_lines(path: Path, values: Iterable[Any]) -> None:
    """Write a line of JSON for each value, atomically."""
    write_text(path, "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values))


def cannot_write(path: Path, error: OSError) -> UserError:
    """Turn a failed write into a sentence with a remedy."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError("disk.full", f"{path}: the disk is full; free some space and try again")
    return UserError("disk.unwritable", f"{path}: cannot be written ({error.strerror or error})")


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def try_lock(handle: int) -> bool:
        """Hold an open file alone until it is closed; False if somebody else does."""
        # Windows locks bytes and keeps others from reading them: take one far beyond the text.
        os.lseek(handle, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        finally:
            os.lseek(handle, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(handle: int) -> bool:
        """Hold an open file alone until it is closed; False if somebody else does."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
