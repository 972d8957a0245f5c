"""Arguments and options that several commands share."""

import functools
import inspect
from collections.abc import Callable
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from show_attend_tell.captioning.settings import SETTINGS, Setting

if TYPE_CHECKING:
    from show_attend_tell.data.layouts import Dataset


class ScoringProtocol(StrEnum):
    """What is done to text before it is compared."""

    coco = "coco"
    authors = "authors"
    plain = "plain"


DEFAULT_RECIPE = "flickr8k-soft"


class Fit(StrEnum):
    """How a picture becomes a square."""

    crop = "crop"
    squeeze = "squeeze"


StoreArgument = Annotated[Path, typer.Argument(help="What `sat prepare` made.")]
NewRunArgument = Annotated[
    Path, typer.Argument(help="The run folder; made, or resumed with --resume.")
]
ResumeOption = Annotated[
    bool,
    typer.Option("--resume", help="Resume the run in this folder.", rich_help_panel="Run"),
]
RecipeOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        help="A recipe that ships, by name, or a .toml file.",
        show_default=DEFAULT_RECIPE,
        rich_help_panel="Recipe",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a value of the recipe: section.key=value; may be repeated.",
        show_default=False,
        rich_help_panel="Recipe",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Processor threads; with the same number a run repeats bit for bit.",
        show_default="all",
    ),
]
DataArgument = Annotated[
    Path, typer.Argument(help="A data set: a folder, or a Karpathy or COCO JSON file.")
]
LayoutOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="flickr8k, flickr30k, coco, karpathy or folder; recognised if left out.",
        show_default=False,
    ),
]
PicturesOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Where the pictures are, if not beside the captions.",
        show_default=False,
    ),
]
AllCaptionsOption = Annotated[
    bool,
    typer.Option(
        "--all-captions", help="Keep more than five captions a picture; the paper drops them."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
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
ModelOption = Annotated[
    str | None,
    typer.Option(
        help="A model folder, a run that holds one, or a name from `sat models`.",
        show_default="the one that ships",
    ),
]


def search_options(
    default: str, *names: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each search setting, made from the setting's definition.

    Those given on the command line arrive, by name, in the command's parameter `settings`.

    Parameters
    ----------
    default
        What help names as the default, for example "the model's".
    names
        The settings to offer; by default all.
    """
    options = [_search_option(SETTINGS[name], default) for name in names or SETTINGS]

    def add_options(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            given = {option.name: arguments.pop(option.name) for option in options}
            settings = {
                name: value.value if isinstance(value, Enum) else value
                for name, value in given.items()
                if value is not None
            }
            command(**arguments, settings=settings)

        own = inspect.signature(command, eval_str=True)
        parameters = [
            one
            for parameter in own.parameters.values()
            for one in (options if parameter.name == "settings" else [parameter])
        ]
        # Typer reads both.
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return add_options


def _search_option(setting: Setting, default: str) -> inspect.Parameter:
    kind = setting.type
    if setting.choices:
        make_enum: Any = StrEnum  # mypy takes none whose members are not written out
        kind = make_enum(setting.name.title(), {choice: choice for choice in setting.choices})
    option = typer.Option(help=setting.help, show_default=default, rich_help_panel="Search")
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


def open_dataset(
    data: Path, layout: str | None, pictures: Path | None, all_captions: bool
) -> "Dataset":
    """The data set that the arguments name."""
    from show_attend_tell.data.layouts import load_dataset

    kept = None if all_captions else 5
    return load_dataset(data, layout=layout, pictures=pictures, captions_per_picture=kept)
