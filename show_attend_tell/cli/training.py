"""The commands of training: prepare, train, average, tune."""

from collections.abc import Collection
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from show_attend_tell.cli.app import app, needs, refuse
from show_attend_tell.cli.options import (
    DEFAULT_RECIPE,
    AllCaptionsOption,
    DataArgument,
    Fit,
    LayoutOption,
    NewRunArgument,
    PicturesOption,
    RecipeOption,
    ResumeOption,
    SetOption,
    StoreArgument,
    ThreadsOption,
    open_dataset,
)

if TYPE_CHECKING:
    from show_attend_tell.learning.encoders.prepare import Preparation
    from show_attend_tell.learning.recipe import Recipe


_FEATURES = "Features"
_RUN = "Run"
_SEARCH = "Search"
_THE_RECIPES = "the recipe's"

EncoderOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="efficientnet-lite0/1/2, vgg16/19, timm:NAME or torchvision:NAME; A+B joins two.",
        show_default=_THE_RECIPES,
        rich_help_panel=_FEATURES,
    ),
]
EncoderWeightsOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Weights of the encoder: a .safetensors or .pth file, `random`, or `download` for "
        "timm and torchvision. EfficientNet-Lite needs none.",
        show_default=False,
        rich_help_panel=_FEATURES,
    ),
]
GridOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Cells along a side of the feature map, such as 7 or 14.",
        show_default=_THE_RECIPES,
        rich_help_panel=_FEATURES,
    ),
]
SizeOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="PIXELS",
        help="Side of the square picture that the encoder is given.",
        show_default=_THE_RECIPES,
        rich_help_panel=_FEATURES,
    ),
]
FitOption = Annotated[
    Fit | None,
    typer.Option(
        help="Crop the centre square of a picture, or squeeze all of it into a square.",
        show_default=_THE_RECIPES,
        rich_help_panel=_FEATURES,
    ),
]
AugmentationsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Augmentations of each training picture: crops and mirror images; 1 is none.",
        show_default=_THE_RECIPES,
        rich_help_panel=_FEATURES,
    ),
]
FineTunedOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="STAGES",
        help="Leave out the encoder's last stages, for `sat train` to fine-tune them.",
        show_default=_THE_RECIPES,
        rich_help_panel=_FEATURES,
    ),
]
StartFromOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="RUN",
        help="Begin with the best weights of another run, such as a soft one for a hard one.",
        show_default=False,
        rich_help_panel=_RUN,
    ),
]
TensorBoardOption = Annotated[
    bool,
    typer.Option(
        "--tensorboard",
        help="Also write RUN/tensorboard, for TensorBoard.",
        rich_help_panel=_RUN,
    ),
]
SearchOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUES",
        help="Search section.key=low..high, =low..high:log on a logarithmic scale, or =a,b,c; "
        "may be repeated.",
        show_default="see above",
        rich_help_panel=_SEARCH,
    ),
]
TrialsOption = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="Trials in all, those of earlier calls among them.",
        rich_help_panel=_SEARCH,
    ),
]


@app.command()
def prepare(
    data: DataArgument,
    out: Annotated[Path, typer.Argument(help="The feature store, a folder; made or resumed.")],
    layout: LayoutOption = None,
    pictures: PicturesOption = None,
    all_captions: AllCaptionsOption = False,
    recipe: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Prepare the features that this recipe asks for; --encoder takes its place.",
            rich_help_panel=_FEATURES,
        ),
    ] = DEFAULT_RECIPE,
    encoder: EncoderOption = None,
    encoder_weights: EncoderWeightsOption = None,
    grid: GridOption = None,
    size: SizeOption = None,
    fit: FitOption = None,
    augmentations: AugmentationsOption = None,
    fine_tuned: FineTunedOption = None,
) -> None:
    """Compute the features of a data set, once; after a crash the same command resumes.

    For example:

        sat prepare flickr8k features/lite2

        sat prepare flickr8k features/vgg19 --recipe paper/flickr8k-soft --encoder-weights FILE

        sat prepare my-photos features/mine --encoder efficientnet-lite0 --grid 14 --augmentations 4
    """
    from show_attend_tell.cli import terminal
    from show_attend_tell.errors import counted

    dataset = open_dataset(data, layout, pictures, all_captions)
    with needs("train"):
        from show_attend_tell.learning.encoders import make_encoder
        from show_attend_tell.learning.encoders.prepare import Preparation
        from show_attend_tell.learning.recipe import EncoderSection, load_recipe

    for note in dataset.notes:
        terminal.remark(note)
    asked = EncoderSection(name=encoder) if encoder else load_recipe(recipe).encoder
    augmentations = augmentations or asked.augmentations
    network = make_encoder(
        asked.name,
        weights=encoder_weights,
        grid=grid or asked.grid,
        size=size or asked.size,
        fit=fit.value if fit else asked.fit,
    )
    work = Preparation(
        dataset,
        out,
        network,
        augmentations=augmentations,
        fine_tuned=asked.fine_tuned if fine_tuned is None else fine_tuned,
    )
    thing = "picture" if augmentations == 1 else "augmented picture"
    skipped = _encode(work, thing, out)
    count = len(dataset.examples)
    say = terminal.console(stderr=True)
    say.print(f"done: {counted(count - len(skipped), 'picture')} in [bold]{terminal.plain(out)}[/]")
    if skipped:
        unread = f"{len(skipped):,} of {counted(count, 'picture')}"
        say.print(f"{unread} could not be read; mend them and run again")
        raise typer.Exit(1)


def _encode(work: "Preparation", thing: str, out: Path) -> Collection[str]:
    """Do the work, with what there is to do said before; why each skipped picture was skipped."""
    from show_attend_tell.cli import terminal
    from show_attend_tell.errors import counted
    from show_attend_tell.files import readable_size

    say = terminal.console(stderr=True)
    rows, columns = work.encoder.grid
    total, waiting = len(work.store.sources), len(work.waiting)
    say.print(
        f"[bold]{work.encoder.name}[/]: {rows} × {columns} × {work.encoder.depth} numbers each, "
        f"{counted(total, thing)}, {readable_size(work.bytes_needed)} in "
        f"[bold]{terminal.plain(out)}[/]"
    )
    if waiting < total:
        say.print(f"{counted(total - waiting, thing)} done already")
    if waiting:
        say.print(f"about {terminal.duration(work.seconds_left())} for {counted(waiting, thing)}")
    with terminal.progress() as bar:
        task = bar.add_task("encoding", total=waiting)
        skipped = work.run(lambda done: bar.advance(task, done)).values()
    for reason in skipped:
        say.print(f"[red]skipped[/] {terminal.plain(reason)}", soft_wrap=True)
    return skipped


@app.command()
def train(
    store: StoreArgument,
    run: NewRunArgument,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    resume: ResumeOption = False,
    start_from: StartFromOption = None,
    tensorboard: TensorBoardOption = False,
    threads: ThreadsOption = None,
) -> None:
    """Train a model; after Ctrl-C or a power cut, --resume continues the run.

    A resumed run ends bit-identical to one without a break, on the same machine with the same
    versions and threads.

    For example:

        sat train features/lite2 runs/soft

        sat train features/vgg19 runs/paper --recipe paper/flickr8k-soft

        sat train features/lite2 runs/small --set model.hidden=256 --set training.epochs=3

        sat train features/lite2 runs/soft --resume

        sat train features/lite2 runs/hard --recipe flickr8k-hard --start-from runs/soft
    """
    # A list, because of a single option Click would silently take the last.
    refuse(
        len(start_from or []) > 1,
        "--start-from takes one run; average several first: `sat average A B --out C`",
    )
    with needs("train"):
        import torch

        from show_attend_tell.learning.loop.trainer import train as learn
    from show_attend_tell.cli import terminal
    from show_attend_tell.data.features import FeatureStore
    from show_attend_tell.learning.watching.events import Event, Start, Watch

    if threads:
        torch.set_num_threads(threads)
    chosen = _recipe_of(run, recipe, set_, resume)
    begin = start_from[0] if start_from else None
    opened = FeatureStore.open(store)
    say = terminal.console(stderr=True)
    features, where = terminal.plain(store), terminal.plain(run)

    def begun(event: Event) -> None:  # only now: until here the folder may be refused
        if isinstance(event, Start):
            say.print(f"training into [bold]{where}[/]; Ctrl-C saves, --resume continues")

    with ExitStack() as watchers:
        watch: list[Watch] = [
            begun,
            watchers.enter_context(closing(terminal.TrainingProgress(say))),
        ]
        if tensorboard:
            with needs("tensorboard"):
                from show_attend_tell.learning.watching.tensorboard import TensorBoard
            watch.append(watchers.enter_context(closing(TensorBoard(run))))
        try:
            learn(opened, run, chosen, resume=resume, start_from=begin, watch=watch)
        except KeyboardInterrupt:
            watchers.close()
            command = f"sat train {features} {where} --resume"
            say.print(f"stopped; resume with: {command}", soft_wrap=True)
            raise
    terminal.say_where("the best model is in", run / "best.safetensors")
    say.print(f"learning curves: {where}/curves.html, attention by epoch: {where}/sheets")
    say.print(f"next: sat evaluate {where} {features} --split test", soft_wrap=True)


def _recipe_of(
    run: Path, recipe: str | None, set_: list[str] | None, resume: bool
) -> "Recipe | None":
    """The recipe that was asked for; None for that of the run to resume."""
    from show_attend_tell.learning.recipe import load_recipe

    begins = not resume or not (run / "recipe.toml").exists()
    return load_recipe(recipe or DEFAULT_RECIPE, set_ or []) if recipe or set_ or begins else None


@app.command()
def average(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders; one named twice counts twice.", show_default=False),
    ],
    out: Annotated[
        Path, typer.Option(metavar="RUN", help="The run folder to make.", show_default=False)
    ],
) -> None:
    """Average the weights of several runs into a new run.

    The runs need the same features, vocabulary and sizes, and a common start: train one from
    another with `--start-from`. The new run has the recipe of the first. It can be evaluated,
    exported and started from, but not resumed.

    For example:

        sat average runs/soft runs/scored --out runs/between

        sat average runs/soft runs/soft runs/scored --out runs/third
    """
    with needs("train"):
        from show_attend_tell.learning.average import average_runs
    from show_attend_tell.cli import terminal

    words, where = average_runs(runs, out), terminal.plain(out)
    say = terminal.console(stderr=True)
    say.print(f"[bold]{where}[/] is {terminal.plain(words)}", soft_wrap=True)
    say.print(f"next: sat evaluate {where} STORE --split dev", soft_wrap=True)


@app.command()
def tune(
    store: StoreArgument,
    study: Annotated[Path, typer.Argument(help="The study folder; made or resumed.")],
    recipe: RecipeOption = None,
    search: SearchOption = None,
    trials: TrialsOption = 20,
    set_: SetOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Tune a recipe's hyper-parameters with Optuna; after a stop the same command resumes.

    Each trial is a training run, judged by its dev score (`training.stop_on`). From its second
    epoch on, a trial is pruned if it is worse than half of the finished trials were then.

    The study folder gets `best.toml`, a recipe for `sat train`; the table `trials.csv`; the plots
    `history.png`, `slices.png` (the score against each key) and, after eight finished trials,
    `what-mattered.png`; and a run folder for each trial. Only the best trial keeps its weights.

    Without --search, these keys are searched, except those that --set fixes: on a logarithmic scale
    training.learning_rate 1e-4..2e-3, model.hidden 256..1024 and model.word 128..512; on a linear
    one training.label_smoothing 0..0.2, model.dropout 0.2..0.7 and vocabulary.minimum_count 1..8.

    For example:

        sat tune features/lite2 studies/usual --trials 30

        sat tune features/lite2 studies/rate --search training.learning_rate=1e-4..1e-2:log

        sat tune features/lite2 studies/out --search model.readout=linear,tanh --trials 2
    """
    with needs("train"):
        import torch

        from show_attend_tell.learning.recipe import load_recipe
    with needs("tune"):
        from show_attend_tell.learning import tuning
    from show_attend_tell.cli import terminal
    from show_attend_tell.data.features import FeatureStore

    if threads:
        torch.set_num_threads(threads)
    chosen = load_recipe(recipe or DEFAULT_RECIPE, set_ or [])
    space = tuning.read_space(search or [], set_ or [])
    opened = FeatureStore.open(store)
    say = terminal.console(stderr=True)
    where = terminal.plain(study)
    say.print(f"study in [bold]{where}[/]; Ctrl-C saves, the same command resumes")
    try:
        with closing(terminal.TuningProgress(say)) as show:
            best = tuning.tune(opened, study, chosen, space, trials, show)
    except KeyboardInterrupt:
        say.print("stopped; the same command resumes")
        raise
    say.print(f"all trials: {where}/{tuning.TRIALS}, plotted in {where}/{tuning.SLICES}")
    if best is None:
        say.print(f"no trial finished, so there is no best recipe; {tuning.TRIALS} says why")
        raise typer.Exit(1)
    say.print(f"the best recipe, of trial {best.number}: [bold]{where}/{tuning.BEST_RECIPE}[/]")
    command = f"sat train {terminal.plain(store)} RUN --recipe {where}/{tuning.BEST_RECIPE}"
    say.print(f"next: {command}", soft_wrap=True)
