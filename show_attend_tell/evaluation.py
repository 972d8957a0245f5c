"""The captions of a split by a model, and how good they are: pictures in, scores out.

For a model folder as it ships, so without PyTorch; `learning.evaluate` does the same for a run and
prepared features, and leaves the same two files.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from show_attend_tell.captioning.caption import Caption
from show_attend_tell.captioning.captioner import Captioner
from show_attend_tell.captioning.search import Search
from show_attend_tell.data.layouts import Dataset
from show_attend_tell.errors import UserError
from show_attend_tell.files import write_json, write_json_lines
from show_attend_tell.scoring import Score
from show_attend_tell.scoring.by_protocol import measure_by_protocol, score_by_protocol


def evaluate_model(
    captioner: Captioner,
    dataset: Dataset,
    split: str,
    search: Search | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> tuple[dict[str, Caption], dict[str, Any]]:
    """Caption a split and score it as `learning.evaluate` does; every picture must be readable.

    Returns
    -------
    captions, facts
        The caption of each picture by id, and what `scores.json` holds.
    """
    search = search or captioner.search
    examples = [example for example in dataset.examples if example.split == split]
    if not examples:
        raise UserError("data.empty_split", f"there are no pictures in split {split!r}")
    captions: dict[str, Caption] = {}
    answers = captioner.stream((example.picture for example in examples), search)
    for example, found in zip(examples, answers, strict=True):
        if isinstance(found, UserError):
            raise found
        captions[example.id] = found[0]
        on_progress(1)
    people = {example.id: example.captions for example in examples}
    measured = measure_by_protocol(
        {name: " ".join(caption.words) for name, caption in captions.items()}, people
    )
    model = captioner.model
    facts = evaluation_facts(
        model.folder.name,
        split,
        [len(caption.words) for caption in captions.values()],
        search.override(views=captioner.views_of(search)),
        {
            "epoch": model.facts.origin["epoch"],
            "vocabulary": model.vocabulary.sha256,
            "features": model.facts.origin["encoder"],
        },
        score_by_protocol(measured),
    )
    return captions, facts


def evaluation_facts(
    name: str,
    split: str,
    words: list[int],
    search: Search,
    model: Mapping[str, Any],
    scores: Mapping[str, Mapping[str, Score]],
) -> dict[str, Any]:
    """What `scores.json` holds.

    Parameters
    ----------
    name
        Of the run or model.
    words
        How many each caption has.
    model
        What identifies its weights: epoch, vocabulary and features.
    scores
        By protocol and metric.
    """
    return {
        "run": name,
        "split": split,
        "pictures": len(words),
        "words_per_caption": sum(words) / len(words),
        "search": dataclasses.asdict(search.kept()),
        "model": dict(model),
        "scores": {
            protocol: {name: dataclasses.asdict(score) for name, score in found.items()}
            for protocol, found in scores.items()
        },
    }


def write_files(
    folder: Path, facts: Mapping[str, Any], captions: Iterable[tuple[str, str, float]]
) -> None:
    """Leave `scores.json` and `captions.jsonl` in a folder.

    Parameters
    ----------
    captions
        Of each the picture's id, the words joined by spaces and their log-probability.
    """
    rows = (
        {"id": name, "caption": text, "log_prob": log_prob} for name, text, log_prob in captions
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_json_lines(folder / "captions.jsonl", rows)
    write_json(folder / "scores.json", facts)
