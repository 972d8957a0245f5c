"""A recipe: every choice that makes one training run, typed, frozen, read from TOML.

`--set section.key=value` overrides the file, and what the file leaves out has the default written
here. Recipes do not inherit from one another, and there is no other source of values.
"""

import difflib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from show_attend_tell.captioning.settings import SETTINGS, SearchSettings
from show_attend_tell.errors import UserError
from show_attend_tell.files import regular_file
from show_attend_tell.scoring import METRICS

_SHIPPED = Path(__file__).resolve().parents[1] / "recipes"

# TOML has no null, so the word "none" stands for "not at all" where a number may be absent.
_NONE = "none"
_absent = BeforeValidator(lambda value: None if value == _NONE else value)
MaybeInt = Annotated[PositiveInt | None, _absent]
MaybeFloat = Annotated[PositiveFloat | None, _absent]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(ge=0, le=1)]  # all of it is allowed too


def _metric(name: str) -> str:
    if name not in METRICS:
        raise ValueError(f"should be one of {', '.join(METRICS)}")
    return name


def _epochs(count: int) -> int:
    if count < 1:
        raise ValueError("should be 1 or more (`sat average` makes the mean of runs)")
    return count


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class EncoderSection(_Section):
    """Where the annotation vectors must come from; a store of other features is refused."""

    name: str = "efficientnet-lite2"  # best words per second of the encoders that install from PyPI
    # Places a side of the map (14 gives L = 196); none: whatever the store holds.
    grid: MaybeInt = Field(None, examples=[14])
    # Pixels a side of the picture given to the encoder; none: whatever the store holds.
    size: MaybeInt = Field(None, examples=[224])
    fit: Literal["crop", "squeeze"] = "crop"  # crop: centre square; squeeze: all of it, distorted
    # Augmentations of each training picture, one drawn whenever it is learned from; 1: none.
    augmentations: PositiveInt = 1
    # Last stages fine-tuned with the decoder, from a store of the map below them; 0: frozen, as in
    # the paper.
    fine_tuned: NonNegativeInt = 0


class VocabularySection(_Section):
    """Which words the model knows."""

    size: PositiveInt = 10_000  # K; the paper's fixed vocabulary (section 5.1)
    minimum_count: PositiveInt = 1  # rarer words become the unknown word; 1: none is too rare
    punctuation: bool = True  # keep it as words; the references of the paper's scores do


class ModelSection(_Section):
    """The decoder (section 3.1) and what is done to the annotations before it."""

    # Section 4.2, or 4.1; or a rival without: mean features, NIC, or a log-bilinear model.
    attention: Literal["soft", "hard", "mean", "nic", "log-bilinear"] = "soft"
    # Layer norm of each annotation vector: conv5_4 reaches 300 with a mean of 1.
    annotation_norm: Literal["none", "layer"] = "none"
    # A learned linear map of the annotations to this width first; none: as they are.
    annotation_width: MaybeInt = Field(None, examples=[512])
    hidden: PositiveInt = 512  # n, the LSTM's width; the paper does not give it
    word: PositiveInt = 300  # m, the embedding's width; the paper does not give it
    attention_width: PositiveInt = 512  # hidden layer of the scorer f_att; the authors' code: D
    gate: bool = True  # beta, the scalar that says how much the picture matters (section 4.2.1)
    readout: Literal["linear", "tanh"] = "linear"  # equation 7 is linear; the authors' code: tanh
    # Two MLPs for h_0 and c_0 (paper), or one hidden layer for both (authors' code).
    initial: Literal["separate", "shared"] = "separate"
    start: Literal["zero", "learned"] = "zero"  # input before the first word; authors' code: zero
    dropout: Fraction = 0.5  # used, rate not given; the authors' code: 0.5


class TrainingSection(_Section):
    """The objective (equation 14) and its optimisation."""

    batch: PositiveInt = 64  # captions of one length in a mini-batch (section 4.3)
    # "length" (paper), or "pictures": all captions of each picture side by side, so that a picture
    # is read and narrowed, and fine-tuned stages see it, once for all of its captions.
    batch_of: Literal["length", "pictures"] = "length"
    optimiser: Literal["rmsprop", "adam"] = "adam"  # paper: RMSProp for Flickr8k, else Adam
    learning_rate: PositiveFloat = 4e-4
    fine_tuned_rate: PositiveFloat = 1e-4  # learning rate of the encoder's fine-tuned stages
    decay: Annotated[float, Field(gt=0, le=1)] = 1.0  # learning rate's factor an epoch; 1.0: off
    decay_after: NonNegativeInt = 0  # the epoch after which `decay` begins
    # Longest gradient allowed (norm over all weights); none: as it comes, as the authors do.
    clip: MaybeFloat = Field(None, examples=[5.0])
    label_smoothing: Fraction = 0.0  # share of each target spread over all words
    double_stochastic: NonNegativeFloat = 1.0  # lambda of equation 14, *summed* over places
    average: Fraction = 0.0  # moving average of the weights, kept a step; 0.0: off
    # Which length comes next: in proportion to the captions left, or the authors' round-robin.
    length_order: Literal["random", "authors"] = "random"
    # Steps of an epoch, at least: fewer pictures are gone through several times in one, so that
    # epochs, decay and patience mean the same for a small data set; 0: always once.
    minimum_steps: NonNegativeInt = 30
    epochs: Annotated[int, AfterValidator(_epochs)] = 20  # the most; `patience` may end it sooner
    # The dev score that chooses the best epoch, in the authors' tokens; the paper: BLEU.
    stop_on: Annotated[str, AfterValidator(_metric)] = "BLEU-4-bp"
    patience: PositiveInt = 3  # epochs without a better dev score before stopping
    seed: NonNegativeInt = 1
    save_minutes: NonNegativeFloat = 2.0  # the most work that a crash can cost


class HardSection(_Section):
    """The learning rule of hard attention (section 4.1); for hard models only."""

    samples: PositiveInt = 1  # N, places tried for each word; not given
    reward_weight: NonNegativeFloat = 1.0  # lambda_r; 1.0 is the gradient of the bound itself
    entropy_weight: NonNegativeFloat = 0.1  # lambda_e
    expected_share: Fraction = 0.5  # how often alpha stands in for the samples of a picture
    # What log p(y | s) is compared with: its moving average (paper), or the other samples of the
    # same caption.
    baseline: Literal["average", "others"] = "average"
    # The reward of a place: log p of the caption (paper), or of the words from it on.
    reward: Literal["caption", "rest"] = "caption"


class RewardSection(_Section):
    """Self-critical training of a soft model on scores of its samples (Rennie et al. 2017)."""

    weight: Share = 0.0  # of the scores in the objective, the rest is likelihood; 0.0: off
    cider: NonNegativeFloat = 1.0  # what CIDEr-D, from 0 to 10, counts in the reward
    bleu: NonNegativeFloat = 0.0  # what the caption's own smoothed BLEU-4, from 0 to 1, counts
    # Captions drawn for each picture; the reward of each is compared with the others' mean.
    samples: Annotated[int, Field(ge=2)] = 5


class DistillationSection(_Section):
    """Learning from other runs' probabilities beside people's captions (Hinton et al. 2015)."""

    weight: Share = 0.0  # of the teachers' probabilities in each word's target; 0.0: off
    # Run folders of the same features and vocabulary; the mean of their probabilities is learned.
    teachers: list[str] = Field([], examples=[["runs/first", "runs/second"]])


class _FromTable:
    """Lets a strict model take a table for a dataclass, whose values are then as strict."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        schema: Any = handler.resolve_ref_schema(handler(source))
        return {**schema, "strict": False}


class Recipe(_Section):
    """All that is needed to train a model again.

    Examples
    --------
    >>> recipe = load_recipe("paper/flickr8k-soft", ["training.batch=32"])
    >>> recipe.training.batch, recipe.encoder.name
    (32, 'vgg19')
    """

    encoder: EncoderSection = EncoderSection()
    vocabulary: VocabularySection = VocabularySection()
    model: ModelSection = ModelSection()
    training: TrainingSection = TrainingSection()
    hard: HardSection = HardSection()
    reward: RewardSection = RewardSection()
    distillation: DistillationSection = DistillationSection()
    search: Annotated[SearchSettings, _FromTable()] = SearchSettings()

    def to_toml(self) -> str:
        """The recipe as TOML, without idle sections; reading it gives an equal recipe."""
        idle = {
            "hard": self.model.attention != "hard",
            "reward": self.reward == RewardSection(),
            "distillation": self.distillation == DistillationSection(),
        }
        return tomli_w.dumps(
            {
                section: {key: _NONE if value is None else value for key, value in table.items()}
                for section, table in self.model_dump().items()
                if not idle.get(section)
            }
        )


def shipped_recipes() -> list[str]:
    """Names that `load_recipe` knows, sorted.

    Examples
    --------
    >>> "paper/flickr8k-soft" in shipped_recipes()
    True
    """
    files = _SHIPPED.rglob("*.toml")
    return sorted(path.relative_to(_SHIPPED).with_suffix("").as_posix() for path in files)


def load_recipe(name_or_path: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe that ships with the package, or a `.toml` file, then apply the overrides.

    Parameters
    ----------
    name_or_path
        A name of `shipped_recipes()`, or a path that ends in `.toml`.
    overrides
        `section.key=value`, as `--set` takes them; the value is a TOML literal or a bare word.

    Raises
    ------
    UserError
        `request.recipe`: no such recipe, not TOML, an unknown key, or a value that does not fit.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}  # of each value, named in messages
    for key, value in _flatten(_read(name_or_path)):
        values[key], sources[key] = value, name_or_path
    for override in overrides:
        key, value = _parse_override(override)
        values[key], sources[key] = value, "--set"
    return _make(values, sources)


def vary(recipe: Recipe, others: Mapping[str, Any], source: str) -> Recipe:
    """The same recipe with other values for some keys.

    Parameters
    ----------
    recipe
        What the keys that are not named keep.
    others
        A value for each `section.key`.
    source
        Who asks for them, to be named when a value does not fit.

    Examples
    --------
    >>> vary(Recipe(), {"model.hidden": 256}, "a trial").model.hidden
    256
    """
    values = dict(_flatten(tomllib.loads(recipe.to_toml())))
    if others.get("model.attention", "hard") != "hard":
        values = {key: value for key, value in values.items() if not key.startswith("hard.")}
    sources = dict.fromkeys(values, "the recipe") | dict.fromkeys(others, source)
    return _make(values | dict(others), sources)


def example_of(key: str, source: str) -> Any:
    """A value that fits a `section.key`; a UserError with the nearest name if it is unknown."""
    if key not in _KEYS:
        raise _refuse(f"{source}: unknown key {key}; {_hint(key)}")
    return _KEYS[key]


def parse_value(text: str) -> Any:
    """A value as a person types it: a TOML literal, or a bare word.

    Examples
    --------
    >>> parse_value("0.5"), parse_value("true"), parse_value("soft")
    (0.5, True, 'soft')
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word: a shell has eaten the quotes, or none were typed


def _make(values: Mapping[str, Any], sources: Mapping[str, str]) -> Recipe:
    """A recipe of values by `section.key`; `sources` says who gave each."""
    for key in values:
        example_of(key, sources[key])
    recipe = _validated(values, sources)
    for key, message in _clashes(recipe, values):
        raise _refuse(f"{sources[key]}: {key} {message}")
    return recipe


def _validated(values: Mapping[str, Any], sources: Mapping[str, str]) -> Recipe:
    """A recipe each of whose values fits its key."""
    tables: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, name = key.split(".")
        tables.setdefault(section, {})[name] = value
    try:
        return Recipe.model_validate(tables)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"][:2])
        should = first["msg"].removeprefix("Input ").removeprefix("Value error, ")
        example = f"{key} = {_literal(_KEYS[key])}"
        raise _refuse(
            f"{sources[key]}: {key} = {_literal(values[key])} {should}; write for example {example}"
        ) from error


def _clashes(recipe: Recipe, given: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The given keys that do not go with the others, each with what is wrong and what to do."""
    attention = recipe.model.attention
    model = f"model.attention = {_literal(attention)}"
    hard, distillation = recipe.hard, recipe.distillation
    is_half = bool(distillation.weight) != bool(distillation.teachers)
    is_rival = attention in ("nic", "log-bilinear")
    weights = {
        "reward.weight": recipe.reward.weight,
        "distillation.weight": distillation.weight,
    }
    for key in given:
        if key.startswith("hard.") and attention != "hard":
            remedy = 'leave it out, or say model.attention = "hard"'
            yield key, f"is of no use with {model}; {remedy}"
        if key == "encoder.fine_tuned" and recipe.encoder.fine_tuned and is_rival:
            yield key, f"is of no use with {model}; leave it out"
        if key == "hard.baseline" and hard.baseline == "others" and hard.samples == 1:
            remedy = "set hard.samples to 2 or more"
            yield key, f'= "others" compares the samples of a caption; {remedy}'
        if key.startswith("distillation.") and is_half:
            yield (
                key,
                "alone is not enough: [distillation] needs both weight and teachers; write for "
                "example distillation.weight = 0.5 and "
                'distillation.teachers = ["runs/first", "runs/second"]',
            )
        if weights.get(key) and attention != "soft":
            remedy = f"set it to 0.0 for {_literal(attention)}"
            yield key, f'is of use with model.attention = "soft" alone; {remedy}'


def _example_values() -> Iterator[tuple[str, Any]]:
    for section, table in Recipe():
        if isinstance(table, SearchSettings):
            yield from ((f"{section}.{name}", one.default) for name, one in SETTINGS.items())
            continue
        for name, field in type(table).model_fields.items():
            yield f"{section}.{name}", field.examples[0] if field.examples else field.default


_KEYS = dict(_example_values())  # every `section.key`, with a value that fits


def _read(name_or_path: str) -> dict[str, Any]:
    path = Path(name_or_path)
    if path.suffix != ".toml":
        names = shipped_recipes()
        if name_or_path not in names:
            near = difflib.get_close_matches(name_or_path, names, n=1)
            guess = f" (did you mean {near[0]}?)" if near else ""
            raise _refuse(
                f"unknown recipe {name_or_path}{guess}; "
                f"there are {', '.join(names)}, and a file of your own ends in .toml"
            )
        path = _SHIPPED / f"{name_or_path}.toml"
    try:
        return tomllib.loads(regular_file(path).read_bytes().decode("utf-8-sig"))
    except FileNotFoundError as error:
        raise _refuse(f"{path}: no such file") from error
    except OSError as error:
        raise _refuse(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise _refuse(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise _refuse(f"{path}: not valid TOML: {error}") from error


def _flatten(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for section, table in document.items():
        if isinstance(table, dict):
            yield from ((f"{section}.{key}", value) for key, value in table.items())
        else:
            yield section, table


def _parse_override(text: str) -> tuple[str, Any]:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise _refuse(
            f"--set {text}: no value; write section.key=value, for example training.batch=32"
        )
    return key, parse_value(value)


def _hint(unknown: str) -> str:
    """Which key was probably meant, or which ones there are."""

    def likeness(known: str) -> tuple[float, float]:
        # The key's own name counts first: a right name is often put into a wrong section.
        names = unknown.rpartition(".")[2], known.rpartition(".")[2]
        return _ratio(*names), _ratio(unknown, known)

    nearest = max(_KEYS, key=likeness)
    if likeness(nearest)[0] >= 0.6:
        return f"did you mean {nearest}?"
    section = unknown.partition(".")[0]
    names = [key.partition(".")[2] for key in _KEYS if key.startswith(f"{section}.")]
    if names:
        return f"the keys of [{section}] are {', '.join(names)}"
    return f"the sections are {', '.join(Recipe.model_fields)}"


def _ratio(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _refuse(message: str) -> UserError:
    return UserError("request.recipe", message)
