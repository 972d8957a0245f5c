"""Which pictures are meant: files, folders, globs, or standard input."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from show_attend_tell.errors import UserError

# Endings of pictures in a folder. What phones make and we do not read is among them: it is better
# named as unsupported than passed over in silence.
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"}
SUFFIXES |= {".heic", ".heif", ".avif", ".jxl"}

Source = Path | BinaryIO | UserError


def list_pictures(words: Sequence[str]) -> tuple[list[str], list[Source]]:
    """Names and sources of the pictures that the words mean, in order; folders sorted by name.

    A word that means no picture stays in the list, as a path that is missing or as an error, so
    that it is named and counted.
    """
    found = [pair for word in words for pair in _meant(word)]
    return [name for name, _ in found], [source for _, source in found]


def _meant(word: str) -> Iterator[tuple[str, Source]]:
    if word == "-":
        yield sys.stdin.buffer.name, sys.stdin.buffer
        return
    path = Path(word)
    try:
        if path.is_dir():
            found = [p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file()]
            nothing = f"{word}: there are no pictures in this folder"
        elif any(sign in word for sign in "*?[") and not path.exists():
            found = list(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
            nothing = f"{word}: no file matches"
        else:
            found, nothing = [path], ""
    except (OSError, ValueError):  # a name that no disk can hold; whoever opens it will say so
        found, nothing = [path], ""
    for one in sorted(found):
        yield str(one), one
    if not found:
        yield word, UserError("picture.missing", nothing)
