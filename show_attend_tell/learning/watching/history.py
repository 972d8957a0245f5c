"""What happened in a run: one JSON object a line in `log.jsonl`, and its curves as a page."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from show_attend_tell.errors import UserError
from show_attend_tell.files import cannot_write, regular_file, write_text
from show_attend_tell.learning.watching.events import Dev, LogEvent, Step, from_line, to_line
from show_attend_tell.report.curves import curves_page
from show_attend_tell.report.facts import Curves
from show_attend_tell.scoring import BLEU

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

    def append(self, event: LogEvent) -> None:
        """Add one event."""
        line = json.dumps(to_line(event), ensure_ascii=False) + "\n"
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
            is_unsaved_score = isinstance(event, Dev) and event.epoch > epochs
            if event.step > step or is_unsaved_score:
                break
            kept += len(line)
        self._cut(kept)

    def _cut(self, size_bytes: int) -> None:
        if self.path.stat().st_size > size_bytes:
            try:
                os.truncate(self.path, size_bytes)
            except OSError as error:
                raise cannot_write(self.path, error) from error


def read(path: Path) -> list[LogEvent]:
    """Read a log's events in order, leaving out a last line that is still being written.

    Raises
    ------
    UserError
        `data.missing` or `data.log`, the latter with the number of the line that is no event.
    """
    if not path.exists():
        raise UserError("data.missing", f"{path}: no such log; has the run begun?")
    events = []
    for number, line in enumerate(_whole_lines(path), start=1):
        try:
            events.append(from_line(json.loads(line)))
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise UserError(
                "data.log",
                f"{path}:{number}: not an event of a run as JSON; remove the line and try again",
            ) from error
    return events


def curves_of(events: Sequence[LogEvent], best: int) -> Curves | None:
    """The losses and dev scores of a log by epochs; None before the first dev score.

    Parameters
    ----------
    events
        Of the log, in order.
    best
        The epoch whose weights are kept.
    """
    steps = [event for event in events if isinstance(event, Step)]
    devs = [event for event in events if isinstance(event, Dev)]
    if not devs:
        return None
    return Curves(
        training=[
            (step.epoch - 1 + step.batch / step.batches, step.nats_per_word)
            for step in steps[:: -(-len(steps) // MOST_POINTS) or 1]
        ],
        dev=[(dev.epoch, dev.nats_per_word) for dev in devs],
        scores={
            name: [(dev.epoch, dev.scores[name]) for dev in devs]
            for name in BLEU
            if all(name in dev.scores for dev in devs)
        },
        best=best,
    )


def draw_curves(events: Sequence[LogEvent], best: int, path: Path) -> None:
    """Write the curves of a run as a page, `path` in its folder; nothing before the first score."""
    curves = curves_of(events, best)
    if curves:
        write_text(path, curves_page(path.resolve().parent.name, curves))


def _whole_lines(path: Path) -> Iterator[bytes]:
    try:
        with regular_file(path).open("rb") as stream:
            yield from (line for line in stream if line.endswith(b"\n"))
    except OSError as error:
        raise UserError(
            "data.log", f"{path}: cannot be read ({error.strerror or error}); move it elsewhere"
        ) from error
