"""How fast the scores are: ours against pycocoevalcap with Java, in one run, equal to 1e-9.

    python benchmarks/scoring.py DATA          # the folder of Flickr8k

All metrics of 5,000 training pictures with five references each; the caption of a picture is the
first one of the picture whose captions share most with its own. Every program starts cold in a
process of its own. Processor time is that of all its processes; memory is the resident memory of
all its processes, added up every 20 ms, at its largest. Ours runs twice, with an empty cache and
with METEOR's index in it. All take turns, twice, and the better time of each counts. Needs Linux,
Java and the extra `meteor`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

PICTURES = 5000
RESAMPLES = 1000
NAMES = {
    **{f"BLEU-{order}": f"Bleu_{order}" for order in range(1, 5)},
    "METEOR": "METEOR",
    "ROUGE-L": "ROUGE_L",
    "CIDEr-D": "CIDEr",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder that holds Flickr8k_text")
    parser.add_argument("--repeats", type=int, default=2, help="of which the best counts")
    parser.add_argument("--only", choices=sorted(PROGRAMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        case = json.loads(options.data.read_text(encoding="utf-8"))
        print(json.dumps(PROGRAMS[options.only](case["candidates"], case["references"])))
        return
    with tempfile.TemporaryDirectory() as folder:
        case_file = Path(folder) / "case.json"
        case_file.write_text(json.dumps(make_case(options.data)), encoding="utf-8")
        repeats: dict[str, list[dict[str, Any]]] = {}
        for number in range(options.repeats):
            cache = Path(folder, str(number))
            for title, program in (
                ("ours, index not yet made", "ours"),
                ("ours", "ours"),
                ("pycocoevalcap", "pycocoevalcap"),
            ):
                repeats.setdefault(title, []).append(run(program, case_file, cache))
        resampling = run("resampling", case_file, cache)["result"]
    runs = {
        title: {what: min(one[what] for one in own) for what in ("processor", "wall", "mib")}
        | {"result": own[0]["result"]}
        for title, own in repeats.items()
    }
    theirs = runs["pycocoevalcap"]
    for title, figures in runs.items():
        processor, wall, mib = (
            f"{figures[what]:7,.1f} {unit} ({figures[what] / theirs[what]:.2f})"
            for what, unit in (("processor", "processor s"), ("wall", "s"), ("mib", "MiB"))
        )
        print(f"{title:25}{processor}, {wall}, peak {mib}")
    print(f"{RESAMPLES:,} resamples of all metrics: {resampling['seconds']:.2f} s")
    for ours_name, their_name in NAMES.items():
        values = runs["ours"]["result"][ours_name], theirs["result"][their_name]
        assert abs(values[0] - values[1]) < 1e-9, (ours_name, values)
        print(f"{ours_name:8} {values[0]:.16f}, differs by {abs(values[0] - values[1]):.0e}")


def make_case(data: Path) -> dict[str, dict[str, object]]:
    """Five references a picture, and the first caption of the most similar other picture."""
    captions: dict[str, list[str]] = {}
    table = (data / "Flickr8k_text" / "Flickr8k.token.txt").read_text(encoding="utf-8")
    for line in table.splitlines():
        name, text = line.split("\t")
        captions.setdefault(name.partition("#")[0], []).append(text)
    split = (data / "Flickr8k_text" / "Flickr_8k.trainImages.txt").read_text(encoding="utf-8")
    names = split.split()
    words = [{word for text in captions[name] for word in text.lower().split()} for name in names]
    pictures_with = Counter(word for own in words for word in own)
    column = {word: k for k, word in enumerate(pictures_with)}
    rarity = np.zeros((len(names), len(column)), dtype=np.float32)
    for row, own in enumerate(words):
        for word in own:
            rarity[row, column[word]] = np.log(len(names) / pictures_with[word])
    rarity /= np.linalg.norm(rarity, axis=1, keepdims=True)
    likeness = rarity[:PICTURES] @ rarity.T
    np.fill_diagonal(likeness, 0)
    nearest = likeness.argmax(axis=1)
    return {
        "references": {name: captions[name] for name in names[:PICTURES]},
        "candidates": {
            name: captions[names[other]][0]
            for name, other in zip(names[:PICTURES], nearest, strict=True)
        },
    }


def run(program: str, case_file: Path, cache: Path) -> dict[str, Any]:
    """Run a program in a process of its own and watch it and its children."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, __file__, str(case_file), "--only", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "SAT_CACHE": str(cache)},
    )
    pages = 0
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
        pages = max(pages, sum(resident_pages(process.pid)))
        time.sleep(0.02)
    wall = time.perf_counter() - begin
    assert process.stdout and os.waitstatus_to_exitcode(status) == 0, f"{program} failed"
    return {
        "processor": usage.ru_utime + usage.ru_stime,  # with that of children it waited for
        "wall": wall,
        "mib": pages * os.sysconf("SC_PAGESIZE") / 2**20,
        "result": json.loads(process.stdout.read().splitlines()[-1]),
    }


def resident_pages(pid: int) -> Iterator[int]:
    """Resident memory of a process and of all below it."""
    try:
        yield int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return  # it ended meanwhile
    for child in children:
        yield from resident_pages(int(child))


def ours(candidates: dict[str, str], references: dict[str, list[str]]) -> dict[str, float]:
    from show_attend_tell.scoring import measure

    measured = measure(candidates, references, metrics=list(NAMES))
    return {name: one.value for name, one in measured.items()}


def resampling(candidates: dict[str, str], references: dict[str, list[str]]) -> dict[str, float]:
    from show_attend_tell.scoring import intervals, measure

    measured = measure(candidates, references, metrics=list(NAMES))
    begin = time.perf_counter()
    intervals(measured, resamples=RESAMPLES)
    return {"seconds": time.perf_counter() - begin}


def pycocoevalcap(candidates: dict[str, str], references: dict[str, list[str]]) -> dict[str, float]:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    tokeniser = PTBTokenizer()
    expected = tokeniser.tokenize(
        {name: [{"caption": text} for text in own] for name, own in references.items()}
    )
    told = tokeniser.tokenize({name: [{"caption": text}] for name, text in candidates.items()})
    scores = {}
    for scorer, names in (
        (Bleu(4), ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4"]),
        (Meteor(), ["METEOR"]),
        (Rouge(), ["ROUGE_L"]),
        (Cider(), ["CIDEr"]),
    ):
        values, _ = scorer.compute_score(expected, told)
        scores.update(zip(names, values if len(names) > 1 else [values], strict=True))
    return {name: float(value) for name, value in scores.items()}


PROGRAMS = {"ours": ours, "pycocoevalcap": pycocoevalcap, "resampling": resampling}

if __name__ == "__main__":
    main()
