"""The events of a run and of a study: what the trainer and the tuner report to watchers.

Start, Step, Dev and Stop are also the lines of `log.jsonl`; the others are not kept.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, TypeAlias


@dataclass(frozen=True)
class Start:
    """Training begins, or resumes after `step` updates and `epoch` epochs."""

    event: ClassVar[str] = "start"
    step: int
    epoch: int
    words: int  # in the vocabulary
    captions: int
    parameters: int
    batches_per_epoch: int
    epochs: int
    threads: int
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Progress:
    """A step is done; the means are those of the `Step` to come."""

    event: ClassVar[str] = "progress"
    step: int
    epoch: int
    batch: int
    batches: int
    nats_per_word: float
    captions_per_second: float


@dataclass(frozen=True)
class Step:
    """Means over the steps since the `Step` before."""

    event: ClassVar[str] = "step"
    step: int
    epoch: int
    batch: int
    batches: int
    nats_per_word: float
    penalty_excess: float
    penalty_floor: float
    entropy_nats: float
    advantage_nats: float
    reward: float
    gradient_norm: float
    captions_per_second: float
    learning_rate: float


@dataclass(frozen=True)
class Dev:
    """The dev scores of an epoch."""

    event: ClassVar[str] = "dev"
    step: int
    epoch: int
    scores: dict[str, float]  # by metric; in the log they stand beside the other numbers
    nats_per_word: float
    words_per_caption: float
    unique_captions: int
    seconds: float
    best: bool


@dataclass(frozen=True)
class Stop:
    """Training has ended."""

    event: ClassVar[str] = "stop"
    step: int
    reason: str


@dataclass(frozen=True)
class TrialStart:
    """A trial of a study begins, or resumes."""

    event: ClassVar[str] = "trial"
    trial: int
    values: dict[str, Any]  # by `section.key`


@dataclass(frozen=True)
class TrialEnd:
    """A trial of a study has ended."""

    event: ClassVar[str] = "judged"
    trial: int
    outcome: str
    score: float | None
    epochs: int
    why: str
    metric: str
    best: bool


LogEvent: TypeAlias = Start | Step | Dev | Stop
Event: TypeAlias = LogEvent | Progress | TrialStart | TrialEnd
Watch: TypeAlias = Callable[[Event], None]

LOGGED: tuple[type[LogEvent], ...] = (Start, Step, Dev, Stop)


def to_line(event: LogEvent) -> dict[str, Any]:
    """An event as the JSON object of its line in the log.

    >>> to_line(Stop(step=9, reason="all 3 epochs are done"))
    {'event': 'stop', 'step': 9, 'reason': 'all 3 epochs are done'}
    """
    line: dict[str, Any] = {"event": event.event}
    for name, value in asdict(event).items():
        line |= value if name == "scores" else {name: value}
    return line


def from_line(line: dict[str, Any]) -> LogEvent:
    """The event of a line of the log; a KeyError or TypeError where it is none."""
    kind = {kind.event: kind for kind in LOGGED}[line["event"]]
    names = [one.name for one in fields(kind)]
    values = {name: line[name] for name in names if name in line}
    if kind is Dev:
        values["scores"] = {k: v for k, v in line.items() if k not in (*names, "event")}
    return kind(**values)
