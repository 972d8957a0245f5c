"""The tables of `sat score`: for a terminal, and as Markdown."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from show_attend_tell.errors import counted
from show_attend_tell.scoring.analysis.diversity import Diversity
from show_attend_tell.scoring.report import Report, System
from show_attend_tell.scoring.statistics import LEVEL, Comparison

UNITS = "CIDEr-D runs from 0 to 10; the other scores are in percent."


Table = list[list[str]]  # the first row is the header


def tables(report: Report) -> list[Table]:
    """Scores or differences, a table for each other system; then how varied the captions are."""
    labels = _labels(report)
    systems = [*zip(labels, report.systems, strict=True)]
    return [
        *(
            [
                _difference_table(label, comparison)
                for label, comparison in zip(labels[1:], report.comparisons, strict=True)
            ]
            or [_score_table(report.first)]
        ),
        # Two side by side, which is as wide as a terminal is.
        *(_diversity_table(systems[start : start + 2]) for start in range(0, len(systems), 2)),
    ]


def caveat(report: Report) -> str:
    """What the p-values are not corrected for; empty where there is one."""
    number = sum(map(len, report.comparisons))
    return (
        f"Each p-value is of one comparison alone; no correction for these {number} comparisons "
        "is applied."
        if number > 1
        else ""
    )


def _score_table(system: System) -> Table:
    return [
        ["metric", "score", f"{LEVEL} % interval"],
        *(
            [name, _number(name, one.value), _interval(name, one.low, one.high)]
            for name, one in system.scores.items()
        ),
    ]


def _difference_table(label: str, comparison: Mapping[str, Comparison]) -> Table:
    return [
        ["metric", "first", label, "difference", f"{LEVEL} % interval", "p"],
        *(
            [
                name,
                _number(name, one.first),
                _number(name, one.second),
                _number(name, one.difference, "+"),
                _interval(name, one.low, one.high, "+"),
                f"{one.p_value:.4f}",
            ]
            for name, one in comparison.items()
        ),
    ]


def _diversity_table(systems: Sequence[tuple[str, System]]) -> Table:
    found = [system.diversity for _, system in systems]
    rows = [
        ["different words", *(f"{one.vocabulary:,}" for one in found)],
        ["distinct-1", *(f"{one.distinct_1:.4f}" for one in found)],
        ["distinct-2", *(f"{one.distinct_2:.4f}" for one in found)],
        ["different captions", *(f"{one.unique:.1%}" for one in found)],
        *([["unseen in training", *unseen]] if (unseen := _unseen(found)) else []),
        ["words a caption", *map(_words, found)],
        ["lengths", *map(_bars, found)],
    ]
    return [["diversity", *(label for label, _ in systems)], *rows]


def markdown(report: Report) -> str:
    """All tables, the names of the files and the signatures, to be pasted into a paper's draft."""
    lines = [
        f"{label.capitalize() or 'Captions'}: `{system.name}`{_scope(report)}  "
        for label, system in zip(_labels(report), report.systems, strict=True)
    ]
    for table in tables(report):
        lines += ["", *_markdown_table(table)]
    lines += ["", " ".join((UNITS, caveat(report))).strip(), ""]
    lines += [f"- {_names(names)}: `{text}`" for text, names in report.signatures.items()]
    return "\n".join(lines)


def print_report(report: Report, console: Console) -> None:
    """Print all tables and the signatures; in a pipe no lines are drawn."""
    for label, system in zip(_labels(report), report.systems, strict=True):
        number = counted(len(system.captions), "caption")
        facts = f", {number}{_scope(report)}, protocol {report.protocol}"
        start = f"{label}: " if label else ""
        console.print(Text.assemble(start, (system.name, "bold"), facts), soft_wrap=True)
    for header, *rows in tables(report):
        drawn = RichTable(
            box=box.ROUNDED if console.is_terminal else None, pad_edge=console.is_terminal
        )
        for place, column in enumerate(header):
            drawn.add_column(column, justify="right" if place else "left", no_wrap=True)
        for row in rows:
            drawn.add_row(*row)
        console.print(drawn)
        console.print()
    for line in filter(None, (UNITS, caveat(report))):
        console.print(Text(line, "dim"), soft_wrap=True)
    for signature, names in report.signatures.items():
        console.print(Text(f"{_names(names)}: {signature}", "dim"), soft_wrap=True)


def _labels(report: Report) -> list[str]:
    """What the systems are called in tables; a system alone needs no name."""
    words = ("first", "second", "third", "fourth", "fifth")
    number = len(report.systems)
    return [""] if number == 1 else [*words[:number], *(f"{n + 1}th" for n in range(5, number))]


def _scope(report: Report) -> str:
    if not report.subset_of:
        return ""
    return f" ({len(report.first.captions):,} of {report.subset_of:,} pictures)"


def _names(names: Sequence[str]) -> str:
    """Metrics that share a signature, short: BLEU-1 to BLEU-4 are BLEU."""
    return ", ".join(
        dict.fromkeys(name.split("-")[0] if "BLEU" in name else name for name in names)
    )


def _markdown_table(table: Table) -> list[str]:
    header, *rows = table
    right = ["---", *["---:"] * (len(header) - 1)]
    return ["| " + " | ".join(row) + " |" for row in (header, right, *rows)]


def _number(name: str, value: float | None, sign: str = "") -> str:
    assert value is not None, "intervals were asked for"
    return f"{value:{sign}.3f}" if name == "CIDEr-D" else f"{100 * value:{sign}.2f}"


def _interval(name: str, low: float | None, high: float | None, sign: str = "") -> str:
    return f"{_number(name, low, sign)} to {_number(name, high, sign)}"


def _unseen(found: Sequence[Diversity]) -> list[str]:
    return [f"{one.unseen:.1%}" for one in found if one.unseen is not None]


def _words(diversity: Diversity) -> str:
    lengths = diversity.lengths
    mean = sum(length * count for length, count in lengths.items()) / diversity.captions
    return f"{mean:.1f}, from {min(lengths)} to {max(lengths)}"


def _bars(diversity: Diversity) -> str:
    """Draw the lengths of the middle 99 % of captions in at most 20 bars.

    >>> _bars(Diversity(4, 4, 1.0, 1.0, 1.0, None, {3: 1, 4: 2, 6: 1}))
    '3 ▄█ ▄ 6'
    """
    below, usual = 0, []
    for length, count in diversity.lengths.items():
        if below < 0.995 * diversity.captions and below + count > 0.005 * diversity.captions:
            usual.append(length)
        below += count
    step = -(-(usual[-1] - usual[0] + 1) // 20)
    counts = [0] * (1 + (usual[-1] - usual[0]) // step)
    for length in usual:
        counts[(length - usual[0]) // step] += diversity.lengths[length]
    bars = "".join(" ▁▂▃▄▅▆▇█"[-(-8 * count // max(counts))] for count in counts)
    return f"{usual[0]} {bars} {usual[-1]}"
