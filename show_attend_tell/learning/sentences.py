"""Sentences without pictures: read from files, made into words, and sifted before they are learned.

A file is read by the ending of its name: `.jsonl` holds rows with a list of captions, anything else
is text, a sentence a line; either may be gzipped. A sentence that stands there twice is read twice.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel

from show_attend_tell.data.layouts import Example
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import UserError
from show_attend_tell.rows import lines, parse

# One word in ten. No caption says the unknown word, so sentences full of it teach little but to
# expect it. With this share, what is kept of COCO's and Flickr30k's sentences has about as many
# unknown words, by Flickr8k's vocabulary, as Flickr8k's own dev captions have.
MOST_UNKNOWN = 0.1
_EXPECTED = 'write rows such as {"captions": ["a dog", "a brown dog runs"]}'


@dataclass(frozen=True)
class Sentences:
    """What is learned from, and how much was left out."""

    words: list[list[int]]  # of each sentence, closed by the end word
    too_long: int
    unknown: int  # sentences with too many unknown words
    held_out: int  # sentences that equal a caption of dev or test

    @property
    def read(self) -> int:
        """All that were in the files."""
        return len(self.words) + self.too_long + self.unknown + self.held_out

    @cached_property
    def sha256(self) -> str:
        """Identity of what is learned from, in its order."""
        return hashlib.sha256(json.dumps(self.words).encode()).hexdigest()


class _Row(BaseModel):
    captions: list[str]


def read_sentences(
    paths: Sequence[Path], vocabulary: Vocabulary, examples: Iterable[Example], *, max_words: int
) -> Sentences:
    """Read every sentence that may be learned from.

    Parameters
    ----------
    paths
        Text or JSON lines, as the head of this file says.
    vocabulary
        Makes words of them.
    examples
        The data set that the model is judged on. A sentence that equals a caption outside of its
        training split is left out; case, punctuation and which unknown word it is do not matter.
    max_words
        Longer sentences are left out.

    Raises
    ------
    UserError
        `data.missing`, `data.unreadable`, `data.row` (with the line), or `data.sentences`: nothing
        is left to learn from.
    """
    plain = dataclasses.replace(vocabulary, punctuation=False)
    held_out = {
        tuple(plain.encode(caption))
        for example in examples
        if example.split != "train"
        for caption in example.captions
    }
    words: list[list[int]] = []
    left_out = {"too_long": 0, "unknown": 0, "held_out": 0}
    for sentence in (text for path in paths for text in _texts(path)):
        ids = vocabulary.encode(sentence)
        length = len(ids) - 1  # without the end
        if length == 0:
            continue
        if length > max_words:
            left_out["too_long"] += 1
        elif ids.count(vocabulary.UNKNOWN) > MOST_UNKNOWN * length:
            left_out["unknown"] += 1
        elif tuple(plain.encode(sentence)) in held_out:
            left_out["held_out"] += 1
        else:
            words.append(ids)
    found = Sentences(words, **left_out)
    if not words:
        names = ", ".join(map(str, paths))
        raise UserError(
            "data.sentences",
            f"{names}: none of {found.read:,} sentences can be learned from ({found.too_long:,} "
            f"have more than {max_words} words, {found.unknown:,} too many unknown words, "
            f"{found.held_out:,} equal a caption of dev or test); give a sentence a line, or let "
            f"the name end in .jsonl and {_EXPECTED}",
        )
    return found


def _texts(path: Path) -> Iterator[str]:
    if ".jsonl" not in path.suffixes[-2:]:
        yield from (line for _, line in lines(path))
        return
    for number, line in lines(path):
        if line.strip():
            yield from parse(_Row, line.encode(), path, number, expected=_EXPECTED).captions
