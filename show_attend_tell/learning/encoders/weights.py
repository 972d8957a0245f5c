"""Weights files: read without unpickling code, and fitted to an encoder tensor by tensor."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from show_attend_tell.errors import UserError
from show_attend_tell.files import sha256_of
from show_attend_tell.learning.encoders.base import PublicNetwork, Triple


@dataclass(frozen=True)
class WeightsFile:
    """What a weights file holds; `mean` and `std` (of 0..255) where its header gives them."""

    path: Path
    tensors: Mapping[str, Tensor]
    mean: Triple | None
    std: Triple | None
    sha256: str


def read_weights(path: Path) -> WeightsFile:
    """Read a `.safetensors` file, or a `.pth` or `.pt` file that holds nothing but tensors.

    A safetensors header may carry `mean_01` and `std_01` (JSON lists of three, for pixels 0..1), or
    `mean_255` alone (pixels 0..255, no division).
    """
    if not path.is_file():
        raise UserError("model.weights_missing", f"{path}: there is no such weights file")
    header: Mapping[str, str] = {}
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, "pt") as file:
                header = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        else:
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a file of another kind can raise nearly anything
        raise wrong_weights(
            path, "not a weights file: a .safetensors, or a .pth or .pt that holds only tensors"
        ) from error
    if not isinstance(tensors, dict) or not all(
        isinstance(value, Tensor) for value in tensors.values()
    ):
        raise wrong_weights(path, "not a table of tensors by name; save the model's state_dict()")
    if header.get("input", "RGB") != "RGB":
        raise wrong_weights(
            path, f"its header says input {header['input']}; convert the first kernel to RGB"
        )
    mean, std = _scale(path, header)
    return WeightsFile(path, tensors, mean, std, sha256_of(path))


def fit_weights(encoder: PublicNetwork, file: WeightsFile) -> None:
    """Give the encoder the file's tensors; each must be there, and none too many."""
    own = {
        name: tensor
        for name, tensor in encoder.state_dict().items()
        if not name.endswith("num_batches_tracked")  # old files lack it, and nothing reads it
    }
    for name, tensor in own.items():
        found = file.tensors.get(name)
        if found is None:
            raise _misfit(encoder, file, f"{name} is missing")
        if found.shape != tensor.shape:
            raise _misfit(
                encoder, file, f"{name} is {tuple(found.shape)}, not {tuple(tensor.shape)}"
            )
        if not found.is_floating_point() or not bool(found.isfinite().all()):
            raise _misfit(encoder, file, f"{name} holds values that are not finite floats")
    for name in file.tensors:
        known = name in own or name.endswith("num_batches_tracked")
        if not known and not name.startswith(encoder.IGNORED):
            raise _misfit(encoder, file, f"{name} is unexpected")
    encoder.load_state_dict({name: file.tensors[name] for name in own}, strict=False)
    encoder.weights_hash = file.sha256


def wrong_weights(path: Path, reason: str) -> UserError:
    """A weights file that cannot be used."""
    return UserError("model.weights_wrong", f"{path}: {reason}")


def _misfit(encoder: PublicNetwork, file: WeightsFile, reason: str) -> UserError:
    return wrong_weights(file.path, f"these are not the weights of {encoder.name}: {reason}")


def _scale(path: Path, header: Mapping[str, str]) -> tuple[Triple | None, Triple | None]:
    if "mean_01" in header or "std_01" in header:
        return _triple(path, header, "mean_01", 255.0), _triple(path, header, "std_01", 255.0)
    if "mean_255" in header:
        return _triple(path, header, "mean_255", 1.0), (1.0, 1.0, 1.0)
    return None, None


def _triple(path: Path, header: Mapping[str, str], key: str, factor: float) -> Triple:
    text = header.get(key, "")
    try:
        # Rounded, because a std of one pixel is written as 0.003921569.
        red, green, blue = (round(float(value) * factor, 4) for value in json.loads(text))
    except (ValueError, TypeError) as error:
        raise wrong_weights(
            path, f"{key} in its header must be three numbers, not {text!r}"
        ) from error
    return red, green, blue
