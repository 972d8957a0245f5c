"""What several test files share."""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from show_attend_tell import cli

if TYPE_CHECKING:
    from show_attend_tell.learning.run import Run

# Tests compute with small matrices: on a busy machine a second thread only makes them wait.
# Read when PyTorch is first imported, here and in the processes that tests start.
os.environ["OMP_NUM_THREADS"] = "1"

Sat = Callable[..., tuple[int, str, str]]


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
