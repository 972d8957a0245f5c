"""Messages and progress in a terminal."""

import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from show_attend_tell.errors import UserError, counted, printable
from show_attend_tell.files import cannot_write
from show_attend_tell.learning.watching import events
from show_attend_tell.learning.watching.events import Dev, Event, Start, Stop, TrialEnd, TrialStart


class _QuietConsole(Console):
    """A console that goes on where messages cannot be written."""

    def print(self, *objects: Any, **options: Any) -> None:
        try:
            super().print(*objects, **options)
        except OSError as error:
            if not self.stderr:
                raise output_failed(error) from error
            _send_nowhere(sys.stderr)

    def on_broken_pipe(self) -> None:
        if self.stderr:
            _send_nowhere(sys.stderr)
        else:
            _end_quietly()


def console(*, stderr: bool = False) -> Console:
    """Results go to standard output, everything else to standard error."""
    return _QuietConsole(stderr=stderr, highlight=False)


def plain(text: str | Path) -> str:
    """Text of others made harmless for a console: no control characters, no markup."""
    return escape(printable(str(text)))


def say_where(what_is_in: str, path: Path) -> None:
    """Print on standard error where a result is, on one line, so that it can be copied."""
    console(stderr=True).print(f"{what_is_in} [bold]{plain(path)}[/]", soft_wrap=True)


def remark(text: str) -> None:
    """Print a note on standard error."""
    console(stderr=True).print(f"[dim]{plain(text)}[/]", soft_wrap=True)


def complain(error: UserError) -> None:
    """Print an error on standard error; cheap, for there may be a hundred thousand."""
    in_colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    who = "\x1b[1;31msat:\x1b[0m" if in_colour else "sat:"
    try:
        print(who, printable(str(error)), file=sys.stderr, flush=True)
    except OSError:
        _send_nowhere(sys.stderr)


def print_json(value: Any) -> None:
    """For machines, on standard output."""
    print_line(json.dumps(value, ensure_ascii=not _speaks_unicode(), indent=1))


def print_line(text: str) -> None:
    """A line of a result; it has left before the next one begins."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _end_quietly()
    except OSError as error:
        raise output_failed(error) from error


def _speaks_unicode() -> bool:
    """Whether standard output takes every character; under some locales it does not."""
    return (sys.stdout.encoding or "").lower().startswith("utf")


def output_failed(error: OSError) -> UserError:
    """The error for standard output that is full or closed; what was to go there is lost."""
    _send_nowhere(sys.stdout)
    return cannot_write(Path("standard output"), error)


def output_works() -> bool:
    """Whether standard output takes a line."""
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except OSError:
        return False
    return True


def _end_quietly() -> NoReturn:
    """Exit silently when standard output is not read any more, as before `| head`."""
    _send_nowhere(sys.stdout)
    sys.exit(0)


def _send_nowhere(stream: TextIO) -> None:
    """Let what is still in a buffer go nowhere, instead of failing at the very end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(42), duration(300), duration(7500)
    ('42 seconds', '5 minutes', '2.1 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.1f}/s" if task.speed else "")


def progress(*more: ProgressColumn, shown: bool = True) -> Progress:
    """A bar with count, rate and time left on a terminal; nothing in a pipe."""
    where = console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        *more,
        TimeRemainingColumn(),
        console=where,
        disable=not (shown and where.is_terminal),
        redirect_stdout=False,  # results may go elsewhere than to this terminal
    )


class TrainingProgress:
    """Shows a run as it trains: a progress bar for each epoch, and a line with its dev scores."""

    def __init__(self, say: Console) -> None:
        self.say = say
        self.bar = progress(TextColumn("{task.fields[loss]}"))
        self.task: Any = None

    def __call__(self, event: Event) -> None:
        """Show an event of the trainer."""
        if isinstance(event, Start):
            self._begin(event)
        elif isinstance(event, events.Progress):
            self._advance(event)
        elif isinstance(event, Dev):
            self._end_epoch(event)
        elif isinstance(event, Stop):
            self.say.print(f"stopped: {event.reason}")

    def _begin(self, event: Start) -> None:
        self.say.print(
            f"{counted(event.captions, 'caption')}, {counted(event.words, 'word')}, "
            f"{event.parameters / 1e6:.1f} million parameters, {counted(event.threads, 'thread')}"
        )
        for note in event.notes:
            remark(note)
        if event.step:
            self.say.print(f"resuming after step {event.step:,} (epoch {event.epoch + 1})")
        self.bar.start()

    def _advance(self, event: events.Progress) -> None:
        speed = f"{event.captions_per_second:.0f} captions/s"
        loss = f"loss {event.nats_per_word:.3f} nats a word, {speed}"
        if self.task is None:
            self.task = self.bar.add_task(
                f"epoch {event.epoch}", total=event.batches, completed=event.batch, loss=loss
            )
        self.bar.update(self.task, completed=event.batch, loss=loss)

    def _end_epoch(self, event: Dev) -> None:
        if self.task is not None:
            self.bar.remove_task(self.task)
            self.task = None
        bleu = " ".join(f"{100 * event.scores[f'BLEU-{n}']:5.2f}" for n in range(1, 5))
        self.say.print(
            f"epoch {event.epoch:2d}  dev BLEU-1..4 {bleu}  "
            f"loss {event.nats_per_word:.3f} nats a word  "
            f"{event.words_per_caption:.1f} words a caption"
            + ("  [bold green]best[/]" if event.best else "")
        )

    def close(self) -> None:
        """Remove the progress bar."""
        self.bar.stop()


class TuningProgress(TrainingProgress):
    """Shows a study: the values of each trial, how it trains, and how it ended."""

    def __call__(self, event: Event) -> None:
        """Show an event of the tuner, or of the trainer within."""
        if isinstance(event, TrialStart):
            values = " ".join(
                f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
                for key, value in event.values.items()
            )
            self.say.print(f"[bold]trial {event.trial}[/]  {plain(values)}", soft_wrap=True)
        elif isinstance(event, TrialEnd):
            reached = (
                f" after epoch {event.epochs}, dev {event.metric} {event.score:.4f}"
                if event.epochs
                else ""
            )
            self.say.print(
                f"trial {event.trial} {event.outcome}{reached}"
                + ("  [bold green]best[/]" if event.best else "")
                + (f": {plain(event.why)}" if event.why else ""),
                soft_wrap=True,
            )
        else:
            super().__call__(event)
