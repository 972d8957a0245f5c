"""Bad pictures and bad names, as the project's list numbers them: the expected answer, no other."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import pytest

import show_attend_tell
from show_attend_tell.captioning.caption import Caption
from show_attend_tell.captioning.captioner import Captioner
from show_attend_tell.errors import UserError, printable
from tests.bad_pictures import PICTURES, Row, photo, saved

pytestmark = pytest.mark.slow

PNG = saved(photo())

# `sat`, which prints at the end how much memory it took; what the system says of a child from
# outside begins with its parent's.
PROGRAM = """
import atexit
from pathlib import Path
from show_attend_tell.cli import main
status = Path("/proc/self/status")
atexit.register(lambda: print(status.read_text().partition("VmHWM:")[2].split()[0]))
main()
"""

# 41, 42, 49 and 51 are not names that are bad in themselves: they have tests of their own.
NAMES = [
    Row(44, os.fsdecode(b"caf\xe9.png"), PNG),
    Row(45, "new\nline\ttab\x1b[31mred\u200f.png", PNG),
    Row(46, "-rf", PNG),
    Row(46, "--help", PNG),
    Row(48, "CON", PNG),
    Row(48, "dot.", PNG),
    Row(48, "blank ", PNG),
    Row(50, unicodedata.normalize("NFC", "café.png"), PNG),
    Row(50, unicodedata.normalize("NFD", "café.png"), PNG),
    Row(52, "🐕 in the 🌿.png", PNG),
]
ROWS = PICTURES + NAMES


def row_id(row: Row) -> str:
    return f"{row.number}-{printable(row.name)}"


@dataclass(frozen=True)
class Process:
    """What one `sat caption --json` said of all rows, named relative to its folder."""

    code: int
    captions: list[dict[str, object]]
    failures: list[dict[str, object]]
    errors: list[str]
    peak_mib: float


def run_sat(model: Path, names: list[str], folder: Path) -> Process:
    program = [sys.executable, "-c", PROGRAM]
    command = [*program, "caption", "--json", "--model", model, "--", *names]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        done = subprocess.run(command, cwd=folder, stdout=out, stderr=err)
        said = [stream.seek(0) or stream.read().decode().splitlines() for stream in (out, err)]
    rows = [json.loads(line) for line in said[0][:-1]]
    captions = [row for row in rows if row["caption"] is not None]
    failures = [row for row in rows if row["caption"] is None]
    return Process(done.returncode, captions, failures, said[1], int(said[0][-1]) / 1024)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bad")
    for row in ROWS:
        row.put(made)
    return made


@pytest.fixture(scope="module")
def captioner() -> Captioner:
    return show_attend_tell.load()


@pytest.fixture(scope="module")
def model(captioner: Captioner) -> Path:
    return captioner.model.folder


@pytest.fixture(scope="module")
def process(model: Path, folder: Path) -> Process:
    return run_sat(model, [row.name for row in ROWS], folder)


def answer_of(captioner: Captioner, path: str | Path) -> Caption | UserError:
    try:
        return captioner(path)
    except UserError as error:
        return error


def facts_of(row: Row, captioner: Captioner, folder: Path) -> Caption | UserError:
    """Ask in Python for the picture under the name that the process was given."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        return answer_of(captioner, row.name)
    finally:
        os.chdir(before)


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_python_gives_the_expected_answer_in_time(
    row: Row, captioner: Captioner, folder: Path
) -> None:
    begin = time.process_time()
    answer = facts_of(row, captioner, folder)
    assert time.process_time() - begin < 2
    if isinstance(answer, UserError):
        assert answer.code == row.answer, answer
        assert str(answer).startswith(f"{row.name}: ")
    else:
        assert row.answer == "caption"
        assert answer.text
        seen = captioner.model.facts.preprocessing.size
        is_small = min(answer.picture_size) < seen and "enlarged" not in row.warnings
        assert set(answer.warnings) == {*row.warnings, *(["enlarged"] if is_small else [])}


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_the_command_gives_the_same_answer(
    row: Row, process: Process, captioner: Captioner, folder: Path
) -> None:
    answer = facts_of(row, captioner, folder)
    captions = [one for one in process.captions if one["picture"] == row.name]
    errors = [line for line in process.errors if line.startswith(f"sat: {printable(row.name)}: ")]
    if isinstance(answer, UserError):
        assert (captions, errors) == ([], [f"sat: {printable(str(answer))}"])
        assert [one for one in process.failures if one["picture"] == row.name] == [
            {
                "picture": row.name,
                "caption": None,
                "error": answer.code,
                "message": str(answer),
            }
        ]
    else:
        # Pictures captioned together share products, whose last digits depend on the company.
        alone = {"picture": row.name, **answer.to_dict()}
        numbers = {
            name: pytest.approx(alone[name], abs=2e-4) for name in ("confidence", "log_probs")
        }
        assert (captions, errors) == ([alone | numbers], [])


def test_the_command_says_nothing_else(process: Process) -> None:
    good = [row.name for row in ROWS if row.answer == "caption"]
    bad = [row for row in ROWS if row.answer != "caption"]
    assert [one["picture"] for one in process.captions] == good
    assert [one["picture"] for one in process.failures] == [row.name for row in bad]
    assert len(process.errors) == len(bad) + 1
    assert process.errors[-1] == f"{len(bad)} of {len(ROWS)} pictures failed"
    assert process.code == 1


def test_no_picture_takes_more_than_300_mib(process: Process, model: Path, folder: Path) -> None:
    good = run_sat(model, ["turned-1.png"] * len(ROWS), folder)
    assert good.code == 0
    assert process.peak_mib < good.peak_mib + 300


@pytest.mark.parametrize("orientation", range(2, 9))
def test_22_a_turned_picture_gets_the_caption_of_the_upright_one(
    orientation: int, captioner: Captioner, folder: Path
) -> None:
    upright = captioner(folder / "turned-1.png")
    turned = captioner(folder / f"turned-{orientation}.png")
    assert turned.text == upright.text
    assert turned.log_prob == upright.log_prob
    assert turned.picture_size == upright.picture_size


def test_38_a_file_that_grows_is_read_once(captioner: Captioner, folder: Path) -> None:
    path = folder / "growing.jpg"
    whole = saved(photo(), "JPEG")
    path.write_bytes(whole[:500])
    assert isinstance(answer_of(captioner, path), UserError)
    path.write_bytes(whole)
    assert isinstance(answer_of(captioner, path), Caption)


def test_39_a_folder_is_not_a_picture(captioner: Captioner, model: Path, tmp_path: Path) -> None:
    answer = answer_of(captioner, tmp_path)
    assert isinstance(answer, UserError)
    assert answer.code == "picture.not_a_picture"
    (tmp_path / "holiday").mkdir()
    process = run_sat(model, ["holiday"], tmp_path)
    assert process.errors[0] == "sat: holiday: there are no pictures in this folder"
    assert process.code == 1


def test_40_a_picture_one_may_not_read(captioner: Captioner, tmp_path: Path) -> None:
    path = tmp_path / "private.png"
    path.write_bytes(PNG)
    path.chmod(0)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)  # root may read everything
    try:
        answer = answer_of(captioner, path)
    finally:
        if was_root:
            os.seteuid(0)
    assert isinstance(answer, UserError)
    assert answer.code == "picture.unreadable"
    assert "Permission denied" in str(answer)


def test_41_42_a_path_that_climbs_and_an_absolute_one(
    captioner: Captioner, model: Path, tmp_path: Path
) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("root:x:0:0\n")
    (tmp_path / "dog.png").write_bytes(PNG)
    process = run_sat(model, ["../../etc/passwd", str(tmp_path / "dog.png")], below)
    assert process.errors[0].startswith("sat: ../../etc/passwd: not a picture")
    assert "root" not in "".join(process.errors)
    assert [one["picture"] for one in process.captions] == [str(tmp_path / "dog.png")]


@pytest.mark.parametrize("name", ["a\0b.png", "x" * 300 + ".png"], ids=["43-NUL", "47-300-bytes"])
def test_43_47_a_name_that_no_disk_holds(name: str, captioner: Captioner) -> None:
    answer = answer_of(captioner, name)
    assert isinstance(answer, UserError)
    assert answer.code in ("picture.missing", "picture.unreadable")  # Pythons differ


def test_47_the_command_answers_the_same(model: Path, tmp_path: Path) -> None:
    process = run_sat(model, ["x" * 300 + ".png"], tmp_path)
    assert process.code == 1
    assert len(process.errors) == 2
    assert process.errors[0].startswith("sat: xxx")


def test_49_the_same_name_twice_is_told_twice(model: Path, folder: Path) -> None:
    process = run_sat(model, ["CON", "CON"], folder)
    assert [one["picture"] for one in process.captions] == ["CON", "CON"]
    assert process.captions[0] == process.captions[1]


def test_51_a_folder_of_100_000_files(model: Path, tmp_path: Path) -> None:
    for i in range(100_000):
        os.close(os.open(tmp_path / f"{i:06}.jpg", os.O_CREAT | os.O_WRONLY))
    (tmp_path / "999999.png").write_bytes(PNG)
    process = run_sat(model, ["."], tmp_path)
    assert process.errors[-1] == "100,000 of 100,001 pictures failed"
    assert [one["picture"] for one in process.captions] == ["999999.png"]
