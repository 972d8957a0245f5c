"""Where a trained model looks while it reads captions whose phrases have boxes.

The file of boxes is Flickr30k Entities cut to Flickr8k's pictures: by picture name its width and
height, and captions with phrases, each the words it spans and its boxes in the picture's pixels.
"""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.pictures import Preprocessing, crop_of
from show_attend_tell.data.vocabulary import Vocabulary, tokenise
from show_attend_tell.errors import UserError
from show_attend_tell.learning.run import Run
from show_attend_tell.scoring.analysis.grounding import GroundedWord
from show_attend_tell.scoring.analysis.health import AttendedCaption


@dataclass(frozen=True)
class Looking:
    """The attention of words with boxes, and of all words."""

    looks: list[GroundedWord]
    watched: list[AttendedCaption]


@torch.inference_mode()
def look_at_boxes(
    run: Run,
    store: FeatureStore,
    split: str,
    boxes: Path,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Looking:
    """The attention of teacher-forced captions of the pictures that have boxes."""
    run.check_features(store)
    pictures = read_boxes(boxes)
    looking = Looking([], [])
    for row in store.rows(split):
        example = store.examples[row]
        on_progress(1)
        if Path(example.id).name not in pictures:
            continue
        picture = pictures[Path(example.id).name]
        annotations = run.decoder.encode(torch.from_numpy(store.read([row])))
        for caption in picture["captions"]:
            ids = torch.tensor([run.vocabulary.encode(caption["text"])])
            lesson = run.decoder(annotations, ids)
            weights = lesson.alphas[0].double().numpy()  # (words and end, L)
            spoken = tokenise(caption["text"], punctuation=run.vocabulary.punctuation)
            gates = lesson.gates[0].double().numpy()
            looking.watched.append(
                AttendedCaption(spoken, weights[: len(spoken)], gates[: len(spoken)])
            )
            steps = steps_of_words(caption["text"], run.vocabulary)
            for phrase in caption["phrases"]:
                shares = boxes_as_seen(
                    phrase["boxes"],
                    (picture["width"], picture["height"]),
                    store.index.preprocessing,
                )
                for word in range(*phrase["words"]):
                    looking.looks.extend(
                        GroundedWord(example.id, weights[step].reshape(store.index.grid), shares)
                        for step in steps[word]
                    )
    return looking


def read_boxes(path: Path) -> dict[str, Any]:
    """Pictures with boxes, by name."""
    try:
        raw = path.read_bytes()
        pictures = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        for picture in pictures.values():
            for caption in picture["captions"]:
                for phrase in caption["phrases"]:
                    first, last = phrase["words"]
                    if not 0 <= first < last <= len(caption["text"].split()):
                        raise ValueError(f"no words {first} to {last} in {caption['text']!r}")
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            "data.boxes",
            f"{path}: cannot be read as phrases with boxes ({type(error).__name__}: {error}); "
            "give Flickr30k Entities as JSON, by picture name",
        ) from error
    return dict(pictures)


def steps_of_words(caption: str, vocabulary: Vocabulary) -> list[range]:
    """The steps of the decoder for each word of the caption as cut at blanks.

    >>> steps_of_words("A dog , asleep", Vocabulary((), punctuation=False))
    [range(0, 1), range(1, 2), range(2, 2), range(2, 3)]
    """
    steps, begin = [], 0
    for word in caption.split():
        end = begin + len(tokenise(word, punctuation=vocabulary.punctuation))
        steps.append(range(begin, end))
        begin = end
    return steps


def boxes_as_seen(
    boxes: list[list[float]], picture_size: tuple[int, int], preprocessing: Preprocessing
) -> Any:
    """Boxes in pixels of the picture as shares of the square that the encoder saw: (boxes, 4)."""
    crop = crop_of(picture_size, preprocessing)
    origin = np.array([crop.x0, crop.y0] * 2)
    extent = np.array([crop.x1 - crop.x0, crop.y1 - crop.y0] * 2)
    return (np.asarray(boxes, dtype=float).reshape(-1, 4) - origin) / extent
