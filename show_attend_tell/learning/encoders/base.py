"""The encoder interface: from uint8 pixels to annotation vectors a (L × D), section 3.1.1.

The mean and the standard deviation are part of the module, so pixels of a wrong scale cannot reach
the network: its only input is the bytes of an RGB picture.
"""

from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.errors import UserError

Triple = tuple[float, float, float]


class Encoder(nn.Module):
    """A frozen convolutional network from a picture to a grid of vectors.

    A subclass implements `feature_map`. (It is not called `features` because VGG's weights files
    name their parameters `features.N`.)

    Parameters
    ----------
    name
        As given to `make_encoder`.
    preprocessing
        How a picture becomes the square that it sees, with the mean and std of its weights.
    side
        Cells along one side of the grid: L = side × side.
    depth
        D, the length of an annotation vector.

    Attributes
    ----------
    grid
        Rows and columns of the map.
    weights_hash
        SHA-256 of the weights file, or `random-seed-N`.
    """

    _mean: Tensor
    _std: Tensor

    def __init__(self, name: str, preprocessing: Preprocessing, *, side: int, depth: int) -> None:
        super().__init__()
        self.name = name
        self.preprocessing = preprocessing
        self.grid = (side, side)
        self.depth = depth
        self.weights_hash = ""
        for key, triple in (("_mean", preprocessing.mean), ("_std", preprocessing.std)):
            self.register_buffer(key, torch.tensor(triple).view(3, 1, 1), persistent=False)

    def normalise(self, pixels: Tensor) -> Tensor:
        """Pixels with the mean and std of the network's training data.

        Parameters
        ----------
        pixels
            (batch, size, size, 3) uint8 RGB, as `numpy.asarray(picture)` gives it.

        Returns
        -------
        Tensor
            (batch, 3, size, size) float32, in channels-last memory order without a copy.
        """
        size = self.preprocessing.size
        if pixels.dtype != torch.uint8:
            raise TypeError(
                f"{self.name}: expected uint8 pixels (RGB, 0..255), found {pixels.dtype}"
            )
        if tuple(pixels.shape[1:]) != (size, size, 3):
            raise ValueError(
                f"{self.name}: expected pixels of shape (batch, {size}, {size}, 3), "
                f"found {tuple(pixels.shape)}"
            )
        x = pixels.permute(0, 3, 1, 2).to(torch.float32)  # (B, 3, S, S)
        return (x - self._mean) / self._std

    def feature_map(self, x: Tensor) -> Tensor:
        """Map of normalised pixels (batch, 3, size, size) to (batch, D, rows, columns)."""
        raise NotImplementedError

    def split(self, fine_tuned: int) -> "tuple[Encoder, UpperStages]":
        """The encoder in two parts: the frozen stages, and the last `fine_tuned` ones.

        Returns
        -------
        The frozen stages, whose map a store holds, and the others, which turn that map into
        annotations. Both share their parameters with this encoder.
        """
        raise UserError(
            "request.fine_tuned",
            f"{self.name} cannot be fine-tuned; choose one of efficientnet-lite0, 1 and 2",
        )

    def forward(self, pixels: Tensor) -> Tensor:
        """Annotation vectors of pictures.

        Parameters
        ----------
        pixels
            (batch, size, size, 3) uint8 RGB.

        Returns
        -------
        Tensor
            (batch, L, D) float32, the grid row by row.
        """
        x = self.feature_map(self.normalise(pixels))  # (B, D, h, w)
        return x.permute(0, 2, 3, 1).flatten(1, 2)  # (B, h, w, D) -> (B, L, D)


class UpperStages(nn.Module):
    """The last stages of an encoder, from a map (batch, L', D') to annotations (batch, L, D).

    Batch normalisation keeps its trained statistics: a mini-batch has too few pictures, too much
    alike, to estimate a mean and a variance.

    Parameters
    ----------
    stages
        From a map (batch, D', side', side') to one of (batch, D, side, side).
    side
        Cells along a side of the stored map.
    """

    def __init__(self, stages: nn.Module, side: int) -> None:
        super().__init__()
        self.stages = stages
        self.side = side

    def train(self, mode: bool = True) -> "UpperStages":
        """Stay in evaluation mode, whatever the mode of the decoder."""
        return super().train(False)

    def forward(self, stored: Tensor) -> Tensor:
        """Annotation vectors, the grid row by row."""
        batch, _, depth = stored.shape
        x = stored.view(batch, self.side, self.side, depth).permute(0, 3, 1, 2)  # channels-last
        y: Tensor = self.stages(x)
        return y.permute(0, 2, 3, 1).flatten(1, 2)


class PublicNetwork(Encoder):
    """An encoder written here whose parameters are named as in public weights files.

    Parameters
    ----------
    stride
        Pixels per cell of the grid, one of `STRIDES`.
    """

    STRIDES: ClassVar[tuple[int, ...]]  # possible pixels per cell, the default first
    DEPTH: ClassVar[int]
    MEAN: ClassVar[Triple]  # of RGB in 0..255, for weights files without their own
    STD: ClassVar[Triple]
    FILES: ClassVar[dict[str, str]] = {}  # name: the weights file to get
    IGNORED: ClassVar[tuple[str, ...]] = ()  # prefixes of tensors in the file that are not used

    def __init__(self, name: str, preprocessing: Preprocessing, stride: int) -> None:
        side = self.side(preprocessing.size, stride)
        super().__init__(name, preprocessing, side=side, depth=self.DEPTH)

    @staticmethod
    def side(size: int, stride: int) -> int:
        """Cells along a side of `size` pixels; a cell that is cut off counts."""
        return -(-size // stride)

    @classmethod
    def default_weights(cls, name: str) -> Path:
        """The weights file to use when none is named."""
        raise UserError(
            "model.weights_missing",
            f"{name} needs its weights: get {cls.FILES[name]} and pass --encoder-weights PATH",
        )

    def weights_problem(self) -> str | None:
        """Why the weights cannot have been trained with `MEAN` and `STD`, if so."""
        return None
