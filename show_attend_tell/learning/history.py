"""What happened in a run: one JSON object a line in `log.jsonl`, and its curves as a picture."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from show_attend_tell.errors import UserError
from show_attend_tell.files import cannot_write, write_atomically
from show_attend_tell.private import matplotlib_figure

Event = dict[str, Any]

_INK, _FAINT, _GRID = "#222222", "#777777", "#e4e4e4"
_TRAIN, _DEV = "#2a6f97", "#d1495b"
_BLEU = {"BLEU-1": "#a9d6e5", "BLEU-2": "#61a5c2", "BLEU-3": "#2a6f97", "BLEU-4": "#012a4a"}


class History:
    """The log of a run folder, opened to be continued.

    Each event is in the file when `append` returns; the line that a killed trainer was writing is
    cut off when the log is opened again.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log.jsonl"
        if self.path.exists():
            whole = sum(len(line) for line in _whole_lines(self.path))
            self._cut(whole)

    def append(self, event: Mapping[str, Any]) -> None:
        """Add one event."""
        line = json.dumps(event, ensure_ascii=False) + "\n"
        try:
            # Opened each time, so that closing it flushes it: about 20 µs a line.
            with self.path.open("ab") as stream:
                stream.write(line.encode())
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def truncate_after(self, step: int, epochs: int) -> None:
        """Forget what came after the checkpoint that the run goes on from.

        That was made after so many steps and epochs; an epoch whose dev score was told but not
        saved is scored again.
        """
        if not self.path.exists():
            return
        kept = 0
        for line, event in zip(_whole_lines(self.path), read(self.path), strict=True):
            is_unsaved_score = event.get("event") == "dev" and event["epoch"] > epochs
            if event.get("step", 0) > step or is_unsaved_score:
                break
            kept += len(line)
        self._cut(kept)

    def _cut(self, size_bytes: int) -> None:
        if self.path.stat().st_size > size_bytes:
            try:
                os.truncate(self.path, size_bytes)
            except OSError as error:
                raise cannot_write(self.path, error) from error


def read(path: Path) -> list[Event]:
    """Read a log's events in order, leaving out a last line that is still being written.

    Raises
    ------
    UserError
        `data.missing` or `data.log`, the latter with the number of the line that is no JSON object.
    """
    if not path.exists():
        raise UserError("data.missing", f"{path}: no such log; has the run begun?")
    events = []
    for number, line in enumerate(_whole_lines(path), start=1):
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            raise UserError(
                "data.log", f"{path}:{number}: not a JSON object; remove the line and try again"
            )
        events.append(event)
    return events


def draw_curves(events: Sequence[Event], path: Path) -> None:
    """Draw the losses and the dev scores, if captions were scored, of a run into a PNG file."""
    steps = [event for event in events if event.get("event") == "step"]
    devs = [event for event in events if event.get("event") == "dev"]
    drawings = [partial(_draw_losses, steps=steps, devs=devs)]
    if not devs or "BLEU-4" in devs[-1]:
        drawings.append(partial(_draw_scores, devs=devs))
    figure = matplotlib_figure()(figsize=(5.5 * len(drawings), 4.2), dpi=150, layout="constrained")
    for draw, axes in zip(
        drawings, figure.subplots(1, len(drawings), squeeze=False)[0], strict=True
    ):
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(_FAINT)
        axes.tick_params(colors=_FAINT, labelcolor=_INK)
        axes.grid(axis="y", color=_GRID)
        axes.set_axisbelow(True)
        axes.set_xlabel("epoch", color=_INK)
        draw(axes)
    write_atomically(path, lambda stream: figure.savefig(stream, format="png"))


def _draw_losses(axes: Any, steps: Sequence[Event], devs: Sequence[Event]) -> None:
    axes.set_title("Loss, nats per word", loc="left", color=_INK)
    if steps:
        at = [event["step"] for event in steps]
        nats = np.array([event["nats_per_word"] for event in steps], dtype=float)
        axes.plot(at, nats, color=_TRAIN, alpha=0.2, linewidth=0.8)
        axes.plot(at, _smooth(nats), color=_TRAIN, linewidth=2, label="training")
        # The first steps fall from log K; they would press the rest of the curve flat.
        axes.set_ylim(top=float(np.quantile(nats, 0.98)) + 0.3)
    told = [event for event in devs if "nats_per_word" in event]
    if told:
        at = [event["step"] for event in told]
        nats = np.array([event["nats_per_word"] for event in told], dtype=float)
        axes.plot(at, nats, "o-", color=_DEV, markersize=4, linewidth=2, label="dev")
    if steps or told:
        axes.legend(frameon=False, labelcolor=_INK)
    # An epoch ends at its dev score, so those steps carry the epochs' numbers.
    if devs:
        ticks = _thin(devs)
        axes.set_xticks([e["step"] for e in ticks], [str(e["epoch"]) for e in ticks])
    else:
        axes.set_xlabel("step", color=_INK)


def _draw_scores(axes: Any, devs: Sequence[Event]) -> None:
    axes.set_title("BLEU on the dev pictures, %", loc="left", color=_INK)
    if not devs:
        axes.set_xticks([])
        axes.set_yticks([])
        return
    epochs = [event["epoch"] for event in devs]
    best = [event for event in devs if event["best"]][-1]
    axes.axvline(best["epoch"], color=_DEV, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    for name, colour in _BLEU.items():
        values = [100 * event[name] for event in devs]
        axes.plot(epochs, values, "o-", color=colour, markersize=4, linewidth=2)
        axes.annotate(
            name,
            (epochs[-1], values[-1]),
            (8, 0),
            textcoords="offset points",
            va="center",
            color=_INK,
            fontsize=9,
        )
    peak = 100 * best["BLEU-4"]
    axes.plot(best["epoch"], peak, "o", color=_DEV, markersize=8, zorder=3)
    axes.annotate(
        f"best {peak:.1f}",
        (best["epoch"], peak),
        (0, -19),
        textcoords="offset points",
        ha="center",
        color=_DEV,
        fontweight="bold",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 2},
    )
    axes.set_ylim(bottom=0)
    axes.set_xlim(epochs[0] - 0.5, epochs[-1] + 0.5)
    axes.set_xticks([event["epoch"] for event in _thin(devs)])


def _thin(events: Sequence[Event]) -> Sequence[Event]:
    """Every k-th, so that at most ten are left."""
    return events[:: -(-len(events) // 10)]


def _smooth(values: Any) -> Any:
    """Mean over a window of a thirtieth of the run, cut short at both ends. values: (n,)."""
    window = np.ones(max(1, len(values) // 30))
    known = np.convolve(np.ones(len(values)), window, "same")
    return np.convolve(values, window, "same") / known


def _whole_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        yield from (line for line in stream if line.endswith(b"\n"))
