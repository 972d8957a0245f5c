"""Ctrl-C and its kin, heard at the end of a step."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Asked:
    """Whether somebody wants the run to stop."""

    to_stop: bool = False


@contextmanager
def asked_to_stop() -> Iterator[Asked]:
    """Let Ctrl-C, SIGTERM and a closed terminal wait for the end of a step; a second does not."""
    asked = Asked()

    def hear(number: int, frame: FrameType | None) -> None:
        if asked.to_stop:
            raise KeyboardInterrupt
        asked.to_stop = True

    signals = [
        signal.SIGINT,
        signal.SIGTERM,
        *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []),
    ]
    before = {number: signal.signal(number, hear) for number in signals}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
