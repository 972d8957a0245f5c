"""The log survives a kill and forgets what a resumed run does again; its curves can be drawn."""

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from show_attend_tell.errors import UserError
from show_attend_tell.learning.watching.events import Dev, LogEvent, Start, Step, Stop, to_line
from show_attend_tell.learning.watching.history import History, curves_of, draw_curves, read

START = Start(0, 0, 9, 9, 9, 9, 1, 1, ["Zoë"])
STOP = Stop(9, "all is done")


def step(number: int, batch: int = 1, batches: int = 9, epoch: int = 1) -> Step:
    nats = 3.0 + 1 / (1 + number)
    return Step(number, epoch, batch, batches, nats, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


def dev(number: int, epoch: int) -> Dev:
    scores = {f"BLEU-{n}": 0.6 / n - abs(epoch - 2) / 100 for n in range(1, 5)}
    return Dev(number, epoch, scores, 3.1, 9.0, 9, 1.0, best=epoch <= 2)


def test_events_come_back_in_order_from_a_reopened_log(tmp_path: Path) -> None:
    History(tmp_path).append(START)
    History(tmp_path).append(step(1))
    assert read(tmp_path / "log.jsonl") == [START, step(1)]


def test_an_event_is_readable_as_soon_as_it_is_appended(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.append(step(1))
    assert read(history.path) == [step(1)]


def test_every_cut_of_the_last_line_leaves_the_lines_before_it(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.append(step(1))
    first = history.path.read_bytes()
    history.append(step(2))
    both = history.path.read_bytes()
    for size in range(len(first), len(both)):
        history.path.write_bytes(both[:size])
        History(tmp_path).append(step(3))
        assert read(history.path) == [step(1), step(3)]


def test_a_line_being_written_is_left_out_when_reading(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(to_line(STOP)) + '\n{"event": "st', "utf-8")
    assert read(path) == [STOP]


def test_truncate_after_drops_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    history = History(tmp_path)
    events = [START, step(1), step(2), dev(2, 1), step(3), STOP]
    for event in events:
        history.append(event)
    history.truncate_after(2, epochs=1)
    assert read(history.path) == events[:4]


def test_a_dev_score_that_was_logged_but_not_saved_is_forgotten(tmp_path: Path) -> None:
    history = History(tmp_path)
    for event in (step(1), step(2), dev(2, 1)):
        history.append(event)
    history.truncate_after(2, epochs=0)  # the epoch's checkpoint was made before its score
    assert read(history.path) == [step(1), step(2)]


def test_truncate_after_keeps_all_when_nothing_came_after(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.append(step(1))
    history.truncate_after(1, epochs=0)
    assert read(history.path) == [step(1)]


def test_truncate_after_of_a_new_log_does_nothing(tmp_path: Path) -> None:
    History(tmp_path).truncate_after(0, epochs=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    ["not json", "[1]", '{"a": ', '{"step": 3}', '{"event": "dev"}', '{"event": 1}', "[" * 100_000],
)
def test_a_damaged_line_is_named_by_number(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(to_line(STOP)) + "\n" + line + "\n", "utf-8")
    with pytest.raises(UserError, match=r"log\.jsonl:2: not an event") as caught:
        read(path)
    assert caught.value.code == "data.log"


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such log") as caught:
        read(tmp_path / "log.jsonl")
    assert caught.value.code == "data.missing"


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    history = History(tmp_path)
    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(UserError) as caught:
        history.append(step(1))
    assert caught.value.code == "disk.full"


def test_curves_are_points_by_epochs_and_parts_of_them() -> None:
    curves = curves_of([step(1, 1, 4), step(4, 4, 4), dev(4, 1), step(6, 2, 4, 2)], best=1)
    assert curves is not None
    assert [round(x, 2) for x, _ in curves.training] == [0.25, 1.0, 1.5]
    assert curves.dev == [(1, 3.1)]
    assert [name for name, _ in curves.scores.items()] == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4"]
    assert curves.best == 1


def test_of_a_long_run_the_curve_has_no_more_points_than_room() -> None:
    curves = curves_of([*(step(i, i, 9999) for i in range(9999)), dev(9999, 1)], best=1)
    assert curves is not None
    assert 200 <= len(curves.training) <= 400


def test_before_the_first_epoch_has_ended_there_are_no_curves(tmp_path: Path) -> None:
    assert curves_of([step(1)], best=0) is None
    draw_curves([step(1)], 0, tmp_path / "curves.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "events",
    [
        [dev(10, 1)],
        [step(5), dev(10, 1)],
        [event for e in range(1, 31) for event in (step(10 * e, 1, 1, e), dev(10 * e, e))],
    ],
    ids=["one dev", "one step", "thirty epochs"],
)
def test_curves_are_drawn_from_any_part_of_a_run(events: list[LogEvent], tmp_path: Path) -> None:
    path = tmp_path / "soft <1>" / "curves.html"
    path.parent.mkdir()
    draw_curves(events, 1, path)
    source = path.read_text("utf-8")
    assert "<h1>soft &lt;1&gt;</h1>" in source
    assert source.count('<svg class="chart"') == 2
    assert "epoch 1, kept" in source
    assert "nan" not in source
    assert list(path.parent.iterdir()) == [path]


def test_a_run_without_scores_has_its_losses_drawn_alone(tmp_path: Path) -> None:
    draw_curves([step(1), replace(dev(1, 1), scores={})], 1, tmp_path / "curves.html")
    assert (tmp_path / "curves.html").read_text("utf-8").count('<svg class="chart"') == 1


def test_curves_need_no_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    draw_curves([step(1), dev(1, 1)], 1, tmp_path / "curves.html")
    assert (tmp_path / "curves.html").exists()


def test_settings_of_matplotlib_in_the_working_folder_are_not_taken(tmp_path: Path) -> None:
    """Among them is one that starts LaTeX on what is drawn."""
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\n")
    program = (
        "from show_attend_tell.private import matplotlib_figure; matplotlib_figure(); "
        "import matplotlib; print(matplotlib.rcParams['text.usetex'])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
