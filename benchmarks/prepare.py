"""How near `sat prepare` comes to the bare encoder at its best batch size, in one run.

    python benchmarks/prepare.py DATA --encoder efficientnet-lite2 --pictures 256

Wall-clock pictures/s of the whole command's work (reading, framing, encoding, writing, checking)
against the same network fed from memory: on ONNX Runtime as many batches at once as there are
processors, on PyTorch one batch on all of them.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from show_attend_tell.data.layouts import load_dataset
from show_attend_tell.data.pictures import frame, open_picture
from show_attend_tell.learning.encoders import make_encoder
from show_attend_tell.learning.encoders.graph import encoder_function
from show_attend_tell.learning.encoders.prepare import Preparation


def best_rate(
    encode: Callable[[np.ndarray], object], pixels: np.ndarray, at_once: int = 1
) -> tuple[float, int]:
    """Pictures/s at the best of several batch sizes, each warmed up once."""
    best = (0.0, 0)
    for size in (1, 4, 8, 16):
        batches = [pixels[i : i + size] for i in range(0, min(len(pixels), 128), size)]
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(encode, batches[:at_once]))
            begin = time.perf_counter()
            list(pool.map(encode, batches))
            rate = sum(map(len, batches)) / (time.perf_counter() - begin)
        best = max(best, (rate, size))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="efficientnet-lite2")
    parser.add_argument("--encoder-weights")
    parser.add_argument("--grid", type=int)
    parser.add_argument("--pictures", type=int, default=256)
    options = parser.parse_args()

    dataset = load_dataset(options.data)
    dataset = replace(dataset, examples=dataset.examples[: options.pictures])
    encoder = make_encoder(options.encoder, weights=options.encoder_weights, grid=options.grid)
    pictures = (open_picture(example.picture) for example in dataset.examples)
    pixels = np.stack([frame(picture, encoder.preprocessing) for picture in pictures])

    def on_pytorch(some: np.ndarray) -> object:
        with torch.inference_mode():
            return encoder(torch.from_numpy(some))

    on_runtime = encoder_function(encoder)
    threads = torch.get_num_threads()
    bare, bare_batch = best_rate(on_runtime, pixels, threads)
    pytorch, pytorch_batch = best_rate(on_pytorch, pixels)
    with tempfile.TemporaryDirectory() as folder:
        work = Preparation(dataset, Path(folder) / "store", encoder)
        begin = time.perf_counter()
        work.run()
        whole = len(dataset.examples) / (time.perf_counter() - begin)
    again, _ = best_rate(on_runtime, pixels, threads)  # before and after, since machines drift
    bare = (bare + again) / 2
    print(f"{encoder.name}, {threads} threads, {len(pixels)} pictures")
    print(f"bare network, ONNX Runtime: {bare:6.1f} pictures/s (batch {bare_batch})")
    print(f"bare network, PyTorch:      {pytorch:6.1f} pictures/s (batch {pytorch_batch})")

    print(
        f"sat prepare:                {whole:6.1f} pictures/s, {whole / bare:.2f} of the bare one"
    )


if __name__ == "__main__":
    main()
