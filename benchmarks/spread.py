"""Captions from the best to the worst: every fiftieth of a split in order of CIDEr-D, as Markdown.

    sat evaluate MODEL FLICKR8K --out told
    python benchmarks/spread.py evaluated/captions.jsonl FLICKR8K

Nothing is chosen by hand, so the good and the bad come in the proportion in which they are told.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from show_attend_tell.captioning.caption import sentence
from show_attend_tell.data.layouts import load_dataset
from show_attend_tell.scoring import measure


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captions", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--every", type=int, default=50)
    asked = parser.parse_args()
    lines = asked.captions.read_text(encoding="utf-8").splitlines()
    told = {row["id"]: row["caption"] for row in map(json.loads, lines)}
    people = {
        example.id: example.captions
        for example in load_dataset(asked.data).examples
        if example.split == asked.split
    }
    of_each = measure(told, people, metrics=["CIDEr-D"], protocol="coco")["CIDEr-D"].per_caption
    ranked = sorted(told, key=lambda name: -of_each[name])
    print("| picture | CIDEr-D | told | one of the people who saw it |\n|---|---|---|---|")
    for name in ranked[asked.every // 2 :: asked.every]:
        print(
            f"| `{name}` | {of_each[name]:.2f} | {sentence(told[name].split())} "
            f"| {people[name][0]} |"
        )


if __name__ == "__main__":
    main()
