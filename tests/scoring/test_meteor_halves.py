"""METEOR in two processes: the same rows, whatever becomes of the second."""

import os
import re
import shutil
import subprocess
import sys
from json import dumps
from pathlib import Path

import pytest

from show_attend_tell.scoring.metrics import meteor_halves
from show_attend_tell.scoring.metrics.meteor import meteor_rows
from show_attend_tell.scoring.metrics.meteor_halves import meteor_rows_in_halves
from tests.scoring.cases import needs_meteor

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "show_attend_tell"

CAPTIONS = ["a dog runs", "two men ride horses", "a child in the snow", "\ud800 😀", ""]
REFERENCES = [
    ["a dog is running", "the hound ran"],
    ["men on horseback"],
    ["children play in snow", "a kid outside", "snow"],
    ["😀 smiles"],
    ["nothing at all"],
]


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meteor_halves, "WORTH_A_PROCESS", 2)


@needs_meteor
@pytest.mark.parametrize("program", [sys.executable, shutil.which("false"), shutil.which("true")])
def test_halves_give_the_rows_of_the_whole(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "executable", program)
    seen: list[int] = []
    rows = meteor_rows_in_halves(CAPTIONS, REFERENCES, seen.append)
    assert rows.tolist() == meteor_rows(CAPTIONS, REFERENCES).tolist()
    assert sum(seen) == len(CAPTIONS)


@needs_meteor
def test_the_second_process_does_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def count_here(captions: list[str], *others: object) -> object:
        counted.append(len(captions))
        return meteor_rows(captions, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(meteor_halves, "meteor_rows", count_here)
    meteor_rows_in_halves(CAPTIONS, REFERENCES)
    assert counted == [2]


HOSTILE = (
    *("numpy.py", "json.py", "os.py", "sitecustomize.py", "snowballstemmer.py"),
    *("show_attend_tell/__init__.py", "show_attend_tell/scoring/metrics/meteor_halves.py"),
)


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder whose files, if they are run, leave a file `ran` there."""
    for name in HOSTILE:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@needs_meteor
@pytest.mark.parametrize(
    "first",
    [
        pytest.param([], id="sat", marks=pytest.mark.slow),
        pytest.param([""], id="notebook", marks=pytest.mark.slow),
        pytest.param(["."], id="relative", marks=pytest.mark.slow),
        pytest.param(None, id="python -m"),
    ],
)
def test_nothing_in_the_working_folder_is_run(
    hostile: Path, monkeypatch: pytest.MonkeyPatch, first: list[str] | None
) -> None:
    """However Python was started here, the second process does its share, and no code of others."""
    meteor_rows(CAPTIONS, REFERENCES)  # imports here what is imported when it is first needed
    here = [str(hostile)] if first is None else first
    monkeypatch.setattr(sys, "path", [*here, *sys.path])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    counted: list[int] = []
    monkeypatch.setattr(
        meteor_halves,
        "meteor_rows",
        lambda captions, *others: counted.append(len(captions)) or meteor_rows(captions, *others),
    )
    meteor_rows_in_halves(CAPTIONS, REFERENCES)
    assert not (hostile / "ran").exists()
    assert counted == [2]


@needs_meteor
def test_what_the_user_put_on_the_path_stays_there(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{hostile}{os.pathsep}")
    monkeypatch.setattr(sys, "path", ["", str(hostile), *sys.path])
    found = meteor_halves._import_path().split(os.pathsep)
    assert found[0] == str(hostile)
    assert "" not in found


@needs_meteor
@pytest.mark.slow
def test_score_runs_nothing_in_the_working_folder(hostile: Path) -> None:
    rows = [{"id": str(n), "caption": "a dog runs"} for n in range(2000)]
    (hostile / "captions.jsonl").write_text("".join(f"{dumps(row)}\n" for row in rows))
    shutil.copy(hostile / "captions.jsonl", hostile / "references.jsonl")
    program = [sys.executable, "-P", "-c", "from show_attend_tell.cli import main; main()"]
    words = ["score", "captions.jsonl", "references.jsonl", "--metric", "METEOR"]
    done = subprocess.run(
        [*program, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not (hostile / "ran").exists()


def test_processes_are_started_in_two_places_alone() -> None:
    """Whoever starts another one says here that it runs nothing from the working folder."""
    starts = re.compile(
        r"\b(?:subprocess|multiprocessing|ProcessPool\w+|os\.(?:system|exec|spawn))"
    )
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if starts.search(path.read_text("utf-8"))
    }
    assert found == {"scoring/metrics/meteor_halves.py", "scoring/metrics/spice.py"}
