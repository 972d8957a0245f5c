"""The longest common subsequence against its definition."""

from hypothesis import given
from hypothesis import strategies as st

from show_attend_tell.scoring.metrics.rouge import common_length

WORDS = st.lists(st.sampled_from("abc"), max_size=9)


def textbook_length(first: list[str], second: list[str]) -> int:
    lengths = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, word in enumerate(first):
        for j, other in enumerate(second):
            lengths[i + 1][j + 1] = (
                lengths[i][j] + 1 if word == other else max(lengths[i][j + 1], lengths[i + 1][j])
            )
    return lengths[-1][-1]


@given(WORDS, WORDS)
def test_common_length_equals_the_textbook(first: list[str], second: list[str]) -> None:
    assert common_length(first, second) == textbook_length(first, second)
