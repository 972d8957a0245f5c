"""The commands that need data alone: show and score."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from show_attend_tell.cli.app import app
from show_attend_tell.cli.options import (
    AllCaptionsOption,
    JsonOption,
    LayoutOption,
    PicturesOption,
    ScoringProtocol,
    open_dataset,
)
from show_attend_tell.errors import UserError, counted, printable

if TYPE_CHECKING:
    from show_attend_tell.scoring.files import Columns, References


@app.command()
def show(
    what: Annotated[Path, typer.Argument(help="A data set, a feature store or a run folder.")],
    layout: LayoutOption = None,
    pictures: PicturesOption = None,
    all_captions: AllCaptionsOption = False,
    json: JsonOption = False,
) -> None:
    """Summarise a data set, a feature store or a run folder.

    For example:

        sat show flickr8k

        sat show features/lite2

        sat show runs/soft
    """
    from show_attend_tell.cli import showing, tables, terminal
    from show_attend_tell.data.summary import summarise

    if facts := None if layout else showing.facts_of(what):
        terminal.print_json(facts) if json else tables.print_facts(facts, terminal.console())
        return
    found = summarise(open_dataset(what, layout, pictures, all_captions))
    if json:
        terminal.print_json(dataclasses.asdict(found))
    else:
        tables.print_summary(found, terminal.console())


_READING, _SCORING, _COMPARING, _OUTPUT = "Reading", "Scoring", "Comparing", "Output"


# Long, because each option is described where it is declared.
@app.command()
def score(
    candidates: Annotated[
        Path,
        typer.Argument(
            help="Generated captions: JSON, JSON Lines, a table (.csv, .tsv) with ids, or text "
            "with one a line; - reads standard input."
        ),
    ],
    references: Annotated[
        list[Path],
        typer.Argument(
            help="Reference captions: a data set, a feature store, COCO annotations, a file with "
            "ids, or text files (line i of each for picture i)."
        ),
    ],
    split: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The split of a data set: train, dev or test.",
            show_default="test",
            rich_help_panel=_READING,
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column or JSON key of the picture's id, in the files that have it.",
            show_default="image_id, file_name, id, ...",
            rich_help_panel=_READING,
        ),
    ] = None,
    caption_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column or JSON key of the caption, in the files that have it.",
            show_default="caption, prediction, references, ...",
            rich_help_panel=_READING,
        ),
    ] = None,
    subset: Annotated[
        bool,
        typer.Option(
            "--subset",
            help="Score only the pictures that have a caption in every file; the signature names "
            "them.",
            rich_help_panel=_READING,
        ),
    ] = False,
    training: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Training captions: report the share of generated captions that are not among "
            "them. A data set brings its own.",
            show_default=False,
            rich_help_panel=_READING,
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="BLEU-1 to BLEU-4 (-bp or -nobp: with or without brevity penalty), METEOR, "
            "ROUGE-L, CIDEr-D, or SPICE, which needs Java (repeatable).",
            show_default="all but SPICE",
            rich_help_panel=_SCORING,
        ),
    ] = None,
    protocol: Annotated[
        ScoringProtocol,
        typer.Option(
            help="How text is tokenised: as coco-caption does, as the paper's authors did (full "
            "stop kept), or plain, without punctuation.",
            rich_help_panel=_SCORING,
        ),
    ] = ScoringProtocol.coco,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Another system's captions, to compare with: differences, intervals, p-values "
            "(repeatable).",
            show_default=False,
            rich_help_panel=_COMPARING,
        ),
    ] = None,
    per_caption: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the scores of every caption to this file, as JSON Lines.",
            show_default=False,
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON for machines.", rich_help_panel=_OUTPUT),
    ] = False,
    markdown: Annotated[
        bool,
        typer.Option("--markdown", help="Print Markdown tables.", rich_help_panel=_OUTPUT),
    ] = False,
) -> None:
    """Score captions against references with BLEU, METEOR, ROUGE-L, CIDEr-D and SPICE.

    Each score has a 95 % bootstrap interval and a signature; only scores with equal signatures
    are comparable. Java is needed for SPICE alone.

    For example:

        sat score results.json captions_val2014.json

        sat score captions.jsonl flickr8k --split dev --against theirs.csv

        sat score captions.txt first.txt second.txt --metric cider --metric bleu-4
    """
    from show_attend_tell.cli import score_tables, terminal
    from show_attend_tell.files import write_json_lines
    from show_attend_tell.scoring import pairing, report
    from show_attend_tell.scoring.files import Columns, name_of
    from show_attend_tell.scoring.measure import check_metrics, find_metric

    if json and markdown:
        raise UserError("request.output", "--json and --markdown exclude each other; give one")
    paths = [candidates, *(against or ())]
    for path in paths:
        if paths.count(path) > 1:
            problem = f"{name_of(path)}: named twice; compare with another file"
            raise UserError("request.against", problem)
    metrics, lack = report.choose_metrics()
    if metric:
        metrics, lack = tuple(dict.fromkeys(map(find_metric, metric))), None
        check_metrics(metrics)
    columns = Columns(id_column, caption_column)
    found, training_captions = _references(references, split, columns)
    if training:
        asked = "train" if _is_data_set(training) else None
        given, of_set = _references([training], asked, columns)
        training_captions = of_set or [text for own in given.captions.values() for text in own]
    systems, notes = _read_systems(paths, found, columns, subset)
    scored, total = found.captions, None
    if any(len(captions) < len(scored) for captions in systems.values()):
        total = len(scored)
        systems, scored, note = pairing.common(systems, scored)
        notes.append(note)
    for note in [*notes, *([f"METEOR is left out. {lack}"] if lack else [])]:
        terminal.remark(note)
    with terminal.progress() as bar:
        slow = "METEOR" in metrics
        task = bar.add_task(
            "METEOR" if slow else "scoring", total=len(scored) * len(systems) if slow else None
        )
        made = report.make_report(
            systems,
            scored,
            metrics=metrics,
            protocol=protocol.value,
            training=training_captions,
            watch=lambda done: bar.advance(task, done),
            subset_of=total,
        )
    if per_caption:
        write_json_lines(per_caption, report.caption_facts(made))
        terminal.say_where("every caption's scores are in", per_caption)
    if json:
        terminal.print_json({**report.facts(made), "references": found.source, "notes": notes})
    elif markdown:
        terminal.print_line(score_tables.markdown(made))
    else:
        score_tables.print_report(made, terminal.console())


def _read_systems(
    paths: Sequence[Path], references: "References", columns: "Columns", subset: bool
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Each file's captions by the ids of the references, and the notes of reading them."""
    from show_attend_tell.scoring.files import read_candidates
    from show_attend_tell.scoring.pairing import pair

    systems, notes = {}, list(references.notes)
    taken = set(references.columns)
    for path in paths:
        candidates = read_candidates(path, columns)
        taken |= candidates.columns
        captions, more = pair(candidates, references, subset=subset)
        systems[printable(candidates.source)] = captions
        notes += more
    for option, name in (("--id-column", columns.id), ("--caption-column", columns.caption)):
        if name and name.lower() not in taken:
            problem = f"{option} {name}: no file has such a column"
            raise UserError("request.column", f"{problem}; leave it out, or name one that is there")
    return systems, notes


def _is_data_set(path: Path) -> bool:
    from show_attend_tell.data.layouts import names_splits

    try:
        return names_splits(path)
    except UserError as error:
        if error.code == "data.row":  # reading it raises this again
            return False
        raise


def _references(
    paths: list[Path], split: str | None, columns: "Columns"
) -> "tuple[References, list[str] | None]":
    """References; of a data set those of one split, and also the captions of its training split."""
    from show_attend_tell.data.features import FeatureStore
    from show_attend_tell.data.layouts import load_dataset
    from show_attend_tell.scoring.files import References, is_text, read_references

    path = paths[0]
    if split is None and (len(paths) > 1 or not _is_data_set(path)):
        return read_references(paths, columns), None
    if len(paths) > 1 or (path.is_file() and is_text(path) and not _is_data_set(path)):
        raise UserError("request.split", f"{path}: text has no splits; leave --split out")
    notes: tuple[str, ...] = ()
    if (path / "index.json").exists():
        store = FeatureStore.open(path)
        missing = set(store.missing())
        examples = tuple(one for row, one in enumerate(store.examples) if row not in missing)
        if left_out := len(store.examples) - len(examples):
            notes = (f"{path}: left out {counted(left_out, 'picture')} without features.",)
    else:
        dataset = load_dataset(path, captions_per_picture=None)
        examples, notes = dataset.examples, dataset.notes
    split = split or "test"
    wanted = {example.id: example.captions for example in examples if example.split == split}
    if not wanted:
        there = ", ".join(sorted({example.split for example in examples}))
        raise UserError(
            "request.split", f"{path}: no pictures in split {split!r}; there are {there}"
        )
    found = References(f"{path} ({split})", wanted, has_order=False, notes=notes)
    return found, [text for one in examples if one.split == "train" for text in one.captions]
