"""What `sat caption` leaves in files and streams, whatever becomes of it on the way."""

import csv
import functools
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from show_attend_tell import load
from show_attend_tell.captioning import exported
from show_attend_tell.captioning.captioner import Captioner
from show_attend_tell.cli import terminal
from show_attend_tell.cli.listing import list_pictures, skipped_sentence
from show_attend_tell.errors import UserError
from show_attend_tell.learning.watching.events import Start
from tests.conftest import SAT, Sat

PLAIN = ["--views", "1", "--beam", "1", "--consensus", "0"]  # a search that takes little time
FORMS: dict[str, list[str]] = {"text": [], "json": ["--json"], "csv": ["--csv"]}


opened_once = functools.cache(exported.ExportedModel)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither open the model for each command nor wait for the disk."""
    monkeypatch.setattr(exported, "ExportedModel", opened_once)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def put_picture(path: Path, seed: int = 0) -> Path:
    noise = np.random.default_rng(seed).integers(0, 256, (8, 9, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path, "PNG")
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of three pictures and one that is none."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in (1, 3, 4):
        put_picture(folder / f"{i}.png", i)
    (folder / "2.png").write_text("no picture")
    return folder


# Files


@pytest.mark.parametrize("form", FORMS)
def test_a_foreign_file_of_one_line_is_left_as_it_is(form: str, sat: Sat, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('[{"image_id": 1, "caption": "a dog"}]')
    words = ["missing.jpg", *PLAIN, *FORMS[form], "--out", path, "--resume"]
    code, _, err = sat("caption", *words)
    assert (code, "line 1 is not what would be written here" in err) == (1, True)
    assert path.read_text() == '[{"image_id": 1, "caption": "a dog"}]'


@pytest.mark.parametrize("form", FORMS)
def test_what_is_there_is_refused_resumed_or_overwritten(
    form: str, sat: Sat, photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ["caption", photos / "1.png", *PLAIN, *FORMS[form], "--out", out]
    assert sat(*words)[0] == 0
    whole = out.read_bytes()
    code, _, err = sat(*words)
    assert code == 2
    assert "is there already; --resume goes on with it, --overwrite begins anew" in err
    out.write_bytes(whole * 2)
    assert sat(*words, "--overwrite")[0] == 0
    assert out.read_bytes() == whole
    code, _, err = sat(*words, "--resume")
    assert (code, "1 picture captioned already" in err) == (0, True)
    assert out.read_bytes() == whole


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--existing", "skip"], "No such option"),
        (["--out", "out", "--resume", "--overwrite"], "choose one"),
        (["--overwrite"], "need --out FILE"),
        (["--out", "{photo}", "--overwrite"], "is one of the pictures and would be lost"),
        (["--beam", "0"], "beam is 0; it must be a whole number from 1 to 1,000"),
        (["--n-best", "0"], "n_best is 0; it must be a whole number from 1 to 1,000"),
        (["--views", "0"], "views"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    words: list[str],
    answer: str,
    sat: Sat,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    photo = photos / "1.png"
    before = photo.read_bytes()
    code, out, err = sat("caption", photo, *(word.format(photo=photo) for word in words))
    assert (code, out) == (2, "")
    assert answer in err
    assert photo.read_bytes() == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["train", "tune"])
def test_no_threads_are_refused(command: str, sat: Sat) -> None:
    code, _, err = sat(command, "store", "run", "--threads", "0")
    assert (code, "--threads" in err) == (2, True)


@pytest.mark.parametrize("option", ["--grid", "--size"])
def test_no_cells_and_no_pixels_are_refused(option: str, sat: Sat) -> None:
    code, _, err = sat("prepare", "photos", "store", option, "0")
    assert (code, option in err) == (2, True)


def test_python_refuses_no_threads() -> None:
    with pytest.raises(UserError, match="threads is 0; it must be a whole number from 1") as caught:
        load(threads=0)
    assert caught.value.code == "request.bad"


@pytest.mark.parametrize("to_file", [False, True], ids=["stream", "file"])
@pytest.mark.parametrize("form", ["json", "csv"])
def test_pictures_that_failed_have_a_row(
    form: str, to_file: bool, sat: Sat, photos: Path, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    out = ["--out", path] if to_file else []
    code, said, err = sat("caption", photos, "none.png", *PLAIN, *FORMS[form], *out)
    text = path.read_text() if to_file else said
    if form == "json":
        rows = [json.loads(line) for line in text.splitlines()]
    else:
        rows = list(csv.DictReader(text.splitlines()))
    assert code == 1
    assert [Path(row["picture"]).name for row in rows] == [
        *(f"{i}.png" for i in (1, 2, 3, 4)),
        "none.png",
    ]
    assert [row.get("error") or "" for row in rows] == [
        "",
        "picture.not_a_picture",
        "",
        "",
        "picture.missing",
    ]
    assert [bool(row["caption"]) for row in rows] == [True, False, True, True, False]
    assert rows[4]["message"] == "none.png: there is no such file"
    assert "none.png: there is no such file" in err
    assert "2 of 5 pictures failed" in err


@pytest.mark.parametrize("form", FORMS)
def test_a_picture_that_was_mended_takes_the_place_of_its_failure(
    form: str, sat: Sat, photos: Path, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    words = ["caption", photos, *PLAIN, *FORMS[form], "--out", path, "--resume"]
    code, _, err = sat(*words)
    assert (code, "1 of 4 pictures failed" in err) == (1, True)
    code, _, err = sat(*words)
    assert (code, "the picture failed" in err) == (1, True)
    assert "3 pictures captioned already" in err
    put_picture(photos / "2.png")
    assert sat(*words)[0] == 0
    assert sat(*words)[0] == 0
    text = path.read_text()
    assert [text.count(str(photos / f"{i}.png")) for i in (1, 2, 3, 4)] == [1, 1, 1, 1]
    assert "not_a_picture" not in text


@pytest.mark.skipif(sys.platform == "win32", reason="its names are no bytes")
@pytest.mark.parametrize("form", FORMS)
def test_44_to_52_odd_names_are_written_once(
    form: str, sat: Sat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [
        *(os.fsdecode(b"caf\xe9.png"), "new\nline\ttab\x1b[31mred\u200f.png", "-rf", "--help"),
        *("CON", "dot.", "blank ", "caf\u00e9.png", "cafe\u0301.png", "\U0001f415.png"),
        *("=1+1.png", "'=1+1.png", "a\\nb.png", "a\nb.png", '"a.png', "x" * 250 + ".png"),
    ]
    for name in names:
        put_picture(tmp_path / name)
    words = ["caption", *PLAIN, *FORMS[form], "--out", "out", "--resume"]
    assert sat(*words, "--", *names[:8], "CON")[0] == 0
    code, _, err = sat(*words, "--", *names, "CON", "../../etc/passwd", "x" * 300)
    assert code == 1
    assert "9 pictures captioned already" in err
    assert "2 of 10 pictures failed" in err
    lines = (tmp_path / "out").read_text("utf-8").splitlines()
    failed = 0 if form == "text" else 2
    assert len(lines) == len(names) + 1 + failed + (form == "csv")
    assert all(c.isprintable() or c == "\t" for line in lines for c in line)
    code, _, err = sat(*words, "--", *names, "CON")
    assert code == 0
    assert "17 pictures captioned already" in err


def test_other_files_in_a_folder_are_counted_by_kind(
    sat: Sat, photos: Path, tmp_path: Path
) -> None:
    (photos / ".hidden").mkdir()
    for name in ("a.CR2", "b.cr2", "c.mov", "raw/d.nef", "notes", ".DS_Store", ".hidden/a.db"):
        (photos / name).parent.mkdir(exist_ok=True)
        (photos / name).write_bytes(b"II*\0")
    said = "skipped 5 files that are not pictures sat reads: 2 .cr2, 1 without an ending, 1 .mov"
    for verb in (["caption", *PLAIN], ["draw", "--out", tmp_path / "drawn.html"]):
        code, out, err = sat(*verb, photos, photos)
        assert code == 1
        assert f"{said}, 1 .nef" in err
        assert "cr2" not in out.lower()
    code, _, err = sat("caption", photos / "raw")
    assert "skipped 1 file that is not a picture sat reads: 1 .nef" in err
    assert "there are no pictures in this folder" in err
    assert code == 1


def test_what_phones_and_cameras_make_is_never_passed_over_in_silence(tmp_path: Path) -> None:
    endings = "cr2 cr3 nef arw dng orf rw2 raf pef srw heic heif avif jxl mov mp4 pdf svg psd"
    for ending in endings.split():
        (tmp_path / f"a.{ending}").touch()
    names, _, skipped = list_pictures([str(tmp_path)])
    seen = {Path(name).suffix for name in names} | set(skipped)
    assert seen == {f".{ending}" for ending in endings.split()}
    assert skipped_sentence(skipped).startswith("skipped 15 files")


def test_ctrl_c_says_how_to_go_on(
    sat: Sat, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stream(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Captioner, "stream", stream)
    code, _, err = sat("caption", photos, *PLAIN, "--out", tmp_path / "out")
    assert code == 130
    assert "the same command with --resume goes on" in err
    code, _, err = sat("caption", photos, *PLAIN)
    assert (code, err) == (130, "")


def test_the_first_line_of_training_has_its_singulars(capsys: pytest.CaptureFixture[str]) -> None:
    for threads in (1, 2):
        start = Start(0, 0, 1, 1, 1_000_000, 1, 1, threads)
        terminal.TrainingProgress(terminal.console())(start)
    said = capsys.readouterr().out.split("\n")
    assert said[:2] == [
        f"1 caption, 1 word, 1.0 million parameters, {threads}"
        for threads in ("1 thread", "2 threads")
    ]


# Streams, of real processes


def run_shell(redirected: str, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `sat ...` with its streams as the shell makes them."""
    script = f'exec "$@" {redirected}'
    command = ["bash", "-c", script, "bash", *SAT, *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


streams = pytest.mark.skipif(sys.platform == "win32", reason="there is no such shell")
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
CAPTION = ["caption", *PLAIN]


@streams
@pytest.mark.slow
@pytest.mark.parametrize("words", [CAPTION, [*CAPTION, "--csv"], ["draw"]], ids=" ".join)
def test_closed_standard_output_is_one_sentence(words: list[str], photos: Path) -> None:
    done = run_shell(">&-", *words, "1.png", "3.png", cwd=photos)
    assert done.returncode == 1
    assert done.stderr == "sat: standard output: cannot be written (Bad file descriptor)\n"


@streams
@needs_full
@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        [*CAPTION, "1.png"],
        [*CAPTION, "1.png", "--csv"],
        ["models"],
        ["models", "--json"],
        ["--help"],
    ],
    ids=" ".join,
)
def test_a_full_standard_output_is_one_sentence(words: list[str], photos: Path) -> None:
    done = run_shell("> /dev/full", *words, cwd=photos)
    assert done.returncode == 1
    sentence = "sat: standard output: the disk is full; free some space and try again\n"
    assert done.stderr == sentence


@streams
@pytest.mark.slow
def test_closed_standard_output_does_not_keep_captions_from_a_file(photos: Path) -> None:
    done = run_shell(">&- 2>&- <&-", *CAPTION, "1.png", "3.png", "--out", "out", cwd=photos)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    lines = (photos / "out").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["1.png", "3.png"]


@streams
@pytest.mark.slow
@pytest.mark.parametrize("verb", [CAPTION, ["draw"]], ids=" ".join)
def test_closed_standard_input_is_one_sentence(verb: list[str], photos: Path) -> None:
    done = run_shell("<&-", *verb, "-", cwd=photos)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "sat: <stdin>: standard input is closed; name a file",
        "the picture failed",
    ]


@streams
@needs_full
@pytest.mark.slow
@pytest.mark.parametrize("redirected", ["2>&-", "2> /dev/full", "2> >(exit)"])
def test_captions_come_though_nobody_hears_of_the_failures(redirected: str, photos: Path) -> None:
    good = ["1.png", "3.png"] * 10
    done = run_shell(redirected, *CAPTION, good[0], "2.png", *good[1:], "2.png", cwd=photos)
    assert (done.returncode, done.stderr) == (1, "")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == good


@streams
@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [[*CAPTION, *["1.png", "3.png"] * 40], ["models"]], ids=["caption", "models"]
)
def test_f11_a_reader_that_leaves_ends_it_quietly(words: list[str], photos: Path) -> None:
    done = run_shell("| head -1; exit ${PIPESTATUS[0]}", *words, cwd=photos)
    assert (done.returncode, done.stderr) == (0, "")


# Kills and writers at once


@pytest.mark.skipif(sys.platform == "win32", reason="nobody is killed there")
@pytest.mark.slow
def test_s3_twenty_kills_leave_each_picture_once_and_in_order(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    names = [f"photos/{i:03}.png" for i in range(300)]
    for i, name in enumerate(names):
        put_picture(tmp_path / name, i)
    bad = names[5]  # so that a resume has a line to take out
    (tmp_path / bad).write_text("no picture")
    command = [*SAT, *CAPTION, "--json", "photos", "--out", "out", "--resume"]
    rng = random.Random(7)
    out = tmp_path / "out"
    for _ in range(20):
        enough = (out.stat().st_size if out.exists() else 0) + rng.randrange(4000)
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
            while not out.exists() or out.stat().st_size < enough:
                assert process.poll() is None, "it ended before its twentieth kill"
                time.sleep(0.0005)
            process.kill()
    assert 0 < out.read_bytes().count(b"\n") < 300
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, "the captions are in out" in done.stderr) == (1, True)
    rows = [json.loads(line) for line in out.read_text().split("\n")[:-1]]
    assert [row["picture"] for row in rows if row["caption"]] == [n for n in names if n != bad]
    assert [row["picture"] for row in rows if not row["caption"]] == [bad]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "photos"]


@pytest.mark.slow
def test_f7_a_second_caption_resume_is_refused_and_the_first_ends_well(
    sat: Sat, photos: Path, tmp_path: Path
) -> None:
    words = ["caption", *PLAIN, photos / "1.png", "-", "--out", tmp_path / "out", "--resume"]
    command = [*SAT, *map(str, words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        while not (tmp_path / "out").exists():
            assert first.poll() is None
            time.sleep(0.01)
        code, _, err = sat(
            "caption", *PLAIN, photos / "1.png", "--out", tmp_path / "out", "--resume"
        )
        assert (code, "another process is writing captions into it" in err) == (1, True)
        first.communicate((photos / "3.png").read_bytes())
    assert first.returncode == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 2


@needs_full
def test_f4_a_full_disk_is_one_sentence(
    sat: Sat, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, really = tmp_path / "out", os.write
    words = [
        "caption",
        *PLAIN,
        "--json",
        photos / "1.png",
        photos / "3.png",
        "--out",
        out,
        "--resume",
    ]
    written: list[int] = []

    def full(handle: int, content: bytes) -> int:
        if content and len(written) == 1:
            really(handle, content[:20])
            raise OSError(28, "No space left on device")
        written.append(handle) if content else None
        return really(handle, content)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        code, _, err = sat(*words)
    assert (code, f"{out}: the disk is full; free some space" in err) == (1, True)
    assert [json.loads(line)["picture"] for line in out.read_text().splitlines()] == [
        str(photos / "1.png")
    ]
    assert sat(*words)[0] == 0
    assert len(out.read_text().splitlines()) == 2
