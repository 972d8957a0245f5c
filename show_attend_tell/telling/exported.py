"""An exported model as four functions: ONNX graphs on ONNX Runtime, no PyTorch."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from pydantic import BaseModel, ConfigDict, ValidationError

from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import UserError
from show_attend_tell.files import sha256_of
from show_attend_tell.telling.model import Arrays, Floats, Integers
from show_attend_tell.telling.search import Look

# Where the switch in `private` came too late, because a program imported ONNX Runtime before us,
# or is not read, as by builds for Windows components.
onnxruntime.disable_telemetry_events()

FORMAT = 1
GRAPHS = ("encode", "start", "look", "advance")
# The attention makes rows × places × width numbers and passes over them four times; so many of them
# (2 MB) stay in the cache meanwhile, which saves a sixth to a quarter of its time in three views.
NUMBERS_AT_ONCE = 500_000

Run = Callable[..., list[npt.NDArray[Any]]]


class Example(BaseModel):
    """A picture in the model folder and the caption that it got when the model was exported."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    picture: str  # the name of the file
    caption: str


class ModelFacts(BaseModel):
    """What `model.json` holds: all that is needed besides the graphs, and where they came from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    words: tuple[str, ...]  # the vocabulary, by index
    punctuation: bool  # whether punctuation marks are words of it
    preprocessing: Preprocessing
    grid: tuple[int, int]
    beam: int  # of the search that was chosen on dev
    length_power: float
    max_words: int
    look: Look = "expected"
    votes: int = 0
    repetition: float = 0.0
    views: int = 1  # of each picture that it tells from
    files: dict[str, str]  # SHA-256 of every graph, and of the example
    origin: dict[str, Any]  # encoder, data set, recipe, versions
    example: Example | None = None  # for `sat doctor`


class ExportedModel:
    """A model folder, opened. It satisfies `telling.model.Model`.

    A call works on one processor; several threads may call at once.

    Parameters
    ----------
    threads
        How many of them should; all processors by default.
    """

    end_word = Vocabulary.END
    unknown_word = Vocabulary.UNKNOWN

    def __init__(self, folder: Path, threads: int | None = None) -> None:
        self.folder = folder
        self.facts = read_facts(folder)
        self.vocabulary = Vocabulary(self.facts.words, self.facts.punctuation)
        self.start_word = self.vocabulary_size = len(self.vocabulary)
        if threads is not None and threads < 1:
            raise UserError("request.bad", f"threads is {threads}; it must be at least 1")
        self.threads = threads or os.cpu_count() or 1
        self._encode, self._start, self._look, self._advance = (
            open_graph(_verified(folder, f"{name}.onnx", self.facts)) for name in GRAPHS
        )

    def __reduce__(self) -> tuple[type["ExportedModel"], tuple[Path, int]]:
        """Be opened again from its folder in another process, where ONNX Runtime has to start."""
        return type(self), (self.folder.absolute(), self.threads)

    def example(self) -> bytes:
        """The file of the example that the model brings."""
        assert self.facts.example is not None
        return _verified(self.folder, self.facts.example.picture, self.facts)

    def encode(self, pictures: npt.NDArray[np.uint8]) -> Floats:
        """Framed pictures (P, size, size, 3) → annotations (P, L, D)."""
        return self._encode(pictures)[0]

    def start(self, annotations: Floats) -> tuple[Arrays, Arrays]:
        """Memory: narrowed annotations and keys; state: h and c."""
        a, keys, h, c = self._start(annotations)
        return (a, keys), (h, c)

    def look(self, memory: Arrays, state: Arrays) -> tuple[Floats, Floats]:
        """Alpha and gate."""
        (_, keys), (h, _) = memory, state
        rows = _grouped(h, len(keys))  # (P, k, n)
        some = max(1, NUMBERS_AT_ONCE // (rows.shape[1] * keys[0].size))
        parts = [
            self._look(keys[i : i + some], rows[i : i + some]) for i in range(0, len(keys), some)
        ]
        alpha, gate = (np.concatenate(part) for part in zip(*parts, strict=True))
        return alpha.reshape(len(h), -1), gate.reshape(-1)

    def advance(
        self,
        memory: Arrays,
        state: Arrays,
        weights: Floats,
        gate: Floats,
        words: Integers,
        best: int,
    ) -> tuple[Arrays, Floats, Integers]:
        """The next state, and the best words with their log-probabilities."""
        a, _ = memory
        rows = [_grouped(x, len(a)) for x in (*state, weights, gate, words)]
        h, c, log_probs, ids = self._advance(a, *rows, np.array([best]))
        flat = len(words)
        return (
            (h.reshape(flat, -1), c.reshape(flat, -1)),
            log_probs.reshape(flat, best),
            ids.reshape(flat, best),
        )


def read_facts(folder: Path) -> ModelFacts:
    """Read `model.json`."""
    path = folder / "model.json"
    try:
        return ModelFacts.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError(
            "model.missing", f"{folder}: not a model folder; `sat export RUN OUT` makes one"
        ) from None
    except OSError as error:
        raise UserError("model.unreadable", f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise UserError(
            "model.damaged",
            f"{path}: not what this version reads ({where}: {problem['msg']}); export it again",
        ) from None


def open_graph(graph: bytes) -> Run:
    """A graph as a function of its inputs in order, on the thread that calls it.

    Two threads with pictures of their own are a quarter faster than two that share every layer.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]

    def run(*inputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        outputs: list[npt.NDArray[Any]] = session.run(None, dict(zip(names, inputs, strict=True)))
        return outputs

    return run


def _verified(folder: Path, name: str, facts: ModelFacts) -> bytes:
    path = folder / name
    if not path.exists():
        raise UserError("model.missing", f"{path}: is missing; copy the whole model folder again")
    if sha256_of(path) != facts.files.get(name):
        raise UserError(
            "model.damaged",
            f"{path}: is not the file that model.json names (its SHA-256 differs); "
            "copy the whole model folder again",
        )
    return path.read_bytes()


def _grouped(rows: npt.NDArray[Any], pictures: int) -> npt.NDArray[Any]:
    """(P × k, ...) → (P, k, ...)."""
    return rows.reshape(pictures, -1, *rows.shape[1:])
