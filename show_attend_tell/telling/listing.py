"""Which pictures are meant: files, folders, globs, or standard input."""

import sys
from collections.abc import Sequence
from pathlib import Path

from show_attend_tell.errors import UserError

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"}


def list_pictures(words: Sequence[str]) -> tuple[list[str], list[Path | bytes]]:
    """Names and sources of the pictures that the words mean, in order; folders sorted by name.

    A word that is no file, folder or glob stays in the list as a path, so that the picture is
    named and counted as missing.
    """
    names: list[str] = []
    sources: list[Path | bytes] = []
    for word in words:
        if word == "-":
            names.append("standard input")
            sources.append(sys.stdin.buffer.read())
            continue
        path = Path(word)
        if path.is_dir():
            found = sorted(
                p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file()
            )
            if not found:
                raise UserError("picture.missing", f"{path}: there are no pictures in this folder")
        elif not path.exists() and any(sign in word for sign in "*?["):
            found = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
            if not found:
                raise UserError("picture.missing", f"{word}: no file matches")
        else:
            found = [path]
        names += map(str, found)
        sources += found
    return names, sources
