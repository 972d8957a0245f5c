"""The command line as a person types it: messages, exit codes, files left behind."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import show_attend_tell
from show_attend_tell import cli
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.files import RunLock
from tests.conftest import Sat
from tests.tiny_world import make_store

COMMANDS = [
    *("prepare", "train", "tune", "evaluate", "score", "show", "export", "caption", "draw"),
    *("doctor", "models", "average"),
]
TINY = [
    "encoder.name=tiny",
    "encoder.grid=4",
    "encoder.size=none",
    "encoder.fit=crop",
    "encoder.augmentations=1",
    "vocabulary.minimum_count=1",
    "model.hidden=16",
    "model.word=8",
    "model.attention_width=8",
    "model.annotation_width=none",
    "training.epochs=1",
    "training.batch=32",
]


@pytest.fixture
def store(tmp_path: Path) -> FeatureStore:
    return make_store(tmp_path / "store", train=40, dev=6)[0]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, evaluated, and the store beside it: to be copied, not changed."""
    folder = tmp_path_factory.mktemp("trained")
    store = make_store(folder / "store", train=40, dev=6)[0].folder
    for words in (
        ["train", str(store), str(folder / "run"), *settings()],
        ["evaluate", str(folder / "run"), str(store), "--beam", "1"],
    ):
        cli.app(words, standalone_mode=False)
    return folder


def settings(*more: str) -> list[str]:
    return [word for setting in (*TINY, *more) for word in ("--set", setting)]


def test_help_of_every_command_shows_an_example(sat: Sat) -> None:
    for command in COMMANDS:
        code, out, _ = sat(command, "--help")
        assert code == 0
        assert f"sat {command} " in out


def test_help_and_version_import_neither_torch_nor_numpy() -> None:
    check = (
        "import sys\n"
        "from show_attend_tell.cli import app\n"
        "app(['--help'], standalone_mode=False)\n"
        "print([m for m in ('torch', 'numpy', 'onnxruntime') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_train_evaluate_and_show_leave_what_they_promise(
    sat: Sat, store: FeatureStore, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    code, _, err = sat("train", store.folder, run, *settings())
    assert code == 0
    assert "dev BLEU-1..4" in err
    assert "next: sat evaluate" in err

    code, out, _ = sat("evaluate", run, store.folder, "--beam", "2")
    assert code == 0
    for words in ("authors", "plain", "coco", "nrefs:1|n:6|tok:"):
        assert words in out
    scores = json.loads((run / "scores.json").read_text())
    assert scores["search"]["beam"] == 2
    assert set(scores["scores"]) == {"authors", "plain", "coco"}
    assert scores["scores"]["coco"]["BLEU-4-bp"]["signature"].startswith("nrefs:1|n:6|tok:ptb")
    lines = [json.loads(line) for line in (run / "captions.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == [str(row) for row in store.rows("dev")]

    code, out, _ = sat("show", run)
    assert code == 0
    assert "finished: the only epoch is done" in out
    code, out, _ = sat("show", store.folder, "--json")
    assert json.loads(out)["pictures"] == {"train": "40 of 40", "dev": "6 of 6"}


def test_train_refuses_a_used_folder_before_it_says_that_it_trains(
    sat: Sat, store: FeatureStore, tmp_path: Path
) -> None:
    _, _, err = sat("train", store.folder, tmp_path / "run", *settings())
    assert f"training into {tmp_path / 'run'}" in err
    code, _, err = sat("train", store.folder, tmp_path / "run", *settings())
    assert code == 1
    assert "add --resume" in err
    assert "training into" not in err


def test_train_says_what_speaks_against_trusting_the_result(
    sat: Sat, store: FeatureStore, tmp_path: Path
) -> None:
    counts = settings("vocabulary.minimum_count=30")
    _, _, err = sat("train", store.folder, tmp_path / "few", *counts)
    assert "6 dev pictures: a score of so few says little" in err
    assert "% of the words in the training captions are not in the vocabulary" in err
    enough, _ = make_store(tmp_path / "enough", train=40, dev=100)
    _, _, err = sat("train", enough.folder, tmp_path / "many", *settings())
    assert "dev pictures" not in err
    assert "not in the vocabulary" not in err


def become(path: Path, what: str) -> None:
    """Let something else be where a file was."""
    if path.exists():
        path.unlink()
    if what == "a folder":
        path.mkdir()
    elif what == "a pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("no named pipes here")
        os.mkfifo(path)
    else:
        path.write_bytes(b"\xff{")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", ["a folder", "a pipe", "rubbish"])
def test_a_damaged_file_of_a_run_is_a_sentence_and_no_wait(
    what: str, sat: Sat, trained: Path, tmp_path: Path
) -> None:
    run, store = trained / "run", trained / "store"
    for name in (
        *("recipe.toml", "vocabulary.txt", "best.safetensors", "last.safetensors"),
        *("log.jsonl", "scores.json", "lock"),
    ):
        broken = tmp_path / name
        shutil.copytree(run, broken)
        become(broken / name, what)
        for previous in broken.glob("*.previous.safetensors"):
            previous.unlink()
        answers = [
            sat("show", broken),
            sat("train", store, broken, "--resume"),
        ]
        if name in ("vocabulary.txt", "best.safetensors"):  # only what uses the model reads them
            answers.append(sat("evaluate", broken, store, "--out", tmp_path / "out"))
        for code, _, err in answers:
            assert code in (0, 1, 2)  # 2: a recipe
            assert "Traceback" not in err
        if (name, what) not in {("lock", "a pipe"), ("lock", "rubbish"), ("log.jsonl", "rubbish")}:
            assert any(f"{broken / name}: " in err for _, _, err in answers), (name, answers)


def test_evaluate_as_json_prints_what_it_writes(sat: Sat, trained: Path, tmp_path: Path) -> None:
    code, out, _ = sat(
        *("evaluate", trained / "run", trained / "store", "--json", "--out", tmp_path / "here")
    )
    assert code == 0
    assert json.loads(out) == json.loads((tmp_path / "here" / "scores.json").read_text())


def test_a_folder_with_brackets_in_its_name_is_named_as_it_is(sat: Sat, tmp_path: Path) -> None:
    """To the console they are markup: `[red]` vanished, and a `[/]` that ends nothing raised."""
    odd = tmp_path / "[" / "]" / "[red]"
    features, run = odd / "features", odd / "run"
    make_store(features, train=40, dev=2)
    for typed, says in (
        (["train", features, run, *settings()], f"sat evaluate {run} {features} --split test"),
        (["evaluate", run, features], f"captions and scores are in {run}"),
    ):
        code, _, err = sat(*typed)
        assert code == 0, err
        assert says in err


def test_two_trainers_on_one_run(sat: Sat, store: FeatureStore, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with RunLock(tmp_path / "run"):
        code, _, err = sat("train", store.folder, tmp_path / "run", *settings())
    assert code == 1
    assert "another trainer is running here" in err


def half_made(tmp_path: Path) -> Path:
    store, _ = make_store(tmp_path / "half", train=10, dev=2)
    (store.folder / "checksums.u32").write_bytes(bytes(12 * 4))
    return store.folder


def no_dev(tmp_path: Path) -> Path:
    return make_store(tmp_path / "no-dev", train=10, dev=0)[0].folder


# What is typed, the exit code, and words of the one-sentence answer; {tmp} is an empty folder.
MISTAKES: dict[str, tuple[list[str], int, str]] = {
    "missing folder": (["show", "{tmp}/none"], 1, "none"),
    "missing store": (["train", "{tmp}/none", "{tmp}/run"], 1, "not a feature store"),
    "half-made store": (
        ["train", "{half}", "{tmp}/run", "{tiny}"],
        1,
        "12 of 12 pictures have no features",
    ),
    "no dev pictures": (
        ["train", "{no_dev}", "{tmp}/run", "{tiny}"],
        1,
        "no pictures in split 'dev', only in train \\(10\\); put some into it in the data set",
    ),
    "no word often enough": (
        ["train", "{store}", "{tmp}/run", "{tiny}", "--set", "vocabulary.minimum_count=500"],
        1,
        "lower vocabulary.minimum_count \\(500\\)",
    ),
    "a vocabulary of two": (
        ["train", "{store}", "{tmp}/run", "{tiny}", "--set", "vocabulary.size=2"],
        1,
        "raise vocabulary.size \\(2\\)",
    ),
    "store of another encoder": (["train", "{store}", "{tmp}/run"], 1, "--set encoder.name=tiny"),
    "unknown recipe": (
        ["train", "{store}", "{tmp}/run", "--recipe", "flickr8k-sotf"],
        2,
        "flickr8k-soft",
    ),
    "unknown key": (
        ["train", "{store}", "{tmp}/run", "--set", "training.bach=3"],
        2,
        "training.batch",
    ),
    "wrong value": (
        ["train", "{store}", "{tmp}/run", "--set", "training.batch=many"],
        2,
        "training.batch",
    ),
    "unknown flag": (["train", "{store}", "{tmp}/run", "--resum"], 2, "--resume"),
    "unknown command": (["trian", "x"], 2, "train"),
    "unknown encoder": (["prepare", "{photos}", "{tmp}/out", "--encoder", "vgg91"], 2, "vgg19"),
    "no weights": (
        ["prepare", "{photos}", "{tmp}/out", "--encoder", "vgg19"],
        1,
        "--encoder-weights",
    ),
    "unknown layout": (["show", "{photos}", "--layout", "flickr8"], 2, "flickr8k"),
    "not a run": (["report", "{store}", "{store}"], 1, "not a run folder"),
    "neither a run nor a model": (["evaluate", "{store}", "{store}"], 1, "not a model folder"),
    "run is a file": (["train", "{store}", "{photos}/captions.csv", "{tiny}"], 1, "captions.csv"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_and_a_code(
    mistake: str, sat: Sat, store: FeatureStore, tmp_path: Path
) -> None:
    import re

    words, code, answer = MISTAKES[mistake]
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "captions.csv").write_text("picture,caption,split\na.png,a dog,train\n")
    places = {
        "tmp": tmp_path,
        "store": store.folder,
        "photos": photos,
        "half": half_made(tmp_path) if "{half}" in words else "",
        "no_dev": no_dev(tmp_path) if "{no_dev}" in words else "",
    }
    typed: list[str] = []
    for word in words:
        typed += settings() if word == "{tiny}" else [word.format(**places)]
    found, out, err = sat(*typed)
    assert found == code, err
    assert re.search(answer, err), err
    assert "Traceback" not in err
    assert out == ""


def test_version(sat: Sat) -> None:
    assert sat("--version")[:2] == (0, f"sat {show_attend_tell.__version__}\n")


def test_debug_shows_the_traceback(sat: Sat, tmp_path: Path) -> None:
    from show_attend_tell.errors import UserError

    with pytest.raises(UserError):
        sat("--debug", "show", tmp_path / "none")


def test_names_with_control_characters_are_printed_harmlessly(sat: Sat, tmp_path: Path) -> None:
    _, _, err = sat("show", tmp_path / "bad\x1b[31mname")
    assert "\x1b[31m" not in err
