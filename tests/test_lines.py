"""Captions as lines, and files of them: whole lines, on disk, gone on with, held alone."""

import csv
import errno
import json
import os
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from show_attend_tell.captioning.caption import Caption
from show_attend_tell.cli.caption_file import FORMS, CaptionFile
from show_attend_tell.data.pictures import Crop
from show_attend_tell.errors import UserError, printable

NAMES = ["a.jpg", 'b,"c".jpg', "-rf.jpg", os.fsdecode(b"caf\xe9.jpg"), "new\nline.jpg", "é🐕.jpg"]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of small writes would wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


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


BAD = UserError("picture.empty", "=b.jpg: the file is empty\n")


def write(
    path: Path,
    form: str,
    names: Sequence[str],
    each: int = 1,
    bad: Collection[str] = (),
    **how: bool,
) -> list[str]:
    """Write what every picture gets that is not in the file; the names that were not."""
    captions = [caption("A wet, wet dog."), caption("A cat."), caption("A dog.")][:each]
    with CaptionFile(path, FORMS[form], names, each, **how) as file:
        waiting = [names[i] for i in file.waiting]
        for name in waiting:
            file.write(name, BAD if name in bad else captions)
    return waiting


def read(path: Path, form: str) -> list[tuple[str, bool]]:
    """Names in a file, and whether the pictures failed."""
    lines = path.read_text("utf-8").split("\n")[:-1]
    return [FORMS[form].read(line) for line in lines[FORMS[form].header is not None :]]


@pytest.mark.parametrize("form", FORMS)
def test_a_line_stays_a_line_and_names_its_picture(form: str) -> None:
    for name in NAMES:
        for answer in ([caption("A dog, wet.")], BAD):
            for line in FORMS[form].lines(name, answer):
                assert len(line.splitlines()) == 1
                assert all(c.isprintable() or (c == "\t" and form == "text") for c in line)
                assert line.startswith(FORMS[form].start(name))
                assert FORMS[form].read(line) == (name, answer is BAD)


file_names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20
) | st.binary(min_size=1, max_size=20).map(lambda name: os.fsdecode(name.replace(b"\0", b"/")))
awkward = st.text("\\n\t\n\r'\"=+-@,\x1b\x85\u2028\ufeffx0aé🐕", min_size=1, max_size=8)


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None)
@given(names=st.lists(file_names | awkward, min_size=1, max_size=5), seed=st.integers(0, 9))
def test_every_name_is_found_again(form: str, names: list[str], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "out")
        assert write(path, form, names) == names
        assert read(path, form) == [(name, False) for name in names]
        assert write(path, form, names, resume=True) == []
        more = [*names, names[seed % len(names)]]
        assert write(path, form, more, resume=True) == more[-1:]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "names", [("=a.jpg", "'=a.jpg"), ("a\nb.jpg", "a\\nb.jpg"), ('"', '"\\""')]
)
def test_names_that_print_alike_are_two_pictures(
    form: str, names: tuple[str, str], tmp_path: Path
) -> None:
    write(tmp_path / "out", form, names[:1])
    assert write(tmp_path / "out", form, names, resume=True) == [names[1]]


def test_json_keeps_every_name_exactly() -> None:
    for name in NAMES:
        assert json.loads(FORMS["json"].caption(name, caption("A dog.")))["picture"] == name


def test_csv_has_its_columns_and_no_formulas() -> None:
    form = FORMS["csv"]
    assert form.header is not None
    columns = form.header.split(",")
    rows = list(csv.reader([form.caption(name, caption("A dog, wet.")) for name in NAMES]))
    assert all(len(row) == len(columns) for row in rows)
    assert rows[2][0] == "'-rf.jpg"
    assert dict(zip(columns, rows[0], strict=True)) == {
        "picture": "a.jpg",
        "caption": "A dog, wet.",
        "confidence": "0.6065",
        "warnings": "first_frame_only",
        "error": "",
        "message": "",
    }
    failed = next(csv.reader(form.lines("a.jpg", BAD)))
    assert failed == ["a.jpg", "", "", "", "picture.empty", "'=b.jpg: the file is empty\\n"]


def test_json_says_why_a_picture_has_no_caption() -> None:
    (line,) = FORMS["json"].lines("a.jpg", BAD)
    assert json.loads(line) == {
        "picture": "a.jpg",
        "caption": None,
        "error": "picture.empty",
        "message": "=b.jpg: the file is empty\n",
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


@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_a_file_cut_anywhere_is_gone_on_with_to_the_same_bytes(
    form: str, each: int, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    write(path, form, NAMES, each)
    whole = path.read_bytes()
    for length in range(0, len(whole), 1 if each == 1 else 13):
        path.write_bytes(whole[:length])
        write(path, form, NAMES, each, resume=True)
        assert path.read_bytes() == whole


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_written_twice(form: str, tmp_path: Path) -> None:
    assert write(tmp_path / "out", form, NAMES[:4]) == NAMES[:4]
    before = (tmp_path / "out").read_bytes()
    assert write(tmp_path / "out", form, NAMES, resume=True) == NAMES[4:]
    assert (tmp_path / "out").read_bytes().startswith(before)
    assert write(tmp_path / "out", form, NAMES, resume=True) == []


def test_an_existing_file_is_kept_or_overwritten_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write(path, "text", NAMES)
    with pytest.raises(UserError, match=r"--resume goes on with it") as caught:
        write(path, "text", NAMES)
    assert caught.value.exit_code == 2
    assert write(path, "text", NAMES[:1], overwrite=True) == NAMES[:1]
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
        write(path, form, NAMES, resume=True)
    assert path.read_bytes() == before


def test_each_picture_is_on_disk_before_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, on_disk = tmp_path / "out", []
    monkeypatch.setattr(os, "fsync", lambda handle: on_disk.append(path.read_text().count("\n")))
    with CaptionFile(path, FORMS["json"], ["0.jpg"]) as file:
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

    with CaptionFile(path, FORMS["json"], NAMES, resume=True) as file:
        monkeypatch.setattr(os, "write", half)
        with pytest.raises(UserError) as caught:
            file.write("c.jpg", [caption("A dog.")])
        monkeypatch.undo()
    assert caught.value.code == ("disk.full" if number == errno.ENOSPC else "disk.unwritable")
    assert path.read_bytes() == before


def test_a_second_writer_is_kept_out(tmp_path: Path) -> None:
    with CaptionFile(tmp_path / "out", FORMS["json"], NAMES):
        for how in ("resume", "overwrite"):
            with pytest.raises(UserError, match="another process is writing") as caught:
                write(tmp_path / "out", "json", NAMES, **{how: True})
            assert caught.value.code == "run.locked"
    assert write(tmp_path / "out", "json", NAMES[:1], resume=True) == NAMES[:1]


def test_the_captions_of_a_picture_are_written_together(tmp_path: Path) -> None:
    with CaptionFile(tmp_path / "out", FORMS["text"], ["a.jpg"]) as file:
        file.write("a.jpg", [caption("A dog."), caption("A cat.")])
    assert (tmp_path / "out").read_text() == "a.jpg\tA dog.\na.jpg\tA cat.\n"


def test_a_file_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        CaptionFile(tmp_path / "no folder" / "out", FORMS["json"], [])


FOREIGN = {
    "COCO's results": b'[{"image_id": 1, "caption": "a dog"}]',
    "a foreign object": b'{"picture": "a.jpg", "label": 3}',
    "a foreign row": b"picture,label\na.jpg,3",
    "a diary": b"My diary, private",
    "another picture's": b"z.jpg",
    "no text": b"\xff\xd8\xff\xe0",
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("end", [b"", b"\n"], ids=["cut", "whole"])
def test_what_is_not_ours_is_refused_before_it_is_touched(
    form: str, content: bytes, end: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(content + end)
    with pytest.raises(UserError, match="not what would be written here") as caught:
        write(path, form, ["a.jpg"], resume=True)
    assert caught.value.code == "data.not_captions"
    assert path.read_bytes() == content + end


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("csv", "a.jpg," + "x" * 200_000 + ",0.5,,,"),
        ("csv", '"a.jpg"x,y,0.5,,,'),
        ("csv", "a.jpg,A dog.,0.5,"),
        ("json", '{"picture": "a.jpg", "caption": ' + "[" * 100_000),
        ("json", '{"picture": 5, "caption": "A dog."}'),
        ("json", '{"picture": "a.jpg", "caption": 5}'),
        ("text", '"a.jpg\tA dog.'),
    ],
    ids=["large cell", "quotes", "cells", "deep", "number", "no text", "half quoted"],
)
def test_a_line_that_cannot_be_read_is_refused(form: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "out"
    write(path, form, NAMES[:1])
    before = path.read_text() + line + "\n"
    path.write_text(before)
    with pytest.raises(UserError, match=r"line [23] is not what") as caught:
        write(path, form, ["a.jpg"], resume=True)
    assert caught.value.code == "data.not_captions"
    assert path.read_text() == before


@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_a_picture_named_three_times_is_there_three_times(
    form: str, each: int, tmp_path: Path
) -> None:
    path, names = tmp_path / "out", ["a.jpg", "a.jpg", "b.jpg", "a.jpg"]
    assert write(path, form, names, each) == names
    whole = path.read_bytes()
    for length in range(0, len(whole), 11):
        path.write_bytes(whole[:length])
        write(path, form, names, each, resume=True)
        assert path.read_bytes() == whole


@pytest.mark.parametrize("form", ["json", "csv"])
def test_failed_pictures_are_tried_again_and_stand_once(form: str, tmp_path: Path) -> None:
    path, names = tmp_path / "out", ["a.jpg", "bad.jpg", "c.jpg", "worse.jpg"]
    assert write(path, form, names, bad={"bad.jpg", "worse.jpg"}) == names
    rows = [(name, name in ("bad.jpg", "worse.jpg")) for name in names]
    assert read(path, form) == rows
    path.chmod(0o640)
    assert write(path, form, names, bad={"worse.jpg"}, resume=True) == ["bad.jpg", "worse.jpg"]
    assert read(path, form) == [
        (name, name == "worse.jpg") for name in ("a.jpg", "c.jpg", "bad.jpg", "worse.jpg")
    ]
    assert write(path, form, names, resume=True) == ["worse.jpg"]
    assert write(path, form, names, resume=True) == []
    assert sorted(read(path, form)) == [(name, False) for name in names]
    assert [one.name for one in tmp_path.iterdir()] == ["out"]
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("form", FORMS)
def test_lines_of_other_pictures_stay(form: str, tmp_path: Path) -> None:
    path, monday, tuesday = tmp_path / "out", ["bad.jpg", "a.jpg", "worse.jpg"], ["b.jpg", "c.jpg"]
    write(path, form, monday, bad={"bad.jpg", "worse.jpg"})
    before = path.read_bytes()
    assert write(path, form, tuesday, 3, resume=True) == tuesday
    assert path.read_bytes().startswith(before)
    assert write(path, form, [*monday, *tuesday], resume=True) == ["bad.jpg", "worse.jpg"]


@pytest.mark.skipif(sys.platform == "win32", reason="an open file stays where it is there")
def test_a_file_that_was_replaced_is_locked_still(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write(path, "json", ["a.jpg", "b.jpg"], bad={"a.jpg"})
    with CaptionFile(path, FORMS["json"], ["a.jpg", "b.jpg"], resume=True) as file:
        with pytest.raises(UserError, match="another process is writing"):
            write(path, "json", ["a.jpg"], resume=True)
        file.write("a.jpg", [caption("A dog.")])
    assert read(path, "json") == [("b.jpg", False), ("a.jpg", False)]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    for _ in range(2):
        write(tmp_path / "link", "json", ["a.jpg", "b.jpg"], bad={"a.jpg"}, resume=True)
    assert (tmp_path / "link").is_symlink()
    assert read(tmp_path / "out", "json") == [("b.jpg", False), ("a.jpg", True)]
