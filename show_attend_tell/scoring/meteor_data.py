"""METEOR's dictionaries: word lists out of its jar, and its paraphrase table behind an index.

Nothing of METEOR is shipped here. The files are those of an installed pycocoevalcap (extra
`meteor`). The table of 5.3 million paraphrases is turned into arrays once, kept in the user's
cache, and memory-mapped from then on.

The index is a tree of source phrases. Node 0 is the root, node k + 1 the end of edge k; an edge is
the node it leaves and a word. The paraphrases of a node are a run of phrases in the order of the
table.
"""

import gzip
import importlib.util
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import ne
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.errors import UserError
from show_attend_tell.files import cannot_write, sha256_of

# Paraphrases of a phrase, each with its place in the table, by their first word.
ByFirstWord = dict[str, list[tuple[int, list[str]]]]

INDEX_FORMAT = 1
MISSING = UserError(
    "extra.missing",
    "METEOR needs the word lists of pycocoevalcap and a stemmer; "
    'install them with: pip install "show_attend_tell[meteor]"',
)
# Suffixes and endings, in the order in which WordNet's morphology tries them.
_MORPHOLOGY = (
    *(("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh")),
    *(("men", "man"), ("ies", "y"), ("s", ""), ("ies", "y"), ("es", "e"), ("es", "")),
    *(("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    *(("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
)
_BYTES_AT_ONCE = 4_000_000  # of the table
_FILES = ("edges", "entries", "starts", "phrases")
_WORD_BITS, _WORD_MASK = np.uint64(16), np.uint64(0xFFFF)  # an edge: node left << 16 | word


class WordLists:
    """Function words, abbreviations, synonyms: small, read from the jar each time."""

    def __init__(self, jar: Path) -> None:
        with zipfile.ZipFile(jar) as archive:

            def lines(name: str) -> list[str]:
                return archive.read(name).decode("utf-8").split("\n")

            self.function_words = frozenset(lines("function/english.words"))
            self.prefixes = {
                entry.split()[0]: "#NUMERIC_ONLY#" in entry
                for entry in lines("nonbreaking/english.prefixes")
                if entry and not entry.startswith("#")
            }
            synsets = lines("synonym/english.synsets")
            self._synsets = dict(zip(synsets[::2], synsets[1::2], strict=False))
            self._bases: dict[str, list[str]] = {}
            exceptions = lines("synonym/english.exceptions")
            for base, forms in zip(exceptions[::2], exceptions[1::2], strict=False):
                for form in forms.split():
                    self._bases.setdefault(form, []).append(base)

    def synsets(self, word: str) -> frozenset[str]:
        """Give the WordNet synsets of a word and of the words it is a form of."""
        bases = self._bases.get(word) or [self._base_form(word)]
        return frozenset(
            number for form in (word, *bases) for number in self._synsets.get(form, "").split()
        )

    def _base_form(self, word: str) -> str:
        if len(word) <= 2 or word.endswith("ss"):
            return word
        for suffix, ending in _MORPHOLOGY:
            if word.endswith(suffix):
                form = word.removesuffix(suffix) + ending
                if form in self._synsets:
                    return form
        return ""


class Paraphrases:
    """The paraphrase table, reduced to phrases whose words all occur in what is scored.

    Parameters
    ----------
    words
        Every word that will be looked up.
    """

    def __init__(self, index: Path, words: Iterable[str]) -> None:
        edges, self._entries, self._starts, self._phrases = (
            np.load(index / f"{name}.npy", mmap_mode="r") for name in _FILES
        )
        vocabulary = (index / "words.txt").read_text(encoding="utf-8").split("\n")
        wanted = set(words)
        self._number = {word: k for k, word in enumerate(vocabulary) if word in wanted}
        self._word = {k: word for word, k in self._number.items()}
        self._occurs = np.zeros(len(vocabulary), dtype=bool)
        self._occurs[list(self._word)] = True
        usable = np.flatnonzero(self._occurs[edges & _WORD_MASK])
        self._children = dict(zip(edges[usable].tolist(), (usable + 1).tolist(), strict=True))
        self._known: dict[int, ByFirstWord] = {}

    def sources(self, words: Sequence[str]) -> Iterator[tuple[int, int, ByFirstWord]]:
        """Find the phrases of a line that have paraphrases.

        Yields
        ------
        Where a phrase starts, how many words it has, and its paraphrases; by start, shorter
        phrases first.
        """
        numbers = [self._number.get(word) for word in words]
        for start in range(len(numbers)):
            node = 0
            for length, number in enumerate(numbers[start:], start=1):
                node = 0 if number is None else self._children.get(node << 16 | number, 0)
                if not node:
                    break
                paraphrases = self._known.get(node)
                if paraphrases is None:
                    paraphrases = self._known[node] = self._paraphrases(node)
                if paraphrases:
                    yield start, length, paraphrases

    def _paraphrases(self, node: int) -> ByFirstWord:
        first, last = int(self._entries[node]), int(self._entries[node + 1])
        if first == last:
            return {}
        starts = np.array(self._starts[first : last + 1])
        numbers = np.asarray(self._phrases[starts[0] : starts[-1]])
        starts -= starts[0]
        usable = np.logical_and.reduceat(self._occurs[numbers], starts[:-1])
        by_first_word: ByFirstWord = {}
        for entry in np.flatnonzero(usable).tolist():
            phrase = [self._word[k] for k in numbers[starts[entry] : starts[entry + 1]].tolist()]
            by_first_word.setdefault(phrase[0], []).append((entry, phrase))
        return by_first_word


def find_files() -> tuple[Path, Path]:
    """Find METEOR's jar and its paraphrase table in an installed pycocoevalcap."""
    package = importlib.util.find_spec("pycocoevalcap")
    for folder in (package.submodule_search_locations or ()) if package else ():
        jar = Path(folder, "meteor", "meteor-1.5.jar")
        table = Path(folder, "meteor", "data", "paraphrase-en.gz")
        if jar.exists() and table.exists():
            return jar, table
    raise MISSING


def find_index(table: Path) -> Path:
    """Give the folder of the index, made now if this is the first time.

    The folder is named after the table's checksum and appears complete or not at all: two
    processes that begin together both make it, and the second finds it there.
    """
    index = cache_folder() / f"meteor-paraphrases-{INDEX_FORMAT}-{sha256_of(table)[:16]}"
    if _is_whole(index):
        return index
    try:
        index.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f"{index.name}.", dir=index.parent))
        try:
            write_index(table, made)
            _replace_folder(made, index)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        raise cannot_write(index, error) from error
    return index


def cache_folder() -> Path:
    """Where things are kept that can be made again."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "show_attend_tell")


def _is_whole(index: Path) -> bool:
    sums = index / "sha256"
    if not sums.exists():
        return False
    expected = dict(line.split() for line in sums.read_text(encoding="ascii").splitlines())
    return all(
        (index / name).exists() and sha256_of(index / name) == digest
        for name, digest in expected.items()
    )


def _replace_folder(made: Path, index: Path) -> None:
    try:
        made.rename(index)
    except OSError:
        # There is one already: a good one by another process, or a damaged one to be replaced.
        if not _is_whole(index):
            shutil.rmtree(index, ignore_errors=True)
            made.rename(index)


def write_index(table: Path, folder: Path) -> None:
    """Turn the paraphrase table into the arrays that `Paraphrases` reads."""
    vocabulary = _Numbering()
    sources, phrases, repeats = _Phrases(vocabulary), _Phrases(vocabulary), []
    for lines in _read_table(table):
        # The table lists a source's paraphrases one after the other.
        own = lines[1::3]
        begins = np.flatnonzero(np.fromiter(chain([True], map(ne, own, own[1:])), dtype=bool))
        sources.add([own[k] for k in begins.tolist()])
        repeats.append(np.diff(begins, append=len(own)))
        phrases.add(lines[2::3])
    source_nodes, edges = _tree(*sources.arrays())
    nodes = np.repeat(source_nodes, np.concatenate(repeats))
    order = np.argsort(nodes, kind="stable")
    entries = np.searchsorted(nodes[order], np.arange(len(edges) + 2)).astype(np.uint32)
    starts, words = _reordered(*phrases.arrays(), order)
    arrays: tuple[NDArray[np.generic], ...] = (edges, entries, starts, words)
    for name, array in zip(_FILES, arrays, strict=True):
        np.save(folder / f"{name}.npy", array)
    (folder / "words.txt").write_bytes(b"\n".join(vocabulary))
    names = [*(f"{name}.npy" for name in _FILES), "words.txt"]
    sums = "".join(f"{name} {sha256_of(folder / name)}\n" for name in names)
    (folder / "sha256").write_text(sums, encoding="ascii")


def _read_table(table: Path) -> Iterator[list[bytes]]:
    """Give the table's lines, three a paraphrase, many whole paraphrases at a time."""
    rest = b""
    with gzip.open(table) as stream:
        while block := stream.read(_BYTES_AT_ONCE):
            lines = (rest + block).split(b"\n")
            whole = (len(lines) - 1) // 3 * 3  # the last line may go on in the next block
            rest = b"\n".join(lines[whole:])
            yield lines[:whole]


class _Numbering(dict[bytes, int]):
    """Words -> numbers in the order of their first appearance."""

    def __missing__(self, word: bytes) -> int:
        self[word] = number = len(self)
        return number


class _Phrases:
    """Lines of words, as numbers."""

    def __init__(self, vocabulary: _Numbering) -> None:
        self._vocabulary = vocabulary
        self._words: list[NDArray[np.uint16]] = []
        self._lengths: list[NDArray[np.uint8]] = []

    def add(self, lines: Sequence[bytes]) -> None:
        words = map(self._vocabulary.__getitem__, b" ".join(lines).split())
        self._words.append(np.fromiter(words, dtype=np.uint16))
        blanks = np.fromiter(map(bytes.count, lines, repeat(b" ")), dtype=np.uint8)
        self._lengths.append(blanks + np.uint8(1))

    def arrays(self) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
        """Give all words in a row, and the number of words of each line."""
        return np.concatenate(self._words), np.concatenate(self._lengths)


def _tree(
    words: NDArray[np.uint16], lengths: NDArray[np.uint8]
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Build the tree of phrases, one word of depth at a time.

    Returns
    -------
    nodes
        (phrases,): the node at which each ends.
    edges
        (nodes - 1,): node left << 16 | word, ascending.
    """
    starts = _starts(lengths)
    nodes = np.zeros(len(lengths), dtype=np.uint32)
    edges: list[NDArray[np.uint64]] = []
    count = 0
    for depth in range(int(lengths.max())):
        deep = np.flatnonzero(lengths > depth)
        keys = nodes[deep].astype(np.uint64) << _WORD_BITS | words[starts[deep] + depth]
        level, place = np.unique(keys, return_inverse=True)
        nodes[deep] = place + count + 1
        edges.append(level)
        count += len(level)
    return nodes, np.concatenate(edges)


def _reordered(
    words: NDArray[np.uint16], lengths: NDArray[np.uint8], order: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
    """Put phrases into another order: where each starts (and the last ends), their words."""
    old = _starts(lengths)[:-1][order]
    new = _starts(lengths[order])
    source = np.repeat(old - new[:-1], lengths[order])
    source += np.arange(new[-1], dtype=np.int32)
    return new, words[source]


def _starts(lengths: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Where each of several runs starts, and where the last ends."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int32)], dtype=np.int32)
