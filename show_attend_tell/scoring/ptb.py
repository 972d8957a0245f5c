"""Penn Treebank words exactly as Stanford's tokeniser 3.4.1 finds them, lower-cased, without Java.

A list of rules is tried at each place of the text. The one that reaches farthest wins, the first
listed among equals; what a rule only looks ahead at counts as reached. The rules were written from
what the original does with some millions of short texts (`docs/scoring.md` says how they were
found and what was compared), so that its surprises are kept: `a'field` but `A'field`, `d'you`,
`5.,`, `1-2.5`.

Rules do not see the text but its shape: characters above ASCII that behave alike are replaced by
one representative (λ a letter, μ a mark, δ a digit, § a symbol), so that patterns stay short.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache

from show_attend_tell.scoring import ptb_characters

# --- the shape of a text -------------------------------------------------------------------------

# Characters that rules name one by one.
_NAMED = (
    "\xad‘’‛‚“”„‟«»‹›\x91\x92\x93\x94–—―\x96\x97…\x85‐‑֊½¼¾⅓⅔⁄¢£¤₠€\x80\u066b\u066c"
    "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻₀₁₂₃₄₅₆₇₈₉₊₋\t\xa0"
)
_VANISHES = "\0"


class _Shapes(dict[int, str]):
    """Code point -> representative, worked out when first met."""

    def __init__(self) -> None:
        super().__init__({code: chr(code) for code in (*range(32, 127), *map(ord, _NAMED))})
        self.update(dict.fromkeys(map(ord, "\n\r\v\f\u2028\u2029"), " "))
        self.update(dict.fromkeys((*range(0x2000, 0x200B), 0x3000), "\u2003"))
        ranges = []
        for shape, text in (
            ("λ", ptb_characters.LETTERS),
            ("μ", ptb_characters.MARKS),
            ("δ", ptb_characters.DIGITS),
            ("§", ptb_characters.SYMBOLS),
        ):
            for entry in text.split():
                first, _, last = entry.partition("-")
                ranges.append((int(first, 16), int(last or first, 16), shape))
        self._ranges = sorted(ranges)

    def __missing__(self, code: int) -> str:
        _, last, shape = self._ranges[max(0, bisect_right(self._ranges, (code, 0x110000)) - 1)]
        first = self._ranges[max(0, bisect_right(self._ranges, (code, 0x110000)) - 1)][0]
        self[code] = shape if first <= code <= last else _VANISHES
        return self[code]
