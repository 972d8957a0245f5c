"""TensorBoard hears what the log hears, also after a run goes on."""

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from show_attend_tell.learning.loop.trainer import train
from show_attend_tell.learning.watching.events import to_line
from show_attend_tell.learning.watching.history import read
from show_attend_tell.learning.watching.tensorboard import FOLDER, TensorBoard
from tests.tiny_world import make_store, tiny_recipe


def test_every_number_of_the_log_is_there(tmp_path: Path) -> None:
    store, _ = make_store(tmp_path / "store", train=48, dev=8)
    board = TensorBoard(tmp_path / "run")
    train(store, tmp_path / "run", tiny_recipe("training.epochs=2"), watch=[board])
    board.close()
    written = EventAccumulator(str(tmp_path / "run" / FOLDER)).Reload()
    logged = [to_line(event) for event in read(tmp_path / "run" / "log.jsonl")]
    for kind, name, number in (("step", "training", "nats_per_word"), ("dev", "dev", "BLEU-4")):
        expected = [(one["step"], one[number]) for one in logged if one["event"] == kind]
        found = [(one.step, one.value) for one in written.Scalars(f"{name}/{number}")]
        assert [step for step, _ in found] == [step for step, _ in expected]
        assert all(abs(a[1] - b[1]) < 1e-6 for a, b in zip(found, expected, strict=True))
