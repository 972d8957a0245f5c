"""METEOR: against recorded statistics, and on a made-up dictionary that fits on a page."""

import gzip
import random
import shutil
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from show_attend_tell.errors import UserError
from show_attend_tell.scoring import measure
from show_attend_tell.scoring.metrics import meteor as meteor_module
from show_attend_tell.scoring.metrics import meteor_data
from show_attend_tell.scoring.metrics.meteor import (
    java_hash,
    meteor,
    meteor_rows,
    meteor_statistics,
)
from show_attend_tell.scoring.metrics.meteor_data import Paraphrases, WordLists, find_index
from show_attend_tell.scoring.metrics.meteor_text import normalise
from tests.scoring.cases import needs_meteor, read_lines
from tests.shared import needs_shared

WORD_LISTS = {
    "function/english.words": "the\na\nis\n.\n",
    "nonbreaking/english.prefixes": "# comment\nMr\nNo #NUMERIC_ONLY#\nvs\n",
    "synonym/english.synsets": "dog\n11 12\nhound\n12\nwoman\n20\nlady\n20\nrun\n30\nsprint\n30\n",
    "synonym/english.exceptions": "run\nran\n",
}
PARAPHRASES = (
    ("next to", "beside"),
    ("next to", "by the side of"),
    ("next", "following"),
    ("in front of", "before"),
    ("big", "large"),
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Path]]:
    """A pycocoevalcap with a tiny dictionary, a stemmer that cuts -s, an empty cache."""
    folder = tmp_path / "packages" / "pycocoevalcap" / "meteor"
    (folder / "data").mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    jar, table = folder / "meteor-1.5.jar", folder / "data" / "paraphrase-en.gz"
    with zipfile.ZipFile(jar, "w") as archive:
        for name, text in WORD_LISTS.items():
            archive.writestr(name, text)
    entries = "".join(f"0.5\n{source}\n{phrase}\n" for source, phrase in PARAPHRASES)
    table.write_bytes(gzip.compress(entries.encode()))
    monkeypatch.setenv("SAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    monkeypatch.delitem(sys.modules, "pycocoevalcap", raising=False)
    stemmer = ModuleType("snowballstemmer.english_stemmer")
    stemmer.EnglishStemmer = Stemmer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "snowballstemmer", ModuleType("snowballstemmer"))
    monkeypatch.setitem(sys.modules, "snowballstemmer.english_stemmer", stemmer)
    yield jar, table
    sys.modules.pop("pycocoevalcap", None)


class Stemmer:
    def stemWord(self, word: str) -> str:
        return "univers" if word == "university" else word.removesuffix("s")


def matched(caption: str, reference: str) -> dict[str, tuple[int, int]]:
    """Matched words of caption and reference by kind, and the chunks."""
    row = meteor_statistics([caption], [[reference]])[0].astype(int).tolist()
    kinds = {
        kind: (row[k] + row[k + 2], row[k + 1] + row[k + 3])
        for kind, k in zip(("exact", "stem", "synonym", "paraphrase"), (4, 8, 12, 16), strict=True)
    }
    return {**{kind: both for kind, both in kinds.items() if any(both)}, "chunks": (row[20], 0)}


@pytest.mark.parametrize(
    ("caption", "reference", "expected"),
    [
        ("a dog", "a dog", {"exact": (2, 2), "chunks": (1, 0)}),
        ("cats", "cat", {"stem": (1, 1), "chunks": (1, 0)}),
        ("hound", "dogs", {"synonym": (1, 1), "chunks": (1, 0)}),
        ("ran", "sprint", {"synonym": (1, 1), "chunks": (1, 0)}),
        ("x beside x", "y next to y", {"paraphrase": (1, 2), "chunks": (1, 0)}),
        ("next to y", "by the side of x", {"paraphrase": (2, 4), "chunks": (1, 0)}),
        ("large", "big", {"paraphrase": (1, 1), "chunks": (1, 0)}),
        ("dog a", "a dog", {"exact": (2, 2), "chunks": (2, 0)}),
        ("k2", "ip", {"exact": (1, 1), "chunks": (1, 0)}),
        # Stem and synonym compete here; neither is worth a chunk to the search, so both lose.
        ("dogs", "dog", {"chunks": (0, 0)}),
        ("cat", "dog", {"chunks": (0, 0)}),
        ("", "dog", {"chunks": (0, 0)}),
        ("dog", "", {"chunks": (0, 0)}),
    ],
)
def test_words_are_matched_by_kind(
    files: object, caption: str, reference: str, expected: dict[str, tuple[int, int]]
) -> None:
    assert matched(caption, reference) == expected


# Words, and how long the lines made of them are.
LINES = [(1, 3), (2, 12), (4, 12), (6, 30), (3, 60), (1, 60), (2, 100)]
WORDS = [
    *("dog", "hound", "dogs", "next", "to", "by", "the", "side", "of", "beside", "big", "large"),
    *("in", "front", "before", "x"),
]


@pytest.mark.parametrize(("kinds", "length"), LINES)
def test_the_search_leaves_out_nothing_that_matters(files: object, kinds: int, length: int) -> None:
    """Lines that say the same word again and again have more matches than are followed up."""
    chance = random.Random(length + kinds)
    for _ in range(2 if length > 50 else 10):
        some = chance.sample(WORDS, kinds)
        texts = [" ".join(chance.choices(some, k=chance.randint(1, length))) for _ in range(2)]
        reader = meteor_module._Reader(texts)
        steps = meteor_module._find_matches(*map(reader.read, texts))
        assert meteor_module._choose(steps) == plain_search(steps)


def plain_search(steps: list[list[meteor_module._Steps]]) -> list[meteor_module.Match]:
    """Search as the jar does: make every state, sort them, go on with the first."""
    one_by_one = [
        [
            (own.gain, meteor_module.Match(own.kind, j, own.end - j, i, own.caption_length))
            for own in there
            for i in range(own.places.bit_length())
            if own.places >> i & 1
        ]
        for j, there in enumerate(steps)
    ]

    def used_by(match: meteor_module.Match) -> tuple[set[int], set[int]]:
        _, start, length, caption_start, caption_length = match
        places = range(caption_start, caption_start + caption_length)
        return set(range(start, start + length)), set(places)

    every = [match for there in one_by_one for _, match in there]
    times = [Counter(place for match in every for place in used_by(match)[k]) for k in (0, 1)]
    fixed = {
        j: there[0]
        for j, there in enumerate(one_by_one)
        if len(there) == 1
        and all(times[k][place] == 1 for k in (0, 1) for place in used_by(there[0][1])[k])
    }
    begin = [
        frozenset[int]().union(*(used_by(match)[k] for _, match in fixed.values())) for k in (0, 1)
    ]
    states: list[Any] = [(0, begin[0], begin[1], -1, 0, ())]
    chunk = 1 << 24
    for j, there in enumerate(one_by_one):
        following: list[Any] = []
        for rank, used, caption_used, last_end, settled, chosen in states:
            here = (fixed[j],) if j in fixed and j >= settled else ()
            if j in used and not here:
                following.append((rank, used, caption_used, last_end, settled, chosen))
                continue
            for gain, match in here or there:
                own, own_caption = used_by(match)
                if not here and (own & used or own_caption & caption_used):
                    continue
                distance = abs(j - match.caption_start)
                following.append(
                    (
                        rank
                        + gain
                        + chunk * (last_end not in (-1, match.caption_start))
                        + (distance if here else 0),
                        used | own,
                        caption_used | own_caption,
                        match.caption_start + match.caption_length,
                        j + match.length,
                        (*chosen, match),
                    )
                )
                rank += distance
            if not here:
                gap = chunk if last_end != -1 else 0
                following.append((rank + gap, used, caption_used, -1, j + 1, chosen))
        states = sorted(following, key=lambda state: state[0])[: meteor_module.BEAM]
    return list(min(states, key=lambda state: state[0] + chunk * (state[3] != -1))[5])


@pytest.mark.parametrize("current", [0, 1, 13, 64, 300])
def test_distances_are_summed_as_they_would_be_one_by_one(current: int) -> None:
    chance = random.Random(current)
    for size in (0, 1, 2, 63, 64, 65, 300):
        places = {chance.randrange(size) for _ in range(size)}
        bits = sum(1 << place for place in places)
        expected = sum(abs(place - current) for place in places)
        assert meteor_module._distances(bits, current) == expected


def test_one_word_again_and_again_takes_no_time(files: object) -> None:
    """Four hundred words took more than twenty seconds."""
    line = "dog " * 400
    begin = time.process_time()
    row = meteor_statistics([line], [[line + "x", "x " + line]])[0]
    assert time.process_time() - begin < 3
    assert row[[4, 5, 20]].tolist() == [400, 400, 1]


@pytest.mark.parametrize("text", ["dog " * 2001, "狗" * 2001, "a;" * 1100])
def test_a_line_too_long_to_be_aligned_is_refused(files: object, text: str) -> None:
    for captions, references in (([text], [["a dog"]]), (["a dog"], [["a dog", text]])):
        with pytest.raises(UserError, match="at most 2,000, or leave METEOR out") as caught:
            meteor_statistics(captions, references)
        assert caught.value.code == "data.too_large"


def test_the_reference_that_scores_best_counts(files: object) -> None:
    references = ["x y z", "a dog", "dog a"]
    together = meteor_statistics(["a dog"], [references])
    assert together.tolist() == meteor_statistics(["a dog"], [["a dog"]]).tolist()


def test_a_perfect_caption_scores_one_and_adds_no_chunk(files: object) -> None:
    rows = meteor_rows(["a dog", "dog a"], [["a dog"], ["a dog"]])
    assert meteor(rows).tolist()[0] == 1
    assert rows[:, 20].tolist() == [0, 2]


def test_no_words_score_nothing() -> None:
    assert meteor(np.zeros(23)) == 0


def test_one_score_by_hand() -> None:
    """Two of three content words matched exactly in one piece, on both sides."""
    row = np.zeros(23)
    row[[0, 1, 4, 5, 20, 21, 22]] = 3, 3, 2, 2, 1, 2, 2
    assert float(meteor(row)) == pytest.approx(2 / 3 * (1 - 0.6 * 0.5**0.2), abs=1e-15)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("black-and-white", "black and white"),
        ("a-b-c", "a b-c"),
        ("a,b,c 1,000", "a , b,c 1,000"),
        ("wait...now", "wait ... now"),
        ("x -- y --- z", "x - y -- z"),
        ("do n't it 's doesn't 1990's", "do n 't it ' s doesn 't 1990 's"),
        ("u.s.-based", "us based"),
        ("No. 5 no. 5 Mr. X end.", "no. 5 no . 5 mr. x end ."),
        ("inc. the", "inc. the"),
        (":-rrb- -lrb- 3/4", ": -rrb- -lrb- 3 / 4"),
        ("", ""),
    ],
)
def test_lines_are_normalised(line: str, words: str) -> None:
    assert " ".join(normalise(line, {"Mr": False, "No": True})) == words


def test_java_hash_wraps_at_32_bits_and_counts_utf16() -> None:
    assert java_hash("hello") == 99162322
    assert java_hash("😀") == 31 * 0xD83D + 0xDE00


def test_word_forms_share_the_synsets_of_their_base(files: tuple[Path, Path]) -> None:
    lists = WordLists(files[0])
    assert lists.synsets("dogs") == lists.synsets("dog") == {"11", "12"}
    assert lists.synsets("women") == {"20"}
    assert lists.synsets("ran") == {"30"}
    assert lists.synsets("sprinting") == {"30"}
    assert lists.synsets("cat") == frozenset()


def test_paraphrases_come_in_the_order_of_the_table(files: tuple[Path, Path]) -> None:
    words = ["next", "to", "beside", "by", "the", "side", "of", "following"]
    found = list(Paraphrases(find_index(files[1]), words).sources(["x", "next", "to"]))
    assert found == [
        (1, 1, {"following": [(0, ["following"])]}),
        (1, 2, {"beside": [(0, ["beside"])], "by": [(1, ["by", "the", "side", "of"])]}),
    ]


@pytest.mark.parametrize("block", [1, 7, 40])
def test_the_index_does_not_depend_on_the_blocks_it_was_read_in(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """Where a block ends between two paraphrases of a phrase, both are found in their order."""
    monkeypatch.setattr(meteor_data, "_BYTES_AT_ONCE", block)
    words = [word for pair in PARAPHRASES for phrase in pair for word in phrase.split()]
    paraphrases = Paraphrases(find_index(files[1]), words)
    assert list(paraphrases.sources(["next", "to"])) == [
        (0, 1, {"following": [(0, ["following"])]}),
        (0, 2, {"beside": [(0, ["beside"])], "by": [(1, ["by", "the", "side", "of"])]}),
    ]
    assert [length for _, length, _ in paraphrases.sources(["in", "front", "of"])] == [3]


def test_paraphrases_with_words_nobody_used_are_left_out(files: tuple[Path, Path]) -> None:
    found = list(
        Paraphrases(find_index(files[1]), ["next", "to", "beside"]).sources(["next", "to"])
    )
    assert [list(phrases) for _, _, phrases in found] == [["beside"]]


def test_the_index_is_made_once(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    index = find_index(files[1])
    monkeypatch.setattr(meteor_data, "write_index", lambda *_: pytest.fail("made again"))
    assert find_index(files[1]) == index
    assert [path.name for path in index.parent.iterdir()] == [index.name]


@pytest.mark.parametrize("name", ["starts.npy", "sources.txt", "paraphrases.txt"])
def test_a_damaged_index_is_made_again(files: tuple[Path, Path], name: str) -> None:
    index = find_index(files[1])
    whole = (index / name).read_bytes()
    (index / name).write_bytes(whole[:-1])
    assert find_index(files[1]) == index
    assert (index / name).read_bytes() == whole


def test_another_table_gets_another_index(files: tuple[Path, Path]) -> None:
    first = find_index(files[1])
    files[1].write_bytes(gzip.compress(b"0.5\na\nb\n"))
    assert find_index(files[1]) != first


def test_two_at_once_both_get_a_whole_index(files: tuple[Path, Path]) -> None:
    with ThreadPoolExecutor(4) as pool:
        indexes = set(pool.map(find_index, [files[1]] * 4))
    (index,) = indexes
    assert [path.name for path in index.parent.iterdir()] == [index.name]


def test_a_cache_that_cannot_be_written_is_said_so(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("SAT_CACHE", str(blocked))
    with pytest.raises(UserError, match="cannot be written") as refusal:
        find_index(files[1])
    assert refusal.value.code == "disk.unwritable"


def test_without_the_extra_meteor_says_what_to_install(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(files[0].parent)
    with pytest.raises(UserError, match=r"show_attend_tell\[meteor\]") as refusal:
        measure({"1": "a"}, {"1": ["a"]}, metrics=["METEOR"])
    assert refusal.value.code == "extra.missing"


def test_without_the_stemmer_meteor_says_what_to_install(
    files: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "snowballstemmer.english_stemmer", None)
    with pytest.raises(UserError, match=r"show_attend_tell\[meteor\]"):
        measure({"1": "a"}, {"1": ["a"]}, metrics=["METEOR"])


def test_a_stemmer_with_other_stems_is_refused(
    files: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stemmer, "stemWord", lambda _, word: word)
    with pytest.raises(UserError, match=r"snowballstemmer>=2\.2,<3") as refusal:
        measure({"1": "a"}, {"1": ["a"]}, metrics=["METEOR"])
    assert refusal.value.code == "extra.version"


def test_the_other_metrics_need_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meteor_data, "find_files", lambda: pytest.fail("looked for METEOR's data"))
    measure({"1": "a"}, {"1": ["a"]})


@needs_shared
@needs_meteor
@pytest.mark.slow
def test_all_recorded_statistics_and_scores_are_equal() -> None:
    segments = read_lines("meteor-stats.jsonl.gz")
    lines = [segment["line"].split(" ||| ") for segment in segments]
    statistics = meteor_statistics([line[-1] for line in lines], [line[:-1] for line in lines])
    expected = [[float(number) for number in segment["stats"].split()] for segment in segments]
    assert statistics.tolist() == expected
    assert meteor(statistics).tolist() == [segment["score"] for segment in segments]
