"""What the bytes of a picture's file say before anything is decoded."""

import re

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


def unsupported_format(content: bytes) -> str | None:
    """The name of a known format that is not read; None for any other content.

    >>> unsupported_format(b"%PDF-1.7"), unsupported_format(b"words")
    ('PDF', None)
    """
    for beginning, kind in _UNSUPPORTED:
        if re.match(beginning, content, re.DOTALL):
            return kind
    return None


def count_scans(jpeg: bytes) -> int:
    """How often a JPEG goes over its pixels: once, or about ten times if it is progressive.

    Inside a scan no 0xFF stands before a 0xDA, so this counts markers, and those of thumbnails.
    """
    return jpeg.count(b"\xff\xda")


def count_gif_frames(gif: bytes) -> int:
    """How many frames of an animation a GIF announces."""
    return sum(1 for _ in _GIF_FRAME.finditer(gif))


def ends_with_jpeg(content: bytes) -> bool:
    """Whether nothing follows the end mark of a JPEG but padding."""
    return content.rstrip(b"\0").endswith(b"\xff\xd9")
