"""Facts about a picture file from its bytes, before anything is decoded."""

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

# The first bytes of formats that are not read.
_UNSUPPORTED = (
    (rb"%PDF-", "PDF"),
    (rb"%!PS|\xc5\xd0\xd3\xc6", "EPS"),
    (rb"....ftyp(?:hei|hev|mif1|msf1)", "HEIC"),
    (rb"....ftypavi[fs]", "AVIF"),
    (rb"....ftypcrx |II\*\0....CR\x02", "Canon raw"),
    (rb"\xff\x0a|\0\0\0\x0cJXL ", "JPEG XL"),
    (rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51", "JPEG 2000"),
    (rb"FUJIFILMCCD-RAW", "Fujifilm raw"),
    (rb"IIR[OS]|MMOR", "Olympus raw"),
    (rb"IIU\0", "Panasonic raw"),
    (rb"8BPS", "Photoshop"),
    (rb"SIMPLE  =", "FITS"),
    (rb"icns", "Apple icon"),
)
_GIF_FRAME = re.compile(rb"\x21\xf9\x04.{4}\0[\x21\x2c]", re.DOTALL)  # before each frame

# A marker is 0xFF and a byte, perhaps with more 0xFF before it. In a scan 0xFF 0x00 is data, and
# restart markers belong to it.
_JPEG_MARKER = re.compile(rb"\xff[^\0\xff]", re.DOTALL)
_JPEG_MARKER_AFTER_SCAN = re.compile(rb"\xff[^\0\xff\xd0-\xd7]", re.DOTALL)
_NOT_PADDING = re.compile(rb"[^\0]")
_SCAN, _END_OF_JPEG = 0xDA, 0xD9

_PNG_CHUNK, _PNG_PIXELS = struct.Struct(">I4s"), (b"IDAT", b"fdAT")
_WEBP_CHUNK, _WEBP_PIXELS = struct.Struct("<4sI"), (b"VP8 ", b"VP8L", b"ALPH", b"ANMF")
_GIF_BYTES_A_PIECE = 160  # a comment in Python
_GIF_PICTURE, _GIF_EXTENSION = 0x2C, 0x21
_TIFF_ABOUT_PIXELS = 700  # higher tags belong to programs and metadata
_TIFF_BYTES = (1, 2, 7)  # types that are not numbers
_TIFF_SIZES = dict(zip(range(1, 14), (1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4), strict=True))
_TIFF_SIZES |= {16: 8, 17: 8, 18: 8}


def unsupported_format(content: bytes) -> str | None:
    """The name of a known format that is not read; None for any other content.

    >>> unsupported_format(b"%PDF-1.7"), unsupported_format(b"words")
    ('PDF', None)
    """
    for beginning, kind in _UNSUPPORTED:
        if re.match(beginning, content, re.DOTALL):
            return kind
    return None


@dataclass(frozen=True)
class Survey:
    """The contents of a file besides its pixels."""

    pieces: int = 0  # chunks, segments, ...; if too many, counted only a little past the limit
    metadata: int = 0  # bytes of the pieces that are not pixels
    fill: int = 0  # bytes between pieces, before the pixels
    scans: int = 0  # of a JPEG: one, or about ten if it is progressive
    has_more: bool = False  # data after the end of a JPEG, or no end marker
    kind: str = ""  # of the file, from its first bytes: `JPEG`, ...
    copies: int = 8  # of the metadata while reading: two bytes become a Python number

    @property
    def memory(self) -> int:
        """The memory that reading the metadata may take, in bytes."""
        return self.copies * self.metadata


def prepare(content: bytes, most_pieces: Mapping[str, int]) -> Survey:
    """The survey of a picture file, up to `most_pieces` of its format.

    Pillow, too, reads them one by one in Python, at a microsecond or more each.
    """
    for beginning, (kind, walk) in _WALKS.items():
        if re.match(beginning, content, re.DOTALL):
            return replace(walk(content, most_pieces[kind]), kind=kind)
    return Survey()


def survey_jpeg(jpeg: bytes, most_pieces: int) -> Survey:
    """The segments of a JPEG up to its end marker; bytes inside a segment are no markers.

    Stops early at more than `most_pieces` segments.
    """
    at, pieces, scans, metadata, fill = 2, 0, 0, 0, 0
    while pieces <= most_pieces:
        mark = (_JPEG_MARKER_AFTER_SCAN if scans else _JPEG_MARKER).search(jpeg, at)
        if mark is None:
            fill += 0 if scans else len(jpeg) - at
            return Survey(pieces, metadata, fill, scans, has_more=True)
        kind, content = jpeg[mark.end() - 1], mark.end()
        if kind == _END_OF_JPEG:
            has_more = _NOT_PADDING.search(jpeg, content) is not None
            return Survey(pieces, metadata, fill, scans, has_more)
        is_alone = kind == 0x01 or 0xD0 <= kind <= 0xD8
        length = 0 if is_alone else max(2, int.from_bytes(jpeg[content : content + 2], "big"))
        pieces += 1
        if not scans:
            metadata += length
            fill += mark.start() - at
        scans += kind == _SCAN
        at = content + length
    return Survey(pieces, metadata, fill, scans)


def survey_png(png: bytes, most_pieces: int) -> Survey:
    """The chunks of a PNG."""
    at, pieces, metadata = 8, 0, 0
    while pieces <= most_pieces and at + 8 <= len(png):
        length, kind = _PNG_CHUNK.unpack_from(png, at)
        pieces += 1
        metadata += length if kind not in _PNG_PIXELS else 0
        at += length + 12
    return Survey(pieces, min(metadata, len(png)))


def survey_webp(webp: bytes, most_pieces: int) -> Survey:
    """The chunks of a WebP."""
    at, pieces, metadata = 12, 0, 0
    while pieces <= most_pieces and at + 8 <= len(webp):
        kind, length = _WEBP_CHUNK.unpack_from(webp, at)
        pieces += 1
        metadata += length if kind not in _WEBP_PIXELS else 0
        at += 8 + length + length % 2
    return Survey(pieces, min(metadata, len(webp)))


def survey_gif(gif: bytes, most_pieces: int) -> Survey:
    """The blocks of a GIF up to its second frame; ten blocks of pixels count as one piece."""
    at = 13 + _colours(gif[10]) if len(gif) > 10 else len(gif)
    pieces = pixels = frames = 0
    while pieces + pixels // 10 <= most_pieces and frames < 2 and at + 10 < len(gif):
        kind, blocks = gif[at], 0
        if kind in (_GIF_PICTURE, _GIF_EXTENSION):
            at += 2 if kind == _GIF_EXTENSION else 11 + _colours(gif[at + 9])
            while at < len(gif) and gif[at] and blocks <= 10 * most_pieces:
                at += gif[at] + 1
                blocks += 1
        at += 1
        frames += kind == _GIF_PICTURE
        if kind == _GIF_PICTURE:
            pixels += blocks
        else:
            pieces += blocks + 1
    pieces += pixels // 10
    return Survey(pieces, pieces * _GIF_BYTES_A_PIECE, copies=1)


def _colours(flags: int) -> int:
    """The bytes of a palette."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def survey_tiff(tiff: bytes, most_pieces: int) -> Survey:
    """The tags of a TIFF's first page; a piece is a tag, or a number in one.

    Only numbers about the pixels count, since only those are all read.
    """
    order = "<" if tiff[:2] == b"II" else ">"
    is_big = tiff[2] == 0x2B
    first = struct.Struct(order + ("8xQ" if is_big else "4xI"))
    count = struct.Struct(order + ("Q" if is_big else "H"))
    tag = struct.Struct(order + ("HHQ8x" if is_big else "HHI4x"))
    pieces = metadata = 0
    if len(tiff) >= first.size:
        at = first.unpack_from(tiff)[0]
        if at + count.size <= len(tiff):
            tags = count.unpack_from(tiff, at)[0]
            at += count.size
            for place in range(at, min(at + tags * tag.size, len(tiff) - tag.size + 1), tag.size):
                name, kind, values = tag.unpack_from(tiff, place)
                size = values * _TIFF_SIZES.get(kind, 0)
                is_there = 0 < size <= len(tiff)  # Pillow ignores any other
                is_number = name < _TIFF_ABOUT_PIXELS and kind not in _TIFF_BYTES
                pieces += values if is_there and is_number else 1
                metadata += size if is_there else 0
                if pieces > most_pieces:
                    break
    return Survey(pieces, metadata, copies=2)


def count_gif_frames(gif: bytes) -> int:
    """How many frames of an animation a GIF announces."""
    return sum(1 for _ in _GIF_FRAME.finditer(gif))


_WALKS: dict[bytes, tuple[str, Callable[[bytes, int], Survey]]] = {
    rb"\xff\xd8\xff": ("JPEG", survey_jpeg),
    rb"\x89PNG\r\n\x1a\n": ("PNG", survey_png),
    rb"RIFF....WEBP": ("WEBP", survey_webp),
    rb"GIF8[79]a": ("GIF", survey_gif),
    rb"(?:II|MM)(?:[*+]\0|\0[*+])": ("TIFF", survey_tiff),
}
