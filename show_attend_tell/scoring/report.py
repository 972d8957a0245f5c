"""One system's captions scored, or two compared: the numbers, and the tables that show them."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from show_attend_tell.errors import UserError
from show_attend_tell.scoring.bootstrap import LEVEL, SEED, Comparison, compare
from show_attend_tell.scoring.diversity import Diversity, measure_diversity
from show_attend_tell.scoring.measure import DEFAULT_METRICS, Measured, measure
from show_attend_tell.scoring.meteor import why_not
from show_attend_tell.scoring.score import Score, score_measured

RESAMPLES = 1000
UNITS = "CIDEr-D runs from 0 to 10; the other scores are in percent."

Table = list[list[str]]  # the first row is the header


@dataclass(frozen=True)
class System:
    """One system's captions and what they are worth."""

    name: str
    captions: Mapping[str, str]
    measured: Mapping[str, Measured]
    scores: Mapping[str, Score]
    diversity: Diversity


@dataclass(frozen=True)
class Report:
    """One system, or two with their differences, on the same pictures."""

    recipe: str
    first: System
    second: System | None
    comparisons: Mapping[str, Comparison]  # empty without a second

    @property
    def systems(self) -> list[System]:
        """The systems in order."""
        return [self.first] if self.second is None else [self.first, self.second]

    @property
    def signatures(self) -> dict[str, list[str]]:
        """Signatures, and the metrics that share each."""
        shared: dict[str, list[str]] = {}
        for name, score in self.first.scores.items():
            shared.setdefault(score.signature, []).append(name)
        return shared


def choose_metrics() -> tuple[tuple[str, ...], UserError | None]:
    """Give the usual metrics, METEOR among them if its data is installed, else what it lacks."""
    lack = why_not()
    if lack:
        return DEFAULT_METRICS, lack
    place = DEFAULT_METRICS.index("ROUGE-L")
    return (*DEFAULT_METRICS[:place], "METEOR", *DEFAULT_METRICS[place:]), None


def make_report(
    systems: Mapping[str, Mapping[str, str]],
    references: Mapping[str, Sequence[str]],
    *,
    metrics: Sequence[str],
    recipe: str = "coco",
    training: Sequence[str] | None = None,
    watch: Callable[[int], object] = lambda done: None,
) -> Report:
    """Score the captions of one system, or of two and compare them.

    Parameters
    ----------
    systems
        One or two: their names, and their captions by picture.
    training
        Captions that were learned from, to count how many of the systems' are none of them.
    watch
        Called with 1 after each caption that METEOR has aligned.
    """
    made = []
    for name, captions in systems.items():
        measured = measure(captions, references, metrics=metrics, recipe=recipe, watch=watch)
        scores = score_measured(measured, resamples=RESAMPLES)
        diversity = measure_diversity(captions.values(), training=training, recipe=recipe)
        made.append(System(name, captions, measured, scores, diversity))
    first, second = (*made, None)[:2]
    assert first is not None, "there is at least one system"
    comparisons = compare(first.measured, second.measured, resamples=RESAMPLES) if second else {}
    return Report(recipe, first, second, comparisons)


def facts(report: Report) -> dict[str, Any]:
    """Everything at full precision, for machines; scores as they are, not in percent."""
    first, *others = (
        {
            "captions": system.name,
            "scores": {
                name: {key: getattr(score, key) for key in ("value", "low", "high", "signature")}
                for name, score in system.scores.items()
            },
            "diversity": dataclasses.asdict(system.diversity),
        }
        for system in report.systems
    )
    result: dict[str, Any] = {
        "recipe": report.recipe,
        "pictures": len(report.first.captions),
        "intervals": {"percent": LEVEL, "resamples": RESAMPLES, "seed": SEED},
        **first,
    }
    if others:
        result["against"] = others[0]
        result["comparison"] = {
            name: {key: getattr(one, key) for key in ("difference", "low", "high", "p_value")}
            for name, one in report.comparisons.items()
        }
    return result


def caption_facts(report: Report) -> Iterator[dict[str, Any]]:
    """Every picture with its captions and what each is worth alone."""
    alone = [
        {name: measured.per_caption for name, measured in system.measured.items()}
        for system in report.systems
    ]
    for id_ in report.first.captions:
        first, *others = (
            {
                "caption": system.captions[id_],
                "scores": {name: values[id_] for name, values in scores.items()},
            }
            for system, scores in zip(report.systems, alone, strict=True)
        )
        yield {"id": id_, **first, **({"against": others[0]} if others else {})}


def score_table(report: Report) -> Table:
    """Scores with their intervals; with a second system, differences with theirs."""
    if report.second is None:
        return [
            ["metric", "score", f"{LEVEL} % interval"],
            *(
                [name, _number(name, one.value), _interval(name, one.low, one.high)]
                for name, one in report.first.scores.items()
            ),
        ]
    return [
        ["metric", "first", "second", "difference", f"{LEVEL} % interval", "p"],
        *(
            [
                name,
                _number(name, one.first),
                _number(name, one.second),
                _number(name, one.difference, "+"),
                _interval(name, one.low, one.high, "+"),
                f"{one.p_value:.4f}",
            ]
            for name, one in report.comparisons.items()
        ),
    ]


def diversity_table(report: Report) -> Table:
    """How varied the captions are, a column a system."""
    found = [system.diversity for system in report.systems]
    rows = [
        ["different words", *(f"{one.vocabulary:,}" for one in found)],
        ["distinct-1", *(f"{one.distinct_1:.4f}" for one in found)],
        ["distinct-2", *(f"{one.distinct_2:.4f}" for one in found)],
        ["different captions", *(f"{one.unique:.1%}" for one in found)],
        *([["unseen in training", *unseen]] if (unseen := _unseen(found)) else []),
        ["words a caption", *map(_words, found)],
        ["lengths", *map(_bars, found)],
    ]
    return [["diversity", *([""] if len(found) == 1 else ["first", "second"])], *rows]


def markdown(report: Report) -> str:
    """Both tables, the names of the files and the signatures, to be pasted into a paper's draft."""
    labels = ["Captions"] if report.second is None else ["First", "Second"]
    lines = [
        *(f"{label}: `{one.name}`  " for label, one in zip(labels, report.systems, strict=True)),
        *("", *_markdown_table(score_table(report)), "", UNITS),
        *("", *_markdown_table(diversity_table(report)), ""),
        *(f"- {_names(names)}: `{text}`" for text, names in report.signatures.items()),
    ]
    return "\n".join(lines)


def print_report(report: Report, console: Console) -> None:
    """Print both tables and the signatures for a person; in a pipe no lines are drawn."""
    labels = [""] if report.second is None else ["first: ", "second: "]
    for label, system in zip(labels, report.systems, strict=True):
        facts = f", {len(system.captions):,} captions, recipe {report.recipe}"
        console.print(Text.assemble(label, (system.name, "bold"), facts), soft_wrap=True)
    for header, *rows in (score_table(report), diversity_table(report)):
        drawn = RichTable(
            box=box.ROUNDED if console.is_terminal else None, pad_edge=console.is_terminal
        )
        for place, column in enumerate(header):
            drawn.add_column(column, justify="right" if place else "left", no_wrap=True)
        for row in rows:
            drawn.add_row(*row)
        console.print(drawn)
        console.print()
    console.print(Text(UNITS, "dim"), soft_wrap=True)
    for signature, names in report.signatures.items():
        console.print(Text(f"{_names(names)}: {signature}", "dim"), soft_wrap=True)


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
