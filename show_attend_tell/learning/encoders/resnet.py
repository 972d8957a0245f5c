"""ResNet-50 and ResNet-101: the last stage's map, 7 × 7 × 2048 at 224 pixels, or 14 × 14 dilated.

Two layouts share their parameter names: v1.5 halves the map in a bottleneck's 3×3 convolution
(torchvision), v1 in its first 1×1 (Caffe, Keras). The wrong one loads and gives wrong maps, so
they have two names here: `resnet50` and `resnet50-v1`.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.learning.encoders.base import PublicNetwork

BLOCKS = {
    "resnet50": (3, 4, 6, 3),
    "resnet101": (3, 4, 23, 3),
    "resnet50-v1": (3, 4, 6, 3),
    "resnet101-v1": (3, 4, 23, 3),
}
WIDTHS = (64, 128, 256, 512)
EXPANSION = 4


class Bottleneck(nn.Module):
    """Narrow (1×1), look around (3×3), widen (1×1), add the input (through a 1×1 where it changes).

    Parameters
    ----------
    strides
        Of the first 1×1 and of the 3×3 convolution.
    dilation
        Of the 3×3 convolution.
    """

    def __init__(self, wide: int, narrow: int, strides: tuple[int, int], dilation: int) -> None:
        super().__init__()
        out = narrow * EXPANSION
        self.conv1 = nn.Conv2d(wide, narrow, 1, stride=strides[0], bias=False)
        self.bn1 = nn.BatchNorm2d(narrow)
        self.conv2 = nn.Conv2d(
            narrow, narrow, 3, stride=strides[1], padding=dilation, dilation=dilation, bias=False
        )
        self.bn2 = nn.BatchNorm2d(narrow)
        self.conv3 = nn.Conv2d(narrow, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.downsample: nn.Sequential | None = None
        if wide != out:
            shortcut = nn.Conv2d(wide, out, 1, stride=strides[0] * strides[1], bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, wide, h, w) to (batch, 4 × narrow, h', w')."""
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(PublicNetwork):
    """The convolutions of ResNet; parameter names, mean and std of torchvision."""

    STRIDES = (32, 16)
    DEPTH = WIDTHS[-1] * EXPANSION
    MEAN = (123.675, 116.28, 103.53)
    STD = (58.395, 57.12, 57.375)
    FILES = {  # noqa: RUF012
        "resnet50": "torchvision's resnet50-0676ba61.pth",
        "resnet101": "torchvision's resnet101-63fe2227.pth",
        "resnet50-v1": "a v1 file (Caffe, Keras) converted to safetensors",
        "resnet101-v1": "a v1 file (Caffe, Keras) converted to safetensors",
    }
    IGNORED = ("fc.",)

    def __init__(self, name: str, preprocessing: Preprocessing, stride: int) -> None:
        super().__init__(name, preprocessing, stride)
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        one, two, three, four = BLOCKS[name]
        v1 = name.endswith("-v1")
        self.layer1 = _stage(64, WIDTHS[0], one, stride=1, v1=v1)
        self.layer2 = _stage(256, WIDTHS[1], two, stride=2, v1=v1)
        self.layer3 = _stage(512, WIDTHS[2], three, stride=2, v1=v1)
        self.layer4 = _stage(1024, WIDTHS[3], four, stride=2, v1=v1, keeps_size=stride == 16)

    def feature_map(self, x: Tensor) -> Tensor:
        """Map after the last stage: (batch, 2048, h, w)."""
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return x

    def doubt(self) -> str | None:
        """A v1 file may come from Caffe, Keras or elsewhere, each with its own mean."""
        if not self.name.endswith("-v1"):
            return None
        return (
            f"files for {self.name} differ in the pixels they want and this one does not say "
            "which; save it as .safetensors with mean_01 and std_01 in its metadata"
        )


def _stage(
    wide: int, narrow: int, blocks: int, *, stride: int, v1: bool, keeps_size: bool = False
) -> nn.Sequential:
    """Bottlenecks of which the first divides the map by `stride`, unless the stage keeps its size.

    Where it does not, every 3×3 that would have come after the division is dilated by it, so that
    each cell of the smaller map is also a cell of the larger one.
    """
    dilation = stride if keeps_size else 1
    step = 1 if keeps_size else stride
    first = (
        Bottleneck(wide, narrow, (step, 1), dilation)
        if v1
        else Bottleneck(wide, narrow, (1, step), 1)
    )
    rest = [Bottleneck(narrow * EXPANSION, narrow, (1, 1), dilation) for _ in range(blocks - 1)]
    return nn.Sequential(first, *rest)
