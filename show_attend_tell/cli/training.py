"""The verbs of learning: prepare, train, average, tune."""

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
    from show_attend_tell.learning.recipe import Recipe


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
            help="efficientnet-lite0/1/2, vgg16/19, timm:NAME or torchvision:NAME; "
            "two joined: A+B.",
            show_default="the recipe's",
        ),
    ] = None,
    encoder_weights: Annotated[
        str | None,
        typer.Option(
            help="A .safetensors or .pth file, or `random`; EfficientNet-Lite brings its own. "
            "`download` lets timm and torchvision fetch theirs.",
            show_default=False,
        ),
    ] = None,
    grid: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Cells along a side of the map, e.g. 7 or 14.",
            show_default="the recipe's",
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            min=1,
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
    augmentations: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Views of each training picture: parts and mirror images to learn from.",
            show_default="the recipe's",
        ),
    ] = None,
    fine_tuned: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Keep the map below the encoder's last stages, for `sat train` to tune those.",
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

        sat prepare my-photos features/mine --encoder efficientnet-lite0 --grid 14 --augmentations 4
    """
    from show_attend_tell.cli import terminal
    from show_attend_tell.errors import counted
    from show_attend_tell.files import readable_size

    dataset = open_dataset(data, layout, pictures, all_captions)
    with needs("train"):
        from show_attend_tell.learning.encoders import make_encoder
        from show_attend_tell.learning.encoders.prepare import Preparation
        from show_attend_tell.learning.recipe import EncoderSection, load_recipe

    say = terminal.console(stderr=True)
    where = terminal.plain(out)
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
    rows, columns = work.encoder.grid
    total, waiting = len(work.store.seen), len(work.waiting)
    thing = "picture" if augmentations == 1 else "augmented picture"
    say.print(
        f"[bold]{network.name}[/]: {rows} × {columns} × {work.encoder.depth} numbers each, "
        f"{counted(total, thing)}, {readable_size(work.bytes_needed)} in [bold]{where}[/]"
    )
    if waiting < total:
        say.print(f"{counted(total - waiting, thing)} done already")
    if waiting:
        say.print(f"about {terminal.duration(work.seconds_left())} for {counted(waiting, thing)}")
    with terminal.progress() as bar:
        task = bar.add_task("encoding", total=waiting)
        skipped = work.run(lambda done: bar.advance(task, done))
    for reason in skipped.values():
        say.print(f"[red]skipped[/] {terminal.plain(reason)}", soft_wrap=True)
    count = len(dataset.examples)
    say.print(f"done: {counted(count - len(skipped), 'picture')} in [bold]{where}[/]")
    if skipped:
        say.print(
            f"{len(skipped):,} of {counted(count, 'picture')} could not be read; mend them and "
            "run again"
        )
        raise typer.Exit(1)


@app.command()
def train(
    store: StoreArgument,
    run: NewRunArgument,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    resume: ResumeOption = False,
    start_from: Annotated[
        list[Path] | None,
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
    """Train a model; after Ctrl-C or a power cut, --resume goes on as if nothing had happened.

    The result is then bit-identical on the same machine, with the same versions and threads.

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
        "--start-from takes one run; make the mean of several first: `sat average A B --out C`",
    )
    with needs("train"):
        import torch

        from show_attend_tell.learning.trainer import train as learn
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
            say.print(f"training into [bold]{where}[/]; Ctrl-C saves, --resume goes on")

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
            say.print(f"stopped; go on with: {command}", soft_wrap=True)
            raise
    terminal.say_where("the best model is in", run / "best.safetensors")
    say.print(f"its curves are in {where}/curves.html, how it learned to look in {where}/sheets")
    say.print(f"next: sat evaluate {where} {features} --split test", soft_wrap=True)


def _recipe_of(
    run: Path, recipe: str | None, set_: list[str] | None, resume: bool
) -> "Recipe | None":
    """The recipe that was asked for; None for that of the run to go on with."""
    from show_attend_tell.learning.recipe import load_recipe

    begins = not resume or not (run / "recipe.toml").exists()
    return load_recipe(recipe or DEFAULT_RECIPE, set_ or []) if recipe or set_ or begins else None


@app.command()
def average(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders; one named twice counts twice.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="The run folder to make.", show_default=False)],
) -> None:
    """Average the weights of runs of the same features, words and sizes into a new run.

    The runs must have begun with the same weights, one from another (`--start-from`). The new run
    has the recipe of the first. It can be evaluated, exported and started from.

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
    """Tune a recipe's hyper-parameters by dev score; the same command continues after a stop.

    Each trial is a training run. One that after two epochs or more is worse than half of the
    finished trials were then is pruned. The study folder gets `best.toml`, a recipe for
    `sat train`, `trials.csv`, `history.png`, `slices.png` (the score against each key), after
    eight finished trials `what-mattered.png`, and a run folder for each trial; weights are kept of
    the best trial alone. The score is `training.stop_on`.

    Searched unless --search says otherwise, but for what --set fixes: training.learning_rate
    1e-4..2e-3 in factors, training.label_smoothing 0..0.2, model.dropout 0.2..0.7, model.hidden
    256..1024 and model.word 128..512 in factors, vocabulary.minimum_count 1..8.

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
    say.print(f"trying recipes in [bold]{where}[/]; Ctrl-C saves, the same command continues")
    try:
        with closing(terminal.TuningProgress(say)) as show:
            best = tuning.tune(opened, study, chosen, space, trials, show)
    except KeyboardInterrupt:
        say.print("stopped; the same command continues")
        raise
    say.print(f"every trial is in {where}/{tuning.TRIALS}, drawn in {where}/{tuning.SLICES}")
    if best is None:
        say.print("no trial came to its end, so there is no best recipe; see why in the former")
        raise typer.Exit(1)
    say.print(f"the best recipe, of trial {best.number}: [bold]{where}/{tuning.BEST_RECIPE}[/]")
    command = f"sat train {terminal.plain(store)} RUN --recipe {where}/{tuning.BEST_RECIPE}"
    say.print(f"next: {command}", soft_wrap=True)
