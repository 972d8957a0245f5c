"""The encoder seam: a square of uint8 pixels becomes annotation vectors a (L × D), section 3.1.1.

The mean and the standard deviation live inside the module, so pixels of a wrong scale cannot reach
the network: there is one input, the bytes of an RGB picture, and anything else is refused.
"""

from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.errors import UserError

Triple = tuple[float, float, float]


class Encoder(nn.Module):
    """A frozen convolutional network that sees a picture as a grid of vectors.

    A subclass implements `feature_map`. (It is not called `features` because VGG's weights files
    name their parameters `features.N`.)

    Parameters
    ----------
    name
        The name it was asked for by, as in `make_encoder`.
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
        """Bring pixels to what the network was trained on.

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
            raise TypeError(f"{self.name} takes uint8 pixels (RGB, 0..255), not {pixels.dtype}")
        if tuple(pixels.shape[1:]) != (size, size, 3):
            raise ValueError(
                f"{self.name} takes pixels of shape (batch, {size}, {size}, 3), "
                f"not {tuple(pixels.shape)}"
            )
        x = pixels.permute(0, 3, 1, 2).to(torch.float32)  # (B, 3, S, S)
        return (x - self._mean) / self._std

    def feature_map(self, x: Tensor) -> Tensor:
        """Map of normalised pixels (batch, 3, size, size) to (batch, D, rows, columns)."""
        raise NotImplementedError

    def split(self, fine_tuned: int) -> "tuple[Encoder, UpperStages]":
        """Cut off the last `fine_tuned` stages, for a run to learn them together with its decoder.

        Returns
        -------
        The frozen stages, whose map is a store's, and the others, which make annotations of it;
        both share their parameters with this encoder.
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
    """The last stages of an encoder: a map (batch, L', D') becomes annotations (batch, L, D).

    Their batch normalisation stays as it was trained: the pictures of a mini-batch are too few, and
    too much alike, to take a mean and a variance from.

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
        """Stay in evaluation mode, whatever the decoder around it does."""
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

    STRIDES: ClassVar[tuple[int, ...]]  # pixels per cell that it can give, the default first
    DEPTH: ClassVar[int]
    MEAN: ClassVar[Triple]  # of RGB in 0..255, for weights files that carry none
    STD: ClassVar[Triple]
    FILES: ClassVar[dict[str, str]] = {}  # name: the weights file to get
    IGNORED: ClassVar[tuple[str, ...]] = ()  # prefixes of tensors in the file that are not needed

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
