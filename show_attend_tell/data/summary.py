"""A data set at a glance: what `sat show` counts and prints."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from show_attend_tell.data.layouts import SPLITS, Dataset, Example, missing_pictures
from show_attend_tell.data.vocabulary import Vocabulary, tokenise
from show_attend_tell.errors import counted, printable
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
    """Count what a person wants to know before training.

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


def print_summary(summary: Summary, console: Console) -> None:
    """Print a summary for a person."""
    pictures = sum(split.pictures for split in summary.splits)
    captions = sum(split.captions for split in summary.splits)
    title = Text.assemble(
        (summary.layout, "bold"),
        f"  {counted(pictures, 'picture')}, {counted(captions, 'caption')}",
    )
    for part in (title, _splits_table(summary), _facts(summary), _histogram(summary.lengths)):
        console.print(Padding(part, (0, 0, 1, 1), expand=False))
    for found, names in (
        (f"Missing pictures: {summary.missing_pictures:,}", summary.first_missing),
        (_groups("Equal pictures in different splits", summary.leaked_pictures)),
        (_groups("Equal pictures under different names", summary.identical_pictures)),
    ):
        if names:
            console.print(Text.assemble((" ! ", "bold yellow"), found))
        for name in names:
            console.print(Text(f"     {printable(name)}", "dim"), soft_wrap=True)
    for note in summary.notes:
        console.print(Text.assemble((" · ", "dim"), note), soft_wrap=True)


def _splits_table(summary: Summary) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("split")
    for column in ("pictures", "captions", "words", "unknown"):
        table.add_column(column, justify="right")
    for split in summary.splits:
        counts = [f"{number:,}" for number in (split.pictures, split.captions, split.words)]
        table.add_row(split.split, *counts, f"{split.unknown_share:.2%}")
    return table


def _facts(summary: Summary) -> Table:
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column(style="dim")
    table.add_row("captions per picture", _range(summary.captions_per_picture))
    table.add_row("words per caption", _range(summary.words_per_caption))
    chosen = summary.vocabulary_size - 2  # without <end> and <unk>
    all_or = "all" if chosen == summary.word_types else f"the {chosen:,} most frequent"
    table.add_row("vocabulary", f"{all_or} of {summary.word_types:,} different training words")
    return table


def _range(spread: Spread) -> str:
    if spread.least == spread.most:
        return f"{spread.most:,}"
    return f"{spread.mean:.1f}, from {spread.least:,} to {spread.most:,}"


def _histogram(lengths: dict[int, int]) -> Table:
    """Bars of at most 16 rows; the last row takes the few captions that are very long."""
    reached = zip(lengths, accumulate(lengths.values()), strict=True)
    enough = 0.995 * sum(lengths.values())
    usual = next(length for length, captions in reached if captions >= enough)
    first = min(lengths)
    step = -(-(usual - first + 1) // 15)
    starts = range(first, usual + 1, step)
    rows: Counter[int] = Counter()
    for length, count in lengths.items():
        rows[min((length - first) // step, len(starts))] += count

    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", style="dim")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(justify="right", style="dim")
    table.add_row("words", "", "captions")
    for row, start in enumerate(starts):
        label = str(start) if step == 1 else f"{start}–{start + step - 1}"
        table.add_row(label, _bar(rows[row] / max(rows.values())), f"{rows[row]:,}")
    if rows[len(starts)]:
        last = rows[len(starts)]
        table.add_row(f"over {starts[-1] + step - 1}", _bar(last / max(rows.values())), f"{last:,}")
    return table


def _bar(share: float) -> str:
    """A bar of up to 40 characters, exact to an eighth of one; never empty for something.

    >>> _bar(0.05)
    '██'
    """
    eighths = round(share * 40 * 8) or (share > 0)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _groups(what: str, groups: tuple[tuple[str, ...], ...]) -> tuple[str, list[str]]:
    return f"{what}: {len(groups):,}", [" = ".join(group) for group in groups[:5]]
