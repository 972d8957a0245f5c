"""Image captioning with visual attention, after Show, Attend and Tell (Xu et al. 2015).

>>> import show_attend_tell as sat                          # doctest: +SKIP
>>> captioner = sat.load()                                  # doctest: +SKIP
>>> captioner("photo.jpg").text                             # doctest: +SKIP
'A dog runs through the grass.'
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from show_attend_tell.errors import UserError
from show_attend_tell.private import switch_off

switch_off()

if TYPE_CHECKING:
    from show_attend_tell.captioning.caption import Caption
    from show_attend_tell.captioning.captioner import Captioner
    from show_attend_tell.drawing import draw

__version__ = "0.1.0"

__all__ = ["Caption", "Captioner", "UserError", "draw", "load"]

SHIPPED = Path(__file__).parent / "models" / "flickr8k"  # what `load()` opens


def load(model: str | Path | None = None, *, threads: int | None = None) -> "Captioner":
    """Open a model to caption pictures with: the one that ships with the package, or another.

    Parameters
    ----------
    model
        A model folder, as `sat export` makes it, a run folder that holds one under `model/`, or
        the name of a model that ships (`sat models`) or its beginning: "flickr8k".
    threads
        Processor threads to use; all by default.

    Raises
    ------
    UserError
        `model.*`: missing, damaged, or of another version.
    """
    from show_attend_tell.captioning.captioner import Captioner
    from show_attend_tell.captioning.exported import ExportedModel
    from show_attend_tell.captioning.shipped import find_model

    if model is None and not SHIPPED.exists():
        raise UserError(
            "model.missing",
            "no model ships with this version; name one that `sat export RUN OUT` has made: "
            "sat.load(OUT) in Python, --model OUT on the command line",
        )
    folder = SHIPPED if model is None else find_model(model, SHIPPED.parent)
    return Captioner(ExportedModel(folder, threads))


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Import what else is public when it is first asked for: `sat --help` needs none of them."""
    from importlib import import_module

    where = {
        "Caption": "captioning.caption",
        "Captioner": "captioning.captioner",
        "draw": "drawing",
    }
    if name in where:
        return getattr(import_module(f"show_attend_tell.{where[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
