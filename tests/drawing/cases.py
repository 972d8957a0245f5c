"""Captions and pictures made up for the tests of drawing."""

import io

import numpy as np
import numpy.typing as npt
from PIL import Image

from show_attend_tell.captioning.caption import Caption, sentence
from show_attend_tell.data.pictures import Preprocessing, crop_of

PAPER = Preprocessing(mean=(0, 0, 0), std=(1, 1, 1))
SQUEEZE = PAPER.model_copy(update={"fit": "squeeze"})
SIZES = {"portrait": (90, 160), "landscape": (160, 90), "square": (120, 120)}


def looking_at(row: int, column: int, grid: tuple[int, int]) -> npt.NDArray[np.float32]:
    weights = np.full(grid, 0.2 / (grid[0] * grid[1]), dtype=np.float32)
    weights[row, column] += 0.8
    return weights


def caption_of(
    words: str,
    size: tuple[int, int] = (160, 90),
    preprocessing: Preprocessing = PAPER,
    gates: float = 0.5,
) -> Caption:
    """Each word looks one cell further."""
    spelled = tuple(words.split())
    cells = [looking_at(index % 7, index % 5, (7, 5)) for index in range(len(spelled))]
    return Caption(
        text=sentence(spelled),
        words=spelled,
        log_probs=np.full(len(spelled), -0.5),
        log_prob=-1.0,
        attention=np.array(cells).reshape(len(spelled), 7, 5),
        gates=np.full(len(spelled), gates),
        picture_size=size,
        crop=crop_of(size, preprocessing),
    )


def grey(size: tuple[int, int] = (160, 90)) -> Image.Image:
    return Image.new("RGB", size, (128, 128, 128))


def with_metadata() -> Image.Image:
    exif = Image.Exif()
    exif[0x010E] = "secret place"
    stream = io.BytesIO()
    grey().save(stream, "JPEG", exif=exif, comment=b"secret comment")
    picture = Image.open(stream)
    assert b"secret place" in picture.info["exif"]
    assert picture.info["comment"] == b"secret comment"
    return picture
