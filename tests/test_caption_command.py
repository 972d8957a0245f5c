"""`sat export`, `sat caption` and `sat draw`, as a person types them."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import show_attend_tell
from show_attend_tell.errors import UserError
from tests.conftest import Sat

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(exported_folder: Path) -> Path:
    """Where the run lies, beside the photos it was trained on."""
    return exported_folder


def test_a_folder_is_captioned_in_order_of_names(sat: Sat, folder: Path) -> None:
    code, out, _ = sat("caption", "--model", folder / "run", folder / "photos")
    lines = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert [name for name, _ in lines] == sorted(str(p) for p in (folder / "photos").glob("*.png"))
    assert all(not text[0].islower() and text.endswith(".") for _, text in lines)


def test_one_picture_prints_the_sentence_alone(sat: Sat, folder: Path) -> None:
    code, out, _ = sat("caption", "--model", folder / "run", folder / "photos" / "3.png")
    assert code == 0
    assert out.count("\n") == 1
    assert "\t" not in out


def test_a_bad_picture_is_named_and_counted_and_stops_nothing(
    sat: Sat,
    folder: Path,
    tmp_path: Path,
) -> None:
    (tmp_path / "bad.jpg").write_text("no picture")
    good = [folder / "photos" / f"{i}.png" for i in (4, 2)]
    code, out, err = sat(
        "caption", "--json", "--model", folder / "run", good[0], tmp_path / "bad.jpg", good[1]
    )
    assert code == 1
    assert [json.loads(line)["picture"] for line in out.splitlines()] == [str(p) for p in good]
    assert "bad.jpg: not a picture" in err
    assert "1 of 3 pictures failed" in err


def test_n_best_and_globs(sat: Sat, folder: Path) -> None:
    code, out, _ = sat(
        "caption", "--model", folder / "run", "--n-best", "2", folder / "photos" / "1*.png"
    )
    assert code == 0
    names = [Path(line.split("\t")[0]).name for line in out.splitlines()]
    assert names == ["1.png", "1.png", "10.png", "10.png", "11.png", "11.png"]


@pytest.mark.parametrize("ending", ["png", "html"])
def test_draw_writes_a_figure_or_a_page(
    ending: str,
    sat: Sat,
    folder: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / f"drawn.{ending}"
    code, _, _ = sat("draw", "--model", folder / "run", folder / "photos" / "3.png", out)
    assert code == 0
    if ending == "png":
        with Image.open(out) as figure:
            assert figure.width > 224
    else:
        assert out.read_text().lower().startswith("<!doctype html>")


def test_draw_refuses_other_endings(sat: Sat, folder: Path, tmp_path: Path) -> None:
    code, _, err = sat(
        "draw", "--model", folder / "run", folder / "photos" / "3.png", tmp_path / "x.bmp"
    )
    assert code == 2
    assert ".png or .html" in err


def test_python_takes_every_kind_of_picture_and_tells_the_same(folder: Path) -> None:
    captioner = show_attend_tell.load(folder / "run")
    path = folder / "photos" / "5.png"
    with Image.open(path) as opened:
        image = opened.copy()
    kinds = [str(path), path, path.read_bytes(), io.BytesIO(path.read_bytes()), image]
    captions = captioner([*kinds, np.asarray(image)])
    assert len({caption.text for caption in captions}) == 1
    assert captions[0].picture_size == image.size
    assert captions[0].attention.shape == (len(captions[0].words), 2, 2)
    assert captioner(path).text == captions[0].text
    assert 0 < captions[0].confidence < 1


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (np.zeros((4, 4, 3)), "not float64"),
        (np.zeros((4, 4), np.uint8), r"\(4, 4\)"),
        (42, "not int"),
        ("nowhere.jpg", "no such file"),
    ],
)
def test_what_is_no_picture_is_refused_by_name(picture: object, words: str, folder: Path) -> None:
    captioner = show_attend_tell.load(folder / "run")
    with pytest.raises(UserError, match=words):
        captioner(picture)  # type: ignore[call-overload]


def test_public_names_are_sorted_and_there() -> None:
    assert sorted(show_attend_tell.__all__) == show_attend_tell.__all__
    assert all(hasattr(show_attend_tell, name) for name in show_attend_tell.__all__)
