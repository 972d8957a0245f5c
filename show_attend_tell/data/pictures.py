"""Pictures: opened upright, framed for the encoder, and the way back from a grid cell to pixels.

The paper (section 5.4): the short side is resized to 256 pixels keeping the aspect ratio, and the
encoder sees the central 224 × 224. `fit="squeeze"` shows it the whole picture instead, squeezed
into the square: a departure, off in the paper's recipes. So are further views of a picture to
learn from: a part of it, mirrored or not.
"""

import io
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError
from pydantic import BaseModel, ConfigDict

from show_attend_tell.errors import UserError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MOST_PIXELS = 40_000_000
LONGEST_SIDE = 16_384
LEAST_PART = 0.8  # of a side, in a further view; less, and captions tell what is not seen


class Preprocessing(BaseModel):
    """How a picture becomes the square that an encoder sees."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    resize: int = 256  # short side in pixels before the crop
    size: int = 224  # side of the square that the encoder sees
    fit: Literal["crop", "squeeze"] = "crop"
    mean: tuple[float, float, float]  # of RGB in 0..255, subtracted
    std: tuple[float, float, float]  # of RGB in 0..255, divided by


@dataclass(frozen=True)
class Crop:
    """The part of the original picture that the encoder saw, in its pixels (x1, y1 exclusive)."""

    x0: float
    y0: float
    x1: float
    y1: float

    def cell(
        self, row: int, column: int, grid: tuple[int, int]
    ) -> tuple[float, float, float, float]:
        """Pixels of the original picture that a grid cell covers: x0, y0, x1, y1.

        >>> Crop(10, 0, 234, 224).cell(0, 13, (14, 14))
        (218.0, 0.0, 234.0, 16.0)
        """
        rows, columns = grid
        width, height = (self.x1 - self.x0) / columns, (self.y1 - self.y0) / rows
        x, y = self.x0 + column * width, self.y0 + row * height
        return x, y, x + width, y + height


def crop_of(picture_size: tuple[int, int], preprocessing: Preprocessing) -> Crop:
    """Which part of an upright picture of (width, height) pixels the encoder sees.

    >>> crop_of((512, 256), Preprocessing(mean=(0, 0, 0), std=(1, 1, 1)))
    Crop(x0=144.0, y0=16.0, x1=368.0, y1=240.0)
    """
    width, height = picture_size
    if preprocessing.fit == "squeeze":
        return Crop(0.0, 0.0, float(width), float(height))
    side = min(width, height) * preprocessing.size / preprocessing.resize
    x0, y0 = (width - side) / 2, (height - side) / 2
    return Crop(x0, y0, x0 + side, y0 + side)


def part_of(
    picture_size: tuple[int, int], preprocessing: Preprocessing, random: np.random.Generator
) -> Crop:
    """A part of the picture in place of `crop_of`: of random size, anywhere."""
    width, height = picture_size
    short = min(width, height)
    whole = (width, height) if preprocessing.fit == "squeeze" else (short, short)
    scale = random.uniform(LEAST_PART, 1)
    part_width, part_height = whole[0] * scale, whole[1] * scale
    x0, y0 = random.uniform(0, width - part_width), random.uniform(0, height - part_height)
    return Crop(x0, y0, min(x0 + part_width, width), min(y0 + part_height, height))


def view(
    picture: Image.Image, preprocessing: Preprocessing, number: int, name: str
) -> npt.NDArray[np.uint8]:
    """One of the views of a picture: 0 as it is told from; others to learn from, odd ones mirrored.

    The name of the picture settles the part that a further view shows, so it can be made again.
    """
    if number == 0:
        return frame(picture, preprocessing)
    seed = zlib.crc32(name.encode("utf-8", "surrogateescape"))
    part = part_of(picture.size, preprocessing, np.random.default_rng([number, seed]))
    square = frame(picture, preprocessing, part)
    return square[:, ::-1] if number % 2 else square


def frame(
    picture: Image.Image, preprocessing: Preprocessing, part: Crop | None = None
) -> npt.NDArray[np.uint8]:
    """The square that the encoder sees, as uint8 RGB (size, size, 3).

    Resize and crop are one resampling of the part, `crop_of` by default, so the way back is exact.
    """
    crop = part or crop_of(picture.size, preprocessing)
    side = (preprocessing.size, preprocessing.size)
    box = (crop.x0, crop.y0, crop.x1, crop.y1)
    return np.asarray(picture.resize(side, Image.Resampling.BICUBIC, box=box), dtype=np.uint8)


def open_picture(
    source: Path | bytes | BinaryIO, name: str | None = None, *, least_side: int | None = None
) -> Image.Image:
    """Open a picture as upright RGB; the first frame of an animation.

    Parameters
    ----------
    source
        A path, the bytes of a file, or an open binary file.
    name
        What to call the picture in an error; the path by default.
    least_side
        A large JPEG may be decoded at a fraction of its size, both sides at least this long:
        much faster, when the picture is only to be framed.

    Raises
    ------
    UserError
        `picture.*`: missing, empty, not a picture, unsupported, truncated, corrupt, too large.
    """
    return open_with_size(source, name, least_side=least_side)[0]


def open_with_size(
    source: Path | bytes | BinaryIO, name: str | None = None, *, least_side: int | None = None
) -> tuple[Image.Image, tuple[int, int]]:
    """`open_picture`, and the width and height of the upright original, whatever was decoded."""
    name = name or (str(source) if isinstance(source, Path) else "picture")
    stream = _stream(source, name)
    try:
        with warnings.catch_warnings():
            # Pillow warns of large pictures and odd metadata; our own limits decide.
            warnings.simplefilter("ignore")
            picture = _identify(stream, name)
            _refuse_too_large(picture, name)
            width, height = picture.size
            decoded = _decode(picture, name, least_side)
            is_turned = (width > height) != (decoded.width > decoded.height)
            return decoded, (height, width) if is_turned else (width, height)
    finally:
        stream.close()


def _stream(source: Path | bytes | BinaryIO, name: str) -> BinaryIO:
    if isinstance(source, bytes):
        stream: BinaryIO = io.BytesIO(source)
    elif isinstance(source, Path):
        try:
            if not source.exists():
                raise UserError("picture.missing", f"{name}: there is no such file")
            if not source.is_file():
                raise UserError("picture.not_a_picture", f"{name}: not a regular file")
            stream = source.open("rb")
        except OSError as error:
            raise UserError(
                "picture.unreadable", f"{name}: cannot be read ({error.strerror})"
            ) from error
    else:
        stream = source
    if not stream.read(1):
        stream.close()
        raise UserError("picture.empty", f"{name}: the file is empty")
    stream.seek(0)
    return stream


def _identify(stream: BinaryIO, name: str) -> Image.Image:
    try:
        return Image.open(stream, formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise _too_large(name, "it has too many pixels") from error
    except UnidentifiedImageError as error:
        known = ", ".join(FORMATS)
        raise UserError(
            "picture.not_a_picture", f"{name}: not a picture of a known format ({known})"
        ) from error
    except Exception as error:  # a broken header can raise nearly anything from Pillow's plug-ins
        raise UserError("picture.corrupt", f"{name}: damaged picture ({error})") from error


def _refuse_too_large(picture: Image.Image, name: str) -> None:
    width, height = picture.size
    if width * height > MOST_PIXELS or max(width, height) > LONGEST_SIDE:
        raise _too_large(name, f"{width} × {height} pixels")


def _too_large(name: str, found: str) -> UserError:
    limits = f"{MOST_PIXELS // 1_000_000} megapixels and {LONGEST_SIDE:,} pixels a side"
    return UserError(
        "picture.too_large", f"{name}: {found}; at most {limits} are accepted, make it smaller"
    )


def _decode(picture: Image.Image, name: str, least_side: int | None) -> Image.Image:
    try:
        picture.seek(0)
        if least_side:
            picture.draft("RGB", (least_side, least_side))
        picture.load()
        return upright_rgb(picture)
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        if "truncated" in str(error).lower():
            raise UserError(
                "picture.truncated", f"{name}: the picture is cut off; export it again"
            ) from error
        raise UserError("picture.corrupt", f"{name}: damaged picture ({error})") from error


def upright_rgb(picture: Image.Image) -> Image.Image:
    """Turn a picture as its EXIF says and give it three channels."""
    return _rgb(_upright(picture))


def _upright(picture: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(picture)
    except Exception:  # broken EXIF must not cost the picture
        return picture


def _rgb(picture: Image.Image) -> Image.Image:
    if picture.mode in ("I;16", "I;16B", "I;16L", "I", "F"):
        return _stretch(picture).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        # What is transparent shows white, as on a page.
        layer = picture.convert("RGBA")
        ground = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(ground, layer).convert("RGB")
    return picture.convert("RGB")


def _stretch(picture: Image.Image) -> Image.Image:
    """Bring 16-bit and float pictures to 0..255; 16-bit by its full range, others by their own."""
    values = np.nan_to_num(np.asarray(picture, dtype=np.float32))
    low, high = (0.0, 65535.0) if picture.mode.startswith("I;16") else (values.min(), values.max())
    scaled = (values - low) * (255.0 / max(float(high - low), 1e-12))
    return Image.fromarray(scaled.clip(0, 255).astype(np.uint8))
