"""Nothing leaves the machine, and nothing is left on it but what was asked for."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import onnxruntime
import pytest

from show_attend_tell.private import cache_folder
from show_attend_tell.scoring.metrics.meteor_data import find_files, find_index
from tests.conftest import SAT
from tests.watched import Watched, needs_strace, python, watch

ROOT = Path(__file__).resolve().parents[1]
COFFEE = ROOT / "examples" / "coffee.jpg"

pytestmark = [pytest.mark.slow, needs_strace]


def assert_private(seen: Watched, left: Sequence[str]) -> None:
    """Only the files asked for; what the environment itself keeps may be made anew."""
    assert seen.code == 0, seen.err
    assert seen.network == []
    assert seen.left == sorted(f"work/{name}" for name in left)
    assert [path for path in seen.elsewhere if not path.startswith(str(cache_folder()))] == []


def test_the_watch_sees_what_any_language_does(tmp_path: Path) -> None:
    begin = "import ctypes, os, pathlib, socket; "
    asks = "s = socket.socket(); s.settimeout(1); s.connect_ex(('127.0.0.1', 9)); "
    seen = watch(tmp_path, *python("-c", begin + asks))
    assert any("connect" in call for call in seen.network)

    writes = "open(pathlib.Path.home() / 'a', 'w'); open(os.environ['TMPDIR'] + '/b', 'w')"
    seen = watch(tmp_path, *python("-c", begin + writes))
    assert (seen.network, seen.left) == ([], ["home/a", "tmp/b"])

    native = f"ctypes.CDLL(None).mkdir(b'{tmp_path}-other', 0o700)"
    assert watch(tmp_path, *python("-c", begin + native)).elsewhere == [f"{tmp_path}-other"]


@pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 29),
    reason="this ONNX Runtime has no uploader",
)
def test_without_us_onnx_runtime_leaves_a_device_id(exported_folder: Path, tmp_path: Path) -> None:
    graph = exported_folder / "run" / "model" / "look.onnx"
    program = f"import onnxruntime; onnxruntime.InferenceSession({str(graph)!r})"
    seen = watch(tmp_path, *python("-c", program))
    assert any("deviceid" in name for name in seen.left)

    seen = watch(tmp_path / "again", *python("-c", f"import show_attend_tell; {program}"))
    assert_private(seen, [])


PROGRAM = """
import sys, time
import show_attend_tell as sat
captioner = sat.load()
print(captioner(sys.argv[1], beam=1, consensus=0, views=1).text)
time.sleep(3)  # what waits before it sends has time to begin
"""

TWO_TRIALS = ("--trials", "2", "--search", "training.learning_rate=0.001,0.002")
FAST = ("--beam", "1", "--consensus", "0", "--views", "1")


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ([*SAT, "--help"], []),
        ([*SAT, "caption", COFFEE, *FAST], []),
        ([*SAT, "caption", COFFEE, *FAST, "--json", "--out", "out.jsonl"], ["out.jsonl"]),
        ([*SAT, "draw", COFFEE, "--out", "coffee.png"], ["coffee.png"]),
        ([*SAT, "draw", COFFEE, "--out", "coffee.html"], ["coffee.html"]),
        ([*SAT, "models"], []),
        ([*SAT, "doctor"], []),
        (python("-c", PROGRAM, str(COFFEE)), []),
    ],
    ids=lambda words: " ".join(map(str, words[-3:]))[:50] if words else "",
)
def test_captions_keep_to_themselves(
    words: Sequence[str | Path], left: Sequence[str], tmp_path: Path
) -> None:
    assert_private(watch(tmp_path, *map(str, words)), left)


def test_learning_keeps_to_itself(exported_folder: Path, tmp_path: Path) -> None:
    find_index(find_files()[1])  # kept in the environment: it need not be made while we watch
    work = tmp_path / "work"
    shutil.copytree(exported_folder / "photos", work / "photos")
    shutil.copy(exported_folder / "run" / "recipe.toml", work)

    def sat(*words: str, left: Sequence[str]) -> None:
        assert_private(watch(tmp_path, *SAT, *words), left)

    small = ("--encoder-weights", "random:3", "--recipe", "recipe.toml")
    store = ("index.json", "examples.jsonl", "features.f16", "checksums.u32", "skipped.json")
    sat("prepare", "photos", "store", *small, left=[f"store/{name}" for name in store])

    seen = watch(tmp_path, *SAT, "train", "store", "run", "--recipe", "recipe.toml")
    assert "work/run/curves.html" in seen.left
    assert_private(seen, [one for name in seen.left if (one := name[5:]).startswith("run/")])

    told = ["run/captions.jsonl", "run/scores.json"]
    sat("evaluate", "run", "store", "--split", "dev", left=told)
    sat("report", "run", "store", "--split", "dev", left=["run/report-dev.html"])
    sat("score", "run/captions.jsonl", "store", "--split", "dev", left=[])

    graphs = (f"{name}.onnx" for name in ("encode", "start", "look", "advance"))
    model = [f"run/model/{name}" for name in (*graphs, "model.json", "README.md")]
    sat("export", "run", "run/model", "--encoder-weights", "random:3", left=model)
    told = [f"told/{Path(name).name}" for name in told]
    sat("evaluate", "run/model", "photos", "--split", "dev", "--out", "told", left=told)

    seen = watch(tmp_path, *SAT, "tune", "store", "study", "--recipe", "recipe.toml", *TWO_TRIALS)
    assert {"work/study/study.db", "work/study/slices.png"} <= set(seen.left)
    assert_private(seen, [one for name in seen.left if (one := name[5:]).startswith("study/")])
