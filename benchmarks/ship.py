"""Make the model that ships: from Flickr8k to a model folder, each command in order.

    python benchmarks/ship.py FLICKR8K WORK      # an hour and a half to three hours on two cores

WORK gets the features, the runs and the model. What is done is not done again, so that the same
command goes on after a stop. A run of the frozen encoder is fine-tuned at two rates, and each of
those learns from the scores of its captions. From the mean of these four, one run is fine-tuned
again and one rewarded again, and the mean of those two is the model. Test is not looked at.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SAT = Path(sys.executable).with_name("sat")
STAGES = ("encoder.fine_tuned=3", "encoder.augmentations=8")
FALLING = ("training.decay=0.5", "training.decay_after=1", "training.epochs=3")
RATES = {  # of the decoder, of the fine-tuned stages
    "slow": ("training.learning_rate=3e-4", "training.fine_tuned_rate=2e-4"),
    "quick": ("training.learning_rate=6e-4", "training.fine_tuned_rate=5e-4"),
}
REWARDS = (
    "reward.weight=0.97",
    "reward.bleu=0.5",
    "search.max_words=20",
    "training.learning_rate=2.5e-5",
    "training.fine_tuned_rate=1e-5",
    "training.epochs=1",
    "training.stop_on=CIDEr-D",
)
AGAIN = {
    "tuned-again": (
        "training.learning_rate=2e-4",
        "training.fine_tuned_rate=1.5e-4",
        "training.epochs=1",
        "training.seed=2",
    ),
    "rewarded-again": (*REWARDS, "training.seed=2"),
}
SEARCH = ("--views", "3", "--beam", "10", "--consensus", "30", "--repetition-penalty", "3")


def sat(*words: str | Path) -> None:
    """One command, said before it runs."""
    print("sat", *words, flush=True)
    subprocess.run([SAT, *words], check=True)


def train(store: Path, run: Path, *keys: str, start_from: Path | None = None) -> None:
    """Train a run on one processor, or go on with it, unless it is done."""
    log = run / "log.jsonl"
    if log.exists() and json.loads(log.read_text("utf-8").splitlines()[-1])["event"] == "stop":
        return
    if (run / "recipe.toml").exists():
        sat("train", store, run, "--threads", "1", "--resume")
        return
    begin = ["--start-from", start_from] if start_from else []
    chosen = [word for key in keys for word in ("--set", key)]
    sat("train", store, run, "--threads", "1", *begin, *chosen)


def tune_and_reward(below: Path, runs: Path, name: str) -> list[Path]:
    fine_tuned, rewarded = runs / f"tuned-{name}", runs / f"rewarded-{name}"
    train(below, fine_tuned, *STAGES, *RATES[name], *FALLING, start_from=runs / "soft")
    train(below, rewarded, *STAGES, *REWARDS, start_from=fine_tuned)
    return [fine_tuned, rewarded]


def once_more(below: Path, runs: Path, name: str) -> None:
    train(below, runs / name, *STAGES, *AGAIN[name], start_from=runs / "between")


def average(run: Path, folders: Sequence[Path]) -> None:
    if not (run / "recipe.toml").exists():
        sat("average", *folders, "--out", run)


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    asked = parser.parse_args()
    features, runs = asked.work / "features", asked.work / "runs"
    frozen, below = features / "lite2", features / "below"

    sat("prepare", asked.data, frozen)
    with ThreadPoolExecutor(2) as parallel_map:
        soft = parallel_map.submit(train, frozen, runs / "soft")
        sat("prepare", asked.data, below, "--fine-tuned", "3", "--augmentations", "8")
        soft.result()
        first = parallel_map.map(lambda name: tune_and_reward(below, runs, name), RATES)
        average(runs / "between", [run for pair in first for run in pair])
        list(parallel_map.map(lambda name: once_more(below, runs, name), AGAIN))
    run, model = runs / "flickr8k", asked.work / "model"
    average(run, [runs / name for name in AGAIN])
    if not (model / "model.json").exists():
        sat("export", run, model, *SEARCH)
    sat("evaluate", model, asked.data, "--out", asked.work / "evaluated")


if __name__ == "__main__":
    main()
