"""Weights files: read without unpickling code, and fitted to an encoder tensor by tensor.

Sizes are checked before anything is read: a few bytes can ask for gigabytes.
"""

import io
import json
import math
import pickletools  # parses a pickle without running it
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from show_attend_tell.errors import UserError, printable
from show_attend_tell.files import sha256_of
from show_attend_tell.learning.encoders.base import PublicNetwork, Triple

MOST_BYTES = 1 << 30  # VGG-19 with its classifier has 575 MB
MOST_TENSORS = 5_000
MOST_TABLE = 1 << 20  # bytes of the names and shapes; 5,000 tensors have less

# What a state_dict calls; PyTorch's own list allows more, bytearray for one.
_KINDS = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
_CALLED = {
    "collections OrderedDict",
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_tensor",
    "torch._utils _rebuild_tensor_v2",
    *(f"torch {kind}Storage" for kind in _KINDS),
}
# Other opcodes that name or make objects; torch.save never writes them.
_NEVER = {"STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"}


@dataclass(frozen=True)
class WeightsFile:
    """What a weights file holds; `mean` and `std` (of 0..255) where its header gives them."""

    path: Path
    tensors: Mapping[str, Tensor]
    mean: Triple | None
    std: Triple | None
    sha256: str


def read_weights(path: Path) -> WeightsFile:
    """Read a `.safetensors` file, or a `.pth` or `.pt` file that holds nothing but tensors.

    A safetensors header may carry `mean_01` and `std_01` (JSON lists of three, for pixels 0..1), or
    `mean_255` alone (pixels 0..255, no division).
    """
    if not path.is_file():
        raise UserError("model.weights_missing", f"{path}: there is no such weights file")
    header: Mapping[str, str] = {}
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _excessive(path, f"more than {MOST_BYTES / 2**30:.1f} GB")
        is_safe = path.suffix == ".safetensors"
        _check_header(path) if is_safe else _check_tables(path)
        if is_safe:
            with safe_open(path, "pt") as file:
                header = file.metadata() or {}
                if len(file.keys()) > MOST_TENSORS:
                    raise _excessive(path, f"more than {MOST_TENSORS:,} tensors")
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        else:
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except UserError:
        raise
    except Exception as error:  # a file of another kind can raise nearly anything
        raise wrong_weights(
            path, "not a weights file: a .safetensors, or a .pth or .pt that holds only tensors"
        ) from error
    if not isinstance(tensors, dict) or not all(
        isinstance(value, Tensor) for value in tensors.values()
    ):
        raise wrong_weights(path, "not a table of tensors by name; save the model's state_dict()")
    if header.get("input", "RGB") != "RGB":
        raise wrong_weights(
            path,
            f"input in its header: expected RGB, found {header['input']}; convert the first kernel",
        )
    mean, std = _scale(path, header)
    return WeightsFile(path, tensors, mean, std, sha256_of(path))


def fit_weights(encoder: PublicNetwork, file: WeightsFile) -> None:
    """Load the file's tensors into the encoder; none may be missing or unknown."""
    own = {
        name: tensor
        for name, tensor in encoder.state_dict().items()
        if not name.endswith("num_batches_tracked")  # old files lack it, and nothing reads it
    }
    for name, tensor in own.items():
        found = file.tensors.get(name)
        if found is None:
            raise _misfit(encoder, file, f"{name} is missing")
        if found.shape != tensor.shape:
            raise _misfit(
                encoder, file, f"{name}: expected {tuple(tensor.shape)}, found {tuple(found.shape)}"
            )
        if not found.is_floating_point() or not bool(found.isfinite().all()):
            raise _misfit(encoder, file, f"{name}: expected finite floats, found others")
    for name in file.tensors:
        known = name in own or name.endswith("num_batches_tracked")
        if not known and not name.startswith(encoder.IGNORED):
            raise _misfit(encoder, file, f"{name} is unexpected")
    encoder.load_state_dict({name: file.tensors[name] for name in own}, strict=False)
    encoder.weights_hash = file.sha256


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if MOST_TABLE < length <= path.stat().st_size:  # a longer one is reported as cut off
        raise _excessive(path, "its header is more than 1 MB")


def _check_tables(path: Path) -> None:
    """Check what a file of `torch.save` would make, and how much, before PyTorch reads it."""
    with path.open("rb") as file:
        is_zip = file.read(4) == b"PK\x03\x04"  # as PyTorch decides
    for table in _zipped_table(path) if is_zip else _old_tables(path):
        _check_calls(path, table)


def _zipped_table(path: Path) -> Iterator[io.BytesIO]:
    with zipfile.ZipFile(path) as file:
        entries = file.infolist()
        if len(entries) > MOST_TENSORS + 100:  # there are a few entries beside the tensors
            raise _excessive(path, f"more than {MOST_TENSORS:,} tensors")
        if sum(entry.file_size for entry in entries) > path.stat().st_size:
            raise _excessive(path, "it holds more bytes than the file has")
        for entry in entries:
            if entry.filename.endswith(".pkl"):
                if entry.file_size > MOST_TABLE:
                    raise _excessive(path, "its table of tensors is more than 1 MB")
                yield io.BytesIO(file.read(entry))


def _old_tables(path: Path) -> Iterator[io.BytesIO]:
    """The pickles of the format before 2020: a number, a version, a system, the table, its keys."""
    with path.open("rb") as file:
        start = io.BytesIO(file.read(MOST_TABLE))
    for _ in range(5):
        yield start


def _check_calls(path: Path, table: io.BytesIO) -> None:
    """Check that the pickle here calls nothing but what makes tensors."""
    try:
        for opcode, argument, _ in pickletools.genops(table):
            if opcode.name in _NEVER:
                raise _excessive(path, f"its table of tensors holds {opcode.name}")
            if opcode.name == "GLOBAL" and argument not in _CALLED:
                raise _excessive(path, f"its table of tensors calls {printable(str(argument))}")
    except ValueError as error:
        if table.tell() >= MOST_TABLE:
            raise _excessive(path, "its table of tensors is more than 1 MB") from error
        raise


def _excessive(path: Path, what: str) -> UserError:
    return wrong_weights(
        path, f"not a weights file: {what}; save nothing but the model's state_dict()"
    )


def wrong_weights(path: Path, reason: str) -> UserError:
    """A weights file that cannot be used."""
    return UserError("model.weights_wrong", f"{path}: {reason}")


def _misfit(encoder: PublicNetwork, file: WeightsFile, reason: str) -> UserError:
    return wrong_weights(file.path, f"these are not the weights of {encoder.name}: {reason}")


def _scale(path: Path, header: Mapping[str, str]) -> tuple[Triple | None, Triple | None]:
    if "mean_01" in header or "std_01" in header:
        mean, std = (_triple(path, header, key, 255.0) for key in ("mean_01", "std_01"))
        if min(std) <= 0:
            raise wrong_weights(
                path, f"std_01 in its header: expected numbers above 0, found {std}"
            )
        return mean, std
    if "mean_255" in header:
        return _triple(path, header, "mean_255", 1.0), (1.0, 1.0, 1.0)
    return None, None


def _triple(path: Path, header: Mapping[str, str], key: str, factor: float) -> Triple:
    text = header.get(key, "")
    try:
        # Rounded, because a std of one pixel is written as 0.003921569.
        red, green, blue = (round(float(value) * factor, 4) for value in json.loads(text))
        if not all(map(math.isfinite, (red, green, blue))):
            raise ValueError("not finite")
    except (ValueError, TypeError, RecursionError) as error:
        raise wrong_weights(
            path, f"{key} in its header: expected three numbers, found {text!r}"
        ) from error
    return red, green, blue
