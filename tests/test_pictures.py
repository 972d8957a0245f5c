"""Pictures: upright RGB from anything, the square that is seen, the way back, and every error."""

import errno
import io
import os
import struct
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from show_attend_tell.captioning.captioner import open_given
from show_attend_tell.data.contents import survey_jpeg
from show_attend_tell.data.pictures import (
    LEAST_PART,
    LONGEST_SIDE,
    Preprocessing,
    augment,
    crop_of,
    frame,
    open_picture,
    random_part,
    read_image,
    read_picture,
)
from show_attend_tell.errors import UserError
from tests.bad_pictures import chunk, png_of, webp_of, with_chunk

PAPER = Preprocessing(mean=(0, 0, 0), std=(1, 1, 1))
SQUEEZED = PAPER.model_copy(update={"fit": "squeeze"})
GRID = (14, 14)


def saved(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def noise(width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def landscape(width: int, height: int) -> Image.Image:
    """Something smooth, different in every corner, as photographs are."""
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    hills = [np.sin(7 * x + 3 * y), np.cos(9 * y - 4 * x * y), np.sin(11 * x * y + y)]
    return Image.fromarray(np.uint8(127.5 + 127.5 * np.stack(hills, -1)))


def mean_difference(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one.astype(np.float64) - other.astype(np.float64)).mean())


def code_of(source: Path | bytes) -> str:
    with pytest.raises(UserError) as caught:
        open_picture(source)
    return caught.value.code


# Upright

# What the standard says of row 0 and column 0 of the stored picture, as a view of the upright one.
STORED: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    1: lambda upright: upright,  # top, left
    2: lambda upright: upright[:, ::-1],  # top, right
    3: lambda upright: upright[::-1, ::-1],  # bottom, right
    4: lambda upright: upright[::-1],  # bottom, left
    5: lambda upright: upright.swapaxes(0, 1),  # left, top
    6: lambda upright: upright[:, ::-1].swapaxes(0, 1),  # right, top
    7: lambda upright: upright[::-1, ::-1].swapaxes(0, 1),  # right, bottom
    8: lambda upright: upright[::-1].swapaxes(0, 1),  # left, bottom
}


def with_orientation(upright: Image.Image, orientation: int, kind: str) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = np.ascontiguousarray(STORED[orientation](np.asarray(upright)))
    return saved(Image.fromarray(pixels), kind, exif=exif)


@pytest.mark.parametrize("orientation", STORED)
def test_every_orientation_gives_the_upright_pixels(orientation: int) -> None:
    upright = noise(40, 30)
    found = open_picture(with_orientation(upright, orientation, "PNG"))
    assert np.array_equal(np.asarray(found), np.asarray(upright))


@pytest.mark.parametrize("orientation", STORED)
def test_a_picture_that_was_opened_is_not_turned_again(orientation: int) -> None:
    upright = Image.fromarray(np.arange(6 * 4 * 3, dtype=np.uint8).reshape(6, 4, 3))
    found = open_picture(with_orientation(upright, orientation, "PNG"))
    assert read_image(found).image.tobytes() == upright.tobytes()


@pytest.mark.parametrize("orientation", STORED)
def test_a_large_jpeg_decoded_small_is_upright_too(orientation: int) -> None:
    upright = landscape(1200, 800)
    found = open_picture(with_orientation(upright, orientation, "JPEG"), least_side=100)
    assert found.size == (150, 100)
    assert mean_difference(np.asarray(found), np.asarray(upright.resize((150, 100)))) < 3


@pytest.mark.parametrize("size", [(1024, 1023), (1023, 1024)])
def test_the_size_of_a_nearly_square_picture_is_not_swapped(size: tuple[int, int]) -> None:
    opened = read_picture(saved(landscape(*size), "JPEG"), least_side=100)
    assert opened.image.size == (128, 128)
    assert opened.size == size


@pytest.mark.parametrize(
    "exif",
    [
        b"Exif\0\0",
        b"Exif\0\0not a TIFF header at all",
        b"Exif\0\0II*\0\xff\xff\xff\xff",  # its directory is beyond the end
        b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + b"\x12\x01\x03\0" * 5,  # entries that are not there
        b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x09\0\0\0\0\0\0",  # orientation 9
        b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x02\0\0\0\x02six\0\0\0\0\0",  # in words
    ],
)
def test_broken_exif_does_not_cost_the_picture(exif: bytes) -> None:
    plain = open_picture(saved(noise(40, 30), "JPEG"))
    assert open_picture(saved(noise(40, 30), "JPEG", exif=exif)).tobytes() == plain.tobytes()


# Any mode to RGB


def halves(mode: str, left: object, right: object) -> Image.Image:
    picture = Image.new(mode, (32, 16), left)  # type: ignore[arg-type]
    picture.paste(right, (16, 0, 32, 16))  # type: ignore[arg-type]
    return picture


def palette_with_a_hole() -> Image.Image:
    picture = halves("P", 0, 1)
    picture.putpalette([200, 0, 0, 0, 0, 200])
    picture.info["transparency"] = 1
    return picture


def floats(*values: float) -> Image.Image:
    return Image.fromarray(np.repeat(np.float32([values]), 16, axis=0).repeat(16, axis=1))


WHITE, BLACK = (255, 255, 255), (0, 0, 0)
MODES = {
    "1": (halves("1", 0, 1), "PNG", BLACK, WHITE),
    "L": (halves("L", 10, 200), "PNG", (10, 10, 10), (200, 200, 200)),
    "L in a JPEG": (halves("L", 10, 200), "JPEG", (10, 10, 10), (200, 200, 200)),
    "LA": (halves("LA", (10, 255), (10, 0)), "PNG", (10, 10, 10), WHITE),
    "P": (halves("RGB", (9, 8, 7), (200, 0, 0)).quantize(), "PNG", (9, 8, 7), (200, 0, 0)),
    "P with transparency": (palette_with_a_hole(), "PNG", (200, 0, 0), WHITE),
    "P with transparency in a GIF": (palette_with_a_hole(), "GIF", (200, 0, 0), WHITE),
    "RGBA": (halves("RGBA", (0, 0, 200, 255), (0, 0, 0, 51)), "PNG", (0, 0, 200), (204, 204, 204)),
    "RGBA in a WebP": (
        halves("RGBA", (0, 0, 200, 255), (0, 0, 0, 0)),
        "WEBP",
        (0, 0, 200),
        WHITE,
    ),
    "CMYK": (halves("CMYK", (0, 255, 255, 0), (0, 0, 0, 255)), "TIFF", (255, 0, 0), BLACK),
    "CMYK in a JPEG": (
        halves("CMYK", (0, 255, 255, 0), (0, 0, 0, 255)),
        "JPEG",
        (255, 0, 0),
        BLACK,
    ),
    "I;16": (halves("I;16", 16448, 65535), "PNG", (64, 64, 64), WHITE),
    "I;16 in a TIFF": (halves("I;16", 16448, 65535), "TIFF", (64, 64, 64), WHITE),
    "I": (halves("I", -70000, 1_000_000), "TIFF", BLACK, WHITE),
    "F": (floats(0.25, 0.75), "TIFF", BLACK, WHITE),
    "F with a hole": (floats(float("nan"), 1.0), "TIFF", BLACK, WHITE),
}


@pytest.mark.parametrize("mode", MODES)
def test_any_mode_becomes_rgb(mode: str) -> None:
    picture, kind, left, right = MODES[mode]
    options = {"lossless": True} if kind == "WEBP" else {}
    found = open_picture(saved(picture, kind, **options))
    assert found.mode == "RGB"
    for x, colour in ((3, left), (28, right)):
        assert found.getpixel((x, 8)) == pytest.approx(colour, abs=3), mode


def test_the_modes_above_are_what_pillow_reads_back() -> None:
    read = {mode: Image.open(io.BytesIO(saved(*row[:2]))).mode for mode, row in MODES.items()}
    assert {mode.split()[0] for mode in MODES} <= set(read.values())


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_an_animation_gives_its_first_frame(kind: str) -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue", "green")]
    options = {"lossless": True} if kind == "WEBP" else {}
    found = open_picture(saved(frames[0], kind, save_all=True, append_images=frames[1:], **options))
    assert found.getpixel((10, 10)) == (255, 0, 0)


def test_a_jpeg_with_a_second_picture_inside_is_a_jpeg() -> None:
    both = saved(noise(40, 30), "MPO", save_all=True, append_images=[noise(20, 10)])
    assert open_picture(both).size == (40, 30)


def test_path_bytes_and_stream_give_the_same(tmp_path: Path) -> None:
    content = saved(noise(40, 30))
    (tmp_path / "a.jpg").write_bytes(content)  # the name does not matter
    pictures = [open_picture(s) for s in (tmp_path / "a.jpg", content, io.BytesIO(content))]
    assert len({picture.tobytes() for picture in pictures}) == 1


# The square that the encoder sees, and the way back


def test_the_frame_is_the_paper_s_resize_and_central_crop() -> None:
    for width, height in ((500, 375), (375, 500), (640, 256)):
        picture = landscape(width, height)
        scale = 256 / min(width, height)
        resized = picture.resize(
            (round(width * scale), round(height * scale)), Image.Resampling.BICUBIC
        )
        x, y = (resized.width - 224) // 2, (resized.height - 224) // 2
        central = np.asarray(resized.crop((x, y, x + 224, y + 224)))
        assert mean_difference(frame(picture, PAPER), central) < 1


@given(st.integers(1, 9000), st.integers(1, 9000))
def test_the_crop_is_central_square_and_seven_eighths_of_the_short_side(
    width: int, height: int
) -> None:
    crop = crop_of((width, height), PAPER)
    assert crop.x1 - crop.x0 == pytest.approx(min(width, height) * 7 / 8)
    assert crop.y1 - crop.y0 == pytest.approx(crop.x1 - crop.x0)
    assert crop.x0 + crop.x1 == pytest.approx(width)
    assert crop.y0 + crop.y1 == pytest.approx(height)


@given(st.integers(1, 9000), st.integers(1, 9000), st.sampled_from([PAPER, SQUEEZED]))
def test_corner_cells_end_where_the_crop_ends(width: int, height: int, how: Preprocessing) -> None:
    crop = crop_of((width, height), how)
    x0, y0, _, _ = crop.cell(0, 0, GRID)
    _, _, x1, y1 = crop.cell(13, 13, GRID)
    assert (x0, y0, x1, y1) == pytest.approx((crop.x0, crop.y0, crop.x1, crop.y1))
    assert crop.cell(4, 7, GRID)[:2] == pytest.approx(crop.cell(3, 6, GRID)[2:])


def test_squeezed_the_whole_picture_is_seen() -> None:
    crop = crop_of((1200, 700), SQUEEZED)
    assert (crop.x0, crop.y0, crop.x1, crop.y1) == (0, 0, 1200, 700)


@pytest.mark.parametrize("how", [PAPER, SQUEEZED], ids=["crop", "squeeze"])
@pytest.mark.parametrize("size", [(2100, 1400), (1400, 2100), (1500, 1500), (3001, 1207)])
@pytest.mark.parametrize("cell", [(0, 0), (0, 13), (13, 0), (13, 13), (6, 9)])
def test_what_is_painted_into_a_cell_lights_that_cell_only(
    how: Preprocessing, size: tuple[int, int], cell: tuple[int, int]
) -> None:
    picture = Image.new("L", size)
    x0, y0, x1, y1 = crop_of(size, how).cell(*cell, GRID)
    picture.paste(255, (round(x0), round(y0), round(x1), round(y1)))
    seen = frame(picture.convert("RGB"), how)[..., 0] / 255
    light = seen.reshape(14, 16, 14, 16).mean(axis=(1, 3))
    assert light[cell] > 0.95
    light[cell] = 0
    assert light.max() < 0.03


def test_what_lies_outside_the_crop_is_not_seen() -> None:
    size = (2048, 1024)
    crop = crop_of(size, PAPER)
    picture = Image.new("RGB", size, "white")
    picture.paste("black", (int(crop.x0), int(crop.y0), int(crop.x1), int(crop.y1)))
    assert frame(picture, PAPER)[2:-2, 2:-2].max() == 0


@given(
    st.integers(1, 9000),
    st.integers(1, 9000),
    st.sampled_from([PAPER, SQUEEZED]),
    st.integers(0, 2**32),
)
def test_a_further_view_shows_a_large_part_of_the_picture_undistorted(
    width: int, height: int, how: Preprocessing, seed: int
) -> None:
    part = random_part((width, height), how, np.random.default_rng(seed))
    assert 0 <= part.x0 < part.x1 <= width
    assert 0 <= part.y0 < part.y1 <= height
    whole = (width, height) if how.fit == "squeeze" else (min(width, height),) * 2
    shares = (part.x1 - part.x0) / whole[0], (part.y1 - part.y0) / whole[1]
    assert shares[0] == pytest.approx(shares[1])
    assert LEAST_PART - 1e-9 <= shares[0] <= 1 + 1e-9


@pytest.mark.parametrize("how", [PAPER, SQUEEZED], ids=["crop", "squeeze"])
def test_odd_augmentations_are_mirrored_and_number_0_is_the_frame(how: Preprocessing) -> None:
    pixels = np.zeros((300, 400, 3), np.uint8)
    pixels[:, :200] = 255  # bright on the left, whatever part of at least four fifths is seen
    picture = Image.fromarray(pixels)
    views = [augment(picture, how, number, "a.jpg").astype(int) for number in range(4)]
    half = how.size // 2
    brighter_left = [one[:, :half].mean() > one[:, half:].mean() for one in views]
    assert brighter_left == [True, False, True, False]
    assert np.array_equal(views[0], frame(picture, how))
    assert len({one.tobytes() for one in views}) == 4


def test_the_name_of_a_picture_settles_its_augmentations() -> None:
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 70, 3), np.uint8))
    again, other = augment(picture, PAPER, 2, "a.jpg"), augment(picture, PAPER, 2, "b\udce9.jpg")
    assert np.array_equal(again, augment(picture, PAPER, 2, "a.jpg"))
    assert not np.array_equal(again, other)


@pytest.mark.parametrize("size", [(1, 1), (LONGEST_SIDE, 17), (1, 1000), (3, 5)])
@pytest.mark.parametrize("how", [PAPER, SQUEEZED], ids=["crop", "squeeze"])
def test_a_picture_of_any_shape_has_a_frame(how: Preprocessing, size: tuple[int, int]) -> None:
    picture = open_picture(saved(Image.new("RGB", size, (250, 120, 10))))
    assert np.array_equal(frame(picture, how), np.full((224, 224, 3), (250, 120, 10)))


# Sides that the scale does not divide are rounded up to whole pixels when decoded small: the frame
# is stretched by less than a pixel, which costs more than the decoding itself.
@pytest.mark.parametrize(
    ("size", "most"),
    [((1536, 1040), 0.5), ((1040, 1536), 0.5), ((1032, 1028), 0.5), ((1025, 1025), 1.5)],
)
@pytest.mark.parametrize("how", [PAPER, SQUEEZED], ids=["crop", "squeeze"])
def test_least_side_gives_nearly_the_frame_of_the_whole(
    how: Preprocessing, size: tuple[int, int], most: float
) -> None:
    content = saved(landscape(*size), "JPEG", quality=90)
    small = open_picture(content, least_side=256)
    assert 256 <= min(small.size) < min(size)
    assert mean_difference(frame(small, how), frame(open_picture(content), how)) < most


# Errors


def png_header(width: int, height: int) -> bytes:
    """A picture that promises pixels and brings none."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"IDAT"
    chunks = (header, data)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
        for chunk in chunks
    )


def damaged_png() -> bytes:
    content = bytearray(saved(noise(40, 30)))
    content[len(content) // 2] ^= 0xFF
    return bytes(content)


CODES = {
    "nothing": (b"", "picture.empty"),
    "one byte": (b"\xff", "picture.not_a_picture"),
    "text": (b"not a picture", "picture.not_a_picture"),
    "HTML": (b"<!DOCTYPE html><html></html>", "picture.not_a_picture"),
    "SVG": (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "picture.not_a_picture"),
    "PDF": (saved(noise(8, 8), "PDF"), "picture.unsupported"),
    "a format not on the list": (saved(noise(8, 8), "PPM"), "picture.not_a_picture"),
    "JPEG cut at half": (saved(noise(64, 48), "JPEG")[:1500], "picture.truncated"),
    "JPEG whose rest was never written": (
        saved(noise(64, 48), "JPEG")[:300] + bytes(3 << 20),
        "picture.truncated",
    ),
    "PNG cut at half": (saved(noise(64, 48))[:4000], "picture.truncated"),
    "GIF cut at half": (saved(noise(64, 48), "GIF")[:2500], "picture.truncated"),
    "BMP cut at half": (saved(noise(64, 48), "BMP")[:4000], "picture.truncated"),
    "TIFF cut at half": (saved(noise(64, 48), "TIFF")[:4000], "picture.truncated"),
    "WebP cut at half": (saved(noise(64, 48), "WEBP")[:1000], "picture.corrupt"),
    "a byte of a PNG flipped": (damaged_png(), "picture.corrupt"),
    "too many pixels": (png_header(8000, 5001), "picture.too_large"),
    "as many pixels as may be, none there": (png_header(8000, 5000), "picture.truncated"),
    "a bomb": (png_header(50_000, 50_000), "picture.too_large"),
    "too long a side": (saved(Image.new("1", (LONGEST_SIDE + 1, 99))), "picture.too_large"),
    "a line": (saved(Image.new("1", (1001, 1))), "picture.too_large"),
}


@pytest.mark.parametrize("what", CODES)
def test_each_bad_picture_has_its_code_and_is_named(what: str, tmp_path: Path) -> None:
    content, code = CODES[what]
    path = tmp_path / "beach.jpg"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"beach\.jpg: .") as caught:
        open_picture(path)
    assert caught.value.code == code


def test_bytes_are_named_as_told() -> None:
    with pytest.raises(UserError, match=r"^upload 3: "):
        open_picture(b"not a picture", "upload 3")


def test_a_missing_picture_is_told(tmp_path: Path) -> None:
    assert code_of(tmp_path / "none.jpg") == "picture.missing"


def test_a_folder_is_not_a_picture(tmp_path: Path) -> None:
    assert code_of(tmp_path) == "picture.not_a_picture"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    assert code_of(tmp_path / "pipe.jpg") == "picture.not_a_picture"


@pytest.mark.parametrize("call", ["stat", "open"])
def test_a_picture_one_may_not_read_is_told(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "beach.jpg"
    path.write_bytes(saved(noise(8, 8)))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, call, refuse)
    with pytest.raises(UserError, match=r"beach\.jpg: .*Permission denied") as caught:
        open_picture(path)
    assert caught.value.code == "picture.unreadable"


def test_a_picture_that_vanishes_before_it_is_read_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "beach.jpg"
    path.write_bytes(saved(noise(8, 8)))
    found = Path.is_file

    def removed_meanwhile(self: Path) -> bool:
        answer = found(self)
        self.unlink()
        return answer

    monkeypatch.setattr(Path, "is_file", removed_meanwhile)
    assert code_of(path) == "picture.missing"


def test_a_name_too_long_for_the_disk_is_told(tmp_path: Path) -> None:
    # Newer Pythons say that such a file does not exist.
    assert code_of(tmp_path / ("x" * 300)) in ("picture.unreadable", "picture.missing")


# What stands in a JPEG beside its pixels


def jpeg_with(behind_the_mark: bytes = b"", behind_the_end: bytes = b"") -> bytes:
    whole = saved(noise(40, 30), "JPEG")
    return whole[:2] + behind_the_mark + whole[2:] + behind_the_end


def segments(total: int, marker: int = 0xE1, content: bytes = b"Exif\0\0") -> bytes:
    one = (content + b"\xff\xda" * 33_000)[:65_000]
    return (bytes([0xFF, marker]) + struct.pack(">H", 65_002) + one) * (total // 65_004)


GOOD_BESIDE: dict[str, Callable[[], bytes]] = {
    "a motion photo": lambda: jpeg_with(
        behind_the_end=b"\0\0\0\x18ftypmp42" + b"\xff\xda" * 3_500_000
    ),
    "EXIF": lambda: jpeg_with(segments(5_000_000)),
    "a thumbnail": lambda: jpeg_with(segments(5_000_000, 0xE2, b"thumbnail")),
    "fill": lambda: jpeg_with(b"\xff" * 1000),  # such bytes may stand before any marker
}


@pytest.mark.parametrize("what", GOOD_BESIDE)
def test_what_looks_like_scans_beside_the_pixels_costs_no_photo(what: str) -> None:
    opened = read_picture(GOOD_BESIDE[what]())
    assert opened.image.tobytes() == open_picture(jpeg_with()).tobytes()
    assert ("trailing_bytes_ignored" in opened.warnings) == (what == "a motion photo")


TOO_MUCH_BESIDE: dict[str, Callable[[], bytes]] = {
    "fill": lambda: jpeg_with(b"\xff" * 50_000_000),
    "zeros": lambda: jpeg_with(b"\xff\xfe\0\2" + bytes(50_000_000)),
    "EXIF": lambda: jpeg_with(segments(97_000_000)),
    "segments": lambda: jpeg_with(segments(97_000_000, 0xE2, b"")),
    "small EXIF": lambda: jpeg_with(b"\xff\xe1\0\x08Exif\0\0" * 1_000_000),
    "marks": lambda: jpeg_with(b"\xff\xd0" * 40_000_000),
    "behind the pixels": lambda: jpeg_with()[:-2] + b"\xff\xfe\0\2" * 20_000_000,
}


def in_gif(blocks: bytes) -> bytes:
    """Blocks behind the palette."""
    whole = saved(noise(40, 30), "GIF")
    return whole[: 13 + 3 * 256] + blocks + whole[13 + 3 * 256 :]


def in_gif_pixels(blocks: bytes) -> bytes:
    whole = saved(noise(40, 30), "GIF")
    begin = whole.index(b"\x2c\0\0\0\0\x28\0\x1e\0") + 11
    return whole[:begin] + blocks + whole[begin:]


def tiff_of(*tags: tuple[int, int, int, int], more: int, big: bool = False) -> bytes:
    """8 x 8 pixels of grey by tags (name, kind, count, value), and more bytes behind them."""
    about = [(256, 4, 1, 8), (257, 4, 1, 8), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    each = sorted([*about, (277, 3, 1, 1), (279, 4, 1, 64), *tags])
    head, tag = ("<QQ", "<HHQQ") if big else ("<IH", "<HHII")
    written = b"".join(struct.pack(tag, *one) for one in each)
    begin = struct.pack(head, 16 if big else 8, len(each))
    return (b"II+\0\x08\0\0\0" if big else b"II*\0") + begin + written + bytes(more)


def in_webp(name: bytes, content: bytes) -> bytes:
    whole = saved(noise(40, 30), "WEBP", exif=TURNED)
    more = name + struct.pack("<I", len(content)) + content
    return whole[:4] + struct.pack("<I", len(whole) - 8 + len(more)) + whole[8:] + more


PNG = saved(noise(40, 30))
TURNED = Image.Exif()
TURNED[0x0112] = 6
TOO_MUCH_BESIDE |= {
    "chunks": lambda: with_chunk(PNG, chunk(b"abCd", b"") * 200_000),
    "empty pixels": lambda: with_chunk(PNG, chunk(b"IDAT", b"") * 200_000),
    "EXIF of a PNG": lambda: with_chunk(PNG, chunk(b"eXIf", bytes(20 << 20))),
    "comments of a GIF": lambda: in_gif(b"\x21\xfe\1a\0" * 200_000),
    "a comment in pieces": lambda: in_gif(b"\x21\xfe" + b"\1a" * 2_000_000 + b"\0"),
    "pixels in pieces": lambda: in_gif_pixels(b"\1\0" * 4_000_000),
    "strips": lambda: tiff_of((273, 4, 1_000_000, 300), (278, 4, 1, 1), more=4_000_300),
    "tags": lambda: tiff_of((273, 4, 1, 300), *[(900, 1, 1, 0)] * 300_000, more=99, big=True),
    "the same bytes in many tags": lambda: tiff_of(
        (273, 4, 1, 300), *[(900 + i, 7, 4 << 20, 300) for i in range(50)], more=5 << 20
    ),
    "EXIF of a WebP": lambda: in_webp(b"EXIF", bytes(20 << 20)),
    "chunks of a WebP": lambda: in_webp(b"abcd", b"") + b"abcd\0\0\0\0" * 200_000,
}


@pytest.mark.parametrize("what", TOO_MUCH_BESIDE)
def test_more_beside_the_pixels_than_is_taken_on_is_refused_at_once(what: str) -> None:
    content = TOO_MUCH_BESIDE[what]()
    begin = time.process_time()
    with pytest.raises(UserError, match="metadata are too large") as caught:
        read_picture(content)
    assert caught.value.code == "picture.too_large"
    assert time.process_time() - begin < 1


GOOD_IN_PIECES: dict[str, Callable[[], bytes]] = {
    "PNG": lambda: with_chunk(PNG, chunk(b"abCd", bytes(99)) * 90_000),
    "GIF": lambda: in_gif(b"\x21\xfe" + (b"\xff" + b"a" * 255) * 9_000 + b"\0"),
    "GIF pixels": lambda: saved(
        Image.frombytes("P", (600, 1500), noise(600, 500).tobytes()), "GIF"
    ),
    "TIFF": lambda: saved(noise(40, 16_000), "TIFF", tiffinfo={278: 1}),
    "layered TIFF": lambda: tiff_of((273, 4, 1, 300), (37724, 7, 40 << 20, 300), more=41 << 20),
    "WebP": lambda: saved(noise(40, 30), "WEBP", xmp=bytes(9 << 20)),
}


@pytest.mark.parametrize("what", GOOD_IN_PIECES)
def test_what_programs_write_beside_the_pixels_costs_no_picture(what: str) -> None:
    assert open_picture(GOOD_IN_PIECES[what]()).mode == "RGB"


@pytest.mark.parametrize("size", [(8000, 5000), (64, 64)])
def test_a_bmp_in_runs_is_unpacked_only_if_small(size: tuple[int, int]) -> None:
    content = bytearray(saved(Image.new("P", (8, 8)), "BMP"))
    content[18:26] = struct.pack("<II", *size)
    content[30:34] = struct.pack("<I", 1)  # each row ends at once
    content[content[10] + 256 * content[11] :] = b"\1\1\0\0" * size[1] + b"\0\1"
    for whole in (bytes(content), bytes(content) + b"\0\0" * (2 << 20)):
        if size[0] < 100 and len(whole) < 1 << 20:
            assert open_picture(whole).size == size
        else:
            assert code_of(whole) == "picture.too_large"


def test_a_jpeg_without_its_end_mark_carries_a_warning() -> None:
    content = saved(noise(64, 48), "JPEG")[:900] + bytes(1 << 20)
    assert read_picture(content).warnings == ("trailing_bytes_ignored",)


def test_padded_restart_marks_are_no_scans() -> None:
    scan = b"\x01\xff\x00\xff\xff\xff\xd3\xff\xff\x00\x02\xff\xd0"
    header = b"\xff\xd8\xff\xda\0\x04ab"
    prepare = survey_jpeg(header + scan * 5000 + b"\xff\xff\xd9" + b"\xff\xda" * 9, 1000)
    assert (prepare.scans, prepare.pieces, prepare.has_more) == (1, 1, True)
    assert survey_jpeg(header + b"\xff\xfe\0\2" * 5000, 1000).pieces == 1001
    assert survey_jpeg(header + scan + b"\xff\xd9\0\0", 9).has_more is False
    assert survey_jpeg(header + scan, 9).has_more is True


# Memory

# The largest of each kind that are accepted, or nearly.
HEAVY: dict[str, Callable[[], bytes]] = {
    "photo": lambda: saved(Image.new("RGB", (8000, 5000), "navy"), "JPEG", exif=TURNED),
    "progressive photo": lambda: saved(
        Image.new("RGB", (8000, 5000), "navy"), "JPEG", progressive=True, subsampling=0, exif=TURNED
    ),
    "WebP": lambda: saved(Image.new("RGB", (4850, 3700)), "WEBP", method=0, exif=TURNED),
    "transparent WebP": lambda: saved(Image.new("RGBA", (4850, 3700)), "WEBP", method=0),
    "packed WebP": lambda: webp_of(4850, 3700),
    "large WebP": lambda: saved(noise(3400, 3400), "WEBP", lossless=True, method=0, quality=0),
    "RGB": lambda: saved(Image.new("RGB", (6000, 6000)), compress_level=1, exif=TURNED),
    "RGBA": lambda: saved(Image.new("RGBA", (6000, 6000)), compress_level=1, exif=TURNED),
    "RGBA of 16 bits": lambda: png_of(
        6000, 6000, chunk(b"IDAT", zlib.compress(bytes(48_001 * 6000), 1)), bits=16, colours=6
    ),
    "grey of 16 bits": lambda: saved(Image.new("I;16", (8000, 5000)), compress_level=1),
    "palette": lambda: saved(Image.new("P", (8000, 5000)), transparency=3, compress_level=1),
    "GIF": lambda: saved(Image.new("P", (8000, 5000)), "GIF", transparency=3),
    "BMP": lambda: saved(Image.new("RGB", (8000, 5000)), "BMP"),
    "float TIFF": lambda: saved(Image.new("F", (5000, 4800)), "TIFF"),
    "packed float TIFF": lambda: saved(
        Image.new("F", (6000, 6000)), "TIFF", compression="tiff_lzw"
    ),
    "TIFF in one strip": lambda: saved(
        Image.new("RGBA", (6000, 6000)), "TIFF", compression="tiff_lzw", tiffinfo={278: 6000}
    ),
    "CMYK TIFF": lambda: saved(Image.new("CMYK", (6000, 4000)), "TIFF"),
}

# What the system tells of a child from outside begins with its parent's.
MEASURE = """
import sys
from pathlib import Path
from PIL import Image
from show_attend_tell.data.pictures import read_picture
def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
Image.init()
idle = peak()
read_picture(Path(sys.argv[1]), least_side=256)
print(peak() - idle)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("kind", HEAVY)
def test_the_largest_that_are_accepted_take_no_more_than_300_mb(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(HEAVY[kind]())
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 300


@pytest.mark.parametrize(
    "content",
    [
        webp_of(5000, 4000),
        png_of(8000, 5000, chunk(b"IDAT", b""), bits=16, colours=6),
        png_of(8000, 5000, chunk(b"IDAT", b""), colours=6),
        saved(Image.new("F", (1, 1)), "TIFF")
        .replace(struct.pack("<HHII", 256, 4, 1, 1), struct.pack("<HHII", 256, 4, 1, 8000))
        .replace(struct.pack("<HHII", 257, 4, 1, 1), struct.pack("<HHII", 257, 4, 1, 5000)),
    ],
    ids=["WebP", "RGBA of 16 bits", "RGBA", "float TIFF"],
)
def test_what_takes_more_memory_is_refused_by_its_header(content: bytes) -> None:
    with pytest.raises(UserError, match=r"takes \d+ MiB, more than the 280 MiB") as caught:
        read_picture(content)
    assert caught.value.code == "picture.too_large"


def broken_tiffs() -> list[bytes]:
    """Of every way to pack one: all pixels written over."""
    broken = []
    for packing in ("tiff_lzw", "tiff_adobe_deflate", "jpeg", "packbits"):
        whole = saved(noise(40, 30), "TIFF", compression=packing)
        tags = Image.open(io.BytesIO(whole)).tag_v2
        (at,), (length,) = tags[273], tags[279]
        for kept in (0, length // 2):
            rest = b"\xa5" * (length - kept)
            broken.append(whole[: at + kept] + rest + whole[at + length :])
    return broken


READ_ALL = """
import sys
from contextlib import suppress
from pathlib import Path
from show_attend_tell.data.pictures import open_picture
from show_attend_tell.errors import UserError
for path in Path(sys.argv[1]).iterdir():
    with suppress(UserError):
        open_picture(path)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="libtiff is built into Pillow there")
def test_nothing_beneath_writes_past_us(tmp_path: Path) -> None:
    # Pillow's own words about such a one go to `logging`, which writes them if nobody else listens.
    many_samples = struct.pack("<HHII", 277, 3, 1, 2048)
    whole = saved(noise(8, 8), "TIFF")
    broken = [*broken_tiffs(), whole.replace(struct.pack("<HHII", 277, 3, 1, 3), many_samples)]
    assert broken[-1] != whole
    for i, content in enumerate(broken):
        (tmp_path / f"{i}.tif").write_bytes(content)
    command = [sys.executable, "-c", READ_ALL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_some_of_the_fuzz() -> None:
    program = Path(__file__).parents[1] / "benchmarks" / "fuzz_pictures.py"
    command = [sys.executable, str(program), "--count", "240", "--workers", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_image_with_endless_values_is_read_without_a_warning() -> None:
    for image in (floats(-3e38, 3e38), floats(float("-inf"), float("inf"))):
        assert read_image(image).image.mode == "RGB"


def closed() -> io.BytesIO:
    stream = io.BytesIO(saved(noise(8, 8)))
    stream.close()
    return stream


class OnlyRead:
    def read(self, size: int) -> bytes:
        return saved(noise(8, 8))


def test_what_can_only_be_read_is_read() -> None:
    assert open_given(OnlyRead()).size == (8, 8)


@pytest.mark.parametrize(
    ("picture", "code"),
    [
        (closed(), "picture.unreadable"),
        (np.broadcast_to(np.uint8(7), (60_000, 60_000, 3)), "picture.too_large"),
        (np.broadcast_to(np.uint8(7), (5001, 8000, 3)), "picture.too_large"),
        (np.broadcast_to(np.uint8(7), (1, 1001, 3)), "picture.too_large"),
    ],
    ids=["closed", "huge view", "one row more", "a line"],
)
def test_what_a_program_may_hand_over_is_refused_at_once(picture: object, code: str) -> None:
    begin = time.process_time()
    with pytest.raises(UserError) as caught:
        open_given(picture)
    assert caught.value.code == code
    assert time.process_time() - begin < 0.1


SEEDS = {
    "JPEG": ("JPEG", {}),
    "progressive JPEG": ("JPEG", {"progressive": True}),
    "PNG": ("PNG", {}),
    "WebP": ("WEBP", {}),
    "GIF": ("GIF", {}),
    "BMP": ("BMP", {}),
    "TIFF": ("TIFF", {}),
    "packed TIFF": ("TIFF", {"compression": "tiff_lzw"}),
}


@pytest.mark.parametrize("kind", SEEDS)
def test_no_damage_raises_anything_but_our_own_error(kind: str) -> None:
    name, options = SEEDS[kind]
    whole = saved(noise(32, 24), name, **options)
    random = np.random.default_rng(0)
    codes = set()
    for trial in range(120):
        content = bytearray(whole)
        reach = min(len(content), 200) if trial % 2 else len(content)  # headers matter most
        for place in random.integers(0, reach, 3):
            content[place] = random.integers(256)
        if trial % 5 == 0:
            del content[random.integers(1, len(content)) :]
        try:
            open_picture(bytes(content), least_side=8)
        except UserError as error:
            codes.add(error.code)
    assert codes <= {f"picture.{c}" for c in ("not_a_picture", "truncated", "corrupt", "too_large")}
    assert codes


def test_threads_that_read_together_leave_the_filters_of_warnings_as_they_were() -> None:
    picture = io.BytesIO()
    Image.new("RGB", (300, 200)).save(picture, format="PNG")
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        sizes = set(pool.map(lambda _: open_picture(picture.getvalue()).size, range(400)))
    assert sizes == {(300, 200)}
    assert warnings.filters == before
