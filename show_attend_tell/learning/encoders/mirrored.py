"""An encoder that sees each picture twice, as it is and in a mirror: a place's vector is the mean.

What a network makes of a place depends a little on which side of things it lies; the mean does not.
"""

import torch
from torch import Tensor, nn

from show_attend_tell.learning.encoders.base import Encoder, Upper

MIRRORED = "mirrored:"  # in front of the name


def mirror(x: Tensor) -> Tensor:
    """Swap left and right: (batch, channels, rows, columns)."""
    return x.flip(3)


class Mirrored(Encoder):
    """Twice the work of the encoder that it is made of, and the same grid and depth."""

    def __init__(self, seeing: Encoder, maps: int = 1) -> None:
        """`maps`: how many of the picture lie one behind the other at a place."""
        super().__init__(
            MIRRORED + seeing.name,
            seeing.preprocessing,
            side=seeing.grid[0],
            depth=maps * seeing.depth,
        )
        self.seeing = seeing
        self.weights_hash = seeing.weights_hash

    def feature_map(self, x: Tensor) -> Tensor:
        """The mean of the map and of the mirror image's, turned back: (batch, D, rows, columns)."""
        return (self.seeing.feature_map(x) + mirror(self.seeing.feature_map(mirror(x)))) / 2

    def split(self, tuned: int) -> tuple[Encoder, Upper]:
        """Cut off the last stages; the map below has the picture and its mirror image."""
        lower, upper = self.seeing.split(tuned)
        return _Both(lower, maps=2), Upper(_MeanOfBoth(upper.stages), lower.grid[0])


class _Both(Mirrored):
    def feature_map(self, x: Tensor) -> Tensor:
        return torch.cat([self.seeing.feature_map(x), self.seeing.feature_map(mirror(x))], dim=1)


class _MeanOfBoth(nn.Module):
    def __init__(self, stages: nn.Module) -> None:
        super().__init__()
        self.stages = stages

    def forward(self, x: Tensor) -> Tensor:
        picture, mirrored = x.chunk(2, dim=1)
        mean: Tensor = (self.stages(picture) + mirror(self.stages(mirrored))) / 2
        return mean
