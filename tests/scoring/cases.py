"""The recorded cases of ../shared/data/metrics, and the programs that made them."""

import gzip
import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.shared import SHARED

METRICS = SHARED / "data" / "metrics"
CASES = (
    "case_a_heldout_human",
    "case_b_nearest_other",
    "case_c_random_other",
    "case_d_truncated",
    "case_e_adversarial",
    "case_f_one_reference",
)


def read_json(name: str) -> Any:
    path = METRICS / name
    with gzip.open(path) if name.endswith(".gz") else path.open("rb") as stream:
        return json.load(stream)


def read_lines(name: str) -> list[Any]:
    with gzip.open(METRICS / name) as stream:
        return [json.loads(line) for line in stream]


def recorded(case: str) -> dict[str, Any]:
    """The scores that pycocoevalcap gave."""
    scores: dict[str, Any] = read_json("scores.json")["cases"][case]
    return scores


def pycocoevalcap() -> Path | None:
    """The folder of the reference implementation, if there is one."""
    package = importlib.util.find_spec("pycocoevalcap")
    return Path(package.submodule_search_locations[0]) if package else None  # type: ignore[index]


def _stems_like_the_jar() -> bool:
    try:
        module = importlib.import_module("snowballstemmer.english_stemmer")
    except ImportError:
        return False
    return bool(module.EnglishStemmer().stemWord("university") == "univers")


needs_meteor = pytest.mark.skipif(
    pycocoevalcap() is None or not _stems_like_the_jar(),
    reason="the extra meteor (pycocoevalcap, snowballstemmer<3) is not installed",
)
needs_java = pytest.mark.skipif(
    pycocoevalcap() is None or shutil.which("java") is None,
    reason="Java or pycocoevalcap is not installed",
)
