"""The animation: the picture first, then a frame for each word, lit where it looked."""

import io

import numpy as np
import pytest
from PIL import Image, ImageSequence

from show_attend_tell.captioning.caption import Caption
from show_attend_tell.drawing import animate
from show_attend_tell.drawing.animation import LEAST_WIDTH, LONGEST_SIDE
from show_attend_tell.errors import UserError
from tests.drawing.cases import SQUEEZE, caption_of, grey


def frames_of(caption: Caption, size: tuple[int, int] = (160, 90)) -> list[Image.Image]:
    animation = Image.open(io.BytesIO(animate(caption, grey(size))))
    return [frame.convert("RGB") for frame in ImageSequence.Iterator(animation)]


def test_the_first_frame_is_the_picture_and_then_comes_one_for_each_word() -> None:
    first, *words = frames_of(caption_of("a dog runs"))
    assert (np.asarray(first)[: LONGEST_SIDE * 90 // 160] == 128).all()
    assert len(words) == 3


def test_a_frame_is_lightest_where_its_word_looked() -> None:
    _, *words = frames_of(caption_of("a dog runs", preprocessing=SQUEEZE))
    height = LONGEST_SIDE * 90 // 160
    for index, frame in enumerate(words):
        shown = np.asarray(frame.resize((480, frame.height)))[:height, :, 0].astype(float)
        cells = shown[: height // 7 * 7].reshape(7, height // 7, 5, 96).mean(axis=(1, 3))
        assert np.unravel_index(cells.argmax(), cells.shape) == (index, index)


def test_words_stay_long_enough_to_be_read_and_the_whole_begins_again() -> None:
    animation = Image.open(io.BytesIO(animate(caption_of("a dog runs"), grey())))
    seconds = [frame.info["duration"] / 1000 for frame in ImageSequence.Iterator(animation)]
    assert min(seconds) >= 0.5
    assert max(seconds) <= 2
    assert animation.info["loop"] == 0


def test_the_line_below_the_word_is_as_long_as_the_gate() -> None:
    def accent(gate: float) -> int:
        pixels = np.asarray(frames_of(caption_of("elephant", gates=gate))[1]).astype(int)
        return int((pixels[:, :, 0] - pixels[:, :, 2] > 100).sum())

    assert accent(0.0) <= 3  # a pixel across
    assert accent(0.5) * 2 == pytest.approx(accent(1.0), abs=6)


@pytest.mark.parametrize("size", [(1, 1), (3000, 10), (10, 3000), (90, 160)])
def test_odd_pictures_can_be_animated(size: tuple[int, int]) -> None:
    frame, *_ = frames_of(caption_of("an elephant runs " * 4, size), size)
    assert LEAST_WIDTH <= frame.width <= LONGEST_SIDE


def test_a_caption_without_words_is_refused() -> None:
    with pytest.raises(UserError, match="no words"):
        animate(caption_of(""), grey())
