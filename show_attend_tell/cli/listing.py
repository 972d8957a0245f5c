"""The pictures that arguments name: files, folders, globs, or standard input."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from show_attend_tell.captioning.captioner import Source
from show_attend_tell.errors import UserError, counted

# Endings of pictures in a folder. Formats of phones that are not read are among them, so that an
# error names them and they are not skipped in silence.
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"}
SUFFIXES |= {".heic", ".heif", ".avif", ".jxl"}


def list_pictures(arguments: Sequence[str]) -> tuple[list[str], list[Source], Counter[str]]:
    """Names and sources of the pictures that arguments name, in order; folders sorted by name.

    An argument that names no picture stays in the list, as a missing path or as an error, so that
    it is named and counted. Other files in folders are counted by their endings, but for hidden
    ones.
    """
    skipped: set[Path] = set()
    found = [pair for argument in arguments for pair in _expand(argument, skipped)]
    endings = Counter(path.suffix.lower() for path in skipped)
    return [name for name, _ in found], [source for _, source in found], endings


def skipped_sentence(skipped: Counter[str]) -> str:
    """A sentence on which files in folders were skipped.

    >>> skipped_sentence(Counter({".mov": 1, ".cr2": 2}))
    'skipped 3 files that are not pictures sat reads: 2 .cr2, 1 .mov'
    """
    endings = sorted(skipped.items(), key=lambda item: (-item[1], item[0]))
    kinds = ", ".join(f"{count:,} {ending or 'without an ending'}" for ending, count in endings)
    count = skipped.total()
    are = "is not a picture" if count == 1 else "are not pictures"
    return f"skipped {counted(count, 'file')} that {are} sat reads: {kinds}"


def _expand(argument: str, skipped: set[Path]) -> Iterator[tuple[str, Source]]:
    if argument == "-":
        closed = UserError("picture.unreadable", "<stdin>: standard input is closed; name a file")
        yield "<stdin>", sys.stdin.buffer if sys.stdin else closed
        return
    path = Path(argument)
    try:
        if path.is_dir():
            files = [p for p in path.rglob("*") if p.is_file()]
            found = [p for p in files if p.suffix.lower() in SUFFIXES]
            skipped.update(
                p
                for p in files
                if p.suffix.lower() not in SUFFIXES
                and not any(part.startswith(".") for part in p.relative_to(path).parts)
            )
            nothing = f"{argument}: there are no pictures in this folder"
        elif any(sign in argument for sign in "*?[") and not path.exists():
            found = list(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
            nothing = f"{argument}: no file matches"
        else:
            found, nothing = [path], ""
    except (OSError, ValueError):  # a name that no disk can hold; whoever opens it will say so
        found, nothing = [path], ""
    for one in sorted(found):
        yield str(one), one
    if not found:
        yield argument, UserError("picture.missing", nothing)
