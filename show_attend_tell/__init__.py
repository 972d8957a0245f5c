"""Image captioning with visual attention, after Show, Attend and Tell (Xu et al. 2015).

>>> import show_attend_tell as sat                          # doctest: +SKIP
>>> captioner = sat.load("runs/soft/model")                 # doctest: +SKIP
>>> captioner("photo.jpg").text                             # doctest: +SKIP
'A dog runs through the grass.'
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from show_attend_tell.telling.caption import Caption
    from show_attend_tell.telling.captioner import Captioner
    from show_attend_tell.telling.search import Search

__version__ = "0.1.0"

__all__ = ["Caption", "Captioner", "Search", "load"]


def load(model: str | Path, *, threads: int | None = None) -> "Captioner":
    """Open a model folder, as `sat export` makes it, to caption pictures with.

    Parameters
    ----------
    model
        The folder, or a run folder that holds one under `model/`.
    threads
        Processor threads to use; all by default.

    Raises
    ------
    UserError
        `model.*`: missing, damaged, or of another version.
    """
    from show_attend_tell.telling.captioner import Captioner
    from show_attend_tell.telling.exported import ExportedModel

    folder = Path(model)
    if not (folder / "model.json").exists() and (folder / "model" / "model.json").exists():
        folder = folder / "model"
    return Captioner(ExportedModel(folder, threads))


def __getattr__(name: str) -> Any:
    """Import the public classes when they are first asked for: `sat --help` needs none of them."""
    from importlib import import_module

    where = {"Caption": "caption", "Captioner": "captioner", "Search": "search"}
    if name in where:
        return getattr(import_module(f"show_attend_tell.telling.{where[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
