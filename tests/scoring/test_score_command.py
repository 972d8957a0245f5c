"""`sat score` as it is typed: every format, every output, every locale."""

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from show_attend_tell.cli import score_tables
from show_attend_tell.cli.caption_file import FORMS
from show_attend_tell.errors import UserError
from show_attend_tell.scoring import BLEU, report, score_captions
from show_attend_tell.scoring.metrics import meteor
from show_attend_tell.scoring.metrics.meteor_data import MISSING
from tests.conftest import SAT, Sat
from tests.drawing.cases import caption_of
from tests.scoring import caption_files as files
from tests.scoring.caption_files import (
    FORMATS,
    Write,
    WriteReferences,
    write_csv,
    write_lines,
    write_text,
)
from tests.scoring.cases import needs_meteor, read_json, recorded
from tests.shared import SHARED, needs_shared
from tests.tiny_world import make_store

THEIRS = {
    **{name: f"Bleu_{name[-1]}" for name in BLEU},
    "METEOR": "METEOR",
    "ROUGE-L": "ROUGE_L",
    "CIDEr-D": "CIDEr",
}
ALL_BUT_METEOR = [word for name in THEIRS if name != "METEOR" for word in ("--metric", name)]
QUICK = ["--metric", "BLEU-1", "--metric", "CIDEr-D"]

CAPTIONS = {"a.jpg": "A dog runs .", "b.jpg": "two wet dogs", "c.jpg": "ein Hund, naß 😀 狗"}
OTHER = {"a.jpg": "a man", "b.jpg": "two dogs", "c.jpg": "a dog in the snow"}
REFERENCES = {
    "a.jpg": ["a dog runs", "the dog runs fast"],
    "b.jpg": ["two dogs", "wet dogs"],
    "c.jpg": ["a cat", "ein Hund"],
}


def typed(folder: Path, write: Write, write_references: WriteReferences) -> list[Path]:
    return [write(folder, CAPTIONS), *write_references(folder, REFERENCES)]


@pytest.fixture
def pair_(tmp_path: Path) -> list[Path]:
    """Captions and references, as they are typed."""
    return typed(tmp_path, files.candidates_jsonl, files.references_jsonl)


# The same numbers from every format.


def check_case_a(sat: Sat, words: list[Any], *, metrics: list[str]) -> None:
    code, out, _ = sat("score", *words, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["pictures"] == 1000
    values = {name: score["value"] for name, score in found["scores"].items()}
    expected = recorded("case_a_heldout_human")
    assert values == pytest.approx({name: expected[THEIRS[name]] for name in metrics}, abs=1e-9)
    for score in found["scores"].values():
        assert score["low"] < score["value"] < score["high"]
        assert score["signature"].startswith("nrefs:4|n:1000|tok:ptb-3.4.1|")


@needs_shared
@pytest.mark.parametrize(
    ("write", "write_references"),
    [
        pytest.param(
            *both,
            marks=[] if number in (4, 8) else [pytest.mark.slow],
            id="-".join(one.__name__ for one in both),
        )
        for number, both in enumerate(FORMATS)
    ],
)
def test_every_format_scores_as_recorded(
    sat: Sat, write: Write, write_references: WriteReferences, tmp_path: Path
) -> None:
    case = read_json("case_a_heldout_human.json.gz")
    words = [
        write(tmp_path, case["candidates"]),
        *write_references(tmp_path, case["references"]),
        *ALL_BUT_METEOR,
    ]
    check_case_a(sat, words, metrics=[name for name in THEIRS if name != "METEOR"])


@needs_shared
@needs_meteor
@pytest.mark.slow
def test_all_metrics_are_the_default_and_score_as_recorded(sat: Sat, tmp_path: Path) -> None:
    case = read_json("case_a_heldout_human.json.gz")
    words = [
        files.candidates_jsonl(tmp_path, case["candidates"]),
        *files.references_jsonl(tmp_path, case["references"]),
    ]
    check_case_a(sat, words, metrics=list(THEIRS))


@needs_shared
def test_the_order_of_pictures_does_not_matter(sat: Sat, tmp_path: Path) -> None:
    case = read_json("case_e_adversarial.json.gz")
    answers = []
    for turn in (list, reversed):
        folder = tmp_path / turn.__name__
        folder.mkdir()
        captions = {id_: case["candidates"][id_] for id_ in turn(list(case["candidates"])[:60])}
        references = {id_: case["references"][id_] for id_ in turn(sorted(captions))}
        words = [
            files.candidates_jsonl(folder, captions),
            *files.references_jsonl(folder, references),
        ]
        facts = json.loads(sat("score", *words, *ALL_BUT_METEOR, "--json")[1])
        answers.append((facts["scores"], facts["diversity"]))
    assert answers[0] == answers[1]


@needs_shared
@pytest.mark.parametrize("write", [files.candidates_jsonl, files.candidates_csv])
def test_adversarial_captions_score_as_recorded(sat: Sat, write: Write, tmp_path: Path) -> None:
    case = read_json("case_e_adversarial.json.gz")
    words = [
        write(tmp_path, case["candidates"]),
        *files.references_jsonl(tmp_path, case["references"]),
    ]
    code, out, _ = sat("score", *words, "--json", *ALL_BUT_METEOR)
    assert code == 0
    expected = recorded("case_e_adversarial")
    for name, score in json.loads(out)["scores"].items():
        assert score["value"] == pytest.approx(expected[THEIRS[name]], abs=1e-9), name


# Standard input, and columns of other names.


def type_in(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


STREAMS = {
    "json lines": '{"id": "a.jpg", "caption": "x"}\n{"id": "b.jpg", "caption": "y"}\n',
    "json": '{"a.jpg": "x", "b.jpg": "y"}',
    "a table": "image;caption\na.jpg;x\nb.jpg;y\n",
    "what sat caption prints": "photos/a.jpg\tx\nphotos/b.jpg\ty\n",
    "text": "x\ny\n",
}


@pytest.mark.parametrize("stream", STREAMS)
def test_captions_may_come_from_standard_input(
    stream: str, sat: Sat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    references = files.references_jsonl(tmp_path, {"a.jpg": ["x"], "b.jpg": ["z"]})
    type_in(monkeypatch, STREAMS[stream].encode())
    code, out, err = sat("score", "-", *references, *QUICK, "--json")
    assert code == 0, err
    assert json.loads(out)["captions"] == "standard input"
    assert json.loads(out)["scores"]["BLEU-1"]["value"] == pytest.approx(0.5)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_captions_may_come_from_a_pipe_with_a_name(pair_: list[Path]) -> None:
    """As bash gives one for `<(sat caption photos --json)`; it can be opened but once."""
    words = [*SAT, "score", str(pair_[1]), *QUICK]
    typed = 'sat=("$@"); "${sat[@]:0:4}" <(cat "$0") "${sat[@]:4}"'
    done = subprocess.run(
        ["bash", "-c", typed, str(pair_[0]), *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("/dev/fd/")
    assert ", 3 captions, protocol coco" in done.stdout


@pytest.mark.parametrize(
    ("content", "words", "code", "answer"),
    [
        (b"", ["-", "R"], 1, "sat: standard input: there are no captions in this file"),
        (b'{"id": 1}\n{"id": 2}', ["-", "R"], 1, "sat: standard input, line 1: no caption"),
        (b"caf\xe9\n", ["-", "R"], 1, "sat: standard input, line 1: not UTF-8"),
        (b"x\n", ["C", "-"], 2, "sat: standard input is read as captions, not as references"),
        (b"x\n", ["-", "R", "--against", "-"], 2, "standard input: named twice"),
    ],
)
def test_standard_input_is_called_by_its_name(
    content: bytes,
    words: list[str],
    code: int,
    answer: str,
    sat: Sat,
    pair_: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    type_in(monkeypatch, content)
    good = {"C": str(pair_[0]), "R": str(pair_[1])}
    found, out, err = sat("score", *(good.get(word, word) for word in words), *QUICK)
    assert (found, out) == (code, "")
    assert err.startswith(answer) or answer in err
    assert "/tmp" not in err.replace(str(pair_[0].parent), "")


def test_without_standard_input_one_sentence_says_so(pair_: list[Path]) -> None:
    words = [*SAT, "score", "-", str(pair_[1])]
    if os.name == "nt":
        pytest.skip("a shell is needed to close standard input")
    done = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("sat: standard input is closed; give a file")
    assert "Traceback" not in done.stderr


def test_columns_of_other_names_may_be_in_one_file_alone(sat: Sat, tmp_path: Path) -> None:
    generated = write_csv(tmp_path / "c.csv", ["Bild", "caption"], list(CAPTIONS.items()))
    references = tmp_path / "r.csv"
    rows = [f"{id_};{text}\n" for id_, text in files.flat(REFERENCES)]
    references.write_text("".join(["image;Text\n", *rows]), "utf-8")
    words = ["score", generated, references, *QUICK]
    code, _, err = sat(*words)
    assert (code, "r.csv, line 1: no caption: " in err) == (1, True)
    code, _, err = sat(*words, "--caption-column", "text")
    assert (code, "c.csv, line 1: no id: " in err) == (1, True)
    code, out, err = sat(*words, "--id-column", "bild", "--caption-column", "TEXT", "--json")
    assert code == 0
    assert json.loads(out)["scores"]["BLEU-1"]["value"] == pytest.approx(0.8)
    assert (
        "r.csv: took columns as separated by semicolons, 'text' as the caption and 'image' as"
        in err
    )


# Data sets.


@pytest.mark.parametrize("write", [files.data_set_folder, files.data_set_karpathy])
def test_a_data_set_brings_its_split_and_its_training_captions(
    sat: Sat, write: WriteReferences, tmp_path: Path
) -> None:
    generated = {
        **CAPTIONS,
        "b.jpg": "A dog in the snow .",
    }  # a training caption, but for its capital
    words = [files.candidates_jsonl(tmp_path, generated), *write(tmp_path, REFERENCES)]
    code, out, _ = sat("score", *words, *QUICK, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["references"].endswith(" (test)")
    assert found["diversity"]["unseen"] == pytest.approx(2 / 3)
    direct = score_captions(generated, REFERENCES, metrics=["BLEU-1", "CIDEr-D"])
    assert {name: one["value"] for name, one in found["scores"].items()} == {
        name: one.value for name, one in direct.items()
    }


def test_all_references_of_a_data_set_count(sat: Sat, tmp_path: Path) -> None:
    """A model learns from five captions a picture; scores take all, as coco-caption does."""
    references = {"a.jpg": [f"dog {n}" for n in range(7)]}
    words = [
        files.candidates_jsonl(tmp_path, {"a.jpg": "a dog"}),
        *files.data_set_karpathy(tmp_path, references),
    ]
    assert "nrefs:7|n:1|" in sat("score", *words, *QUICK)[1]


def test_prepared_features_are_a_data_set(sat: Sat, tmp_path: Path) -> None:
    store, _ = make_store(tmp_path / "store", train=5, dev=4)
    dev = [store.examples[row] for row in store.rows("dev")]
    generated = files.candidates_of_evaluate(tmp_path, {one.id: one.captions[0] for one in dev})
    code, out, _ = sat("score", generated, store.folder, "--split", "dev", "--json", *QUICK)
    assert code == 0
    assert json.loads(out)["scores"]["BLEU-1"]["value"] == pytest.approx(1, abs=1e-6)
    assert json.loads(out)["diversity"]["unseen"] is not None


def test_rows_that_name_splits_are_a_data_set(sat: Sat, tmp_path: Path) -> None:
    rows = [
        {"picture": "a.jpg", "caption": "a dog", "split": "test"},
        {"picture": "b.jpg", "caption": "a cat", "split": "val"},
        {"picture": "c.jpg", "caption": "a bird", "split": "train"},
    ]
    data = write_lines(tmp_path / "all.jsonl", rows)
    generated = files.candidates_jsonl(tmp_path, {"a.jpg": "a dog", "b.jpg": "a dog"})
    code, out, err = sat("score", generated, data, "--json", *QUICK)
    assert (code, json.loads(out)["pictures"]) == (0, 1)
    assert "left out 1 caption of pictures without references (b.jpg)" in err
    assert json.loads(sat("score", generated, data, "--split", "dev", "--json", *QUICK)[1])[
        "scores"
    ]["BLEU-1"]["value"] == pytest.approx(0.5)
    rows[1] |= {"picture": "a.jpg"}
    write_lines(data, rows)
    code, _, err = sat("score", generated, data)
    assert (code, "is in dev and also in test" in err) == (1, True)


@needs_shared
@pytest.mark.slow
def test_real_flickr8k_is_read_by_its_folder_and_by_its_file(sat: Sat, tmp_path: Path) -> None:
    case = read_json("case_b_nearest_other.json.gz")
    generated = files.candidates_of_caption(tmp_path, case["candidates"])
    data = SHARED / "data" / "flickr8k"
    for path in (data, data / "Flickr8k_text" / "Flickr8k.token.txt"):
        code, out, _ = sat("score", generated, path, "--metric", "BLEU-4", "--json")
        assert code == 0
        assert json.loads(out)["scores"]["BLEU-4"]["value"] == pytest.approx(
            recorded("case_b_nearest_other")["Bleu_4"], abs=1e-9
        )


@needs_shared
def test_real_coco_annotations_take_numbers_and_file_names(sat: Sat, tmp_path: Path) -> None:
    path = SHARED / "data" / "coco" / "captions_val2014_300.json.gz"
    with gzip.open(path) as stream:
        text = json.load(stream)
    rows = [{"image_id": one["id"], "caption": "a man on a horse"} for one in text["images"]]
    by_number = files.write_json(tmp_path / "numbers.json", rows)
    names = [{"file": one["file_name"], "caption": "a man on a horse"} for one in text["images"]]
    by_name = write_lines(tmp_path / "names.jsonl", names)
    answers = [
        json.loads(sat("score", generated, path, "--json", *QUICK)[1])["scores"]
        for generated in (by_number, by_name)
    ]
    assert answers[0] == answers[1]


# What is shown.


def test_a_pipe_gets_plain_columns(sat: Sat, pair_: list[Path]) -> None:
    code, out, _ = sat("score", *pair_, *QUICK)
    lines = out.split("\n")
    assert code == 0
    assert "3 captions, protocol coco" in lines[0]
    assert lines[1].split() == ["metric", "score", "95", "%", "interval"]
    assert lines[2].split()[:2] == ["BLEU-1", "80.00"]  # 3 of 3, 3 of 3, 2 of 4 words
    assert not set("│╭─┃") & set(out)
    for words in (
        "different words",
        "distinct-1",
        "distinct-2",
        "different captions",
        "words a caption",
        "lengths",
        "in percent",
        "BLEU: nrefs:2|n:3|tok:ptb-3.4.1",
        "CIDEr-D: nrefs:2|n:3|tok:ptb-3.4.1",
    ):
        assert words in out
    assert "unseen" not in out


@pytest.mark.parametrize(
    "form", [[], *(pytest.param([f], marks=pytest.mark.slow) for f in ("--json", "--markdown"))]
)
def test_the_command_ends_quietly_when_its_reader_has_left(
    pair_: list[Path], form: list[str]
) -> None:
    with subprocess.Popen(
        [*SAT, "score", *pair_, *QUICK, *form], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_terminal_gets_drawn_tables_of_usual_width() -> None:
    made = report.make_report(
        {"first.jsonl": CAPTIONS, "[bold]second.jsonl": OTHER},
        REFERENCES,
        metrics=["BLEU-4", "CIDEr-D"],
        training=["a man"],
    )
    out = io.StringIO()
    score_tables.print_report(
        made, Console(file=out, force_terminal=True, width=80, highlight=False)
    )
    assert "╭" in out.getvalue()
    assert "…" not in out.getvalue()
    assert "[bold]second.jsonl" in out.getvalue()


def test_json_holds_every_number_in_full(sat: Sat, pair_: list[Path]) -> None:
    found = json.loads(sat("score", *pair_, *QUICK, "--json")[1])
    direct = score_captions(CAPTIONS, REFERENCES, metrics=["BLEU-1", "CIDEr-D"], resamples=1000)
    for name, score in direct.items():
        assert found["scores"][name] == {
            "value": score.value,
            "low": score.low,
            "high": score.high,
            "signature": score.signature,
        }
    assert found["intervals"] == {"percent": 95, "resamples": 1000, "seed": 12345}
    assert found["diversity"]["lengths"] == {"3": 2, "4": 1}
    assert found["notes"] == []
    assert "against" not in found


def test_markdown_is_a_table(sat: Sat, pair_: list[Path]) -> None:
    code, out, _ = sat("score", *pair_, *QUICK, "--markdown")
    lines = out.split("\n")
    assert code == 0
    start = lines.index("| metric | score | 95 % interval |")
    assert lines[start + 1] == "| --- | ---: | ---: |"
    assert lines[start + 2].startswith("| BLEU-1 | 80.00 | ")
    assert any(line.startswith("- BLEU: `nrefs:2|n:3|") for line in lines)


def test_against_gives_difference_interval_and_p(
    sat: Sat, pair_: list[Path], tmp_path: Path
) -> None:
    other = files.candidates_csv(tmp_path, OTHER)
    words = ["score", *pair_, "--against", other, *QUICK]
    found = json.loads(sat(*words, "--json")[1])
    (against,) = found["against"]
    first, second = found["scores"]["BLEU-1"], against["scores"]["BLEU-1"]
    difference = against["comparison"]["BLEU-1"]
    assert difference["difference"] == first["value"] - second["value"]
    assert difference["low"] <= difference["difference"] <= difference["high"]
    assert 0 < difference["p_value"] <= 1
    assert set(against["comparison"]) == {"BLEU-1", "CIDEr-D"}
    for form in ([], ["--markdown"]):
        out = sat(*words, *form)[1]
        assert "difference" in out
        assert f"{100 * difference['difference']:+.2f}" in out
        assert f"{difference['p_value']:.4f}" in out


def test_equal_systems_do_not_differ(sat: Sat, pair_: list[Path], tmp_path: Path) -> None:
    same = files.candidates_csv(tmp_path, CAPTIONS)
    found = json.loads(sat("score", *pair_, "--against", same, *QUICK, "--json")[1])
    assert found["against"][0]["comparison"]["CIDEr-D"] == {
        "difference": 0,
        "low": 0,
        "high": 0,
        "p_value": 1,
    }


def test_per_caption_writes_a_line_a_picture_in_order(
    sat: Sat, pair_: list[Path], tmp_path: Path
) -> None:
    other = files.candidates_csv(tmp_path, OTHER)
    out = tmp_path / "each.jsonl"
    code, _, err = sat("score", *pair_, "--against", other, *QUICK, "--per-caption", out)
    rows = [json.loads(line) for line in out.read_text("utf-8").split("\n")[:-1]]
    assert code == 0
    assert "each.jsonl" in err
    assert [row["id"] for row in rows] == list(CAPTIONS)
    assert [row["caption"] for row in rows] == list(CAPTIONS.values())
    assert rows[1]["scores"]["BLEU-1"] == pytest.approx(1)
    (against,) = rows[0]["against"]
    assert against["caption"] == "a man"
    assert against["scores"]["BLEU-1"] < rows[0]["scores"]["BLEU-1"]


def test_several_systems_are_each_compared_with_the_first(
    sat: Sat, pair_: list[Path], tmp_path: Path
) -> None:
    other = files.candidates_csv(tmp_path, OTHER)
    third = files.candidates_json(tmp_path, {**CAPTIONS, "a.jpg": "two cats"})
    words = ["score", *pair_, "--against", other, "--against", third, *QUICK]
    alone = [
        json.loads(sat("score", *pair_, "--against", one, *QUICK, "--json")[1])["against"][0]
        for one in (other, third)
    ]
    found = json.loads(sat(*words, "--json")[1])
    assert found["against"] == alone
    assert [one["captions"] for one in alone] == [str(other), str(third)]
    for form in ([], ["--markdown"]):
        out = " ".join(sat(*words, *form)[1].replace("|", " ").split())
        for label, one in zip(("second", "third"), alone, strict=True):
            assert f"metric first {label} difference 95 % interval p" in out
            for difference in one["comparison"].values():
                assert f"{difference['p_value']:.4f}" in out
        assert "no correction for these 4 comparisons is applied" in out
        assert "diversity first second" in out
        assert "diversity third" in out
    alone_metric = sat("score", *pair_, "--against", other, "--metric", "bleu-1")[1]
    assert "no correction" not in alone_metric
    each = tmp_path / "each.jsonl"
    sat(*words, "--per-caption", each)
    row = json.loads(each.read_text("utf-8").split("\n")[0])
    assert [one["caption"] for one in row["against"]] == ["a man", "two cats"]


# Only some of the pictures.


def test_a_subset_is_scored_counted_and_named_in_the_signature(
    sat: Sat, pair_: list[Path], tmp_path: Path
) -> None:
    few = {id_: CAPTIONS[id_] for id_ in ("a.jpg", "b.jpg")}
    words = [files.candidates_csv(tmp_path, few), pair_[1], *QUICK]
    code, out, err = sat("score", *words)
    assert (code, out) == (1, "")
    assert "no caption of 1 of the 3 pictures" in err
    assert "or score only the pictures that have both with --subset" in err
    code, out, err = sat("score", *words, "--subset", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["pictures"], found["subset_of"]) == (2, 3)
    assert "scored 2 of the 3 pictures" in err
    assert "left out 1 (c.jpg)." in err
    direct = score_captions(few, {id_: REFERENCES[id_] for id_ in few}, metrics=["BLEU-1"])
    assert found["scores"]["BLEU-1"]["value"] == direct["BLEU-1"].value
    signature = found["scores"]["BLEU-1"]["signature"]
    assert signature.startswith("nrefs:2|n:2|subset:of3,")
    assert len(signature) > len(direct["BLEU-1"].signature)
    for form in ([], ["--markdown"]):
        assert "2 of 3 pictures" in sat("score", *words, "--subset", *form)[1]
    # Another subset of as many pictures is called otherwise.
    other = files.candidates_csv(tmp_path, {id_: CAPTIONS[id_] for id_ in ("a.jpg", "c.jpg")})
    found = json.loads(sat("score", other, *words[1:], "--subset", "--json")[1])
    assert found["scores"]["BLEU-1"]["signature"] != signature


def of_caption(path: Path, captions: dict[str, str | None]) -> Path:
    """What `sat caption` writes into a file of this ending; None where a picture failed."""
    form = FORMS[{".jsonl": "json", ".csv": "csv"}[path.suffix]]
    rows = [] if form.header is None else [form.header]
    for name, text in captions.items():
        failure = UserError("picture.truncated", f"photos/{name}: cut off, copy it again")
        rows += form.lines(f"photos/{name}", failure if text is None else [caption_of(text)])
    return write_text(path, rows)


@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
def test_pictures_that_failed_are_missing_captions(
    sat: Sat, tmp_path: Path, pair_: list[Path], ending: str
) -> None:
    generated = {"a.jpg": "a dog", "b.jpg": None, "c.jpg": "a cat"}
    path = of_caption(tmp_path / f"generated{ending}", generated)
    words = [path, pair_[1], *QUICK]
    code, out, err = sat("score", *words)
    assert (code, out) == (1, "")
    assert "no caption of 1 of the 3 pictures" in err
    assert "1 picture failed to be captioned (photos/b.jpg)" in err
    assert "or score only the pictures that have both with --subset" in err
    code, out, err = sat("score", *words, "--subset", "--json")
    assert code == 0
    assert "1 picture failed to be captioned (photos/b.jpg)" in err
    assert json.loads(out)["pictures"] == 2
    without = of_caption(tmp_path / f"without{ending}", {k: v for k, v in generated.items() if v})
    same = json.loads(sat("score", without, *words[1:], "--subset", "--json")[1])
    assert same["scores"] == json.loads(out)["scores"]


@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
def test_nothing_but_failures_cannot_be_scored(
    sat: Sat, tmp_path: Path, pair_: list[Path], ending: str
) -> None:
    path = of_caption(tmp_path / f"generated{ending}", dict.fromkeys(REFERENCES))
    code, out, err = sat("score", path, pair_[1], *QUICK, "--subset")
    assert (code, out) == (1, "")
    assert "no captions, only 3 pictures that failed (photos/a.jpg, photos/b.jpg" in err


def test_a_subset_of_all_is_no_subset(sat: Sat, pair_: list[Path]) -> None:
    _, expected, _ = sat("score", *pair_, *QUICK)
    assert sat("score", *pair_, *QUICK, "--subset")[1] == expected


def test_a_subset_is_what_all_systems_have(sat: Sat, pair_: list[Path], tmp_path: Path) -> None:
    second = files.candidates_csv(tmp_path, {id_: OTHER[id_] for id_ in ("a.jpg", "b.jpg")})
    third = files.candidates_json(tmp_path, {id_: OTHER[id_] for id_ in ("b.jpg", "c.jpg")})
    words = [*pair_, "--against", second, "--against", third, *QUICK, "--subset", "--json"]
    code, out, err = sat("score", *words)
    assert (code, json.loads(out)["pictures"]) == (0, 1)
    assert "scored 1 of the 3 pictures" in err
    third = files.candidates_json(tmp_path, {"c.jpg": "a dog"})
    code, _, err = sat("score", *words)
    assert (code, "no picture has a caption in every file" in err) == (1, True)


def test_a_subset_needs_ids(sat: Sat, tmp_path: Path) -> None:
    generated = write_text(tmp_path / "c.txt", ["a dog"])
    references = write_text(tmp_path / "r.txt", ["a dog", "a cat"])
    code, _, err = sat("score", generated, references, "--subset")
    assert (code, "c.txt has 1 caption and" in err) == (1, True)
    assert "--subset needs captions and references with ids" in err


def test_training_captions_may_be_a_file_of_text(
    sat: Sat, pair_: list[Path], tmp_path: Path
) -> None:
    training = write_text(tmp_path / "train.txt", ["a dog runs", "a bird"])
    out = sat("score", *pair_, "--training", training, *QUICK)[1]
    assert "unseen in training" in out
    assert "66.7%" in out


def test_without_meteors_data_one_line_says_what_to_install(
    sat: Sat, pair_: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise MISSING

    monkeypatch.setattr(meteor, "find_files", missing)
    code, out, err = sat("score", *pair_, "--json")
    assert code == 0
    assert list(json.loads(out)["scores"]) == [*BLEU, "ROUGE-L", "CIDEr-D"]
    assert err.count("\n") == 1
    assert "METEOR is left out." in err
    assert 'pip install "show_attend_tell[meteor]"' in err
    code, _, err = sat("score", *pair_, "--metric", "METEOR")
    assert (code, "show_attend_tell[meteor]" in err) == (1, True)


@needs_meteor
@pytest.mark.slow
def test_meteor_tells_of_every_caption() -> None:
    done: list[int] = []
    report.make_report(
        {"one": CAPTIONS, "two": OTHER}, REFERENCES, metrics=["METEOR"], watch=done.append
    )
    assert done == [1] * 6


# What is odd gets a number; what is wrong gets a sentence.


@pytest.mark.parametrize(
    "caption",
    [
        *("", " ", "...", "\u2028", "a\u2028dog", "a\rdog", "a\x85dog", "\0", "a\tdog", "<unk>"),
        *("0", "😀", "狗在跑", "كلب يجري", "zxqv wxyz", "|||", "a dog " * 500),
    ],
    ids=lambda text: repr(text)[:12],
)
def test_odd_captions_are_scored_and_shift_nothing(sat: Sat, caption: str, tmp_path: Path) -> None:
    """The odd one is the first: were it cut in two, those after it would be others' captions."""
    captions = {**CAPTIONS, "a.jpg": caption}
    references = {**REFERENCES, "c.jpg": [CAPTIONS["c.jpg"]]}
    each = tmp_path / "each.jsonl"
    for write in (files.candidates_jsonl, files.candidates_json):
        words = [write(tmp_path, captions), *files.references_jsonl(tmp_path, references)]
        code, _, _ = sat("score", *words, *QUICK, "--per-caption", each)
        rows = [json.loads(line) for line in each.read_text("utf-8").split("\n")[:-1]]
        assert code == 0
        assert [row["caption"] for row in rows] == list(captions.values())
        assert rows[2]["scores"]["BLEU-1"] == pytest.approx(1)


def test_captions_none_of_whose_words_is_known_score_nothing(sat: Sat, tmp_path: Path) -> None:
    words = [
        files.candidates_jsonl(tmp_path, dict.fromkeys(CAPTIONS, "zxqv wxyz")),
        *files.references_jsonl(tmp_path, REFERENCES),
    ]
    scores = json.loads(sat("score", *words, *ALL_BUT_METEOR, "--json")[1])["scores"]
    # Not quite nothing: BLEU's two tiny numbers stay.
    assert all(score["value"] == pytest.approx(0, abs=1e-6) for score in scores.values())


@pytest.mark.parametrize("number", [1, 5, 50])
def test_any_number_of_references_is_in_the_signature(
    sat: Sat, number: int, tmp_path: Path
) -> None:
    references = {id_: [f"dog {n}" for n in range(number)] for id_ in CAPTIONS}
    words = [files.candidates_csv(tmp_path, CAPTIONS), *files.references_text(tmp_path, references)]
    code, _, err = sat("score", *words)
    assert (code, "give both as text" in err) == (1, True)
    words[0] = files.candidates_text(tmp_path, CAPTIONS)
    assert f"nrefs:{number}|n:3|" in sat("score", *words, *QUICK)[1]


def test_notes_are_told_once_on_standard_error_and_in_json(
    sat: Sat, pair_: list[Path], tmp_path: Path
) -> None:
    generated = files.candidates_of_caption(
        tmp_path, {**CAPTIONS, "a.jpg": "", "\x1b[2Jx.jpg": "x"}
    )
    code, out, err = sat("score", generated, pair_[1], *QUICK, "--json")
    notes = json.loads(out)["notes"]
    assert code == 0
    assert [words in note for words, note in zip(WORDS_OF_NOTES, notes, strict=True)] == [True] * 3
    assert all(err.count(words) == 1 for words in WORDS_OF_NOTES)
    assert "\x1b" not in err


WORDS_OF_NOTES = (
    "by file name ('photos/a.jpg' is 'a.jpg')",
    "left out 1 caption of pictures",
    "1 caption is empty",
)

# What is typed, the exit code, and words of the answer; C and R are good files, {tmp} their folder.
MISTAKES: dict[str, tuple[list[str], int, str]] = {
    "no references": (["C"], 2, "references"),
    "unknown metric": (["C", "R", "--metric", "cidr"], 2, "did you mean CIDEr-D?"),
    "unknown metric in small letters": (["C", "R", "--metric", "blue4"], 2, "did you mean BLEU-4"),
    "unknown protocol": (["C", "R", "--protocol", "cocoo"], 2, "coco"),
    "two kinds of output": (["C", "R", "--json", "--markdown"], 2, "exclude each other"),
    "no such column": (["C", "R", "--id-column", "Bild"], 2, "--id-column Bild: no file has such"),
    "no such columns": (["C", "R", "--caption-column", "x"], 2, "--caption-column x: no file has"),
    "against itself": (["C", "R", "--against", "C"], 2, "compare with another file"),
    "against another twice": (
        ["C", "R", "--against", "{tmp}/few.csv", "--against", "{tmp}/few.csv"],
        2,
        "few.csv: named twice; compare with another file",
    ),
    "split of text": (["{tmp}/c.txt", "{tmp}/r.txt", "--split", "test"], 2, "leave --split out"),
    "split of texts": (["{tmp}/c.txt", "{tmp}/r.txt", "{tmp}/r.txt", "--split", "dev"], 2, "leave"),
    "unknown split": (["C", "{tmp}/mine", "--split", "tset"], 2, "there are test, train"),
    "text and a data set": (["{tmp}/c.txt", "{tmp}/mine"], 1, "give the captions with ids"),
    "missing captions": (["{tmp}/none.jsonl", "R"], 1, "none.jsonl: there is no such file"),
    "missing references": (["C", "{tmp}/none"], 1, "none: there is no such file"),
    "missing training": (["C", "R", "--training", "{tmp}/none.txt"], 1, "none.txt: there is no"),
    "captions in a folder": (["{tmp}", "R"], 1, "captions.jsonl"),
    "folder of nothing": (["C", "{tmp}/empty"], 1, "no data set was recognised"),
    "no place to write": (
        ["C", "R", "--per-caption", "{tmp}/none/x.jsonl"],
        1,
        "cannot be written",
    ),
    "a missing caption": (["{tmp}/few.csv", "R"], 1, "few.csv: no caption of 2 of the 3 pictures"),
    "a missing caption of the other": (["C", "R", "--against", "{tmp}/few.csv"], 1, "few.csv: no"),
    "lines of other files": (["{tmp}/c.txt", "{tmp}/r.txt"], 1, "c.txt has 3 captions and"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_by_one_sentence(
    mistake: str, sat: Sat, pair_: list[Path], tmp_path: Path
) -> None:
    words, expected, answer = MISTAKES[mistake]
    write_text(tmp_path / "c.txt", list(CAPTIONS.values()))
    write_text(tmp_path / "r.txt", ["a dog", "a cat"])
    write_csv(tmp_path / "few.csv", ["id", "caption"], [["b.jpg", "a dog"]])
    files.data_set_folder(tmp_path, REFERENCES)
    (tmp_path / "empty").mkdir()
    good = {"C": str(pair_[0]), "R": str(pair_[1])}
    code, out, err = sat(
        "score", *(good.get(word, word.replace("{tmp}", str(tmp_path))) for word in words)
    )
    assert (code, out) == (expected, "")
    assert answer in err
    assert "Traceback" not in err


# Wrong files, as captions and as references.
WRONG_FILES = {
    "a number a line": ("x.jsonl", "7\n"),
    "no keys that are known": ("x.jsonl", '{"a": 1}\n'),
    "no text": ("x.jsonl", '{"id": 1, "caption": 2, "references": 3}\n'),
    "no id": ("x.jsonl", '{"id": null, "caption": "a", "references": ["a"]}\n'),
    "a split that is none": ("x.jsonl", '{"id": 1, "caption": 2, "split": 3}\n'),
    "a number": ("x.json", "7"),
    "numbers": ("x.json", "[7]"),
    "an object": ("x.json", '{"a": 1}'),
    "annotations alone": ("x.json", '{"annotations": [{"image_id": 1, "caption": 7}]}'),
    "images that are none": ("x.json", '{"images": [7], "annotations": []}'),
    "annotations that are none": ("x.json", '{"images": [], "annotations": [7]}'),
    "captions_ of COCO": ("captions_x.json", '{"images": 7, "annotations": [7]}'),
    "columns of numbers": ("x.json", '{"id": [1], "caption": [2], "references": [3]}'),
    "no columns": ("x.csv", "a,b\n1,2\n"),
}
WORDS_OF_PYDANTIC = re.compile(
    r"Input should|[Ff]ield required|String should|Value error|\(whole\)"
)


@pytest.mark.parametrize("problem", WRONG_FILES)
@pytest.mark.parametrize("side", ["captions", "references"])
def test_what_is_wrong_in_a_file_is_said_in_words_of_ours(
    problem: str, side: str, sat: Sat, pair_: list[Path], tmp_path: Path
) -> None:
    name, content = WRONG_FILES[problem]
    (tmp_path / name).write_text(content)
    words = [tmp_path / name, pair_[1]] if side == "captions" else [pair_[0], tmp_path / name]
    code, out, err = sat("score", *words)
    assert (code, out) == (1, "")
    assert err.startswith(f"sat: {tmp_path / name}")
    assert not WORDS_OF_PYDANTIC.search(err)


def test_references_may_be_lists_a_line(sat: Sat, tmp_path: Path) -> None:
    generated = files.candidates_text(tmp_path, CAPTIONS)
    references = write_lines(tmp_path / "r.jsonl", [[*own] for own in REFERENCES.values()])
    code, out, _ = sat("score", generated, references, *QUICK, "--json")
    assert code == 0
    assert json.loads(out)["scores"]["BLEU-1"]["value"] == pytest.approx(0.8)


def test_nothing_is_written_of_a_report_that_failed(
    sat: Sat, pair_: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise UserError("data.row", "no")

    monkeypatch.setattr(report, "make_report", fail)
    code, _, _ = sat("score", *pair_, *QUICK, "--per-caption", tmp_path / "each.jsonl")
    assert code == 1
    assert not (tmp_path / "each.jsonl").exists()


# Help.


def test_help_teaches(sat: Sat) -> None:
    code, out, _ = sat("score", "--help")
    words = " ".join(out.split())
    assert code == 0
    assert "<bool>" not in out and "BOOLEAN" not in out
    assert words.count("sat score ") == 1 + 3  # usage, and three examples
    for panel in ("Reading", "Scoring", "Comparing", "Output"):
        assert f"─ {panel} ─" in out
    for option in ("--against", "--subset", "--id-column", "--caption-column", "SPICE", "(repeat"):
        assert option in words
    assert words.index("Score captions against references") < words.index("sat score results.json")


def test_metrics_are_named_in_any_case(sat: Sat, pair_: list[Path]) -> None:
    words = ["--metric", "cider", "--metric", "Bleu_4", "--metric", "BLEU-4"]
    code, out, _ = sat("score", *pair_, *words, "--json")
    assert (code, list(json.loads(out)["scores"])) == (0, ["CIDEr-D", "BLEU-4"])


# In a process of its own.

RUN = """
import locale, sys
print(locale.setlocale(locale.LC_ALL, ""), locale.localeconv()["decimal_point"], file=sys.stderr)
from show_attend_tell.cli import main
sys.argv = ["sat", "score", *sys.argv[1:]]
try:
    main()
finally:
    print([name for name in ("torch", "onnxruntime") if name in sys.modules], file=sys.stderr)
"""


def in_a_process(words: list[Any], **environment: str) -> tuple[str, list[str]]:
    """Standard output, and the lines of standard error."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, words)],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", **environment},
    )
    return done.stdout.decode(), done.stderr.decode().split("\n")


def test_no_torch_is_imported(pair_: list[Path]) -> None:
    _, messages = in_a_process([*pair_, *QUICK, "--json"])
    assert messages[-2] == "[]"


@pytest.fixture(scope="session")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with French and Turkish locales, made for this test."""
    folder = tmp_path_factory.mktemp("locales")
    if not shutil.which("localedef"):
        pytest.skip("LOCALES NOT TESTED: localedef is not installed")
    for name in ("fr_FR", "tr_TR"):
        made = subprocess.run(
            ["localedef", "-i", name, "-f", "UTF-8", str(folder / f"{name}.UTF-8")],
            capture_output=True,
            text=True,
        )
        if not (folder / f"{name}.UTF-8" / "LC_CTYPE").exists():
            pytest.skip(f"LOCALES NOT TESTED: localedef cannot make {name}: {made.stderr}")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fr_FR.UTF-8", "tr_TR.UTF-8"])
def test_numbers_are_the_same_where_the_decimal_point_is_a_comma(
    sat: Sat, name: str, locales: Path, tmp_path: Path
) -> None:
    # In Turkish the small letter of I is not i; captions must not notice.
    captions = {**CAPTIONS, "a.jpg": "AN ICY HILL IN IRAN", "b.jpg": "Two dogs, 1,5 m."}
    references = {**REFERENCES, "a.jpg": ["an icy hill in iran"]}
    for form in (["--json"], [], ["--markdown"]):
        words = [
            files.candidates_csv(tmp_path, captions),
            *files.references_jsonl(tmp_path, references),
            *[*ALL_BUT_METEOR, *form],
        ]
        expected = sat("score", *words)[1]
        out, messages = in_a_process(words, LC_ALL=name, LOCPATH=str(locales), COLUMNS="200")
        assert messages[0] == f"{name} ,"
        assert out == expected


@pytest.mark.parametrize(
    "form", [None, *(pytest.param(f, marks=pytest.mark.slow) for f in ("--json", "--markdown"))]
)
def test_a_locale_without_unicode_stops_nothing(form: str | None, tmp_path: Path) -> None:
    words = [
        files.candidates_jsonl(tmp_path, {"ça.jpg": "ça", "b": ""}),
        *files.references_jsonl(tmp_path, {"ça.jpg": ["a cat"], "b": ["ça"]}),
        *[*QUICK, *([form] if form else [])],
    ]
    out, _ = in_a_process(words, LC_ALL="C")
    assert out.isascii()
    if form == "--json":
        assert json.loads(out)["scores"]["BLEU-1"]["value"] == pytest.approx(0, abs=1e-12)
    else:
        assert "CIDEr-D" in out
