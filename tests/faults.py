"""A shim around the system calls that write files: it counts them, and fails the n-th."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest


class Faults:
    """Lets the first `allowed` system calls pass and fails the next one."""

    def __init__(self, allowed: int, failure: BaseException, *, reads: bool) -> None:
        self.left = allowed
        self.failure = failure
        self.reads = reads
        self.happened = False

    def count(self) -> None:
        if self.left == 0 and not self.happened:
            self.happened = True
            raise self.failure
        self.left -= 1

    def before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.count()
            return call(*arguments, **options)

        return counted

    def opening(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(file: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            writes = mode in ("wb", "xb", "ab", "r+b")
            if writes or self.reads:
                self.count()
            stream = call(file, mode, *arguments, **options)
            return FaultyStream(stream, self) if writes else stream

        return counted


class FaultyStream:
    """A file whose writes and flushes count as system calls."""

    def __init__(self, stream: BinaryIO, faults: Faults) -> None:
        self.stream = stream
        self.write = faults.before(stream.write)
        self.flush = faults.before(stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def __enter__(self) -> "FaultyStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()


@contextmanager
def failing_call(allowed: int, failure: BaseException, *, reads: bool = False) -> Iterator[Faults]:
    """Fail the system call after the first `allowed` of open, write, flush, fsync, rename.

    Parameters
    ----------
    reads
        Whether opening a file to read it counts too.
    """
    faults = Faults(allowed, failure, reads=reads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", faults.opening(Path.open))
        for owner, name in ((Path, "replace"), (os, "fsync"), (os, "open"), (os, "truncate")):
            patch.setattr(owner, name, faults.before(getattr(owner, name)))
        if hasattr(os, "posix_fallocate"):
            patch.setattr(os, "posix_fallocate", faults.before(os.posix_fallocate))
        yield faults
