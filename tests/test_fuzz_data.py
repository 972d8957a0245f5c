"""Mutated data files are read or refused with a sentence; `benchmarks/fuzz_data.py` makes more."""

import time
from pathlib import Path

import pytest

from benchmarks import fuzz_data


def test_mutated_files_are_read_or_refused() -> None:
    counts, bad, slowest = fuzz_data.fuzz(range(208))
    assert bad == []
    assert slowest < fuzz_data.SECONDS
    assert {kind for kind, _ in counts} == {kind.name for kind in fuzz_data.make_kinds()}
    read = sum(number for (_, answer), number in counts.items() if answer == "read")
    assert 20 < read < 150


def test_every_file_is_read_when_nothing_is_done_to_it(tmp_path: Path) -> None:
    for kind in fuzz_data.make_kinds():
        folder = tmp_path / kind.name.replace(".", "-")
        folder.mkdir()
        for name, text in {**kind.beside, kind.name: kind.content}.items():
            (folder / name).write_text(text, "utf-8")
        kind.read(folder / kind.name)


@pytest.mark.parametrize(
    ("reader", "problem"),
    [
        (lambda path: [][0], "IndexError at test_fuzz_data.py"),
        (lambda path: time.sleep(1), " after "),
    ],
)
def test_what_neither_reads_nor_refuses_is_found(
    reader: object, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = fuzz_data.Kind("captions.csv", "picture,caption\na,b\n", reader)  # type: ignore[arg-type]
    monkeypatch.setattr(fuzz_data, "make_kinds", lambda: [kind])
    monkeypatch.setattr(fuzz_data, "SECONDS", 0.05)
    _, bad, _ = fuzz_data.fuzz([0])
    assert any(problem in what for _, what in bad)
