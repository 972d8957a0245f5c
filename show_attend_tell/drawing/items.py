"""Items: what there is to draw, pictures with the captions of one or several models."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from PIL import Image

from show_attend_tell.captioning.caption import Caption
from show_attend_tell.captioning.captioner import Captioner, Source
from show_attend_tell.data.pictures import MOST_BYTES, open_picture
from show_attend_tell.errors import UserError

Item: TypeAlias = tuple[str, Caption, Image.Image]  # a name, a caption, the whole upright picture

LONGEST_SIDE = 672  # no kind but the overlay shows more of a picture, in pixels


def caption_items(
    names: Sequence[str],
    found: Sequence[Source],
    models: dict[str, Captioner],
    *,
    in_full: bool = False,
    **search: Any,
) -> Iterator[list[Item] | UserError]:
    """Yield each picture with every model's caption, or the error that says why it has none.

    Parameters
    ----------
    names, found
        The pictures, as `list_pictures` returns them.
    models
        The captioners. If there are several, their names are in the names of the items.
    in_full
        Keep pictures in their full size; small copies take less memory.
    search
        What is to be other than in the models' own search.
    """
    # What can be read once is read for all.
    sources = [
        one if isinstance(one, Path | UserError) else one.read(MOST_BYTES + 1) for one in found
    ]
    streams = [model.stream(sources, model.search.override(**search)) for model in models.values()]
    for name, source, *captioned in zip(names, sources, *streams, strict=True):
        errors = [one for one in (source, *captioned) if isinstance(one, UserError)]
        try:
            if errors:
                raise errors[0]
            picture = open_picture(source, name, least_side=None if in_full else LONGEST_SIDE)
        except UserError as error:
            yield error
            continue
        if not in_full:
            picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
        file = [Path(name).name] if len(names) > 1 or len(models) == 1 else []
        yield [
            (" · ".join([*file, *([model] if len(models) > 1 else [])]), captions[0], picture)
            for model, captions in zip(models, captioned, strict=True)
        ]
