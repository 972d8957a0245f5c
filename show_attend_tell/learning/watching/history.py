"""What happened in a run: one JSON object a line in `log.jsonl`, and its curves as a page."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from show_attend_tell.errors import UserError
from show_attend_tell.files import cannot_write, must_be_file, write_text
from show_attend_tell.report.curves import curves_page
from show_attend_tell.report.facts import Curves
from show_attend_tell.scoring import BLEU

Event = dict[str, Any]

MOST_POINTS = 400  # of a curve: more than its chart has room for


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

        That was made after so many steps and epochs; an epoch whose dev score was logged but not
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
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict) or "event" not in event:
            raise UserError(
                "data.log",
                f"{path}:{number}: not a JSON object with an event; remove the line and try again",
            )
        events.append(event)
    return events


def curves_of(events: Sequence[Event], best: int) -> Curves | None:
    """The losses and dev scores of a log by epochs; None before the first dev score.

    Parameters
    ----------
    events
        Of the log, in order.
    best
        The epoch whose weights are kept.
    """
    steps = [event for event in events if event.get("event") == "step"]
    devs = [event for event in events if event.get("event") == "dev"]
    if not devs:
        return None
    return Curves(
        training=[
            (event["epoch"] - 1 + event["batch"] / event["batches"], event["nats_per_word"])
            for event in steps[:: -(-len(steps) // MOST_POINTS) or 1]
        ],
        dev=[
            (event["epoch"], event["nats_per_word"]) for event in devs if "nats_per_word" in event
        ],
        scores={
            name: [(event["epoch"], event[name]) for event in devs]
            for name in BLEU
            if all(name in event for event in devs)
        },
        best=best,
    )


def draw_curves(events: Sequence[Event], best: int, path: Path) -> None:
    """Write the curves of a run as a page, `path` in its folder; nothing before they begin."""
    curves = curves_of(events, best)
    if curves:
        write_text(path, curves_page(path.resolve().parent.name, curves))


def _whole_lines(path: Path) -> Iterator[bytes]:
    try:
        with must_be_file(path).open("rb") as stream:
            yield from (line for line in stream if line.endswith(b"\n"))
    except OSError as error:
        raise UserError(
            "data.log", f"{path}: cannot be read ({error.strerror or error}); move it elsewhere"
        ) from error
