"""The telling half passes its tests where PyTorch is not installed and there is no network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parent
TELLING = (
    "drawing",
    "test_bad_input.py",
    "test_caption.py",
    "test_caption_command.py",
    "test_doctor.py",
    "test_evaluation.py",
    "test_lines.py",
    "test_pictures.py",
    "test_search.py",
    "test_shipped.py",
)


def environment(exported: Path) -> dict[str, str]:
    paths = (TESTS / "alone", TESTS.parent, os.environ.get("PYTHONPATH"))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(path) for path in paths if path),
        "SAT_EXPORTED": str(exported),
    }


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ("import torch", "No module named 'torch'"),
        ("import show_attend_tell.learning.loop.trainer", "No module named"),
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "no network in this test"),
    ],
)
def test_alone_is_alone(statement: str, answer: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", statement],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert answer in done.stderr


@pytest.mark.timeout(900)
def test_telling_passes_its_tests_alone(exported_folder: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *(TESTS / name for name in TELLING)),
            *("-k", "not 100_000 and not browser"),  # a browser knows nothing of PyTorch
        ],
        env=environment(exported_folder),
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert " skipped" not in done.stdout


def test_a_command_of_the_other_half_names_the_extra(exported_folder: Path) -> None:
    from tests.conftest import SAT

    done = subprocess.run(
        [*SAT, "train", "store", "run"],
        env=environment(exported_folder),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "pip install 'show_attend_tell[train]'" in done.stderr
