"""Files that are whole or absent: write beside, flush, rename; reading; and the lock of a run."""

import contextlib
import errno
import hashlib
import json
import os
import re
import socket
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from stat import S_IMODE, S_ISDIR
from types import TracebackType
from typing import Any, BinaryIO

from show_attend_tell.errors import UserError

_RENAMES_OPEN_FILES = sys.platform != "win32"
_SHORT = 50  # characters of a file's name that its parts begin with: names may have 255 bytes


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Give `path` the content that `write` puts into the stream, or leave it as it was.

    A crash at any moment leaves the old file or the new one, and at worst a `.part` file beside it,
    which the next write of `path` removes. Of several writers at once the last one wins.
    """
    _remove_leftovers(path)
    part = None
    try:
        with _new_part(path) as stream:
            part = Path(stream.name)
            with contextlib.suppress(FileNotFoundError):
                part.chmod(S_IMODE(path.stat().st_mode))
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
            # While it is locked, so that no other writer removes it as a leftover.
            if _RENAMES_OPEN_FILES:
                part.replace(path)
        if not _RENAMES_OPEN_FILES:
            part.replace(path)
        _flush_folder(path.parent)
    except (Exception, KeyboardInterrupt) as error:
        if part:
            with contextlib.suppress(OSError):  # it may have its name already
                part.unlink()
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise


def make_room(path: Path) -> None:
    """Make the folder of a file, and raise now, before long work, if it cannot be written."""
    try:
        with contextlib.suppress(FileNotFoundError):
            if S_ISDIR(path.stat().st_mode):
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        with _new_part(path) as stream:
            part = Path(stream.name)
        part.unlink()
    except OSError as error:
        raise cannot_write(path, error) from error


def _new_part(path: Path) -> BinaryIO:
    """A new file beside `path` with a unique name, locked while it is open."""
    while True:
        stream = path.with_name(f"{path.name[:_SHORT]}.{token_hex(4)}.part").open("xb")
        try:
            is_ours = try_lock(stream.fileno())
        except OSError:  # without locks nobody removes it either
            return stream
        # Another writer may have removed it in between, as a leftover.
        if is_ours and Path(stream.name).exists():
            return stream
        stream.close()


def _remove_leftovers(path: Path) -> None:
    """Remove the parts of a file that killed processes left: those without a lock."""
    if not _RENAMES_OPEN_FILES:  # a finished part is unlocked for a moment, and would be lost
        return
    name = re.compile(re.escape(path.name[:_SHORT]) + r"\.[0-9a-f]{8}\.part")
    with contextlib.suppress(OSError):  # without the right to remove them one may still write
        for found in [one.name for one in os.scandir(path.parent) if name.fullmatch(one.name)]:
            with (path.parent / found).open("rb") as stream:
                if try_lock(stream.fileno()):
                    (path.parent / found).unlink()


def regular_file(path: Path) -> Path:
    """The path itself, unless it is a folder, pipe or device: reading a pipe could wait forever.

    Raises
    ------
    OSError
        As opening a file does; the caller says what to do.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "a folder, pipe or device is where a file should be")
    return path


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """Read a JSON object that `write_json` wrote.

    Parameters
    ----------
    remedy
        What the user should do about a damaged file.
    """
    try:
        value = json.loads(regular_file(path).read_bytes())
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError("data.unreadable", f"{path}: cannot be read ({why}); {remedy}") from error
    return value


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
    """The error of a failed write, with its remedy."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError("disk.full", f"{path}: the disk is full; free some space and try again")
    return UserError("disk.unwritable", f"{path}: cannot be written ({error.strerror or error})")


def same_file(one: Path, other: Path) -> bool:
    """Whether both names are of one existing file."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # not there, or a name that no disk can hold
        return False


def readable_size(size_bytes: float) -> str:
    """A size in kB, MB or GB.

    >>> readable_size(1000), readable_size(31_457_280), readable_size(7.5e9)
    ('1 kB', '31 MB', '7.5 GB')
    """
    if size_bytes < 1e6:
        return f"{size_bytes / 1e3:.0f} kB"
    return f"{size_bytes / 1e6:.0f} MB" if size_bytes < 1e9 else f"{size_bytes / 1e9:.1f} GB"


def read_limited(path: Path, most: int, code: str) -> bytes:
    """The content of a file from elsewhere, which may be of any size: at most so many bytes.

    Parameters
    ----------
    code
        The first part of error codes: `model` in `model.damaged`.

    Raises
    ------
    UserError
        `.missing`, `.unreadable` or `.damaged` (larger than it can be).
    """
    try:
        if regular_file(path).stat().st_size <= most:
            with path.open("rb") as stream:
                content = stream.read(most + 1)
            if len(content) <= most:
                return content
    except FileNotFoundError as error:
        raise UserError(f"{code}.missing", f"{path}: there is no such file") from error
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error}); copy it again"
        raise UserError(f"{code}.unreadable", f"{path}: {problem}") from error
    raise UserError(
        f"{code}.damaged",
        f"{path}: expected at most {most:,} bytes, found more; copy it again",
    )


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _flush_folder(folder: Path) -> None:
    if sys.platform == "win32":  # folders cannot be opened there; renames are kept anyway
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def try_lock(handle: int) -> bool:
        """Lock an open file until it is closed; False if another process holds the lock."""
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
        """Lock an open file until it is closed; False if another process holds the lock."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class RunLock:
    """Keeps a second trainer out of a run folder, until the process ends in whatever way.

    The text of the file `lock` names the holder, for people. The lock itself is the operating
    system's, so a file left by a killed trainer does not block.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, RunLock(Path(folder)):
    ...     pass  # train
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lock"

    def __enter__(self) -> "RunLock":
        """Take the lock, or raise `run.locked` with the holder's name."""
        now = datetime.now().astimezone().isoformat(" ", "seconds")
        try:
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        try:
            if not try_lock(self._handle):
                holder = os.read(self._handle, 1000).decode(errors="replace").strip()
                raise UserError(
                    "run.locked",
                    f"{self.path.parent}: another trainer is running here ({holder}); "
                    "wait for it, stop it, or train into another folder",
                )
            os.ftruncate(self._handle, 0)
            text = f"host {socket.gethostname()}, process {os.getpid()}, since {now}\n"
            os.write(self._handle, text.encode())
        except OSError as error:
            os.close(self._handle)
            raise cannot_write(self.path, error) from error
        except UserError:
            os.close(self._handle)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the lock; the file stays: removing it would race with the next trainer."""
        os.close(self._handle)
