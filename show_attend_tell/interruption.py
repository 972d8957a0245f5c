"""Ctrl-C and other requests to stop, handled at the end of a step."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_HANGUP = getattr(signal, "SIGHUP", None)  # not on Windows


@dataclass
class Asked:
    """Whether the run was asked to stop."""

    to_stop: bool = False


@contextmanager
def asked_to_stop() -> Iterator[Asked]:
    """Let Ctrl-C, SIGTERM and a closed terminal wait for the end of a step; a second does not."""
    asked = Asked()
    on_terminal = [number for number in (1, 2) if os.isatty(number)]

    def handle(number: int, frame: FrameType | None) -> None:
        if number == _HANGUP:
            _fall_silent(on_terminal)
        if asked.to_stop:
            raise KeyboardInterrupt
        asked.to_stop = True

    signals = [signal.SIGINT, signal.SIGTERM, *([_HANGUP] if _HANGUP else [])]
    before = {number: signal.signal(number, handle) for number in signals}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _fall_silent(handles: list[int]) -> None:
    """Discard further output to a closed terminal, which would fail before the state is saved."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in handles:
        os.dup2(nowhere, number)
    os.close(nowhere)
