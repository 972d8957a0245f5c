"""Encoders of other libraries: `timm:NAME` and `torchvision:NAME`, imported only when named."""

import hashlib
import importlib
from typing import Any, Literal

import torch
from torch import Tensor, nn

from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.errors import UserError
from show_attend_tell.learning.encoders.base import Encoder, Triple


class LibraryEncoder(Encoder):
    """A network of another library, from pixels to its last map.

    Parameters
    ----------
    network
        Maps (batch, 3, size, size) to (batch, D, h, w), to (batch, h, w, D) as Swin does, or to a
        list that ends with such a map.
    """

    def __init__(self, name: str, preprocessing: Preprocessing, network: nn.Module) -> None:
        size = preprocessing.size
        with torch.no_grad():
            shape = _last(network.eval()(torch.zeros(1, 3, size, size))).shape
        _, *inner = shape
        depth_is_last = inner[0] == inner[1] != inner[2]
        rows, columns, depth = inner if depth_is_last else (inner[1], inner[2], inner[0])
        if rows != columns:
            raise ValueError(f"its last map is {rows} × {columns}, not square")
        super().__init__(name, preprocessing, side=rows, depth=depth)
        self.network = network
        self.depth_is_last = depth_is_last

    def feature_map(self, x: Tensor) -> Tensor:
        """The last map of the network: (batch, D, h, w)."""
        x = _last(self.network(x))
        return x.permute(0, 3, 1, 2) if self.depth_is_last else x


def make_library_encoder(
    name: str, *, seed: int | None, size: int, fit: Literal["crop", "squeeze"]
) -> Encoder:
    """`timm:NAME` or `torchvision:NAME` with the library's own weights, or random ones."""
    library, _, model = name.partition(":")
    network, mean, std = (_timm if library == "timm" else _torchvision)(model, seed is None)
    preprocessing = Preprocessing(
        resize=round(size * 256 / 224), size=size, fit=fit, mean=mean, std=std
    )
    try:
        encoder = LibraryEncoder(name, preprocessing, network)
    except Exception as error:  # a network that gives no map can fail with anything
        raise UserError(
            "request.encoder", f"{name} gives no map at {size} pixels and cannot be used: {error}"
        ) from error
    encoder.weights_hash = _hash(network) if seed is None else f"random-seed-{seed}"
    return encoder


def _timm(model: str, pretrained: bool) -> tuple[nn.Module, Triple, Triple]:
    timm = import_library("timm")
    if not timm.is_model(model):
        raise UserError("request.encoder", f"timm has no model {model!r}; see timm.list_models()")
    network = timm.create_model(model, pretrained=pretrained, features_only=True, out_indices=(-1,))
    scale = network.pretrained_cfg
    return network, _of_255(scale["mean"]), _of_255(scale["std"])


def _torchvision(model: str, pretrained: bool) -> tuple[nn.Module, Triple, Triple]:
    models = import_library("torchvision").models
    if model not in models.list_models(module=models):
        raise UserError(
            "request.encoder",
            f"torchvision has no model {model!r}; see torchvision.models.list_models()",
        )
    weights = models.get_model_weights(model).DEFAULT
    scale = weights.transforms()
    network = models.get_model(model, weights=weights if pretrained else None)
    return _before_pooling(network), _of_255(scale.mean), _of_255(scale.std)


def _before_pooling(network: nn.Module) -> nn.Module:
    if isinstance(features := getattr(network, "features", None), nn.Module):
        return features
    children = dict(network.named_children())
    names = list(children)
    end = names.index("avgpool") if "avgpool" in children else len(names)
    return nn.Sequential(*(children[child] for child in names[:end]))


def import_library(library: str) -> Any:
    """The module `timm` or `torchvision`, if it is installed."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise UserError(
            "extra.missing",
            f"{library} is not installed: pip install 'show_attend_tell[{library}]'",
        ) from error


def _last(maps: Any) -> Tensor:
    tensor: Tensor = maps[-1] if isinstance(maps, list | tuple) else maps
    return tensor


def _of_255(triple: tuple[float, float, float]) -> Triple:
    red, green, blue = (value * 255.0 for value in triple)
    return red, green, blue


def _hash(network: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
