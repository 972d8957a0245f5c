"""The paper's table for Flickr8k, ours beside it: rivals, soft and hard attention, three seeds.

    python benchmarks/table.py flickr8k features/lite2 runs/table
    python benchmarks/table.py flickr8k features/lite2 runs/table --split dev --models soft hard

Captions are kept in `benchmarks/captions` and scored again in minutes; only for those that are not
there are features prepared and models trained. All models learn from the same features by the
same loop; a hard one begins with the soft one of its seed. Captions of several seeds are scored
together: a picture's statistics are the mean over seeds, so the intervals and p-values are over
pictures, and no seed is chosen. The paper's columns are BLEU without brevity penalty and METEOR of
words cut at blanks with the full stop kept, as its authors counted; beside them are METEOR and
CIDEr-D by coco-caption's rules. All are of the same captions, once by the search that was chosen on
dev for the paper's columns, once by that of the recipes.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from show_attend_tell.captioning.search import Search
from show_attend_tell.cli.terminal import TrainingProgress, console
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.layouts import load_dataset
from show_attend_tell.files import write_json
from show_attend_tell.learning.evaluate import caption_rows
from show_attend_tell.learning.loop.trainer import train
from show_attend_tell.learning.recipe import Recipe, load_recipe
from show_attend_tell.learning.run import Run
from show_attend_tell.learning.watching.events import Stop
from show_attend_tell.learning.watching.history import read
from show_attend_tell.scoring import BLEU
from show_attend_tell.scoring.measure import Measured, measure
from show_attend_tell.scoring.score import score_measured
from show_attend_tell.scoring.statistics import compare

Decoded: TypeAlias = dict[str, dict[str, str]]  # by search, each picture's caption
Seed: TypeAlias = Mapping[str, Measured]  # of one run's captions, by protocol and metric
References: TypeAlias = Mapping[str, tuple[str, ...]]

SAT = Path(sys.executable).with_name("sat")
KEPT = Path(__file__).parent / "captions"
MODELS = {  # in the order in which they can be trained
    "log-bilinear": "rivals/flickr8k-log-bilinear",
    "nic": "rivals/flickr8k-nic",
    "mean": "rivals/flickr8k-mean",
    "soft": "flickr8k-soft",
    "hard": "flickr8k-hard",
}
RIVALS = ("log-bilinear", "nic", "mean")
PAPER = {  # table 1
    "nic": ("63", "41", "27", "—", "—"),
    "log-bilinear": ("65.6", "42.4", "27.7", "17.7", "17.31"),
    "soft": ("67", "44.8", "29.9", "19.5", "18.93"),
    "hard": ("67", "45.7", "31.4", "21.3", "20.30"),
}

METRICS = {
    "authors": (*(f"{name}-nobp" for name in BLEU), "METEOR"),
    "coco": ("METEOR", "CIDEr-D"),
}
COMPARED = {  # by its heading: what a number from 0 to 1 is multiplied by, and the digits printed
    "BLEU-4": ("authors BLEU-4-nobp", 100, 1),
    "METEOR": ("authors METEOR", 100, 2),
    "CIDEr-D, coco": ("coco CIDEr-D", 1, 3),
}
# A narrower beam or longer captions have less BLEU-1, shorter ones less METEOR (docs/log.md).
SEARCHES = {
    "beam 10, length power 0.4": {"beam": 10, "length_power": 0.4},
    "beam 5, length power 0.7": {"beam": 5, "length_power": 0.7},
}


def recipe_of(model: str, seed: int) -> Recipe:
    return load_recipe(MODELS[model], [f"training.seed={seed}"])


def trained(model: str, seed: int, store: FeatureStore, runs: Path) -> Run:
    """The run of a model, trained now if it is not there or not finished."""
    folder, recipe = runs / f"{model}-{seed}", recipe_of(model, seed)
    log = folder / "log.jsonl"
    if not log.exists() or not isinstance(read(log)[-1], Stop):
        soft = trained("soft", seed, store, runs).folder if model == "hard" else None
        say = console(stderr=True)
        say.print(f"training [bold]{folder}[/]")
        with closing(TrainingProgress(say)) as watcher:
            train(store, folder, recipe, resume=True, start_from=soft, watch=[watcher])
    run = Run.open(folder)
    if run.recipe != recipe:
        sys.exit(f"{folder}: was trained by another recipe than {MODELS[model]}; move it away")
    return run


def kept_captions(model: str, seed: int, split: str) -> Decoded | None:
    """What is kept of a model, if it was told by the recipe and the searches of today."""
    kept = _kept(model, seed, split)
    if not kept.exists():
        return None
    found = json.loads(kept.read_text("utf-8"))
    is_same = Recipe.model_validate(tomllib.loads(found["recipe"])) == recipe_of(model, seed)
    captions = dict(found["captions"])
    return captions if is_same and captions.keys() == SEARCHES.keys() else None


def new_captions(model: str, seed: int, split: str, store: FeatureStore, runs: Path) -> Decoded:
    """What a model tells of a split by each search, kept from now on."""
    run = trained(model, seed, store, runs)
    told = {}
    for name, asked in SEARCHES.items():
        search = Search.of(run.recipe.search, **asked)
        told[name], _ = caption_rows(run.decoder, run.vocabulary, store, store.rows(split), search)
    KEPT.mkdir(exist_ok=True)
    write_json(_kept(model, seed, split), {"recipe": run.recipe.to_toml(), "captions": told})
    return told


def _kept(model: str, seed: int, split: str) -> Path:
    return KEPT / f"{model}-{seed}-{split}.json"


def measured(told: Mapping[str, str], people: References) -> Seed:
    return {
        f"{recipe} {name}": found
        for recipe, metrics in METRICS.items()
        for name, found in measure(told, people, metrics=metrics, protocol=recipe).items()
    }


def together(seeds: Sequence[Seed]) -> Seed:
    """One system of several seeds: a picture's statistics are the mean over them."""
    return {
        name: replace(one, rows=np.mean([seed[name].rows for seed in seeds], axis=0))
        for name, one in seeds[0].items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("features", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    options = parser.parse_args()

    split, examples = options.split, load_dataset(options.data).examples
    people = {one.id: one.captions for one in examples if one.split == split}
    seeds = range(1, options.seeds + 1)
    wanted = [(model, seed) for model in options.models for seed in seeds]
    told = {each: found for each in wanted if (found := kept_captions(*each, split))}
    if missing := [each for each in wanted if each not in told]:
        subprocess.run([SAT, "prepare", options.data, options.features], check=True)
        store = FeatureStore.open(options.features)
        told |= {each: new_captions(*each, split, store, options.runs) for each in missing}
    for search in SEARCHES:
        systems = {
            model: [measured(told[model, seed][search], people) for seed in seeds]
            for model in options.models
        }
        print(f"\n{split}, {search}, {options.seeds} seeds\n")
        print_table(systems)
        print_comparisons({model: together(seeds) for model, seeds in systems.items()})


def print_table(systems: Mapping[str, Sequence[Seed]]) -> None:
    print(
        "| | BLEU-1 | BLEU-2 | BLEU-3 | BLEU-4 (95 %) | METEOR "
        "| METEOR, coco | CIDEr-D, coco (95 %) | of each seed |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for model, seeds in systems.items():
        if model in PAPER:
            print(f"| *{model}, the paper* | {' | '.join(PAPER[model])} | — | — | — |")
        scores = score_measured(together(seeds), resamples=1000)
        bleu = [f"{100 * scores[f'authors {name}-nobp'].value:.1f}" for name in BLEU]
        last, cider = scores["authors BLEU-4-nobp"], scores["coco CIDEr-D"]
        bleu[-1] += f" ({100 * (last.low or 0):.1f} to {100 * (last.high or 0):.1f})"
        meteor = [f"{100 * scores[f'{recipe} METEOR'].value:.2f}" for recipe in METRICS]
        spread = f"{cider.value:.3f} ({cider.low or 0:.3f} to {cider.high or 0:.3f})"
        each = ", ".join(f"{seed['coco CIDEr-D'].value:.3f}" for seed in seeds)
        print(f"| {model}, ours | {' | '.join([*bleu, *meteor])} | {spread} | {each} |")


def print_comparisons(systems: Mapping[str, Seed]) -> None:
    """How much one is over another, between which bounds with 95 % confidence, and p."""
    print(f"\n| | {' | '.join(COMPARED)} |\n|---|---|---|---|")
    pairs = [(one, rival) for one in ("soft", "hard") for rival in RIVALS] + [("hard", "soft")]
    for one, other in pairs:
        if not {one, other} <= systems.keys():
            continue
        found = compare(systems[one], systems[other])
        cells = [
            "{:+.{d}f} ({:+.{d}f} to {:+.{d}f}), {:.4f}".format(
                *(factor * getattr(found[name], part) for part in ("difference", "low", "high")),
                found[name].p_value,
                d=digits,
            )
            for name, factor, digits in COMPARED.values()
        ]
        print(f"| {one} over {other} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
