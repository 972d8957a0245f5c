"""The encoders by name: `make_encoder("vgg19", weights=path)`."""

import difflib
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.errors import UserError
from show_attend_tell.learning.encoders import efficientnet_lite, vgg
from show_attend_tell.learning.encoders.base import Encoder, PublicNetwork
from show_attend_tell.learning.encoders.joined import PLUS, Joined
from show_attend_tell.learning.encoders.others import import_library, make_library_encoder
from show_attend_tell.learning.encoders.weights import fit_weights, read_weights, wrong_weights

__all__ = ["ENCODERS", "Encoder", "make_encoder"]

SMALLEST, LARGEST = 32, 4096  # pixels a side
DOWNLOAD = "download"  # the user's permission; nothing is downloaded without it

ENCODERS: dict[str, type[PublicNetwork]] = {
    **dict.fromkeys(vgg.CONVOLUTIONS, vgg.VGG),
    **dict.fromkeys(efficientnet_lite.SCALES, efficientnet_lite.EfficientNetLite),
}


def make_encoder(
    name: str,
    *,
    weights: str | Path | None = None,
    grid: int | None = None,
    size: int | None = None,
    fit: Literal["crop", "squeeze"] = "crop",
) -> Encoder:
    """Make a frozen encoder, in evaluation mode.

    Parameters
    ----------
    name
        One of `ENCODERS`, or `timm:NAME` or `torchvision:NAME`; or several joined with +, whose
        vectors are concatenated.
    weights
        A `.safetensors`, `.pth` or `.pt` file; `None` for the weights that are installed
        (EfficientNet-Lite); `"download"` to let timm or torchvision download theirs, or reuse an
        earlier download; `"random"` or `"random:SEED"`.
    grid
        Cells along a side of the map; the encoder's own when `None`.
    size
        Side in pixels of its input, 224 when `None`.
    fit
        Whether the input is the middle of the picture or all of it, squeezed.

    Raises
    ------
    UserError
        `request.encoder`, `request.grid`, `request.size`, `request.weights`,
        `model.weights_missing`, `model.weights_wrong`, `extra.missing`.

    Examples
    --------
    >>> encoder = make_encoder("efficientnet-lite0", weights="random", grid=14)
    >>> encoder(torch.zeros(1, 224, 224, 3, dtype=torch.uint8)).shape
    torch.Size([1, 196, 1280])
    """
    if weights == DOWNLOAD and not all(map(_is_library, name.split(PLUS))):
        raise UserError(
            "request.weights",
            f"only timm and torchvision download weights; give a file for {name}, or leave "
            f"--encoder-weights {DOWNLOAD} out",
        )
    size = 224 if size is None else size
    if not SMALLEST <= size <= LARGEST:
        expected = f"a whole number from {SMALLEST} to {LARGEST:,}"
        raise UserError("request.size", f"size is {size}; it must be {expected}")
    if PLUS in name:
        members = name.split(PLUS)
        return Joined(
            [make_encoder(one, weights=weights, grid=grid, size=size, fit=fit) for one in members]
        ).eval()
    seed = _seed(weights)
    with torch.random.fork_rng(devices=[]):  # without changing the caller's random numbers
        torch.manual_seed(seed or 0)
        if _is_library(name):
            encoder = _from_library(name, weights, seed, grid, size, fit)
        else:
            encoder = _from_here(name, weights, seed, grid, size, fit)
    # Pixels arrive channels-last; convolutions are faster when kernels are in the same order.
    nn.utils.convert_conv2d_weight_memory_format(encoder, torch.channels_last)
    return encoder.requires_grad_(False).eval()


def _from_here(
    name: str,
    weights: str | Path | None,
    seed: int | None,
    grid: int | None,
    size: int,
    fit: Literal["crop", "squeeze"],
) -> Encoder:
    if name not in ENCODERS:
        raise _unknown(name)
    family = ENCODERS[name]
    stride = _stride(name, family, grid, size)
    file = None
    mean, std = family.MEAN, family.STD
    if seed is None:
        file = read_weights(Path(weights) if weights else family.default_weights(name))
        if file.mean and file.std:
            mean, std = file.mean, file.std
    preprocessing = Preprocessing(
        resize=round(size * 256 / 224), size=size, fit=fit, mean=mean, std=std
    )
    encoder = family(name, preprocessing, stride)
    if file is None:
        encoder.apply(_randomise)
        encoder.weights_hash = f"random-seed-{seed}"
        return encoder
    fit_weights(encoder, file)
    if file.mean is None and (problem := encoder.weights_problem()):
        raise wrong_weights(file.path, problem)
    return encoder


def _from_library(
    name: str,
    weights: str | Path | None,
    seed: int | None,
    grid: int | None,
    size: int,
    fit: Literal["crop", "squeeze"],
) -> Encoder:
    library = name.partition(":")[0]
    import_library(library)
    if weights != DOWNLOAD and seed is None:
        raise UserError(
            "request.weights",
            f"{name} has weights of its own, which {library} downloads from the network; allow "
            f"that with --encoder-weights {DOWNLOAD}, or use --encoder-weights random",
        )
    encoder = make_library_encoder(name, seed=seed, size=size, fit=fit)
    if grid not in (None, encoder.grid[0]):
        raise _no_such_grid(name, grid, size, [encoder.grid[0]])
    return encoder


def _is_library(name: str) -> bool:
    return name.startswith(("timm:", "torchvision:"))


def _unknown(name: str) -> UserError:
    near = difflib.get_close_matches(name, ENCODERS, n=3)
    hint = f"perhaps {' or '.join(near)}; " if near else ""
    return UserError(
        "request.encoder",
        f"there is no encoder {name!r}; {hint}known are {', '.join(ENCODERS)}, "
        "timm:NAME and torchvision:NAME",
    )


def _stride(name: str, family: type[PublicNetwork], grid: int | None, size: int) -> int:
    """Pixels per cell that give `grid` cells along a side of `size` pixels."""
    sides = {family.side(size, stride): stride for stride in family.STRIDES}
    if grid is None:
        return family.STRIDES[0]
    if grid not in sides:
        raise _no_such_grid(name, grid, size, list(sides))
    return sides[grid]


def _no_such_grid(name: str, grid: int | None, size: int, sides: list[int]) -> UserError:
    known = " or ".join(f"{side} × {side}" for side in sides)
    return UserError(
        "request.grid",
        f"{name} cannot give a grid of {grid} × {grid} at {size} pixels, only {known}",
    )


def _seed(weights: str | Path | None) -> int | None:
    """The seed in `random` or `random:SEED`; `None` for anything else."""
    word, _, seed = str(weights).partition(":")
    if word != "random":
        return None
    if not seed:
        return 0
    if not seed.isdecimal():
        raise UserError("request.weights", f"the seed in {weights!r} must be a whole number")
    return int(seed)


def _randomise(module: nn.Module) -> None:
    """He initialisation, which keeps the scale of the maps from layer to layer."""
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
