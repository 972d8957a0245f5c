"""Why published scores differ: the same captions under every protocol.

    python benchmarks/protocols.py CASE.json.gz

CASE holds {"references": {id: [text]}, "candidates": {id: text}} with text as people typed it.
Captions are scored as they are, and once more as a captioner tells them: in lower case, without
the full stop. Needs sacrebleu.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path

from sacrebleu.metrics import BLEU as SacreBLEU

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from show_attend_tell.scoring import PROTOCOLS, Protocol, score_captions

CASED = Protocol(
    "cased", lambda text: " ".join(text.split()), False, "tok:blanks|case:mixed|punct:kept"
)
ORDERS = range(1, 5)

Captions = dict[str, str]
References = dict[str, list[str]]


def by_ours(protocol: Protocol, penalty: str) -> Callable[[Captions, References], list[float]]:
    names = [*(f"BLEU-{order}-{penalty}" for order in ORDERS), "METEOR"]

    def score(captions: Captions, references: References) -> list[float]:
        scores = score_captions(captions, references, metrics=names, protocol=protocol)
        return [100 * scores[name].value for name in names]

    return score


def by_sacrebleu(*, lowercase: bool) -> Callable[[Captions, References], list[float]]:
    def score(captions: Captions, references: References) -> list[float]:
        ids = list(captions)
        columns = [[references[id_][k] for id_ in ids] for k in range(len(references[ids[0]]))]
        return [
            SacreBLEU(max_ngram_order=order, lowercase=lowercase, force=True)
            .corpus_score([captions[id_] for id_ in ids], columns)
            .score
            for order in ORDERS
        ]

    return score


ROWS = {
    "`authors`: the paper's, lower-case, full stop, no penalty": by_ours(
        PROTOCOLS["authors"], "nobp"
    ),
    "the authors' files: as typed, full stop, no penalty": by_ours(CASED, "nobp"),
    "the authors' metrics.py: as typed, full stop, penalty": by_ours(CASED, "bp"),
    "`plain`: lower-case, no punctuation, no penalty": by_ours(PROTOCOLS["plain"], "nobp"),
    "`coco`: Penn Treebank, no punctuation, penalty": by_ours(PROTOCOLS["coco"], "bp"),
    "sacreBLEU: 13a, as typed, penalty, smoothed": by_sacrebleu(lowercase=False),
    "sacreBLEU in lower case": by_sacrebleu(lowercase=True),
}


def as_told(caption: str) -> str:
    """Give a caption's words in lower case, as a model gives them."""
    return PROTOCOLS["plain"].tokenise(caption)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", type=Path)
    options = parser.parse_args()
    with gzip.open(options.case) as stream:
        case = json.load(stream)
    typed, references = case["candidates"], case["references"]
    told = {id_: as_told(text) for id_, text in typed.items()}
    columns = "BLEU-1 / 2 / 3 / 4; METEOR"
    print(f"| protocol | as typed: {columns} | as told: {columns} |\n|---|---|---|")
    for title, score in ROWS.items():
        cells = []
        for captions in (typed, told):
            values = [f"{value:.1f}" for value in score(captions, references)]
            cells.append("; ".join([" / ".join(values[:4]), *values[4:]]))
        print(f"| {title} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
