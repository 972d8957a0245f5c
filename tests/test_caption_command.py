"""`sat caption`, as a person types it, and `load` in Python."""

import csv
import io
import json
import os
import subprocess
import sys
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import show_attend_tell
from show_attend_tell.captioning import captioner as captioning
from show_attend_tell.captioning.model import Floats, Integers
from show_attend_tell.captioning.settings import Look
from show_attend_tell.errors import UserError
from tests.conftest import SAT, Sat

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


def test_one_picture_prints_the_caption_alone(sat: Sat, folder: Path) -> None:
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
    names = [str(good[0]), str(tmp_path / "bad.jpg"), str(good[1])]
    assert [json.loads(line)["picture"] for line in out.splitlines()] == names
    assert [json.loads(line).get("error") for line in out.splitlines()] == [
        None,
        "picture.not_a_picture",
        None,
    ]
    assert "bad.jpg: not a picture" in err
    assert "1 of 3 pictures failed" in err


def test_n_best_and_globs(sat: Sat, folder: Path) -> None:
    code, out, _ = sat(
        "caption", "--model", folder / "run", "--n-best", "2", folder / "photos" / "1*.png"
    )
    assert code == 0
    names = [Path(line.split("\t")[0]).name for line in out.splitlines()]
    assert names == ["1.png", "1.png", "10.png", "10.png", "11.png", "11.png"]


def test_csv_has_a_header_and_a_row_a_picture(sat: Sat, folder: Path) -> None:
    code, out, _ = sat("caption", "--csv", "--model", folder / "run", folder / "photos")
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0
    assert len(rows) == 12
    assert rows[0]["picture"] == str(folder / "photos" / "0.png")
    assert 0 < float(rows[0]["confidence"]) < 1


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]], ids=["text", "json", "csv"])
def test_resume_goes_on_behind_the_last_whole_line(
    form: list[str], sat: Sat, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "captions"
    words = ["caption", *form, "--model", folder / "run", folder / "photos", "--out", out]
    assert sat(*words)[:2] == (0, "")
    whole = out.read_bytes()
    code, _, err = sat(*words)
    assert code == 2
    assert "is there already" in err
    out.write_bytes(whole[: len(whole) // 2])
    code, _, err = sat(*words, "--resume")
    assert code == 0
    assert "captioned already" in err
    assert out.read_bytes() == whole
    assert sat(*words, "--overwrite")[0] == 0
    assert out.read_bytes() == whole


def test_what_failed_is_tried_again_when_resumed(sat: Sat, folder: Path, tmp_path: Path) -> None:
    late, out = tmp_path / "late.png", tmp_path / "captions.jsonl"
    good = folder / "photos" / "1.png"
    words = ["caption", "--json", "--model", folder / "run", late, good, "--out", out, "--resume"]
    assert sat(*words)[0] == 1
    late.write_bytes(good.read_bytes())
    assert sat(*words)[0] == 0
    names = [json.loads(line)["picture"] for line in out.read_text().splitlines()]
    assert names == [str(good), str(late)]


def test_samples_repeat_with_their_seed(sat: Sat, folder: Path) -> None:
    def sampled(*more: object) -> str:
        words = ("--model", folder / "run", "--sample", "--n-best", 5, folder / "photos")
        code, out, _ = sat("caption", *words, *more)
        assert code == 0
        return out

    first, again, other = sampled("--seed", 3), sampled("--seed", 3), sampled("--seed", 4)
    assert first == again != other
    assert first != sampled("--seed", 3, "--temperature", 0.1)


def test_looks_differ(sat: Sat, folder: Path) -> None:
    told = {
        look: sat("caption", "--json", "--model", folder / "run", "--look", look, folder / "photos")
        for look in ("expected", "most-likely", "sampled")
    }
    assert all(code == 0 for code, _, _ in told.values())
    assert len({out for _, out, _ in told.values()}) == 3


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--json", "--csv"], "choose one"),
        (["--resume"], "need --out"),
        (["--out", "x", "--resume", "--overwrite"], "choose one"),
        (["--sample", "--beam", "3"], "choose one"),
        (["--sample", "--consensus", "3"], "choose one"),
        (["--consensus", "-3"], "consensus is -3; it must be a whole number from 0 to 1,000"),
        (["--temperature", "2"], "needs --sample"),
        (["--sample", "--temperature", "0"], "it must be a number from 0.0001"),
        (["--beam", "2", "--n-best", "3"], "at most beam"),
        (["--look", "hard"], "most-likely"),
    ],
)
def test_options_that_contradict_are_refused(
    words: list[str], answer: str, sat: Sat, folder: Path
) -> None:
    code, out, err = sat("caption", "--model", folder / "run", folder / "photos" / "1.png", *words)
    assert (code, out) == (2, "")
    assert answer in err


def test_a_word_that_means_nothing_stops_nothing(sat: Sat, folder: Path, tmp_path: Path) -> None:
    code, out, err = sat(
        "caption", "--model", folder / "run", tmp_path, tmp_path / "*.png", folder / "photos"
    )
    assert code == 1
    assert len(out.splitlines()) == 12
    assert "there are no pictures in this folder" in err
    assert "no file matches" in err
    assert "2 of 14 pictures failed" in err


def test_a_picture_comes_through_a_pipe(folder: Path) -> None:
    picture = folder / "photos" / "1.png"
    words = ["caption", "--json", "--model", folder / "run", "-", picture]
    with picture.open("rb") as stream:
        done = subprocess.run([*SAT, *words], stdin=stream, capture_output=True, check=True)
    piped, named = (json.loads(line) for line in done.stdout.splitlines())
    assert piped == {**named, "picture": "<stdin>"}


def test_the_command_ends_quietly_when_its_reader_leaves(folder: Path) -> None:
    command = [*SAT, "caption", "--model", folder / "run", *[folder / "photos" / "*.png"] * 20]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals here")
def test_progress_is_for_a_terminal_and_captions_are_for_the_pipe(folder: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    command = [*SAT, "caption", "--model", folder / "run", folder / "photos" / "*.png"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, text=True, check=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert len(done.stdout.splitlines()) == 12
    assert "captioning" in shown
    assert "12/12" in shown
    quiet = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (quiet.stdout, quiet.stderr) == (done.stdout, "")


def test_without_a_model_in_the_package_the_remedy_is_named(
    sat: Sat, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show_attend_tell, "SHIPPED", tmp_path / "none")
    code, _, err = sat("caption", folder / "photos" / "1.png")
    assert code == 1
    assert "no model ships with this version" in err
    assert "--model OUT" in err


def test_the_model_in_the_package_is_the_default(
    sat: Sat, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = folder / "photos" / "1.png"
    expected = sat("caption", "--model", folder / "run", picture)
    monkeypatch.setattr(show_attend_tell, "SHIPPED", folder / "run" / "model")
    assert sat("caption", picture) == expected
    assert show_attend_tell.load()(picture).text == expected[1].strip()


def test_python_gives_every_kind_of_picture_the_same_caption(folder: Path) -> None:
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


def test_order_and_number_of_pictures_never_change_a_caption(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captioner = show_attend_tell.load(folder / "run")
    photos = sorted((folder / "photos").glob("*.png"))
    together = captioner(photos)
    backwards = captioner(photos[::-1])[::-1]
    monkeypatch.setattr(captioning, "AT_ONCE", 5)
    by_fives = captioner(photos)
    alone = [captioner(photo) for photo in photos]
    for others in (backwards, by_fives, alone):
        for one, other in zip(together, others, strict=True):
            assert one.words == other.words
            np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-5)


def test_look_here_changes_the_word_that_a_person_points_for(folder: Path) -> None:
    captioner = show_attend_tell.load(folder / "run")
    photo = folder / "photos" / "2.png"
    corner = np.eye(4)[0]  # of the 2 × 2 places

    def look_here(alpha: Floats, step: int, words: Integers) -> Floats:
        return np.broadcast_to(corner, alpha.shape) if step == 1 else alpha

    free = captioner(photo, beam=1, min_words=2)
    told = captioner(photo, beam=1, min_words=2, look=look_here)
    assert (free.look, told.look) == ("expected", "pointed")
    np.testing.assert_array_equal(told.attention[1].ravel(), corner)
    assert told.log_probs[0] == pytest.approx(free.log_probs[0])
    assert told.log_probs[1] != pytest.approx(free.log_probs[1])


@pytest.mark.parametrize("look", ["most-likely", "sampled"])
def test_a_caption_knows_that_each_word_looked_at_one_place(look: Look, folder: Path) -> None:
    told = show_attend_tell.load(folder / "run")(folder / "photos" / "2.png", look=look)
    assert told.look == look
    assert (np.sort(told.attention.reshape(-1, 4)) == [0, 0, 0, 1]).all()


def test_a_file_that_the_caller_opened_stays_open(folder: Path) -> None:
    captioner = show_attend_tell.load(folder / "run")
    with (folder / "photos" / "5.png").open("rb") as stream:
        first = captioner(stream)
        assert captioner(stream).text == first.text


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (io.StringIO("text"), "opened as text"),
        (np.zeros((0, 4, 3), np.uint8), "no pixels"),
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
    assert set(dir(show_attend_tell)) == {*show_attend_tell.__all__, "__version__"}


def test_settings_override_the_models_own_search(folder: Path) -> None:
    captioner = show_attend_tell.load(folder / "run")
    captioner.search = captioner.search.override(beam=3, consensus=5)
    changed = captioner.search.override(n_best=2)
    assert (changed.beam, changed.n_best, changed.consensus) == (3, 2, 5)
    assert captioner.search.override(n_best=7).beam == 7  # room for as many captions
    with pytest.raises(UserError, match="at most beam"):
        captioner.search.override(n_best=7, beam=4)


def test_any_sequence_of_pictures_is_captioned(folder: Path) -> None:
    captioner = show_attend_tell.load(folder / "run")
    paths = deque(sorted((folder / "photos").glob("*.png"))[:2])
    alone = [captioner(path).text for path in paths]
    assert [caption.text for caption in captioner(paths)] == alone
    assert captioner(str(paths[0])).text == captioner(paths[0].read_bytes()).text == alone[0]
