"""Drawings against pictures of them that were looked at, by structural similarity.

`python -m tests.drawing.test_golden` draws them anew into `golden/`: look at each of them.
"""

import io
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageDraw, ImageSequence

from show_attend_tell.captioning.caption import Caption
from show_attend_tell.drawing import animate, draw, overlay, page, sheet
from tests.browser import needs_chromium, opened
from tests.drawing.cases import SQUEEZE, caption_of

GOLDEN = Path(__file__).parent / "golden"
ALIKE = 0.975  # typefaces are drawn a little differently from one version of Pillow to the next


def scene(size: tuple[int, int] = (320, 200)) -> Image.Image:
    """A sun over hills: no side of it is like another."""
    width, height = size
    down = np.linspace(0, 1, height)[:, None, None]
    sky = np.broadcast_to((90, 150, 220) + down * (120, 60, -20), (height, width, 3))
    picture = Image.fromarray(sky.astype(np.uint8))
    pen = ImageDraw.Draw(picture)
    pen.ellipse((0.68 * width, 0.1 * height, 0.86 * width, 0.4 * height), "#ffd860")
    pen.ellipse((-0.3 * width, 0.55 * height, 0.7 * width, 1.6 * height), "#3d7a3a")
    pen.ellipse((0.3 * width, 0.7 * height, 1.4 * width, 1.8 * height), "#6a9a48")
    pen.rectangle((0.2 * width, 0.45 * height, 0.3 * width, 0.65 * height), "#a04028")
    return picture


def captioned(words: str, size: tuple[int, int] = (320, 200), crop: bool = True) -> Caption:
    options = {} if crop else {"preprocessing": SQUEEZE}
    caption = caption_of(words, size, **options)  # type: ignore[arg-type]
    return replace(caption, gates=np.linspace(0.2, 1, len(caption.words)))


def hard(words: str) -> Caption:
    caption = replace(captioned(words), look="most-likely")
    caption.attention[:] = caption.attention == caption.attention.max(axis=(1, 2), keepdims=True)
    return caption


Turn = Callable[[Caption], Caption]


def identity(caption: Caption) -> Caption:
    return caption


def figure(turn: Turn) -> Image.Image:
    return draw(turn(captioned("a red house")), scene(), scale=1)


def portrait(turn: Turn) -> Image.Image:
    caption = captioned("the sun shines over hills", (200, 320), crop=False)
    return draw(turn(caption), scene((200, 320)), scale=1)


def hard_figure(turn: Turn) -> Image.Image:
    return draw(turn(hard("a red house")), scene(), scale=1)


def sheet_of_pictures(turn: Turn) -> Image.Image:
    tall = scene((200, 320))
    items = [
        ("wide.jpg", turn(captioned("a red house on a green hill")), scene()),
        ("tall.jpg", turn(captioned("the sun", tall.size, crop=False)), tall),
    ]
    return sheet(items, scale=1)


def compared(turn: Turn) -> Image.Image:
    models = [("soft", captioned("a red house")), ("hard", hard("the sun shines"))]
    return sheet([(name, turn(caption), scene()) for name, caption in models], scale=1)


def word(turn: Turn) -> Image.Image:
    return overlay(turn(captioned("a red house")), scene(), "red")


def animation(turn: Turn) -> Image.Image:
    frames = [
        frame.convert("RGB").reduce(2)
        for frame in ImageSequence.Iterator(
            Image.open(io.BytesIO(animate(turn(captioned("a red house")), scene())))
        )
    ]
    strip = Image.new("RGB", (frames[0].width, sum(frame.height for frame in frames)))
    for index, frame in enumerate(frames):
        strip.paste(frame, (0, index * frame.height))
    return strip


def in_the_browser(turn: Turn) -> Image.Image:
    """The picture of a page as Chromium shows it; the text below has the machine's typefaces."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(page([("a.jpg", turn(captioned("a red house")), scene())], "A"), "utf-8")
        with opened(file, viewport={"width": 360, "height": 740}) as shown:
            shown.get_by_role("button", name="red").hover()
            return Image.open(io.BytesIO(shown.locator("figure svg").screenshot())).convert("RGB")


KINDS: dict[str, Callable[[Turn], Image.Image]] = {
    "figure": figure,
    "portrait": portrait,
    "hard": hard_figure,
    "sheet": sheet_of_pictures,
    "compare": compared,
    "word": word,
    "animation": animation,
    "browser": in_the_browser,
}
each_kind = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow, needs_chromium] if kind == "browser" else [])
        for kind in KINDS
    ],
)


def similarity(one: Image.Image, other: Image.Image) -> float:
    """Structural similarity (Wang et al. 2004) of two pictures, over windows of 8 × 8 pixels."""

    def windows(picture: Image.Image) -> npt.NDArray[np.float64]:
        grey = np.asarray(picture.convert("L"), dtype=np.float64)
        height, width = (side // 8 * 8 for side in grey.shape)
        return grey[:height, :width].reshape(height // 8, 8, width // 8, 8).swapaxes(1, 2)

    a, b = windows(one), windows(other)
    mean_a, mean_b = (x.mean(axis=(2, 3)) for x in (a, b))
    covariance = (a * b).mean(axis=(2, 3)) - mean_a * mean_b
    luminance = (2 * mean_a * mean_b + 6.5) / (mean_a**2 + mean_b**2 + 6.5)
    structure = (2 * covariance + 58.5) / (a.var(axis=(2, 3)) + b.var(axis=(2, 3)) + 58.5)
    drawn = (a.min(axis=(2, 3)) < 250) | (b.min(axis=(2, 3)) < 250)  # not paper on paper
    return float((luminance * structure)[drawn].mean())


def golden(kind: str) -> Image.Image:
    with Image.open(GOLDEN / f"{kind}.png") as picture:
        return picture.convert("RGB")


@each_kind
def test_a_drawing_looks_as_it_did(kind: str) -> None:
    drawn, expected = KINDS[kind](identity), golden(kind)
    assert drawn.size == expected.size
    assert similarity(drawn, expected) > ALIKE
    colours = np.abs(np.asarray(drawn.reduce(8), float) - np.asarray(expected.reduce(8), float))
    assert colours.mean() < 2


@pytest.mark.parametrize("axis", [1, 2], ids=["upside down", "mirrored"])
@each_kind
def test_a_map_that_is_turned_would_be_noticed(kind: str, axis: int) -> None:
    def turn(caption: Caption) -> Caption:
        return replace(caption, attention=np.flip(caption.attention, axis))

    assert similarity(KINDS[kind](turn), golden(kind)) < ALIKE


if __name__ == "__main__":
    for name, make in KINDS.items():
        make(identity).quantize(256).save(GOLDEN / f"{name}.png", optimize=True)
