"""An exported model as four functions: ONNX graphs on ONNX Runtime, no PyTorch."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from show_attend_tell.captioning.model import Arrays, Floats, Integers
from show_attend_tell.captioning.settings import SearchSettings
from show_attend_tell.data.pictures import MOST_BYTES as PICTURE_BYTES
from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.data.vocabulary import Vocabulary, faulty_word
from show_attend_tell.errors import UserError, printable, whole_number
from show_attend_tell.files import read_limited, write_json

# Here again, since the switch in `private` is too late where a program imported ONNX Runtime before
# us, and builds for Windows components do not read it.
onnxruntime.disable_telemetry_events()

FORMAT = 3  # of model.json; 1 had no checksum, 2 no object of search settings
GRAPHS = ("encode", "start", "look", "advance")
MOST_BYTES = 16 << 20  # of model.json; one of a million words
MOST_GRAPH_BYTES = (2 << 30) - 1  # what ONNX's own format allows
MOST_THREADS = 1024
# The attention makes rows × places × width numbers and passes over them four times; so many of them
# (2 MB) stay in the cache meanwhile, which saves a sixth to a quarter of its time in three views.
NUMBERS_AT_ONCE = 500_000
MOST_NUMBERS = 4_000_000  # of one picture that has many rows

GraphFunction = Callable[..., list[npt.NDArray[Any]]]  # from a graph's inputs to its outputs


Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Side = Annotated[int, Field(ge=1, le=1024)]


class ExamplePicture(BaseModel):
    """A picture in the model folder and the caption that it got when the model was exported."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    picture: Annotated[str, Field(pattern=r"^example(\.\w+)?$")]  # the name of the file
    caption: str


class ModelFacts(BaseModel):
    """What `model.json` holds: all that is needed besides the graphs, and where they came from.

    In the file stands also `sha256`, see `sealed`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: int = FORMAT
    words: tuple[str, ...]  # the vocabulary, by index
    punctuation: bool  # whether punctuation marks are words of it
    preprocessing: Preprocessing
    grid: tuple[Side, Side]
    search: SearchSettings  # chosen on dev
    files: dict[str, Digest]  # SHA-256 of every graph, and of the example
    origin: dict[str, Any]  # encoder, data set, recipe, versions
    example: ExamplePicture | None = None  # for `sat doctor`

    @field_validator("words")
    @classmethod
    def _are_words(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        if problem := faulty_word(words, "entry", 0):
            raise ValueError(problem)
        return words

    @field_validator("origin")
    @classmethod
    def _says_what_is_used(cls, origin: dict[str, Any]) -> dict[str, Any]:
        for name, kind in (("encoder", str), ("data_set", str), ("epoch", int)):
            if not isinstance(origin.get(name), kind):
                raise ValueError(f"{name} is missing, or of another type than {kind.__name__}")
        return origin

    @model_validator(mode="after")
    def _names_its_files(self) -> "ModelFacts":
        expected = {f"{name}.onnx" for name in GRAPHS}
        if self.example:
            expected.add(self.example.picture)
        if set(self.files) != expected:
            raise ValueError(
                f"files should be {', '.join(sorted(expected))}, found {sorted(self.files)} "
                f"(example.picture: {self.example and self.example.picture})"
            )
        return self


class ExportedModel:
    """A model folder, opened. It satisfies `captioning.model.Model`.

    A call works on one processor; several threads may call at once.

    Parameters
    ----------
    threads
        How many of them should; all processors by default.

    Raises
    ------
    UserError
        `model.*`: missing, unreadable, damaged, newer or older than this version reads;
        `request.bad`: no such number of threads.
    """

    end_word = Vocabulary.END
    unknown_word = Vocabulary.UNKNOWN

    def __init__(self, folder: Path, threads: int | None = None) -> None:
        if threads is not None:
            threads = whole_number("threads", threads, 1, MOST_THREADS)
        self.folder = folder
        self.facts = read_facts(folder)
        self.vocabulary = Vocabulary(self.facts.words, self.facts.punctuation)
        self.start_word = self.vocabulary_size = len(self.vocabulary)
        self.threads = threads or os.cpu_count() or 1
        sizes = _Sizes(self.facts.preprocessing.size, math.prod(self.facts.grid))
        self._encode, self._start, self._look, self._advance = (
            _open_verified(folder, name, self.facts, sizes) for name in GRAPHS
        )
        self._try_decoder(sizes)

    def __reduce__(self) -> tuple[type["ExportedModel"], tuple[Path, int]]:
        """Be opened again from its folder in another process, where ONNX Runtime has to start."""
        return type(self), (self.folder.absolute(), self.threads)

    def example(self) -> bytes:
        """The bytes of the example picture."""
        assert self.facts.example is not None
        return _verified(self.folder, self.facts.example.picture, self.facts, PICTURE_BYTES)

    def _try_decoder(self, sizes: "_Sizes") -> None:
        """Check the first word of an empty picture: finite numbers, as many as the vocabulary."""
        path, words = self.folder / "advance.onnx", self.vocabulary_size
        empty = np.zeros((1, sizes.by_axis["L"], sizes.by_axis.get("D", 1)), np.float32)

        def first_word(best: int) -> list[Floats]:
            memory, state = self.start(empty)
            alpha, gate = self.look(memory, state)
            start = np.array([self.start_word])
            state, log_probs, _ = self.advance(memory, state, alpha, gate, start, best)
            return [*memory, alpha, gate, *state, log_probs]

        other = _damaged(
            path, f"is of another vocabulary than model.json's {words:,} words, or does not run"
        )
        try:
            found = first_word(words)
        except Exception as error:  # ONNX Runtime has a class for every kind of failure
            raise other from error
        if not all(np.isfinite(part).all() for part in found):
            raise _damaged(path, "the decoder gives numbers that are not finite")
        try:
            first_word(words + 1)
        except Exception:  # as it should: there is no such word
            return
        raise other

    def encode(self, pictures: npt.NDArray[np.uint8]) -> Floats:
        """Framed pictures (P, size, size, 3) → annotations (P, L, D)."""
        annotations = self._encode(pictures)[0]
        if not np.isfinite(annotations).all():
            raise _damaged(self.folder / "encode.onnx", "it gives numbers that are not finite")
        return annotations

    def start(self, annotations: Floats) -> tuple[Arrays, Arrays]:
        """Memory: narrowed annotations and keys; state: h and c."""
        a, keys, h, c = self._start(annotations)
        return (a, keys), (h, c)

    def look(self, memory: Arrays, state: Arrays) -> tuple[Floats, Floats]:
        """Alpha and gate."""
        (_, keys), (h, _) = memory, state
        rows = _grouped(h, len(keys))  # (P, k, n)
        some = max(1, NUMBERS_AT_ONCE // (rows.shape[1] * keys[0].size))
        wide = max(1, MOST_NUMBERS // keys[0].size)  # rows of one picture, where it has many
        parts = [
            [self._look(keys[i : i + some], part) for part in _columns(rows[i : i + some], wide)]
            for i in range(0, len(keys), some)
        ]
        alpha, gate = (
            np.concatenate([np.concatenate([found[n] for found in one], axis=1) for one in parts])
            for n in range(2)
        )
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


def sealed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What `model.json` holds, with the SHA-256 of all the rest of it.

    The digest is of the values, written without blanks and by sorted keys, so a file that is only
    laid out in another way is still whole.
    """
    rest = {name: value for name, value in facts.items() if name != "sha256"}
    return {**rest, "sha256": hashlib.sha256(_canonical(rest)).hexdigest()}


def write_facts(folder: Path, facts: ModelFacts) -> None:
    """Write `model.json`."""
    write_json(folder / "model.json", sealed(facts.model_dump(mode="json")))


def read_facts(folder: Path) -> ModelFacts:
    """Read `model.json`.

    Raises
    ------
    UserError
        `model.missing`, `model.unreadable`, `model.newer`, `model.older`, or `model.damaged`.
    """
    path = folder / "model.json"
    try:
        content = read_limited(path, MOST_BYTES, "model")
    except UserError as error:
        if error.code != "model.missing":
            raise
        raise UserError(
            "model.missing", f"{folder}: not a model folder; `sat export RUN OUT` makes one"
        ) from None
    try:
        found = json.loads(content.decode("utf-8"), parse_constant=_check_finite_json)
    except (ValueError, RecursionError):
        raise _damaged(path, "it is not JSON, or is cut off") from None
    if not isinstance(found, dict) or type(found.get("format")) is not int:
        raise _damaged(path, "format, a whole number, is missing")
    _check_format(path, found["format"])
    digest = found.pop("sha256", None)
    if digest is None:
        raise _damaged(path, "it has no checksum (sha256)")
    if digest != sealed(found)["sha256"]:
        raise _damaged(path, "its checksum does not match: something in it was changed")
    try:
        return ModelFacts.model_validate_json(_canonical(found), strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise _damaged(path, f"{where}: {problem['msg']}") from None


def _canonical(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()


def _check_finite_json(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _check_format(path: Path, found: int) -> None:
    if found > FORMAT:
        raise UserError(
            "model.newer",
            f"{path}: made by a newer version of show_attend_tell, in a format that this one does "
            f"not read (it reads {FORMAT}); install the newer one",
        )
    if found < FORMAT:
        raise UserError(
            "model.older",
            f"{path}: made by an older version of show_attend_tell, in format {found}, and this "
            f"one reads {FORMAT}; make the model folder again with `sat export RUN OUT`",
        )


def _damaged(path: Path, why: str) -> UserError:
    return UserError(
        "model.damaged",
        f"{path}: {why}; copy the whole model folder again, or make it again with "
        "`sat export RUN OUT`",
    )


def open_graph(graph: bytes) -> GraphFunction:
    """A graph as a function of its inputs in order, on the thread that calls it.

    Two threads with pictures of their own are a quarter faster than two that share every layer.
    """
    return _calling(_session(graph))


def _session(graph: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # errors are raised, and reported in our own words
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _calling(session: onnxruntime.InferenceSession) -> GraphFunction:
    names = [one.name for one in session.get_inputs()]

    def run(*inputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        outputs: list[npt.NDArray[Any]] = session.run(None, dict(zip(names, inputs, strict=True)))
        return outputs

    return run


def _open_verified(folder: Path, name: str, facts: ModelFacts, sizes: "_Sizes") -> GraphFunction:
    """A graph of the folder as a function, once its hash, inputs and outputs are checked."""
    path = folder / f"{name}.onnx"
    graph = _verified(folder, path.name, facts, MOST_GRAPH_BYTES)
    try:
        session = _session(graph)
    except Exception as error:  # ONNX Runtime has a class for every kind of failure
        why = printable(str(error).splitlines()[0][:200] if str(error) else type(error).__name__)
        raise _damaged(path, f"ONNX Runtime cannot open it ({why})") from error
    for kind, ports in (("inputs", session.get_inputs()), ("outputs", session.get_outputs())):
        sizes.check(path, kind, SHAPES[name][kind], {port.name: port.shape for port in ports})
    return _calling(session)


# Inputs and outputs of each graph, by axes: P pictures, k rows of each, L places, one of which
# has D numbers and, narrowed, W, its key A, and the state n; S pixels a side.
SHAPES: dict[str, dict[str, dict[str, str]]] = {
    "encode": {"inputs": {"pixels": "PSS3"}, "outputs": {"annotations": "PLD"}},
    "start": {
        "inputs": {"annotations": "PLD"},
        "outputs": {"a": "PLW", "keys": "PLA", "h": "Pn", "c": "Pn"},
    },
    "look": {"inputs": {"keys": "PLA", "h": "Pkn"}, "outputs": {"alpha": "PkL", "gate": "Pk"}},
    "advance": {
        "inputs": {
            "a": "PLW",
            "h": "Pkn",
            "c": "Pkn",
            "weights": "PkL",
            "gate": "Pk",
            "words": "Pk",
            "best": "1",
        },
        "outputs": {"h_next": "Pkn", "c_next": "Pkn", "log_probs": "PkB", "ids": "PkB"},
    },
}


class _Sizes:
    """The sizes of a model's axes, by letter: those that model.json gives, then the graphs'."""

    def __init__(self, side: int, places: int) -> None:
        self.by_axis: dict[str, int] = {"S": side, "L": places, "1": 1, "3": 3}

    def check(
        self, path: Path, kind: str, expected: dict[str, str], found: dict[str, list[int | str]]
    ) -> None:
        """Check the names and sizes of a graph; a size that is not known yet is kept."""
        if list(found) != list(expected):
            names = ", ".join(found), ", ".join(expected)
            raise _damaged(path, f"its {kind} are {names[0]}, expected {names[1]}")
        for name, axes in expected.items():
            shape = found[name]
            sizes = [size for size in shape if isinstance(size, int)]
            fits = len(shape) == len(axes) and all(
                self.by_axis.setdefault(axis, size) == size
                for axis, size in zip(axes, shape, strict=True)
                if isinstance(size, int)
            )
            if not fits or any(size < 1 for size in sizes):
                wanted = " × ".join(str(self.by_axis.get(axis, axis)) for axis in axes)
                raise _damaged(path, f"{name} is {' × '.join(map(str, shape))}, expected {wanted}")


def _verified(folder: Path, name: str, facts: ModelFacts, most: int) -> bytes:
    """The content of a file of the folder, which is the one that model.json names."""
    path = folder / name
    try:
        content = read_limited(path, most, "model")
    except UserError as error:
        if error.code != "model.missing":
            raise
        raise UserError(
            "model.missing", f"{path}: is missing; copy the whole model folder again"
        ) from None
    if hashlib.sha256(content).hexdigest() != facts.files[name]:
        raise _damaged(path, "is not the file that model.json names (its SHA-256 differs)")
    return content


def _columns(rows: npt.NDArray[Any], wide: int) -> list[npt.NDArray[Any]]:
    """(P, k, ...) → parts (P, at most `wide`, ...)."""
    return [rows[:, i : i + wide] for i in range(0, rows.shape[1], wide)]


def _grouped(rows: npt.NDArray[Any], pictures: int) -> npt.NDArray[Any]:
    """(P × k, ...) → (P, k, ...)."""
    return rows.reshape(pictures, -1, *rows.shape[1:])
