"""A run's events for TensorBoard, beside `log.jsonl`, which remains the run's own record."""

from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from show_attend_tell.learning.watching.events import Dev, Event, Start, Step, to_line

FOLDER = "tensorboard"
PLACES = {"event", "step", "epoch", "batch", "batches", "best"}  # where in the run, not what


class TensorBoard:
    """Writes the numbers of a run's events as they come."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER
        self.writer: SummaryWriter | None = None

    def __call__(self, event: Event) -> None:
        """Write the numbers of an event."""
        if isinstance(event, Start):
            # The steps that a killed trainer did after its last checkpoint come again.
            self.writer = SummaryWriter(self.folder, purge_step=event.step + 1)
        elif isinstance(event, Step | Dev) and self.writer:
            kind = "training" if isinstance(event, Step) else "dev"
            line = to_line(event)
            for name in line.keys() - PLACES:
                self.writer.add_scalar(f"{kind}/{name}", line[name], event.step)
            self.writer.flush()

    def close(self) -> None:
        """Close the file."""
        if self.writer:
            self.writer.close()
