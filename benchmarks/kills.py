"""Kill -9 a trainer again and again: it always starts again and ends as the unbroken run did.

    python benchmarks/kills.py            # 200 kills, about ten minutes of one processor
    python benchmarks/kills.py --kills 20 --seed 7

A run of the tests' tiny world is trained unbroken, then others like it are killed at moments drawn
from the seed: half of them after a drawn time, half between two of the system calls that write a
checkpoint or the log. A killed run is started again until it ends, each start with a kill ahead of
it while kills are left. Then its checkpoints must equal those of the unbroken run byte for byte. A
kill may cost the step that was not saved yet (`training.save_minutes` is 0), and no more.

Each trainer is a process of its own, forked after the imports, which would take most of the time.
"""

import argparse
import json
import os
import platform
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ["OMP_NUM_THREADS"] = "1"  # before PyTorch: a forked child must find no threads

import torch

from show_attend_tell.data.features import FeatureStore
from show_attend_tell.learning.loop import checkpoint
from show_attend_tell.learning.loop.trainer import train
from show_attend_tell.learning.run import BEST, LAST
from show_attend_tell.learning.watching.events import Event, Progress, Start
from show_attend_tell.learning.watching.history import read
from tests.tiny_world import make_store, tiny_recipe

OPTIONS = [
    "training.epochs=2",
    "training.save_minutes=0.0",
    "training.average=0.9",
    "model.dropout=0.3",
]


def die_in_a_write(calls: int) -> None:
    """Let this process die just before the n-th system call of those that write files."""
    left = calls

    def mortal(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    os.fsync = mortal(os.fsync)
    os.open = mortal(os.open)
    Path.open = mortal(Path.open)  # type: ignore[method-assign]
    Path.replace = mortal(Path.replace)  # type: ignore[method-assign]


def attempt(
    store: Path, run: Path, *, seconds: float | None = None, calls: int | None = None
) -> tuple[int, int]:
    """Train in a process of its own, killed after so many seconds or calls, if not done before.

    Returns
    -------
    Its exit code (-9 if it was killed), and the last step that it did.
    """
    hear, say = os.pipe()
    child = os.fork()
    if not child:
        os.close(hear)
        code = 1
        try:
            torch.set_num_threads(1)
            if calls:
                die_in_a_write(calls)

            def watch(event: Event) -> None:
                if isinstance(event, Progress):
                    os.write(say, b"%d\n" % event.step)

            recipe = tiny_recipe(*OPTIONS)
            train(FeatureStore.open(store), run, recipe, resume=True, watch=[watch])
            code = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(code)
    os.close(say)
    timer = threading.Timer(seconds, os.kill, (child, signal.SIGKILL)) if seconds else None
    if timer:
        timer.start()
    with os.fdopen(hear, "rb") as steps:
        done = [int(line) for line in steps if line.endswith(b"\n")]
    _, status = os.waitpid(child, 0)
    if timer:
        timer.cancel()
    return os.waitstatus_to_exitcode(status), max(done, default=0)


def saved_step(run: Path) -> int:
    """The step of the newest whole checkpoint."""
    if not (run / LAST).exists() and not checkpoint.previous_of(run / LAST).exists():
        return 0
    return int(checkpoint.load_newest(run / LAST)[1]["place"]["step"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        store = make_store(folder / "store", train=120, dev=10)[0].folder
        whole_begin = time.monotonic()
        code, steps = attempt(store, folder / "whole")
        assert code == 0, "the unbroken run failed"
        whole_seconds = time.monotonic() - whole_begin
        wanted = [(folder / "whole" / name).read_bytes() for name in (BEST, LAST)]
        logged = [event.step for event in read(folder / "whole" / "log.jsonl")]
        killed = {"after a time": 0, "in a write": 0}
        runs = lost = 0
        while sum(killed.values()) < asked.kills:
            run = folder / f"run {runs}"
            runs += 1
            code = -signal.SIGKILL
            while code:
                how = min(killed, key=lambda kind: killed[kind])
                moment: dict[str, Any] = {}
                if sum(killed.values()) < asked.kills:
                    moment = (
                        {"seconds": chance.uniform(0.001, whole_seconds)}
                        if how == "after a time"
                        else {"calls": chance.randint(1, 120)}
                    )
                code, done = attempt(store, run, **moment)
                assert code in (0, -signal.SIGKILL), f"run {runs - 1} did not start again"
                if code:
                    killed[how] += 1
                    lost = max(lost, done - saved_step(run))
            found = [(run / name).read_bytes() for name in (BEST, LAST)]
            assert found == wanted, f"run {runs - 1} ended in other bits"
            again = [e.step for e in read(run / "log.jsonl") if not isinstance(e, Start)]
            assert again == [step for step in logged if step], f"run {runs - 1} logged other steps"
        assert lost <= 1, f"a kill cost {lost} steps"
    facts = {
        "kills": killed,
        "runs": runs,
        "steps_of_a_run": steps,
        "ended_in_other_bits": 0,
        "most_steps_lost": lost,
        "seconds": round(time.monotonic() - begin),
        "processor_seconds": round(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])),
        "machine": platform.platform(terse=True),
        "torch": torch.__version__,
        "seed": asked.seed,
    }
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
