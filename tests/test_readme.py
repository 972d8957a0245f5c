"""Every command and every line of Python in the README, typed in a folder like a reader's."""

import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.conftest import SAT
from tests.shared import SHARED, needs_shared

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEST = (10, 11)  # numbers of the pictures in the test split
WEIGHTS = "vgg19-conv-caffe-fp16.safetensors"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line]


def make_reader_folder(folder: Path) -> None:
    """Photographs, a small Flickr8k in its official layout, and captions in several formats."""
    pictures = sorted((ROOT / "examples").glob("*.jpg"))
    shutil.copy(pictures[0], folder / "photo.jpg")
    (folder / "holiday").mkdir()
    for picture in pictures[1:3]:
        shutil.copy(picture, folder / "holiday")
    make_flickr8k(folder / "flickr8k")
    (folder / WEIGHTS).symlink_to(SHARED / "weights" / WEIGHTS)

    told = ["a dog runs", "two men talk"]
    people = [["a dog is running", "a brown dog"], ["two men are talking", "men"]]
    results = [{"image_id": i, "caption": text} for i, text in enumerate(told)]
    (folder / "results.json").write_text(json.dumps(results))
    annotations = [
        {"id": number, "image_id": i, "caption": text}
        for number, (i, text) in enumerate(
            (i, text) for i, own in enumerate(people) for text in own
        )
    ]
    images = [{"id": i, "file_name": f"{i}.jpg"} for i in range(len(told))]
    (folder / "captions_val2014.json").write_text(
        json.dumps({"images": images, "annotations": annotations})
    )
    for name, texts in (
        ("captions", told),
        *zip(("first", "second", "third"), itertools.cycle(zip(*people, strict=True))),
    ):
        (folder / f"{name}.txt").write_text("\n".join(texts) + "\n")
    (folder / "sentences.txt").write_text("A dog runs .\nA dog runs in the snow .\n")
    for name, text in (("mine", "a dog in the snow"), ("theirs", "a man")):
        rows = [json.dumps({"id": f"{i}.jpg", "caption": text}) for i in TEST]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")


def make_flickr8k(folder: Path) -> None:
    texts, pictures = folder / "Flickr8k_text", folder / "Flicker8k_Dataset"
    texts.mkdir(parents=True)
    pictures.mkdir()
    random = np.random.default_rng(0)
    lines = []
    for i in range(12):
        noise = random.integers(0, 256, (5, 7, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((320, 256)).save(pictures / f"{i}.jpg")
        lines += [f"{i}.jpg#{k}\tA dog number {k} runs in the snow ." for k in range(5)]
    (texts / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n")
    for split, numbers in (("train", range(8)), ("dev", range(8, 10)), ("test", TEST)):
        names = "".join(f"{i}.jpg\n" for i in numbers)
        (texts / f"Flickr_8k.{split}Images.txt").write_text(names)


@needs_shared
def test_the_readme_can_be_typed_from_top_to_bottom(tmp_path: Path) -> None:
    make_reader_folder(tmp_path)
    typed = [line for line in commands() if not line.startswith("make ")]
    for line in typed:
        words = shlex.split(line, comments=True)
        assert words[0] == "sat", line
        if words[1] in ("train", "tune"):
            words += ["--set", "training.epochs=1"]
        if words[1] == "tune":
            words += ["--trials", "1"]
        done = subprocess.run(
            [*SAT, *words[1:]], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert len(typed) > 15
    drawn = ("photo-attention.png", "photo.gif", "holiday.html")
    assert all((tmp_path / name).exists() for name in drawn)

    for program in blocks("python"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == program.count("print(")


def test_every_target_of_make_in_the_readme_is_there() -> None:
    named = set(re.findall(r"`?make ([a-z]+)", README))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert named and named <= targets


def test_every_file_the_readme_links_to_is_there() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links
    headings = re.findall(r"^#+ (.+)$", README, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w-]", "", head.lower().replace(" ", "-")) for head in headings}
    for link in links:
        file, _, anchor = link.partition("#")
        assert (ROOT / file).exists() if file else anchor in anchors, link
