"""The captions of a split, and mini-batches of them: of one length (section 4.3), or pictures."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.vocabulary import Vocabulary

Batch = npt.NDArray[np.int64]  # indices of captions
PADDING = -1  # behind the end of a caption
SORTED_BATCHES = 8  # sorted by length together; sorting all would save little more


@dataclass
class Captions:
    """The captions of a split as word indices."""

    rows: list[int] = field(default_factory=list)  # of the store, one for each caption
    words: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, store: FeatureStore, split: str, vocabulary: Vocabulary) -> "Captions":
        """All captions of the pictures that have features."""
        captions = cls()
        for row in store.rows(split):
            for caption in store.examples[row].captions:
                captions.rows.append(row)
                captions.words.append(vocabulary.encode(caption))
        return captions

    def lengths(self) -> list[int]:
        """Words of each caption, the end word included."""
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
    """Batches of captions of equal length, in a random order.

    Parameters
    ----------
    lengths
        Words of each caption.
    size
        Captions of a batch; the last batch of a length may be smaller.
    seed
        Of the order: the same for the same epoch of the same run.
    order
        "random": a batch's length is drawn in proportion to the captions left of it; "authors": the
        lengths take turns in a random order until each is used up.

    Returns
    -------
    list of index arrays; every caption is in exactly one of them.
    """
    rng = np.random.default_rng(list(seed))
    of_length: dict[int, list[int]] = defaultdict(list)
    for caption, length in enumerate(lengths):
        of_length[length].append(caption)
    groups = []
    for _, captions in sorted(of_length.items()):
        shuffled = rng.permutation(captions)
        groups.append([shuffled[i : i + size] for i in range(0, len(shuffled), size)])
    if order == "authors":
        turns = [groups[i] for i in rng.permutation(len(groups))]
        longest = max(len(group) for group in turns)
        return [group[turn] for turn in range(longest) for group in turns if turn < len(group)]
    batches = [batch for group in groups for batch in group]
    return [batches[i] for i in rng.permutation(len(batches))]


def picture_batches(
    pictures: Sequence[int], lengths: Sequence[int], size: int, seed: Sequence[int]
) -> list[Batch]:
    """Batches of whole pictures, in a random order.

    Pictures are sorted by caption length within groups of batches, so that few steps are spent on
    the longest captions alone.

    Parameters
    ----------
    pictures, lengths
        The picture of each caption, and its words.
    size
        Captions of a batch, or fewer: as many whole pictures as fit, one at least.
    seed
        Of the order.

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
    rng = np.random.default_rng(list(seed))
    words = np.array(lengths)
    batches = []
    for count, groups in sorted(of_count.items()):
        shuffled = rng.permutation(np.array(groups))
        fit = max(1, size // count)
        for start in range(0, len(shuffled), fit * SORTED_BATCHES):
            near = shuffled[start : start + fit * SORTED_BATCHES]
            near = near[np.argsort(words[near].sum(axis=1), kind="stable")]
            batches += [near[i : i + fit].reshape(-1) for i in range(0, len(near), fit)]
    return [batches[i] for i in rng.permutation(len(batches))]
