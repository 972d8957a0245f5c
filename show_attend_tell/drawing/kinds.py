"""Kinds of drawings: the ending of a file says which one is made."""

import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PIL import Image

from show_attend_tell.drawing.animation import animate
from show_attend_tell.drawing.figure import draw, sheet
from show_attend_tell.drawing.items import Item
from show_attend_tell.drawing.numbers import as_json, as_npz
from show_attend_tell.drawing.overlay import overlay
from show_attend_tell.drawing.page import page
from show_attend_tell.errors import UserError
from show_attend_tell.files import same_file

PICTURES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
MOST_ON_A_SHEET = 24


def make(ending: str, items: Sequence[Item], word: str | None = None) -> bytes:
    """Make the file that an ending asks for: .png, .jpg, .gif, .html, .json or .npz.

    Parameters
    ----------
    ending
        One that `check` let pass, with these items.
    items
        For each picture and model a name, a caption and the whole upright picture.
    word
        For an overlay: the word.
    """
    kind = PICTURES.get(ending)
    if word is not None and kind:
        _, caption, picture = items[0]
        return _saved(overlay(caption, picture, word), kind)
    return _MAKERS[ending](items)


def check(out: Path, pictures: Sequence[Path], models: int = 1, word: str | None = None) -> None:
    """Refuse what cannot be drawn before any work is done.

    Parameters
    ----------
    out
        The file to be made.
    pictures
        Those to be drawn.
    models
        How many caption each of them.
    word
        For an overlay: the word.

    Raises
    ------
    UserError
        `request.out`: another file is needed; `disk.unwritable`: there is no such folder.
    """
    ending, count = out.suffix.lower(), len(pictures) * models
    if ending not in _MAKERS:
        raise UserError(
            "request.out",
            f"{out}: name a file that ends in .png, .jpg, .gif, .html, .json or .npz",
        )
    if word is not None and ending not in PICTURES:
        raise UserError("request.out", f"{out}: --word makes a picture; end the name in .png")
    if count > 1 and (word is not None or ending in (".gif", ".npz")):
        what = "--word" if word is not None else ending
        raise UserError(
            "request.out",
            f"{out}: {what} shows one caption of one picture; for several, end the name in .png, "
            ".html or .json",
        )
    if ending in PICTURES and count > MOST_ON_A_SHEET:
        raise UserError(
            "request.out",
            f"{out}: a sheet has room for {MOST_ON_A_SHEET}, not for {count:,}; "
            "end the name in .html",
        )
    if any(same_file(out, picture) for picture in pictures):
        raise UserError(
            "request.out", f"{out}: is the picture itself and would be lost; name another file"
        )
    if not out.parent.is_dir():
        raise UserError("disk.unwritable", f"{out}: there is no folder {out.parent}; make it first")


def _saved(image: Image.Image, kind: str) -> bytes:
    stream = io.BytesIO()
    options = {"quality": 92, "subsampling": 0} if kind == "JPEG" else {}
    image.save(stream, kind, **options)
    return stream.getvalue()


def _picture(items: Sequence[Item], kind: str) -> bytes:
    _, caption, picture = items[0]
    return _saved(draw(caption, picture) if len(items) == 1 else sheet(items), kind)


def _animation(items: Sequence[Item]) -> bytes:
    _, caption, picture = items[0]
    return animate(caption, picture)


def _page(items: Sequence[Item]) -> bytes:
    alone = items[0][1].text if len(items) == 1 else ""
    return page(items, alone or "Where each word looked").encode()


def _json(items: Sequence[Item]) -> bytes:
    return as_json(items).encode("utf-8", "backslashreplace")  # a name may be no Unicode


def _npz(items: Sequence[Item]) -> bytes:
    name, caption, _ = items[0]
    return as_npz(name, caption)


_MAKERS: dict[str, Callable[[Sequence[Item]], bytes]] = {
    **{ending: partial(_picture, kind=kind) for ending, kind in PICTURES.items()},
    ".gif": _animation,
    ".html": _page,
    ".json": _json,
    ".npz": _npz,
}
