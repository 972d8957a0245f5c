"""How fast captions are told: search, whole command, cold start, and ONNX Runtime against PyTorch.

    python benchmarks/captioning.py PHOTOS                       # the model that ships
    python benchmarks/captioning.py PHOTOS --model runs/soft --pictures 32
    python benchmarks/captioning.py PHOTOS --model runs/paper --search-only

PHOTOS is a folder of real JPEGs. Rivals have the sizes of the model, random weights, and the same
number of words to say (12 and the end), so that both do the same work; they need the extra `train`.
The textbook's beam search takes one picture at a time and projects the annotations in every step.
The command is measured by a plain search, which can be compared, and by the model's own.
Rates are per second of wall-clock time, and per second of processor time where it says so; what
has a peak memory or a start of its own runs in a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import show_attend_tell
from show_attend_tell.captioning.captioner import AT_ONCE, ENCODED_AT_ONCE, Captioner
from show_attend_tell.captioning.exported import ModelFacts, read_facts
from show_attend_tell.captioning.search import Search, decode
from show_attend_tell.data.pictures import frame, open_picture

SAT = [sys.executable, "-c", "from show_attend_tell.cli import main; main()"]
BEAM, WORDS = 5, 12
SAME_WORK = Search(beam=BEAM, min_words=WORDS, max_words=WORDS)
PLAIN = {"beam": BEAM, "consensus": 0, "repetition_penalty": 0.0, "views": 1}
DISTINCT = 32  # upscaled pictures; more names link to the same ones
SIZES = {"12 megapixels": (4000, 3000), "0.2 megapixels": (516, 387)}


class Stopwatch:
    """Adds up wall-clock and processor time of the blocks it is held around."""

    def __init__(self) -> None:
        self.wall = self.processor = 0.0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Measure a block."""
        begin, used = time.perf_counter(), time.process_time()
        yield
        self.wall += time.perf_counter() - begin
        self.processor += time.process_time() - used


def chunks(items: Any, size: int = AT_ONCE) -> Iterator[Any]:
    return (items[i : i + size] for i in range(0, len(items), size))


def framed(facts: ModelFacts, photos: list[Path]) -> np.ndarray:
    """As a captioner does it."""
    how = facts.preprocessing
    return np.stack([frame(open_picture(photo, least_side=how.resize), how) for photo in photos])


def encoded(encode: Callable[[np.ndarray], np.ndarray], pixels: np.ndarray) -> np.ndarray:
    """As a captioner does it."""
    return np.concatenate([encode(some) for some in chunks(pixels, ENCODED_AT_ONCE)])


def searches(captioner: Captioner, photos: list[Path]) -> None:
    """Beam search over pictures together, against the textbook's."""
    import torch

    torch.set_num_threads(1)
    annotations = encoded(captioner.model.encode, framed(captioner.model.facts, photos))
    ours, textbook = Stopwatch(), Stopwatch()
    decode(captioner.model, annotations[:AT_ONCE], SAME_WORK)
    with ours():
        for some in chunks(annotations):
            decode(captioner.model, some, SAME_WORK)
    decoder = rival_decoder(captioner.model.facts, annotations.shape[2])
    few = annotations[: max(AT_ONCE, len(annotations) // 8)]  # it is slow, and each costs the same
    with torch.inference_mode():
        textbook_beam(decoder, torch.from_numpy(few[:1]))
        with textbook():
            for one in chunks(few, 1):
                textbook_beam(decoder, torch.from_numpy(one))
    rates = len(annotations) / ours.processor, len(few) / textbook.processor
    print(f"search, beam {BEAM}, {WORDS} words, {annotations.shape[1]} places, one thread:")
    print(f"  ours, {AT_ONCE} pictures together   {rates[0]:7.1f} pictures/s of processor time")
    print(f"  textbook, one by one         {rates[1]:7.1f} pictures/s of processor time")
    print(f"  ours is {rates[0] / rates[1]:.1f} times as fast")


def rival_decoder(facts: ModelFacts, depth: int) -> Any:
    """A PyTorch decoder of the model's sizes."""
    import torch

    from show_attend_tell.learning.model.decoder import Decoder
    from show_attend_tell.learning.recipe import ModelSection

    torch.manual_seed(0)
    sizes = ModelSection.model_validate(facts.origin["recipe"]["model"])
    return Decoder(sizes, depth, len(facts.words)).eval()


def textbook_beam(decoder: Any, annotations: Any) -> Any:
    """The sentence of one picture (1, L, D), as tutorials search for it."""
    import torch

    initial, attention = decoder.initial, decoder.attention
    a = decoder.norm(decoder.narrow(annotations))
    mean = a.mean(dim=1)
    h = torch.tanh(initial.h(torch.relu(initial.hidden_h(mean)))).expand(BEAM, -1)
    c = torch.tanh(initial.c(torch.relu(initial.hidden_c(mean)))).expand(BEAM, -1)
    a = a.expand(BEAM, -1, -1).contiguous()
    words = torch.full((BEAM, 1), decoder.words)
    totals = torch.zeros(BEAM, 1)
    for step in range(WORDS + 1):
        hidden = torch.tanh(attention.annotation(a) + attention.state(h).unsqueeze(1))
        alpha = torch.softmax(hidden @ attention.score, dim=1)
        z = (alpha.unsqueeze(2) * a).sum(dim=1)
        if attention.gate is not None:
            z = torch.sigmoid(attention.gate(h)) * z
        x = decoder.embedding(words[:, -1])
        gates = decoder.word_gates(x) + decoder.recurrent_gates(torch.cat([h, z], dim=1))
        i, f, o, g = gates.chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        readout = decoder.squash(x + decoder.readout_state(h) + decoder.readout_context(z))
        logits = torch.nn.functional.linear(readout, *decoder.softmax_layer())
        scores = totals + torch.log_softmax(logits, dim=1)
        scores = scores[:1] if step == 0 else scores  # at first all hypotheses are the same
        best, places = scores.flatten().topk(BEAM)
        parents = places // scores.shape[1]
        h, c, totals = h[parents], c[parents], best.unsqueeze(1)
        words = torch.cat([words[parents], (places % scores.shape[1]).unsqueeze(1)], dim=1)
    return words[0, 1:]


def best_encoder_rate(captioner: Captioner, pixels: np.ndarray) -> tuple[float, int]:
    """Pictures/s of the bare network at its best batch size, on as many threads as captions get."""
    best = (0.0, 0)
    for batch in (1, 4, 8, 16):
        captioner.model.encode(pixels[:batch])
        watch = Stopwatch()
        with ThreadPoolExecutor(captioner.model.threads) as pool, watch():
            list(pool.map(captioner.model.encode, chunks(pixels, batch)))
        best = max(best, (len(pixels) / watch.wall, batch))
    return best


def make_jpegs(photos: list[Path], size: tuple[int, int], folder: Path, count: int) -> None:
    folder.mkdir()
    for i, photo in enumerate(photos[:DISTINCT]):
        picture = open_picture(photo).resize(size, Image.Resampling.BICUBIC)
        picture.save(folder / f"{i:04}.jpg", quality=90)
    for i in range(min(DISTINCT, len(photos)), count):
        os.link(folder / f"{i % min(DISTINCT, len(photos)):04}.jpg", folder / f"{i:04}.jpg")


def whole_command(captioner: Captioner, photos: list[Path], count: int, folder: Path) -> None:
    """`sat caption` over a folder, against the bare encoder; and where the time goes."""
    pixels = framed(captioner.model.facts, photos[:128])
    search = captioner.search.override(**PLAIN)
    names = [f"--{key.replace('_', '-')}" for key in PLAIN]
    plainly = [str(word) for pair in zip(names, PLAIN.values(), strict=True) for word in pair]
    command = "caption", "--json", "--model", captioner.model.folder
    for name, size in SIZES.items():
        jpegs = folder / name.replace(" ", "-")
        make_jpegs(photos, size, jpegs, count)
        before, batch = best_encoder_rate(captioner, pixels)
        whole = count / run_sat(*command, *plainly, jpegs)[0]
        own = count / run_sat(*command, jpegs)[0]
        after, _ = best_encoder_rate(captioner, pixels)  # machines drift
        bare = (before + after) / 2
        opening, encoding, telling = Stopwatch(), Stopwatch(), Stopwatch()
        for some in chunks(sorted(jpegs.iterdir())[: 4 * AT_ONCE]):
            with opening():
                seen = framed(captioner.model.facts, some)
            with encoding():
                annotations = encoded(captioner.model.encode, seen)
            with telling():
                decode(captioner.model, annotations, search)
        parts = {"decode": opening, "encoder": encoding, "decoder": telling}
        total = sum(watch.processor for watch in parts.values())
        shares = ", ".join(f"{key} {w.processor / total:.0%}" for key, w in parts.items())
        print(f"sat caption, {count} JPEGs of {name}: {whole:.1f} pictures/s with its start")
        print(
            f"  bare encoder at its best batch ({batch}): {bare:.1f}; "
            f"the command is at {whole / bare:.2f} of it"
        )
        print(f"  processor time: {shares}")
        print(f"  by the model's own search: {own:.1f} pictures/s")


def run_sat(*words: object) -> tuple[float, float]:
    """Wall-clock and processor seconds of a command."""
    begin = time.perf_counter()
    process = subprocess.Popen([*SAT, *map(str, words)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


def cold_starts(captioner: Captioner, photo: Path) -> None:
    commands = {
        "sat --help": ["--help"],
        "sat caption one.jpg": ["caption", "--model", captioner.model.folder, photo],
    }
    for name, words in commands.items():
        runs = [run_sat(*words) for _ in range(5)]
        wall, processor = (sorted(times)[2] for times in zip(*runs, strict=True))
        print(f"{name}: {wall:.2f} s, {processor:.2f} s of processor time (median of 5)")


def end_to_end(options: argparse.Namespace) -> dict[str, float]:
    """From JPEGs to captions with one of two engines, in this process."""
    captions: Callable[[list[Path]], object]
    if options.only == "PyTorch":
        captions = pytorch_captioner(read_facts(options.model), options.threads)
    else:
        captioner = show_attend_tell.load(options.model, threads=options.threads)
        captions = partial(captioner, **vars(SAME_WORK))
    photos = some_photos(options)
    captions(photos[:1])
    start = time.process_time()
    watch = Stopwatch()
    with watch():
        captions(photos)
    return {
        "start": start,
        "rate": len(photos) / watch.wall,
        "processor_rate": len(photos) / watch.processor,
        "peak_mib": peak_mib(),
    }


def peak_mib() -> float:
    """Of this process alone; getrusage would count its parent's, from before it was itself."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def pytorch_captioner(facts: ModelFacts, threads: int) -> Callable[[list[Path]], None]:
    """The same model and search on PyTorch, a batch on all threads."""
    import torch

    from show_attend_tell.learning.encoders import make_encoder
    from show_attend_tell.learning.model.adapter import TorchModel

    torch.set_num_threads(threads)
    preprocessing = facts.preprocessing
    encoder = make_encoder(
        facts.origin["encoder"],
        weights="random",
        grid=facts.grid[0],
        size=preprocessing.size,
        fit=preprocessing.fit,
    )

    def encode(pixels: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return encoder(torch.from_numpy(pixels)).numpy()

    model_ = TorchModel(rival_decoder(facts, encoder.depth))

    def captions(photos: list[Path]) -> None:
        for some in chunks(photos):
            decode(model_, encoded(encode, framed(facts, some)), SAME_WORK)

    return captions


def engines(model: Path) -> None:
    results = {}
    for engine in ("ONNX Runtime", "PyTorch"):
        command = [sys.executable, __file__, *sys.argv[1:], "--model", model, "--only", engine]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        results[engine] = json.loads(done.stdout)
        print(
            f"end to end with {engine:12} {results[engine]['rate']:6.1f} pictures/s "
            f"({results[engine]['processor_rate']:.1f} of processor time), "
            f"{results[engine]['peak_mib']:,.0f} MiB, first caption after "
            f"{results[engine]['start']:.1f} s of processor time"
        )
    ratio = results["ONNX Runtime"]["rate"] / results["PyTorch"]["rate"]
    print(f"  ONNX Runtime is {ratio:.1f} times as fast")


def some_photos(options: argparse.Namespace) -> list[Path]:
    found = sorted(options.photos.glob("*.jpg"))
    return list(islice(cycle(found), options.pictures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument(
        "--model",
        type=Path,
        default=show_attend_tell.SHIPPED,
        help="a model folder, or a run that holds one",
    )
    parser.add_argument("--pictures", type=int, default=256)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--search-only", action="store_true", help="leave the rest out")
    parser.add_argument("--only", choices=["ONNX Runtime", "PyTorch"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(end_to_end(options)))
        return
    photos = some_photos(options)
    captioner = show_attend_tell.load(options.model, threads=options.threads)
    print(f"{captioner.model.folder.name}, {options.pictures} pictures, {options.threads} threads")
    searches(show_attend_tell.load(options.model, threads=1), photos)
    if options.search_only:
        return
    with tempfile.TemporaryDirectory() as folder:
        whole_command(captioner, photos, options.pictures, Path(folder))
    cold_starts(captioner, photos[0])
    engines(captioner.model.folder)


if __name__ == "__main__":
    main()
