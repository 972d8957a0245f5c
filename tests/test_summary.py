"""What `sat show` counts and prints of a data set."""

import dataclasses
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from show_attend_tell.cli.tables import print_summary
from show_attend_tell.data.layouts import Dataset, Example, load_dataset
from show_attend_tell.data.summary import Spread, Summary, summarise
from tests.shared import SHARED, needs_shared


def example(picture: Path, split: str, *captions: str) -> Example:
    return Example(picture, captions, split, picture.name)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Five pictures: b equals a and lies in another split, c equals a, d differs, e is missing."""
    contents = {"a": b"same", "b": b"same", "c": b"same", "d": b"else"}
    for name, content in contents.items():
        (tmp_path / f"{name}.jpg").write_bytes(content)
    examples = (
        example(tmp_path / "a.jpg", "train", "A dog runs.", "A dog runs."),
        example(tmp_path / "b.jpg", "dev", "A cat runs."),
        example(tmp_path / "c.jpg", "train", "One two three four five."),
        example(tmp_path / "d.jpg", "test", "Zebra"),
        example(tmp_path / "e.jpg", "test", "A dog runs."),
    )
    return Dataset("folder", examples, ("Left out 3 blank captions.",))


def printed(summary: Summary, width: int = 100) -> str:
    stream = io.StringIO()
    print_summary(summary, Console(file=stream, width=width))
    return stream.getvalue()


def test_pictures_captions_and_words_are_counted_by_split(dataset: Dataset) -> None:
    counts = [(s.split, s.pictures, s.captions, s.words) for s in summarise(dataset).splits]
    assert counts == [("train", 2, 3, 11), ("dev", 1, 1, 3), ("test", 2, 2, 4)]


def test_unknown_words_are_those_not_in_the_training_captions(dataset: Dataset) -> None:
    shares = [split.unknown_share for split in summarise(dataset).splits]
    assert shares == [0, pytest.approx(1 / 3), pytest.approx(1 / 4)]


def test_small_vocabulary_makes_training_words_unknown(dataset: Dataset) -> None:
    summary = summarise(dataset, vocabulary_size=5)  # a, dog, runs
    assert (summary.word_types, summary.vocabulary_size) == (8, 5)
    assert summary.splits[0].unknown_share == pytest.approx(5 / 11)


def test_spreads_are_least_mean_and_most(dataset: Dataset) -> None:
    summary = summarise(dataset)
    assert summary.captions_per_picture == Spread(1, pytest.approx(6 / 5), 2)
    assert summary.words_per_caption == Spread(1, pytest.approx(18 / 6), 5)


def test_lengths_count_the_captions_of_each_number_of_words(dataset: Dataset) -> None:
    assert summarise(dataset).lengths == {1: 1, 3: 4, 5: 1}


def test_punctuation_counts_as_words_on_request(dataset: Dataset) -> None:
    assert summarise(dataset, punctuation=True).lengths == {1: 1, 4: 4, 6: 1}


def test_repeated_captions_of_a_picture_are_counted(dataset: Dataset) -> None:
    assert summarise(dataset).repeated_captions == 1


def test_missing_pictures_are_counted_and_named(dataset: Dataset) -> None:
    summary = summarise(dataset)
    assert summary.missing_pictures == 1
    assert summary.first_missing == (str(dataset.examples[4].picture),)


def test_equal_files_are_found_and_reported_as_leaked(dataset: Dataset) -> None:
    summary = summarise(dataset)
    assert summary.identical_pictures == (("a.jpg", "b.jpg", "c.jpg"),)
    assert summary.leaked_pictures == (("a.jpg", "b.jpg", "c.jpg"),)


def test_equal_files_within_a_split_are_no_leak(dataset: Dataset) -> None:
    a, _, c, d, _ = dataset.examples
    summary = summarise(Dataset("folder", (a, c, d), ()))
    assert (summary.identical_pictures, summary.leaked_pictures) == ((("a.jpg", "c.jpg"),), ())


def test_files_that_differ_only_at_their_beginning_are_not_equal(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.jpg").write_bytes(name.encode() + b"\0" * 5000)
    examples = tuple(example(tmp_path / f"{name}.jpg", "train", "x") for name in "ab")
    assert summarise(Dataset("folder", examples, ())).identical_pictures == ()


def test_folder_in_place_of_a_picture_does_no_harm(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.jpg").mkdir()
    examples = tuple(example(tmp_path / f"{name}.jpg", "train", "x") for name in "ab")
    assert summarise(Dataset("folder", examples, ())).identical_pictures == ()


def test_summary_goes_through_json(dataset: Dataset) -> None:
    values = json.loads(json.dumps(dataclasses.asdict(summarise(dataset))))
    assert values["splits"][0]["pictures"] == 2
    assert values["lengths"] == {"1": 1, "3": 4, "5": 1}


@pytest.mark.parametrize(
    "expected",
    [
        "folder  5 pictures, 6 captions",
        "33.33%",
        "all of 8 different training words",
        "1.2, from 1 to 2",
        " ! Missing pictures: 1",
        "a.jpg = b.jpg = c.jpg",
        "· Left out 3 blank captions.",
        "3 " + "█" * 40 + " ",
        "5 " + "█" * 10 + " ",
    ],
)
def test_print_shows(dataset: Dataset, expected: str) -> None:
    assert expected in printed(summarise(dataset))


def test_histogram_stays_short_when_one_caption_is_very_long(tmp_path: Path) -> None:
    examples = [example(tmp_path / f"{n}.jpg", "train", "word " * (n % 40)) for n in range(1000)]
    examples.append(example(tmp_path / "long.jpg", "train", "word " * 10_000))
    lines = printed(summarise(Dataset("folder", tuple(examples), ()))).splitlines()
    bars = [line for line in lines if set(line) & set("█▉▊▋▌▍▎▏")]
    assert 10 <= len(bars) <= 16
    assert "over" in bars[-1]


def test_print_lets_no_file_name_control_the_terminal(tmp_path: Path) -> None:
    examples = (example(tmp_path / "\x1b[2J.jpg", "train", "x"),)
    assert "\x1b" not in printed(summarise(Dataset("folder", examples, ())))


def test_print_takes_square_brackets_in_names_as_text(tmp_path: Path) -> None:
    examples = (example(tmp_path / "[bold]a.jpg", "train", "x"),)
    assert "[bold]a.jpg" in printed(summarise(Dataset("folder", examples, ())))


@needs_shared
def test_flickr8k_has_the_published_number_of_words() -> None:
    summary = summarise(load_dataset(SHARED / "data" / "flickr8k"), punctuation=True)
    train, _, test = summary.splits
    # Cut at blanks: 7,705 types, 12.8 steps a caption with the end, 1.2 % of test words unseen.
    assert summary.word_types == pytest.approx(7705, abs=20)
    assert train.words / train.captions + 1 == pytest.approx(12.8, abs=0.05)
    assert test.unknown_share == pytest.approx(0.012, abs=0.001)
    assert summary.leaked_pictures == ()
