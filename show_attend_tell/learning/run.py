"""A run folder: begun, resumed, or opened to use its model."""

import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import show_attend_tell
from show_attend_tell.data.features import FeatureStore, StoreIndex
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import UserError
from show_attend_tell.files import cannot_write
from show_attend_tell.learning.encoders import Encoder, make_encoder
from show_attend_tell.learning.encoders.joined import PLUS
from show_attend_tell.learning.loop import checkpoint
from show_attend_tell.learning.model.decoder import CaptionDecoder, Decoder
from show_attend_tell.learning.model.rivals import make_decoder
from show_attend_tell.learning.recipe import EncoderSection, ModelSection, Recipe, load_recipe

RECIPE, VOCABULARY, BEST, LAST = (
    "recipe.toml",
    "vocabulary.txt",
    "best.safetensors",
    "last.safetensors",
)
_HASH = re.compile("[0-9a-f]{64}")
FEATURES = ("encoder", "weights_hash", "preprocessing", "grid", "depth", "fine_tuned")


@dataclass(frozen=True)
class Run:
    """A trained model: recipe, vocabulary and the weights that were best on dev."""

    folder: Path
    recipe: Recipe
    vocabulary: Vocabulary
    decoder: CaptionDecoder
    features: StoreIndex  # what the annotations must be
    meta: dict[str, Any]  # score and epoch (0: the mean of runs) of the weights, versions

    @classmethod
    def open(cls, folder: Path) -> "Run":
        """Open a run whose training has reached its first dev score."""
        recipe = open_recipe(folder)
        if not (folder / BEST).exists():
            raise UserError(
                "model.missing",
                f"{folder}: no dev score has been reached yet, so there is no best model; "
                "resume it with `sat train ... --resume`",
            )
        tensors, meta, taken = checkpoint.load_newest(folder / BEST)
        vocabulary = Vocabulary.load(folder / VOCABULARY)
        check_vocabulary(folder, vocabulary, meta)
        features = StoreIndex.model_validate(meta["features"])
        decoder = decoder_for(recipe.model, features, len(vocabulary))
        load_weights(decoder, tensors, taken)
        return cls(folder, recipe, vocabulary, decoder.eval(), features, meta)

    @property
    def origin(self) -> str:
        """Which weights these are, in words."""
        chosen = f"chosen by dev {self.recipe.training.stop_on}, epoch {self.meta['epoch']}"
        began_with = self.meta.get("start_from", [])
        if not began_with:
            return chosen
        weights = mean_in_words(began_with)
        return f"{chosen}; began with {weights}" if self.meta["epoch"] else weights

    def check_features(self, store: FeatureStore) -> None:
        """Check that a store's features are of the kind that the model was trained on."""
        check_features(self.folder, self.features, store)


def mean_in_words(folders: Sequence[str]) -> str:
    """What is the mean of these runs.

    >>> mean_in_words(["runs/one", "runs/other", "runs/one"])
    'the mean of the weights of one (2 of 3) and other (1 of 3)'
    """
    counts = Counter(Path(folder).name for folder in folders)
    if len(folders) == 1:
        return f"the weights of {Path(folders[0]).name}"
    names = [f"{name} ({count} of {len(folders)})" for name, count in counts.items()]
    return f"the mean of the weights of {' and '.join(names)}"


def decoder_for(recipe: ModelSection, features: StoreIndex, words: int) -> CaptionDecoder:
    """A decoder of features, with the encoder's stages that they leave to be fine-tuned, if any."""
    if not features.fine_tuned:
        return make_decoder(recipe, features.depth, words)
    _, upper = encoder_of(features).split(features.fine_tuned)
    return Decoder(recipe, features.depth, words, upper)


def load_weights(decoder: CaptionDecoder, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Put weights read from `path` into a decoder of the same shapes."""
    check_same(
        _shapes(tensors),
        _shapes(decoder.state_dict()),
        "model.shape",
        f"{path}: not the weights of the model that {path.parent / RECIPE} describes",
        "restore the run's own files",
    )
    decoder.load_state_dict(tensors)


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    return {name: "×".join(map(str, tensor.shape)) for name, tensor in tensors.items()}


def is_fine_tuned(name: str) -> bool:
    """Whether a tensor of a decoder belongs to the encoder's fine-tuned stages."""
    return name.startswith("upper.")


def weights_to_begin_with(
    folder: Path, decoder: CaptionDecoder, store: FeatureStore, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    """A run's best weights, for a decoder of these features and words to begin with.

    A run that was trained on frozen stages leaves those to be fine-tuned as the decoder has them:
    the encoder's own.
    """
    own = decoder.state_dict()
    run = Run.open(folder)
    fine_tuned = run.features.fine_tuned or store.index.fine_tuned
    check_features(folder, run.features.model_copy(update={"fine_tuned": fine_tuned}), store)
    check_words(run, vocabulary)
    stages = {name: tensor for name, tensor in own.items() if is_fine_tuned(name)}
    state = stages | run.decoder.state_dict()
    check_shapes(folder, state, own)
    return state


def encoder_of(features: StoreIndex, weights: str | Path | None = None) -> Encoder:
    """The whole encoder that features were made by, as it was before any tuning."""
    if weights is None and features.weights_hash.startswith("random-seed-"):
        weights = features.weights_hash.partition(PLUS)[0].replace("random-seed-", "random:")
    encoder = make_encoder(
        features.encoder,
        weights=weights,
        grid=features.grid[0],
        size=features.preprocessing.size,
        fit=features.preprocessing.fit,
    )
    check_same(
        {"weights": encoder.weights_hash},
        {"weights": features.weights_hash},
        "model.weights_wrong",
        f"{features.encoder}: not the encoder that the features were made with",
        "pass the right --encoder-weights",
    )
    return encoder


def open_recipe(folder: Path) -> Recipe:
    """The resolved recipe of a run folder."""
    if not (folder / RECIPE).exists():
        raise UserError("model.missing", f"{folder}: not a run folder; `sat train` makes one")
    return load_recipe(str(folder / RECIPE))


def open_folder(
    store: FeatureStore, folder: Path, recipe: Recipe | None, resume: bool
) -> tuple[Recipe, bool]:
    """The recipe to train in a folder, made if it is not there, and whether the run is new."""
    store.check_complete()
    is_new = not (folder / RECIPE).exists()
    if not is_new:
        recipe = _recipe_to_resume(folder, recipe, resume)
    elif recipe is None:
        raise UserError("model.missing", f"{folder}: there is no run to resume; name a recipe")
    check_encoder(recipe.encoder, store)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return recipe, is_new


def _recipe_to_resume(folder: Path, recipe: Recipe | None, resume: bool) -> Recipe:
    if not resume:
        raise UserError(
            "run.exists",
            f"{folder}: holds a run already; add --resume to resume it, or name another folder",
        )
    own = open_recipe(folder)
    last = folder / LAST
    if (folder / BEST).exists() and not (last.exists() or checkpoint.previous_of(last).exists()):
        raise UserError(
            "model.missing",
            f"{folder}: has weights, but no training state to resume, as an average of runs has "
            f"none; train another run with --start-from {folder}",
        )
    if recipe is not None and recipe != own:
        raise UserError(
            "run.recipe",
            f"{folder}: was begun with another recipe (see {folder / RECIPE}); "
            "leave out --recipe and --set to resume it with its own, or name another folder",
        )
    return own


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    """What is not as expected, in words, by name.

    >>> list(differences({"grid": 7, "depth": 512}, {"grid": 14, "depth": 512}))
    ['grid is 7, not 14']
    """
    for name in {**expected, **found}:
        here, there = found.get(name, "missing"), expected.get(name, "missing")
        if here != there:
            yield f"{name} is {_shown(here)}, not {_shown(there)}"


def _shown(value: object) -> object:
    """The first characters of a hash; anything else as it is."""
    return value[:12] if isinstance(value, str) and _HASH.fullmatch(value) else value


def check_same(
    found: Mapping[str, Any], expected: Mapping[str, Any], code: str, wrong: str, remedy: str
) -> None:
    """Raise a UserError that names the first difference, unless there is none.

    Parameters
    ----------
    code
        Of the error.
    wrong, remedy
        The message before the difference, with its place, and after it.
    """
    for difference in differences(found, expected):
        raise UserError(code, f"{wrong} ({difference}); {remedy}")


def check_encoder(wanted: EncoderSection, store: FeatureStore) -> None:
    """Check that features are those that a recipe asks for."""
    index = store.index
    found = {
        "name": index.encoder,
        "grid": index.grid[0],
        "size": index.preprocessing.size,
        "fit": index.preprocessing.fit,
        "fine_tuned": index.fine_tuned,
        "augmentations": min(index.augmentations, wanted.augmentations),  # more do no harm
    }
    for name, value in found.items():
        asked = getattr(wanted, name)
        asked = value if asked is None else asked
        option = "encoder" if name == "name" else name.replace("_", "-")
        check_same(
            {f"encoder.{name}": value},
            {f"encoder.{name}": asked},
            "model.features",
            f"{store.folder}: not the features that the recipe asks for",
            f"prepare others with --{option} {asked}, or say --set encoder.{name}={value}",
        )


def check_vocabulary(folder: Path, vocabulary: Vocabulary, meta: Mapping[str, Any]) -> None:
    """Check that a vocabulary is the one that a checkpoint's weights were trained with."""
    check_same(
        {"SHA-256": vocabulary.sha256},
        {"SHA-256": meta["vocabulary"]},
        "model.vocabulary",
        f"{folder / VOCABULARY}: not the vocabulary that the weights were trained with",
        "restore the run's own file",
    )


def check_words(run: Run, vocabulary: Vocabulary) -> None:
    """Check that another run, to learn from or to average, has this vocabulary."""
    check_same(
        {"SHA-256": run.vocabulary.sha256},
        {"SHA-256": vocabulary.sha256},
        "model.vocabulary",
        f"{run.folder}: its vocabulary is not this run's",
        "train both with the same [vocabulary] and pictures",
    )


def check_shapes(folder: Path, state: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Check that another run's weights have these shapes."""
    check_same(
        _shapes(state),
        _shapes(wanted),
        "model.shape",
        f"{folder}: its weights have other shapes than these",
        "give both runs the same [model], but for attention and dropout",
    )


def features_of(index: StoreIndex) -> dict[str, Any]:
    """What of a feature store a decoder depends on."""
    return {name: getattr(index, name) for name in FEATURES}


def check_features(folder: Path, trained_on: StoreIndex, store: FeatureStore) -> None:
    """Check that a store's features are of the kind that a run was trained on."""
    check_same(
        features_of(store.index),
        features_of(trained_on),
        "model.features",
        f"{store.folder}: its features do not fit {folder}",
        "prepare the pictures with the run's own encoder",
    )


def versions() -> dict[str, str]:
    """What made a file, for its metadata."""
    return {
        "show_attend_tell": show_attend_tell.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def setup() -> dict[str, str | int]:
    """What else the bits of a run depend on: another machine or version rounds otherwise."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "machine": f"{platform.system()} {platform.machine()}",
    }
