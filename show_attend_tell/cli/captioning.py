"""The verbs of telling: caption, draw, models, doctor."""

import dataclasses
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from show_attend_tell.cli.app import app, refuse
from show_attend_tell.cli.options import (
    LOOK_HELP,
    JsonOption,
    Look,
    ModelOption,
    OverwriteOption,
)
from show_attend_tell.errors import UserError, counted, printable


@app.command()
def caption(
    pictures: Annotated[
        list[str], typer.Argument(help="Files, folders or globs; `-` reads one picture from stdin.")
    ],
    model: ModelOption = None,
    beam: Annotated[
        int | None, typer.Option(help="Hypotheses kept; 1 is greedy.", show_default="the model's")
    ] = None,
    n_best: Annotated[int, typer.Option(help="Captions told of each picture.")] = 1,
    consensus: Annotated[
        int | None,
        typer.Option(
            help="Draw this many captions and tell the one of the beam's that agrees best with "
            "them; 0: the likeliest. With 30 it takes three times as long.",
            show_default="the model's",
        ),
    ] = None,
    repetition_penalty: Annotated[
        float | None,
        typer.Option(
            help="Nats taken from a word that the caption has already, the commonest excepted. "
            "3 is good.",
            show_default="the model's",
        ),
    ] = None,
    views: Annotated[
        int | None,
        typer.Option(
            help="Look at 1, 2 or 3 views of each picture, the whole, its middle, its mirror "
            "image: better captions, three in about twice the time of one.",
            show_default="the model's",
        ),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw captions at random instead of searching.")
    ] = False,
    temperature: Annotated[
        float | None,
        typer.Option(
            help="With --sample: below 1 nearer to the likeliest words.", show_default="1"
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="For --sample and --look sampled: the same one, the same captions.")
    ] = 0,
    look: Annotated[Look | None, typer.Option(help=LOOK_HELP, show_default="the model's")] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
    csv: Annotated[
        bool,
        typer.Option("--csv", help="CSV: picture, caption, confidence, warnings, error, message."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A file for the captions, each on disk before the next begins.",
            show_default="standard output",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the captions in --out: only pictures that have none there.",
        ),
    ] = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Tell what is in pictures, one line each, in the order given; nothing leaves the machine.

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
    from show_attend_tell.cli.listing import list_pictures, skipped_sentence
    from show_attend_tell.files import same_file

    refuse(json and csv, "--json and --csv are two forms of output; choose one")
    refuse(resume and overwrite, "--resume keeps what --overwrite replaces; choose one")
    refuse((resume or overwrite) and not out, "--resume and --overwrite need --out FILE")
    refuse(sample and beam is not None, "--sample draws without a --beam; choose one")
    refuse(
        sample and consensus is not None, "--sample draws captions without --consensus; choose one"
    )
    refuse(temperature is not None and not sample, "--temperature needs --sample")
    form = FORMS["json" if json else "csv" if csv else "text"]
    say = terminal.console(stderr=True)

    captioner = load(model, views=views)
    if beam is None:
        beam = captioner.search.beam if sample else max(captioner.search.beam, n_best)
    search = dataclasses.replace(
        captioner.search,
        beam=beam,
        n_best=n_best,
        temperature=(1.0 if temperature is None else temperature) if sample else None,
        seed=seed,
        look=look.value if look else captioner.search.look,
        consensus=captioner.search.consensus if consensus is None else consensus,
        repetition_penalty=captioner.search.repetition_penalty
        if repetition_penalty is None
        else repetition_penalty,
    )
    names, sources, skipped = list_pictures(pictures)
    if skipped:
        terminal.remark(skipped_sentence(skipped))
    if out and overwrite:
        refuse(
            any(isinstance(one, Path) and same_file(out, one) for one in sources),
            f"{out}: is one of the pictures and would be lost; name another file",
        )
    failed = 0
    waiting = list(range(len(names)))
    try:
        with ExitStack() as held:
            file = None
            if out:
                file = CaptionFile(out, form, names, n_best, resume=resume, overwrite=overwrite)
                held.enter_context(file)
                waiting = file.waiting
            if len(waiting) < len(names):
                done = counted(len(names) - len(waiting), "picture")
                say.print(f"{done} captioned already")
            if form.header and not file:
                terminal.print_line(form.header)
            # Captions that appear in the terminal are progress enough.
            is_shown = bool(file) or not sys.stdout.isatty()
            bar = held.enter_context(terminal.progress(shown=is_shown))
            task = bar.add_task("captioning", total=len(waiting))
            answers = captioner.stream((sources[i] for i in waiting), search)
            for i, answer in zip(waiting, answers, strict=True):
                if isinstance(answer, UserError):
                    failed += 1
                    terminal.complain(answer)
                if file:
                    file.write(names[i], answer)
                elif (
                    len(names) == 1 and form is FORMS["text"] and not isinstance(answer, UserError)
                ):
                    for one in answer:
                        terminal.print_line(printable(one.text))
                else:
                    for line in form.lines(names[i], answer):
                        terminal.print_line(line)
                bar.advance(task)
    except KeyboardInterrupt:
        if out:
            say.print("stopped; the same command with --resume goes on")
        raise
    if out:
        terminal.say_where("the captions are in", out)
    _end_if_failed(failed, len(waiting))


def _end_if_failed(failed: int, total: int) -> None:
    """Count the pictures that failed, and end with the code for them."""
    from show_attend_tell.cli import terminal

    if failed:
        what = "the picture" if total == 1 else f"{failed:,} of {counted(total, 'picture')}"
        terminal.console(stderr=True).print(f"{what} failed")
        raise typer.Exit(1)


@app.command()
def draw(
    pictures: Annotated[
        list[str], typer.Argument(help="Files, folders or globs; `-` reads one picture from stdin.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Its ending says what is made: .png or .jpg the paper's figure, of several "
            "pictures a sheet; .gif word by word; .html a page; .json or .npz the numbers.",
            show_default="PICTURE-attention.png, of several attention.html",
        ),
    ] = None,
    word: Annotated[
        str | None,
        typer.Option(
            help="Where this word looked, each time it was told, on the picture in full size.",
            show_default=False,
        ),
    ] = None,
    model: ModelOption = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="MODEL MODEL",
            help="Two models, word by word, one below the other.",
            show_default=False,
        ),
    ] = None,
    look: Annotated[Look | None, typer.Option(help=LOOK_HELP, show_default="the model's")] = None,
    seed: Annotated[
        int, typer.Option(help="For --look sampled: the same one, the same places.")
    ] = 0,
    overwrite: OverwriteOption = False,
) -> None:
    """Draw where each word of a picture's caption looked, as in the paper's figures.

    For example:

        sat draw photo.jpg

        sat draw photo.jpg --out photo.gif

        sat draw holiday/ --out holiday.html --model runs/soft

        sat draw photo.jpg --word dog --out dog.png

        sat draw photo.jpg --compare runs/soft runs/hard --out both.png
    """
    from show_attend_tell import drawing, load
    from show_attend_tell.cli import terminal
    from show_attend_tell.cli.listing import list_pictures, skipped_sentence
    from show_attend_tell.files import write_bytes

    refuse(bool(model and compare), "--compare names its two models; leave --model out")
    refuse(bool(compare) and len(set(compare or ())) == 1, "--compare needs two different models")
    names, found, skipped = list_pictures(pictures)
    if skipped:
        terminal.remark(skipped_sentence(skipped))
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
    items, failed = [], 0
    for told in drawing.caption_items(
        names,
        found,
        {label: load(one) for label, one in zip(labels, wanted, strict=True)},
        in_full=word is not None,
        seed=seed,
        **({"look": look.value} if look else {}),
    ):
        if isinstance(told, UserError):
            failed += 1
            terminal.complain(told)
            continue
        items += told
        for name, one, _ in told:
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
