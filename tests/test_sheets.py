"""A sheet an epoch: there where the pictures are, and no hindrance where they are not."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from show_attend_tell.captioning.search import Decoded
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.learning.run import Run
from show_attend_tell.learning.watching.sheets import PICTURES, draw_sheet
from tests.small_photos import small_store

pytestmark = pytest.mark.slow


def test_a_trained_epoch_has_its_sheet(exported_run: Run) -> None:
    (found,) = (exported_run.folder / "sheets").iterdir()
    assert found.name == "epoch-01.jpg"
    with Image.open(found) as image:
        assert image.width > 1000
        assert "exif" not in image.info


def told_of(store: FeatureStore, *words: int) -> dict[str, Decoded]:
    places = store.index.grid[0] * store.index.grid[1]
    even = np.full((len(words), places), 1 / places)
    told = Decoded(
        words=words,
        log_probs=np.zeros(len(words)),
        end_log_prob=0.0,
        attention=even,
        weights=even,
        gates=np.ones(len(words)),
        score=0.0,
    )
    return {example.id: told for example in store.examples}


def test_pictures_that_are_gone_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = small_store(tmp_path)
    vocabulary = Vocabulary.build(["a picture"], size=9)
    drawn: list[str] = []
    monkeypatch.setattr(
        "show_attend_tell.learning.watching.sheets.sheet",
        lambda items, scale: drawn.extend(name for name, _, _ in items) or Image.new("RGB", (9, 9)),
    )
    told = told_of(store, 2, 3)
    draw_sheet(store, vocabulary, told, "expected", tmp_path, 1)
    assert [re.sub(r".* ", "", name) for name in drawn] == ["8.png", "9.png", "10.png", "11.png"]
    assert len(drawn) == PICTURES
    (tmp_path / "photos" / "9.png").unlink()
    drawn.clear()
    draw_sheet(store, vocabulary, told, "expected", tmp_path, 2)
    assert [re.sub(r".* ", "", name) for name in drawn] == ["8.png", "10.png", "11.png"]


def test_where_nothing_was_told_nothing_is_drawn(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    draw_sheet(
        store, Vocabulary.build(["a"], size=9), told_of(store), "expected", tmp_path, epoch=1
    )
    assert not (tmp_path / "sheets").exists()
