"""Arguments and options that several verbs share, and what they are read into."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from show_attend_tell.captioning.search import Search
    from show_attend_tell.data.layouts import Dataset
    from show_attend_tell.learning.run import Run


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


class Look(StrEnum):
    """What stands for the model's attention."""

    expected = "expected"
    most_likely = "most-likely"
    sampled = "sampled"


LOOK_HELP = "Look at all places as weighed, at the likeliest, or at one drawn."


StoreArgument = Annotated[Path, typer.Argument(help="What `sat prepare` made.")]
NewRunArgument = Annotated[
    Path, typer.Argument(help="The run folder; made, or resumed with --resume.")
]
ResumeOption = Annotated[
    bool,
    typer.Option("--resume", help="Resume the run in this folder.", rich_help_panel="Run"),
]
OverwriteOption = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace the file if it is there; otherwise it is left alone."
    ),
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
BeamOption = Annotated[
    int | None, typer.Option(help="Hypotheses kept; 1 is greedy.", show_default="the recipe's")
]
LengthPowerOption = Annotated[
    float | None,
    typer.Option(
        help="Divide scores by length to this power; 0 is the raw sum.", show_default="the recipe's"
    ),
]
ConsensusOption = Annotated[
    int | None,
    typer.Option(
        help="Draw this many sentences and tell the one of the beam's that agrees best with them; "
        "0: the likeliest. 30 is good, and takes three times as long.",
        show_default="the recipe's",
    ),
]
RepetitionPenaltyOption = Annotated[
    float | None,
    typer.Option(
        help="Nats taken from a word that the sentence has already, the commonest excepted. "
        "3 is good.",
        show_default="the recipe's",
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
ModelOption = Annotated[
    str | None,
    typer.Option(
        help="A model folder, a run that holds one, or a name from `sat models`.",
        show_default="the one that ships",
    ),
]


def asked_of_search(
    beam: int | None,
    length_power: float | None,
    look: Look | None,
    consensus: int | None,
    repetition_penalty: float | None,
) -> dict[str, Any]:
    """What was asked for of a search, by the names of `Search`."""
    asked = {
        "beam": beam,
        "length_power": length_power,
        "look": look and look.value,
        "consensus": consensus,
        "repetition_penalty": repetition_penalty,
    }
    return {name: value for name, value in asked.items() if value is not None}


def search_of(run: "Run", asked: Mapping[str, Any]) -> "Search":
    """The search of a run's recipe, but for what was asked for."""
    from show_attend_tell.captioning.search import Search

    return Search(**run.recipe.search.model_dump() | dict(asked))


def open_dataset(
    data: Path, layout: str | None, pictures: Path | None, all_captions: bool
) -> "Dataset":
    """The data set that the arguments name."""
    from show_attend_tell.data.layouts import load_dataset

    kept = None if all_captions else 5
    return load_dataset(data, layout=layout, pictures=pictures, captions_per_picture=kept)
