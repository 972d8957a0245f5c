"""How fast a training step is: ours against a textbook loop, in one run, processor time.

    python benchmarks/training.py            # the sizes of the paper's encoder
    python benchmarks/training.py --threads 2

The textbook (tests/textbook.py) projects the annotations and computes logits in every step and
leaves the gradients to autograd. Both do forward, backward and one Adam update on the same batch,
with the same parameters; the machine's own matrix-product peak is measured beside them. Each runs
in a process of its own, so that peak memory is its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from show_attend_tell.learning.model.decoder import Decoder
from show_attend_tell.learning.objectives.likelihood import soft_cost
from show_attend_tell.learning.recipe import ModelSection
from tests.textbook import textbook_loss

BATCH, STEPS = 64, 13  # a caption of Flickr8k has 12.8 words with full stop and end


def measure(which: str, options: argparse.Namespace) -> dict[str, float]:
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    recipe = ModelSection(
        hidden=options.hidden, word=options.hidden, attention_width=options.hidden, dropout=0.0
    )
    decoder = Decoder(recipe, options.depth, options.words)
    annotations = torch.randn(BATCH, options.places, options.depth)
    captions = torch.randint(0, options.words, (BATCH, STEPS))
    if which == "ours":
        optimiser = torch.optim.Adam(decoder.parameters(), fused=True)
    else:
        optimiser = torch.optim.Adam(decoder.parameters())

    def step() -> None:
        optimiser.zero_grad()
        if which == "ours":
            lesson = decoder(annotations, captions)
            loss = soft_cost(
                decoder, lesson, captions, double_stochastic=1.0, label_smoothing=0.0
            ).loss
        else:
            loss, _ = textbook_loss(decoder, annotations, captions, double_stochastic=1.0)
        loss.backward()
        optimiser.step()

    step()
    begin = time.process_time()
    for _ in range(options.repeats):
        step()
    seconds = (time.process_time() - begin) / options.repeats
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mib": peak_mib}


def products(options: argparse.Namespace) -> float:
    """Floating-point operations of the matrix products that a step cannot do without."""
    a = n = m = options.hidden
    keys = BATCH * options.places * options.depth * a * 2  # forward and W; frozen features
    gates = BATCH * STEPS * (m + n + options.depth) * 4 * n * 3
    query = BATCH * STEPS * n * a * 3
    readout = BATCH * STEPS * (n + options.depth) * m * 3
    logits = BATCH * STEPS * m * options.words * 3
    return 2.0 * (keys + gates + query + readout + logits)


def peak_flops(threads: int) -> float:
    torch.set_num_threads(threads)
    x = torch.randn(2048, 2048)
    x @ x
    begin = time.process_time()
    for _ in range(5):
        x @ x
    return 5 * 2 * 2048**3 / (time.process_time() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--places", type=int, default=196, help="L")
    parser.add_argument("--depth", type=int, default=512, help="D")
    parser.add_argument("--hidden", type=int, default=512, help="n, m and the attention's width")
    parser.add_argument("--words", type=int, default=10_000, help="K")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=["ours", "textbook"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only, options)))
        return
    results = {}
    for which in ("textbook", "ours"):
        command = [sys.executable, __file__, *sys.argv[1:], "--only", which]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        results[which] = json.loads(done.stdout)
    for which, result in results.items():
        rate = BATCH / result["seconds"]
        print(
            f"{which:9} {result['seconds']:6.3f} processor seconds a step, {rate:6.1f} captions/s "
            f"a core, peak memory {result['peak_mib']:,.0f} MiB"
        )
    ours = results["ours"]["seconds"]
    print(f"ours is {results['textbook']['seconds'] / ours:.2f} times as fast")
    peak = peak_flops(options.threads)
    share = products(options) / ours / peak
    print(
        f"matrix products alone: {products(options) / 1e9:.1f} GFLOP a step; "
        f"{share:.0%} of this machine's product peak of {peak / 1e9:.0f} GFLOP/s a core"
    )


if __name__ == "__main__":
    main()
