"""A PyTorch module as an ONNX graph."""

import logging
import warnings
from collections.abc import Sequence

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn


def trace(
    module: nn.Module, inputs: dict[str, Tensor], axes: dict[str, str], outputs: Sequence[str]
) -> onnx.ModelProto:
    """The graph of a module; `axes` names the leading axes of each input that may vary."""
    shapes = tuple(dict(enumerate(axes[name])) for name in inputs)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module.eval(),
            tuple(inputs.values()),
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=list(inputs),
            output_names=list(outputs),
            optimize=False,  # folding makes numbers that are not rounded; ONNX Runtime folds too
            verbose=False,
        )
    assert program is not None
    proto: onnx.ModelProto = program.model_proto
    for node in proto.graph.node:  # no source code and paths of this machine
        del node.metadata_props[:]
        node.doc_string = ""
    _settle_casts(proto.graph)
    return proto


def _settle_casts(graph: onnx.GraphProto) -> None:
    """Replace constants cast to the type of another number by float32 constants.

    Such a cast makes a constant look as if it depended on the input. ONNX Runtime then neither
    folds batch normalisation nor fuses a convolution with what follows it: half its time.
    """
    constants = {node.output[0]: node for node in graph.node if node.op_type == "Constant"}
    for node in graph.node:
        if node.op_type == "CastLike" and node.input[0] in constants:
            (attribute,) = constants[node.input[0]].attribute  # a tensor or a plain number
            value = helper.get_attribute_value(attribute)
            number = numpy_helper.to_array(value) if attribute.name == "value" else value
            settled = numpy_helper.from_array(np.asarray(number, dtype=np.float32))
            node.CopyFrom(helper.make_node("Constant", [], [node.output[0]], value=settled))
