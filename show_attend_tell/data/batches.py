"""The captions of a split, and mini-batches of them: of one length (section 4.3), or pictures."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.vocabulary import Vocabulary

Batch = npt.NDArray[np.int64]  # which captions
PADDING = -1  # behind the end of a caption
NEAR = 8  # batches of pictures sorted among themselves; sorting them all would save little more


@dataclass
class Captions:
    """The captions of a split as the decoder learns them."""

    rows: list[int] = field(default_factory=list)  # of the store, one a caption
    words: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, store: FeatureStore, split: str, vocabulary: Vocabulary) -> "Captions":
        """Every caption of the pictures whose features are there."""
        captions = cls()
        for row in store.rows(split):
            for caption in store.examples[row].captions:
                captions.rows.append(row)
                captions.words.append(vocabulary.encode(caption))
        return captions

    def lengths(self) -> list[int]:
        """Words of each caption, the end word among them."""
        return [len(words) for words in self.words]

    def padded(self, batch: Batch) -> npt.NDArray[np.int64]:
        """These captions as (batch, steps), with PADDING behind the shorter ones."""
        padded = np.full((len(batch), max(len(self.words[i]) for i in batch)), PADDING)
        for row, i in zip(padded, batch, strict=True):
            row[: len(self.words[i])] = self.words[i]
        return padded


def epoch_batches(
    lengths: Sequence[int], size: int, seed: Sequence[int], *, order: str
) -> list[Batch]:
    """Cut the captions into batches of equal length, in an order drawn from the seed.

    Parameters
    ----------
    lengths
        Words of each caption.
    size
        Captions of a batch; the last batch of a length may be smaller.
    seed
        Numbers that settle the order: the same for the same epoch of the same run.
    order
        "random": a batch's length is drawn in proportion to the captions left of it; "authors": the
        lengths take turns, in an order drawn once, until each is used up.

    Returns
    -------
    list of index arrays; every caption is in exactly one of them.
    """
    random = np.random.default_rng(list(seed))
    of_length: dict[int, list[int]] = defaultdict(list)
    for caption, length in enumerate(lengths):
        of_length[length].append(caption)
    piles = []
    for _, captions in sorted(of_length.items()):
        shuffled = random.permutation(captions)
        piles.append([shuffled[i : i + size] for i in range(0, len(shuffled), size)])
    if order == "authors":
        turns = [piles[i] for i in random.permutation(len(piles))]
        longest = max(len(pile) for pile in turns)
        return [pile[turn] for turn in range(longest) for pile in turns if turn < len(pile)]
    batches = [batch for pile in piles for batch in pile]
    return [batches[i] for i in random.permutation(len(batches))]


def picture_batches(
    pictures: Sequence[int], lengths: Sequence[int], size: int, seed: Sequence[int]
) -> list[Batch]:
    """Cut the captions into batches of whole pictures, in an order drawn from the seed.

    Pictures whose captions are about as long are put together, as far as chance has brought them
    near, so that not many steps are taken for the longest captions alone.

    Parameters
    ----------
    pictures, lengths
        The picture of each caption, and its words.
    size
        Captions of a batch, or fewer: as many whole pictures as fit, one at least.
    seed
        Numbers that settle the order.

    Returns
    -------
    list of index arrays; the captions of a picture lie side by side, the longest first, and all
    pictures of a batch have equally many.
    """
    captions_of: dict[int, list[int]] = defaultdict(list)
    for caption in sorted(range(len(pictures)), key=lambda caption: -lengths[caption]):
        captions_of[pictures[caption]].append(caption)
    of_count: dict[int, list[list[int]]] = defaultdict(list)
    for captions in captions_of.values():
        of_count[len(captions)].append(captions)
    random = np.random.default_rng(list(seed))
    words = np.array(lengths)
    batches = []
    for count, piles in sorted(of_count.items()):
        shuffled = random.permutation(np.array(piles))
        fit = max(1, size // count)
        for start in range(0, len(shuffled), fit * NEAR):
            near = shuffled[start : start + fit * NEAR]
            near = near[np.argsort(words[near].sum(axis=1), kind="stable")]
            batches += [near[i : i + fit].reshape(-1) for i in range(0, len(near), fit)]
    return [batches[i] for i in random.permutation(len(batches))]
