"""From a picture to its caption: open, frame, encode, search."""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, overload

import numpy as np
import numpy.typing as npt
from PIL import Image

from show_attend_tell.captioning import consensus
from show_attend_tell.captioning.caption import Caption, Looked
from show_attend_tell.captioning.consensus import pictures_together
from show_attend_tell.captioning.exported import ExportedModel
from show_attend_tell.captioning.model import Floats
from show_attend_tell.captioning.search import Search
from show_attend_tell.captioning.views import frame_views
from show_attend_tell.data.pictures import (
    Crop,
    Opened,
    check_size,
    crop_of,
    read_image,
    read_picture,
)
from show_attend_tell.errors import UserError
from show_attend_tell.parallel import parallel_map

# What a name on the command line stands for: a picture, or the error that says why there is none.
Source: TypeAlias = Path | BinaryIO | UserError
Picture: TypeAlias = str | Path | bytes | BinaryIO | Image.Image | npt.NDArray[np.uint8]

# The search gets faster with the pictures it has together; the encoder does not, and its memory
# grows with them.
AT_ONCE = 16
ENCODED_AT_ONCE = 4


@dataclass(frozen=True)
class Framed:
    """A picture as the encoder sees it."""

    pixels: npt.NDArray[np.uint8]  # (views, size, size, 3)
    picture_size: tuple[int, int]  # width, height of the upright original
    crop: Crop
    warnings: tuple[str, ...]


class Captioner:
    """Captions pictures; safe to call again and again, the same picture the same way.

    Attributes
    ----------
    model
        The model that encodes and decodes.
    search
        The search that is used unless a call asks otherwise: the model's own.
    """

    def __init__(self, model: ExportedModel) -> None:
        self.model = model
        self.search = Search.of(model.facts.search)

    @overload
    def __call__(self, pictures: Picture, **settings: Any) -> Caption: ...
    @overload
    def __call__(self, pictures: Sequence[Picture], **settings: Any) -> list[Caption]: ...
    def __call__(
        self, pictures: Picture | Sequence[Picture], **settings: Any
    ) -> Caption | list[Caption]:
        """Caption one picture, or several in order.

        Parameters
        ----------
        pictures
            A path, the bytes of a file, an open file, a Pillow image or a uint8 array
            (height, width, 3), or a sequence of such.
        settings
            Search settings other than the model's own, for example `beam=3` or `views=1`; all of
            them are the fields of `Search`.

        Raises
        ------
        UserError
            `request.bad`: no such setting, or a value that does not fit; `picture.*`, for the
            first picture that cannot be read.
        """
        search = self.search.override(**settings)
        if isinstance(pictures, Sequence) and not isinstance(pictures, str | bytes | bytearray):
            return [_best(answer) for answer in self.stream(pictures, search)]
        return self.decode([self.frame(pictures, search)], search)[0][0]

    def frame(self, picture: Picture, search: Search | None = None) -> Framed:
        """A picture as the encoder gets it in a search."""
        needed = self.model.facts.preprocessing
        opened = open_given(picture, needed.resize)
        pixels = frame_views(opened.image, needed, self.views_of(search or self.search))
        warnings = list(opened.warnings)
        if min(opened.size) < needed.size:
            warnings.append("enlarged")
        if (pixels[0] == pixels[0, 0, 0]).all():
            warnings.append("one_colour")
        return Framed(pixels, opened.size, crop_of(opened.size, needed), tuple(warnings))

    @staticmethod
    def views_of(search: Search) -> int:
        """How many views a search uses; one if it looks at a single place, a cell of the whole."""
        return search.views if search.look == "expected" else 1

    def decode(self, framed: Sequence[Framed], search: Search | None = None) -> list[list[Caption]]:
        """The `n_best` captions of each picture, best first; framed for the same search."""
        if not framed:
            return []
        search = search or self.search
        views = self.views_of(search)
        if (fewest := min(len(one.pixels) for one in framed)) < views:
            raise UserError(
                "request.bad",
                f"the search uses {views} views and a picture was framed for {fewest}; "
                "frame the pictures for the same search",
            )
        at_once = self._at_once(search)
        annotations = _encode(self.model, [one.pixels[:views] for one in framed])
        decoded = [
            captions
            for i in range(0, len(framed), at_once)
            for captions in consensus.decode(self.model, annotations[i : i + at_once], search)
        ]
        look: Looked = "pointed" if callable(search.look) else search.look
        words_of, grid = self.model.vocabulary.decode, self.model.facts.grid
        return [
            [
                Caption.of(
                    each,
                    words_of(each.words),
                    grid,
                    one.picture_size,
                    one.crop,
                    look,
                    one.warnings,
                )
                for each in captions
            ]
            for one, captions in zip(framed, decoded, strict=True)
        ]

    def _at_once(self, search: Search) -> int:
        """How many pictures to decode together; raises where one alone takes too much memory."""
        rows, columns = self.model.facts.grid
        places = self.views_of(search) * rows * columns
        words = self.model.vocabulary_size
        return pictures_together(search, AT_ONCE, places=places, words=words)

    def stream(
        self, pictures: Iterable[Picture | UserError], search: Search | None = None
    ) -> Iterator[list[Caption] | UserError]:
        """Captions of any number of pictures, in order, with the pictures shared among threads.

        Yields for each picture its captions, best first, or the error that says why it has none;
        an error in the place of a picture comes out again.

        Parameters
        ----------
        search
            Made with `captioner.search.override(beam=3)`; by default the model's own.
        """
        search = search or self.search
        remaining = iter(pictures)
        at_once = self._at_once(search)
        batches = iter(lambda: list(islice(remaining, at_once)), [])
        for answers in parallel_map(
            partial(self._caption_some, search=search), batches, self.model.threads
        ):
            yield from answers

    def _caption_some(
        self, pictures: Sequence[Picture | UserError], search: Search
    ) -> list[list[Caption] | UserError]:
        some: list[Framed | UserError] = []
        for picture in pictures:
            try:
                some.append(
                    picture if isinstance(picture, UserError) else self.frame(picture, search)
                )
            except UserError as error:
                some.append(error)
        captions = iter(self.decode([one for one in some if isinstance(one, Framed)], search))
        return [one if isinstance(one, UserError) else next(captions) for one in some]


def _encode(model: ExportedModel, pixels: Sequence[npt.NDArray[np.uint8]]) -> Floats:
    """Annotations of each picture, those of its views one after the other: (P, views × L, D)."""
    squares = np.concatenate(pixels)
    annotations = np.concatenate(
        [
            model.encode(squares[i : i + ENCODED_AT_ONCE])
            for i in range(0, len(squares), ENCODED_AT_ONCE)
        ]
    )
    return annotations.reshape(len(pixels), -1, annotations.shape[2])


def _best(answer: list[Caption] | UserError) -> Caption:
    if isinstance(answer, UserError):
        raise answer
    return answer[0]


def open_given(picture: Picture, least_side: int | None = None) -> Opened:
    """A picture in any form that a captioner takes, opened; `least_side` as in `read_picture`."""
    if isinstance(picture, Image.Image):
        return read_image(picture)
    if isinstance(picture, np.ndarray):
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            raise UserError(
                "picture.unsupported",
                f"an array must be uint8 (height, width, 3) in RGB, not {picture.dtype} "
                f"{picture.shape}; scale it to 0..255 first",
            )
        if picture.size == 0:
            raise UserError("picture.empty", f"the array {picture.shape} has no pixels")
        check_size((picture.shape[1], picture.shape[0]), "the array")
        return read_image(Image.fromarray(picture))
    if isinstance(picture, str):
        picture = Path(picture)
    if not isinstance(picture, Path | bytes | io.IOBase) and not hasattr(picture, "read"):
        raise UserError(
            "picture.unsupported",
            "a picture is a path, bytes, an open file, a Pillow image or a uint8 array, "
            f"not {type(picture).__name__}",
        )
    return read_picture(picture, least_side=least_side)
