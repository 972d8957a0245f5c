"""Privacy: no dependency may send anything, or leave files in the home folder.

ONNX Runtime's official wheels from 1.29 on contain an uploader of usage data that is on by default.
It reads its switch when it is first imported, so the switch is set when `show_attend_tell` is
imported, which is before any of its modules can import ONNX Runtime. Child processes
inherit it. docs/privacy.md lists every dependency.
"""

import os
import shutil
import sys
import tempfile
from atexit import register
from pathlib import Path
from typing import Any

SWITCHES = {
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime: no uploader, no device id, no queue of events
    "HF_HUB_DISABLE_TELEMETRY": "1",  # huggingface_hub, which comes with timm
}
CACHE_VARIABLE = "SAT_CACHE"  # overrides the folder of `cache_folder`


def switch_off() -> None:
    """Switch off usage data in dependencies; call before anything else is imported."""
    os.environ.update(SWITCHES)


def uploader_folders() -> list[Path]:
    """Folders in which ONNX Runtime's uploader left a device id and events to send."""
    caches = [Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")]
    caches += [Path.home() / "Library" / place for place in ("Caches", "Application Support")]
    caches += [Path(place) for place in [os.environ.get("LOCALAPPDATA")] if place]
    folders = [cache / "Microsoft" / "DeveloperTools" / ".onnxruntime" for cache in caches]
    return [folder for folder in folders if folder.is_dir()]


def open_to_others() -> list[str] | None:
    """Network sockets and files of the uploader that this process has open.

    None where the system does not tell: only Linux does.
    """
    handles, tables = Path("/proc/self/fd"), Path("/proc/self/net")
    if not handles.is_dir() or not tables.is_dir():
        return None
    names = ("tcp", "tcp6", "udp", "udp6", "raw", "raw6")
    rows = (row.split() for name in names for row in _rows(tables / name))
    networks = {f"socket:[{row[9]}]" for row in rows}
    uploader = tuple(f"{folder}{os.sep}" for folder in uploader_folders())
    opened = {link for handle in handles.iterdir() for link in _target(handle)}
    return sorted(link for link in opened if link in networks or link.startswith(uploader))


def _rows(table: Path) -> list[str]:
    return table.read_text().splitlines()[1:] if table.exists() else []


def _target(handle: Path) -> list[str]:
    try:
        return [str(handle.readlink())]
    except OSError:  # it was closed meanwhile
        return []


def cache_folder() -> Path:
    """The cache folder, for METEOR's index and a list of fonts.

    It lies in the Python environment of the package and is removed with it. If that cannot be
    written, it is a temporary folder for the life of the process.
    """
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    folder = Path(sys.prefix, "share", "show_attend_tell")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        temporary = tempfile.mkdtemp(prefix="show_attend_tell.")
        register(shutil.rmtree, temporary, ignore_errors=True)
        os.environ[CACHE_VARIABLE] = temporary  # also for child processes
        return Path(temporary)


def matplotlib_figure() -> Any:
    """Matplotlib's class `Figure`, without a list of fonts left in the home folder.

    A program's earlier import of matplotlib, or its own MPLCONFIGDIR, is left as it is.
    """
    name = "MPLCONFIGDIR"
    ours, imported = name not in os.environ, "matplotlib" in sys.modules
    if ours:
        os.environ[name] = str(cache_folder() / "matplotlib")
    try:
        # Imported here: it takes a third of a second, and must see the variable.
        from matplotlib.figure import Figure
    finally:
        if ours:
            del os.environ[name]
    if not imported:
        import matplotlib

        # A matplotlibrc in the working folder takes precedence and could start LaTeX.
        if not Path(matplotlib.matplotlib_fname()).is_absolute():
            matplotlib.rcdefaults()
    return Figure
