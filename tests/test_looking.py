"""Where a trained model looks: the tiny world's things have boxes, and it looks into them."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import UserError
from show_attend_tell.learning.loop.trainer import train
from show_attend_tell.learning.run import Run
from show_attend_tell.learning.watching.looking import (
    boxes_as_seen,
    look_at_boxes,
    read_boxes,
    steps_of_words,
)
from show_attend_tell.scoring.analysis.grounding import measure_grounding
from show_attend_tell.scoring.analysis.health import measure_health
from tests.tiny_world import GRID, Scene, make_store, tiny_recipe

SIDE = 256  # of a picture; its central 224 pixels are the grid of the tiny world


def boxes_of(scene: Scene) -> dict[str, object]:
    cell_side = 224 / GRID[0]
    phrases = []
    for place, cell in enumerate(scene.cells):
        row, column = divmod(cell, GRID[1])
        x, y = 16 + column * cell_side, 16 + row * cell_side
        words = [4 * place, 4 * place + 3]  # "a red circle" "and" "a blue square"
        phrases.append({"words": words, "boxes": [[x, y, x + cell_side, y + cell_side]]})
    return {
        "width": SIDE,
        "height": SIDE,
        "captions": [{"text": scene.caption, "phrases": phrases}],
    }


def test_a_model_that_learned_the_tiny_world_looks_into_the_boxes(tmp_path: Path) -> None:
    store, world = make_store(tmp_path / "store")
    train(store, tmp_path / "run", tiny_recipe())
    pictures = {str(i): boxes_of(scene) for i, scene in enumerate(world)}
    (tmp_path / "boxes.json.gz").write_bytes(gzip.compress(json.dumps(pictures).encode()))
    looking = look_at_boxes(Run.open(tmp_path / "run"), store, "dev", tmp_path / "boxes.json.gz")
    scores = measure_grounding(looking.looks)
    assert len(looking.looks) == 20 * 6
    assert scores["mass-even"].value == pytest.approx(1 / 16)
    assert scores["pointing"].value > 0.5
    assert scores["mass"].value > 0.3
    health = measure_health(looking.watched)
    assert (health.words, health.change > 0.1) == (20 * 7, True)


def test_words_are_found_again_in_the_decoder_s_steps() -> None:
    text = "A man 's dog , a tri-colored one ."
    with_marks = steps_of_words(text, Vocabulary((), punctuation=True))
    assert [list(steps) for steps in with_marks] == [[i] for i in range(9)]
    without = steps_of_words(text, Vocabulary((), punctuation=False))
    assert [len(steps) for steps in without] == [1, 1, 1, 1, 0, 1, 1, 1, 0]
    assert list(without[5]) == [4]


@pytest.mark.parametrize("fit", ["crop", "squeeze"])
def test_what_the_encoder_saw_is_the_unit_of_boxes(fit: str) -> None:
    how = Preprocessing.model_validate({"mean": (0, 0, 0), "std": (1, 1, 1), "fit": fit})
    box = [[144, 16, 368, 240]] if fit == "crop" else [[0, 0, 512, 256]]
    np.testing.assert_allclose(boxes_as_seen(box, (512, 256), how), [[0, 0, 1, 1]])


BAD = {
    "no file": None,
    "no JSON": b"boxes",
    "no gzip": b"\x1f\x8b\x08broken",
    "no captions": b'{"a.jpg": {"width": 1}}',
    "words beyond the caption": json.dumps(
        {"a.jpg": {"captions": [{"text": "a dog", "phrases": [{"words": [1, 3]}]}]}}
    ).encode(),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_of_boxes_is_told(what: str, tmp_path: Path) -> None:
    path = tmp_path / "boxes.json"
    if (content := BAD[what]) is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"boxes\.json: cannot be read"):
        read_boxes(path)
