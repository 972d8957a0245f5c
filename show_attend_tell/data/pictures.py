"""Pictures: opened upright, cropped for the encoder, and grid cells mapped back to pixels.

The paper (section 5.4): the short side is resized to 256 pixels keeping the aspect ratio, and the
encoder's input is the central 224 × 224. `fit="squeeze"` takes the whole picture instead, squeezed
into the square: a departure, off in the paper's recipes. So are augmentations of training pictures:
a part of the picture, mirrored or not.
"""

import ctypes
import io
import logging
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, UnidentifiedImageError, _imaging
from PIL.JpegImagePlugin import JpegImageFile
from PIL.TiffImagePlugin import BITSPERSAMPLE, ROWSPERSTRIP, TILELENGTH, TILEWIDTH
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, model_validator

from show_attend_tell.data.contents import (
    Survey,
    count_gif_frames,
    prepare,
    unsupported_format,
)
from show_attend_tell.errors import UserError

# Our own errors replace what Pillow logs; a program that handles its log still gets it.
logging.getLogger("PIL").addHandler(logging.NullHandler())

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MOST_BYTES = 128 << 20  # 40 megapixels uncompressed, and some metadata
MOST_PIXELS = 40_000_000
MOST_MEMORY = 280 << 20  # to decode a picture, as estimated; 300 MB with Python's share
LONGEST_SIDE = 16_384
LARGEST_RATIO = 1_000  # of the long side to the short one; a line is not a picture
MOST_SCANS = 100  # of a progressive JPEG, each a pass over all pixels; ten are usual
MOST_FRAMES = 5_000
# Of metadata, and of pieces, which Pillow reads one by one in Python.
MOST_PIECES = {"JPEG": 1_000, "PNG": 100_000, "WEBP": 100_000, "GIF": 100_000, "TIFF": 250_000}
MOST_METADATA = 16 << 20  # not of a TIFF, where programs keep layers: MOST_MEMORY limits that
MOST_FILL = 1 << 20
MOST_RUNS = (
    4 << 20,
    8_000_000,
)  # bytes and pixels of a run-length-encoded BMP, which Pillow decodes in Python
PIXELS_A_STRIP = 1 << 18  # converted at a time
NEEDED = ("transparency",)  # of the metadata, for the right colours
LEAST_PART = 0.8  # of a side, in an augmentation; in a smaller part captions no longer fit


class Preprocessing(BaseModel):
    """How a picture becomes the square input of an encoder."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    # Short side in pixels before the crop.
    resize: Annotated[int, Field(ge=1, le=LONGEST_SIDE)] = 256
    # Side of the encoder's input in pixels.
    size: Annotated[int, Field(ge=1, le=LONGEST_SIDE)] = 224
    fit: Literal["crop", "squeeze"] = "crop"
    mean: tuple[float, float, float]  # of RGB in 0..255, subtracted
    # Of RGB in 0..255, divided by.
    std: tuple[PositiveFloat, PositiveFloat, PositiveFloat]

    @model_validator(mode="after")
    def _has_room(self) -> "Preprocessing":
        if self.size > self.resize:
            raise ValueError(f"size {self.size} is more than resize {self.resize}")
        return self


@dataclass(frozen=True)
class Crop:
    """The part of the original picture in the encoder's input, in pixels (x1, y1 exclusive)."""

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
    """The part of an upright picture of (width, height) pixels in the encoder's input.

    >>> crop_of((512, 256), Preprocessing(mean=(0, 0, 0), std=(1, 1, 1)))
    Crop(x0=144.0, y0=16.0, x1=368.0, y1=240.0)
    """
    width, height = picture_size
    if preprocessing.fit == "squeeze":
        return Crop(0.0, 0.0, float(width), float(height))
    side = min(width, height) * preprocessing.size / preprocessing.resize
    x0, y0 = (width - side) / 2, (height - side) / 2
    return Crop(x0, y0, x0 + side, y0 + side)


def random_part(
    picture_size: tuple[int, int], preprocessing: Preprocessing, random: np.random.Generator
) -> Crop:
    """A part of random size at a random position, in place of `crop_of`."""
    width, height = picture_size
    short = min(width, height)
    whole = (width, height) if preprocessing.fit == "squeeze" else (short, short)
    scale = random.uniform(LEAST_PART, 1)
    part_width, part_height = whole[0] * scale, whole[1] * scale
    x0, y0 = random.uniform(0, width - part_width), random.uniform(0, height - part_height)
    return Crop(x0, y0, min(x0 + part_width, width), min(y0 + part_height, height))


def augment(
    picture: Image.Image, preprocessing: Preprocessing, number: int, name: str
) -> npt.NDArray[np.uint8]:
    """The encoder's input for a picture (number 0) or an augmentation of it, odd numbers mirrored.

    The picture's name is the seed of an augmentation's part, so it can be made again.
    """
    if number == 0:
        return frame(picture, preprocessing)
    seed = zlib.crc32(name.encode("utf-8", "surrogateescape"))
    part = random_part(picture.size, preprocessing, np.random.default_rng([number, seed]))
    square = frame(picture, preprocessing, part)
    return square[:, ::-1] if number % 2 else square


def frame(
    picture: Image.Image, preprocessing: Preprocessing, part: Crop | None = None
) -> npt.NDArray[np.uint8]:
    """The encoder's input, as uint8 RGB (size, size, 3).

    Resize and crop are one resampling of the part, `crop_of` by default, so the way back is exact.
    """
    crop = part or crop_of(picture.size, preprocessing)
    side = (preprocessing.size, preprocessing.size)
    box = (crop.x0, crop.y0, crop.x1, crop.y1)
    return np.asarray(picture.resize(side, Image.Resampling.BICUBIC, box=box), dtype=np.uint8)


@dataclass(frozen=True)
class Opened:
    """An opened picture, and what was changed on the way."""

    image: Image.Image  # upright RGB, perhaps smaller than the original
    size: tuple[int, int]  # width, height of the upright original
    warnings: tuple[str, ...]  # `first_frame_only`, `orientation_applied`, ...: see `read_picture`


def open_picture(
    source: Path | bytes | BinaryIO, name: str | None = None, *, least_side: int | None = None
) -> Image.Image:
    """Open a picture as upright RGB: the image of `read_picture`, which has the parameters."""
    return read_picture(source, name, least_side=least_side).image


def read_picture(
    source: Path | bytes | BinaryIO, name: str | None = None, *, least_side: int | None = None
) -> Opened:
    """Open a picture as upright RGB; the first frame of an animation.

    Parameters
    ----------
    source
        A path, the bytes of a file, or an open binary file, which stays open.
    name
        What to call the picture in an error; the path by default.
    least_side
        A large JPEG may be decoded at a fraction of its size, both sides at least this long:
        much faster, if the picture is only cropped for the encoder.

    Returns
    -------
    Opened
        Its warnings are among `first_frame_only`, `trailing_bytes_ignored`, `profile_ignored`
        (colours are taken as sRGB), `metadata_ignored` (broken EXIF), `orientation_applied`,
        `transparency_on_white` and `colours_converted` (to RGB).

    Raises
    ------
    UserError
        `picture.*`: missing, unreadable, empty, not_a_picture, unsupported, truncated, corrupt,
        too_large.
    """
    name = name or _name(source)
    # All at once: what is checked is what is decoded, even if the file is being written.
    content = _read(source, name)
    found = _survey(content, name)
    with _WARNINGS_IGNORED:
        picture = _identify(content, name)
        check_size(picture.size, name)
        try:
            notes = _notes(picture, content, found, name)
            size = picture.size
            picture.seek(0)
            if least_side:
                picture.draft("RGB", (least_side, least_side))
            spare = _spare_memory(picture, name, size, found, len(content))
            return _upright_rgb(picture, name, size, notes, spare, keep=False)
        except UserError:
            raise
        except Exception as error:  # damage can raise nearly anything from Pillow's plug-ins
            raise _damaged(name, error) from error


class _Ignored:
    """Ignores Pillow's warnings of large pictures and odd metadata, since our own limits decide.

    Warning filters belong to all threads: the first reader sets them, the last one restores them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._readers = 0

    def __enter__(self) -> None:
        with self._lock:
            self._readers += 1
            if self._readers == 1:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                warnings.simplefilter("ignore")

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._readers -= 1
            if self._readers == 0:
                self._before.__exit__(None, None, None)


_WARNINGS_IGNORED = _Ignored()


def read_image(image: Image.Image) -> Opened:
    """A Pillow image as upright RGB, its current frame; errors as in `read_picture`."""
    check_size(image.size, "image")
    with _WARNINGS_IGNORED:
        try:
            spare = _spare_memory(image, "image", image.size)
            return _upright_rgb(image, "image", image.size, [], spare, keep=True)
        except UserError:
            raise
        except Exception as error:  # it may not have been decoded yet
            raise _damaged("image", error) from error


def _name(source: Path | bytes | BinaryIO) -> str:
    name = str(source) if isinstance(source, Path) else getattr(source, "name", None)
    return name if isinstance(name, str) else "picture"


def _read(source: Path | bytes | BinaryIO, name: str) -> bytes:
    try:
        if isinstance(source, Path):
            if not source.exists():
                raise FileNotFoundError
            if source.is_dir():
                raise UserError("picture.not_a_picture", f"{name}: a folder, not a picture")
            if not source.is_file():
                raise UserError("picture.not_a_picture", f"{name}: not a regular file")
            with source.open("rb") as stream:
                content = _read_stream(stream, name)
        else:
            content = source if isinstance(source, bytes) else _read_stream(source, name)
    except FileNotFoundError as error:  # or it was removed meanwhile
        raise UserError("picture.missing", f"{name}: there is no such file") from error
    except (OSError, ValueError) as error:  # the latter from a file that was closed
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise UserError("picture.unreadable", f"{name}: cannot be read ({reason})") from error
    if not content:
        raise UserError("picture.empty", f"{name}: the file is empty")
    if len(content) > MOST_BYTES:
        raise _too_large(name, "a larger file", f"{MOST_BYTES >> 20} MiB")
    return content


def _read_stream(stream: BinaryIO, name: str) -> bytes:
    if getattr(stream, "seekable", bool)():
        if stream.seek(0, io.SEEK_END) > MOST_BYTES:
            raise _too_large(name, "a larger file", f"{MOST_BYTES >> 20} MiB")
        stream.seek(0)
    content = stream.read(MOST_BYTES + 1)
    if not isinstance(content, bytes):
        raise UserError("picture.unsupported", f"{name}: opened as text; open the file as 'rb'")
    return content


def _survey(content: bytes, name: str) -> Survey:
    """The survey of a file; an error if its metadata are beyond the limits."""
    found = prepare(content, MOST_PIECES)
    if found.scans > MOST_SCANS:
        raise _too_large(name, "more scans", str(MOST_SCANS))
    if found.fill > MOST_FILL and found.has_more and not found.scans:
        raise _truncated(name)
    if found.fill > MOST_FILL or (found.metadata > MOST_METADATA and found.kind != "TIFF"):
        raise _metadata_too_large(name)
    if found.pieces > MOST_PIECES.get(found.kind, 0) or found.memory > MOST_MEMORY:
        raise _metadata_too_large(name)
    return found


def _identify(content: bytes, name: str) -> Image.Image:
    known = ", ".join(FORMATS)
    kind = unsupported_format(content)
    try:
        picture = None if kind else Image.open(io.BytesIO(content), formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise _too_large(name, "far more pixels", _MOST_PIXELS) from error
    except UnidentifiedImageError as error:
        raise UserError(
            "picture.not_a_picture", f"{name}: not a picture of a known format ({known})"
        ) from error
    except Exception as error:  # a broken header can raise nearly anything from Pillow's plug-ins
        raise _damaged(name, error) from error
    if picture is None or _is_raw(picture):
        raise UserError(
            "picture.unsupported",
            f"{name}: {kind or 'raw camera'} files are not read; save it as one of {known}",
        )
    return picture


@cache
def _silence_libtiff() -> None:
    """Keep libtiff from writing errors to standard error that Pillow raises as well.

    Its error handler is one for all threads. Where it is built into Pillow's own module, as on
    Windows, it cannot be reached.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(_imaging.__file__).TIFFSetErrorHandler(None)


def _is_raw(picture: Image.Image) -> bool:
    """Whether a TIFF is a raw camera file, whose first page is a thumbnail."""
    tags: Mapping[int, Any] = getattr(picture, "tag_v2", {})
    is_thumbnail = tags.get(ExifTags.Base.NewSubfileType, 0) == 1
    return ExifTags.Base.DNGVersion in tags or (is_thumbnail and ExifTags.Base.SubIFDs in tags)


def check_size(size: tuple[int, int], name: str) -> None:
    """Raise `picture.too_large` at too many pixels or too extreme an aspect ratio."""
    width, height = size
    short, long = sorted(size)
    if width * height > MOST_PIXELS or long > LONGEST_SIDE or long > LARGEST_RATIO * short:
        raise _too_large(name, f"{width} × {height} pixels, more", _MOST_PIXELS)


_MOST_PIXELS = (
    f"{MOST_PIXELS // 1_000_000} megapixels, {LONGEST_SIDE:,} pixels a side and sides of "
    f"{LARGEST_RATIO:,} to 1"
)


def _too_large(name: str, found: str, most: str) -> UserError:
    return UserError(
        "picture.too_large", f"{name}: {found} than the {most} that are accepted; make it smaller"
    )


def _truncated(name: str) -> UserError:
    return UserError("picture.truncated", f"{name}: the picture is cut off; export it again")


def _metadata_too_large(name: str) -> UserError:
    return UserError("picture.too_large", f"{name}: its metadata are too large; remove them")


def _notes(picture: Image.Image, content: bytes, found: Survey, name: str) -> list[str]:
    """Warnings of what is ignored; an error if an animation has too many frames."""
    notes = []
    if picture.format in ("JPEG", "MPO"):  # the latter is a JPEG with another picture inside
        if found.has_more:
            notes.append("trailing_bytes_ignored")
    elif getattr(picture, "is_animated", False):
        frames = 1
        if picture.format == "GIF":
            frames = count_gif_frames(content)
        elif picture.format != "TIFF":  # Pillow would walk over all of its pages
            frames = getattr(picture, "n_frames", 1)
        if frames > MOST_FRAMES:
            raise _too_large(name, f"{frames:,} frames, more", f"{MOST_FRAMES:,}")
        notes.append("first_frame_only")
    profile = picture.info.get("icc_profile") or b""
    if profile and b"sRGB" not in profile.replace(b"\0", b""):
        notes.append("profile_ignored")
    return notes


def _damaged(name: str, error: Exception) -> UserError:
    said = str(error).lower()
    if "too large" in said or "too much memory" in said:  # a text chunk that Pillow does not unpack
        return _metadata_too_large(name)
    if "truncated" in said:
        return _truncated(name)
    return UserError("picture.corrupt", f"{name}: damaged picture ({error}); export it again")


_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def _upright_rgb(
    picture: Image.Image,
    name: str,
    size: tuple[int, int],
    notes: list[str],
    memory: int,
    *,
    keep: bool,
) -> Opened:
    """Turn a picture as its EXIF says and give it three channels.

    `size` is that of the original before it is turned, `memory` what the pixels may take, and a
    picture not to `keep` is closed once it is copied upright.
    """
    if picture.format == "TIFF":
        _silence_libtiff()
    picture.load()
    try:
        orientation = picture.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # broken EXIF is no reason to fail
        orientation = None
    if orientation in _TURNS:
        _check_memory(picture, name, 2 * _bytes_of(picture), memory)
        turned = picture.transpose(_TURNS[orientation])
        # Without the orientation tag, or the next reader would turn it again.
        turned.info = {name: fact for name, fact in picture.info.items() if name in NEEDED}
        if not keep:
            picture.close()
        picture = turned
        size = size[::-1] if orientation >= 5 else size
        notes = [*notes, "orientation_applied"]
    elif orientation != 1:
        notes = [*notes, "metadata_ignored"]
    image, note = _rgb(picture)
    return Opened(image, size, (*notes, *note))


# In Pillow's memory; four in every other mode, RGB included.
_BYTES_A_PIXEL = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2, "I;16N": 2}
_WEBP_BYTES_A_PIXEL = 16  # two canvases, their copy and the picture


def _bytes_of(picture: Image.Image) -> int:
    return picture.width * picture.height * _BYTES_A_PIXEL.get(picture.mode, 4)


def _spare_memory(
    picture: Image.Image,
    name: str,
    original: tuple[int, int],
    found: Survey | None = None,
    file: int = 0,
) -> int:
    """Memory left for copies of the pixels; an error if decoding needs too much.

    Parameters
    ----------
    picture
        As it will be decoded; a JPEG perhaps at a fraction of its size.
    name
        What to call it in an error.
    original
        Its size in the file.
    found
        What the file holds beside the pixels.
    file
        The bytes that the file itself takes.
    """
    found = found or Survey()
    spare = MOST_MEMORY - file - found.memory
    decoded = to_decode = _bytes_of(picture)
    pixels = picture.width * picture.height
    tiles = getattr(picture, "tile", None)  # what has not been decoded yet
    decoder = tiles[0][0] if tiles else None
    if picture.format == "WEBP":
        to_decode = _WEBP_BYTES_A_PIXEL * pixels
        spare -= 2 * file  # its own copies
    elif decoder == "jpeg" and isinstance(picture, JpegImageFile):
        if found.scans > 1 or "progressive" in picture.info:
            to_decode += _coefficients(picture.layer, original)
    elif decoder == "libtiff":
        to_decode += _strip(picture)
    elif decoder == "bmp_rle":
        if file > MOST_RUNS[0] or pixels > MOST_RUNS[1]:
            most = f"{MOST_RUNS[0] >> 20} MiB and {MOST_RUNS[1] // 1_000_000} megapixels"
            raise _too_large(name, "a run-length-encoded BMP, larger", most)
        to_decode += 3 * pixels
    to_convert = 0 if _is_plain(picture) else decoded + 4 * pixels
    _check_memory(picture, name, max(to_decode, to_convert), spare)
    return spare


def _coefficients(layers: list[tuple[int, int, int, int]], size: tuple[int, int]) -> int:
    """The bytes of all coefficients of a JPEG, two each, of components (id, h, v, table)."""
    across, down = max(layer[1] for layer in layers), max(layer[2] for layer in layers)
    shares = sum(layer[1] * layer[2] for layer in layers) / max(1, across * down)
    return int(2 * size[0] * size[1] * shares)


def _strip(picture: Image.Image) -> int:
    """The bytes of a compressed TIFF that are decoded at a time."""
    tags: Mapping[int, Any] = getattr(picture, "tag_v2", {})
    across = tags.get(TILEWIDTH, picture.width)
    down = tags.get(TILELENGTH, min(tags.get(ROWSPERSTRIP, picture.height), picture.height))
    bits = sum(tags.get(BITSPERSAMPLE, (1,)))
    return int(across * down * max(4, bits / 8))


def _check_memory(picture: Image.Image, name: str, needed: int, spare: int) -> None:
    if needed > spare:
        width, height = picture.size
        taken = (MOST_MEMORY - spare + needed) >> 20
        raise UserError(
            "picture.too_large",
            f"{name}: decoding {width} × {height} pixels of {picture.format or picture.mode} takes "
            f"{taken} MiB, more than the {MOST_MEMORY >> 20} MiB that are accepted; "
            "make it smaller, or save it as a baseline JPEG",
        )


def _is_plain(picture: Image.Image) -> bool:
    return picture.mode == "RGB" and "transparency" not in picture.info


def _rgb(picture: Image.Image) -> tuple[Image.Image, tuple[str, ...]]:
    if _is_plain(picture):
        return picture, ()
    if picture.mode in ("I;16", "I;16B", "I;16L", "I", "F"):
        low, high = _range(picture)
        return _by_strips(picture, lambda strip: _stretch(strip, low, high)), _CONVERTED
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        # Transparent areas become white, as on a page.
        is_opaque = True

        def on_white(strip: Image.Image) -> Image.Image:
            nonlocal is_opaque
            layer = strip.convert("RGBA")
            is_opaque &= layer.getchannel("A").getextrema() == (255, 255)
            ground = Image.new("RGBA", layer.size, "white")
            return Image.alpha_composite(ground, layer).convert("RGB")

        return _by_strips(picture, on_white), () if is_opaque else ("transparency_on_white",)
    return _by_strips(picture, lambda strip: strip.convert("RGB")), _CONVERTED


_CONVERTED = ("colours_converted",)


def _strips(picture: Image.Image) -> Iterator[tuple[int, int, int, int]]:
    width, height = picture.size
    rows = max(1, PIXELS_A_STRIP // width)
    for top in range(0, height, rows):
        yield 0, top, width, min(top + rows, height)


def _by_strips(picture: Image.Image, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """The picture converted to RGB strip by strip, without further copies of the whole."""
    whole = Image.new("RGB", picture.size)
    for box in _strips(picture):
        whole.paste(convert(picture.crop(box)), box)
    return whole


def _values(strip: Image.Image) -> npt.NDArray[np.float32]:
    return np.nan_to_num(np.asarray(strip, dtype=np.float32))


def _range(picture: Image.Image) -> tuple[float, float]:
    """The values that become black and white: all of 16 bits, otherwise the extremes found."""
    if picture.mode.startswith("I;16"):
        return 0.0, 65535.0
    ends = [(each.min(), each.max()) for each in map(_values, map(picture.crop, _strips(picture)))]
    return min(low for low, _ in ends), max(high for _, high in ends)


def _stretch(strip: Image.Image, low: float, high: float) -> Image.Image:
    """16-bit and float values scaled to 0..255."""
    scaled = (_values(strip) - low) * (255.0 / max(float(high - low), 1e-12))
    return Image.fromarray(scaled.clip(0, 255).astype(np.uint8)).convert("RGB")
