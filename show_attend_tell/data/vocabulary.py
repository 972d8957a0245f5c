"""Words: the tokeniser of captions, and the vocabulary of a model.

The paper (section 5.1) applies "basic tokenization" and a vocabulary of 10,000 words. As in the
authors' code, word 0 ends a caption and word 1 stands for every word outside the vocabulary.
"""

import functools
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from show_attend_tell.errors import UserError
from show_attend_tell.files import regular_file, write_text

_SPECIAL = ("<end>", "<unk>")
_HEADER = re.compile(r"# show_attend_tell vocabulary (\d+), punctuation (kept|dropped)")
_SAME = str.maketrans({"’": "'", "\u2010": "-", "\u2011": "-"})  # one spelling of each


class _Shapes(dict[int, str]):
    """The class of a character: `a` in words, `'` and `-` within words, `.` a mark, or a blank."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        group = unicodedata.category(character)[0]
        if group in "LNM":
            shape = "a"
        elif group in "PS":
            shape = character if character in "'-" else "."
        else:
            shape = " "
        self[code] = shape
        return shape


_SHAPES = _Shapes()
_WORDS = re.compile(r"a+(?:['-]a+)*")
_WORDS_AND_MARKS = re.compile(r"a+(?:['-]a+)*|[^ ]")


def tokenise(caption: str, *, punctuation: bool = False) -> list[str]:
    """The lower-case words of a caption.

    A word is a run of letters and digits of any script, with apostrophes and hyphens inside it.
    Scripts without blanks between words must be segmented beforehand.

    Parameters
    ----------
    punctuation
        Keep each punctuation mark and symbol as a word of its own, as in the paper; a stand-alone
        `'s`, as Flickr8k writes it, stays whole. Otherwise they vanish.

    >>> tokenise("A tri-colored dog 's ball .")
    ['a', 'tri-colored', 'dog', 's', 'ball']
    >>> tokenise("A tri-colored dog 's ball .", punctuation=True)
    ['a', 'tri-colored', 'dog', "'s", 'ball', '.']
    """
    text = unicodedata.normalize("NFC", caption).lower()
    text = unicodedata.normalize("NFC", text).translate(_SAME)  # lower() may undo the first NFC
    pattern = _WORDS_AND_MARKS if punctuation else _WORDS
    tokens: list[str] = []
    for chunk in text.split():
        if chunk.isalnum() or (
            punctuation and chunk == "'s"
        ):  # nearly all chunks; the rest is slower
            tokens.append(chunk)
        else:
            found = pattern.finditer(chunk.translate(_SHAPES))
            tokens += [chunk[match.start() : match.end()] for match in found]
    return tokens


@dataclass(frozen=True)
class Vocabulary:
    """The words of a model by index: `<end>`, `<unk>`, then from frequent to rare.

    >>> vocabulary = Vocabulary.build(["A dog runs.", "A dog sits."])
    >>> vocabulary.words
    ('<end>', '<unk>', 'a', 'dog', 'runs', 'sits')
    >>> vocabulary.encode("A cat runs")
    [2, 1, 4, 0]
    >>> vocabulary.decode([2, 3, 5, 0, 0])
    ['a', 'dog', 'sits']
    """

    words: tuple[str, ...]
    punctuation: bool = False  # whether punctuation marks are words

    END: ClassVar[int] = 0
    UNKNOWN: ClassVar[int] = 1

    @classmethod
    def build(
        cls,
        captions: Iterable[str],
        *,
        size: int | None = 10_000,
        minimum_count: int = 1,
        punctuation: bool = False,
    ) -> "Vocabulary":
        """The most frequent words of the captions; equally frequent ones in alphabetical order.

        Parameters
        ----------
        size
            At most so many words, the two special ones included; None for no limit.
        minimum_count
            Leave out rarer words.
        """
        if size is not None and size < len(_SPECIAL):
            raise UserError(
                "request.vocabulary",
                f"vocabulary size is {size}; it must be 2 or more, for <end> and <unk>",
            )
        counts = Counter(
            word for caption in captions for word in tokenise(caption, punctuation=punctuation)
        )
        frequent = [word for word, count in counts.items() if count >= minimum_count]
        ranked = sorted(frequent, key=lambda word: (-counts[word], word))
        return cls((*_SPECIAL, *ranked)[:size], punctuation)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def start(self) -> int:
        """The index that means "no word yet"; it has no word, and its embedding is zero."""
        return len(self.words)

    def encode(self, caption: str) -> list[int]:
        """Indices of a caption's words, END last."""
        words = tokenise(caption, punctuation=self.punctuation)
        return [*(self._index.get(word, self.UNKNOWN) for word in words), self.END]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Words of the indices up to the first END."""
        words: list[str] = []
        for index in ids:
            if index == self.END:
                break
            words.append(self.words[index])
        return words

    def save(self, path: Path) -> None:
        """Write the words to a text file, one a line in order of their index."""
        write_text(path, self._text)

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """The vocabulary that `save` wrote.

        Raises
        ------
        UserError
            `model.vocabulary`: missing, cut off, of another format, or with a bad or repeated word.
        """
        try:
            text = regular_file(path).read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise _bad(path, f"cannot be read ({error.strerror})") from error
        except UnicodeDecodeError as error:
            raise _bad(path, "not UTF-8 text") from error
        lines = text.replace("\r\n", "\n").split("\n")
        header = _HEADER.fullmatch(lines[0])
        if not header:
            raise _bad(
                path,
                f"line 1: expected '# show_attend_tell vocabulary 1, …', found {lines[0][:60]!r}",
            )
        if header[1] != "1":
            raise _bad(path, f"line 1: format {header[1]} is newer than this program; update it")
        if lines.pop():
            raise _bad(path, f"line {len(lines) + 1}: the file is cut off; copy it again")
        words = lines[1:]
        if problem := faulty_word(words, "line", 2):
            raise _bad(path, problem)
        return cls(tuple(words), punctuation=header[2] == "kept")

    @property
    def sha256(self) -> str:
        """The hash of the file that `save` writes."""
        return hashlib.sha256(self._text.encode("utf-8")).hexdigest()

    @property
    def _text(self) -> str:
        kept = "kept" if self.punctuation else "dropped"
        return "\n".join((f"# show_attend_tell vocabulary 1, punctuation {kept}", *self.words, ""))

    @functools.cached_property
    def _index(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words)}


def faulty_word(words: Sequence[str], place: str, number: int) -> str | None:
    """What is wrong with the first bad entry of a list of words; None if all are good.

    Parameters
    ----------
    place, number
        What an entry is called, and the number of the first.

    >>> faulty_word(["<end>", "<unk>", "dog", "dog"], "line", 2)
    "line 5: 'dog' is already on line 4"
    """
    if tuple(words[: len(_SPECIAL)]) != _SPECIAL:
        found = list(words[: len(_SPECIAL)])
        return f"{place} {number}: expected <end>, then <unk>, found {found}"
    first: dict[str, int] = {}
    for index, word in enumerate(words, start=number):
        if word.split() != [word]:
            return f"{place} {index}: expected one word, found {word[:60]!r}"
        if word in first:
            return f"{place} {index}: {word[:60]!r} is already on {place} {first[word]}"
        first[word] = index
    return None


def _bad(path: Path, problem: str) -> UserError:
    return UserError("model.vocabulary", f"{path}: {problem}")
