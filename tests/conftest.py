"""What several test files share."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from show_attend_tell import cli

if TYPE_CHECKING:
    from show_attend_tell.learning.run import Run

# Tests compute with small matrices: on a busy machine a second thread only makes them wait.
# Read when PyTorch is first imported, here and in the processes that tests start.
os.environ["OMP_NUM_THREADS"] = "1"

settings.register_profile("sat", deadline=None)  # a busy machine is no failure
settings.load_profile("sat")

Sat = Callable[..., tuple[int, str, str]]

# `sat` as a process of its own.
SAT = [sys.executable, "-c", "from show_attend_tell.cli import main; main()"]


@pytest.fixture
def sat(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Sat:
    """Run `sat ...` in this process: exit code, standard output, standard error."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sat", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "200")
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture(scope="session")
def exported_run(tmp_path_factory: pytest.TempPathFactory) -> "Run":
    """A small run with its exported model; made once, since an export takes many seconds."""
    from tests.small_photos import small_run

    return small_run(tmp_path_factory.mktemp("exported"))


@pytest.fixture(scope="session")
def exported_folder(request: pytest.FixtureRequest) -> Path:
    """A folder with `photos/` and `run/model/`: all that telling needs, no PyTorch.

    Where PyTorch is missing the folder is made elsewhere and given in SAT_EXPORTED.
    """
    if given := os.environ.get("SAT_EXPORTED"):
        return Path(given)
    run: Run = request.getfixturevalue("exported_run")
    return run.folder.parent
