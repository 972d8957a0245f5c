"""An encoder as an ONNX graph, and as a function that ONNX Runtime computes."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx
import torch

from show_attend_tell.captioning.exported import open_graph
from show_attend_tell.learning.encoders.base import Encoder
from show_attend_tell.learning.encoders.tracing import trace


def encoder_graph(encoder: Encoder) -> onnx.ModelProto:
    """Graph `encode`: pixels (P, size, size, 3) → annotations (P, L, D)."""
    side = encoder.preprocessing.size
    pixels = torch.zeros(2, side, side, 3, dtype=torch.uint8)
    return trace(encoder, {"pixels": pixels}, {"pixels": "P"}, ["annotations"])


def encoder_function(
    encoder: Encoder,
) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]:
    """The encoder on ONNX Runtime: uint8 pixels (batch, size, size, 3) → float32 (batch, L, D).

    A call uses one processor; several threads may call it at once.
    """
    graph = encoder_graph(encoder).SerializeToString()
    run = open_graph(graph)

    def encode(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        annotations: npt.NDArray[np.float32] = run(pixels)[0]
        return annotations

    return encode
