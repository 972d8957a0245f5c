"""A data set at a glance: what `sat show` counts."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from show_attend_tell.data.layouts import SPLITS, Dataset, Example, missing_pictures
from show_attend_tell.data.vocabulary import Vocabulary, tokenise
from show_attend_tell.files import sha256_of


@dataclass(frozen=True)
class SplitSummary:
    """Counts of one split."""

    split: str
    pictures: int
    captions: int
    words: int
    unknown_share: float  # of its words, 0 to 1: not in the training captions' vocabulary


@dataclass(frozen=True)
class Spread:
    """Least, mean and most of some counts."""

    least: int
    mean: float
    most: int


@dataclass(frozen=True)
class Summary:
    """Counts of a data set; `dataclasses.asdict` makes it JSON."""

    layout: str
    splits: tuple[SplitSummary, ...]
    captions_per_picture: Spread
    words_per_caption: Spread
    lengths: dict[int, int]  # words in a caption → captions with so many
    word_types: int  # different words in the training captions
    vocabulary_size: int  # of the most frequent of them, <end> and <unk> included
    repeated_captions: int  # equal to another of the same picture
    missing_pictures: int
    first_missing: tuple[str, ...]  # the first five paths
    identical_pictures: tuple[tuple[str, ...], ...]  # ids of files that are equal byte for byte
    leaked_pictures: tuple[tuple[str, ...], ...]  # those of them that lie in different splits
    notes: tuple[str, ...]  # what was left out on reading


def summarise(
    dataset: Dataset, *, vocabulary_size: int = 10_000, punctuation: bool = False
) -> Summary:
    """Count what there is to know before training.

    Parameters
    ----------
    vocabulary_size, punctuation
        As in `Vocabulary.build`.
    """
    examples = dataset.examples
    train = [caption for e in examples if e.split == "train" for caption in e.captions]
    vocabulary = Vocabulary.build(train, size=vocabulary_size, punctuation=punctuation)
    words_of: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
    lengths: list[int] = []
    for example in examples:
        for caption in example.captions:
            words = tokenise(caption, punctuation=punctuation)
            words_of[example.split].update(words)
            lengths.append(len(words))

    missing = missing_pictures(dataset)
    identical = _identical(examples)
    leaked = [group for group in identical if len({example.split for example in group}) > 1]
    return Summary(
        layout=dataset.layout,
        splits=tuple(_of_split(split, examples, words_of[split], vocabulary) for split in SPLITS),
        captions_per_picture=_spread([len(example.captions) for example in examples]),
        words_per_caption=_spread(lengths),
        lengths=dict(sorted(Counter(lengths).items())),
        word_types=len(words_of["train"]),
        vocabulary_size=len(vocabulary),
        repeated_captions=sum(len(e.captions) - len(set(e.captions)) for e in examples),
        missing_pictures=len(missing),
        first_missing=tuple(str(example.picture) for example in missing[:5]),
        identical_pictures=tuple(tuple(example.id for example in group) for group in identical),
        leaked_pictures=tuple(tuple(example.id for example in group) for group in leaked),
        notes=dataset.notes,
    )


def _of_split(
    split: str, examples: Sequence[Example], words: Counter[str], vocabulary: Vocabulary
) -> SplitSummary:
    captions = [len(example.captions) for example in examples if example.split == split]
    unknown = sum(words[word] for word in words.keys() - set(vocabulary.words))
    total = words.total()
    return SplitSummary(split, len(captions), sum(captions), total, unknown / max(total, 1))


def _spread(counts: Sequence[int]) -> Spread:
    return Spread(min(counts), sum(counts) / len(counts), max(counts))


def _identical(examples: Sequence[Example]) -> list[list[Example]]:
    """Groups of examples whose picture files are equal byte for byte."""
    groups = [list(examples)]
    for key in (_size, _end, sha256_of):  # the cheap ones leave little to hash
        groups = [part for group in groups for part in _equal(group, key)]
    return groups


def _equal(group: list[Example], key: Callable[[Path], object]) -> list[list[Example]]:
    parts: dict[object, list[Example]] = defaultdict(list)
    for example in group:
        try:
            parts[key(example.picture)].append(example)
        except OSError:  # a file that is missing or may not be read equals no other
            continue
    return [part for part in parts.values() if len(part) > 1]


def _size(path: Path) -> int:
    return path.stat().st_size


def _end(path: Path) -> bytes:
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 1024))
        return stream.read()
