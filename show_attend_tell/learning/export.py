"""From PyTorch modules to ONNX graphs that run without PyTorch."""

import logging
import warnings
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch

from show_attend_tell.learning.encoders import Encoder


def encoder_function(
    encoder: Encoder,
) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]:
    """The encoder on ONNX Runtime: uint8 pixels (batch, size, size, 3) → float32 (batch, L, D)."""
    side = encoder.preprocessing.size
    example = torch.zeros(2, side, side, 3, dtype=torch.uint8)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            encoder, (example,), dynamo=True, dynamic_shapes=({0: "batch"},), verbose=False
        )
    assert program is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    name = session.get_inputs()[0].name

    def encode(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        annotations: npt.NDArray[np.float32] = session.run(None, {name: pixels})[0]
        return annotations

    return encode
