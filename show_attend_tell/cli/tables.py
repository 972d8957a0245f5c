"""Tables of `sat show`, `sat doctor`, `sat models` and `sat evaluate`."""

from collections import Counter
from itertools import accumulate
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from show_attend_tell.captioning.settings import describe
from show_attend_tell.cli.doctor import Finding
from show_attend_tell.cli.terminal import plain
from show_attend_tell.data.summary import Spread, Summary
from show_attend_tell.errors import counted, printable


def print_facts(facts: dict[str, Any], console: Console) -> None:
    """One line a fact, nested ones below their name."""
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_column(style="dim")
    for name, value in facts.items():
        if isinstance(value, dict):
            shown = "\n".join(plain(f"{key}: {part}") for key, part in value.items())
        else:
            shown = plain(str(value))
        grid.add_row(name, shown)
    console.print(grid)


def print_findings(findings: list[Finding], console: Console) -> None:
    """A line a finding, with its remedy below."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    signs = {True: "[green]✓[/]", False: "[bold red]✗[/]", None: "[dim]–[/]"}
    for finding in findings:
        found = plain(finding.found)
        if finding.remedy:
            found += f"\n[{'red' if finding.works is False else 'dim'}]{plain(finding.remedy)}[/]"
        grid.add_row(signs[finding.works], f"[bold]{plain(finding.what)}[/]", found)
    console.print(grid)


def print_models(models: list[dict[str, Any]], console: Console) -> None:
    """Each model: what it is, its scores under the protocol coco, the licences on its card."""
    for model in models:
        scores = model["scores"]
        lines = [
            f"{model['attention']} attention, {model['encoder']}, {model['words']:,} words, "
            f"{model['bytes'] / 1e6:.0f} MB",
            f"{model['data_set']} {scores['split']}: BLEU-4 {100 * scores['BLEU-4']:.1f}, "
            f"METEOR {100 * scores['METEOR']:.1f}, CIDEr-D {scores['CIDEr-D']:.3f}",
        ]
        is_default = " (the default)" if model["default"] else ""
        console.print(f"[bold]{plain(model['name'])}[/]{is_default}")
        for style, text in (("", lines), ("dim", model["licences"])):
            console.print(Padding("\n".join(map(plain, text)), (0, 0, 0, 2), style=style))


def print_summary(summary: Summary, console: Console) -> None:
    """Print a data set at a glance."""
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


def print_evaluation(facts: dict[str, Any], out: Console) -> None:
    """The table of `sat evaluate`."""
    table = Table(
        title=f"{facts['run']}, {facts['split']}: {counted(facts['pictures'], 'picture')}, "
        f"{describe(facts['search'])}",
        title_justify="left",
    )
    table.add_column("protocol")
    table.add_column("brevity penalty")
    bleu = [f"BLEU-{order}" for order in range(1, 5)]
    meteor = ["METEOR"] if all("METEOR" in scores for scores in facts["scores"].values()) else []
    for heading in (*bleu, *meteor):
        table.add_column(heading, justify="right")
    for protocol, scores in facts["scores"].items():
        for penalty, name in (("nobp", "no"), ("bp", "yes")):
            shown = [*(f"{one}-{penalty}" for one in bleu), *meteor]
            values = (f"{100 * scores[metric]['value']:.2f}" for metric in shown)
            table.add_row(protocol, name, *values)
    out.print(table)
    for protocol, scores in facts["scores"].items():
        out.print(f"[dim]{protocol}: {scores['BLEU-4-nobp']['signature']}[/]", soft_wrap=True)
    out.print("protocol coco, with 95 % intervals:")
    for name, score in facts["scores"]["coco"].items():
        if not name.startswith("BLEU"):
            low, value, high = (
                f"{score[key]:.3f}" if name == "CIDEr-D" else f"{100 * score[key]:.2f}"
                for key in ("low", "value", "high")
            )
            out.print(f"{name} {value} ({low} to {high})")
    if "grounding" in facts:
        _print_attention(facts["grounding"], facts["attention"], out)


def _print_attention(grounding: dict[str, Any], attention: dict[str, Any], out: Console) -> None:
    table = Table(title="where it looks at a word with a box", title_justify="left")
    for heading in ("", "model", "95 %", "even", "centre"):
        table.add_column(heading, justify="right" if heading else "left")
    titles = {"mass": "attention inside the boxes", "pointing": "most attended place inside"}
    for name, title in titles.items():
        score = grounding[name]
        others = [grounding[f"{name}-{baseline}"]["value"] for baseline in ("even", "centre")]
        table.add_row(
            title,
            f"{100 * score['value']:.1f} %",
            f"{100 * score['low']:.1f} to {100 * score['high']:.1f}",
            *(f"{100 * other:.1f} %" for other in others),
        )
    out.print(table)
    out.print(f"[dim]{grounding['mass']['signature']}[/]", soft_wrap=True)
    gates = ", ".join(f"{name} words {gate:.2f}" for name, gate in attention["gates"].items())
    out.print(
        f"entropy {attention['entropy']:.2f} nats a word (sharpness {attention['sharpness']:.2f}); "
        f"{100 * attention['change']:.0f} % of the weight moves from word to word; two pictures "
        f"share {100 * attention['likeness']:.0f} %\nmean gate: {gates}",
        soft_wrap=True,
    )
