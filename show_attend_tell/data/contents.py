"""What the bytes of a picture's file say before anything is decoded."""

import re
from dataclasses import dataclass

# How files begin that are pictures, or pages, but of no format that we read.
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
_GIF_FRAME = re.compile(rb"\x21\xf9\x04.{4}\0[\x21\x2c]", re.DOTALL)  # what stands before a frame

# A marker is 0xFF and a byte, perhaps with more 0xFF before it; among the bits of a scan those with
# a zero are a 0xFF of its own, and those of restarts belong to it.
_JPEG_MARKER = re.compile(rb"\xff[^\0\xff]", re.DOTALL)
_JPEG_MARKER_AFTER_SCAN = re.compile(rb"\xff[^\0\xff\xd0-\xd7]", re.DOTALL)
_NOT_PADDING = re.compile(rb"[^\0]")
_SCAN, _END_OF_JPEG = 0xDA, 0xD9


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
    """What a file holds beside its pixels."""

    pieces: int = 0  # that it is made of; at most one more than was asked for
    metadata: int = 0  # bytes of those before the pixels
    fill: int = 0  # bytes there that belong to none
    scans: int = 0  # of a JPEG: one, or about ten if it is progressive
    has_more: bool = False  # something follows the end


def survey_jpeg(jpeg: bytes, most_pieces: int = 1_000) -> Survey:
    """Walk over the markers of a JPEG up to its end mark; what is inside a segment is no marker.

    Stops early at more than `most_pieces` segments.
    """
    at, pieces, scans, metadata, fill = 2, 0, 0, 0, 0
    while pieces <= most_pieces:
        mark = (_JPEG_MARKER_AFTER_SCAN if scans else _JPEG_MARKER).search(jpeg, at)
        if mark is None:
            fill += 0 if scans else len(jpeg) - at
            return Survey(pieces, metadata, fill, scans)
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


def count_gif_frames(gif: bytes) -> int:
    """How many frames of an animation a GIF announces."""
    return sum(1 for _ in _GIF_FRAME.finditer(gif))
