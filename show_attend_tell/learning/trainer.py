"""The loop: same-length mini-batches, early stopping on a score of free-running dev captions.

The BLEU that stops by default has its brevity penalty, unlike the paper's scores: without it a
model that tells six words of everything is hard to beat (docs/log.md).

A run can be killed at any moment and goes on to the same bits: everything random is drawn from the
seed and the number of the step or epoch, so the state is weights, optimiser, average and a place.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from show_attend_tell.captioning.search import Search
from show_attend_tell.data.batches import Batch, Captions, epoch_batches, picture_batches
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import UserError
from show_attend_tell.files import RunLock, write_text
from show_attend_tell.interruption import Asked, asked_to_stop
from show_attend_tell.learning import checkpoint
from show_attend_tell.learning.evaluate import caption_rows, references
from show_attend_tell.learning.model.decoder import Teachable
from show_attend_tell.learning.objectives.distillation import Teachers
from show_attend_tell.learning.objectives.hard import Baseline, hard_cost
from show_attend_tell.learning.objectives.likelihood import Advice, Cost, soft_cost
from show_attend_tell.learning.objectives.rewards import CaptionReward, rewarded_cost
from show_attend_tell.learning.recipe import Recipe, TrainingSection
from show_attend_tell.learning.run import (
    BEST,
    LAST,
    RECIPE,
    VOCABULARY,
    begin_or_resume,
    check_features,
    check_vocabulary,
    decoder_for,
    is_fine_tuned,
    load_weights,
    setup,
    versions,
    weights_to_begin_with,
)
from show_attend_tell.learning.watching.history import Event, History, draw_curves, read
from show_attend_tell.learning.watching.sheets import draw_sheet
from show_attend_tell.learning.watching.tally import Tally
from show_attend_tell.scoring import BLEU, score_captions
from show_attend_tell.scoring.measure import check_metrics

SILENT = 5e-5  # dev scores below it are shown as 0.00 and are noise: there the loss decides
FEW = 100  # dev pictures; with fewer, BLEU-4 moves by several points by chance
MANY_UNKNOWN = 0.1  # of the words in the training captions; on Flickr8k 0.03 with minimum_count 4
STEPS_A_LINE = 20  # of log.jsonl; each line averages the steps since the one before


@dataclass
class Place:
    """Where in the run we are, and what it has reached."""

    step: int = 0  # updates done
    epoch: int = 0  # epochs done
    batch: int = 0  # batches done of this epoch
    best_score: float = -1.0  # on dev, of the metric that the recipe stops on
    best_epoch: int = 0
    best_nats: float | None = None  # a word, on dev, in the best epoch


def train(
    store: FeatureStore,
    folder: Path,
    recipe: Recipe | None,
    *,
    resume: bool = False,
    start_from: Path | None = None,
    watch: Sequence[Callable[[Event], None]] = (),
) -> None:
    """Train a model into a run folder, or go on with one.

    Parameters
    ----------
    store
        The prepared data set; every picture that `sat prepare` could read must be done.
    folder
        The run folder; made if it is not there.
    recipe
        What to train; when resuming, None for the run's own.
    resume
        Go on where the run stopped; without it a folder that holds a run is refused.
    start_from
        Another run whose best weights a new run begins with, such as a soft one for a hard one.
    watch
        Each hears every event, and one called "progress" after each step.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C or SIGTERM, once the state is saved.
    UserError
        What a person can mend; the state on disk is the last good one.
    """
    recipe = begin_or_resume(store, folder, recipe, resume)
    # A metric whose data is not installed should not be found out after the first epoch.
    check_metrics([recipe.training.stop_on])
    with RunLock(folder):
        Trainer(store, folder, recipe, start_from, watch).run()


class Trainer:
    """One run, from its first step or from where it stopped."""

    def __init__(
        self,
        store: FeatureStore,
        folder: Path,
        recipe: Recipe,
        start_from: Path | None,
        watch: Sequence[Callable[[Event], None]],
    ) -> None:
        self.store, self.folder, self.recipe, self.watch = store, folder, recipe, watch
        words = recipe.vocabulary
        self.vocabulary = Vocabulary.build(
            (caption for row in store.rows("train") for caption in store.examples[row].captions),
            size=words.size,
            minimum_count=words.minimum_count,
            punctuation=words.punctuation,
        )
        if len(self.vocabulary) <= 2:  # the end word and the unknown one
            raise UserError(
                "data.vocabulary",
                f"{store.folder}: no word of the training captions is in the vocabulary; lower "
                f"vocabulary.minimum_count ({words.minimum_count}) or raise vocabulary.size "
                f"({words.size})",
            )
        self.captions = Captions.of(store, "train", self.vocabulary)
        self.dev = Captions.of(store, "dev", self.vocabulary)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.training.seed)
            self.decoder = decoder_for(recipe.model, store.index, len(self.vocabulary))
        is_new = not (folder / RECIPE).exists()
        self.began_with = [str(start_from)] if start_from else []
        if is_new and start_from:
            weights = weights_to_begin_with(start_from, self.decoder, store, self.vocabulary)
            self.decoder.load_state_dict(weights)
        self.optimiser = _optimiser(self.decoder, recipe.training)
        self.average = (
            {name: tensor.detach().clone() for name, tensor in self.decoder.state_dict().items()}
            if recipe.training.average
            else None
        )
        self.is_hard = recipe.model.attention == "hard"
        self.baseline = Baseline(recipe.hard.baseline)
        self.reward = (
            CaptionReward(
                {row: store.examples[row].captions for row in store.rows("train")},
                self.vocabulary,
                recipe.reward,
            )
            if recipe.reward.weight
            else None
        )
        self.teachers = (
            Teachers(recipe.distillation.teachers, store, self.vocabulary)
            if recipe.distillation.weight
            else None
        )
        self.place = Place()
        self.notes = self._doubts()
        self.saved_at = time.monotonic()
        self.tally = Tally()
        if is_new:
            self.vocabulary.save(folder / VOCABULARY)
            self._save()
            write_text(folder / RECIPE, recipe.to_toml())  # last: it says that the rest is there
        else:
            self._restore()
        self.history = History(folder)
        self.history.truncate_after(self.place.step, self.place.epoch)

    def run(self) -> None:
        """Train until there is a reason to stop."""
        training = self.recipe.training
        self._announce(
            {
                "event": "start",
                "step": self.place.step,
                "epoch": self.place.epoch,
                "words": len(self.vocabulary),
                "captions": len(self.captions.words),
                "parameters": sum(p.numel() for p in self.decoder.parameters()),
                "batches_per_epoch": len(self._epoch_order(0)),
                "epochs": training.epochs,
                "threads": torch.get_num_threads(),
                "notes": self.notes,
            }
        )
        with asked_to_stop() as asked:
            while not (reason := self._reason_to_stop()):
                self._epoch(asked)
                self._judge()
        self._announce({"event": "stop", "step": self.place.step, "reason": reason})
        if asked.to_stop:  # while the last epoch was scored; whoever called us must hear of it
            raise KeyboardInterrupt

    def _doubts(self) -> list[str]:
        """What speaks against trusting the result, in sentences."""
        doubts = []
        dev = len(self.store.rows("dev"))
        if dev < FEW:
            things = "dev picture" if dev == 1 else "dev pictures"
            doubts.append(f"{dev} {things}: a score of so few says little")
        words = [word for caption in self.captions.words for word in caption[:-1]]
        unknown = words.count(Vocabulary.UNKNOWN) / len(words)
        if unknown > MANY_UNKNOWN:
            doubts.append(
                f"{100 * unknown:.0f} % of the words in the training captions are not in the "
                "vocabulary, which the model cannot learn then; lower vocabulary.minimum_count "
                f"({self.recipe.vocabulary.minimum_count}) or raise vocabulary.size "
                f"({self.recipe.vocabulary.size})"
            )
        return doubts

    def _reason_to_stop(self) -> str:
        training, place = self.recipe.training, self.place
        is_scored = place.best_score >= SILENT
        if is_scored and place.epoch - place.best_epoch >= training.patience:
            return f"dev {training.stop_on} has not risen for {training.patience} epochs"
        if place.epoch >= training.epochs:
            unscored = f"; dev {training.stop_on} stayed at 0.00, so the dev loss chose the best"
            return f"all {training.epochs} epochs are done" + ("" if is_scored else unscored)
        return ""

    def _epoch_order(self, epoch: int) -> list[Batch]:
        """The batches of an epoch: all captions, as often as it takes for the least steps."""
        training = self.recipe.training
        order = self._batches(self.captions, training.batch, (training.seed, epoch))
        for again in range(1, -(-training.minimum_steps // len(order))):
            order += self._batches(self.captions, training.batch, (training.seed, epoch, again))
        return order

    def _batches(self, captions: Captions, size: int, seed: Sequence[int]) -> list[Batch]:
        training = self.recipe.training
        if training.batch_of == "pictures":
            return picture_batches(captions.rows, captions.lengths(), size, seed)
        return epoch_batches(captions.lengths(), size, seed, order=training.length_order)

    def _epoch(self, asked: Asked) -> None:
        """Every batch of this epoch that is not done yet."""
        order = self._epoch_order(self.place.epoch)
        self._set_learning_rate()
        for batch in order[self.place.batch :]:
            cost, gradient_norm = self._step(batch)
            self.place.step += 1
            self.place.batch += 1
            self._log_step(cost, gradient_norm, len(batch), len(order))
            overdue = time.monotonic() - self.saved_at > self.recipe.training.save_minutes * 60
            if overdue or asked.to_stop:
                self._save()
            if asked.to_stop:
                raise KeyboardInterrupt
        self._save()

    def _step(self, batch: Batch) -> tuple[Cost, float]:
        training = self.recipe.training
        features, captions = self._features(batch), torch.from_numpy(self.captions.padded(batch))
        generator = torch.Generator().manual_seed(training.seed * 1_000_003 + self.place.step)
        self.optimiser.zero_grad()
        cost = self._cost(batch, features, captions, generator)
        cost.loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.decoder.parameters(), training.clip or math.inf)
        self._check_finite(cost, float(norm))
        self.optimiser.step()
        if self.average is not None:
            # A young average forgets fast, so that it is not held back by the first weights.
            decay = min(training.average, (1 + self.place.step) / (10 + self.place.step))
            for name, tensor in self.decoder.state_dict().items():
                if tensor.is_floating_point():
                    self.average[name].lerp_(tensor, 1 - decay)
        return cost, float(norm)

    def _cost(
        self, batch: Batch, features: Tensor, captions: Tensor, generator: torch.Generator
    ) -> Cost:
        training = self.recipe.training
        annotations = self.decoder.see(features)  # once for people's captions and drawn ones
        words_cost = partial(
            soft_cost,
            self.decoder,
            double_stochastic=training.double_stochastic,
            label_smoothing=training.label_smoothing,
        )
        if self.is_hard:
            return hard_cost(
                self.decoder,
                annotations,
                captions,
                words_cost,
                self.baseline,
                self.recipe.hard,
                rng=generator,
                dropout=generator,
            )
        advice = None
        if self.teachers:
            probs = self.teachers.advise(features, captions)
            advice = Advice(probs, self.recipe.distillation.weight)
        lesson = self.decoder.teach(annotations, captions, generator)
        cost = words_cost(lesson, captions, advice=advice)
        if self.reward is None:
            return cost
        return rewarded_cost(
            cost,
            self.decoder,
            annotations,
            partial(self.reward, self._rows(self.captions, batch)),
            self.recipe.reward,
            self.recipe.search.max_words,
            rng=generator,
            dropout=generator,
        )

    def _features(self, batch: Batch) -> Tensor:
        """What is seen while these captions are learned: (captions or pictures, L, D)."""
        rows = self._augmented_rows(self._rows(self.captions, batch))
        return torch.from_numpy(self.store.read(rows))

    def _rows(self, captions: Captions, batch: Batch) -> list[int]:
        """The features that a batch is told from: one for each caption, or for each picture."""
        rows = [captions.rows[i] for i in batch]
        return list(dict.fromkeys(rows)) if self.recipe.training.batch_of == "pictures" else rows

    def _augmented_rows(self, rows: Sequence[int]) -> list[int]:
        """The same pictures, each in an augmentation drawn for this step."""
        random = np.random.default_rng([self.recipe.training.seed, self.place.step])
        augmentations = random.integers(self.recipe.encoder.augmentations, size=len(rows))
        return [self.store.row_of(*pair) for pair in zip(rows, augmentations.tolist(), strict=True)]

    def _check_finite(self, cost: Cost, gradient_norm: float) -> None:
        terms = {"likelihood": cost.nats, "penalty": cost.penalty, "gradient": gradient_norm}
        for term, value in terms.items():
            if not math.isfinite(value):
                raise UserError(
                    "training.diverged",
                    f"{self.folder}: the {term} became {value} at step {self.place.step + 1}; the "
                    "state of an earlier step is kept; train again with a smaller "
                    "training.learning_rate or with training.clip=5",
                )

    def _set_learning_rate(self) -> None:
        training = self.recipe.training
        exponent = max(0, self.place.epoch + 1 - training.decay_after)
        for group in self.optimiser.param_groups:
            group["lr"] = group["first_lr"] * training.decay**exponent

    def _judge(self) -> None:
        """Score the epoch on dev; keep the weights if they are the best so far."""
        begin = time.perf_counter()
        judged = decoder_for(self.recipe.model, self.store.index, len(self.vocabulary))
        judged.load_state_dict(self.average or self.decoder.state_dict())
        judged.eval()
        score, found = self._score(judged)
        place = self.place
        place.epoch, place.batch = place.epoch + 1, 0
        if self._is_better(score, found["nats_per_word"]):
            place.best_score, place.best_epoch = score, place.epoch
            place.best_nats = found["nats_per_word"]
            facts = {**self._facts(), "epoch": place.epoch, **found}
            checkpoint.save(self.folder / BEST, judged.state_dict(), facts)
        self._announce(
            {
                "event": "dev",
                "step": place.step,
                "epoch": place.epoch,
                **found,
                "seconds": time.perf_counter() - begin,
                "best": place.best_epoch == place.epoch,
            }
        )
        draw_curves(read(self.history.path), place.best_epoch, self.folder / "curves.html")
        self._save()

    def _is_better(self, score: float, nats: float) -> bool:
        place = self.place
        if place.best_nats is not None and max(score, place.best_score) < SILENT:
            return nats < place.best_nats
        return score > place.best_score

    def _score(self, judged: Teachable) -> tuple[float, Event]:
        """What chooses the best epoch, more being better, and all that is told of this one."""
        rows = self.store.rows("dev")
        search = Search(**self.recipe.search.model_dump() | {"consensus": 0})
        captions, told = caption_rows(judged, self.vocabulary, self.store, rows, search)
        look, epoch = self.recipe.search.look, self.place.epoch + 1
        draw_sheet(self.store, self.vocabulary, told, look, self.folder, epoch)
        stop_on = self.recipe.training.stop_on
        metrics = [*(f"{name}-bp" for name in BLEU), stop_on]
        scores = score_captions(
            captions, references(self.store, rows), metrics=metrics, protocol="authors"
        )
        score = scores[stop_on].value
        return score, {
            **{name: scores[f"{name}-bp"].value for name in BLEU},
            stop_on: score,
            "nats_per_word": self._dev_nats(judged),
            "words_per_caption": float(np.mean([len(one.words) for one in told.values()])),
            "unique_captions": len(set(captions.values())),
        }

    @torch.inference_mode()
    def _dev_nats(self, decoder: Teachable) -> float:
        """−log p a word of the dev captions; only a loss, never a score."""
        nats, words = 0.0, 0
        for batch in self._batches(self.dev, 64, (0,)):
            captions = torch.from_numpy(self.dev.padded(batch))
            features = torch.from_numpy(self.store.read(self._rows(self.dev, batch)))
            lesson = decoder.teach(decoder.see(features), captions)
            cost = soft_cost(decoder, lesson, captions, double_stochastic=0.0, label_smoothing=0.0)
            nats, words = nats + cost.nats, words + cost.words
        return nats / words

    def _log_step(self, cost: Cost, gradient_norm: float, captions: int, batches: int) -> None:
        tally, place = self.tally, self.place
        tally.add(cost, gradient_norm, captions)
        learning_rate = self.optimiser.param_groups[0]["lr"]
        event = {
            "step": place.step,
            "epoch": place.epoch + 1,
            "batch": place.batch,
            "batches": batches,
        }
        self._show({"event": "progress", **event, **tally.means()})
        if place.step % STEPS_A_LINE == 0 or place.batch == batches:
            self._announce(
                {"event": "step", **event, **tally.means(), "learning_rate": learning_rate}
            )
            self.tally = Tally()

    def _announce(self, event: Event) -> None:
        self.history.append(event)
        self._show(event)

    def _show(self, event: Event) -> None:
        for hear in self.watch:
            hear(event)

    def _facts(self) -> dict[str, Any]:
        return {
            "vocabulary": self.vocabulary.sha256,
            "features": self.store.index.model_dump(),
            "recipe": self.recipe.model_dump(),
            "start_from": self.began_with,
            "versions": versions(),
            "setup": setup(),
        }

    def _save(self) -> None:
        tensors, optimiser = checkpoint.pack({"optimiser": self.optimiser.state_dict()})
        tensors |= {f"decoder.{name}": tensor for name, tensor in self.decoder.state_dict().items()}
        tensors |= {f"average.{name}": tensor for name, tensor in (self.average or {}).items()}
        if self.is_hard:
            tensors["baseline"] = self.baseline.average
        meta = {**self._facts(), "place": asdict(self.place), "optimiser": optimiser}
        checkpoint.save(self.folder / LAST, tensors, meta)
        self.saved_at = time.monotonic()

    def _restore(self) -> None:
        tensors, meta, taken = checkpoint.load_newest(self.folder / LAST)
        check_vocabulary(self.folder, self.vocabulary, meta)
        check_features(
            self.folder, type(self.store.index).model_validate(meta["features"]), self.store
        )
        load_weights(self.decoder, _under("decoder.", tensors), taken)
        here = setup()
        others = {name: was for name, was in meta.get("setup", here).items() if was != here[name]}
        if others:
            changes = ", ".join(f"{name} {here[name]} instead of {others[name]}" for name in others)
            self.notes.append(
                f"resumed on another set-up ({changes}): the result will not be bit-identical to "
                "that of a run without a break"
            )
        self.place = Place(**meta["place"])
        self.began_with = meta.get("start_from", [])
        if self.is_hard:
            self.baseline.average = tensors["baseline"]
        self.optimiser.load_state_dict(checkpoint.unpack(tensors, meta["optimiser"])["optimiser"])
        if self.average is not None:
            self.average = _under("average.", tensors)


def _optimiser(decoder: Teachable, training: TrainingSection) -> torch.optim.Optimizer:
    named = list(decoder.named_parameters())
    groups = [
        {"params": parameters, "lr": rate, "first_lr": rate}
        for parameters, rate in (
            ([x for name, x in named if not is_fine_tuned(name)], training.learning_rate),
            ([x for name, x in named if is_fine_tuned(name)], training.fine_tuned_rate),
        )
        if parameters
    ]
    if training.optimiser == "adam":
        return torch.optim.Adam(groups, fused=True)
    # The authors' constants (Graves 2013): decay 0.95, momentum 0.9, centred, and their 1e-4 under
    # the root, which is 1e-2 beside it.
    return torch.optim.RMSprop(groups, alpha=0.95, eps=1e-2, momentum=0.9, centered=True)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)
    }
