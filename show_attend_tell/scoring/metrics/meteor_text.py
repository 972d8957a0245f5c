"""Text as METEOR 1.5 compares it: the English normalisation of its `-norm` option, lower-cased.

Words come out smaller than those that go in: hyphenated words are split, `it's` becomes `it` and
`'s`. Each step is one pass over the line from left to right; a pass consumes the neighbours it
looks at, so `a-b-c` becomes `a b-c`. That is kept, like every other number METEOR has given.
"""

import re
from collections.abc import Mapping

_LETTERS = "A-Za-zŠŽšžŸÀ-ÖØ-öø-žЀ-ԧꙀ-ꙮ꙾-ꚗᴀ-ᵿ"
_LETTERS_AND_DIGITS = _LETTERS + "0-9"
_STEPS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # Everything but words, white space and what the later steps treat stands alone.
        (rf"([^{_LETTERS_AND_DIGITS} \t\n\v\f\r.'`,‘’-])", r" \1 "),
        # Runs of dots hide as words of letters until the end.
        (r"\.{2,}", lambda run: " " + "DOT" * len(run[0]) + " "),
        # Commas stand alone unless between digits.
        ("([^0-9]),([^0-9])", r"\1 , \2"),
        ("([0-9]),([^0-9])", r"\1 , \2"),
        ("([^0-9]),([0-9])", r"\1 , \2"),
        ("[`‘’]", "'"),
        ("[“”]|''", ' " '),
        ("–", "-"),
        ("--", "-"),
        (rf"([{_LETTERS_AND_DIGITS}.])-([{_LETTERS_AND_DIGITS}])", r"\1 \2"),
        # Apostrophes stay with the letters after them.
        (rf"([^{_LETTERS}])'([^{_LETTERS}])", r"\1 ' \2"),
        (rf"([^{_LETTERS_AND_DIGITS}])'([{_LETTERS}])", r"\1 ' \2"),
        (rf"([{_LETTERS}])'([^{_LETTERS}])", r"\1 ' \2"),
        (rf"([{_LETTERS}])'([{_LETTERS}])", r"\1 '\2"),
        ("([0-9])'s", r"\1 's"),
    )
]
_PLAIN = re.compile("[A-Za-z0-9 ]*")  # nothing to settle: most captions
_LETTER = re.compile(f"[{_LETTERS}]")
_HIDDEN_DOTS = re.compile("(?:DOT)+")
_SPACES = re.compile("[ \xa0\u2000-\u200a\u202f\u205f\u3000]+")
_CONTROLS = "".join(map(chr, range(33)))


def normalise(line: str, prefixes: Mapping[str, bool]) -> list[str]:
    """Cut a line into METEOR's words.

    Parameters
    ----------
    prefixes
        Abbreviations that keep their full stop -> only before a digit.
    """
    if _PLAIN.fullmatch(line) and "DOT" not in line:
        return line.lower().split()
    line = f" {line} "
    for pattern, replacement in _STEPS:
        line = pattern.sub(replacement, line)
    words = [word for word in re.split("[ \t\n\r\f]+", line) if word]
    following = [*words, ""][1:]
    line = " ".join(
        _settle_stop(word, after, prefixes) for word, after in zip(words, following, strict=True)
    )
    line = _HIDDEN_DOTS.sub(lambda hidden: "." * (len(hidden[0]) // 3), line)
    line = _SPACES.sub(" ", line).strip(_CONTROLS).lower()
    return [word for word in re.split("[ \t\n\r\f]+", line) if word]


def _settle_stop(word: str, after: str, prefixes: Mapping[str, bool]) -> str:
    """Decide whether a full stop at the end belongs to the word."""
    if len(word) < 2 or word[-1] != ".":
        return word
    stem = word[:-1]
    if "." in stem and _LETTER.search(stem):
        return word.replace(".", "")
    if "a" <= after[:1] <= "z" or prefixes.get(stem) is False:
        return word
    if prefixes.get(stem) and "0" <= after[:1] <= "9":
        return word
    return f"{stem} ."
