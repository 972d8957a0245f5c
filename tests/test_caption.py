"""Captions: the sentence, and where it looked."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from show_attend_tell.captioning.caption import Caption, sentence
from show_attend_tell.captioning.search import Decoded
from show_attend_tell.data.pictures import Crop


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("a dog runs .", "A dog runs."),
        ("a dog runs", "A dog runs."),
        ("a red , wet dog", "A red, wet dog."),
        ("what is this ?", "What is this?"),
        ("a man 's hat does n't fit", "A man's hat doesn't fit."),
        ("a dog ( wet ) runs", "A dog (wet) runs."),
        ("a dog runs . a cat sits .", "A dog runs. A cat sits."),
        ("a dog in the", "A dog in the."),
        ("a dog ,", "A dog."),
        ("two dogs , ,", "Two dogs."),
        ("2 dogs", "2 dogs."),
        ("élan of a dog", "Élan of a dog."),
        ("a t-shirt", "A t-shirt."),
        ("a ninth dog", "A ninth dog."),
        ("", ""),
    ],
)
def test_words_become_a_sentence(words: str, text: str) -> None:
    assert sentence(words.split()) == text


def decoded(words: int, places: int) -> Decoded:
    return Decoded(
        words=tuple(range(2, 2 + words)),
        log_probs=np.full(words, -0.5),
        end_log_prob=-0.25,
        attention=np.zeros((words, places)),
        weights=np.arange(words * places).reshape(words, places) / 10,
        gates=np.full(words, 0.75),
        score=-1.0,
    )


def test_a_caption_lays_its_weights_on_the_grid() -> None:
    crop = Crop(0, 0, 30, 20)
    caption = Caption.of(decoded(2, 6), ["a", "dog"], (2, 3), (30, 20), crop)
    assert caption.attention.shape == (2, 2, 3)
    np.testing.assert_array_equal(caption.attention[1, 1], [0.9, 1.0, 1.1])


def test_a_caption_reports_the_probability_of_the_whole_caption() -> None:
    caption = Caption.of(decoded(2, 6), ["a", "dog"], (2, 3), (30, 20), Crop(0, 0, 30, 20))
    assert caption.text == "A dog."
    assert caption.log_prob == -1.25


def test_a_caption_shows_itself_in_a_notebook() -> None:
    words = ["a", "<dog>"]
    raw = decoded(2, 6)
    raw.weights[:] = np.eye(6)[[1, 5]]
    shown = Caption.of(raw, words, (2, 3), (60, 20), Crop(10, 0, 40, 20))._repr_html_()
    assert "A &lt;dog&gt;." in shown
    assert "<dog>" not in shown
    maps = [
        np.asarray(Image.open(io.BytesIO(base64.b64decode(found))))
        for found in re.findall(r"base64,([^\"]+)", shown)
    ]
    np.testing.assert_array_equal(maps, 255 * np.eye(6)[[1, 5]].reshape(2, 2, 3))
    assert shown.count("width: 64px; height: 43px") == 2  # of the crop's shape
    assert shown.count("width: 75%") == 2
    assert not re.search(r"https?:|//\w", shown)


def test_a_caption_without_words_shows_itself_too() -> None:
    silent = Caption.of(decoded(0, 6), [], (2, 3), (30, 20), Crop(0, 0, 30, 20))
    assert "img" not in silent._repr_html_()
