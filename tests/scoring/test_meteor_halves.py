"""METEOR in two processes: the same rows, whatever becomes of the second."""

import shutil
import sys

import pytest

from show_attend_tell.scoring import meteor_halves
from show_attend_tell.scoring.meteor import meteor_rows
from show_attend_tell.scoring.meteor_halves import meteor_rows_in_halves
from tests.scoring.cases import needs_meteor

CAPTIONS = ["a dog runs", "two men ride horses", "a child in the snow", "\ud800 😀", ""]
REFERENCES = [
    ["a dog is running", "the hound ran"],
    ["men on horseback"],
    ["children play in snow", "a kid outside", "snow"],
    ["😀 smiles"],
    ["nothing at all"],
]


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meteor_halves, "WORTH_A_PROCESS", 2)


@needs_meteor
@pytest.mark.parametrize("program", [sys.executable, shutil.which("false"), shutil.which("true")])
def test_halves_give_the_rows_of_the_whole(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "executable", program)
    seen: list[int] = []
    rows = meteor_rows_in_halves(CAPTIONS, REFERENCES, seen.append)
    assert rows.tolist() == meteor_rows(CAPTIONS, REFERENCES).tolist()
    assert sum(seen) == len(CAPTIONS)


@needs_meteor
def test_the_second_process_does_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def count_here(captions: list[str], *others: object) -> object:
        counted.append(len(captions))
        return meteor_rows(captions, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(meteor_halves, "meteor_rows", count_here)
    meteor_rows_in_halves(CAPTIONS, REFERENCES)
    assert counted == [2]
