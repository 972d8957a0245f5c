"""Every bad, odd and hostile picture that we know of, made from code, with its right answer."""

import io
import os
import socket
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageCms
from PIL.TiffImagePlugin import ImageFileDirectory_v2

EXIF_ORIENTATION = 0x0112


@dataclass(frozen=True)
class Row:
    """One kind of picture, numbered as in the project's list of bad input."""

    number: int
    name: str  # of the file
    make: bytes | Callable[[Path], None]  # its content, or what puts it there
    answer: str = "caption"  # or the code of the error
    warnings: tuple[str, ...] = ()

    def put(self, folder: Path) -> Path:
        path = folder / self.name
        if isinstance(self.make, bytes):
            path.write_bytes(self.make)
        else:
            self.make(path)
        return path


def saved(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def photo(width: int = 120, height: int = 90) -> Image.Image:
    """Smooth, different in every corner, with enough detail for a JPEG of some length."""
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    hills = np.stack([np.sin(7 * x + 3 * y), np.cos(9 * y - 4 * x * y), np.sin(11 * x * y)], -1)
    grain = np.random.default_rng(0).normal(size=hills.shape)
    return Image.fromarray(np.uint8((127.5 + 90 * hills + 10 * grain).clip(0, 255)))


def chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def png_of(width: int, height: int, *more: bytes, bits: int = 8, colours: int = 2) -> bytes:
    """A picture that promises pixels and brings none."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colours, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(more)


def webp_of(width: int, height: int) -> bytes:
    """All of one colour, in as few bytes as can be."""
    pixels = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"\x88\x88\x08"
    return b"RIFF" + struct.pack("<I", 20) + b"WEBPVP8L" + struct.pack("<I", 8) + pixels


def with_chunk(png: bytes, *more: bytes) -> bytes:
    """The chunks behind the header."""
    return png[:33] + b"".join(more) + png[33:]


def huge_text(path: Path) -> None:
    """200 MB of text in a PNG; the disk holds a hole instead."""
    with path.open("wb") as stream:
        stream.write(png_of(9, 9) + struct.pack(">I", 200_000_000) + b"tEXtComment\0")
        stream.truncate(200_001_000)


def made(content: Callable[[], bytes]) -> Callable[[Path], None]:
    """Content that is too large to be kept for every test."""

    def put(path: Path) -> None:
        path.write_bytes(content())

    return put


def zipped() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("readme.txt", "words")
    return stream.getvalue()


def segment(jpeg: bytes, marker: int) -> tuple[int, int]:
    """Where the first segment with this marker begins and ends."""
    at = jpeg.index(bytes([0xFF, marker]))
    return at, at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")


def wrong_huffman_table() -> bytes:
    """A table of more codes than there are bits for."""
    jpeg = bytearray(JPEG)
    begin, _ = segment(JPEG, 0xC4)
    jpeg[begin + 5 : begin + 8] = b"\x0f\x0f\x0f"
    return bytes(jpeg)


def of_1000_scans() -> bytes:
    jpeg = saved(photo(), "JPEG", progressive=True)
    begin = jpeg.rindex(b"\xff\xda")
    return jpeg[:begin] + jpeg[begin:-2] * 1000 + b"\xff\xd9"


def with_exif_of(megabytes: int) -> bytes:
    """Segments full of what looks like the begin of a scan."""
    one = b"\xff\xe1\xff\xff" + (b"Exif\0\0" + b"\xff\xda" * 32_768)[:65_533]
    return JPEG[:2] + one * (megabytes * 16) + JPEG[2:]


def tiff_of_offsets() -> bytes:
    """A million strips, every one at the begin of the file."""
    whole = tiff_with(t278=1)
    place = whole.index(struct.pack("<HHI", 273, 4, 90)) + 4
    more = struct.pack("<II", 1_000_000, len(whole))
    return whole[:place] + more + whole[place + 8 :] + bytes(4_000_000)


def broken_tiff(packing: str) -> bytes:
    """All pixels written over."""
    whole = saved(photo(), "TIFF", compression=packing)
    tags = Image.open(io.BytesIO(whole)).tag_v2
    (at,), (length,) = tags[273], tags[279]
    return whole[:at] + b"\xa5" * length + whole[at + length :]


def without_adobe(jpeg: bytes) -> bytes:
    begin, end = segment(jpeg, 0xEE)
    return jpeg[:begin] + jpeg[end:]


def oriented(orientation: int) -> bytes:
    """Stored so that the orientation makes it upright, if it is one."""
    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    exif = Image.Exif()
    exif[EXIF_ORIENTATION] = orientation
    stored = photo().transpose(turns[orientation]) if orientation in turns else photo()
    return saved(stored, "PNG", exif=exif)


def looping_exif() -> bytes:
    """64 kB of directories, each naming the next, the last one the first."""
    entry = struct.pack(">HHHII", 1, 0x8769, 4, 1, 8)
    body = b"".join(entry + struct.pack(">I", 8 + 18 * (i + 1)) for i in range(3600))
    return b"Exif\0\0MM\0*\0\0\0\x08" + body[:-4] + struct.pack(">I", 8)


def wide_gamut() -> bytes:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for name in ("sRGB", "RGB "):
        wide = "P3 D".encode("utf-16-be")
        profile = profile.replace(name.encode("utf-16-be"), wide)
    return profile.replace(b"sRGB", b"P3 D")


def animation(kind: str, frames: int = 3) -> bytes:
    options = {"lossless": True} if kind == "WEBP" else {}
    more = [photo().rotate(30 * i) for i in range(1, frames)]
    return saved(photo(), kind, save_all=True, append_images=more, **options)


GIF_HEADER = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff"
GIF_FRAME = b"\x21\xf9\x04\0\x01\0\0\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0"


def tiff_with(**tags: object) -> bytes:
    directory = ImageFileDirectory_v2()
    for tag, value in tags.items():
        directory[int(tag.lstrip("t"))] = value  # type: ignore[assignment]
    return saved(photo(), "TIFF", tiffinfo=directory)


def all_of(colour: str) -> bytes:
    return saved(Image.new("RGB", (120, 90), colour), "JPEG")


def palette_with_a_hole() -> bytes:
    return saved(photo().quantize(16), "PNG", transparency=3)


def negative_of(mode: str, kind: str) -> bytes:
    return saved(photo().convert(mode), kind)


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def bound_socket(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # the name of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


JPEG = saved(photo(), "JPEG", quality=90)
ORIENTED_IN_WORDS = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x02\0\0\0\x04six\0\0\0\0\0"
SIXTEEN_BITS = Image.fromarray(np.asarray(photo().convert("L")).astype(np.uint16) * 257)
FLOATS = Image.fromarray(np.asarray(photo().convert("L")).astype(np.float32) / 255)
TRANSPARENT = Image.new("RGBA", (120, 90), (10, 20, 30, 0))
NOISE = np.random.default_rng(1).integers(0, 256, (90, 120, 3), dtype=np.uint8)

NOT, UNSUPPORTED, LARGE = "picture.not_a_picture", "picture.unsupported", "picture.too_large"
TRUNCATED, CORRUPT = "picture.truncated", "picture.corrupt"
CONVERTED = ("colours_converted",)
ON_WHITE = ("transparency_on_white",)

PICTURES = [
    Row(1, "empty.jpg", b"", "picture.empty"),
    Row(2, "one-byte.jpg", b"\xff", NOT),
    Row(3, "text.jpg", b"a dog runs through the grass\n", NOT),
    Row(4, "html.png", b"<!DOCTYPE html><html><body>404</body></html>", NOT),
    Row(5, "svg.jpg", b'<svg xmlns="http://www.w3.org/2000/svg"><rect/></svg>', NOT),
    Row(6, "page.pdf", saved(photo(), "PDF"), UNSUPPORTED),
    Row(7, "page.eps", saved(photo(), "EPS"), UNSUPPORTED),
    Row(8, "zip.jpg", zipped(), NOT),
    Row(9, "jpeg-and-zip.jpg", JPEG + zipped(), warnings=("trailing_bytes_ignored",)),
    Row(9, "gif-and-js.gif", saved(photo(), "GIF") + b"/*;*/alert(1)", warnings=CONVERTED),
    Row(9, "js.gif", b"GIF89a/*\x01\0\0\0*/=1;alert(1)", NOT),
    Row(10, "cut-at-10.jpg", JPEG[: len(JPEG) // 10], TRUNCATED),
    Row(10, "cut-at-50.jpg", JPEG[: len(JPEG) // 2], TRUNCATED),
    Row(10, "cut-at-99.jpg", JPEG[: len(JPEG) * 99 // 100], TRUNCATED),
    Row(11, "garbage-behind.jpg", JPEG + b"\x01" * 99, warnings=("trailing_bytes_ignored",)),
    Row(
        11,
        "motion-photo.jpg",
        made(lambda: JPEG + b"\0\0\0\x18ftypmp42" + b"\xff\xda" * 3_500_000),
        warnings=("trailing_bytes_ignored",),
    ),
    Row(12, "broken-lzw.tif", broken_tiff("tiff_lzw"), CORRUPT),
    Row(12, "broken-deflate.tif", broken_tiff("tiff_adobe_deflate"), CORRUPT),
    Row(12, "broken-jpeg.tif", broken_tiff("jpeg"), CORRUPT),
    Row(12, "wrong-huffman.jpg", wrong_huffman_table(), CORRUPT),
    Row(13, "1000-scans.jpg", of_1000_scans(), LARGE),
    Row(14, "cmyk-inverted.jpg", negative_of("CMYK", "JPEG"), warnings=CONVERTED),
    Row(14, "cmyk.jpg", without_adobe(negative_of("CMYK", "JPEG")), warnings=CONVERTED),
    Row(14, "cmyk.tif", negative_of("CMYK", "TIFF"), warnings=CONVERTED),
    Row(15, "grey.jpg", negative_of("L", "JPEG"), warnings=CONVERTED),
    Row(16, "one-bit.png", negative_of("1", "PNG"), warnings=CONVERTED),
    Row(17, "16-bit.png", saved(SIXTEEN_BITS), warnings=CONVERTED),
    Row(18, "float.tif", saved(FLOATS, "TIFF"), warnings=CONVERTED),
    Row(19, "palette.png", palette_with_a_hole(), warnings=ON_WHITE),
    Row(20, "transparent.png", saved(TRANSPARENT), warnings=(*ON_WHITE, "one_colour")),
    Row(21, "grey-alpha.png", saved(TRANSPARENT.convert("LA")), warnings=(*ON_WHITE, "one_colour")),
    Row(22, "turned-1.png", oriented(1)),
    *(
        Row(22, f"turned-{i}.png", oriented(i), warnings=("orientation_applied",))
        for i in range(2, 9)
    ),
    Row(22, "turned-0.png", oriented(0), warnings=("metadata_ignored",)),
    Row(22, "turned-9.png", oriented(9), warnings=("metadata_ignored",)),
    Row(
        22,
        "turned-in-words.jpg",
        saved(photo(), "JPEG", exif=ORIENTED_IN_WORDS),
        warnings=("metadata_ignored",),
    ),
    Row(23, "broken-exif.jpg", saved(photo(), "JPEG", exif=b"Exif\0\0no TIFF")),
    Row(23, "looping-exif.jpg", saved(photo(), "JPEG", exif=looping_exif())),
    Row(23, "exif-of-5-mb.jpg", made(lambda: with_exif_of(5))),
    Row(
        24,
        "broken-profile.jpg",
        saved(photo(), "JPEG", icc_profile=b"no profile"),
        warnings=("profile_ignored",),
    ),
    Row(
        24,
        "wide-gamut.jpg",
        saved(photo(), "JPEG", icc_profile=wide_gamut()),
        warnings=("profile_ignored",),
    ),
    Row(25, "animated.gif", animation("GIF"), warnings=("first_frame_only", *CONVERTED)),
    Row(25, "animated.png", animation("PNG"), warnings=("first_frame_only",)),
    Row(25, "animated.webp", animation("WEBP"), warnings=("first_frame_only",)),
    Row(26, "no-frames.gif", GIF_HEADER + b";", NOT),
    Row(26, "10000-frames.gif", GIF_HEADER + GIF_FRAME * 10_000 + b";", LARGE),
    Row(27, "pages.tif", animation("TIFF"), warnings=("first_frame_only",)),
    Row(28, "bomb.png", png_of(50_000, 50_000, chunk(b"IDAT", bytes(900))), LARGE),
    Row(29, "200-mb-of-text.png", huge_text, LARGE),
    Row(
        29,
        "unpacks-to-20-mb-of-text.png",
        with_chunk(saved(photo()), chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(20 << 20)))),
        LARGE,
    ),
    Row(29, "exif-of-50-mb.jpg", made(lambda: with_exif_of(50)), LARGE),
    Row(
        29,
        "50-mb-of-fill.jpg",
        made(lambda: JPEG[:2] + b"\xff" * 50_000_000 + JPEG[2:]),
        LARGE,
    ),
    Row(29, "a-million-strips.tif", made(tiff_of_offsets), LARGE),
    Row(
        29,
        "200-000-chunks.png",
        made(lambda: with_chunk(saved(photo()), chunk(b"abCd", b"") * 200_000)),
        LARGE,
    ),
    Row(30, "1x1.png", saved(Image.new("RGB", (1, 1))), warnings=("enlarged", "one_colour")),
    Row(31, "10000x1.png", saved(Image.new("RGB", (10_000, 1))), LARGE),
    Row(31, "1x10000.png", saved(Image.new("RGB", (1, 10_000))), LARGE),
    Row(
        32,
        "40-megapixels.png",
        saved(Image.new("1", (8000, 5000))),
        warnings=(*CONVERTED, "one_colour"),
    ),
    Row(
        32,
        "40-megapixels.jpg",
        saved(Image.new("RGB", (8000, 5000), "navy"), "JPEG"),
        warnings=("one_colour",),
    ),
    Row(32, "40-megapixels.webp", webp_of(8000, 5000), LARGE),
    Row(
        32,
        "40-megapixels-of-64-bits.png",
        png_of(8000, 5000, chunk(b"IDAT", b""), bits=16, colours=6),
        LARGE,
    ),
    Row(32, "one-row-more.png", saved(Image.new("1", (8000, 5001))), LARGE),
    Row(33, "photo.heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(99), UNSUPPORTED),
    Row(33, "photo.avif", b"\0\0\0\x20ftypavif\0\0\0\0avifmif1" + bytes(99), UNSUPPORTED),
    Row(33, "photo.jxl", b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(99), UNSUPPORTED),
    Row(33, "bare.jxl", b"\xff\x0a" + bytes(99), UNSUPPORTED),
    Row(34, "canon.cr2", b"II*\0\x10\0\0\0CR\x02\0" + bytes(99), UNSUPPORTED),
    Row(34, "adobe.dng", tiff_with(t50706=b"\x01\x04\0\0"), UNSUPPORTED),
    Row(34, "nikon.nef", tiff_with(t254=1, t330=8), UNSUPPORTED),
    Row(34, "fuji.raf", b"FUJIFILMCCD-RAW 0201" + bytes(99), UNSUPPORTED),
    Row(35, "black.jpg", all_of("black"), warnings=("one_colour",)),
    Row(35, "white.jpg", all_of("white"), warnings=("one_colour",)),
    Row(35, "noise.png", saved(Image.fromarray(NOISE))),
    Row(36, "cut.webp", saved(photo(), "WEBP")[:900], CORRUPT),
    Row(37, "sky.fits", b"SIMPLE  =                    T" + b" " * 99, UNSUPPORTED),
    Row(37, "layers.psd", b"8BPS\0\x01" + bytes(99), UNSUPPORTED),
    Row(37, "icon.icns", b"icns\0\0\0\x08" + bytes(99), UNSUPPORTED),
    Row(38, "still-being-written.jpg", JPEG[: len(JPEG) // 3], TRUNCATED),
    Row(39, "pipe.jpg", lambda path: os.mkfifo(path), NOT),
    Row(39, "device.jpg", link_to("/dev/zero"), NOT),
    Row(39, "socket.jpg", bound_socket, NOT),
    Row(39, "looping-link.jpg", link_to("looping-link.jpg"), "picture.missing"),
    Row(40, "unreadable.jpg", link_to("/proc/self/mem"), "picture.unreadable"),
]
