"""The commands for a trained run: evaluate, report, export."""

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from show_attend_tell.captioning.settings import SETTINGS
from show_attend_tell.cli.app import app, needs, refuse
from show_attend_tell.cli.options import (
    GroundingOption,
    JsonOption,
    OwnFeaturesArgument,
    RunArgument,
    SplitOption,
    search_options,
)


@app.command()
@search_options("the run's or the model's")
def evaluate(
    model: Annotated[
        Path, typer.Argument(help="A run folder; or a model folder, or a name from `sat models`.")
    ],
    data: Annotated[
        Path,
        typer.Argument(help="Prepared data with the run's own features; for a model a data set."),
    ],
    split: SplitOption = "dev",
    *,
    settings: dict[str, Any],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where scores.json and captions.jsonl go.",
            show_default="the run folder; for a model nowhere",
        ),
    ] = None,
    grounding: GroundingOption = None,
    json: JsonOption = False,
) -> None:
    """Caption a split and score it: BLEU and METEOR by three protocols, ROUGE-L and CIDEr-D.

    A run is evaluated on prepared features, a model folder on the pictures, as it ships.

    For example:

        sat evaluate runs/soft features/lite2

        sat evaluate runs/soft features/lite2 --split test --beam 3 --length-power 0.7

        sat evaluate runs/soft features/lite2 --grounding flickr8k/entities.json.gz

        sat evaluate flickr8k flickr8k --split test --views 1
    """
    from show_attend_tell.cli import tables, terminal
    from show_attend_tell.scoring.report import choose_metrics

    if (model / "recipe.toml").exists():
        refuse("views" in settings, "--views needs a model folder; `sat export RUN OUT` makes one")
        facts = _evaluate_run(model, data, split, settings, out, grounding)
    else:
        refuse(bool(grounding), "--grounding needs a run folder and the features of its pictures")
        facts = _evaluate_model(model, data, split, settings, out)
    if lack := choose_metrics()[1]:
        terminal.remark(f"METEOR is left out. {lack}")
    if json:
        terminal.print_json(facts)
        return
    tables.print_evaluation(facts, terminal.console())


@app.command()
@search_options("the recipe's", *(name for name in SETTINGS if name != "views"))
def report(
    run: RunArgument,
    store: OwnFeaturesArgument,
    split: SplitOption = "dev",
    *,
    settings: dict[str, Any],
    out: Annotated[
        Path | None, typer.Option(help="The page.", show_default="RUN/report-SPLIT.html")
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(
            help="The folder the pictures are in now, if not where they were prepared.",
            show_default=False,
        ),
    ] = None,
    grounding: GroundingOption = None,
) -> None:
    """Make one page of how good a trained model is, where it looks and what it gets wrong.

    Scores with intervals, learning curves, the best, median and worst captions with their
    attention, words used too often, attention over time, whether the model is as sure as it is
    right, and every mistake. The page opens anywhere and needs no network.

    For example:

        sat report runs/soft features/lite2 --split test

        sat report runs/soft features/lite2 --grounding flickr8k/entities.json.gz --out soft.html

        sat report runs/soft features/lite2 --pictures /where/they/are/now
    """
    with needs("train"):
        from show_attend_tell.learning.run import Run
        from show_attend_tell.learning.watching.report import gather
    from show_attend_tell.captioning.search import Search
    from show_attend_tell.cli import terminal
    from show_attend_tell.data.features import FeatureStore
    from show_attend_tell.files import make_room, write_text
    from show_attend_tell.report.page import report_page

    model = Run.open(run)
    opened = FeatureStore.open(store)
    search = Search.of(model.recipe.search, **settings)
    refuse(bool(pictures and not pictures.is_dir()), f"--pictures {pictures}: there is no folder")
    page = out or run / f"report-{split}.html"
    make_room(page)
    say = terminal.console(stderr=True)
    terminal.say_where("the page will be", page)
    with terminal.progress() as bar:

        def stage(name: str, total: int) -> Callable[[int], None]:
            return partial(bar.advance, bar.add_task(name, total=total))

        facts = gather(
            model, opened, split, search, pictures=pictures, boxes=grounding, stage=stage
        )
    write_text(page, report_page(facts))
    if facts.without_picture:
        say.print(
            f"{facts.without_picture:,} of {facts.pictures:,} pictures are not there any more; "
            "--pictures FOLDER says where they are"
        )
    say.print(f"done: {page.stat().st_size / 1e6:.1f} MB; open it in a browser")


@app.command()
@search_options("the recipe's")
def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path, typer.Argument(help="The model folder; RUN/model is also found by RUN.")],
    *,
    settings: dict[str, Any],
    encoder_weights: Annotated[
        str | None,
        typer.Option(
            help="The encoder's weights, if it does not bring its own.", show_default=False
        ),
    ] = None,
    example: Annotated[
        Path | None,
        typer.Option(
            help="A picture to keep with its caption, which `sat doctor` checks.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Turn a trained run into a model folder that captions pictures without PyTorch.

    The model keeps the search settings of its recipe, or those given here; `sat caption` can
    override them.

    For example:

        sat export runs/soft runs/soft/model

        sat export runs/soft runs/soft/model --beam 10 --consensus 30 --views 3

        sat export runs/paper runs/paper/model --encoder-weights vgg19.safetensors
    """
    from show_attend_tell.captioning.search import Search
    from show_attend_tell.cli import terminal

    with needs("train"):
        from show_attend_tell.learning.export.folder import export_model
        from show_attend_tell.learning.run import Run

    model = Run.open(run)
    export_model(
        model,
        out,
        search=Search.of(model.recipe.search, **settings),
        encoder_weights=encoder_weights,
        example=example,
    )
    size = sum(path.stat().st_size for path in out.iterdir())
    say = terminal.console(stderr=True)
    where = terminal.plain(out)
    say.print(f"the model is in [bold]{where}[/], {size / 1e6:.0f} MB", soft_wrap=True)
    say.print(f"next: sat caption --model {where} photo.jpg", soft_wrap=True)


def _evaluate_run(
    folder: Path,
    store: Path,
    split: str,
    settings: dict[str, Any],
    out: Path | None,
    grounding: Path | None,
) -> dict[str, Any]:
    with needs("train"):
        from show_attend_tell.learning import evaluate as evaluation
        from show_attend_tell.learning.run import Run
        from show_attend_tell.learning.watching.looking import look_at_boxes
    from show_attend_tell.captioning.search import Search
    from show_attend_tell.cli import terminal
    from show_attend_tell.data.features import FeatureStore

    run = Run.open(folder)
    opened = FeatureStore.open(store)
    search = Search.of(run.recipe.search, **settings)
    with terminal.progress() as bar:
        task = bar.add_task(f"captioning {split}", total=len(opened.rows(split)))
        result = evaluation.evaluate(
            run, opened, split, search, lambda done: bar.advance(task, done)
        )
        if grounding:
            looks = bar.add_task("watching where it looks", total=len(opened.rows(split)))
            looking = look_at_boxes(
                run, opened, split, grounding, lambda done: bar.advance(looks, done)
            )
            result = dataclasses.replace(result, looking=looking)
    facts = evaluation.write_evaluation(result, run, split, search, out or folder)
    terminal.say_where("captions and scores are in", out or folder)
    return facts


def _evaluate_model(
    model: Path,
    data: Path,
    split: str,
    settings: dict[str, Any],
    out: Path | None,
) -> dict[str, Any]:
    from show_attend_tell import load
    from show_attend_tell.cli import terminal
    from show_attend_tell.data.layouts import load_dataset
    from show_attend_tell.evaluation import evaluate_model, write_files

    captioner = load(model)
    dataset = load_dataset(data)
    search = captioner.search.override(**settings)
    with terminal.progress() as bar:
        pictures = sum(example.split == split for example in dataset.examples)
        task = bar.add_task(f"captioning {split}", total=pictures)
        captions, facts = evaluate_model(
            captioner, dataset, split, search, lambda done: bar.advance(task, done)
        )
    if out:
        rows = ((name, " ".join(one.words), one.log_prob) for name, one in captions.items())
        write_files(out, facts, rows)
        terminal.say_where("captions and scores are in", out)
    return facts
