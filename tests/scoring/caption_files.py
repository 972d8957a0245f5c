"""The same captions and references written in every format that `sat score` reads."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Captions = Mapping[str, str]
References = Mapping[str, Sequence[str]]


def write_lines(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def write_json(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")
    return path


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def write_text(path: Path, texts: Sequence[str], end: str = "\n") -> Path:
    path.write_bytes("".join(text + end for text in texts).encode())
    return path


def flat(references: References) -> list[tuple[str, str]]:
    return [(id_, text) for id_, own in references.items() for text in own]


# How candidates may be written.


def candidates_jsonl(folder: Path, captions: Captions) -> Path:
    rows = [{"id": id_, "caption": text} for id_, text in captions.items()]
    return write_lines(folder / "candidates.jsonl", rows)


def candidates_of_evaluate(folder: Path, captions: Captions) -> Path:
    rows = [{"id": id_, "caption": text, "log_prob": -9.5} for id_, text in captions.items()]
    return write_lines(folder / "captions.jsonl", rows)


def candidates_of_caption(folder: Path, captions: Captions) -> Path:
    """As `sat caption --json photos` writes them."""
    rows = [
        {"picture": f"photos/{id_}", "caption": text, "confidence": 0.5, "words": text.split()}
        for id_, text in captions.items()
    ]
    return write_lines(folder / "told.jsonl", rows)


def candidates_json(folder: Path, captions: Captions) -> Path:
    rows = [{"image_id": id_, "caption": text} for id_, text in captions.items()]
    return write_json(folder / "results.json", rows)


def candidates_by_number(folder: Path, captions: Captions) -> Path:
    """COCO's results: the pictures' numbers, not their names."""
    rows = [{"image_id": n, "caption": text} for n, text in enumerate(captions.values(), 100)]
    return write_json(folder / "results.json", rows)


def candidates_csv(folder: Path, captions: Captions) -> Path:
    return write_csv(folder / "candidates.csv", ["id", "caption"], list(captions.items()))


def candidates_tsv(folder: Path, captions: Captions) -> Path:
    rows = ["caption\tpicture", *(f"{text}\t{id_}" for id_, text in captions.items())]
    return write_text(folder / "candidates.tsv", rows)


def candidates_text(folder: Path, captions: Captions) -> Path:
    return write_text(folder / "candidates.txt", list(captions.values()))


# How references may be written; each returns what is typed on the command line.


def references_jsonl(folder: Path, references: References) -> list[Path]:
    rows = [{"id": id_, "captions": own} for id_, own in references.items()]
    return [write_lines(folder / "references.jsonl", rows)]


def references_row_by_row(folder: Path, references: References) -> list[Path]:
    rows = [{"id": id_, "caption": text} for id_, text in flat(references)]
    return [write_lines(folder / "references.jsonl", rows)]


def references_json(folder: Path, references: References) -> list[Path]:
    rows = [{"image_id": id_, "caption": text} for id_, text in flat(references)]
    return [write_json(folder / "references.json", rows)]


def references_coco(folder: Path, references: References) -> list[Path]:
    numbers = {id_: number for number, id_ in enumerate(references, 100)}
    content = {
        "info": {},
        "images": [{"id": number, "file_name": id_} for id_, number in numbers.items()],
        "annotations": [
            {"image_id": numbers[id_], "id": 7 + n, "caption": text}
            for n, (id_, text) in enumerate(flat(references))
        ],
    }
    return [write_json(folder / "captions_val2014.json", content)]


def references_csv(folder: Path, references: References) -> list[Path]:
    return [write_csv(folder / "references.csv", ["id", "caption"], flat(references))]


def references_text(folder: Path, references: References) -> list[Path]:
    most = max(map(len, references.values()))
    return [
        write_text(
            folder / f"references{n}.txt",
            [own[n] if n < len(own) else "" for own in references.values()],
        )
        for n in range(most)
    ]


def data_set_karpathy(folder: Path, references: References) -> list[Path]:
    images = [
        {"filename": id_, "split": "test", "sentences": [{"raw": text} for text in own]}
        for id_, own in references.items()
    ]
    learned = {"filename": "x.jpg", "split": "train", "sentences": [{"raw": "a dog in the snow ."}]}
    return [write_json(folder / "dataset_flickr8k.json", {"images": [*images, learned]})]


def data_set_folder(folder: Path, references: References) -> list[Path]:
    rows = [("x.jpg", "a dog in the snow .", "train")]
    rows += [(id_, text, "test") for id_, text in flat(references)]
    (folder / "mine").mkdir()
    write_csv(folder / "mine" / "captions.csv", ["picture", "caption", "split"], rows)
    return [folder / "mine"]


Write = Callable[[Path, Captions], Path]
WriteReferences = Callable[[Path, References], list[Path]]

# Everything with ids goes with everything with ids; each is here at least once.
FORMATS: list[tuple[Write, WriteReferences]] = [
    (candidates_jsonl, references_jsonl),
    (candidates_of_evaluate, data_set_karpathy),
    (candidates_of_caption, data_set_folder),
    (candidates_json, references_json),
    (candidates_by_number, references_coco),
    (candidates_jsonl, references_coco),
    (candidates_csv, references_csv),
    (candidates_tsv, references_row_by_row),
    (candidates_text, references_text),
    (candidates_text, references_jsonl),
]
