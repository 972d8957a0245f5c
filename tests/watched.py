"""A process watched from outside: which addresses it asks for, and which files it leaves where.

strace sees every call of every thread, whatever language made it; a test that blocks Python's own
sockets does not. The home folder and the folder for temporary files are empty when it begins, and
`CI` is not set, since some programs are silent where it is.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

STRACE = shutil.which("strace")
needs_strace = pytest.mark.skipif(
    not STRACE and not os.environ.get("CI"), reason="no strace here: apt-get install strace"
)
_CALLS = "trace=socket,connect,sendto,sendmsg,sendmmsg,open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat"  # noqa: E501
_NETWORK = re.compile(r"\b(?:AF_INET6?|AF_PACKET|sin6?_addr)\b")
_MAKES = re.compile(r"^(?:creat|mkdir|mkdirat|rename\w*|link\w*|symlink\w*)\(|O_CREAT")
_PATHS = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Memory that several processes share is a file to the kernel alone.
_NO_PLACE = ("/dev/", "/proc/", "/sys/", "/memfd:")


@dataclass(frozen=True)
class Watched:
    """What a process did."""

    code: int
    out: str
    err: str
    network: list[str]  # calls that ask for an address on a network
    left: list[str]  # files at the end, below its working, home and temporary folders
    elsewhere: list[str]  # what it made in any other place, even if it is gone by now


def watch(folder: Path, *command: str | Path, **variables: str) -> Watched:
    """Run a command in `folder/work` with an empty home beside it.

    Parameters
    ----------
    folder
        An empty folder; what the command needs may lie in `folder/work`.
    variables
        Of its environment, beside those that finding programs takes.
    """
    assert STRACE, "strace is not installed; .ci/run installs it"
    places = {name: folder / name for name in ("work", "home", "tmp")}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    before = _files(folder)
    log = folder / "calls"
    done = subprocess.run(
        [STRACE, "-f", "-qq", "-s", "4096", "-e", _CALLS, "-e", "signal=none", "-o", log, *command],
        cwd=places["work"],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(places["home"]),
            "TMPDIR": str(places["tmp"]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            **variables,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    calls = [line.partition(" ")[2].strip() for line in log.read_text("utf-8").splitlines()]
    log.unlink()
    return Watched(
        done.returncode,
        done.stdout,
        done.stderr,
        [call for call in calls if _NETWORK.search(call)],
        sorted(_files(folder) - before),
        sorted({path for call in calls for path in _made_by(call, places["work"], folder)}),
    )


def python(*words: str) -> list[str | Path]:
    """A Python of this environment."""
    return [sys.executable, *words]


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def _made_by(call: str, work: Path, folder: Path) -> list[str]:
    """Paths outside `folder` that a call made; none if it failed, as in `= -1 ENOENT`."""
    if not _MAKES.search(call) or re.search(r"= -1 E\w+", call):
        return []
    paths = [os.path.normpath(work / path) for path in _PATHS.findall(call)]
    inside = (f"{folder}/", *_NO_PLACE)
    return [path for path in paths if not path.startswith(inside)]
