"""VGG-16 and VGG-19, the paper's encoder: the last convolution's map, 14 × 14 × 512 at 224 pixels.

After the ReLU and before the last pooling (section 4.3). Two trainings of the same layers exist,
with the same names and shapes: Oxford's own (Caffe: pixels 0-255 minus a mean; the paper's) and
torchvision's (pixels 0-1, mean and std). Oxford's files must carry their mean in the header.
"""

import torch
from torch import Tensor, nn

from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.learning.encoders.base import PublicNetwork

CONVOLUTIONS = {"vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}  # between poolings
WIDTHS = (64, 128, 256, 512, 512)


class VGG(PublicNetwork):
    """The convolutions of VGG; parameter names, mean and std of torchvision."""

    STRIDES = (16,)
    DEPTH = WIDTHS[-1]
    MEAN = (123.675, 116.28, 103.53)
    STD = (58.395, 57.12, 57.375)
    FILES = {  # noqa: RUF012
        "vgg16": "torchvision's vgg16-397923af.pth",
        "vgg19": "torchvision's vgg19-dcbb9e9d.pth (or Oxford's weights as safetensors)",
    }
    IGNORED = ("classifier.",)

    def __init__(self, name: str, preprocessing: Preprocessing, stride: int) -> None:
        super().__init__(name, preprocessing, stride)
        layers: list[nn.Module] = []
        width = 3
        for count, next_width in zip(CONVOLUTIONS[name], WIDTHS, strict=True):
            for _ in range(count):
                layers += [nn.Conv2d(width, next_width, 3, padding=1), nn.ReLU(inplace=True)]
                width = next_width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers[:-1])  # without the last pooling

    @staticmethod
    def side(size: int, stride: int) -> int:
        """Cells along a side of `size` pixels; pooling drops a cell that is cut off."""
        return size // stride

    def feature_map(self, x: Tensor) -> Tensor:
        """Map after the ReLU of conv5_3 (VGG-16) or conv5_4 (VGG-19): (batch, 512, h, w)."""
        features: Tensor = self.features(x)
        return features

    def weights_problem(self) -> str | None:
        """Oxford's weights, which act on 0-255 and shrink it layer by layer.

        The gain of a layer is the factor by which it scales random input. Its mean over the layers
        is 0.4 in Oxford's VGG-19 and 0.8 in torchvision's VGG-16, which must keep its input alive.
        """
        kernels = [module.weight for module in self.features if isinstance(module, nn.Conv2d)]
        gains = [kernel.square().sum((1, 2, 3)).mean() / 2 for kernel in kernels]
        if torch.stack(gains).log().mean().exp().sqrt() > 0.6:
            return None
        return (
            "these look like Oxford's (Caffe) weights for pixels of 0-255, but the file does not "
            "say so; save it as .safetensors with mean_01, std_01 and input RGB in its metadata"
        )
