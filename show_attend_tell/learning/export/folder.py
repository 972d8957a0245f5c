"""From PyTorch modules to a model folder: ONNX graphs that run without PyTorch.

Matrices are rounded to float16 before the export, so the files are half as large and the graphs
compute with exactly the numbers that a rounded PyTorch model has.
"""

import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from show_attend_tell.captioning.captioner import Captioner
from show_attend_tell.captioning.exported import (
    GRAPHS,
    ExamplePicture,
    ExportedModel,
    ModelFacts,
    open_graph,
    write_facts,
)
from show_attend_tell.captioning.search import Search
from show_attend_tell.errors import UserError
from show_attend_tell.files import cannot_write, sha256_of, write_bytes, write_text
from show_attend_tell.learning.encoders import Encoder
from show_attend_tell.learning.export.card import headline_scores, write_card
from show_attend_tell.learning.model.attention import Memory
from show_attend_tell.learning.model.decoder import Decoder, Dropout, State
from show_attend_tell.learning.run import Run, encoder_of, versions

SMALLEST_HALVED = 64  # numbers; smaller constants are not worth a cast


def encoder_function(
    encoder: Encoder,
) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]:
    """The encoder on ONNX Runtime: uint8 pixels (batch, size, size, 3) → float32 (batch, L, D).

    A call works on one processor; several threads may call it at once.
    """
    graph = encoder_graph(encoder).SerializeToString()
    run = open_graph(graph)

    def encode(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        annotations: npt.NDArray[np.float32] = run(pixels)[0]
        return annotations

    return encode


def export_model(
    run: Run,
    folder: Path,
    *,
    search: Search | None = None,
    encoder_weights: str | Path | None = None,
    example: Path | None = None,
) -> None:
    """Write the model folder of a run: four graphs, `model.json`, and the card.

    Parameters
    ----------
    search
        The model's own search, used unless a call asks otherwise; by default the recipe's.
    encoder_weights
        Where the encoder's weights are, for an encoder that does not bring its own.
    example
        A picture to copy into the folder with the caption it gets, for `sat doctor` to compare.
    """
    features, decoder = run.features, run.decoder
    encoder = encoder_of(features, encoder_weights)
    if not isinstance(decoder, Decoder) or run.recipe.model.attention == "mean":
        raise UserError(
            "request.rival",
            f"{run.folder}: a rival without attention, which is there to be compared with; "
            "only soft and hard models are exported",
        )
    if features.fine_tuned:
        _, upper = encoder.split(features.fine_tuned)
        upper.load_state_dict(decoder.upper.state_dict())
    round_matrices(encoder)
    round_matrices(decoder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    graphs = {"encode": encoder_graph(encoder), **decoder_graphs(decoder, features.depth)}
    for name, graph in graphs.items():
        write_bytes(folder / f"{name}.onnx", halved(graph).SerializeToString())
    settings = search.kept() if search else run.recipe.search
    facts = ModelFacts(
        words=run.vocabulary.words,
        punctuation=run.vocabulary.punctuation,
        preprocessing=features.preprocessing,
        grid=features.grid,
        search=settings,
        files={f"{name}.onnx": sha256_of(folder / f"{name}.onnx") for name in GRAPHS},
        origin={
            "encoder": features.encoder,
            "encoder_weights": features.weights_hash,
            "data_set": features.layout,
            "recipe": run.recipe.model_dump(),
            "epoch": run.meta["epoch"],
            "dev_BLEU-4": run.meta.get("BLEU-4"),  # the mean of runs has none
            "scores": headline_scores(run),
            "versions": versions(),
        },
    )
    write_facts(folder, facts)
    write_text(folder / "README.md", write_card(run))
    if example:
        write_facts(folder, _with_example(folder, facts, example))


def _with_example(folder: Path, facts: ModelFacts, picture: Path) -> ModelFacts:
    caption = Captioner(ExportedModel(folder))(picture).text
    name = f"example{picture.suffix.lower()}"
    write_bytes(folder / name, picture.read_bytes())
    return facts.model_copy(
        update={
            "files": {**facts.files, name: sha256_of(folder / name)},
            "example": ExamplePicture(picture=name, caption=caption),
        }
    )


def round_matrices(module: nn.Module) -> None:
    """Round every matrix and kernel to float16 in place; vectors stay as they are."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            parameter.data.copy_(parameter.data.half())


def encoder_graph(encoder: Encoder) -> onnx.ModelProto:
    """Graph `encode`: pixels (P, size, size, 3) → annotations (P, L, D)."""
    side = encoder.preprocessing.size
    pixels = torch.zeros(2, side, side, 3, dtype=torch.uint8)
    return _export(encoder, {"pixels": pixels}, {"pixels": "P"}, ["annotations"])


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
        "start": _export(
            start, {"annotations": annotations}, {"annotations": "PL"}, ["a", "keys", "h", "c"]
        ),
        "look": _export(
            look, {"keys": keys, "h": state["h"]}, {"keys": "PL", "h": "Pk"}, ["alpha", "gate"]
        ),
        "advance": _with_top(
            _export(
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
    """Let the graph return only the best words; how many is an input."""
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


def _export(
    module: nn.Module, inputs: dict[str, Tensor], axes: dict[str, str], outputs: Sequence[str]
) -> onnx.ModelProto:
    """Trace a module; `axes` names the leading axes of each input that may have any size."""
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
    for node in proto.graph.node:  # traces of our source code, with the paths of this machine
        del node.metadata_props[:]
        node.doc_string = ""
    _settle_casts(proto.graph)
    return proto


def _settle_casts(graph: onnx.GraphProto) -> None:
    """Cast here what is cast to the type of another number: all numbers of a layer are float32.

    Such casts make constants look as if they depended on the input, and ONNX Runtime then neither
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


def halved(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Store as float16 every constant that loses nothing by it, with a cast behind it."""
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
