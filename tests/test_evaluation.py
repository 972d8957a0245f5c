"""`sat evaluate` of a model folder: captions of a split by its own search, and their scores."""

import json
import shutil
from pathlib import Path

import pytest

from show_attend_tell import load
from show_attend_tell.data.layouts import load_dataset
from show_attend_tell.scoring import score_captions
from show_attend_tell.scoring.metrics import meteor
from show_attend_tell.scoring.metrics.meteor_data import MISSING
from tests.conftest import Sat

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("views", [1, 3])
def test_its_captions_are_scored(
    views: int, sat: Sat, exported_folder: Path, tmp_path: Path
) -> None:
    model, photos, here = exported_folder / "run/model", exported_folder / "photos", tmp_path / "e"
    words = ["evaluate", model, photos, "--beam", 2, "--views", views, "--out", here]
    code, out, err = sat(*words, "--json")
    assert code == 0
    assert "captions and scores are in" in err
    facts = json.loads(out)
    assert facts == json.loads((here / "scores.json").read_text())
    assert (facts["pictures"], facts["search"]["beam"], facts["search"]["views"]) == (4, 2, views)

    people = {one.id: one.captions for one in load_dataset(photos).examples if one.split == "dev"}
    lines = [json.loads(line) for line in (here / "captions.jsonl").read_text().splitlines()]
    captions = {line["id"]: line["caption"] for line in lines}
    captioner = load(model)
    assert captions == {
        name: " ".join(captioner(photos / name, beam=2, views=views).words) for name in people
    }
    for recipe, penalty in (("authors", "nobp"), ("plain", "nobp"), ("coco", "bp")):
        expected = score_captions(captions, people, protocol=recipe)["BLEU-4"].value
        assert facts["scores"][recipe][f"BLEU-4-{penalty}"]["value"] == pytest.approx(expected)


def test_one_place_of_one_view_is_looked_at(sat: Sat, exported_folder: Path) -> None:
    words = ["evaluate", exported_folder / "run/model", exported_folder / "photos", "--views", 3]
    code, out, _ = sat(*words, "--look", "most-likely", "--json")
    assert code == 0
    assert json.loads(out)["search"]["views"] == 1


def test_a_model_is_left_as_it_is(sat: Sat, exported_folder: Path) -> None:
    model = exported_folder / "run/model"
    before = sorted(model.iterdir())
    code, out, _ = sat("evaluate", model, exported_folder / "photos")
    assert code == 0
    assert "model, dev: 4 pictures" in out
    assert "consensus 0, repetition penalty 0, views 1" in " ".join(out.split())
    assert sorted(model.iterdir()) == before


def test_without_meteors_data_one_line_says_what_to_install(
    sat: Sat, exported_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise MISSING

    words = ["evaluate", exported_folder / "run/model", exported_folder / "photos", "--json"]
    monkeypatch.setattr(meteor, "find_files", missing)
    code, out, err = sat(*words)
    assert code == 0
    assert not any("METEOR" in scores for scores in json.loads(out)["scores"].values())
    assert err.count("METEOR is left out.") == 1
    assert 'pip install "show_attend_tell[meteor]"' in err


def test_every_picture_must_be_readable(sat: Sat, exported_folder: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    shutil.copytree(exported_folder / "photos", photos)
    (photos / "9.png").write_bytes(b"no picture")
    code, _, err = sat("evaluate", exported_folder / "run/model", photos)
    assert code == 1
    assert "9.png" in err


@pytest.mark.parametrize(
    ("more", "code", "answer"),
    [
        (["--split", "test"], 1, "no pictures in split 'test'"),
        (["--grounding", "boxes.json"], 2, "--grounding needs a run folder"),
        (["--views", "4"], 2, "from 1 to 3"),
    ],
)
def test_what_cannot_be_is_refused(
    more: list[str], code: int, answer: str, sat: Sat, exported_folder: Path
) -> None:
    found, _, err = sat(
        "evaluate", exported_folder / "run/model", exported_folder / "photos", *more
    )
    assert (found, answer in err) == (code, True)
