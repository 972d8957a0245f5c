"""The paper's table for Flickr8k, ours beside it: rivals, soft and hard attention, three seeds.

    python benchmarks/table.py FEATURES RUNS                # trains what is missing, then test
    python benchmarks/table.py FEATURES RUNS --split dev --seeds 1 --models soft hard

All models learn from the same features by the same loop; a hard one begins with the soft one of its
seed. Captions of several seeds are scored together: a picture's statistics are the mean over seeds,
so the intervals and p-values are over pictures, and no seed is chosen. BLEU is the authors' without
brevity penalty; METEOR and CIDEr-D are coco-caption's. All are of the same captions, once by the
search that was chosen on dev for the paper's columns, once by that of the recipes.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from show_attend_tell.data.features import FeatureStore
from show_attend_tell.files import write_json
from show_attend_tell.learning.evaluate import caption_rows, references
from show_attend_tell.learning.history import read
from show_attend_tell.learning.recipe import Recipe, load_recipe
from show_attend_tell.learning.run import Run
from show_attend_tell.learning.trainer import train
from show_attend_tell.scoring import BLEU
from show_attend_tell.scoring.bootstrap import compare
from show_attend_tell.scoring.measure import Measured, measure
from show_attend_tell.scoring.score import score_measured
from show_attend_tell.telling.search import Search
from show_attend_tell.terminal import TrainingProgress, console

Seed: TypeAlias = Mapping[str, Measured]  # what was measured of one run's captions
References: TypeAlias = Mapping[str, tuple[str, ...]]

KEPT = Path(__file__).parent / "told"  # captions, so that the table can be counted again
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


METRICS = {"authors": tuple(f"{name}-nobp" for name in BLEU), "coco": ("METEOR", "CIDEr-D")}
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
    if not log.exists() or read(log)[-1]["event"] != "stop":
        soft = [trained("soft", seed, store, runs).folder] if model == "hard" else []
        say = console(stderr=True)
        say.print(f"training [bold]{folder}[/]")
        with closing(TrainingProgress(say)) as watcher:
            train(store, folder, recipe, resume=True, start_from=soft, watch=[watcher])
    run = Run.open(folder)
    if run.recipe != recipe:
        sys.exit(f"{folder}: was trained by another recipe than {MODELS[model]}; move it away")
    return run


def captions(
    model: str, seed: int, store: FeatureStore, runs: Path, split: str
) -> dict[str, dict[str, str]]:
    """What a model tells of a split by each search, kept in `KEPT` beside its recipe.

    What is kept there needs no training, as long as the recipe is still the same.
    """
    recipe = recipe_of(model, seed)
    kept = KEPT / f"{model}-{seed}-{split}.json"
    if kept.exists():
        found = json.loads(kept.read_text("utf-8"))
        is_same = Recipe.from_toml(found["recipe"]) == recipe
        if is_same and found["told"].keys() == SEARCHES.keys():
            return dict(found["told"])
    run = trained(model, seed, store, runs)
    told = {}
    for name, asked in SEARCHES.items():
        search = Search(**recipe.search.model_dump() | asked)
        told[name], _ = caption_rows(run.decoder, run.vocabulary, store, store.rows(split), search)
    KEPT.mkdir(exist_ok=True)
    write_json(kept, {"recipe": recipe.to_toml(), "told": told})
    return told


def measured(told: Mapping[str, str], people: References) -> Seed:
    found: dict[str, Measured] = {}
    for recipe, metrics in METRICS.items():
        found |= measure(told, people, metrics=metrics, recipe=recipe)
    return found


def together(seeds: Sequence[Seed]) -> Seed:
    """One system of several seeds: a picture's statistics are the mean over them."""
    return {
        name: replace(one, rows=np.mean([seed[name].rows for seed in seeds], axis=0))
        for name, one in seeds[0].items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    options = parser.parse_args()

    store = FeatureStore.open(options.features)
    people = references(store, store.rows(options.split))
    told = {
        model: [
            captions(model, seed, store, options.runs, options.split)
            for seed in range(1, options.seeds + 1)
        ]
        for model in options.models
    }
    for search in SEARCHES:
        systems = {
            model: [measured(seed[search], people) for seed in seeds]
            for model, seeds in told.items()
        }
        print(f"\n{options.split}, {search}, {options.seeds} seeds\n")
        print_table(systems)
        print_comparisons({model: together(seeds) for model, seeds in systems.items()})


def print_table(systems: Mapping[str, Sequence[Seed]]) -> None:
    print("| | BLEU-1 | BLEU-2 | BLEU-3 | BLEU-4 (95 %) | METEOR | CIDEr-D (95 %) | of each seed |")
    print("|---|---|---|---|---|---|---|---|")
    for model, seeds in systems.items():
        if model in PAPER:
            print(f"| *{model}, the paper* | {' | '.join(PAPER[model])} | — | — |")
        scores = score_measured(together(seeds), resamples=1000)
        bleu = [f"{100 * scores[f'{name}-nobp'].value:.1f}" for name in BLEU]
        last, cider = scores["BLEU-4-nobp"], scores["CIDEr-D"]
        bleu[-1] += f" ({100 * (last.low or 0):.1f} to {100 * (last.high or 0):.1f})"
        meteor = f"{100 * scores['METEOR'].value:.2f}"
        spread = f"{cider.value:.3f} ({cider.low or 0:.3f} to {cider.high or 0:.3f})"
        each = ", ".join(f"{seed['CIDEr-D'].value:.3f}" for seed in seeds)
        print(f"| {model}, ours | {' | '.join(bleu)} | {meteor} | {spread} | {each} |")


def print_comparisons(systems: Mapping[str, Seed]) -> None:
    print("\n| | metric | difference | 95 % | p |\n|---|---|---|---|---|")
    pairs = [(one, rival) for one in ("soft", "hard") for rival in RIVALS] + [("hard", "soft")]
    for one, other in pairs:
        if not {one, other} <= systems.keys():
            continue
        found = compare(systems[one], systems[other])
        for metric, factor, digits in (
            ("BLEU-4-nobp", 100, 1),
            ("METEOR", 100, 2),
            ("CIDEr-D", 1, 3),
        ):
            difference, low, high = (
                f"{factor * value:+.{digits}f}"
                for value in (found[metric].difference, found[metric].low, found[metric].high)
            )
            print(
                f"| {one} over {other} | {metric} | {difference} | {low} to {high} | "
                f"{found[metric].p_value:.4f} |"
            )


if __name__ == "__main__":
    main()
