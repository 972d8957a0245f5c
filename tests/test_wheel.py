"""What people install: the wheel captions away from its sources, and its types reach their code."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.slow

PROGRAM = '''"""Captions of a folder, the doubtful ones last."""

import sys
from pathlib import Path

import show_attend_tell as sat


def captions(folder: Path) -> list[tuple[float, str, str]]:
    captioner: sat.Captioner = sat.load(threads=1)
    found = []
    for path in sorted(folder.glob("*.jpg")):
        try:
            caption: sat.Caption = captioner(path, beam=2)
        except sat.UserError as error:
            print(error.code, error, file=sys.stderr)
            continue
        found.append((caption.confidence, path.name, caption.text))
        sat.draw(caption, path)
    return sorted(found, reverse=True)


for confidence, name, text in captions(Path(sys.argv[1])):
    print(f"{confidence:.2f} {name} {text}")
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built and unpacked as an installer does."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    (folder / "user.py").write_text(PROGRAM)
    return folder


def run(folder: Path, *words: str | Path) -> str:
    """Run a Python that finds the unpacked wheel before anything else."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "site")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_captions_a_folder(installed: Path) -> None:
    where = run(installed, "-c", "import show_attend_tell; print(show_attend_tell.__file__)")
    assert where.startswith(str(installed / "site"))
    told = run(installed, "user.py", ROOT / "examples").splitlines()
    assert len(told) == len(list((ROOT / "examples").glob("*.jpg")))
    assert any("coffee.jpg" in line for line in told)
    assert "sat caption" in run(installed, "-m", "show_attend_tell", "caption", "--help")


def test_the_wheel_brings_its_types_its_licence_and_its_model(installed: Path) -> None:
    names = {path.name for path in installed.rglob("*")}
    assert {"py.typed", "LICENSE", "NOTICE", "model.json", "encode.onnx"} <= names
    assert {"page.css", "page.js", "report.css", "report.js"} <= names
    checked = run(installed, "-m", "mypy", "--strict", "--cache-dir", installed / "c", "user.py")
    assert "no issues found" in checked
    wrong = installed / "wrong.py"
    wrong.write_text('import show_attend_tell as sat\nsat.load(threads="3")\n')
    with pytest.raises(AssertionError, match="arg-type"):
        run(installed, "-m", "mypy", "--strict", "--cache-dir", installed / "c", "wrong.py")
