"""The training loop, with early stopping on a score of generated dev captions.

The BLEU that stops by default has its brevity penalty, unlike the paper's scores: without it a
model that says six words of everything is hard to beat (docs/log.md).

A run can be killed at any moment and resumes bit-identically: everything random is drawn from the
seed and the number of the step or epoch, so the state is weights, optimiser, average and a place.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from show_attend_tell.data.batches import Batch
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import UserError, counted
from show_attend_tell.files import RunLock, write_text
from show_attend_tell.interruption import Asked, asked_to_stop
from show_attend_tell.learning.loop import checkpoint
from show_attend_tell.learning.loop.dev import score_dev
from show_attend_tell.learning.loop.feed import Feed
from show_attend_tell.learning.loop.optimiser import (
    WeightAverage,
    make_optimiser,
    set_learning_rate,
)
from show_attend_tell.learning.objectives.likelihood import Cost
from show_attend_tell.learning.objectives.objective import Objective
from show_attend_tell.learning.recipe import Recipe, VocabularySection
from show_attend_tell.learning.run import (
    BEST,
    LAST,
    RECIPE,
    VOCABULARY,
    check_features,
    check_vocabulary,
    decoder_for,
    differences,
    load_weights,
    open_folder,
    setup,
    versions,
    weights_to_begin_with,
)
from show_attend_tell.learning.watching.doubts import doubts
from show_attend_tell.learning.watching.events import (
    Dev,
    Event,
    LogEvent,
    Progress,
    Start,
    Step,
    Stop,
    Watch,
)
from show_attend_tell.learning.watching.history import History, draw_curves, read
from show_attend_tell.learning.watching.tally import Tally
from show_attend_tell.scoring.measure import check_metrics

SILENT = 5e-5  # dev scores below it are shown as 0.00 and are noise: there the loss decides
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

    def is_better(self, score: float, nats: float) -> bool:
        """Whether these dev results are better than the best so far."""
        if self.best_nats is not None and max(score, self.best_score) < SILENT:
            return nats < self.best_nats
        return score > self.best_score


def train(
    store: FeatureStore,
    folder: Path,
    recipe: Recipe | None,
    *,
    resume: bool = False,
    start_from: Path | None = None,
    watch: Sequence[Watch] = (),
) -> None:
    """Train a model into a run folder, or resume a run.

    Parameters
    ----------
    store
        The prepared data set; every picture that `sat prepare` could read must be done.
    folder
        The run folder; made if it is not there.
    recipe
        What to train; when resuming, None for the run's own.
    resume
        Resume the run in the folder; without it a folder that holds a run is refused.
    start_from
        Another run whose best weights a new run begins with, such as a soft one for a hard one.
    watch
        Each is called with every event of the run.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C or SIGTERM, once the state is saved.
    UserError
        What a person can mend; the state on disk is the last good one.
    """
    recipe, is_new = open_folder(store, folder, recipe, resume)
    # A metric whose data is not installed should not be found out after the first epoch.
    check_metrics([recipe.training.stop_on])
    with RunLock(folder):
        trainer = Trainer(store, folder, recipe, watch)
        if is_new:
            trainer.begin(start_from)
        else:
            trainer.resume()
        trainer.run()


def vocabulary_of(store: FeatureStore, words: VocabularySection) -> Vocabulary:
    """The vocabulary of the training captions."""
    vocabulary = Vocabulary.build(
        (caption for row in store.rows("train") for caption in store.examples[row].captions),
        size=words.size,
        minimum_count=words.minimum_count,
        punctuation=words.punctuation,
    )
    if len(vocabulary) <= 2:  # the end word and the unknown one
        raise UserError(
            "data.vocabulary",
            f"{store.folder}: no word of the training captions is in the vocabulary; lower "
            f"vocabulary.minimum_count ({words.minimum_count}) or raise vocabulary.size "
            f"({words.size})",
        )
    return vocabulary


class Trainer:
    """One run: `begin` or `resume` it, then `run` it."""

    def __init__(
        self, store: FeatureStore, folder: Path, recipe: Recipe, watch: Sequence[Watch]
    ) -> None:
        self.store, self.folder, self.recipe, self.watch = store, folder, recipe, watch
        self.vocabulary = vocabulary_of(store, recipe.vocabulary)
        self.feed = Feed(store, "train", self.vocabulary, recipe)
        self.dev = Feed(store, "dev", self.vocabulary, recipe)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.training.seed)
            self.decoder = decoder_for(recipe.model, store.index, len(self.vocabulary))
        self.objective = Objective(self.decoder, recipe, store, self.vocabulary)
        self.optimiser = make_optimiser(self.decoder, recipe.training)
        self.average = WeightAverage(self.decoder, recipe.training.average)
        self.place = Place()
        self.began_with: list[str] = []
        self.notes = doubts(self.feed.captions, len(store.rows("dev")), recipe.vocabulary)
        self.saved_at = time.monotonic()
        self.tally = Tally()
        self.history = History(folder)

    def begin(self, start_from: Path | None) -> None:
        """Write a new run's first state, whose weights may be another run's best."""
        if start_from:
            weights = weights_to_begin_with(start_from, self.decoder, self.store, self.vocabulary)
            self.decoder.load_state_dict(weights)
            self.average = WeightAverage(self.decoder, self.recipe.training.average)
            self.began_with = [str(start_from)]
        self.vocabulary.save(self.folder / VOCABULARY)
        self._save()
        # Last: it says that the rest is there.
        write_text(self.folder / RECIPE, self.recipe.to_toml())

    def resume(self) -> None:
        """Read the state that the run was saved in."""
        tensors, meta, path = checkpoint.load_newest(self.folder / LAST)
        check_vocabulary(self.folder, self.vocabulary, meta)
        trained_on = type(self.store.index).model_validate(meta["features"])
        check_features(self.folder, trained_on, self.store)
        load_weights(self.decoder, _under("decoder.", tensors), path)
        here = setup()
        if changes := ", ".join(differences(here, meta.get("setup", here))):
            self.notes.append(
                f"resumed on another set-up ({changes}): the result will not be bit-identical to "
                "that of a run without a break"
            )
        self.place = Place(**meta["place"])
        self.began_with = meta.get("start_from", [])
        if self.objective.baseline:
            self.objective.baseline.average = tensors["baseline"]
        self.optimiser.load_state_dict(checkpoint.unpack(tensors, meta["optimiser"])["optimiser"])
        self.average.tensors = _under("average.", tensors)

    def run(self) -> None:
        """Train until there is a reason to stop."""
        place = self.place
        self.history.truncate_after(place.step, place.epoch)
        self._log(
            Start(
                step=place.step,
                epoch=place.epoch,
                words=len(self.vocabulary),
                captions=len(self.feed.captions.words),
                parameters=sum(p.numel() for p in self.decoder.parameters()),
                batches_per_epoch=len(self.feed.epoch(0)),
                epochs=self.recipe.training.epochs,
                threads=torch.get_num_threads(),
                notes=self.notes,
            )
        )
        with asked_to_stop() as asked:
            while not (reason := self._reason_to_stop()):
                self._epoch(asked)
                self._judge()
            self._save()  # each state is saved before its dev score; the last one with it
        self._log(Stop(step=place.step, reason=reason))
        if asked.to_stop:  # while the last epoch was scored: the caller must know
            raise KeyboardInterrupt

    def _reason_to_stop(self) -> str:
        training, place = self.recipe.training, self.place
        is_scored = place.best_score >= SILENT
        if is_scored and place.epoch - place.best_epoch >= training.patience:
            return f"dev {training.stop_on} has not risen for {counted(training.patience, 'epoch')}"
        if place.epoch >= training.epochs:
            count = training.epochs
            done = "the only epoch is done" if count == 1 else f"all {count} epochs are done"
            unscored = f"; dev {training.stop_on} stayed at 0.00, so the dev loss chose the best"
            return done + ("" if is_scored else unscored)
        return ""

    def _epoch(self, asked: Asked) -> None:
        """Every batch of this epoch that is not done yet; the state is saved at its end.

        What a kill can cost is counted from there, so an epoch is scored once more rather than
        saved again after its score.
        """
        place = self.place
        order = self.feed.epoch(place.epoch)
        set_learning_rate(self.optimiser, self.recipe.training, place.epoch)
        for batch in order[place.batch :]:
            cost, gradient_norm = self._step(batch)
            place.step += 1
            place.batch += 1
            self._log_step(cost, gradient_norm, len(batch), len(order))
            overdue = time.monotonic() - self.saved_at > self.recipe.training.save_minutes * 60
            if overdue or asked.to_stop or place.batch == len(order):
                self._save()
            if asked.to_stop:
                raise KeyboardInterrupt

    def _step(self, batch: Batch) -> tuple[Cost, float]:
        """Update the weights; the batch's cost and the norm of its gradient."""
        training, step = self.recipe.training, self.place.step
        features = self.feed.augmented_features(batch, step)
        rng = torch.Generator().manual_seed(training.seed * 1_000_003 + step)
        self.optimiser.zero_grad()
        cost = self.objective.cost(features, self.feed.words(batch), self.feed.rows(batch), rng)
        cost.loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.decoder.parameters(), training.clip or math.inf)
        self._check_finite(cost, float(norm))
        self.optimiser.step()
        self.average.update(self.decoder, step)
        return cost, float(norm)

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

    def _judge(self) -> None:
        """Score the epoch on dev; keep the weights if they are the best so far."""
        begin = time.perf_counter()
        place = self.place
        judged = decoder_for(self.recipe.model, self.store.index, len(self.vocabulary))
        judged.load_state_dict(self.average.tensors or self.decoder.state_dict())
        judged.eval()
        found = score_dev(judged, self.dev, self.vocabulary, self.folder, place.epoch + 1)
        place.epoch, place.batch = place.epoch + 1, 0
        score, nats = found.scores[self.recipe.training.stop_on], found.nats_per_word
        if place.is_better(score, nats):
            place.best_score, place.best_epoch, place.best_nats = score, place.epoch, nats
            figures = asdict(found)
            facts = {**self._facts(), "epoch": place.epoch, **figures.pop("scores"), **figures}
            checkpoint.save(self.folder / BEST, judged.state_dict(), facts)
        seconds, is_best = time.perf_counter() - begin, place.best_epoch == place.epoch
        self._log(Dev(place.step, place.epoch, **vars(found), seconds=seconds, best=is_best))
        draw_curves(read(self.history.path), place.best_epoch, self.folder / "curves.html")

    def _log_step(self, cost: Cost, gradient_norm: float, captions: int, batches: int) -> None:
        self.tally.add(cost, gradient_norm, captions)
        means, place = self.tally.means(), self.place
        epoch, batch = place.epoch + 1, place.batch
        nats, speed = means["nats_per_word"], means["captions_per_second"]
        self._show(Progress(place.step, epoch, batch, batches, nats, speed))
        if place.step % STEPS_A_LINE == 0 or place.batch == batches:
            rate = self.optimiser.param_groups[0]["lr"]
            self._log(Step(place.step, epoch, batch, batches, **means, learning_rate=rate))
            self.tally = Tally()

    def _log(self, event: LogEvent) -> None:
        self.history.append(event)
        self._show(event)

    def _show(self, event: Event) -> None:
        for watch in self.watch:
            watch(event)

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
        tensors |= {f"average.{name}": tensor for name, tensor in self.average.tensors.items()}
        if self.objective.baseline:
            tensors["baseline"] = self.objective.baseline.average
        meta = {**self._facts(), "place": asdict(self.place), "optimiser": optimiser}
        checkpoint.save(self.folder / LAST, tensors, meta)
        self.saved_at = time.monotonic()


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)
    }
