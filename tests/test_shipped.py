"""The models that ship: `sat models`, and models by their names."""

import json
import re
from pathlib import Path

import pytest

import show_attend_tell
from show_attend_tell.captioning.shipped import find_model
from show_attend_tell.errors import UserError
from tests.conftest import Sat

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """A folder of models that are nothing but names."""
    for name in ("birds", "birds-hard", "dogs-soft", "dogs-hard"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "model.json").touch()
    (tmp_path / "models" / "no-model").mkdir()
    return tmp_path / "models"


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ("birds", "birds"),
        ("birds-", "birds-hard"),
        ("dogs-soft", "dogs-soft"),
        ("dogs-s", "dogs-soft"),
    ],
)
def test_a_name_or_its_beginning_is_enough(named: str, meant: str, shipped: Path) -> None:
    assert find_model(named, shipped) == shipped / meant


@pytest.mark.parametrize(
    ("named", "code", "answer"),
    [
        ("dogs", "request.bad", "dogs: several models begin so: dogs-hard, dogs-soft"),
        ("cats", "model.missing", "(those that do: birds, birds-hard, dogs-hard, dogs-soft)"),
        ("no-model", "model.missing", "no-model: there is no such folder"),
        ("x" * 300, "model.missing", "xxx: there is no such folder"),  # no disk holds such a name
        ("a\0b", "model.missing", "b: there is no such folder"),
    ],
)
def test_a_name_that_means_no_one_model_is_refused(
    named: str, code: str, answer: str, shipped: Path
) -> None:
    with pytest.raises(UserError, match=re.escape(answer)) as refused:
        find_model(named, shipped)
    assert refused.value.code == code


def test_a_model_that_is_there_wins_over_a_name_and_a_name_over_a_data_set(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "birds").mkdir()
    assert find_model("birds", shipped) == shipped / "birds"
    (tmp_path / "photos").mkdir()
    assert find_model("photos", shipped) == Path("photos")  # whoever opens it says what it lacks
    (tmp_path / "birds" / "model").mkdir()
    (tmp_path / "birds" / "model" / "model.json").touch()
    assert find_model(Path("birds"), shipped) == Path("birds/model")


def test_flickr8k_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert show_attend_tell.load("flickr8k").model.folder == show_attend_tell.SHIPPED
    assert show_attend_tell.load().model.folder == show_attend_tell.SHIPPED


def test_models_lists_what_ships(sat: Sat) -> None:
    code, out, _ = sat("models", "--json")
    found = json.loads(out)
    assert code == 0
    folders = {path.parent.name for path in ROOT.glob("show_attend_tell/models/*/model.json")}
    assert {model["name"] for model in found} == folders
    assert [model["name"] for model in found if model["default"]] == ["flickr8k"]
    for model in found:
        assert model["attention"] in ("soft", "hard")
        assert model["bytes"] < 64e6
        assert model["scores"]["split"] == "test"
        assert model["scores"]["BLEU-4"] >= 0.245
        assert model["scores"]["METEOR"] >= 0.22
        assert model["scores"]["CIDEr-D"] >= 0.62
        assert "Decoder weights and code: MIT." in model["licences"]

    code, out, _ = sat("models")
    assert code == 0
    for model in found:
        scores = model["scores"]
        for words in (model["name"], model["encoder"], f"{model['attention']} attention", "MIT"):
            assert words in out
        for shown in (f"{100 * scores['METEOR']:.1f}", f"{scores['CIDEr-D']:.3f}"):
            assert shown in out
