"""Captions of a split, and their scores under each protocol."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from show_attend_tell.captioning.consensus import decode, pictures_together
from show_attend_tell.captioning.search import Decoded, Search
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.evaluation import evaluation_facts, write_files
from show_attend_tell.learning.model.adapter import TorchModel
from show_attend_tell.learning.model.decoder import CaptionDecoder
from show_attend_tell.learning.run import Run
from show_attend_tell.learning.watching.looking import Looking
from show_attend_tell.scoring import Measured, Score
from show_attend_tell.scoring.analysis.grounding import measure_grounding
from show_attend_tell.scoring.analysis.health import measure_health
from show_attend_tell.scoring.by_protocol import RESAMPLES, measure_by_protocol, score_by_protocol
from show_attend_tell.scoring.score import score_measured

PICTURES_AT_ONCE = 50


@dataclass(frozen=True)
class Evaluation:
    """Captions of a split by id, scores by protocol and metric, and where the model looked."""

    captions: dict[str, str]
    decoded: dict[str, Decoded]
    measured: dict[str, dict[str, Measured]]
    scores: dict[str, dict[str, Score]]
    looking: Looking | None = None


def caption_rows(
    decoder: CaptionDecoder,
    vocabulary: Vocabulary,
    store: FeatureStore,
    rows: Sequence[int],
    search: Search,
    on_progress: Callable[[int], None] = lambda done: None,
) -> tuple[dict[str, str], dict[str, Decoded]]:
    """The best caption of each picture by id: as words joined by blanks, and as decoded."""
    model = TorchModel(decoder)
    captions: dict[str, str] = {}
    decoded: dict[str, Decoded] = {}
    places = math.prod(store.index.grid)
    at_once = pictures_together(search, PICTURES_AT_ONCE, places=places, words=len(vocabulary))
    for i in range(0, len(rows), at_once):
        some = rows[i : i + at_once]
        beams = decode(model, store.read(some), search)
        for row, (best, *_) in zip(some, beams, strict=True):
            name = store.examples[row].id
            captions[name] = " ".join(vocabulary.decode(best.words))
            decoded[name] = best
        on_progress(len(some))
    return captions, decoded


def references(store: FeatureStore, rows: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """People's captions of the same pictures, by id."""
    return {store.examples[row].id: store.examples[row].captions for row in rows}


def evaluate(
    run: Run,
    store: FeatureStore,
    split: str,
    search: Search,
    on_progress: Callable[[int], None] = lambda done: None,
    watch_scoring: Callable[[int], object] = lambda done: None,
) -> Evaluation:
    """Caption a split and score it: BLEU and METEOR under every protocol, the rest under coco."""
    run.check_features(store)
    rows = store.rows(split)
    captions, decoded = caption_rows(run.decoder, run.vocabulary, store, rows, search, on_progress)
    measured = measure_by_protocol(captions, references(store, rows), watch_scoring)
    return Evaluation(captions, decoded, measured, score_by_protocol(measured))


def write_evaluation(
    evaluation: Evaluation, run: Run, split: str, search: Search, folder: Path
) -> dict[str, Any]:
    """Write `scores.json` and `captions.jsonl` into a folder; the facts of `scores.json`."""
    facts = evaluation_facts(
        run.folder.name,
        split,
        [len(one.words) for one in evaluation.decoded.values()],
        search.override(views=1),  # features are of one view
        {
            "epoch": run.meta["epoch"],
            "vocabulary": run.vocabulary.sha256,
            "features": run.features.encoder,
        },
        evaluation.scores,
    )
    if evaluation.looking:
        grounding = score_measured(measure_grounding(evaluation.looking.looks), resamples=RESAMPLES)
        facts["grounding"] = {name: dataclasses.asdict(score) for name, score in grounding.items()}
        facts["attention"] = dataclasses.asdict(measure_health(evaluation.looking.watched))
    lines = (
        (name, caption, evaluation.decoded[name].log_prob)
        for name, caption in evaluation.captions.items()
    )
    write_files(folder, facts, lines)
    return facts
