"""Facts of a feature store or a run folder, for `sat show`."""

from collections import Counter
from pathlib import Path
from typing import Any

from show_attend_tell.data.features import FeatureStore
from show_attend_tell.errors import counted
from show_attend_tell.files import read_object, readable_size


def facts_of(folder: Path) -> dict[str, Any] | None:
    """What a store or a run holds, in plain words; None for anything else."""
    if (folder / "index.json").exists():
        return _of_store(FeatureStore.open(folder))
    if (folder / "recipe.toml").exists():
        return _of_run(folder)
    return None


def _of_store(store: FeatureStore) -> dict[str, Any]:
    index = store.index
    missing = set(store.missing())
    splits = Counter(example.split for example in store.examples)
    done = Counter(e.split for row, e in enumerate(store.examples) if row not in missing)
    rows, columns = index.grid
    picture = index.preprocessing
    augmented_done = sum(
        1 for row in range(len(store.examples), len(store.sources)) if row not in missing
    )
    augmented_wanted = len(store.sources) - len(store.examples)
    seen = "the whole picture squeezed to" if picture.fit == "squeeze" else "the central"
    return {
        "what": "feature store",
        "data set": index.layout,
        "encoder": index.encoder,
        "weights": index.weights_hash,
        "features": f"{rows} × {columns} places of {index.depth} numbers, float16"
        + (
            f", before the last {counted(index.fine_tuned, 'stage')}, which training fine-tunes"
            if index.fine_tuned
            else ""
        ),
        "pictures seen as": f"{seen} {picture.size} × {picture.size} pixels",
        "normalised by": f"mean {picture.mean}, std {picture.std}",
        "size": readable_size((store.folder / "features.f16").stat().st_size),
        "pictures": {split: f"{done[split]:,} of {count:,}" for split, count in splits.items()},
        "augmented": f"{augmented_done:,} of {augmented_wanted:,}" if augmented_wanted else "none",
        "skipped": store.skipped() or "none",
    }


def _of_run(folder: Path) -> dict[str, Any]:
    from show_attend_tell.learning.recipe import load_recipe
    from show_attend_tell.learning.watching.events import Dev, Stop
    from show_attend_tell.learning.watching.history import read

    recipe = load_recipe(str(folder / "recipe.toml"))
    facts: dict[str, Any] = {
        "what": "training run",
        "encoder": recipe.encoder.name,
        "attention": recipe.model.attention,
        "sizes": f"hidden {recipe.model.hidden}, word {recipe.model.word}, "
        f"attention {recipe.model.attention_width}",
        "optimiser": f"{recipe.training.optimiser} at {recipe.training.learning_rate:g}",
    }
    events = read(folder / "log.jsonl") if (folder / "log.jsonl").exists() else []
    devs = [event for event in events if isinstance(event, Dev)]
    facts["dev BLEU-1..4"] = {
        f"epoch {dev.epoch}": " ".join(f"{100 * dev.scores[f'BLEU-{n}']:.2f}" for n in range(1, 5))
        + f", loss {dev.nats_per_word:.3f} nats a word"
        for dev in devs
    } or "none yet"
    if devs:
        best = max((dev for dev in devs if dev.best), key=lambda dev: dev.epoch)
        facts["best"] = f"epoch {best.epoch} by dev {recipe.training.stop_on}"
    stops = [event.reason for event in events if isinstance(event, Stop)]
    facts["state"] = f"finished: {stops[-1]}" if stops else "not finished; go on with --resume"
    if (folder / "scores.json").exists():
        scores = read_object(folder / "scores.json", "remove it and run `sat evaluate` again")
        facts[f"scores on {scores['split']}"] = {
            protocol: " ".join(f"{100 * table[f'BLEU-{n}-nobp']['value']:.2f}" for n in range(1, 5))
            + ", no brevity penalty"
            for protocol, table in scores["scores"].items()
        }
    return facts
