"""Checkpoints: exact round trips, all damage noticed, failed writes survived, one trainer a run."""

import errno
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from show_attend_tell.errors import UserError
from show_attend_tell.files import RunLock
from show_attend_tell.learning.loop.checkpoint import (
    load,
    load_newest,
    pack,
    previous_of,
    save,
    unpack,
)
from tests.faults import failing_call

ROOT = Path(__file__).resolve().parents[1]


def write(path: Path, step: int) -> None:
    save(path, {"weight": torch.full((5, 7), float(step))}, {"step": step, "name": "Zoë"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two saves: step 1 in the older file, step 2 in the newer."""
    path = tmp_path / "last.safetensors"
    write(path, 1)
    write(path, 2)
    return path


def refusal(path: Path) -> UserError:
    with pytest.raises(UserError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    return caught.value


# --- round trips ---


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 4),
        torch.tensor(2.5, dtype=torch.float64),
        torch.arange(4),
        torch.zeros(0, 3),
        torch.tensor([True, False]),
        torch.randn(4, 3).T,
        torch.get_rng_state(),
        torch.nn.Parameter(torch.ones(2)),
    ],
    ids=["matrix", "scalar", "integers", "empty", "booleans", "transposed", "random", "parameter"],
)
def test_a_tensor_comes_back_exactly(tensor: torch.Tensor, tmp_path: Path) -> None:
    save(tmp_path / "a.safetensors", {"x": tensor}, {})
    found = load(tmp_path / "a.safetensors")[0]["x"]
    assert found.dtype == tensor.dtype
    assert found.shape == tensor.shape
    assert torch.equal(found, tensor)


def test_meta_comes_back_exactly(tmp_path: Path) -> None:
    meta = {"recipe": 'sha256":"' + "0" * 64, "rate": 0.1 + 0.2, "none": None, "words": ["Zoë"]}
    save(tmp_path / "a.safetensors", {}, meta)
    assert load(tmp_path / "a.safetensors")[1] == meta


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.RMSprop])
def test_an_optimiser_goes_on_exactly_where_it_was(kind: Any, tmp_path: Path) -> None:
    def advance(weight: torch.Tensor, optimiser: torch.optim.Optimizer) -> None:
        optimiser.zero_grad()
        (weight.square().sum() + weight.sum()).backward()
        optimiser.step()

    weight = torch.nn.Parameter(torch.arange(6.0))
    optimiser = kind([weight], lr=0.1)
    advance(weight, optimiser)
    tensors, rest = pack({"optimiser": optimiser.state_dict(), "weight": weight})
    save(tmp_path / "a.safetensors", tensors, {"state": rest})
    advance(weight, optimiser)

    tensors, meta = load(tmp_path / "a.safetensors")
    state = unpack(tensors, meta["state"])
    resumed = torch.nn.Parameter(state["weight"])
    other = kind([resumed], lr=0.5)
    other.load_state_dict(state["optimiser"])
    advance(resumed, other)
    assert torch.equal(resumed, weight)


@pytest.mark.parametrize(
    "value",
    [
        {0: 1, "0": 1.0, "a": None, "b": True},
        (1, [2, (3,), []], {}),
        {"tensor": "x", "dict": [["a", 1]], "tuple": [1]},
        [float("inf"), -0.0, 1e-300, 2**70],
    ],
)
def test_pack_keeps_types_through_json(value: object) -> None:
    tensors, rest = pack(value)
    assert repr(unpack(tensors, json.loads(json.dumps(rest)))) == repr(value)


def test_pack_refuses_what_it_cannot_restore() -> None:
    with pytest.raises(TypeError, match=r"a\.b: a set cannot"):
        pack({"a": {"b": {1, 2}}})


def test_pack_refuses_two_tensors_of_one_name() -> None:
    with pytest.raises(ValueError, match=r"called a\.b"):
        pack({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)})


def test_more_tensors_than_can_be_loaded_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="5001 tensors"):
        save(tmp_path / "a.safetensors", {str(n): torch.ones(1) for n in range(5001)}, {})


def test_more_meta_than_can_be_loaded_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bytes"):
        save(tmp_path / "a.safetensors", {}, {"text": "x" * (1 << 20)})


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    for number in range(8):  # safetensors itself orders metadata by chance
        write(tmp_path / f"{number}.safetensors", 1)
    assert len({file.read_bytes() for file in tmp_path.iterdir()}) == 1


# --- damage (reliability F5) ---


def test_the_two_last_checkpoints_are_kept(path: Path) -> None:
    write(path, 3)
    assert (load(path)[1]["step"], load(previous_of(path))[1]["step"]) == (3, 2)


def test_every_cut_is_noticed_and_the_older_one_offered(path: Path) -> None:
    whole = path.read_bytes()
    for percent in range(100):
        path.write_bytes(whole[: len(whole) * percent // 100])
        assert str(previous_of(path)) in str(refusal(path))


def test_a_thousand_flipped_bits_are_noticed(path: Path) -> None:
    whole = path.read_bytes()
    chance = random.Random(1)
    for _ in range(1000):
        bit = chance.randrange(8 * len(whole))
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            load(path)
        except UserError as error:
            assert error.code in ("model.damaged", "model.foreign")
        else:
            pytest.fail(f"bit {bit} was flipped and nobody noticed")


def test_a_byte_too_many_is_noticed(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")
    assert refusal(path).code == "model.damaged"


def test_the_newest_is_taken_when_whole(path: Path) -> None:
    tensors, meta, taken = load_newest(path)
    assert (float(tensors["weight"][0, 0]), meta["step"], taken) == (2.0, 2, path)


def test_the_older_is_taken_when_the_newest_is_damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    _, meta, taken = load_newest(path)
    assert (meta["step"], taken) == (1, previous_of(path))


def test_a_damaged_checkpoint_does_not_push_out_the_whole_one_before_it(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    write(path, 3)
    assert (load(path)[1]["step"], load(previous_of(path))[1]["step"]) == (3, 1)


def test_when_both_are_damaged_the_newest_is_named(path: Path) -> None:
    for file in (path, previous_of(path)):
        file.write_bytes(b"")
    with pytest.raises(UserError, match="it is empty") as caught:
        load_newest(path)
    assert str(caught.value).startswith(f"{path}: ")


# --- files that are not ours (reliability 88) ---


def foreign(metadata: dict[str, str] | None, count: int = 1) -> bytes:
    return safetensors.torch.save({f"t{n}": torch.ones(1) for n in range(count)}, metadata)


def ours(**changes: str) -> dict[str, str]:
    return {"show_attend_tell": "1", "meta": "{}", "sha256": "0" * 64, **changes}


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b"", "model.damaged", "it is empty"),
        (b"abc", "model.damaged", "it is cut off"),
        (b"Lorem ipsum dolor sit amet", "model.foreign", "not a safetensors file"),
        (b"\x80\x04\x95" + b"x" * 50, "model.foreign", "a pickle"),
        (b"PK\x03\x04" + b"x" * 50, "model.foreign", "a pickle"),
        (foreign(None), "model.foreign", "of another program"),
        (foreign({"format": "pt"}), "model.foreign", "of another program"),
        (foreign(ours(), 5001), "model.foreign", "5,001 tensors"),
        (foreign(None, 30_000), "model.damaged", "its header claims"),
        (foreign(ours()), "model.damaged", "checksum"),
        ((9).to_bytes(8, "little") + b'{"a":[[[[' * 9, "model.damaged", "not JSON"),
        ((9).to_bytes(8, "little") + b'{"a": 12}', "model.foreign", "of another program"),
    ],
    ids=[
        "empty", "short", "text", "pickle", "zip", "bare", "other", "many", "huge header",
        "no digest", "bad JSON", "no metadata",
    ],
)  # fmt: skip
def test_another_file_is_refused_by_name(
    content: bytes, code: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    error = refusal(path)
    assert error.code == code
    assert message in str(error)


def test_a_newer_format_is_refused_even_when_an_older_one_is_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("show_attend_tell.learning.loop.checkpoint.FORMAT", "2")
    write(path, 3)
    monkeypatch.undo()
    with pytest.raises(UserError, match="written in format 2 by a newer version") as caught:
        load_newest(path)
    assert caught.value.code == "model.newer"


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "a.safetensors").code == "model.missing"


def test_a_folder_in_place_of_a_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").mkdir()
    assert refusal(tmp_path / "a.safetensors").code == "model.unreadable"


# --- failing system calls (reliability F1, F3) ---


def failing_saves(path: Path, failure: BaseException) -> Iterator[type[BaseException] | None]:
    """Save step 3 with the first system call failing, then the second, until none is left."""
    before = {file: file.read_bytes() for file in (path, previous_of(path))}
    for allowed in range(100):
        for file, content in before.items():
            file.write_bytes(content)
        raised = None
        with failing_call(allowed, failure, reads=True) as faults:
            try:
                write(path, 3)
            except BaseException as error:
                raised = error
        if not faults.happened:
            assert allowed >= 10, "the shim does not see the system calls"
            return
        yield type(raised) if raised else None
    raise AssertionError("the save never ends")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
def test_each_failing_system_call_leaves_a_whole_checkpoint(number: int, path: Path) -> None:
    for _ in failing_saves(path, OSError(number, os.strerror(number))):
        assert load_newest(path)[1]["step"] in (2, 3)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
def test_each_failing_system_call_is_a_persons_error(number: int, path: Path) -> None:
    # Reading the current checkpoint may fail without harm: it is then written over.
    raised = list(failing_saves(path, OSError(number, os.strerror(number))))
    assert set(raised) <= {UserError, None}
    assert raised.count(None) <= 1


def test_a_failed_save_leaves_no_litter(path: Path) -> None:
    for _ in failing_saves(path, OSError(errno.ENOSPC, "full")):
        assert not list(path.parent.glob("*.part"))


class Killed(BaseException):
    """Nobody catches it, as nobody catches kill -9."""


def test_death_at_each_system_call_leaves_a_whole_checkpoint(path: Path) -> None:
    for raised in failing_saves(path, Killed()):
        assert raised is Killed
        assert load_newest(path)[1]["step"] in (2, 3)


def test_what_does_not_read_back_is_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def lossy(file: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if mode == "rb" and file.suffix == ".part":
            os.truncate(file, file.stat().st_size - 1)
        return opened(file, mode, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lossy)
        with pytest.raises(UserError, match="does not read back as written"):
            write(path, 3)
    assert load(path)[1]["step"] == 2


# --- one trainer a folder (reliability F7) ---


HOLD = """
import sys, time
from pathlib import Path
from show_attend_tell.files import RunLock
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of `tmp_path`."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_trainer_is_told_who_holds_the_run(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    with pytest.raises(UserError) as caught, RunLock(tmp_path):
        pass
    assert caught.value.code == "run.locked"
    assert f"(host {socket.gethostname()}, process {holder.pid}, since " in str(caught.value)


def test_the_lock_of_a_killed_trainer_is_taken_over(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with RunLock(tmp_path):
        assert f"process {os.getpid()}," in (tmp_path / "lock").read_text("utf-8")


def test_a_lock_given_back_can_be_taken_again(tmp_path: Path) -> None:
    for _ in range(2):
        with RunLock(tmp_path):
            pass


def test_stale_text_in_the_lock_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("stale " * 100, "utf-8")
    with RunLock(tmp_path):
        assert "stale" not in (tmp_path / "lock").read_text("utf-8")


def test_a_trainer_that_was_refused_does_not_lift_the_lock(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        for _ in range(2):
            with pytest.raises(UserError, match="another trainer"), RunLock(tmp_path):
                pass


def test_a_run_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="lock: cannot be written"), RunLock(tmp_path / "none"):
        pass
