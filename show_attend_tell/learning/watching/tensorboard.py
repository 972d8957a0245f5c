"""A run's events for TensorBoard, beside `log.jsonl`, which stays the run's own memory."""

from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from show_attend_tell.learning.watching.history import Event

FOLDER = "tensorboard"
PLACES = {"event", "step", "epoch", "batch", "batches", "best"}  # where in the run, not what


class TensorBoard:
    """Hears the trainer's events and writes their numbers as they come."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER
        self.writer: SummaryWriter | None = None

    def __call__(self, event: Event) -> None:
        """Hear an event of the trainer."""
        if event["event"] == "start":
            # What a killed trainer wrote after its last checkpoint is told again.
            self.writer = SummaryWriter(self.folder, purge_step=event["step"] + 1)
        elif event["event"] in ("step", "dev") and self.writer:
            kind = "training" if event["event"] == "step" else "dev"
            for name in event.keys() - PLACES:
                self.writer.add_scalar(f"{kind}/{name}", event[name], event["step"])
            self.writer.flush()

    def close(self) -> None:
        """Close the file."""
        if self.writer:
            self.writer.close()
