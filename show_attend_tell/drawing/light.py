"""Light: what a word looked at stays light on the picture, the rest is dim.

The paper (section 5.4) upsamples the weights by the encoder's stride and smooths them with a
Gaussian. Here both are one step, computed at the pixels of the whole original picture; what the
encoder's crop left out is hatched. Light is a matter of luminance alone, so that every
eye sees the same map.
"""

import math

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from show_attend_tell.captioning.caption import Caption
from show_attend_tell.captioning.model import Floats
from show_attend_tell.data.pictures import Crop
from show_attend_tell.errors import UserError

SIGMA = 20 / 224  # as in the authors' figures: 20 pixels on a crop of 224
DIM = 0.75  # how far a place fades into the night that the word did not look at
GLOW = 0.25  # how far the place that it looked at most fades into white: dark pictures need it
UNSEEN = 0.86  # how far everything fades that the crop left out
NIGHT, STRIPE = 12, 42  # greys of 0..255
HATCH, OUTLINE = 1 / 28, 1 / 160  # from stripe to stripe, and a line, as shares of the long side
SHADE, MARK = "#0c0c0c", "#ffc45c"  # an outline is seen on dark and on light
BAND = 256  # rows that are computed together: a photograph of 40 megapixels must fit in memory

# How drawings describe a look at one place.
ONE_PLACE = {
    "most-likely": "one place for each word, the most likely",
    "sampled": "one place for each word, sampled",
}


def attention_map(
    weights: Floats, size: tuple[int, int], crop: Crop, sigma: float = SIGMA
) -> npt.NDArray[np.float32]:
    """Spread the weights of one word over the whole picture.

    Parameters
    ----------
    weights
        (h, w): how much each cell of the grid was looked at.
    size
        Width and height of the picture in pixels.
    crop
        Where the grid lies on it, in the same pixels.
    sigma
        Standard deviation of the Gaussian, as a share of the crop's sides.

    Returns
    -------
    light
        (height, width): 1 where the word looked most, 0 outside the crop.

    >>> attention_map(np.ones((2, 2)), (4, 2), Crop(1, 0, 3, 2)).round(6).tolist()
    [[0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]]
    """
    (rows, columns), (width, height) = weights.shape, size
    down = _spread(rows, height, crop.y0, crop.y1, sigma)  # (height, h)
    across = _spread(columns, width, crop.x0, crop.x1, sigma)  # (width, w)
    light: npt.NDArray[np.float32] = down @ weights.astype(np.float32) @ across.T
    light /= light.max() or 1
    return light


def lit(picture: Image.Image, caption: Caption, weights: Floats) -> Image.Image:
    """The picture with what was looked at light, the rest dim, what was outside the crop hatched.

    Where a word looked at one place alone, its cell is outlined.

    Parameters
    ----------
    picture
        The captioned picture at any scale, RGB.
    caption
        Says where the grid lies on it.
    weights
        (h, w), of one word of the caption.
    """
    (width, height), crop = picture.size, crop_on(caption, picture.size)
    light = attention_map(weights, picture.size, crop)
    pixels = np.array(picture)  # (height, width, 3)
    x = np.arange(width) + 0.5
    stripe = max(8.0, max(picture.size) * HATCH)
    for top in range(0, height, BAND):
        band = slice(top, top + BAND)
        grey, alpha = veil(light[band])
        y = np.arange(height)[band, None] + 0.5
        unseen = (x < crop.x0) | (x >= crop.x1) | (y < crop.y0) | (y >= crop.y1)
        grey[unseen] = np.where((x + y) % stripe < stripe / 4, STRIPE, NIGHT)[unseen]
        alpha[unseen] = UNSEEN
        shown = pixels[band] + (grey[:, :, None] - pixels[band]) * alpha[:, :, None]
        pixels[band] = shown.round()
    image = Image.fromarray(pixels)
    if caption.look in ONE_PLACE:
        pen, line = ImageDraw.Draw(image), max(1, round(max(picture.size) * OUTLINE))
        for row, column in np.argwhere(weights > 0):
            cell = crop.cell(int(row), int(column), caption.attention.shape[1:])
            x0, y0, x1, y1 = (round(side) for side in cell)
            for color, away in ((SHADE, line), (MARK, 0)):
                box = (x0 - away, y0 - away, max(x0, x1 - 1) + away, max(y0, y1 - 1) + away)
                pen.rectangle(box, outline=color, width=line)
    return image


def veil(
    light: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """What to lay over a picture, its grey and its alpha: night in the dark, a glow in the light.

    The glow is laid over the night; both together are one veil.
    """
    night, glow = DIM * (1 - light), GLOW * light**2
    alpha = 1 - (1 - night) * (1 - glow)
    return (NIGHT * night * (1 - glow) + 255 * glow) / alpha, alpha


def check_map(caption: Caption, picture: Image.Image) -> None:
    """Refuse another picture than the captioned one: the map would lie on the wrong things."""
    (width, height), (full_width, full_height) = picture.size, caption.picture_size
    # Scaling rounds either side by less than a pixel.
    if abs(width / full_width - height / full_height) > 1 / full_width + 1 / full_height:
        raise UserError(
            "request.picture",
            f"the picture has {width} × {height} pixels, but the caption is of one of "
            f"{full_width} × {full_height}; give the picture that was captioned, upright",
        )


def resized(picture: Image.Image, scale: float) -> Image.Image:
    """A copy in RGB without EXIF, comments or anything else that came with the file."""
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    copy = picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    copy.info.clear()
    return copy


def crop_on(caption: Caption, size: tuple[int, int]) -> Crop:
    """The caption's crop on the picture scaled to `size`."""
    across, down = size[0] / caption.picture_size[0], size[1] / caption.picture_size[1]
    crop = caption.crop
    return Crop(crop.x0 * across, crop.y0 * down, crop.x1 * across, crop.y1 * down)


def _spread(
    cells: int, pixels: int, start: float, end: float, sigma: float
) -> npt.NDArray[np.float32]:
    """How much each cell lends to each pixel along one side: (pixels, cells), zero off the crop.

    A cell is a box convolved with the Gaussian, that is a difference of two of its cumulative
    values. The grid is mirrored at both ends, so that no weight leaks out of the crop.
    """
    places = (np.arange(pixels) + 0.5 - start) / (end - start) * cells  # (pixels,), in cells
    edges = np.arange(-cells, 2 * cells + 1)
    below = _erf((edges - places[:, None]) / (sigma * cells * math.sqrt(2))) / 2
    left, middle, right = np.split(np.diff(below, axis=1), 3, axis=1)  # (pixels, cells) each
    share: npt.NDArray[np.float64] = left[:, ::-1] + middle + right[:, ::-1]
    share[(places < 0) | (places >= cells)] = 0
    return share.astype(np.float32)


_erf = np.vectorize(math.erf, otypes=[np.float64])
