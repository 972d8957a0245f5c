"""The decoder as ONNX graphs, and weights rounded to float16 for half the size."""

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from show_attend_tell.learning.encoders.tracing import trace
from show_attend_tell.learning.model.attention import Memory
from show_attend_tell.learning.model.decoder import Decoder, Dropout, State

SMALLEST_HALVED = 64  # numbers; smaller constants are not worth a cast


def round_matrices(module: nn.Module) -> None:
    """Round every matrix and kernel to float16 in place; vectors stay as they are."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            parameter.data.copy_(parameter.data.half())


def decoder_graphs(decoder: Decoder, depth: int) -> dict[str, onnx.ModelProto]:
    """Graphs `start`, `look` and `advance`, for P pictures of k rows each."""
    pictures, beams, places = 2, 3, 5
    annotations = torch.randn(pictures, places, depth)
    start, look, advance = _Start(decoder), _Look(decoder), _Advance(decoder)
    with torch.no_grad():
        a, keys, h, c = start(annotations)
        state = {
            "h": h.unsqueeze(1).repeat(1, beams, 1),
            "c": c.unsqueeze(1).repeat(1, beams, 1),
        }
        alpha, gate = look(keys, state["h"])
    words = torch.zeros(pictures, beams, dtype=torch.int64)
    return {
        "start": trace(
            start, {"annotations": annotations}, {"annotations": "PL"}, ["a", "keys", "h", "c"]
        ),
        "look": trace(
            look, {"keys": keys, "h": state["h"]}, {"keys": "PL", "h": "Pk"}, ["alpha", "gate"]
        ),
        "advance": _with_top(
            trace(
                advance,
                {"a": a, **state, "weights": alpha, "gate": gate, "words": words},
                {"a": "PL", "h": "Pk", "c": "Pk", "weights": "PkL", "gate": "Pk", "words": "Pk"},
                ["h_next", "c_next", "all_log_probs"],
            )
        ),
    }


class _Start(nn.Module):
    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, annotations: Tensor) -> tuple[Tensor, ...]:
        a = self.decoder.norm(self.decoder.narrow(annotations))
        h, c = self.decoder.initial(a.mean(dim=1), Dropout(0.0, None))
        return a, self.decoder.attention.annotation(a), h, c


class _Look(nn.Module):
    """Equations 4 and 5 as printed; training computes the same without a tanh."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.attention = decoder.attention

    def forward(self, keys: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        attention = self.attention
        hidden = torch.tanh(keys.unsqueeze(1) + attention.state(h).unsqueeze(2))  # (P, k, L, A)
        # A product and a sum: a matrix times a vector is slow in ONNX Runtime.
        alpha = torch.softmax((hidden * attention.score).sum(dim=3), dim=2)
        if attention.gate is None:
            return alpha, torch.ones_like(h[:, :, 0])
        return alpha, torch.sigmoid(attention.gate(h)).squeeze(2)


class _Advance(nn.Module):
    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(
        self, a: Tensor, h: Tensor, c: Tensor, weights: Tensor, gate: Tensor, words: Tensor
    ) -> tuple[Tensor, ...]:
        state = State(h.flatten(0, 1), c.flatten(0, 1))
        weights, gate, words = (x.flatten(0, 1) for x in (weights, gate, words))
        # A constant, which ONNX Runtime computes when it loads the graph.
        word_gates = self.decoder.word_gates(self.decoder.embedding.weight)
        memory = Memory(a, a, a)
        state, logits = self.decoder.advance(memory, state, weights, gate, words, word_gates)
        log_probs = torch.log_softmax(logits, dim=1)
        return state.h.view_as(h), state.c.view_as(c), log_probs.view(*h.shape[:2], -1)


def _with_top(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Return only the best words; the number of them is an input of the graph."""
    body = graph.graph
    (every,) = (output for output in body.output if output.name == "all_log_probs")
    body.output.remove(every)
    body.input.append(helper.make_tensor_value_info("best", TensorProto.INT64, [1]))
    body.node.append(
        helper.make_node("TopK", ["all_log_probs", "best"], ["log_probs", "ids"], axis=-1)
    )
    for name, kind in (("log_probs", TensorProto.FLOAT), ("ids", TensorProto.INT64)):
        body.output.append(helper.make_tensor_value_info(name, kind, ["P", "k", "best"]))
    return graph


def to_float16(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Store as float16, followed by a cast, every constant that is exact in float16."""
    body = graph.graph
    casts = []
    for tensor in body.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size < SMALLEST_HALVED:
            continue
        half = values.astype(np.float16)
        if np.array_equal(half.astype(np.float32), values):
            name = tensor.name
            tensor.CopyFrom(numpy_helper.from_array(half, f"{name}.half"))
            casts.append(helper.make_node("Cast", [f"{name}.half"], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *body.node]
    del body.node[:]
    body.node.extend(nodes)
    return graph
