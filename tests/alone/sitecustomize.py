"""A Python without the packages of the extra `train` and without a network.

Python imports a module of this name when it starts: with this folder on PYTHONPATH, every process
of a test runs as where only the base is installed and the cable is out.
"""

import importlib.abc
import importlib.util
import socket
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MISSING = {
    "matplotlib",
    "onnx",
    "onnxscript",
    "pycocoevalcap",
    "safetensors",
    "snowballstemmer",
    "timm",
    "tomli_w",
    "torch",
    "torchvision",
}


class _Absent(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


_find_spec = importlib.util.find_spec


def _find_present(name: str, package: str | None = None) -> ModuleSpec | None:
    """Who asks whether a missing package is there hears no, as where it is not installed."""
    return None if name.partition(".")[0] in MISSING else _find_spec(name, package)


class _LocalSocket(socket.socket):
    def __init__(self, family: int = socket.AF_INET, *more: Any, **options: Any) -> None:
        if family != socket.AF_UNIX:
            raise PermissionError("no network in this test")
        super().__init__(family, *more, **options)


def _no_names(*_: object, **__: object) -> None:
    raise PermissionError("no network in this test")


importlib.util.find_spec = _find_present
sys.meta_path.insert(0, _Absent())
socket.socket = _LocalSocket  # type: ignore[misc]
socket.getaddrinfo = _no_names  # type: ignore[assignment]
