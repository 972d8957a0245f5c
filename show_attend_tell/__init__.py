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
    from show_attend_tell.drawing import draw
    from show_attend_tell.telling.caption import Caption
    from show_attend_tell.telling.captioner import Captioner
    from show_attend_tell.telling.search import Search

__version__ = "0.1.0"

__all__ = ["Caption", "Captioner", "Search", "UserError", "draw", "load"]

SHIPPED = Path(__file__).parent / "models" / "flickr8k"  # what `load()` opens


def load(*models: str | Path, threads: int | None = None, views: int | None = None) -> "Captioner":
    """Open a model to caption pictures with: the default that ships with the package, or another.

    Parameters
    ----------
    models
        A model folder, as `sat export` makes it, a run folder that holds one under `model/`, or
        the name of a model that ships (`sat models`) or its beginning: "flickr8k". Several that
        know the same words tell together: each next word by the mean of their probabilities.
    threads
        Processor threads to use; all by default.
    views
        How many views of each picture to tell from, up to 3: better captions for as many times the
        encoder's work. By default as was chosen for the model.

    Raises
    ------
    UserError
        `model.*`: missing, damaged, of another version, or of other words than the first.
    """
    from show_attend_tell.telling.captioner import Captioner
    from show_attend_tell.telling.exported import ExportedModel
    from show_attend_tell.telling.shipped import find_model

    if not models and not SHIPPED.exists():
        raise UserError(
            "model.missing",
            "no model ships with this version; name one that `sat export RUN OUT` has made: "
            "sat.load(OUT) in Python, --model OUT on the command line",
        )
    folders = [find_model(model, SHIPPED.parent) for model in models or (SHIPPED,)]
    return Captioner(*(ExportedModel(folder, threads) for folder in folders), views=views)


def __getattr__(name: str) -> Any:
    """Import what else is public when it is first asked for: `sat --help` needs none of them."""
    from importlib import import_module

    where = {
        "Caption": "telling.caption",
        "Captioner": "telling.captioner",
        "Search": "telling.search",
        "draw": "drawing",
    }
    if name in where:
        return getattr(import_module(f"show_attend_tell.{where[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
