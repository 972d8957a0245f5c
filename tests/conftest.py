"""What several test files share."""

import sys
from collections.abc import Callable

import pytest

from show_attend_tell import cli

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
