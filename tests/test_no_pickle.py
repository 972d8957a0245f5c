"""A pickle can run code when it is read, so none is: not in the sources, not through any door."""

import ast
import io
import pickle
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from show_attend_tell import SHIPPED, load
from show_attend_tell.captioning.exported import sealed
from show_attend_tell.cli.options import open_dataset
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.errors import UserError
from show_attend_tell.files import sha256_of, write_json
from tests.conftest import Sat

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(
    path for folder in ("show_attend_tell", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)
RUNS_CODE = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
SAFE_ONLY_WITH = {"torch.load": ("weights_only", True), "np.load": ("allow_pickle", False)}


def dangers(source: str) -> Iterator[str]:
    """What in a source could read a pickle."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
            yield from (name for name in names if name.partition(".")[0] in RUNS_CODE)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called.rpartition(".")[2] in ("read_pickle", "to_pickle") or called == "torch.save":
                yield called
            needed = SAFE_ONLY_WITH.get(called.replace("numpy.", "np."))
            given = {one.arg: ast.unparse(one.value) for one in node.keywords}
            if needed and given.get(needed[0]) != str(needed[1]):
                yield f"{called} without {needed[0]}={needed[1]}"


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import os, joblib",
        "x = torch.load(path)",
        "x = torch.load(path, weights_only=False)",
        "x = np.load(path)",
        "x = numpy.load(path, allow_pickle=True)",
        "pandas.read_pickle(path)",
    ],
)
def test_what_could_read_a_pickle_is_found(source: str) -> None:
    assert list(dangers(source))


def test_no_source_could_read_a_pickle() -> None:
    assert len(SOURCES) > 100
    found = {str(path): list(dangers(path.read_text("utf-8"))) for path in SOURCES}
    assert not {path: what for path, what in found.items() if what}


class Harmful:
    """Leaves a folder behind when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self.mark,)


def zipped(content: bytes) -> bytes:
    """A pickle as PyTorch lays it out."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("archive/data.pkl", content)
        file.writestr("archive/version", "3\n")
    return made.getvalue()


@pytest.fixture(params=["old", "new", "zip"])
def trap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[bytes]:
    """A pickle that leaves a mark when it is read; at the end there must be none."""
    harmful, mark = Harmful(tmp_path / "mark"), tmp_path / "mark"
    made = {
        "old": pickle.dumps(harmful, 0),
        "new": pickle.dumps(harmful, 4),
        "zip": zipped(pickle.dumps(harmful, 2)),
    }[request.param]
    yield made
    assert not mark.exists()


def test_the_trap_works(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Harmful(tmp_path / "mark")))
    assert (tmp_path / "mark").exists()


def spring(folder: Path, name: str, trap: bytes, open_it: Callable[[Path], object]) -> None:
    """Put the trap in the place of a file, and open the folder; then put the file back."""
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(trap)
    with pytest.raises(UserError) as refused:
        open_it(folder)
    assert refused.value.code.startswith(("model.", "data.", "request.", "picture."))
    (folder / name).write_bytes(whole)


def test_no_file_of_a_model_is_unpickled(trap: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(SHIPPED, folder)
    facts = load(folder).model.facts
    for name in ("model.json", *facts.files):
        spring(folder, name, trap, lambda folder: load(folder).model.example())
    for name in facts.files:  # vouched for, as a harmful exporter would
        whole = (folder / "model.json").read_bytes()
        files = facts.model_copy(update={"files": dict(facts.files)})
        (tmp_path / "hashed").write_bytes(trap)
        files.files[name] = sha256_of(tmp_path / "hashed")
        write_json(folder / "model.json", sealed(files.model_dump(mode="json")))
        spring(
            folder,
            name,
            trap,
            lambda folder: load(folder)(io.BytesIO(load(folder).model.example())),
        )
        (folder / "model.json").write_bytes(whole)


@pytest.mark.parametrize("name", ["x.pth", "x.pt", "x.bin", "x.npz", "x.safetensors"])
def test_no_weights_are_unpickled(name: str, trap: bytes, tmp_path: Path) -> None:
    make_encoder = pytest.importorskip("show_attend_tell.learning.encoders").make_encoder
    (tmp_path / name).write_bytes(b"")
    spring(tmp_path, name, trap, lambda folder: make_encoder("vgg16", weights=folder / name))


def test_no_file_of_prepared_data_is_unpickled(trap: bytes, tmp_path: Path) -> None:
    make_store = pytest.importorskip("tests.tiny_world").make_store
    folder = tmp_path / "store"
    make_store(folder, 4, 2)
    for name in sorted(path.name for path in folder.iterdir()):
        spring(folder, name, trap, lambda folder: FeatureStore.open(folder).read([0]))


@pytest.mark.parametrize("name", ["captions.csv", "captions.json", "captions.jsonl"])
def test_no_data_set_is_unpickled(name: str, trap: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"")
    for what in (tmp_path, tmp_path / name):
        spring(tmp_path, name, trap, lambda _, what=what: open_dataset(what, None, None, False))


def test_no_captions_are_unpickled(trap: bytes, tmp_path: Path, sat: Sat) -> None:
    (tmp_path / "told.json").write_bytes(trap)
    (tmp_path / "people.json").write_bytes(trap)
    code, _, err = sat("score", tmp_path / "told.json", tmp_path / "people.json")
    assert (code, err.count("Traceback")) == (1, 0)


@pytest.mark.slow
def test_no_file_of_a_run_is_unpickled(trap: bytes, exported_folder: Path, tmp_path: Path) -> None:
    run_module = pytest.importorskip("show_attend_tell.learning.run")
    folder = tmp_path / "run"
    shutil.copytree(exported_folder / "run", folder)
    for name in ("recipe.toml", "vocabulary.txt", "best.safetensors"):
        spring(folder, name, trap, run_module.Run.open)
