"""One sheet an epoch of the same few dev pictures, to watch attention being learned."""

from collections.abc import Mapping
from pathlib import Path

from show_attend_tell.captioning.caption import Caption
from show_attend_tell.captioning.search import Decoded
from show_attend_tell.captioning.settings import Look
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.pictures import crop_of, read_picture
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.drawing import Item, sheet
from show_attend_tell.errors import UserError
from show_attend_tell.files import write_atomically

FOLDER = "sheets"
PICTURES = 4


def draw_sheet(
    store: FeatureStore,
    vocabulary: Vocabulary,
    decoded: Mapping[str, Decoded],
    look: Look,
    run: Path,
    epoch: int,
) -> None:
    """Draw the captions of the first dev pictures that can be opened, if any, into RUN/sheets."""
    items: list[Item] = []
    for row in store.rows("dev"):
        example = store.examples[row]
        words = vocabulary.decode(decoded[example.id].words)
        if not words:
            continue
        try:
            opened = read_picture(example.picture, least_side=store.index.preprocessing.size)
        except UserError:  # a store outlives its pictures; training does not need them
            continue
        crop = crop_of(opened.size, store.index.preprocessing)
        caption = Caption.of(
            decoded[example.id], words, store.index.grid, opened.size, crop, look=look
        )
        items.append((f"epoch {epoch} · {example.picture.name}", caption, opened.image))
        if len(items) == PICTURES:
            break
    if items:
        image = sheet(items, scale=1)
        (run / FOLDER).mkdir(exist_ok=True)
        path = run / FOLDER / f"epoch-{epoch:02}.jpg"
        write_atomically(path, lambda stream: image.save(stream, format="JPEG", quality=88))
