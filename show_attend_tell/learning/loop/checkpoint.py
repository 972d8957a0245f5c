"""Checkpoints that are whole or refused.

A checkpoint is a safetensors file, so nothing in it can run. Its header's metadata holds the
format's version, the facts about the run as one JSON string, and a SHA-256 of the whole file
(taken with the digest's own 64 places filled with zeros), so that a flipped bit anywhere shows.
"""

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import safetensors.torch
from torch import Tensor

from show_attend_tell.errors import UserError
from show_attend_tell.files import regular_file, write_atomically

FORMAT = "1"  # of the metadata; the digest is found the same way in every format
_MAX_HEADER = 1 << 20  # bytes; a larger one is no checkpoint of ours, and is not parsed
_MAX_TENSORS = 5000  # all stages of two encoders joined and fine-tuned, with Adam's moments: 2,700
_OWNER = "show_attend_tell"  # the metadata key that holds the format's version
_DIGEST_KEY = b'"sha256":"'  # cannot occur elsewhere: inside a JSON string quotes are escaped
_NO_DIGEST = b"0" * 64


def previous_of(path: Path) -> Path:
    """Where `save` keeps the checkpoint before this one.

    Examples
    --------
    >>> previous_of(Path("last.safetensors")).name
    'last.previous.safetensors'
    """
    return path.with_name(f"{path.stem}.previous{path.suffix}")


def save(path: Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    """Write a checkpoint, read it back, and only then let it take the place of the one before.

    The one before becomes `previous_of(path)`. A crash at any moment leaves at least one whole
    checkpoint, which `load_newest` finds.

    Parameters
    ----------
    path
        Ends in `.safetensors`.
    tensors
        At most 5,000, by name, of any shape and device; copies on the CPU are written.
    meta
        Anything that JSON can hold, together with the names below 1 MB.
    """
    header, payload = _serialise(tensors, meta)

    def write(stream: BinaryIO) -> None:
        stream.write(header)
        stream.write(payload)
        stream.flush()
        os.fsync(stream.fileno())
        try:
            _read(Path(stream.name))
        except UserError as error:
            raise OSError(errno.EIO, "it does not read back as written") from error
        if _is_whole(path):  # a damaged one must not push out the whole one before it
            path.replace(previous_of(path))

    write_atomically(path, write)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint that `save` wrote: its tensors and its meta.

    Raises
    ------
    UserError
        `model.missing`, `model.unreadable`, `model.damaged`, `model.foreign` (not one of ours) or
        `model.newer`; the message names the file, and the older one where there is one.
    """
    try:
        content, metadata = _read(path)
    except UserError as error:
        older = previous_of(path)
        if older.exists():
            raise UserError(error.code, f"{error}; the checkpoint before it is {older}") from error
        raise
    return safetensors.torch.load(content), json.loads(metadata["meta"])


def load_newest(path: Path) -> tuple[dict[str, Tensor], dict[str, Any], Path]:
    """Read the checkpoint at `path`, or the one before it if that is damaged, and say which.

    A checkpoint of a newer format is no damage: it is refused, lest the work in it be written over.
    """
    try:
        return *load(path), path
    except UserError as error:
        if error.code not in ("model.damaged", "model.foreign", "model.missing"):
            raise
        try:
            return *load(previous_of(path)), previous_of(path)
        except UserError:
            raise error from None


def pack(state: Any) -> tuple[dict[str, Tensor], Any]:
    """Take nested state apart into tensors by name and a JSON value; `unpack` restores it exactly.

    Parameters
    ----------
    state
        Dictionaries (keys: strings, numbers), lists, tuples, tensors, numbers, strings, None:
        for instance `optimiser.state_dict()`.

    Examples
    --------
    >>> import torch
    >>> tensors, rest = pack({"step": 3, "betas": (0.9, 0.999), "weights": {0: torch.ones(2)}})
    >>> list(tensors), unpack(tensors, rest)["betas"]
    (['weights.0'], (0.9, 0.999))
    """
    tensors: dict[str, Tensor] = {}

    def walk(value: Any, name: str) -> Any:
        def inside(key: object) -> str:
            return f"{name}.{key}" if name else str(key)

        if isinstance(value, Tensor):
            if name in tensors:
                raise ValueError(f"two tensors would both be called {name}")
            tensors[name] = value
            return {"tensor": name}
        if isinstance(value, dict):
            return {"dict": [[key, walk(item, inside(key))] for key, item in value.items()]}
        if isinstance(value, list | tuple):
            items = [walk(item, inside(index)) for index, item in enumerate(value)]
            return items if isinstance(value, list) else {"tuple": items}
        if value is None or type(value) in (bool, int, float, str):
            return value
        raise TypeError(f"{name}: a {type(value).__name__} cannot be put into a checkpoint")

    return tensors, walk(state, "")


def unpack(tensors: Mapping[str, Tensor], packed: Any) -> Any:
    """Put together again what `pack` took apart."""
    if isinstance(packed, list):
        return [unpack(tensors, item) for item in packed]
    if not isinstance(packed, dict):
        return packed
    ((kind, value),) = packed.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "tuple":
        return tuple(unpack(tensors, item) for item in value)
    return {key: unpack(tensors, item) for key, item in value}


def _serialise(tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> tuple[bytes, memoryview]:
    """Make the file's header, digest filled in, and its payload."""
    if len(tensors) > _MAX_TENSORS:
        raise ValueError(f"{len(tensors)} tensors; a checkpoint holds at most {_MAX_TENSORS}")
    metadata = {
        "format": "pt",
        _OWNER: FORMAT,
        "meta": json.dumps(meta),
        "sha256": _NO_DIGEST.decode(),
    }
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = safetensors.torch.save(plain)
    end = 8 + int.from_bytes(content[:8], "little")
    payload = memoryview(content)[end:]
    # The library would order the metadata by chance, and identical runs end in different bytes.
    entries = {"__metadata__": metadata} | json.loads(content[8:end])
    header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > _MAX_HEADER:
        raise ValueError(
            f"meta and names take {len(header)} bytes; a checkpoint allows {_MAX_HEADER}"
        )
    header = len(header).to_bytes(8, "little") + header
    digest = hashlib.sha256(header)
    digest.update(payload)
    start = header.index(_DIGEST_KEY) + len(_DIGEST_KEY)
    return header[:start] + digest.hexdigest().encode() + header[start + 64 :], payload


def _read(path: Path) -> tuple[bytes, dict[str, str]]:
    """Read a checkpoint's content and metadata, both verified, or say what is wrong with it."""
    try:
        with regular_file(path).open("rb") as stream:
            start = stream.read(8)
            length = int.from_bytes(start, "little")
            header = stream.read(min(length, _MAX_HEADER))
            metadata = _parse_header(path, start, header, length)
            stream.seek(0)
            content = stream.read()
    except FileNotFoundError as error:
        raise UserError("model.missing", f"{path}: no such checkpoint") from error
    except OSError as error:
        raise UserError(
            "model.unreadable", f"{path}: cannot be read ({error.strerror or error})"
        ) from error

    place = 8 + header.find(_DIGEST_KEY) + len(_DIGEST_KEY)
    digest = hashlib.sha256(content[:place])
    digest.update(_NO_DIGEST)
    digest.update(memoryview(content)[place + 64 :])
    if content[place : place + 64] != digest.hexdigest().encode():
        raise _damaged(path, "its checksum does not match")
    if metadata[_OWNER] != FORMAT:
        raise UserError(
            "model.newer",
            f"{path}: written in format {metadata[_OWNER]} by a newer version of show_attend_tell; "
            f"this one reads format {FORMAT}: install the newer one",
        )
    return content, metadata


def _is_whole(path: Path) -> bool:
    try:
        _read(path)
    except UserError:
        return False
    return True


def _parse_header(path: Path, start: bytes, header: bytes, length: int) -> dict[str, str]:
    """The metadata of a whole header of ours; refuses all else before the payload is read."""
    if not header:
        raise _damaged(path, "it is cut off" if start else "it is empty")
    if not header.startswith(b"{"):
        if start[:1] == b"\x80" or start[:4] == b"PK\x03\x04":
            raise _foreign(path, "a pickle, which could run code and is not opened")
        raise _foreign(path, "not a safetensors file")
    if len(header) < length:
        raise _damaged(path, f"its header claims {length:,} bytes")
    try:
        entries = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "its header is not JSON") from error
    metadata = entries.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not {_OWNER, "meta", "sha256"} <= metadata.keys():
        raise _foreign(path, "a safetensors file of another program")
    if len(entries) > _MAX_TENSORS:
        raise _foreign(
            path, f"a file of {len(entries):,} tensors, where {_MAX_TENSORS:,} are allowed"
        )
    return metadata


def _damaged(path: Path, why: str) -> UserError:
    return UserError("model.damaged", f"{path}: the checkpoint is damaged ({why})")


def _foreign(path: Path, what: str) -> UserError:
    return UserError("model.foreign", f"{path}: no checkpoint of show_attend_tell: {what}")
