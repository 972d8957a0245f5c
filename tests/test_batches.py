"""Batches: one length each, every caption once, settled by the seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from show_attend_tell.data.batches import epoch_batches, picture_batches

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=200)


@pytest.mark.parametrize("order", ["random", "authors"])
@given(lengths=LENGTHS, size=st.integers(1, 9), seed=st.integers(0, 1000))
def test_every_caption_comes_once_in_a_batch_of_its_own_length(
    order: str, lengths: list[int], size: int, seed: int
) -> None:
    batches = epoch_batches(lengths, size, (seed, 0), order=order)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert 1 <= len(batch) <= size
        assert len({lengths[i] for i in batch}) == 1


def test_the_order_follows_seed_and_epoch() -> None:
    lengths = [3, 4, 5, 6] * 50

    def order(seed: int, epoch: int) -> list[list[int]]:
        return [
            batch.tolist() for batch in epoch_batches(lengths, 8, (seed, epoch), order="random")
        ]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def test_the_authors_lengths_take_turns_until_used_up() -> None:
    lengths = [2] * 6 + [3] * 2
    batches = epoch_batches(lengths, 2, (0, 0), order="authors")
    told = [lengths[batch[0]] for batch in batches]
    assert sorted(told[:2]) == [2, 3]
    assert told[2:] == [2, 2]


def test_random_lengths_come_in_proportion_to_their_captions() -> None:
    lengths = [2] * 900 + [3] * 100
    firsts = [
        lengths[epoch_batches(lengths, 10, (seed, 0), order="random")[0][0]] for seed in range(300)
    ]
    assert 0.85 < firsts.count(2) / 300 < 0.95


@given(
    captions=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=200),
    size=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_a_batch_of_pictures_holds_all_captions_of_each_side_by_side(
    captions: list[tuple[int, int]], size: int, seed: int
) -> None:
    pictures, lengths = map(list, zip(*captions, strict=True))
    batches = picture_batches(pictures, lengths, size, (seed, 0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pictures)))
    for batch in batches:
        told = [pictures[i] for i in batch]
        distinct = list(dict.fromkeys(told))
        count = len(told) // len(distinct)
        assert told == [picture for picture in distinct for _ in range(count)]
        assert pictures.count(told[0]) == count
        assert len(batch) <= max(size, count)
        for one in batch.reshape(-1, count):  # the longest first
            own = [lengths[i] for i in one]
            assert own == sorted(own, reverse=True)


def test_pictures_with_captions_as_long_come_together() -> None:
    lengths = np.random.default_rng(0).integers(5, 25, 3000).tolist()
    batches = picture_batches([i // 5 for i in range(3000)], lengths, 65, (1, 0))
    words = [np.array(lengths)[batch].reshape(-1, 5).sum(axis=1) for batch in batches]
    within = np.mean([one.var() for one in words])
    assert within < 0.2 * np.concatenate(words).var()


def test_batches_of_pictures_follow_seed_and_epoch() -> None:
    pictures = [i // 5 for i in range(300)]

    def order(epoch: int) -> list[list[int]]:
        return [b.tolist() for b in picture_batches(pictures, [9] * 300, 20, (1, epoch))]

    assert order(0) == order(0)
    assert order(0) != order(1)
