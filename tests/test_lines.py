"""Captions as lines, and files of them: whole lines, on disk, gone on with, held alone."""

import csv
import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from show_attend_tell.data.pictures import Crop
from show_attend_tell.errors import UserError, printable
from show_attend_tell.telling.caption import Caption
from show_attend_tell.telling.lines import FORMS, CaptionFile

NAMES = ["a.jpg", 'b,"c".jpg', "-rf.jpg", os.fsdecode(b"caf\xe9.jpg"), "new\nline.jpg", "é🐕.jpg"]


def caption(text: str) -> Caption:
    words = tuple(text.lower().strip(".").split())
    return Caption(
        text=text,
        words=words,
        log_probs=np.full(len(words), -0.5),
        log_prob=-0.5 * (len(words) + 1),
        attention=np.zeros((len(words), 2, 2)),
        gates=np.zeros(len(words)),
        picture_size=(4, 3),
        crop=Crop(0, 0, 4, 3),
        warnings=("first_frame_only",),
    )


def write(path: Path, form: str, names: list[str], existing: str = "fail") -> list[str]:
    """Write a caption of every picture that is not in the file; the names that were not."""
    written = []
    with CaptionFile(path, FORMS[form], existing) as file:  # type: ignore[arg-type]
        for name in names:
            if not file.has(name):
                file.write(name, [caption("A wet, wet dog.")])
                written.append(name)
    return written


@pytest.mark.parametrize("form", FORMS)
def test_a_line_stays_a_line_and_names_its_picture(form: str) -> None:
    for name in NAMES:
        line = FORMS[form].line(name, caption("A dog, wet."))
        assert len(line.splitlines()) == 1
        assert all(c.isprintable() or (c == "\t" and form == "text") for c in line)
        assert FORMS[form].name_in(line) == FORMS[form].name(name)
    assert len({FORMS[form].name(name) for name in NAMES}) == len(NAMES)


def test_json_keeps_every_name_exactly() -> None:
    for name in NAMES:
        assert json.loads(FORMS["json"].line(name, caption("A dog.")))["picture"] == name


def test_csv_has_four_columns_and_no_formulas() -> None:
    form = FORMS["csv"]
    assert form.header is not None
    columns = form.header.split(",")
    rows = list(csv.reader([form.line(name, caption("A dog, wet.")) for name in NAMES]))
    assert all(len(row) == len(columns) for row in rows)
    assert rows[2][0] == "'-rf.jpg"
    assert dict(zip(columns, rows[0], strict=True)) == {
        "picture": "a.jpg",
        "caption": "A dog, wet.",
        "confidence": "0.6065",
        "warnings": "first_frame_only",
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 🐕", "plain é 🐕"),
        ("a\tb\n", r"a\tb\n"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\u200f", r"\u200f"),
    ],
)
def test_what_would_act_on_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize("form", FORMS)
def test_a_file_cut_anywhere_is_gone_on_with_to_the_same_bytes(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # thousands of them take their time
    path = tmp_path / "out"
    write(path, form, NAMES)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        write(path, form, NAMES, "skip")
        assert path.read_bytes() == whole


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_written_twice(form: str, tmp_path: Path) -> None:
    assert write(tmp_path / "out", form, NAMES[:4]) == NAMES[:4]
    before = (tmp_path / "out").read_bytes()
    assert write(tmp_path / "out", form, NAMES, "skip") == NAMES[4:]
    assert (tmp_path / "out").read_bytes().startswith(before)
    assert write(tmp_path / "out", form, NAMES, "skip") == []


def test_an_existing_file_is_kept_or_overwritten_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write(path, "text", NAMES)
    with pytest.raises(UserError, match=r"--resume goes on with it") as caught:
        write(path, "text", NAMES)
    assert caught.value.exit_code == 2
    assert write(path, "text", NAMES[:1], "overwrite") == NAMES[:1]
    assert len(path.read_text().splitlines()) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("other", [*FORMS, "something else"])
def test_a_file_of_another_kind_is_refused_and_left_alone(
    form: str, other: str, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    if other in FORMS:
        write(path, other, NAMES)
    else:
        path.write_text("My diary, private\n")
    if other == form:
        return
    before = path.read_bytes()
    with pytest.raises(UserError, match="line 1 is not what would be written here"):
        write(path, form, NAMES, "skip")
    assert path.read_bytes() == before


def test_each_picture_is_on_disk_before_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, on_disk = tmp_path / "out", []
    monkeypatch.setattr(os, "fsync", lambda handle: on_disk.append(path.read_text().count("\n")))
    with CaptionFile(path, FORMS["json"], "fail") as file:
        for i in range(3):
            file.write(f"{i}.jpg", [caption("A dog.")])
            assert on_disk[-1] == i + 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_leaves_whole_lines(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    write(path, "json", NAMES[:2])
    before, really = path.read_bytes(), os.write

    def half(handle: int, content: bytes) -> int:
        really(handle, content[:9])
        raise OSError(number, os.strerror(number))

    with CaptionFile(path, FORMS["json"], "skip") as file:
        monkeypatch.setattr(os, "write", half)
        with pytest.raises(UserError) as caught:
            file.write("c.jpg", [caption("A dog.")])
        monkeypatch.undo()
    assert caught.value.code == ("disk.full" if number == errno.ENOSPC else "disk.unwritable")
    assert path.read_bytes() == before


def test_a_second_writer_is_kept_out(tmp_path: Path) -> None:
    with CaptionFile(tmp_path / "out", FORMS["json"], "fail"):
        with pytest.raises(UserError, match="another process is writing") as caught:
            CaptionFile(tmp_path / "out", FORMS["json"], "skip")
        assert caught.value.code == "run.locked"
    assert write(tmp_path / "out", "json", NAMES[:1], "skip") == NAMES[:1]


def test_the_captions_of_a_picture_are_written_together(tmp_path: Path) -> None:
    with CaptionFile(tmp_path / "out", FORMS["text"], "fail") as file:
        file.write("a.jpg", [caption("A dog."), caption("A cat.")])
    assert (tmp_path / "out").read_text() == "a.jpg\tA dog.\na.jpg\tA cat.\n"


def test_a_file_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        CaptionFile(tmp_path / "no folder" / "out", FORMS["json"], "fail")
