"""METEOR 1.5 (Denkowski and Lavie 2014), English, ranking parameters, to the last digit of the jar.

A caption and a reference are aligned word by word: equal words, equal stems, synonyms, paraphrases.
A beam search picks the alignment; the score is a mean of precision and recall, lowered when the
matched words lie in many separate pieces (chunks).

The search has habits that nobody would design (integers that cut off halves, distances booked to
the wrong state). They decide ties, so they are kept where marked.
"""

import importlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.errors import UserError
from show_attend_tell.scoring.metrics.meteor_data import (
    MISSING,
    Paraphrases,
    WordLists,
    find_files,
    find_index,
)
from show_attend_tell.scoring.metrics.meteor_text import normalise

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
WEIGHTS = (1.0, 0.6, 0.8, 0.6)  # exact, stem, synonym, paraphrase
EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
BEAM = 40
MOST_WORDS = 2_000  # of a line; METEOR counts each mark, and each character that is no letter to it

# Columns of the statistics: caption, reference.
LENGTHS, FUNCTION_WORDS, CHUNKS, MATCHED = slice(0, 2), slice(2, 4), 20, slice(21, 23)


Key = TypeVar("Key")
Value = TypeVar("Value")


class Match(NamedTuple):
    """Some words of the reference matched with some words of the caption."""

    kind: int
    start: int  # in the reference
    length: int
    caption_start: int
    caption_length: int


class Word(NamedTuple):
    """What is known of a word."""

    text: str
    hash: int  # words are equal when these are
    is_function: bool
    relatives: dict[str, list[int]]  # words it matches -> kinds of match


Line = list[Word]


def why_not() -> UserError | None:
    """Say what METEOR lacks on this machine; None if it can be computed."""
    try:
        find_files()
        _find_stemmer()
    except UserError as error:
        return error
    return None


def meteor_rows(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    watch: Callable[[int], object] = lambda done: None,
) -> NDArray[np.float64]:
    """Count what METEOR needs, caption by caption, with the reference that scores best.

    Parameters
    ----------
    watch
        Called with 1 after each caption.

    Returns
    -------
    (captions, 23): words of caption and reference; function words of both; matched words for
    each kind of match (content words of both, function words of both); chunks, but 0 for a perfect
    caption, whose chunk METEOR does not count; matched words of both.
    """
    rows = meteor_statistics(candidates, references, watch)
    perfect = (rows[:, CHUNKS] == 1) & (rows[:, MATCHED] == rows[:, LENGTHS]).all(axis=1)
    rows[perfect, CHUNKS] = 0
    return rows


def meteor_statistics(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    watch: Callable[[int], object] = lambda done: None,
) -> NDArray[np.float64]:
    """Give the 23 statistics of each caption as the jar prints them."""
    # What coco-caption's wrapper does, and what a ||| does to its line: it separates references.
    captions = [text.replace("|||", "").replace("  ", " ") for text in candidates]
    split = [[part for text in own for part in text.split("|||")] for own in references]
    reader = _Reader([*captions, *(text for own in split for text in own)])
    statistics: list[list[int]] = []
    for caption, own in zip(map(reader.read, captions), split, strict=True):
        statistics += [_compare(caption, reader.read(text)) for text in own]
        watch(1)
    pairs = np.array(statistics, dtype=np.float64)
    ends = np.cumsum([len(own) for own in split])
    of_each_caption = np.split(meteor(pairs), ends[:-1])
    best = [scores.argmax() for scores in of_each_caption]  # the first of the best
    return pairs[ends - [len(own) for own in split] + best]


def meteor(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give METEOR from statistics summed over any set of captions.

    Parameters
    ----------
    sums
        (..., 23): rows of `meteor_rows`, or sums of them.

    Returns
    -------
    (...): one value for each row given.
    """
    function_words = sums[..., FUNCTION_WORDS]
    lengths = DELTA * (sums[..., LENGTHS] - function_words) + (1 - DELTA) * function_words
    matches = np.zeros_like(lengths)  # (..., 2)
    # One addition after the other, content words first: another order would change the last digit.
    for first_column, importance in ((4, DELTA), (6, 1 - DELTA)):
        for kind, weight in enumerate(WEIGHTS):
            column = first_column + 4 * kind
            matches = matches + sums[..., column : column + 2] * weight * importance
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = np.moveaxis(matches / lengths, -1, 0)
        mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
        fragments = sums[..., CHUNKS] / (sums[..., MATCHED].sum(axis=-1) / 2)
    perfect = (sums[..., CHUNKS] == 1) & (sums[..., MATCHED] == sums[..., LENGTHS]).all(axis=-1)
    fragments = np.where(perfect, 0.0, fragments)
    score = mean * (1 - GAMMA * _power(fragments, BETA))
    return np.where(np.isnan(score), 0.0, np.maximum(score, 0.0))


def _power(values: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """Python's own power: NumPy's may round differently from machine to machine."""
    powers = [value**exponent for value in values.ravel().tolist()]
    return np.array(powers).reshape(values.shape)


class _Reader:
    """Prepares lines; every word is looked up once, before the first line is read.

    Parameters
    ----------
    texts
        All that will be read.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        jar, table = find_files()
        lists, stem = WordLists(jar), _find_stemmer()
        lines = {text: normalise(text, lists.prefixes) for text in set(texts)}
        for text, line in lines.items():
            if len(line) > MOST_WORDS:
                problem = f"{text[:40]!r}... is {len(line):,} words and marks long for METEOR"
                remedy = f"shorten it to at most {MOST_WORDS:,}, or leave METEOR out"
                raise UserError("data.too_large", f"{problem}; {remedy}")
        words = {
            text: Word(text, java_hash(text), text in lists.function_words, {})
            for text in {text for line in lines.values() for text in line}
        }
        self._lines = {text: [words[word] for word in line] for text, line in lines.items()}
        _relate(words.values(), EXACT, lambda word: [word.hash])
        _relate(words.values(), STEM, lambda word: [java_hash(stem(word.text))])
        _relate(words.values(), SYNONYM, lambda word: lists.synsets(word.text))
        self._paraphrases = Paraphrases(find_index(table), words)

    def read(self, text: str) -> "_Side":
        return _Side(self._lines[text], self._paraphrases)


def _relate(
    words: Collection[Word], kind: int, find_traits: Callable[[Word], Iterable[object]]
) -> None:
    """Note which words have a trait in common; but equal words match exactly and nothing else."""
    traits = [(word, find_traits(word)) for word in words]
    sharing = _grouped((trait, word) for word, own in traits for trait in own)
    for word, own in traits:
        others = {other.text: other for trait in own for other in sharing[trait]}
        for text, other in others.items():
            if kind == EXACT or other.hash != word.hash:
                word.relatives.setdefault(text, []).append(kind)


def _find_stemmer() -> Callable[[str], str]:
    # Imported by its own name: the package's chooser would take another one where there is one.
    try:
        module = importlib.import_module("snowballstemmer.english_stemmer")
    except ImportError:
        raise MISSING from None
    stem: Callable[[str], str] = module.EnglishStemmer().stemWord
    if stem("university") != "univers":
        raise UserError(
            "extra.version",
            "METEOR needs version 2 of snowballstemmer, another is installed, whose stems differ; "
            'install it with: pip install "snowballstemmer>=2.2,<3"',
        )
    return stem


def java_hash(text: str) -> int:
    """Hash like Java, over UTF-16: METEOR takes words for equal when their hashes are.

    >>> java_hash("k2") == java_hash("ip")
    True
    """
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (low | high << 8)) & 0xFFFFFFFF
    return value


def _compare(caption: "_Side", reference: "_Side") -> list[int]:
    """Align a caption with a reference: the 23 statistics."""
    return _count(caption, reference, _choose(_find_matches(caption, reference)))


def _count(caption: "_Side", reference: "_Side", chosen: Sequence[Match]) -> list[int]:
    matched = [[0, 0, 0, 0] for _ in WEIGHTS]  # content words of both, function words of both
    chunks, end, caption_end = 0, -1, -1
    for kind, start, length, caption_start, caption_length in chosen:
        # Matched words that follow each other in both lines are one chunk.
        chunks += (start, caption_start) != (end, caption_end)
        end, caption_end = start + length, caption_start + caption_length
        for word in caption.line[caption_start:caption_end]:
            matched[kind][2 * word.is_function] += 1
        for word in reference.line[start:end]:
            matched[kind][2 * word.is_function + 1] += 1
    return [
        len(caption.line),
        len(reference.line),
        caption.function_words,
        reference.function_words,
        *(count for counts in matched for count in counts),
        chunks,
        sum(match.caption_length for match in chosen),
        sum(match.length for match in chosen),
    ]


class _Side:
    """A line, where each word stands in it, and which of its phrases have paraphrases."""

    def __init__(self, line: Line, paraphrases: Paraphrases) -> None:
        self.line = line
        self.hashes = [word.hash for word in line]
        self.function_words = sum([word.is_function for word in line])
        self.texts = [word.text for word in line]
        self.places: dict[str, int] = {}  # a bit for each place
        for place, text in enumerate(self.texts):
            self.places[text] = self.places.get(text, 0) | 1 << place
        self.sources = list(paraphrases.sources(self.texts))


def _grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        if key in groups:
            groups[key].append(value)
        else:
            groups[key] = [value]
    return groups


# A partial alignment is judged by one number, the smaller the better: fewer of these.
_DISTANCE, _CHUNK, _MATCHED = 1, 1 << 24, -(1 << 36)


class _Steps(NamedTuple):
    """Matches as the search sees them: alike but for where they start in the caption."""

    gain: int  # matched words of both lines, weighed
    bits: int  # the words of the reference that each uses, a bit a word
    start: int
    end: int
    places: int  # where they start in the caption, a bit a place
    span: int  # the words of the caption that one at place 0 uses
    caption_length: int
    kind: int


@lru_cache(maxsize=100_000)  # the same few thousand come again and again
def _steps(kind: int, start: int, length: int, places: int, caption_length: int) -> _Steps:
    # Anything but an exact match counts half, cut off in each line: one word counts nothing.
    share = 1 if kind == EXACT else 2
    return _Steps(
        _MATCHED * (length // share + caption_length // share),
        (1 << length) - 1 << start,
        start,
        start + length,
        places,
        (1 << caption_length) - 1,
        caption_length,
        kind,
    )


def _find_matches(caption: _Side, reference: _Side) -> list[list[_Steps]]:
    """List the possible matches by where they start in the reference, in METEOR's order."""
    same = caption.hashes == reference.hashes
    matches: list[list[_Steps]] = []
    for j, word in enumerate(reference.line):
        places = [0, 0, 0]  # for each kind of match between two words
        for text in word.relatives.keys() & caption.places.keys():
            for kind in word.relatives[text]:
                if kind == EXACT or not same:
                    places[kind] |= caption.places[text]
        matches.append([_steps(kind, j, 1, own, 1) for kind, own in enumerate(places) if own])
    if same:
        return matches
    for j, length, places_there, caption_length in _paraphrased(reference, caption):
        matches[j].append(_steps(PARAPHRASE, j, length, places_there, caption_length))
    further: list[list[list[int]]] = [[] for _ in matches]
    for i, caption_length, places_there, length in _paraphrased(caption, reference):
        for j in _bits(places_there):
            if further[j] and further[j][-1][::2] == [length, caption_length]:
                further[j][-1][1] |= 1 << i
            else:
                further[j].append([length, 1 << i, caption_length])
    for j, own_steps in enumerate(further):
        matches[j] += [_steps(PARAPHRASE, j, *alike) for alike in own_steps]
    return matches


def _paraphrased(side: _Side, other: _Side) -> Iterator[tuple[int, int, int, int]]:
    """Find what the other line paraphrases: start and length here, places and length there."""
    for start, length, paraphrases in side.sources:
        found = [
            (entry, places, len(phrase))
            for first in paraphrases.keys() & other.places.keys()
            for entry, phrase in paraphrases[first]
            if (places := _places_of(phrase, other.places))
        ]
        for _, places, other_length in sorted(found):
            yield start, length, places, other_length


def _places_of(phrase: Sequence[str], places: Mapping[str, int]) -> int:
    """Where a phrase begins, a bit a place."""
    found = -1
    for distance, word in enumerate(phrase):
        found &= places.get(word, 0) >> distance
    return found


def _bits(number: int) -> Iterator[int]:
    """Give the places of the bits that are set, from the lowest."""
    while number:
        yield (number & -number).bit_length() - 1
        number &= number - 1


# Rank, words used of the caption and of the reference (a bit each), end of the last match in the
# caption (-1 after a gap), first word of the reference not yet settled, and (earlier, last match).
_State = tuple[int, int, int, int, int, Any]


def _choose(steps: list[list[_Steps]]) -> list[Match]:
    """Search for the best alignment with a beam, word after word of the reference."""
    fixed = _find_fixed(steps)
    used = sum(own.bits for own in fixed.values())
    caption_used = sum(own.places * own.span for own in fixed.values())  # each has one place
    states: list[_State] = [(0, caption_used, used, -1, 0, None)]
    for current, own_steps in enumerate(steps):
        following: list[_State] = []
        limit = math.inf  # what ranks no better than this is not followed up
        for state in _best(states):
            if len(following) > 2 * BEAM:
                following = _best(following)
                limit = following[-1][0]
            rank, caption_used, used, last_end, settled, chosen = state
            if used >> current & 1:
                if current >= settled:
                    own = fixed[current]
                    place = own.places.bit_length() - 1
                    rank += own.gain + _DISTANCE * abs(current - place)
                    if last_end not in (-1, place):
                        rank += _CHUNK
                    link = chosen, own, place
                    state = (rank, caption_used, used, place + own.caption_length, own.end, link)
                following.append(state)
                continue
            for own in own_steps:
                gain, bits, _, end, free, span, caption_length, _ = own
                if used & bits:
                    continue
                free &= ~caption_used
                for distance in range(1, caption_length):
                    free &= ~(caption_used >> distance)
                # Those that begin a chunk, as all but one may do, only get worse from here on.
                worth = limit - gain - (_CHUNK if last_end != -1 else 0)
                made = 0
                while free and made < BEAM and rank < worth:
                    place = (free & -free).bit_length() - 1
                    following.append(
                        (
                            rank + gain + (_CHUNK if last_end not in (-1, place) else 0),
                            caption_used | span << place,
                            used | bits,
                            place + caption_length,
                            end,
                            (chosen, own, place),
                        )
                    )
                    # Booked here, for later matches of this word and the gap; the match goes
                    # without.
                    rank += _DISTANCE * abs(current - place)
                    free &= free - 1
                    made += 1
                if free:
                    # Of the rest only the one that goes on with a chunk can be among the best.
                    if last_end != -1 and free >> last_end & 1:
                        before = _distances(free & (1 << last_end) - 1, current)
                        following.append(
                            (
                                rank + _DISTANCE * before + gain,
                                caption_used | span << last_end,
                                used | bits,
                                last_end + caption_length,
                                end,
                                (chosen, own, last_end),
                            )
                        )
                    rank += _DISTANCE * _distances(free, current)
            if last_end != -1:
                rank += _CHUNK
            following.append((rank, caption_used, used, -1, current + 1, chosen))
        states = following
    best = min(_best(states), key=lambda state: state[0] + (_CHUNK if state[3] != -1 else 0))
    found: list[Match] = []
    link = best[5]
    while link:
        link, own, place = link
        length = own.end - own.start
        found.append(Match(own.kind, own.start, length, place, own.caption_length))
    return found[::-1]


def _best(states: list[_State]) -> list[_State]:
    """Give the states that are followed up; of equals, the first made."""
    states.sort(key=itemgetter(0))
    return states[:BEAM]


def _find_fixed(steps: list[list[_Steps]]) -> dict[int, _Steps]:
    """Find the matches that nothing else competes with, by where they start."""
    once = twice = caption_once = caption_twice = 0
    for own in (own for there in steps for own in there):
        # Several places: the words of the reference are used by each of them.
        twice |= own.bits if own.places & (own.places - 1) else once & own.bits
        once |= own.bits
        for distance in range(own.caption_length):
            caption_twice |= caption_once & own.places << distance
            caption_once |= own.places << distance
    return {
        start: own
        for start, (own, *others) in ((start, there) for start, there in enumerate(steps) if there)
        if not others and not (own.bits & twice or own.places * own.span & caption_twice)
    }


def _distances(places: int, current: int) -> int:
    """Sum up how far places, a bit each, are from the current one."""
    before = places & (1 << current) - 1
    return _sum(places >> current) + current * before.bit_count() - _sum(before)


def _sum(places: int) -> int:
    """Add the places up, binary digit by digit: in how many of them is it set?"""
    digits = places.bit_length().bit_length()
    return sum((places & mask).bit_count() << n for n, mask in enumerate(_having_digit(digits)))


@lru_cache
def _having_digit(digits: int) -> list[int]:
    """Give the numbers below 2**digits, a bit each, in which digit 0 is set, digit 1, ..."""
    every = (1 << (1 << digits)) - 1
    runs = [(1 << (1 << digit)) - 1 for digit in range(digits)]
    return [
        every // (run << (1 << digit) | run) * (run << (1 << digit))
        for digit, run in enumerate(runs)
    ]
