"""Privacy: no package beneath may send anything, or leave files in the home folder.

ONNX Runtime's official wheels from 1.29 on bring an uploader of usage data that is on by default.
It reads its switch when it is first imported, so the switch is set when `show_attend_tell` is
imported, which is before any of its modules can import ONNX Runtime. Processes that are started
from there inherit it. docs/privacy.md lists every dependency.
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
CACHE_VARIABLE = "SAT_CACHE"  # names another folder than `cache_folder` would choose


def switch_off() -> None:
    """Switch off what sends usage data; to be called before anything else is imported."""
    os.environ.update(SWITCHES)


def uploader_folders() -> list[Path]:
    """Where ONNX Runtime's uploader left a device id and events to be sent, if it ever ran here."""
    caches = [Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")]
    caches += [Path.home() / "Library" / place for place in ("Caches", "Application Support")]
    caches += [Path(place) for place in [os.environ.get("LOCALAPPDATA")] if place]
    folders = [cache / "Microsoft" / "DeveloperTools" / ".onnxruntime" for cache in caches]
    return [folder for folder in folders if folder.is_dir()]


def open_to_others() -> list[str] | None:
    """What this process has open that could leave the machine; None where that is not known.

    Sockets of a network, and files of the uploader. Linux says it.
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
    """A folder for what is made once and can be made again: METEOR's index, a list of fonts.

    It lies in the Python environment that the package is installed in, and goes when that goes. An
    environment that cannot be written to gets a temporary folder for as long as the process lives.
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
        os.environ[CACHE_VARIABLE] = temporary  # for processes that are started from here, too
        return Path(temporary)


def matplotlib_figure() -> Any:
    """Matplotlib's class `Figure`, without a list of fonts left in the home folder.

    Where a program has imported matplotlib before, or says where it may write, that stands.
    """
    name = "MPLCONFIGDIR"
    ours, imported = name not in os.environ, "matplotlib" in sys.modules
    if ours:
        os.environ[name] = str(cache_folder() / "matplotlib")
    try:
        # Here, because it takes a third of a second to import; and it reads the name only now.
        from matplotlib.figure import Figure
    finally:
        if ours:
            del os.environ[name]
    if not imported:
        import matplotlib

        # A matplotlibrc in the working folder comes before all others; it can have LaTeX started.
        if not Path(matplotlib.matplotlib_fname()).is_absolute():
            matplotlib.rcdefaults()
    return Figure
