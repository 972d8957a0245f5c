"""`sat draw`, as it is typed, and `sat.draw` in Python."""

import errno
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import show_attend_tell
from show_attend_tell.captioning.captioner import Captioner
from tests.conftest import Sat

pytestmark = pytest.mark.slow

Draw = Callable[..., tuple[int, str, str]]


@pytest.fixture
def photos(exported_folder: Path) -> Path:
    return exported_folder / "photos"


@pytest.fixture
def run(exported_folder: Path) -> Path:
    return exported_folder / "run"


@pytest.fixture
def draw(sat: Sat, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Draw:
    """`sat draw` with the small model, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: sat("draw", "--model", run, *words)


STARTS = {
    "png": b"\x89PNG",
    "jpg": b"\xff\xd8\xff",
    "gif": b"GIF89a",
    "html": b"<!doctype html>",
    "json": b"[",
    "npz": b"PK",
}


@pytest.mark.parametrize("ending", STARTS)
def test_the_ending_says_what_is_drawn(
    ending: str, draw: Draw, photos: Path, tmp_path: Path
) -> None:
    code, out, err = draw(photos / "3.png", "--out", f"drawn.{ending}")
    content = (tmp_path / f"drawn.{ending}").read_bytes()
    assert (code, out.count("\n")) == (0, 1)
    assert content.startswith(STARTS[ending])
    assert f"drawn in drawn.{ending}" in err


@pytest.mark.parametrize("ending", ["png", "jpg", "html", "json"])
def test_several_pictures_are_drawn_together(
    ending: str, draw: Draw, photos: Path, tmp_path: Path
) -> None:
    code, out, _ = draw(photos / "3.png", photos / "4.png", "--out", f"both.{ending}")
    content = (tmp_path / f"both.{ending}").read_bytes()
    assert (code, [line.split("\t")[0] for line in out.splitlines()]) == (0, ["3.png", "4.png"])
    assert content.startswith(STARTS[ending])
    if ending in ("html", "json"):
        assert b"3.png" in content and b"4.png" in content


def test_without_a_name_it_lies_beside_the_reader_under_the_name_of_the_picture(
    draw: Draw, photos: Path, tmp_path: Path
) -> None:
    assert draw(photos / "3.png")[0] == draw(photos)[0] == 0
    assert {path.name for path in tmp_path.iterdir()} == {"3-attention.png", "attention.html"}


def test_a_word_is_shown_on_the_picture_in_full_size(
    draw: Draw, photos: Path, tmp_path: Path
) -> None:
    draw(photos / "3.png", "--out", "numbers.json")
    found = json.loads((tmp_path / "numbers.json").read_text())[0]
    code, _, _ = draw(photos / "3.png", "--word", found["words"][0].upper(), "--out", "word.png")
    with Image.open(tmp_path / "word.png") as overlay, Image.open(photos / "3.png") as picture:
        assert (code, overlay.size) == (0, picture.size)


def test_a_picture_larger_than_what_is_shown_is_drawn_from_a_small_copy(
    draw: Draw, photos: Path, tmp_path: Path
) -> None:
    with Image.open(photos / "3.png") as small:
        small.convert("RGB").resize((1800, 1600)).save(tmp_path / "large.jpg")
    assert draw("large.jpg")[0] == 0
    code, _, _ = draw("large.jpg", "--out", "large.json")
    assert json.loads((tmp_path / "large.json").read_text())[0]["picture_size"] == [1800, 1600]
    assert code == 0


def test_a_picture_may_come_from_standard_input(
    draw: Draw, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = draw(photos / "3.png")
    with (photos / "3.png").open("rb") as stream:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        assert draw("-", "--out", "drawn.png")[:2] == expected[:2]
    assert (tmp_path / "drawn.png").read_bytes() == (tmp_path / "3-attention.png").read_bytes()


@pytest.mark.parametrize("look", ["most-likely", "sampled"])
def test_a_model_can_be_made_to_look_at_one_place(
    look: str, draw: Draw, photos: Path, tmp_path: Path
) -> None:
    code, _, _ = draw(photos / "3.png", "--look", look, "--out", "found.json")
    (found,) = json.loads((tmp_path / "found.json").read_text())
    assert (code, found["look"]) == (0, look)
    assert (np.sort(np.reshape(found["weights"], (-1, 4))) == [0, 0, 0, 1]).all()


@pytest.mark.parametrize("out", [["--out", "drawn.json"], []], ids=["named", "default"])
def test_a_file_that_is_there_is_overwritten_only_if_asked(
    out: list[str], draw: Draw, photos: Path, tmp_path: Path
) -> None:
    path = tmp_path / (out[1] if out else "3-attention.png")
    path.write_bytes(b"the work of years")
    code, said, err = draw(photos / "3.png", *out)
    assert (code, said) == (2, "")
    assert f"{path.name}: is there already; --overwrite replaces it" in err
    assert path.read_bytes() == b"the work of years"
    assert draw(photos / "3.png", *out, "--overwrite")[0] == 0
    assert path.read_bytes() != b"the work of years"


# Two models


@pytest.mark.parametrize("ending", ["png", "html", "json"])
def test_two_models_are_compared(
    ending: str, sat: Sat, run: Path, photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / f"both.{ending}"
    shipped = show_attend_tell.SHIPPED
    code, said, _ = sat("draw", photos / "3.png", "--compare", run, shipped, "--out", out)
    assert code == 0
    assert [line.split("\t")[0] for line in said.splitlines()] == ["run", "flickr8k"]
    if ending != "png":
        assert b"flickr8k" in out.read_bytes()


def test_models_of_the_same_name_are_told_apart_by_their_folders(
    sat: Sat, run: Path, photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run").symlink_to(run)
    models = (run, tmp_path / "other" / "run")
    out = tmp_path / "both.html"
    _, said, _ = sat("draw", photos / "3.png", "--compare", *models, "--out", out)
    assert [line.split("\t")[0] for line in said.splitlines()] == [str(model) for model in models]


# Mistakes


def test_a_picture_that_cannot_be_read_is_named_and_stops_nothing(
    draw: Draw, photos: Path, tmp_path: Path
) -> None:
    code, _, err = draw(photos / "3.png", "none.jpg", "--out", "drawn.html")
    assert code == 1
    assert "none.jpg: there is no such file" in err
    assert "1 of 2 pictures failed" in err
    assert b"3.png" in (tmp_path / "drawn.html").read_bytes()


def test_if_no_picture_can_be_read_nothing_is_drawn(draw: Draw, tmp_path: Path) -> None:
    code, _, err = draw("none.jpg", "--out", "drawn.html")
    assert (code, "none.jpg: there is no such file" in err) == (1, True)
    assert list(tmp_path.iterdir()) == []


# What is typed, the exit code, and words of the one-sentence answer.
MISTAKES: dict[str, tuple[list[str], int, str]] = {
    "unknown ending": (["{photo}", "--out", "x.bmp"], 2, "x.bmp: name a file that ends in .png"),
    "no ending": (["{photo}", "--out", "{tmp}"], 2, "name a file that ends in"),
    "no such word": (["{photo}", "--word", "elephant"], 2, "no word 'elephant' in the caption"),
    "word and page": (["{photo}", "--word", "a", "--out", "x.html"], 2, "--word makes a picture"),
    "word of several": (["{photos}", "--word", "a", "--out", "x.png"], 2, "--word shows one"),
    "animation of several": (
        ["{photos}", "--out", "x.gif"],
        2,
        ".gif shows one caption of one picture",
    ),
    "missing folder": (["{photo}", "--out", "none/x.png"], 1, "there is no folder none"),
    "over itself": (["{photo}", "--out", "{photo}"], 2, "is the picture itself"),
    "no pictures": (["{tmp}", "--out", "x.html"], 1, "no pictures in this folder"),
    "one model": (["{photo}", "--compare", "{run}"], 2, "requires 2 arguments"),
    "one model twice": (["{photo}", "--compare", "{run}", "{run}"], 2, "two different models"),
    "no model": (["{photo}", "--compare", "{run}", "{tmp}"], 1, "not a model folder"),
    "unknown look": (["{photo}", "--look", "away"], 2, "most-likely"),
    "negative seed": (["{photo}", "--seed", "-1"], 2, "seed is -1"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_and_a_code(
    mistake: str, sat: Sat, photos: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(show_attend_tell, "SHIPPED", run / "model")
    words, code, answer = MISTAKES[mistake]
    places = {"photo": photos / "3.png", "photos": photos, "run": run, "tmp": tmp_path}
    found, _, err = sat("draw", *(word.format(**places) for word in words))
    assert found == code, err
    assert answer in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_model_and_two_to_compare_exclude_each_other(draw: Draw, photos: Path) -> None:
    code, _, err = draw(photos / "3.png", "--compare", "a", "b")
    assert (code, "leave --model out" in err) == (2, True)


def test_a_file_that_cannot_be_written_is_one_sentence(
    draw: Draw, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "fsync", fail)  # the superuser may write everywhere
    code, _, err = draw(photos / "3.png", "--out", "x.json")
    assert (code, "x.json: cannot be written" in err) == (1, True)
    assert "Traceback" not in err


@pytest.mark.parametrize("ending", ["png", "gif"])
def test_an_empty_caption_is_one_sentence(
    ending: str, draw: Draw, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Captioner, "stream", lambda self, sources, search: iter([[silent(sources)]])
    )
    code, _, err = draw(photos / "3.png", "--out", f"x.{ending}")
    assert (code, "the caption has no words" in err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def silent(sources: list[Path]) -> show_attend_tell.Caption:
    from tests.drawing.cases import caption_of

    with Image.open(sources[0]) as picture:
        return caption_of("", picture.size)


# Python


def test_python_draws_from_every_kind_of_picture_the_same(run: Path, photos: Path) -> None:
    path = photos / "5.png"
    caption = show_attend_tell.load(run)(path)
    with Image.open(path) as picture:
        kinds = [str(path), path, path.read_bytes(), picture, np.asarray(picture.convert("RGB"))]
        figures = [show_attend_tell.draw(caption, kind) for kind in kinds]
    assert isinstance(figures[0], Image.Image)
    assert all(figure == figures[0] for figure in figures)
