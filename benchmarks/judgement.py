"""How well the scores agree with people: Kendall's tau on Flickr8k-Expert and Flickr8k-CF.

    python benchmarks/judgement.py JUDGEMENTS DATA

JUDGEMENTS holds ExpertAnnotations.txt.gz, CrowdFlowerAnnotations.txt.gz and the figures that the
reference programs gave (metric-correlations.json); DATA is the folder of Flickr8k. Times 100.

Expert: three people gave each caption 1 to 4; a caption that is one of the picture's own is left
out; the three ratings are three rows. CF: the share of people who said that the caption fits; a
judged caption that is one of the picture's own is no reference of that picture, in any row. Needs
scipy and the extra `meteor`.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from show_attend_tell.scoring import BLEU, measure

NAMES = {name: name for name in (*BLEU, "ROUGE-L", "METEOR")} | {"CIDEr-D": "CIDEr"}
TOLERANCE = 0.05  # of tau times 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("judgements", type=Path)
    parser.add_argument("data", type=Path, help="the folder that holds Flickr8k_text")
    options = parser.parse_args()
    captions = read_captions(options.data)
    recorded = json.loads((options.judgements / "metric-correlations.json").read_text())
    worst = 0.0
    print("                              ours   theirs")
    for title, kinds, (scores, ratings) in (
        ("Flickr8k-Expert", "cb", expert(options.judgements, captions)),
        ("Flickr8k-CF", "b", crowd(options.judgements, captions)),
    ):
        for kind in kinds:
            for ours, theirs in NAMES.items():
                tau = 100 * kendalltau(scores[ours], ratings, variant=kind).statistic
                expected = recorded[title]["correlations_x100"][theirs][f"tau_{kind}"]
                worst = max(worst, abs(tau - expected))
                print(f"{title:15} tau-{kind} {ours:7} {tau:7.3f}  {expected:7.3f}")
    print(f"largest difference {worst:.1g}")
    assert worst < TOLERANCE


def read_captions(data: Path) -> dict[str, str]:
    """Give the captions of Flickr8k by id (`1.jpg#0`), with single blanks."""
    table = (data / "Flickr8k_text" / "Flickr8k.token.txt").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines())
    return {name: " ".join(text.split()) for name, text in rows}


def own_captions(picture: str, captions: dict[str, str]) -> list[str]:
    return [captions[f"{picture}#{k}"] for k in range(5)]


def expert(folder: Path, captions: dict[str, str]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Give each metric's scores and the ratings, row by row."""
    candidates, references, ratings = [], [], []
    for picture, name, *three in read_table(folder / "ExpertAnnotations.txt.gz"):
        own = own_captions(picture, captions)
        if captions[name] not in own:
            candidates.append(captions[name])
            references.append(own)
            ratings.append([int(rating) for rating in three])
    # Scored once and written three times: document frequencies are the same but for a factor.
    scores = score(candidates, references)
    return {name: np.repeat(values, 3) for name, values in scores.items()}, np.ravel(ratings)


def crowd(folder: Path, captions: dict[str, str]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rows = read_table(folder / "CrowdFlowerAnnotations.txt.gz")
    references: dict[str, list[str]] = {}
    for picture, name, *_ in rows:
        own = references.setdefault(picture, own_captions(picture, captions))
        if captions[name] in own:
            own.remove(captions[name])  # one of them, should there be two alike
    scores = score([captions[row[1]] for row in rows], [references[row[0]] for row in rows])
    return scores, np.array([float(row[2]) for row in rows])


def read_table(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [line.split() for line in stream]


def score(candidates: Sequence[str], references: Sequence[list[str]]) -> dict[str, np.ndarray]:
    """Score row by row; numbers are padded, because ids are sorted."""
    ids = [f"{row:06}" for row in range(len(candidates))]
    measured = measure(
        dict(zip(ids, candidates, strict=True)),
        dict(zip(ids, references, strict=True)),
        metrics=list(NAMES),
    )
    return {name: np.array(list(one.per_caption.values())) for name, one in measured.items()}


if __name__ == "__main__":
    main()
