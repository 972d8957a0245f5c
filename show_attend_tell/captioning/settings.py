"""Search settings: what is chosen on dev and kept with a model, each defined once.

From these definitions come the `[search]` section of a recipe, `"search"` in `model.json` and
`scores.json`, the arguments of a captioner, and the options of the command. To add a setting,
define it here and use it in the search.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args, get_type_hints

from show_attend_tell.errors import number, whole_number, wrong_argument

Look = Literal["expected", "most-likely", "sampled"]

# Far beyond what makes captions better; a picture's memory grows with the square of the beam.
MOST_BEAM = 1_000
MOST_WORDS = 1_000
MOST_VIEWS = 3


@dataclass(frozen=True)
class Limits:
    """The least and the greatest value of a number."""

    least: Any = None
    most: Any = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Let pydantic check them in recipes and model folders; help needs no pydantic."""
        return {**handler(source), "ge": self.least, "le": self.most}


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How a model searches for a caption: type, limits, help and default of each setting."""

    beam: Annotated[
        int, Limits(1, MOST_BEAM), "Hypotheses kept for each picture; 1 is greedy search."
    ] = 5
    length_power: Annotated[
        float,
        Limits(0, 10),
        "Divide a caption's log-probability by its length to this power; 0: the raw sum.",
    ] = 0.0
    max_words: Annotated[int, Limits(1, MOST_WORDS), "Longest caption, in words."] = 30
    look: Annotated[
        Look,
        "Attend to all places by their weights, to the most likely place, or to one place drawn "
        "by its weight.",
    ] = "expected"
    consensus: Annotated[
        int,
        Limits(0, MOST_BEAM),
        "Rerank the beam by agreement with this many sampled captions (minimum Bayes risk); "
        "0: off. 30 is good and takes three times as long.",
    ] = 0
    repetition_penalty: Annotated[
        float,
        Limits(0, 1_000),
        "Nats subtracted for a word already in the caption, except the most frequent words; "
        "0: off. 3 is good.",
    ] = 0.0
    views: Annotated[
        int,
        Limits(1, MOST_VIEWS),
        "Views of each picture: the whole, its centre, its mirror image. 3 views caption better "
        "in about twice the time of 1.",
    ] = 1

    def __post_init__(self) -> None:
        """Check every value; numbers of NumPy become Python's."""
        for setting in SETTINGS.values():
            object.__setattr__(self, setting.name, setting.check(getattr(self, setting.name)))


@dataclass(frozen=True)
class Setting:
    """One of the settings, read from its definition above."""

    name: str
    type: Any  # int, float or a Literal
    default: Any
    limits: Limits
    help: str

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a Literal; none of a number."""
        return get_args(self.type)

    def check(self, value: object) -> int | float | str:
        """The value as a plain Python one; raises `request.bad` where it is outside the limits."""
        least, most = self.limits.least, self.limits.most
        if self.type is int:
            return whole_number(self.name, value, least, most)
        if self.type is float:
            return number(self.name, value, least, most)
        if not isinstance(value, str) or value not in self.choices:
            raise wrong_argument(self.name, value, f"one of {', '.join(self.choices)}")
        return value


def _read_settings() -> dict[str, Setting]:
    hints = get_type_hints(SearchSettings, include_extras=True)
    found = {}
    for field in fields(SearchSettings):
        kind, *extras = get_args(hints[field.name])
        limits = next((one for one in extras if isinstance(one, Limits)), Limits())
        found[field.name] = Setting(field.name, kind, field.default, limits, extras[-1])
    return found


SETTINGS = _read_settings()


def describe(values: Mapping[str, Any]) -> str:
    """Settings in words, as tables and cards name a search.

    >>> describe({"beam": 5, "length_power": 0.7, "look": "expected"})
    'beam 5, length power 0.7, look expected'
    """
    return ", ".join(
        f"{name.replace('_', ' ')} {f'{value:g}' if isinstance(value, float) else value}"
        for name, value in values.items()
    )
