"""The same captions under every protocol, as `sat evaluate` and `sat report` show them."""

import pytest

from show_attend_tell.scoring import score_captions
from show_attend_tell.scoring.by_protocol import measure_by_protocol, score_by_protocol

PEOPLE = {
    "1.jpg": ["A dog runs through the grass .", "A brown dog is running ."],
    "2.jpg": ["Two men sit on a bench .", "Men are sitting outside ."],
}
TOLD = {"1.jpg": "a dog is running on grass .", "2.jpg": "two men are on a bench ."}


@pytest.mark.parametrize("protocol", ["authors", "plain", "coco"])
def test_bleu_and_meteor_are_measured_as_the_protocol_reads(protocol: str) -> None:
    found = score_by_protocol(measure_by_protocol(TOLD, PEOPLE))[protocol]
    expected = score_captions(
        TOLD, PEOPLE, metrics=["BLEU-4-bp", "BLEU-1-nobp", "METEOR"], protocol=protocol
    )
    for name, score in expected.items():
        assert (found[name].value, found[name].signature) == (score.value, score.signature)


def test_a_kept_full_stop_counts_for_meteor() -> None:
    measured = measure_by_protocol(TOLD, PEOPLE)
    assert measured["authors"]["METEOR"].value > measured["coco"]["METEOR"].value
    assert measured["plain"]["METEOR"].value == measured["coco"]["METEOR"].value


def test_what_captions_are_aligned_for_is_counted_once_a_protocol() -> None:
    heard: list[int] = []
    measure_by_protocol(TOLD, PEOPLE, heard.append)
    assert sum(heard) == 3 * len(TOLD)
