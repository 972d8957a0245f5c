"""The facts of a report, gathered from a run: a split captioned, scored and examined."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch.nn.functional import linear

from show_attend_tell.captioning.caption import Caption, Looked, sentence
from show_attend_tell.captioning.search import Decoded, Search
from show_attend_tell.captioning.settings import describe
from show_attend_tell.data.batches import epoch_batches
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.layouts import Example
from show_attend_tell.data.pictures import Opened, crop_of, read_picture
from show_attend_tell.drawing.light import resized
from show_attend_tell.drawing.page import data_uri
from show_attend_tell.errors import UserError
from show_attend_tell.learning.evaluate import Evaluation, evaluate
from show_attend_tell.learning.run import BEST, Run
from show_attend_tell.learning.watching import history
from show_attend_tell.learning.watching.looking import look_at_boxes
from show_attend_tell.parallel import parallel_map
from show_attend_tell.report.facts import Attention, Calibration, Entry, Facts, Shown
from show_attend_tell.scoring import measure_diversity
from show_attend_tell.scoring.analysis.calibration import (
    by_confidence,
    rank_correlation,
    reliability,
)
from show_attend_tell.scoring.analysis.grounding import measure_grounding
from show_attend_tell.scoring.analysis.health import (
    AttendedCaption,
    coverage,
    gates_of_words,
    measure_health,
    over_time,
)
from show_attend_tell.scoring.analysis.usage import compare_words
from show_attend_tell.scoring.measure import PROTOCOLS
from show_attend_tell.scoring.report import choose_metrics
from show_attend_tell.scoring.score import score_measured

# Called with the name of a stage and its size; gives what is called with the progress made.
Stage: TypeAlias = Callable[[str, int], Callable[[int], None]]

RANKED_BY = ("CIDEr-D", "ROUGE-L")  # the second decides between captions that score alike
SHOWN_OF_EACH = 4
LEAST_USED = 10  # times before the mean gate of a word is worth a line
CAPTIONS_AT_ONCE = 64

# Together with the pictures shown large, below the 15 MB that a page may have.
THUMBNAIL = 208  # pixels along the longer side
QUALITY = 55  # of its JPEG
MOST_ENTRIES = 1000
MOST_CHARACTERS = 10_000_000  # of all thumbnails


def gather(
    run: Run,
    store: FeatureStore,
    split: str,
    search: Search,
    *,
    pictures: Path | None = None,
    boxes: Path | None = None,
    stage: Stage = lambda name, total: lambda done: None,
) -> Facts:
    """Caption a split, score it, and gather what a report shows.

    Parameters
    ----------
    pictures
        The folder where the pictures are now; where the store says they were, by default.
    boxes
        A file of phrases with boxes, to see whether the model looks at what it names.
    stage
        Called at the start of every stage of the work.
    """
    run.check_features(store)
    rows = store.rows(split)
    examples = {store.examples[row].id: store.examples[row] for row in rows}
    lack = choose_metrics()[1]
    captioned = stage(f"captioning {split}", len(rows))
    scored = stage("scoring", len(rows) * len(PROTOCOLS)) if not lack else lambda _: None
    evaluation = evaluate(run, store, split, search, captioned, scored)
    ranked = _ranked(evaluation, examples)
    look: Looked = "pointed" if callable(search.look) else search.look
    shown, gallery, missing = _pictured(run, look, evaluation, examples, ranked, pictures, stage)
    said = [caption for example in examples.values() for caption in example.captions]
    training = [text for one in store.examples if one.split == "train" for text in one.captions]
    confidences = [entry.confidence for entry in ranked]
    worth = [entry.scores[RANKED_BY[0]] for entry in ranked]
    curves = None
    if (log := run.folder / "log.jsonl").exists():
        curves = history.curves_of(history.read(log), int(run.meta["epoch"]))
    grounding = {}
    if boxes:
        looking = look_at_boxes(run, store, split, boxes, stage("grounding", len(rows)))
        grounding = score_measured(measure_grounding(looking.looks), resamples=1000)
    return Facts(
        run=run.folder.resolve().name,
        split=split,
        about=_about(run, store, split, search, len(rows)),
        scores=evaluation.scores,
        lack=str(lack) if lack else None,
        curves=curves,
        shown=shown,
        gallery=gallery,
        pictures=len(rows),
        without_picture=missing,
        words=compare_words(evaluation.captions.values(), said),
        generated=measure_diversity(evaluation.captions.values(), training=training),
        references=measure_diversity(said),
        attention=_attention(run, evaluation),
        calibration=Calibration(
            words=reliability(*next_words(run, store, rows, stage)),
            captions=by_confidence(confidences, worth),
            correlation=rank_correlation(confidences, worth),
        ),
        grounding=grounding,
    )


def _about(
    run: Run, store: FeatureStore, split: str, search: Search, pictures: int
) -> dict[str, str]:
    recipe, features = run.recipe, run.features
    rows, columns = features.grid
    written = datetime.fromtimestamp((run.folder / BEST).stat().st_mtime, UTC)
    parameters = sum(one.numel() for one in run.decoder.parameters())
    gate = "" if recipe.model.gate else ", no gate"
    return {
        "Model": f"{recipe.model.attention} attention{gate}, LSTM of {recipe.model.hidden} units",
        "Parameters": f"{parameters:,} and the encoder's",
        "Vocabulary": f"{len(run.vocabulary):,} words",
        "Encoder": f"{features.encoder}, {rows} × {columns} places of {features.depth:,}",
        "Learned by": f"{recipe.training.optimiser} at {recipe.training.learning_rate:g}, "
        f"seed {recipe.training.seed}",
        "Checkpoint": f"{run.origin}, {written:%d %B %Y}",
        "Data": f"{store.index.layout}, {pictures:,} pictures of {split}",
        "Search": describe(asdict(search.override(views=1).kept())),
    }


def _ranked(evaluation: Evaluation, examples: dict[str, Example]) -> list[Entry]:
    """Every picture, from the lowest score to the highest."""
    per_caption = {name: evaluation.measured["coco"][name].per_caption for name in RANKED_BY}
    entries = [
        Entry(
            id=name,
            caption=sentence(text.split()),
            references=examples[name].captions,
            scores={metric: per_caption[metric][name] for metric in RANKED_BY},
            confidence=_confidence(evaluation.decoded[name]),
        )
        for name, text in evaluation.captions.items()
    ]
    return sorted(entries, key=lambda entry: (*entry.scores.values(), entry.id))


def _confidence(decoded: Decoded) -> float:
    """As a caption's own: the geometric mean of its words' probabilities, the end's too."""
    return float(np.exp(decoded.log_prob / (len(decoded.words) + 1)))


def _pictured(
    run: Run,
    look: Looked,
    evaluation: Evaluation,
    examples: dict[str, Example],
    ranked: Sequence[Entry],
    folder: Path | None,
    stage: Stage,
) -> tuple[dict[str, list[Shown]], list[Entry], int]:
    """What is shown large, the gallery, and how many of its pictures are not there any more."""
    each = max(1, min(SHOWN_OF_EACH, len(ranked) // 3))
    middle = (len(ranked) - each) // 2
    chosen = {
        "Best": ranked[::-1][:each],
        "Median": ranked[middle : middle + each],
        "Worst": ranked[:each],
    }

    def path_of(entry: Entry) -> Path:
        path = examples[entry.id].picture
        return folder / path.name if folder else path

    def show(entry: Entry) -> Shown:
        opened = _opened(path_of(entry))
        if opened is None:
            return Shown(entry)
        decoded = evaluation.decoded[entry.id]
        crop = crop_of(opened.size, run.features.preprocessing)
        words = run.vocabulary.decode(decoded.words)
        caption = Caption.of(decoded, words, run.features.grid, opened.size, crop, look)
        return Shown(entry, caption, opened.image)

    some = ranked[:MOST_ENTRIES]
    advance = stage("reading pictures", len(some))
    gallery: list[Entry] = []
    characters = missing = 0
    thumbnails = parallel_map(
        lambda entry: _thumbnail(path_of(entry)), some, threads=os.cpu_count() or 1
    )
    for entry, thumbnail in zip(some, thumbnails, strict=True):
        characters += len(thumbnail or "")
        if characters > MOST_CHARACTERS:
            break
        missing += thumbnail is None
        gallery.append(replace(entry, thumbnail=thumbnail))
        advance(1)
    return {title: list(map(show, few)) for title, few in chosen.items()}, gallery, missing


def _opened(path: Path, least_side: int | None = None) -> Opened | None:
    """A picture, unless it is not there any more or cannot be read."""
    try:
        return read_picture(path, least_side=least_side)
    except UserError:
        return None


def _thumbnail(path: Path) -> str | None:
    opened = _opened(path, least_side=THUMBNAIL)
    if opened is None:
        return None
    scale = min(1.0, THUMBNAIL / max(opened.image.size))
    return data_uri(resized(opened.image, scale), "JPEG", quality=QUALITY)


def _attention(run: Run, evaluation: Evaluation) -> Attention:
    """Of α itself, also where the search looked at one place of it."""
    watched = [
        AttendedCaption(
            run.vocabulary.decode(one.words),
            one.attention.astype(np.float64),
            one.gates.astype(np.float64),
        )
        for one in evaluation.decoded.values()
    ]
    return Attention(
        health=measure_health(watched),
        moments=over_time(watched),
        coverage=coverage(watched).reshape(run.features.grid),
        gates=gates_of_words(watched, LEAST_USED) if run.recipe.model.gate else {},
    )


@torch.inference_mode()
def next_words(
    run: Run, store: FeatureStore, rows: Sequence[int], stage: Stage
) -> tuple[list[float], list[bool]]:
    """Of each word of the references, how probable the likeliest one was, and was it right.

    That is the question the model learned to answer, so a probability of 0.7 should be right in
    seven cases of ten.
    """
    captions = [
        (row, run.vocabulary.encode(text)) for row in rows for text in store.examples[row].captions
    ]
    advance = stage("reading the references", len(captions))
    sure: list[float] = []
    right: list[bool] = []
    lengths = [len(words) for _, words in captions]
    for batch in epoch_batches(lengths, CAPTIONS_AT_ONCE, (0,), order="random"):
        features = torch.from_numpy(store.read([captions[i][0] for i in batch]))
        targets = torch.tensor([captions[i][1] for i in batch])  # (B, T)
        lesson = run.decoder(run.decoder.encode(features), targets)
        logits = linear(lesson.readout, *run.decoder.softmax_layer())  # (B, T, K)
        top, word = logits.max(dim=2)
        sure += (top - logits.logsumexp(dim=2)).exp().flatten().tolist()
        right += (word == targets).flatten().tolist()
        advance(len(batch))
    return sure, right
