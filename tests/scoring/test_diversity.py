"""How varied captions are."""

import pytest

from show_attend_tell.scoring import Diversity, measure_diversity


def test_diversity_of_three_captions() -> None:
    assert measure_diversity(
        ["A dog runs .", "a dog runs", "two dogs"], training=["A DOG RUNS", "a cat"]
    ) == Diversity(
        captions=3,
        vocabulary=5,
        distinct_1=5 / 8,
        distinct_2=3 / 5,
        unique=2 / 3,
        unseen=1 / 3,
        lengths={2: 1, 3: 2},
    )


def test_nothing_is_said_of_unseen_captions_without_training_captions() -> None:
    assert measure_diversity(["a dog"]).unseen is None


@pytest.mark.parametrize("captions", [[], [""], ["a"]])
def test_shares_of_next_to_nothing_are_defined(captions: list[str]) -> None:
    assert measure_diversity(captions).distinct_2 == 0
