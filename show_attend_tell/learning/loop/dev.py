"""The dev scores of an epoch: its captions generated freely, and the loss of people's captions."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from show_attend_tell.captioning.search import Search
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.learning.evaluate import caption_rows, references
from show_attend_tell.learning.loop.feed import Feed
from show_attend_tell.learning.model.decoder import CaptionDecoder
from show_attend_tell.learning.objectives.likelihood import soft_cost
from show_attend_tell.learning.watching.sheets import draw_sheet
from show_attend_tell.scoring import BLEU, score_captions

CAPTIONS_AT_ONCE = 64


@dataclass(frozen=True)
class DevScores:
    """Scores by metric, that which chooses the best epoch among them, and what else is logged."""

    scores: dict[str, float]
    nats_per_word: float
    words_per_caption: float
    unique_captions: int


def score_dev(
    decoder: CaptionDecoder, feed: Feed, vocabulary: Vocabulary, folder: Path, epoch: int
) -> DevScores:
    """Caption the dev pictures and score them; draws the epoch's sheet into the run folder."""
    store, recipe = feed.store, feed.recipe
    rows = store.rows("dev")
    search = Search.of(recipe.search, consensus=0)
    captions, decoded = caption_rows(decoder, vocabulary, store, rows, search)
    draw_sheet(store, vocabulary, decoded, recipe.search.look, folder, epoch)
    stop_on = recipe.training.stop_on
    metrics = [*(f"{name}-bp" for name in BLEU), stop_on]
    scores = score_captions(captions, references(store, rows), metrics=metrics, protocol="authors")
    return DevScores(
        scores={name: scores[f"{name}-bp"].value for name in BLEU}
        | {stop_on: scores[stop_on].value},
        nats_per_word=nats_per_word(decoder, feed),
        words_per_caption=float(np.mean([len(one.words) for one in decoded.values()])),
        unique_captions=len(set(captions.values())),
    )


@torch.inference_mode()
def nats_per_word(decoder: CaptionDecoder, feed: Feed) -> float:
    """The mean −log p of a word of people's captions: a loss, never a score."""
    nats, words = 0.0, 0
    for batch in feed.batches(CAPTIONS_AT_ONCE, (0,)):
        captions = feed.words(batch)
        output = decoder(decoder.encode(feed.features(batch)), captions)
        cost = soft_cost(decoder, output, captions, double_stochastic=0.0, label_smoothing=0.0)
        nats, words = nats + cost.nats, words + cost.words
    return nats / words
