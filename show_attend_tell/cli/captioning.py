"""The commands that use a model: caption, draw, models, doctor."""

import dataclasses
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from show_attend_tell.cli.app import app, refuse
from show_attend_tell.cli.options import JsonOption, ModelOption, search_options
from show_attend_tell.errors import UserError, counted, printable

if TYPE_CHECKING:
    from show_attend_tell.captioning.captioner import Source
    from show_attend_tell.cli.caption_file import Answer, CaptionFile, Form
    from show_attend_tell.drawing.items import Item

PicturesArgument = Annotated[
    list[str], typer.Argument(help="Files, folders or globs; `-` reads one picture from stdin.")
]
NBestOption = Annotated[
    int, typer.Option(help="Captions for each picture, best first.", rich_help_panel="Search")
]
CaptionJsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print each caption as a JSON object.", rich_help_panel="Output"),
]
CsvOption = Annotated[
    bool,
    typer.Option(
        "--csv",
        help="Print CSV: picture, caption, confidence, warnings, error, message.",
        rich_help_panel="Output",
    ),
]
CaptionsOutOption = Annotated[
    Path | None,
    typer.Option(
        help="Write the captions to this file, one by one as they are made.",
        show_default="standard output",
        rich_help_panel="Output",
    ),
]
ContinueOption = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Continue the file of --out: caption only pictures that it does not have.",
        rich_help_panel="Output",
    ),
]
ReplaceOption = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace the file of --out.", rich_help_panel="Output"),
]
SampleOption = Annotated[
    bool,
    typer.Option(
        "--sample", help="Sample captions instead of beam search.", rich_help_panel="Sampling"
    ),
]
TemperatureOption = Annotated[
    float | None,
    typer.Option(
        help="With --sample: below 1 closer to the likeliest words, above 1 more varied.",
        show_default="1",
        rich_help_panel="Sampling",
    ),
]
SeedOption = Annotated[
    int,
    typer.Option(
        help="Random seed; the same seed gives the same result.",
        rich_help_panel="Sampling",
    ),
]
DrawingOutOption = Annotated[
    Path | None,
    typer.Option(
        help="The ending chooses the kind: .png or .jpg a figure as in the paper, or a sheet of "
        "several pictures; .gif an animation; .html a page; .json or .npz the numbers.",
        show_default="PICTURE-attention.png, of several attention.html",
        rich_help_panel="Output",
    ),
]
WordOption = Annotated[
    str | None,
    typer.Option(
        help="Draw only this word, on the picture in full size.",
        show_default=False,
        rich_help_panel="Output",
    ),
]
CompareOption = Annotated[
    tuple[str, str] | None,
    typer.Option(
        metavar="MODEL MODEL",
        help="Draw the captions of two models, one below the other.",
        show_default=False,
    ),
]


@app.command()
@search_options("the model's")
def caption(
    pictures: PicturesArgument,
    model: ModelOption = None,
    json: CaptionJsonOption = False,
    csv: CsvOption = False,
    out: CaptionsOutOption = None,
    resume: ContinueOption = False,
    overwrite: ReplaceOption = False,
    n_best: NBestOption = 1,
    *,
    settings: dict[str, Any],
    sample: SampleOption = False,
    temperature: TemperatureOption = None,
    seed: SeedOption = 0,
) -> None:
    """Caption pictures, one line for each, in the order given; nothing leaves the machine.

    For example:

        sat caption photo.jpg

        sat caption holiday/ --json --out captions.jsonl --resume

        sat caption holiday/ --views 1 --beam 5 --consensus 0

        sat caption photo.jpg --sample --n-best 5 --seed 7

        sat caption photo.jpg --model runs/soft
    """
    from show_attend_tell import load
    from show_attend_tell.cli import terminal
    from show_attend_tell.cli.caption_file import FORMS, CaptionFile
    from show_attend_tell.files import same_file

    refuse(json and csv, "--json and --csv are two forms of output; choose one")
    refuse(resume and overwrite, "--resume keeps what --overwrite replaces; choose one")
    refuse((resume or overwrite) and not out, "--resume and --overwrite need --out FILE")
    for name in ("beam", "consensus"):
        refuse(sample and name in settings, f"--sample does not use --{name}; choose one")
    refuse(temperature is not None and not sample, "--temperature needs --sample")
    form = FORMS["json" if json else "csv" if csv else "text"]

    captioner = load(model)
    if sample:
        settings["temperature"] = 1.0 if temperature is None else temperature
    search = captioner.search.override(n_best=n_best, seed=seed, **settings)
    names, sources = _pictures(pictures)
    if out and overwrite:
        refuse(
            any(isinstance(one, Path) and same_file(out, one) for one in sources),
            f"{out}: is one of the pictures and would be lost; name another file",
        )
    failed = 0
    waiting: Sequence[int] = range(len(names))
    try:
        with ExitStack() as held:
            file = None
            if out:
                file = CaptionFile(out, form, names, n_best, resume=resume, overwrite=overwrite)
                held.enter_context(file)
                waiting = file.waiting
            _say_what_is_done(len(names) - len(waiting))
            if form.header and not file:
                terminal.print_line(form.header)
            # Captions that appear in the terminal are progress enough.
            bar = held.enter_context(terminal.progress(shown=bool(file) or not sys.stdout.isatty()))
            task = bar.add_task("captioning", total=len(waiting))
            answers = captioner.stream((sources[i] for i in waiting), search)
            for i, answer in zip(waiting, answers, strict=True):
                failed += isinstance(answer, UserError)
                _put(answer, names[i], form, file, is_alone=len(names) == 1)
                bar.advance(task)
    except KeyboardInterrupt:
        if out:
            message = "stopped; the same command with --resume goes on"
            terminal.console(stderr=True).print(message)
        raise
    if out:
        terminal.say_where("the captions are in", out)
    _end_if_failed(failed, len(waiting))


def _pictures(arguments: Sequence[str]) -> tuple[list[str], "list[Source]"]:
    """Names and sources of the pictures that arguments name; says which files were skipped."""
    from show_attend_tell.cli import terminal
    from show_attend_tell.cli.listing import list_pictures, skipped_sentence

    names, sources, skipped = list_pictures(arguments)
    if skipped:
        terminal.remark(skipped_sentence(skipped))
    return names, sources


def _say_what_is_done(done: int) -> None:
    from show_attend_tell.cli import terminal

    if done:
        message = f"{counted(done, 'picture')} captioned already"
        terminal.console(stderr=True).print(message)


def _put(
    answer: "Answer", name: str, form: "Form", file: "CaptionFile | None", *, is_alone: bool
) -> None:
    """Write the captions of a picture to the file or print them; an error is reported as well."""
    from show_attend_tell.cli import terminal
    from show_attend_tell.cli.caption_file import FORMS

    if isinstance(answer, UserError):
        terminal.complain(answer)
    if file:
        file.write(name, answer)
    elif is_alone and form is FORMS["text"] and not isinstance(answer, UserError):
        for one in answer:
            terminal.print_line(printable(one.text))
    else:
        for line in form.lines(name, answer):
            terminal.print_line(line)


def _end_if_failed(failed: int, total: int) -> None:
    """Count the pictures that failed, and end with the code for them."""
    from show_attend_tell.cli import terminal

    if failed:
        what = "the picture" if total == 1 else f"{failed:,} of {counted(total, 'picture')}"
        terminal.console(stderr=True).print(f"{what} failed")
        raise typer.Exit(1)


@app.command()
@search_options("the model's", "look")
def draw(
    pictures: PicturesArgument,
    model: ModelOption = None,
    compare: CompareOption = None,
    out: DrawingOutOption = None,
    word: WordOption = None,
    overwrite: ReplaceOption = False,
    *,
    settings: dict[str, Any],
    seed: SeedOption = 0,
) -> None:
    """Draw where the model looked for each word of a caption, as in the paper's figures.

    For example:

        sat draw photo.jpg

        sat draw photo.jpg --out photo.gif

        sat draw holiday/ --out holiday.html --model runs/soft

        sat draw photo.jpg --word dog --out dog.png

        sat draw photo.jpg --compare runs/soft runs/hard --out both.png
    """
    from show_attend_tell import drawing, load
    from show_attend_tell.cli import terminal
    from show_attend_tell.files import write_bytes

    refuse(bool(model and compare), "--compare names its two models; leave --model out")
    refuse(bool(compare) and len(set(compare or ())) == 1, "--compare needs two different models")
    names, sources = _pictures(pictures)
    several = len(names) > 1
    stem = "" if several else Path(names[0]).stem + "-"
    out = out or Path(f"{stem}attention.{'html' if several else 'png'}")
    wanted = compare or (model,)
    folders = [Path(one).name for one in compare or ()]
    labels = folders if len(set(folders)) == len(wanted) else compare or ("",)
    drawing.check(out, [Path(name) for name in names], len(wanted), word)
    if out.exists() and not overwrite:
        raise UserError(
            "request.exists",
            f"{out}: is there already; --overwrite replaces it, --out names another file",
        )
    items: list[Item] = []
    failed = 0
    for answer in drawing.caption_items(
        names,
        sources,
        {label: load(one) for label, one in zip(labels, wanted, strict=True)},
        in_full=word is not None,
        seed=seed,
        **settings,
    ):
        if isinstance(answer, UserError):
            failed += 1
            terminal.complain(answer)
            continue
        items += answer
        for name, one, _ in answer:
            head = f"{printable(name)}\t" if several or compare else ""
            terminal.print_line(head + printable(one.text))
    if items:
        write_bytes(out, drawing.make(out.suffix.lower(), items, word))
        terminal.say_where("drawn in", out)
    _end_if_failed(failed, len(names))


@app.command()
def models(json: JsonOption = False) -> None:
    """List the models that ship: what each is, its scores and licences.

    Use one with `--model NAME`, or `sat.load("NAME")` in Python.

    For example:

        sat models

        sat models --json
    """
    from show_attend_tell import SHIPPED
    from show_attend_tell.captioning import shipped
    from show_attend_tell.cli import tables, terminal

    found = shipped.describe(SHIPPED.parent, SHIPPED.name)
    terminal.print_json(found) if json else tables.print_models(found, terminal.console())


@app.command()
def doctor(
    model: ModelOption = None,
    json: JsonOption = False,
) -> None:
    """Check this installation, and say what to install for more.

    For example:

        sat doctor

        sat doctor --model runs/soft
    """
    from show_attend_tell.cli import doctor, tables, terminal

    findings = doctor.examine(model)
    if json:
        terminal.print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        tables.print_findings(findings, terminal.console())
    if not doctor.is_well(findings):
        raise typer.Exit(1)
