"""The numbers behind a drawing, as JSON for many pictures or as arrays (NPZ) for one."""

import io
import json
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np

from show_attend_tell.captioning.caption import Caption
from show_attend_tell.drawing.items import Item


def as_json(items: Sequence[Item]) -> str:
    """A list with an object for each picture: as `sat caption --json`, and where it looked.

    `weights` is (T, h, w), `gates` (T,); `crop` is where the grid lies on the upright picture of
    `picture_size`, in its pixels.
    """
    facts = [
        {
            "picture": name,
            **caption.to_dict(),
            "look": caption.look,
            "gates": caption.gates.astype(np.float64).round(6).tolist(),
            "picture_size": list(caption.picture_size),
            "crop": astuple(caption.crop),
            "grid": list(caption.attention.shape[1:]),
            "weights": caption.attention.astype(np.float64).round(6).tolist(),
        }
        for name, caption, _ in items
    ]
    # A line a picture: with an indent every number would have one of its own.
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in facts)
    return f"[\n{lines}\n]\n"


def as_npz(name: str, caption: Caption) -> bytes:
    """The same as arrays, for `numpy.load`; nothing in it is pickled."""
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        picture=np.array(name),
        caption=np.array(caption.text),
        words=np.array(caption.words, dtype=np.str_),
        log_probs=caption.log_probs,
        look=np.array(caption.look),
        gates=caption.gates,
        picture_size=np.array(caption.picture_size),
        crop=np.array(astuple(caption.crop)),
        grid=np.array(caption.attention.shape[1:]),
        weights=caption.attention,
    )
    return stream.getvalue()
