"""Fuzz what reads data files: mutated files must be read, or refused with a sentence, within 2 s.

    python benchmarks/fuzz_data.py                    # 2,000 files
    python benchmarks/fuzz_data.py --files 200 --seed 7
    python benchmarks/fuzz_data.py --seed 7 --only 113 --keep DIR

Prints how many files of each kind were read and refused, and every other outcome with its number:
the same seed and number make the same file. The exit code is 1 if there was one.
"""

import argparse
import gzip
import json
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from show_attend_tell.captioning.exported import ModelFacts, read_facts, sealed
from show_attend_tell.captioning.settings import SearchSettings
from show_attend_tell.data.features import FeatureStore, StoreIndex, examples_hash, examples_text
from show_attend_tell.data.layouts import Example, load_dataset, names_splits
from show_attend_tell.data.pictures import Preprocessing
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import UserError
from show_attend_tell.scoring import measure
from show_attend_tell.scoring.files import read_candidates, read_references
from show_attend_tell.scoring.pairing import pair

SECONDS = 2.0
PICTURES = [f"{name}.jpg" for name in "abcdef"]
SPLITS = ["train", "train", "train", "val", "test", "restval"]


@dataclass(frozen=True)
class Kind:
    """A file to mutate, and what reads it."""

    name: str
    content: str
    read: Callable[[Path], object]
    beside: dict[str, str] = field(default_factory=dict)  # files that are left as they are


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the file of this number alone")
    parser.add_argument("--keep", type=Path, help="leave the files in this folder")
    options = parser.parse_args()
    numbers = range(options.files) if options.only is None else [options.only]
    begin = time.perf_counter()
    counts, bad, slowest = fuzz(numbers, options.seed, options.keep)
    for kind in sorted({kind for kind, _ in counts}):
        own = {answer: n for (name, answer), n in sorted(counts.items()) if name == kind}
        print(f"{kind:26}", ", ".join(f"{answer} {n}" for answer, n in own.items()))
    print(f"{len(numbers):,} files in {time.perf_counter() - begin:.0f} s, slowest {slowest:.2f} s")
    for number, problem in bad:
        print(f"file {number}: {problem}")
    print(f"{len(bad)} neither read nor refused")
    return 1 if bad else 0


def fuzz(
    numbers: "range | list[int]", seed: int = 0, keep: Path | None = None
) -> tuple[Counter[tuple[str, str]], list[tuple[int, str]], float]:
    """Answers by kind of file, what should not have happened, and the longest time taken."""
    counts: Counter[tuple[str, str]] = Counter()
    bad: list[tuple[int, str]] = []
    slowest = 0.0
    kinds = make_kinds()
    for number in numbers:
        chance = random.Random(f"{seed} {number}")
        kind = kinds[number % len(kinds)]
        with tempfile.TemporaryDirectory() as made:
            folder = keep or Path(made)
            path = write(kind, folder, chance)
            begin = time.perf_counter()
            try:
                with no_longer_than(5 * SECONDS):
                    kind.read(path)
                answer = "read"
            except UserError as error:
                answer = error.code
            except Exception as error:
                answer = type(error).__name__
                where = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(where.filename).name}:{where.lineno}"
                bad.append((number, f"{kind.name}: {answer} at {place}: {str(error)[:200]}"))
            seconds = time.perf_counter() - begin
        slowest = max(slowest, seconds)
        if seconds > SECONDS:
            bad.append((number, f"{kind.name}: {answer} after {seconds:.1f} s"))
        counts[kind.name, answer] += 1
    return counts, bad, slowest


def make_kinds() -> list[Kind]:
    """Every kind of data file, small and right."""
    captions = {name: [f"a dog {n} runs", f"two dogs, {n}"] for n, name in enumerate(PICTURES)}
    flat = [(name, text) for name, own in captions.items() for text in own]
    split_of = dict(zip(PICTURES, SPLITS, strict=True))
    karpathy = {
        "images": [
            {"filename": name, "split": split_of[name], "sentences": [{"raw": t} for t in own]}
            for name, own in captions.items()
        ]
    }
    coco = {
        "images": [{"id": n, "file_name": name} for n, name in enumerate(PICTURES)],
        "annotations": [
            {"image_id": PICTURES.index(name), "id": n, "caption": text}
            for n, (name, text) in enumerate(flat)
        ],
    }
    tokens = "".join(f"{name}#{n}\t{text}\n" for n, (name, text) in enumerate(flat))
    lists = {
        f"Flickr_8k.{split}Images.txt": "".join(f"{name}\n" for name in PICTURES[k : k + 2])
        for k, split in ((0, "train"), (2, "dev"), (4, "test"))
    }
    rows = "".join(
        json.dumps({"picture": name, "captions": own, "split": split_of[name]}) + "\n"
        for name, own in captions.items()
    )
    table = "".join(f'{name},"{text}",{split_of[name]}\n' for name, text in flat)
    told = {name: own[0] for name, own in captions.items()}
    told_rows = [{"id": name, "caption": text} for name, text in told.items()]
    jsonl = "".join(f"{json.dumps(row)}\n" for row in told_rows)
    index, examples = _store()
    return [
        Kind("dataset_x.json", json.dumps(karpathy), read_data),
        Kind("captions_x.json", json.dumps(coco), read_data),
        Kind("Flickr8k.token.txt", tokens, read_data, lists),
        Kind(
            "Flickr_8k.devImages.txt",
            lists["Flickr_8k.devImages.txt"],
            lambda path: read_data(path.with_name("Flickr8k.token.txt")),
            {**lists, "Flickr8k.token.txt": tokens},
        ),
        Kind("captions.jsonl", rows, read_data),
        Kind("captions.csv", f"picture,caption,split\n{table}", read_data),
        Kind("captions.tsv", "picture\tcaption\n" + tokens.replace("#", ""), read_data),
        Kind("candidates.jsonl", jsonl, read_scores, {"references.jsonl": rows}),
        Kind("candidates.json", json.dumps(told_rows), read_scores, {"references.jsonl": rows}),
        Kind(
            "candidates.csv",
            "id,caption\n" + "".join(f"{name},{text}\n" for name, text in told.items()),
            read_scores,
            {"references.jsonl": rows},
        ),
        Kind("candidates.txt", "a dog runs\n" * 6, read_scores, {"references.jsonl": rows}),
        Kind("references.jsonl", rows, read_scores_of, {"candidates.jsonl": jsonl}),
        Kind(
            "captions_val2014.json", json.dumps(coco), read_scores_of, {"candidates.jsonl": jsonl}
        ),
        Kind("model.json", _model(), lambda path: read_facts(path.parent)),
        Kind("index.json", index, lambda path: open_store(path, examples)),
        Kind(
            "examples.jsonl",
            examples_text(examples).decode(),
            lambda path: open_store(path, examples),
        ),
    ]


def read_data(path: Path) -> None:
    """Read a data set, and make a vocabulary of it."""
    names_splits(path)
    dataset = load_dataset(path, layout="folder" if path.name.startswith("captions.") else None)
    assert all(example.captions for example in dataset.examples)
    Vocabulary.build(text for example in dataset.examples for text in example.captions)


def read_scores(path: Path) -> None:
    """Read captions, and score them by what is quick."""
    score(path, path.with_name("references.jsonl"))


def read_scores_of(path: Path) -> None:
    """Read references, and score captions by them."""
    score(path.with_name("candidates.jsonl"), path)


def score(candidates: Path, references: Path) -> None:
    people = read_references([references])
    captions, _ = pair(read_candidates(candidates), people)
    measure(captions, people.captions, metrics=["BLEU-4", "ROUGE-L"])


def open_store(path: Path, examples: list[Example]) -> None:
    """Open a feature store that has this file instead of its own."""
    mutated = path.read_bytes()
    path.unlink()
    FeatureStore.create(path.parent, StoreIndex.model_validate_json(_store()[0]), examples)
    path.write_bytes(mutated)
    FeatureStore.open(path.parent)


PREPROCESSING = Preprocessing(mean=(124, 116, 104), std=(58, 57, 57))


def _model() -> str:
    facts = ModelFacts(
        words=("<end>", "<unk>", "a", "dog"),
        punctuation=False,
        preprocessing=PREPROCESSING,
        grid=(7, 7),
        search=SearchSettings(beam=3, length_power=0.7, max_words=20),
        files={f"{name}.onnx": "0" * 64 for name in ("encode", "start", "look", "advance")},
        origin={"encoder": "vgg19", "data_set": "flickr8k", "epoch": 1},
    )
    return json.dumps(sealed(facts.model_dump(mode="json")))


def _store() -> tuple[str, list[Example]]:
    examples = [Example(Path("a.jpg"), ("a dog",), "train", "a.jpg")]
    index = StoreIndex(
        encoder="vgg19",
        weights_hash="0" * 64,
        preprocessing=PREPROCESSING,
        grid=(2, 2),
        depth=3,
        layout="folder",
        examples_hash=examples_hash(examples),
    )
    return index.model_dump_json(), examples


# How files go wrong.

PIECES = [
    *(b"\0", b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80", b"\r", b"\r\n", b"\n", b"\t", b'"', b"'"),
    *(
        b",",
        b"#",
        b"\\",
        b"\\ud800",
        b"\\u0000",
        b"{",
        b"}",
        b"[",
        b"]",
        b"[" * 5000,
        b'{"a":' * 500,
    ),
    *(
        b"null",
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"9" * 6000,
        b"-1",
        b"1.5",
        b"true",
        b"/*",
        b"<unk>",
    ),
    *("\u2028\u0085\u200f\u1b5b".encode(), "🐕狗كلب".encode(), b"\x1b[2J", b"../", b"/etc/passwd"),
    *(b"a " * 700, b"a," * 6000, b"a " * 20_000, b"\n" * 5000, b"x" * 140_000, b" " * 20_000),
    *(b'"' * 501, b"=cmd|", b"%s{0}", b"a.jpg", b"train", b"\n[]\n", b"\n{}\n", b"x" * (1 << 20)),
]
VALUES: list[Any] = [
    *(None, True, -1, 0, 1.5, 10**30, "", " ", "\0", "a\nb", "../x", "/x", "train", "a.jpg"),
    *([], {}, [[]], [None], {"raw": 1}, ["a"] * 60, "a " * 1500, "\u2028", float("nan"), 10**12),
]


def write(kind: Kind, folder: Path, chance: random.Random) -> Path:
    """Put the mutated file and those beside it into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in kind.beside.items():
        (folder / name).write_text(text, "utf-8")
    content = kind.content.encode()
    structural = kind.name.endswith(".json") and chance.random() < 0.5
    if structural:
        content = json.dumps(other_values(json.loads(content), chance)).encode()
    if not structural or chance.random() < 0.5:
        for _ in range(chance.choice((1, 1, 2, 5, 20))):
            content = damaged(content, chance)
    path = folder / kind.name
    packs = kind.read not in (read_scores, read_scores_of) and not kind.name.startswith("dataset")
    if not packs and chance.random() < 0.15:
        path = folder / f"{kind.name}.gz"
        content = gzip.compress(content)
        if chance.random() < 0.5:
            content = damaged(content, chance)
    path.write_bytes(content)
    return path


def damaged(content: bytes, chance: random.Random) -> bytes:
    """One thing wrong with the bytes."""
    start = chance.randrange(len(content) + 1)
    end = min(len(content), start + chance.choice((1, 2, 8, 40, 400)))
    match chance.randrange(8):
        case 0:
            return content[:start]
        case 1:
            return content[:start] + content[end:]
        case 2:
            return content[:start] + content[start:end] * chance.choice((2, 3, 50)) + content[end:]
        case 3:
            return content[:start] + bytes([chance.randrange(256)]) + content[start + 1 :]
        case 4:
            lines = content.split(b"\n")
            chance.shuffle(lines)
            return b"\n".join(lines)
        case 5:
            return content[:start] + chance.choice(PIECES) + content[end:]
        case _:
            return content[:start] + chance.choice(PIECES) + content[start:]


def other_values(value: Any, chance: random.Random) -> Any:
    """The same JSON with something else in one place, or a key taken away."""
    places = list(_places(value))
    holder, key = chance.choice(places)
    match chance.randrange(4):
        case 0:
            del holder[key]
        case 1:
            other, there = chance.choice(places)
            holder[key] = json.loads(json.dumps(other[there]))
        case _:
            holder[key] = chance.choice(VALUES)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in steps:
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


@contextmanager
def no_longer_than(seconds: float) -> Iterator[None]:
    """Stop what hangs, where the system can."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(f"stopped after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main())
