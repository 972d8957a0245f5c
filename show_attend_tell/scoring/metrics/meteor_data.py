"""METEOR's dictionaries: word lists out of its jar, and its paraphrase table behind an index.

Nothing of METEOR is shipped here. The files are those of an installed pycocoevalcap (extra
`meteor`). The table of 5.3 million paraphrases is unpacked once, kept in the Python environment,
and memory-mapped from then on: the phrases that have paraphrases, the paraphrases of one after the
other, and where those of each begin.
"""

import gzip
import importlib.util
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import ne
from pathlib import Path

import numpy as np

from show_attend_tell.errors import UserError
from show_attend_tell.files import cannot_write, sha256_of
from show_attend_tell.private import cache_folder

# The paraphrases of a phrase, each with its place among them, by their first word.
ByFirstWord = dict[str, list[tuple[int, list[str]]]]

INDEX_FORMAT = 2
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
_SOURCES, _PARAPHRASES, _STARTS = "sources.txt", "paraphrases.txt", "starts.npy"


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
        self._words = set(words)
        self._starts = np.load(index / _STARTS, mmap_mode="r", allow_pickle=False)
        self._text = np.memmap(index / _PARAPHRASES, dtype=np.uint8, mode="r")
        # Phrase -> where its paraphrases are; nowhere for what only begins a phrase.
        self._runs: dict[str, tuple[int, ...]] = {}
        with (index / _SOURCES).open(encoding="utf-8", newline="\n") as sources:
            for run, line in enumerate(sources):
                source = line[:-1]
                phrase = source.split(" ")
                if self._words.issuperset(phrase):
                    self._runs[source] = (*self._runs.get(source, ()), run)
                    for length in range(1, len(phrase)):
                        self._runs.setdefault(" ".join(phrase[:length]), ())
        self._known: dict[str, ByFirstWord] = {}

    def sources(self, words: Sequence[str]) -> Iterator[tuple[int, int, ByFirstWord]]:
        """Find the phrases of a line that have paraphrases.

        Yields
        ------
        Where a phrase starts, how many words it has, and its paraphrases; by start, shorter
        phrases first.
        """
        for start, phrase in enumerate(words):
            for end in range(start + 1, len(words) + 1):
                paraphrases = self._known.get(phrase)
                if paraphrases is None:
                    if phrase not in self._runs:
                        break
                    paraphrases = self._known[phrase] = self._read(self._runs[phrase])
                if paraphrases:
                    yield start, end - start, paraphrases
                if end < len(words):
                    phrase = f"{phrase} {words[end]}"

    def _read(self, runs: Iterable[int]) -> ByFirstWord:
        text = b"".join(
            self._text[self._starts[run] : self._starts[run + 1]].tobytes() for run in runs
        )
        by_first_word: ByFirstWord = {}
        for place, line in enumerate(text.decode("utf-8").split("\n")[:-1]):
            phrase = line.split(" ")
            if self._words.issuperset(phrase):
                by_first_word.setdefault(phrase[0], []).append((place, phrase))
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
    """Turn the paraphrase table into the files that `Paraphrases` reads."""
    starts = [np.zeros(1, dtype=np.int64)]
    with (folder / _SOURCES).open("wb") as sources, (folder / _PARAPHRASES).open("wb") as phrases:
        for lines in _read_table(table):
            # The table lists a source's paraphrases one after the other.
            own, others = lines[1::3], lines[2::3]
            begins = np.flatnonzero(np.fromiter(chain([True], map(ne, own, own[1:])), dtype=bool))
            sources.writelines(own[k] + b"\n" for k in begins.tolist())
            phrases.writelines((b"\n".join(others), b"\n"))
            ends = np.cumsum(np.fromiter(map(len, others), dtype=np.int64) + 1)
            starts.append(starts[-1][-1] + ends[[*(begins[1:] - 1), -1]])
    np.save(folder / _STARTS, np.concatenate(starts))
    sums = "".join(
        f"{name} {sha256_of(folder / name)}\n" for name in (_SOURCES, _PARAPHRASES, _STARTS)
    )
    (folder / "sha256").write_text(sums, encoding="ascii")


def _read_table(table: Path) -> Iterator[list[bytes]]:
    """Give the table's lines, three a paraphrase, many whole paraphrases at a time."""
    rest = b""
    with gzip.open(table) as stream:
        while block := stream.read(_BYTES_AT_ONCE):
            lines = (rest + block).split(b"\n")
            whole = (len(lines) - 1) // 3 * 3  # the last line may go on in the next block
            rest = b"\n".join(lines[whole:])
            if whole:
                yield lines[:whole]
