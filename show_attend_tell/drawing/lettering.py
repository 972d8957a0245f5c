"""Lettering: the text on a drawing, wrapped, and never a letter that its typeface does not have."""

import contextlib
import unicodedata
from collections.abc import Iterable, Iterator
from typing import cast

from PIL import ImageFont

from show_attend_tell.captioning.caption import Caption

Font = ImageFont.FreeTypeFont

BUILT_IN = cast(Font, ImageFont.load_default(20))
# Pillow's own typeface has the letters of English alone. For others the machine is asked.
OTHERS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial.ttf", "NotoSansCJK-Regular.ttc")
NOWHERE = "\U0010ffff"  # no typeface has it: what is drawn like this is lacking


class Lettering:
    """One typeface for all the text of a drawing: the first at hand that has all its letters.

    If none has them all, the one that lacks fewest is taken: letters lose their accents,
    and what is then still lacking becomes `?`.

    Parameters
    ----------
    texts
        All that is to be written.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        letters = "".join(texts)
        fitting = (face for face in _typefaces() if not _lacking(face, letters))
        self._face = next(fitting, None) or min(
            _typefaces(), key=lambda face: len(_lacking(face, letters))
        )
        self._plain = {letter: self._plainer(letter) for letter in _lacking(self._face, letters)}

    @property
    def lacks(self) -> bool:
        """Whether some letters are written as `?`."""
        return "?" in self._plain.values()

    def spell(self, text: str) -> str:
        """The text in the letters that there are."""
        return "".join(self._plain.get(letter, letter) for letter in text)

    def font(self, size: int) -> Font:
        """The typeface, `size` pixels high."""
        return self._face.font_variant(size=size)

    def _plainer(self, letter: str) -> str:
        parts = unicodedata.normalize("NFKD", letter)
        plain = "".join(part for part in parts if not unicodedata.combining(part))
        return "?" if _lacking(self._face, plain) else plain


def wrapped(text: str, font: Font, width: int) -> list[str]:
    """Lines of whole words, none wider than `width` pixels."""
    lines: list[str] = []
    for word in text.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(shortened(word, font, width))
    return lines


def shortened(text: str, font: Font, width: int) -> str:
    """The text, or as much of it as is not wider than `width` pixels, and three dots."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text + "…"


def pieces(caption: Caption) -> list[str]:
    """The sentence cut into what each word became, with the space before it; what is left, last.

    >>> from types import SimpleNamespace as Caption
    >>> pieces(Caption(text="A man's dog runs.", words=("a", "man", "'s", "dog", "runs")))
    ['A', ' man', "'s", ' dog', ' runs', '.']
    """
    found, rest = [], caption.text
    for word in caption.words:
        space = " " if rest.startswith(" ") else ""
        rest = rest.lstrip()
        if rest[: len(word)].lower() == word.lower():  # else the sentence left the word out
            word, rest = rest[: len(word)], rest[len(word) :]
        found.append(space + word)
    return [*found, rest]


def _typefaces() -> Iterator[Font]:
    yield BUILT_IN
    for name in OTHERS:
        with contextlib.suppress(OSError):  # not on this machine
            yield ImageFont.truetype(name, 20)


def _lacking(face: Font, letters: str) -> set[str]:
    nowhere = bytes(face.getmask(NOWHERE))
    return {letter for letter in set(letters) if bytes(face.getmask(letter)) == nowhere}
