"""Against the reference programs themselves, where Java and pycocoevalcap are installed."""

import gzip
import json
import random
import subprocess
from pathlib import Path

import pytest

from show_attend_tell.scoring.metrics import tokens
from show_attend_tell.scoring.metrics.meteor import meteor, meteor_rows, meteor_statistics
from tests.scoring.cases import needs_java, needs_meteor, pycocoevalcap
from tests.shared import SHARED, needs_shared

pytestmark = [pytest.mark.slow, needs_java, pytest.mark.timeout(600)]

JAVA = ("java", "-Duser.language=en", "-Duser.country=US", "-Dfile.encoding=UTF-8", "-Xmx2G")
# Between two captions, so that neither is the other's context.
GUARD = "guard"
PIECES = [
    *"""
    a A b B s t d m n 1 2 x dog Dog DOG the The é É 12 345 6789 0 90 1.5 1,000 . , ; : ! ? ... ..
    - -- --- – — ' ’ ‘ “ ” " `` '' ` ( ) [ ] { } < > / \\ | & @ # $ % ^ * + = ~ _ £ € ¢ ½ ¼ … ‐ ́ ٣
    ♥ § 😀 n't 's 're 'll 'em 'til 'tis cannot gonna Mr. no. Inc. U.S. p. a.m. Ph.D. e.g. etc. Jan.
    http:// www. .com .org .txt .jpg a@b &amp; &lt; &gt; &quot; &apos; &nbsp; &eacute; &mdash; :)
    :-( :D ^_^ -_- <3 <b> </b> C++ C# AT&T US$ o' d' l' y' ll re ve 中文 한 ไท ж Ж İ ß ﬁ ² ⁻ ₂ ™
    -LRB- 'n' 90s 3:15 1/2 1-2 12-31-2013 (555) w/o and/or t-shirt k2 ip next to in front of
    """.split(),  # noqa: SIM905
    *("\xa0", "\u2003", "\t", "\x85", " ", "\xad", "\u200b"),
]


def flickr8k() -> list[str]:
    path = SHARED / "data" / "flickr8k" / "Flickr8k_text" / "Flickr8k.token.txt"
    rows = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return [row.split("\t")[1] for row in rows]


def flickr30k() -> list[str]:
    with gzip.open(
        SHARED / "data" / "flickr30k" / "captions.jsonl.gz", "rt", encoding="utf-8"
    ) as f:
        return [caption for line in f for caption in json.loads(line)["captions"]]


def coco() -> list[str]:
    path = SHARED / "data" / "coco" / "captions_val2014.txt.gz"
    return gzip.decompress(path.read_bytes()).decode().removesuffix("\n").split("\n")


def fuzz(size: int, seed: int) -> list[str]:
    """Short texts of pieces that rules are about, in any order."""
    chance = random.Random(seed)
    return [
        "".join(
            chance.choice(PIECES) + " " * (chance.random() < 0.25)
            for _ in range(chance.randint(1, 7))
        )
        for _ in range(size)
    ]


def stanford(texts: list[str], folder: Path) -> list[str]:
    """What the Stanford tokeniser and coco-caption's list leave of each text."""
    package = pycocoevalcap()
    assert package
    path = folder / "captions.txt"
    path.write_text("".join(f"{text}\n{GUARD}\n" for text in texts), encoding="utf-8", newline="\n")
    jar = package / "tokenizer" / "stanford-corenlp-3.4.1.jar"
    command = (*JAVA, "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer")
    run = subprocess.run(
        [*command, "-preserveLines", "-lowerCase", str(path)], capture_output=True, check=True
    )
    lines = run.stdout.decode().removesuffix("\n").split("\n")
    assert [line.strip() for line in lines[1::2]] == [GUARD] * len(texts)
    return [
        " ".join(word for word in line.rstrip(" ").split(" ") if word not in tokens.PTB_DROPPED)
        for line in lines[::2]
    ]


@needs_shared
@pytest.mark.parametrize(
    ("corpus", "size"), [(flickr8k, 40_460), (flickr30k, 148_405), (coco, 192_257)]
)
def test_ptb_equals_stanford_on_whole_corpora(corpus, size: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    texts = corpus()
    assert len(texts) == size
    expected = stanford(texts, tmp_path)
    different = [
        (text, ours, theirs)
        for text, theirs in zip(texts, expected, strict=True)
        if (ours := tokens.ptb(text)) != theirs
    ]
    assert different == []


def test_ptb_equals_stanford_on_fuzz(tmp_path: Path) -> None:
    texts = fuzz(60_000, seed=2026)
    different = [
        (text, ours, theirs)
        for text, theirs in zip(texts, stanford(texts, tmp_path), strict=True)
        if (ours := tokens.ptb(text)) != theirs
    ]
    assert different == []


def jar_meteor(
    candidates: list[str], references: list[list[str]], errors: Path
) -> tuple[list[str], list[float]]:
    """The statistics of each caption, then its score and, last, the score of all."""
    package = pycocoevalcap()
    assert package
    command = [*JAVA, "-jar", "meteor-1.5.jar", "-", "-", "-stdio", "-l", "en", "-norm"]
    with (
        errors.open("wb") as log,
        subprocess.Popen(
            command,
            cwd=package / "meteor",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        ) as process,
    ):
        assert process.stdin and process.stdout

        def ask(*parts: str) -> str:
            assert process.stdin and process.stdout
            process.stdin.write((" ||| ".join(parts) + "\n").encode())
            process.stdin.flush()
            return process.stdout.readline().decode().strip()

        statistics = [
            ask("SCORE", *own, caption.replace("|||", "").replace("  ", " "))
            for caption, own in zip(candidates, references, strict=True)
        ]
        first = float(ask("EVAL", *statistics))
        scores = [first, *(float(process.stdout.readline()) for _ in statistics)]
    return statistics, scores


def real_pairs(size: int, seed: int) -> tuple[list[str], list[list[str]]]:
    """A caption of the picture, of another picture or of COCO, against one to five references."""
    chance = random.Random(seed)
    captions, elsewhere = flickr8k(), coco()
    pictures = [captions[k : k + 5] for k in range(0, len(captions), 5)]
    candidates, references = [], []
    for _ in range(size):
        own = chance.choice(pictures)
        candidate = chance.choice(chance.choice([own, captions, elsewhere]))
        candidates.append(tokens.ptb(candidate))
        references.append([tokens.ptb(text) for text in own[: chance.randint(1, 5)]])
    return candidates, references


def adversarial_pairs(size: int, seed: int) -> tuple[list[str], list[list[str]]]:
    """Captions repeated, shuffled, emptied, shouted and sprinkled with odd pieces."""
    chance = random.Random(seed)
    captions = flickr8k()

    def spoil(text: str) -> str:
        words = text.split()
        for _ in range(chance.randint(0, 6)):
            place = chance.randint(0, len(words))
            change = chance.randrange(8)
            if change < 3:
                words.insert(place, chance.choice(PIECES))
            elif change == 3:
                words[place:place] = words[:3]
            elif change == 4:
                words[place : place + 1] = [word.upper() for word in words[place : place + 1]]
            elif change == 5:
                chance.shuffle(words)
            elif change == 6:
                words = words * 2 if chance.random() < 0.5 else words[:place]
            else:
                words = [word + chance.choice(PIECES) for word in words]
        spoiled = chance.choice([" ", " ", " ", "  ", "\xa0"]).join(words)
        spoiled = spoiled.replace("|", "")
        return tokens.ptb(spoiled) if chance.random() < 0.5 else spoiled

    candidates, references = [], []
    for _ in range(size):
        start = 5 * chance.randrange(len(captions) // 5)
        own = captions[start : start + 5]
        candidates.append("" if chance.random() < 0.03 else spoil(chance.choice(own)))
        references.append([spoil(text) for text in own[: chance.randint(1, 4)]])
    return candidates, references


@needs_shared
@needs_meteor
@pytest.mark.parametrize(("pairs", "size"), [(real_pairs, 5000), (adversarial_pairs, 4000)])
def test_meteor_equals_the_jar(pairs, size: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    candidates, references = pairs(size, seed=2026)
    statistics, scores = jar_meteor(candidates, references, tmp_path / "errors.txt")
    ours = meteor_statistics(candidates, references)
    assert ours.tolist() == [[float(number) for number in line.split()] for line in statistics]
    rows = meteor_rows(candidates, references)
    assert [*meteor(ours).tolist(), float(meteor(rows.sum(axis=0)))] == scores
