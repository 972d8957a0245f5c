"""Damaged pictures: does every one become a picture or a sentence that says what is wrong?

    python benchmarks/fuzz_pictures.py                  # 10,000, some minutes
    python benchmarks/fuzz_pictures.py --only 4711      # one of them again, in this process

Two dozen small pictures of all formats, made by code, are damaged: bits and bytes written over,
lengths and sizes in headers replaced by large and small numbers, pieces cut out, doubled, swapped,
and taken from another picture. The number of a mutation settles what it is. Each is opened and
framed as for captioning, in worker processes, so that a crash of native code is seen and its number
known. Ends with 1 if anything but a picture or a `UserError` came out, took more than 2 s of
processor time or more than 300 MiB, or wrote to standard error.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from threading import Thread, Timer
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from show_attend_tell.data.pictures import Preprocessing, frame, read_picture
from show_attend_tell.errors import UserError

MUTATIONS = 10_000
MOST_SECONDS = 2.0  # of processor time
MOST_MIB = 300.0
LOST_SECONDS = 120.0  # after so long on the clock a worker is ended
HOW = Preprocessing(mean=(0, 0, 0), std=(1, 1, 1))
# What a length, a size or a count may be to do harm.
NUMBERS = (0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x10000, 1 << 24, 0x7FFFFFFF)
NUMBERS += (0x80000000, 0xFFFFFFFE, 0xFFFFFFFF, 5000, 8000, 16384, 40_000_000)


def photo() -> Image.Image:
    """Smooth with some grain, so that every part of a packed picture says something."""
    y, x = np.mgrid[0 : 1 : 48 * 1j, 0 : 1 : 64 * 1j]
    hills = np.stack([np.sin(7 * x + 3 * y), np.cos(9 * y - 4 * x * y), np.sin(11 * x * y)], -1)
    grain = np.random.default_rng(0).normal(size=hills.shape)
    return Image.fromarray(np.uint8((127.5 + 90 * hills + 10 * grain).clip(0, 255)))


def saved(picture: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.copy().save(stream, kind, **options)
    return stream.getvalue()


def animated(kind: str) -> bytes:
    rest = [photo().rotate(90), photo().rotate(180)]
    return saved(photo(), kind, save_all=True, append_images=rest)


@cache
def seeds() -> dict[str, bytes]:
    """The pictures that are damaged, by name."""
    rgb = photo()
    grey, palette = rgb.convert("L"), rgb.quantize(16)
    clear = rgb.copy()
    clear.putalpha(grey)
    deep = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    real = Image.fromarray(np.asarray(grey).astype(np.float32))
    turned = Image.Exif()
    turned[0x0112] = 6
    return {
        "JPEG": saved(rgb, "JPEG", exif=turned, comment=b"a comment"),
        "JPEG progressive": saved(rgb, "JPEG", progressive=True, icc_profile=bytes(200)),
        "JPEG grey": saved(grey, "JPEG", restart_marker_blocks=2),
        "JPEG CMYK": saved(rgb.convert("CMYK"), "JPEG", subsampling=0),
        "JPEG of two": animated("MPO"),
        "PNG": saved(rgb, "PNG", exif=turned),
        "PNG RGBA": saved(clear, "PNG"),
        "PNG palette": saved(palette, "PNG", transparency=3),
        "PNG 16 bits": saved(deep, "PNG"),
        "PNG animated": animated("PNG"),
        "WebP": saved(rgb, "WEBP", exif=turned),
        "WebP lossless": saved(clear, "WEBP", lossless=True),
        "WebP animated": animated("WEBP"),
        "GIF": saved(palette, "GIF", transparency=3, comment=b"a comment"),
        "GIF animated": animated("GIF"),
        "BMP": saved(rgb, "BMP"),
        "BMP runs": _bmp_of_runs(),
        "TIFF": saved(rgb, "TIFF", exif=turned),
        "TIFF LZW": saved(clear, "TIFF", compression="tiff_lzw"),
        "TIFF deflate": saved(real, "TIFF", compression="tiff_adobe_deflate"),
        "TIFF JPEG": saved(rgb, "TIFF", compression="jpeg"),
        "TIFF fax": saved(rgb.convert("1"), "TIFF", compression="group4"),
        "TIFF of pages": animated("TIFF"),
        "BigTIFF": saved(rgb, "TIFF", big_tiff=True),
    }


def _bmp_of_runs() -> bytes:
    """64 x 48 pixels of a palette, every row two runs."""
    plain = saved(photo().convert("L").quantize(256), "BMP")
    rows = b"".join(bytes([40, row, 24, 255 - row, 0, 0]) for row in range(48)) + b"\0\1"
    header = bytearray(plain[: int.from_bytes(plain[10:14], "little")])
    header[30:34] = (1).to_bytes(4, "little")  # packed in runs of 8 bits
    header[34:38] = len(rows).to_bytes(4, "little")
    return bytes(header) + rows


def flip_bits(content: bytearray, random: np.random.Generator) -> None:
    for place in _places(content, random, int(random.integers(1, 9))):
        content[place] ^= 1 << int(random.integers(8))


def write_bytes(content: bytearray, random: np.random.Generator) -> None:
    for place in _places(content, random, int(random.integers(1, 5))):
        content[place] = int(random.choice([0, 0x7F, 0x80, 0xFF, random.integers(256)]))


def write_number(content: bytearray, random: np.random.Generator) -> None:
    """A length, a size or a count, if it is hit."""
    width = int(random.choice([2, 4, 8]))
    order: Any = random.choice(["little", "big"])
    number = NUMBERS[random.integers(len(NUMBERS))] & ((1 << 8 * width) - 1)
    for place in _places(content, random, 1):
        content[place : place + width] = number.to_bytes(width, order)


def swap_parts(content: bytearray, random: np.random.Generator) -> None:
    one, other = sorted(random.integers(0, len(content), 2))
    length = int(random.integers(1, 33))
    first, second = content[one : one + length], content[other : other + length]
    content[other : other + length], content[one : one + length] = first, second


def cut_off(content: bytearray, random: np.random.Generator) -> None:
    del content[int(random.integers(1, len(content) + 1)) :]


def cut_out(content: bytearray, random: np.random.Generator) -> None:
    begin, length = random.integers(len(content)), random.integers(1, 65)
    del content[begin : begin + length]


def double(content: bytearray, random: np.random.Generator) -> None:
    begin, length = random.integers(len(content)), random.integers(1, 257)
    times = int(random.choice([1, 2, 1000]))
    content[begin:begin] = content[begin : begin + length] * times


def insert(content: bytearray, random: np.random.Generator) -> None:
    """A piece of another picture, or of nothing."""
    other = seeds()[str(random.choice(list(seeds())))]
    begin, length = random.integers(len(other)), random.integers(1, 257)
    piece = [other[begin : begin + length], bytes(length), b"\xff" * length][random.integers(3)]
    place = int(random.integers(len(content)))
    content[place:place] = piece


DAMAGES: tuple[Callable[[bytearray, np.random.Generator], None], ...] = (
    flip_bits,
    write_bytes,
    write_number,
    swap_parts,
    cut_off,
    cut_out,
    double,
    insert,
)


def _places(content: bytearray, random: np.random.Generator, count: int) -> list[int]:
    """Where to write: every other time among the first or the last bytes, where headers are."""
    length = len(content)
    reach = min(length, 160)
    begin, end = [(0, reach), (length - reach, length), (0, length), (0, length)][
        random.integers(4)
    ]
    return [int(place) for place in random.integers(begin, end, count)] if length else []


def repair_sums(content: bytearray) -> None:
    """Give the chunks of a PNG the checksums that they ask for, or no damage gets past them."""
    at = 8
    while at + 12 <= len(content):
        end = at + 8 + int.from_bytes(content[at : at + 4], "big")
        content[end : end + 4] = zlib.crc32(content[at + 4 : end]).to_bytes(4, "big")
        at = end + 4


def mutation(number: int) -> tuple[str, bytes]:
    """The name of the picture that is damaged, and what it becomes."""
    random = np.random.default_rng([2015, number])
    name = list(seeds())[number % len(seeds())]
    content = bytearray(seeds()[name])
    for _ in range(int(random.choice([1, 1, 2, 3]))):
        DAMAGES[random.integers(len(DAMAGES))](content, random)
    if content.startswith(b"\x89PNG") and random.integers(2):
        repair_sums(content)
    return name, bytes(content)


def answer(number: int) -> str:
    """What comes of a mutation: `picture`, a code of our own, or what else was raised."""
    _, content = mutation(number)
    try:
        opened = read_picture(content, least_side=HOW.resize if number % 2 else None)
        frame(opened.image, HOW)
    except UserError as error:
        return error.code
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    return "picture"


def work(numbers: Iterator[int]) -> None:
    """In a worker: a line when a mutation is begun, another when it is done."""
    for kind in seeds().values():
        read_picture(kind)  # what is loaded once is not of a mutation
    for number in numbers:
        print(json.dumps({"number": number}), flush=True)
        idle, said, begin = _restart_peak(), os.fstat(2).st_size, time.process_time()
        result = answer(number)
        seconds, mib = time.process_time() - begin, (_peak_kib() - idle) / 1024
        wrote = os.fstat(2).st_size - said
        done = {"number": number, "answer": result, "seconds": seconds, "mib": mib, "wrote": wrote}
        print(json.dumps(done), flush=True)


def _restart_peak() -> int:
    """KiB in use now; what the most was is counted anew where the system can do that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _peak_kib()
    return _status("VmRSS:")


def _peak_kib() -> int:
    return _status("VmHWM:")


def _status(line: str) -> int:
    status = Path("/proc/self/status")
    return int(status.read_text().partition(line)[2].split()[0]) if status.exists() else 0


def answers(first: int, count: int, step: int, found: list[dict[str, Any]]) -> None:
    """Run a worker over its mutations, a new one where the last was lost."""
    number = first
    while number < count:
        program = [sys.executable, __file__, "--work", str(number), str(count), str(step)]
        with tempfile.TemporaryFile() as err:
            worker = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=err, text=True)
            begun: int | None = None
            assert worker.stdout is not None
            ending = Timer(LOST_SECONDS, worker.kill)
            ending.start()
            for line in worker.stdout:
                ending.cancel()
                ending = Timer(LOST_SECONDS, worker.kill)
                ending.start()
                said = json.loads(line)
                begun = None if "answer" in said else said["number"]
                if "answer" in said:
                    found.append(said)
            ending.cancel()
            code = worker.wait()
            if begun is None:
                if code:
                    err.seek(0)
                    raise RuntimeError(f"a worker ended with {code}: {err.read()!r}")
                return
            lost = f"lost: the worker ended with {code}"
            found.append({"number": begun, "answer": lost, "seconds": 0.0, "mib": 0.0, "wrote": 0})
            number = begun + step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=MUTATIONS)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, help="the number of one mutation")
    parser.add_argument("--work", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(iter(range(*options.work)))
    if options.only is not None:
        return print(mutation(options.only)[0], answer(options.only), sep=": ")

    begin = time.perf_counter()
    found: list[dict[str, Any]] = []
    threads = [
        Thread(target=answers, args=(i, options.count, options.workers, found))
        for i in range(options.workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print_table(found)
    print(f"\n{len(found):,} mutations in {time.perf_counter() - begin:.0f} s")
    bad = [one for one in found if is_bad(one)]
    for one in bad:
        print(json.dumps(one))
    if bad or len(found) != options.count:
        sys.exit(1)


def is_bad(one: dict[str, Any]) -> bool:
    is_ours = one["answer"] == "picture" or one["answer"].startswith("picture.")
    too_much = one["seconds"] > MOST_SECONDS or one["mib"] > MOST_MIB or one["wrote"]
    return not is_ours or bool(too_much)


def print_table(found: list[dict[str, Any]]) -> None:
    names = list(seeds())
    codes = sorted({one["answer"].partition(":")[0] for one in found} - {"picture"})
    heads = ["picture", "mutations", "accepted", *(code.removeprefix("picture.") for code in codes)]
    print(f"| {' | '.join([*heads, 'slowest, s', 'most, MiB'])} |")
    print("|---" * (len(heads) + 2) + "|")
    for name in [*names, "all"]:
        some = [one for one in found if name in ("all", names[one["number"] % len(names)])]
        if not some:
            continue
        counts = Counter(one["answer"].partition(":")[0] for one in some)
        slowest, most = max(one["seconds"] for one in some), max(one["mib"] for one in some)
        cells = [len(some), counts["picture"], *(counts[code] for code in codes)]
        numbers = " | ".join(map(str, cells))
        print(f"| {name} | {numbers} | {slowest:.2f} | {most:.0f} |")


if __name__ == "__main__":
    main()
