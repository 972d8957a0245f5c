"""The command `sat`: a verb for each act; a verb's code is imported only when it runs."""

from show_attend_tell.cli import captioning, results, scoring, training  # noqa: F401 (they add verbs)
from show_attend_tell.cli.app import app, main

__all__ = ["app", "main"]
