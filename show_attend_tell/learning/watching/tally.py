"""The means of a line of the log, over the steps since the line before."""

import time
from typing import Any

from show_attend_tell.learning.objectives.likelihood import Cost


class Tally:
    """Means of the terms of the loss since the last line of the log."""

    def __init__(self) -> None:
        self.begin = time.perf_counter()
        self.nats = self.words = self.penalty = self.floor = self.norm = 0.0
        self.entropy = self.advantage = self.reward = 0.0
        self.captions = self.steps = 0

    def add(self, cost: Cost, gradient_norm: float, captions: int) -> None:
        """Count a step."""
        self.nats += cost.nats
        self.words += cost.words
        self.penalty += cost.penalty
        self.floor += cost.floor
        self.entropy += cost.entropy
        self.advantage += cost.advantage
        self.reward += cost.reward
        self.norm += gradient_norm
        self.captions += captions
        self.steps += 1

    def means(self) -> dict[str, Any]:
        """The numbers of a `Step`, by its names."""
        return {
            "nats_per_word": self.nats / self.words,
            "penalty_excess": (self.penalty - self.floor) / self.steps,
            "penalty_floor": self.floor / self.steps,
            "entropy_nats": self.entropy / self.words,
            "advantage_nats": self.advantage / self.steps,
            "reward": self.reward / self.steps,
            "gradient_norm": self.norm / self.steps,
            "captions_per_second": self.captions / (time.perf_counter() - self.begin),
        }
