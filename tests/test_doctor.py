"""`sat doctor`: what works here, what does not, and what to do."""

import _socket
import json
import re
import shutil
import sys
from contextlib import closing
from pathlib import Path

import pytest

import show_attend_tell
from show_attend_tell.captioning.exported import sealed
from show_attend_tell.cli import doctor
from show_attend_tell.files import write_json
from tests.conftest import Sat

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def model(exported_folder: Path, tmp_path: Path) -> Path:
    """A copy of the exported model, to be harmed."""
    folder = tmp_path / "model"
    shutil.copytree(exported_folder / "run" / "model", folder)
    return folder


@pytest.mark.slow
def test_all_is_well(sat: Sat, model: Path) -> None:
    code, out, err = sat("doctor", "--model", model)
    assert (code, err) == (0, "")
    facts = json.loads((model / "model.json").read_text())
    for words in ("Python 3.", "processor threads", "GB free", "onnxruntime", "JPEG"):
        assert words in out
    assert facts["example"]["caption"] in out
    assert "✗" not in out
    assert "[train]" in out


@pytest.mark.slow
def test_another_caption_than_the_recorded_one_is_an_illness(sat: Sat, model: Path) -> None:
    facts = json.loads((model / "model.json").read_text())
    facts["example"]["caption"] = "A cat sits on a mat."
    write_json(model / "model.json", sealed(facts))
    code, out, _ = sat("doctor", "--model", model, "--json")
    assert code == 1
    ill = [finding for finding in json.loads(out) if finding["works"] is False]
    assert [finding["what"] for finding in ill] == ["example"]
    assert "A cat sits on a mat." in ill[0]["found"]


@pytest.mark.slow
def test_a_damaged_model_is_an_illness(sat: Sat, model: Path) -> None:
    (model / "example.png").write_bytes(b"something else")
    code, out, _ = sat("doctor", "--model", model)
    assert code == 1
    assert "SHA-256 differs" in out


def test_no_model_is_an_illness_with_a_remedy(
    sat: Sat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show_attend_tell, "SHIPPED", tmp_path / "none")
    code, out, _ = sat("doctor")
    assert code == 1
    assert "no model ships with this version" in out


def test_it_says_sends_nothing_only_where_nothing_can_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def privacy() -> doctor.Finding:
        (finding,) = (f for f in doctor.examine(tmp_path / "none") if f.what == "privacy")
        return finding

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert (privacy().works, privacy().remedy) == (True, "")
    assert "sends nothing" in privacy().found

    uploader = tmp_path / "Microsoft" / "DeveloperTools" / ".onnxruntime"
    uploader.mkdir(parents=True)
    assert privacy().works and f"{uploader} holds a device id" in privacy().remedy

    with (uploader / "onnxruntime.db").open("w"):
        if sys.platform == "linux":
            assert not privacy().works and "onnxruntime.db" in privacy().found
    with closing(_socket.socket()) as listener:  # as native code would: `socket` may be barred
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        if sys.platform == "linux":
            assert not privacy().works and "socket:" in privacy().found

    monkeypatch.delenv("ORT_DISABLE_TELEMETRY")
    assert not privacy().works and "sends nothing" not in privacy().found


def test_a_missing_extra_is_no_illness_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "_version", lambda package: None if package == "timm" else "1.0")
    (finding,) = (f for f in doctor.examine(Path("none")) if f.what == "[timm]")
    assert finding.works is None
    assert "pip install 'show_attend_tell[timm]'" in finding.remedy


def test_a_missing_package_of_the_base_is_an_illness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda package: None if package == "rich" else "1.0")
    (finding,) = (f for f in doctor.examine(Path("none")) if f.what == "packages")
    assert finding.works is False
    assert "rich missing" in finding.found


def test_the_packages_looked_for_are_those_of_the_project() -> None:
    text = (ROOT / "pyproject.toml").read_text()

    def names(list_name: str) -> set[str]:
        (body,) = re.findall(rf"^{list_name} = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)
        return set(re.findall(r'"([a-z0-9-]+)', body))

    assert names("dependencies") == set(doctor.BASE)
    for extra, (_, packages) in doctor.EXTRAS.items():
        assert set(packages) <= names(extra)
