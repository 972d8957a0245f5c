"""The card of a model folder: what the model is, its data, scores and limits."""

from typing import Any

import tomli_w

from show_attend_tell.captioning.settings import describe
from show_attend_tell.files import read_object
from show_attend_tell.learning.recipe import Recipe
from show_attend_tell.learning.run import Run

# By the beginning of the encoder's name, and by the layout of the data set.
ENCODER_LICENCES = {
    "efficientnet-lite": "Apache-2.0 (Google), trained on ImageNet",
    "vgg": "Creative Commons Attribution 4.0 (Visual Geometry Group, University of Oxford), "
    "trained on ImageNet",
}
DATA_LICENCES = {
    "flickr8k": "Flickr8k (Hodosh, Young and Hockenmaier 2013); its pictures belong to their "
    "photographers and are for research; none is part of this folder",
}
ELSEWHERE = "under the terms of where you got it"
HEADLINES = {"BLEU-4": "BLEU-4-bp", "METEOR": "METEOR", "CIDEr-D": "CIDEr-D"}  # by coco's protocol


# What model hubs read at the head of a card.
FRONT_MATTER = """\
---
language: en
license: other
license_name: see-licences-below
library_name: show_attend_tell
pipeline_tag: image-to-text
tags: [image-captioning, visual-attention, onnx]
datasets: [{data_set}]
metrics: [bleu, meteor, rouge, cider]
---"""


def write_card(run: Run) -> str:
    """The model card of a run, in Markdown."""
    features = run.features
    encoder_licence = next(
        (text for name, text in ENCODER_LICENCES.items() if features.encoder.startswith(name)),
        ELSEWHERE,
    )
    places = " × ".join(map(str, features.grid))
    parts = [
        FRONT_MATTER.format(data_set=features.layout),
        f"# {run.folder.name}: captions with {run.recipe.model.attention} attention",
        "One English sentence for a photograph, and for each of its words where it looked. "
        "Made by `sat export` of show_attend_tell, after *Show, Attend and Tell* "
        "(Xu et al., ICML 2015).",
        "```sh\nsat caption --model . photo.jpg\n"
        "sat draw --model . photo.jpg --out photo.html\n```",
        "## What it is",
        f"- Encoder: {features.encoder}, {places} places of {features.depth} numbers"
        + (f"; its last {features.fine_tuned} stages fine-tuned" if features.fine_tuned else "")
        + ".\n"
        f"- Decoder: an LSTM of {run.recipe.model.hidden} units with "
        f"{len(run.vocabulary):,} words.\n"
        f"- Trained on the captions of {features.layout}; {run.origin}.",
        "## Scores",
        _scores(run),
        "## Limits",
        "It knows the subjects of its data set and the words people used for them; of anything "
        "else it generates a similar caption that is wrong. It miscounts, confuses colours, sexes "
        "and ages, and repeats what annotators assumed about people. A caption is a first draft "
        "of an alt text for a person to check, never a fact about who or what is shown.",
        "## Licences",
        f"- Encoder weights: {encoder_licence}.\n"
        f"- Data: {DATA_LICENCES.get(features.layout, f'{features.layout}, {ELSEWHERE}')}.\n"
        "- Decoder weights and code: MIT.",
        "## Recipe",
        f"```toml\n{_toml(run.recipe)}```",
    ]
    return "\n\n".join(parts) + "\n"


def headline_scores(run: Run) -> dict[str, Any] | None:
    """The evaluated split, and the scores that papers report today."""
    result = _evaluated(run)
    if not result:
        return None
    scores = result["scores"]["coco"]
    values = {name: scores[key]["value"] for name, key in HEADLINES.items() if key in scores}
    return {"split": result["split"], **values}


def _toml(recipe: Recipe) -> str:
    return tomli_w.dumps(recipe.model_dump(exclude_none=True))


def _scores(run: Run) -> str:
    result = _evaluated(run)
    if not result:
        known = (
            f"Dev BLEU-4 while training: {100 * run.meta['BLEU-4']:.1f}"
            if "BLEU-4" in run.meta
            else "Not scored"
        )
        return f"{known}. `sat evaluate` before `sat export` puts the scores of a split here."
    rows = [
        f"| {protocol} | {_row(scores)} | "
        + ", ".join(
            f"{name} {score['value']:.3f}"
            if name == "CIDEr-D"  # runs to 10
            else f"{name} {100 * score['value']:.1f}"
            for name, score in scores.items()
            if not name.startswith("BLEU")
        )
        + " |"
        for protocol, scores in result["scores"].items()
    ]
    return "\n".join(
        [
            f"{result['pictures']:,} {result['split']} pictures, {describe(result['search'])}"
            + "; in percent, CIDEr-D from 0 to 10.",
            "",
            "| protocol | BLEU-1 / 2 / 3 / 4 without brevity penalty | with it | others |",
            "|---|---|---|---|",
            *rows,
            "",
            "Signatures: "
            + "; ".join(
                f"`{scores['BLEU-4-bp']['signature']}`" for scores in result["scores"].values()
            )
            + ".",
        ]
    )


def _evaluated(run: Run) -> dict[str, Any] | None:
    """What `sat evaluate` wrote into the run's folder, if it is about the present weights."""
    path = run.folder / "scores.json"
    if not path.exists():
        return None
    result = read_object(path, "remove it and run `sat evaluate` again")
    weights = (result["model"]["epoch"], result["model"]["vocabulary"])
    return result if weights == (run.meta["epoch"], run.vocabulary.sha256) else None


def _row(scores: dict[str, dict[str, Any]]) -> str:
    return " | ".join(
        " / ".join(
            f"{100 * scores[f'BLEU-{order}-{penalty}']['value']:.1f}" for order in (1, 2, 3, 4)
        )
        for penalty in ("nobp", "bp")
    )
