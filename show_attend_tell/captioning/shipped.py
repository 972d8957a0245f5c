"""The models that ship with the package, and the model that a name stands for."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from show_attend_tell.captioning.exported import read_facts
from show_attend_tell.errors import UserError


def find_model(named: str | Path, shipped: Path) -> Path:
    """The model folder of a path or a name.

    Parameters
    ----------
    named
        A model folder or a run folder that holds one under `model/`; or else the name of a model
        that ships, or as much of its beginning as no other has. A data set may have that name too.
    shipped
        The folder with the models that ship.
    """
    folder = Path(named)
    for model in (folder, folder / "model"):
        if _is_model(model):
            return model
    names = _names(shipped)
    meant = [name for name in names if name.startswith(str(named))]
    if str(named) in meant:
        meant = [str(named)]
    if len(meant) == 1:
        return shipped / meant[0]
    with suppress(OSError):
        if folder.is_dir():
            return folder
    if meant:
        raise UserError("request.bad", f"{named}: several models begin so: {', '.join(meant)}")
    raise UserError(
        "model.missing",
        f"{named}: there is no such folder, and no model of this name ships "
        f"(those that do: {', '.join(names) or 'none'}); `sat export RUN OUT` makes a model folder",
    )


def describe(shipped: Path, default: str) -> list[dict[str, Any]]:
    """What ships, by name, as its `model.json` and its card say; plain numbers and text."""
    return [_facts(shipped / name, is_default=name == default) for name in _names(shipped)]


def _is_model(folder: Path) -> bool:
    try:
        return (folder / "model.json").exists()
    except OSError:  # a name that no disk holds, or a folder that may not be looked into
        return False


def _names(shipped: Path) -> list[str]:
    return sorted(path.parent.name for path in shipped.glob("*/model.json"))


def _facts(folder: Path, *, is_default: bool) -> dict[str, Any]:
    facts = read_facts(folder)
    origin = facts.origin
    return {
        "name": folder.name,
        "default": is_default,
        "attention": origin["recipe"]["model"]["attention"],
        "encoder": origin["encoder"],
        "data_set": origin["data_set"],
        "words": len(facts.words),
        "bytes": sum(path.stat().st_size for path in folder.iterdir()),
        "scores": origin["scores"],
        "licences": _licences((folder / "README.md").read_text(encoding="utf-8")),
        "folder": str(folder),
    }


def _licences(card: str) -> list[str]:
    """The points below the card's heading `Licences`."""
    _, _, after = card.partition("\n## Licences\n")
    own, _, _ = after.partition("\n## ")
    return [line.removeprefix("- ") for line in own.splitlines() if line.startswith("- ")]
