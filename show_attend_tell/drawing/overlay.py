"""The overlay: where one word looked, on the whole picture at its full resolution."""

from PIL import Image

from show_attend_tell.captioning.caption import Caption
from show_attend_tell.drawing.light import check_map, lit, resized
from show_attend_tell.errors import UserError


def overlay(caption: Caption, picture: Image.Image, word: str) -> Image.Image:
    """Light the picture where a word looked; the mean, where the caption has it more than once.

    Parameters
    ----------
    caption
        A caption of this picture.
    picture
        The whole upright picture; what is returned has its size.
    word
        One of the caption's words, in capitals or not.

    Raises
    ------
    UserError
        `request.word`: the caption does not have the word; `request.picture`: the picture has
        another shape than the captioned one.
    """
    check_map(caption, picture)
    mask = [other.lower() == word.lower() for other in caption.words]
    if not any(mask):
        there = ", ".join(dict.fromkeys(caption.words)) or "none"
        raise UserError("request.word", f"no word {word!r} in the caption; its words are: {there}")
    return lit(resized(picture, 1), caption, caption.attention[mask].mean(axis=0))
