"""Each layout made small from code, each bad data file, and the real files."""

import gzip
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from show_attend_tell.data.layouts import Dataset, load_dataset, missing_pictures, names_splits
from show_attend_tell.errors import UserError
from tests.shared import SHARED, needs_shared

Files = dict[str, str | bytes]


def write(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode("utf-8") if isinstance(content, str) else content
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder


def splits_of(dataset: Dataset) -> dict[str, str]:
    return {example.id: example.split for example in dataset.examples}


def captions_of(dataset: Dataset) -> dict[str, tuple[str, ...]]:
    return {example.id: example.captions for example in dataset.examples}


def karpathy(*pictures: tuple[str, str, list[str]], filepath: str | None = None) -> str:
    place = {"filepath": filepath} if filepath else {}
    images = [
        {"filename": name, "split": split, "sentences": [{"raw": raw} for raw in captions], **place}
        for name, split, captions in pictures
    ]
    return json.dumps({"images": images, "dataset": "test"})


def coco(captions: dict[int, tuple[str, list[str]]]) -> str:
    images = [{"id": number, "file_name": name} for number, (name, _) in captions.items()]
    annotations = [
        {"id": 10 * number + index, "image_id": number, "caption": caption}
        for number, (_, texts) in captions.items()
        for index, caption in enumerate(texts)
    ]
    return json.dumps({"images": images, "annotations": annotations})


TOKENS = "".join(f"{name}.jpg#{k}\tCaption {k} of {name} .\n" for name in "abcd" for k in range(5))
LISTS: Files = {
    "Flickr_8k.trainImages.txt": "a.jpg\n",
    "Flickr_8k.devImages.txt": "b.jpg\n",
    "Flickr_8k.testImages.txt": "c.jpg\n",
}
SPLIT_ABC = {"a.jpg": "train", "b.jpg": "dev", "c.jpg": "test"}
KARPATHY_ABC = karpathy(
    ("a.jpg", "train", ["x"]), ("b.jpg", "val", ["y"]), ("c.jpg", "test", ["z"])
)
TRAIN_2014 = coco({1: ("COCO_train2014_1.jpg", ["one"])})
VAL_2014 = coco({2: ("COCO_val2014_2.jpg", ["two"]), 3: ("COCO_val2014_3.jpg", ["three"])})
KARPATHY_COCO = json.dumps(
    {
        "images": [
            {"filepath": f"{part}2014", "filename": name, "split": split, "sentences": []}
            for part, name, split in (
                ("train", "COCO_train2014_1.jpg", "train"),
                ("val", "COCO_val2014_2.jpg", "restval"),
                ("val", "COCO_val2014_3.jpg", "test"),
            )
        ]
    }
)

# name, files, the layout they must be taken for, the split of each picture
LAYOUTS: list[tuple[str, Files, str, dict[str, str]]] = [
    (
        "flickr8k in two folders",
        {f"Flickr8k_text/{name}": text for name, text in LISTS.items()}
        | {"Flickr8k_text/Flickr8k.token.txt": TOKENS, "Flicker8k_Dataset/a.jpg": "picture"},
        "flickr8k",
        SPLIT_ABC,
    ),
    ("flickr8k flat", {**LISTS, "Flickr8k.token.txt": TOKENS}, "flickr8k", SPLIT_ABC),
    (
        "flickr30k with Karpathy's split",
        {"results_20130124.token": TOKENS, "dataset_flickr30k.json": KARPATHY_ABC},
        "flickr30k",
        SPLIT_ABC,
    ),
    (
        "coco with Karpathy's split",
        {
            "annotations/captions_train2014.json": TRAIN_2014,
            "annotations/captions_val2014.json": VAL_2014,
            "dataset_coco.json.gz": KARPATHY_COCO,
        },
        "coco",
        {
            "COCO_train2014_1.jpg": "train",
            "COCO_val2014_2.jpg": "train",
            "COCO_val2014_3.jpg": "test",
        },
    ),
    ("karpathy", {"dataset_mine.json": KARPATHY_ABC}, "karpathy", SPLIT_ABC),
    ("karpathy packed", {"dataset_mine.json.gz": KARPATHY_ABC}, "karpathy", SPLIT_ABC),
    (
        "own folder, CSV",
        {"captions.csv": "picture,caption,split\na.jpg,x,train\nb.jpg,y,val\nc.jpg,z,test\n"},
        "folder",
        SPLIT_ABC,
    ),
    (
        "own folder, TSV",
        {"captions.tsv": "Split\tImage\tCaption\ntrain\ta.jpg\tx\ndev\tb.jpg\ty\ntest\tc.jpg\tz\n"},
        "folder",
        SPLIT_ABC,
    ),
    (
        "own folder, JSON lines",
        {
            "captions.jsonl": '{"file": "a.jpg", "caption": "x", "split": "train"}\n\n'
            '{"filename": "b.jpg", "captions": ["y", "yy"], "split": "validation"}\n'
            '{"image": "c.jpg", "caption": "z", "split": "TEST"}'
        },
        "folder",
        SPLIT_ABC,
    ),
]


@pytest.mark.parametrize(
    ("files", "layout", "splits"), [row[1:] for row in LAYOUTS], ids=[r[0] for r in LAYOUTS]
)
def test_layout_is_recognised_and_its_splits_are_read(
    tmp_path: Path, files: Files, layout: str, splits: dict[str, str]
) -> None:
    dataset = load_dataset(write(tmp_path, files))
    assert (dataset.layout, splits_of(dataset)) == (layout, splits)


@pytest.mark.parametrize(
    ("files", "layout", "splits"), [row[1:] for row in LAYOUTS], ids=[r[0] for r in LAYOUTS]
)
def test_layout_can_be_named(
    tmp_path: Path, files: Files, layout: str, splits: dict[str, str]
) -> None:
    assert splits_of(load_dataset(write(tmp_path, files), layout=layout)) == splits


def test_named_layout_wins_over_the_one_found_first(tmp_path: Path) -> None:
    write(tmp_path, {"results_20130124.token": TOKENS, "dataset_flickr30k.json": KARPATHY_ABC})
    assert captions_of(load_dataset(tmp_path, layout="karpathy"))["a.jpg"] == ("x",)


@pytest.mark.parametrize(
    ("name", "text"),
    [("my.csv", "image,caption\na.jpg,x\n"), ("dataset_mine.json", KARPATHY_ABC)],
)
def test_path_may_be_the_captions_file_itself(tmp_path: Path, name: str, text: str) -> None:
    assert "a.jpg" in splits_of(load_dataset(write(tmp_path, {name: text}) / name))


def test_file_of_any_name_is_read_when_its_layout_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"odd.json": KARPATHY_ABC})
    assert splits_of(load_dataset(tmp_path / "odd.json", layout="karpathy")) == SPLIT_ABC


def test_texts_beside_pictures_give_a_caption_a_line(tmp_path: Path) -> None:
    write(
        tmp_path, {"a.JPG": "", "a.txt": "One dog.\n\nTwo dogs.\n", "b.png": "", "README.txt": "-"}
    )
    dataset = load_dataset(tmp_path)
    assert captions_of(dataset) == {"a.JPG": ("One dog.", "Two dogs.")}
    assert "Left out 1 picture without a caption." in dataset.notes


def test_coco_val_pictures_are_halved_into_dev_and_test(tmp_path: Path) -> None:
    val = coco({n: (f"COCO_val2014_{n}.jpg", ["text"]) for n in range(2, 12)})
    write(tmp_path, {"captions_train2014.json": TRAIN_2014, "captions_val2014.json": val})
    counts = Counter(example.split for example in load_dataset(tmp_path).examples)
    assert counts == {"train": 1, "dev": 5, "test": 5}


def test_coco_file_alone_is_split_at_random(tmp_path: Path) -> None:
    val = coco({n: (f"COCO_val2014_{n}.jpg", ["text"]) for n in range(20)})
    write(tmp_path, {"captions_val2014.json": val})
    counts = Counter(example.split for example in load_dataset(tmp_path).examples)
    assert counts == {"train": 16, "dev": 2, "test": 2}


# Splitting at random


def numbered(order: range) -> str:
    return "picture,caption\n" + "".join(f"{n:03}.jpg,text\n" for n in order)


def test_random_split_is_80_10_10(tmp_path: Path) -> None:
    dataset = load_dataset(write(tmp_path, {"captions.csv": numbered(range(100))}))
    counts = Counter(example.split for example in dataset.examples)
    assert counts == {"train": 80, "dev": 10, "test": 10}


def test_random_split_does_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    one = load_dataset(write(tmp_path / "1", {"captions.csv": numbered(range(50))}))
    other = load_dataset(write(tmp_path / "2", {"captions.csv": numbered(range(49, -1, -1))}))
    assert splits_of(one) == splits_of(other)


def test_random_split_changes_with_the_seed(tmp_path: Path) -> None:
    write(tmp_path, {"captions.csv": numbered(range(50))})
    assert splits_of(load_dataset(tmp_path, seed=1)) != splits_of(load_dataset(tmp_path, seed=2))


def test_random_split_never_changes_between_versions(tmp_path: Path) -> None:
    dataset = load_dataset(write(tmp_path, {"captions.csv": numbered(range(20))}))
    held = {id: split for id, split in splits_of(dataset).items() if split != "train"}
    assert held == {"018.jpg": "dev", "001.jpg": "dev", "019.jpg": "test", "008.jpg": "test"}


@pytest.mark.parametrize(("pictures", "held"), [(1, 0), (2, 0), (3, 1), (9, 1), (20, 2)])
def test_small_sets_keep_some_pictures_for_dev_and_test(
    tmp_path: Path, pictures: int, held: int
) -> None:
    dataset = load_dataset(write(tmp_path, {"captions.csv": numbered(range(pictures))}))
    counts = Counter(example.split for example in dataset.examples)
    assert (counts["dev"], counts["test"]) == (held, held)


# Captions and pictures


def many_captions(number: int) -> str:
    return "picture,caption\n" + "".join(f"a.jpg,caption {k}\n" for k in range(number))


@pytest.mark.parametrize(("given", "kept"), [(1, 1), (5, 5), (50, 5)])
def test_five_captions_of_a_picture_are_kept(tmp_path: Path, given: int, kept: int) -> None:
    dataset = load_dataset(write(tmp_path, {"captions.csv": many_captions(given)}))
    assert captions_of(dataset)["a.jpg"] == tuple(f"caption {k}" for k in range(kept))


def test_captions_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    dataset = load_dataset(write(tmp_path, {"captions.csv": many_captions(7)}))
    assert "Left out 2 captions beyond the first 5 of a picture." in dataset.notes


def test_all_captions_are_kept_on_request(tmp_path: Path) -> None:
    write(tmp_path, {"captions.csv": many_captions(50)})
    assert len(load_dataset(tmp_path, captions_per_picture=None).examples[0].captions) == 50


def test_pictures_in_no_split_are_left_out_and_counted(tmp_path: Path) -> None:
    dataset = load_dataset(write(tmp_path, {**LISTS, "Flickr8k.token.txt": TOKENS}))
    assert "Left out 1 picture in no split." in dataset.notes


def test_pictures_are_found_near_the_captions(tmp_path: Path) -> None:
    write(tmp_path, {"images/a.jpg": "", "captions.csv": "picture,caption\na.jpg,x\n"})
    assert load_dataset(tmp_path).examples[0].picture == tmp_path / "images" / "a.jpg"


def test_pictures_are_found_in_the_given_folder(tmp_path: Path) -> None:
    write(tmp_path, {"far/a.jpg": "", "a.jpg": "", "captions.csv": "picture,caption\na.jpg,x\n"})
    dataset = load_dataset(tmp_path, pictures=tmp_path / "far")
    assert dataset.examples[0].picture == tmp_path / "far" / "a.jpg"


@pytest.mark.parametrize("place", ["val2014/COCO_1.jpg", "COCO_1.jpg", "images/val2014/COCO_1.jpg"])
def test_coco_pictures_are_found_with_and_without_their_folder(tmp_path: Path, place: str) -> None:
    content = karpathy(("COCO_1.jpg", "train", ["x"]), filepath="val2014")
    dataset = load_dataset(write(tmp_path, {"dataset_coco.json": content, place: ""}))
    assert dataset.examples[0].picture == tmp_path / place


def test_id_is_the_file_name(tmp_path: Path) -> None:
    dataset = load_dataset(
        write(tmp_path, {"captions.csv": "picture,caption\nx/a.jpg,x\n./b.jpg,y\n"})
    )
    assert set(splits_of(dataset)) == {"a.jpg", "b.jpg"}


def test_id_has_the_folder_where_file_names_repeat(tmp_path: Path) -> None:
    dataset = load_dataset(
        write(tmp_path, {"captions.csv": "picture,caption\nx/a.jpg,x\ny/a.jpg,y\n"})
    )
    assert set(splits_of(dataset)) == {"x/a.jpg", "y/a.jpg"}


def test_missing_pictures_are_listed_and_do_not_stop_the_reading(tmp_path: Path) -> None:
    rows = f"picture,caption\na.jpg,x\nb.jpg,y\n{'n' * 300}.jpg,z\n"
    dataset = load_dataset(write(tmp_path, {"captions.csv": rows, "a.jpg": ""}))
    assert [example.id for example in missing_pictures(dataset)] == ["b.jpg", "n" * 300 + ".jpg"]


# Data files that are odd but fine: what they hold, then the captions of a.jpg and a note
# (numbers are rows of the project's list of bad inputs)

ODD: list[tuple[str, Files, tuple[str, ...], str | None]] = [
    ("70 BOM in CSV", {"captions.csv": "\ufeffpicture,caption\na.jpg,x\n"}, ("x",), None),
    ("70 BOM in JSON", {"dataset_x.json": "\ufeff" + KARPATHY_ABC}, ("x",), None),
    ("70 BOM in token file", {**LISTS, "Flickr8k.token.txt": "\ufeffa.jpg#0\tx\n"}, ("x",), None),
    (
        "71 U+2028 and U+0085",
        {"captions.csv": "picture,caption\na.jpg,one\u2028two\u0085three\x0cfour\n"},
        ("one two three four",),
        None,
    ),
    ("72 tabs", {**LISTS, "Flickr8k.token.txt": "a.jpg#0\tone\ttwo\n"}, ("one two",), None),
    (
        "72 mixed line ends",
        {"captions.csv": "picture,caption\r\na.jpg,x\na.jpg,y\r\n"},
        ("x", "y"),
        None,
    ),
    (
        "73 blank caption",
        {"captions.csv": "picture,caption\na.jpg, \na.jpg,x\n"},
        ("x",),
        "Left out 1 blank caption.",
    ),
    ("73 only punctuation", {"captions.csv": "picture,caption\na.jpg,...\n"}, ("...",), None),
    (
        "74 caption of 1,000 words",
        {"captions.csv": "picture,caption\na.jpg," + "word " * 1000},
        (("word " * 1000).strip(),),
        None,
    ),
    (
        "75 duplicate rows",
        {"captions.csv": "picture,caption\na.jpg,x\na.jpg,x\n"},
        ("x", "x"),
        "Kept 1 caption equal to another of the same picture.",
    ),
    (
        "76 picture without caption",
        {"captions.csv": "picture,caption\na.jpg,x\nb.jpg,\n"},
        ("x",),
        "Left out 1 picture without a caption.",
    ),
    (
        "76 split list names a picture without caption",
        {**LISTS, "Flickr8k.token.txt": "a.jpg#0\tx\n"},
        ("x",),
        "Left out 2 pictures without a caption.",
    ),
    (
        "80 special words",
        {"captions.csv": "picture,caption\na.jpg,<unk> <end> 0\n"},
        ("<unk> <end> 0",),
        None,
    ),
    (
        "81 emoji, Chinese, Arabic",
        {"captions.csv": "picture,caption\na.jpg,🐕\na.jpg,狗\na.jpg,كلب\n"},
        ("🐕", "狗", "كلب"),
        None,
    ),
    (
        "82 quotes, commas, line breaks in CSV",
        {"captions.csv": 'picture,caption\na.jpg,"a ""big"" dog,\nrunning"\n'},
        ('a "big" dog, running',),
        None,
    ),
    (
        "82 quotes in TSV",
        {"captions.tsv": 'picture\tcaption\na.jpg\t"big dog\n'},
        ('"big dog',),
        None,
    ),
    (
        "82 blank rows and another column in CSV",
        {"captions.csv": "by,picture,caption\n,,\nme,a.jpg,x\n\n"},
        ("x",),
        None,
    ),
    (
        "86 same COCO id as number and text",
        {
            "captions_x.json": '{"images": [{"id": 7, "file_name": "a.jpg"}],'
            ' "annotations": [{"image_id": "7", "caption": "x"}, {"image_id": 7, "caption": "y"}]}'
        },
        ("x", "y"),
        None,
    ),
    (
        "split given in one row only",
        {"captions.csv": "picture,caption,split\na.jpg,x,train\na.jpg,y,\n"},
        ("x", "y"),
        None,
    ),
]


@pytest.mark.parametrize(
    ("files", "captions", "note"), [row[1:] for row in ODD], ids=[r[0] for r in ODD]
)
def test_odd_data_is_read(
    tmp_path: Path, files: Files, captions: tuple[str, ...], note: str | None
) -> None:
    dataset = load_dataset(write(tmp_path, files))
    assert captions_of(dataset)["a.jpg"] == captions
    assert note is None or note in dataset.notes


def test_same_picture_as_number_and_text_is_one(tmp_path: Path) -> None:
    rows = '{"picture": 12, "caption": "x"}\n{"picture": "12", "caption": "y"}\n'
    assert captions_of(load_dataset(write(tmp_path, {"captions.jsonl": rows}))) == {
        "12": ("x", "y")
    }


# Data files that are wrong: what they hold, the code, and what the message must say


def csv_with(row: str) -> Files:
    return {"captions.csv": f"picture,caption\na.jpg,x\n{row}\n"}


def tokens_with(row: str | bytes) -> Files:
    data = row.encode() if isinstance(row, str) else row
    return {**LISTS, "Flickr8k.token.txt": b"a.jpg#0\tx\n" + data + b"\n"}


def jsonl_with(row: str) -> Files:
    return {"captions.jsonl": f'{{"picture": "a.jpg", "caption": "x"}}\n{row}\n'}


BAD: list[tuple[str, Files, str, str]] = [
    (
        "41 name outside the folder",
        csv_with("../../etc/passwd,x"),
        "data.row",
        "line 3: bad picture name",
    ),
    ("41 with backslashes", csv_with(r"..\..\secret,x"), "data.row", "line 3: bad picture name"),
    ("42 absolute name", csv_with("/etc/passwd,x"), "data.row", "line 3: bad picture name"),
    (
        "42 in a COCO file",
        {"captions_x.json": coco({1: ("/etc/passwd", ["x"])})},
        "data.row",
        "images[0]",
    ),
    ("43 NUL in a name", csv_with("b\0.jpg,x"), "data.row", "line 3"),
    ("no name", csv_with(",x"), "data.row", "line 3: bad picture name ''"),
    ("name is a dot", csv_with("./,x"), "data.row", "line 3: bad picture name"),
    ("71 NUL in a caption", csv_with("a.jpg,x\0y"), "data.row", "line 3"),
    (
        "71 NUL in JSON",
        jsonl_with(r'{"picture": "a.jpg", "caption": "\u0000"}'),
        "data.row",
        "line 2: NUL",
    ),
    (
        "71 lone surrogate in JSON",
        jsonl_with(r'{"picture": "a.jpg", "caption": "\ud83d"}'),
        "data.row",
        "line 2, column",
    ),
    (
        "71 lone surrogate in text",
        tokens_with(b"a.jpg#1\t\xed\xa0\xbd"),
        "data.row",
        "line 2: not UTF-8",
    ),
    ("not UTF-8", tokens_with(b"a.jpg#1\tcaf\xe9"), "data.row", "byte 0xe9 at position 12"),
    (
        "UTF-16",
        {"captions.csv": "picture,caption\n".encode("utf-16")},
        "data.row",
        "line 1: not UTF-8",
    ),
    (
        "no tab",
        tokens_with("a.jpg#1 x"),
        "data.row",
        "line 2: expected name.jpg#number, a tab and the caption, found 'a.jpg#1 x'",
    ),
    (
        "caption number is a letter",
        tokens_with("a.jpg#x\ty"),
        "data.row",
        "line 2: expected name.jpg#number",
    ),
    ("no caption number", tokens_with("a.jpg\ty"), "data.row", "line 2: expected name.jpg#number"),
    (
        "unknown column names",
        {"captions.csv": "a,b\n1,2\n"},
        "data.row",
        "line 1: expected one column",
    ),
    ("two caption columns", {"captions.csv": "picture,caption,caption\n"}, "data.row", "line 1"),
    (
        "82 comma without quotes",
        csv_with("a.jpg,a dog, running"),
        "data.row",
        "line 3: expected 2 columns",
    ),
    ("82 quote never closed", csv_with('a.jpg,"a dog\nb.jpg,y'), "data.row", "line 3: broken row"),
    (
        "missing column in JSON",
        jsonl_with('{"picture": "b.jpg"}'),
        "data.row",
        "line 2: caption is missing",
    ),
    (
        "caption is no text",
        jsonl_with('{"picture": "b.jpg", "caption": null}'),
        "data.row",
        "line 2",
    ),
    (
        "unknown split",
        {"captions.csv": "picture,caption,split\na.jpg,x,training\n"},
        "data.row",
        "'training'",
    ),
    (
        "83 JSON cut",
        {"dataset_x.json": KARPATHY_ABC[:50]},
        "data.row",
        "line 1, column 50: not JSON",
    ),
    ("84 empty JSON", {"dataset_x.json": b""}, "data.row", "line 1, column 0: not JSON"),
    (
        "JSON nested too deep",
        {"dataset_x.json": '{"images":' * 100_000},
        "data.row",
        "not JSON (lists",
    ),
    (
        "JSON of another kind",
        {"dataset_x.json": "[]"},
        "data.row",
        "expected an object, found []; write",
    ),
    (
        "no sentences",
        {"dataset_x.json": '{"images": [{"filename": "a"}]}'},
        "data.row",
        "images[0].split is missing",
    ),
    (
        "76 caption without picture",
        {"captions_x.json": '{"images": [], "annotations": [{"image_id": 7, "caption": "x"}]}'},
        "data.row",
        "annotations[0]: picture '7' is not among the images",
    ),
    (
        "77 picture in two lists",
        {**LISTS, "Flickr8k.token.txt": TOKENS, "Flickr_8k.testImages.txt": "c.jpg\na.jpg\n"},
        "data.leak",
        "Flickr_8k.testImages.txt, line 2: picture 'a.jpg' is in test and also in train",
    ),
    (
        "77 picture in two splits of a CSV",
        {"captions.csv": "picture,caption,split\na.jpg,x,train\na.jpg,y,test\n"},
        "data.leak",
        "line 3",
    ),
    (
        "77 picture twice in Karpathy's file",
        {"dataset_x.json": karpathy(("a.jpg", "train", ["x"]), ("a.jpg", "val", ["x"]))},
        "data.leak",
        "images[1]",
    ),
    (
        "77 picture in both COCO files",
        {"captions_train2014.json": TRAIN_2014, "captions_val2014.json": TRAIN_2014},
        "data.leak",
        "COCO_train2014_1.jpg",
    ),
    (
        "74 caption of 10,000 words",
        csv_with("a.jpg," + "word " * 10_000),
        "data.too_large",
        "line 3: a caption of 49,999 characters",
    ),
    ("84 empty CSV", {"captions.csv": ""}, "data.row", "line 1"),
    ("84 empty JSON lines", {"captions.jsonl": ""}, "data.empty_split", "no training pictures"),
    (
        "84 empty token file",
        {**LISTS, "Flickr8k.token.txt": ""},
        "data.empty_split",
        "no training pictures",
    ),
    (
        "84 empty split lists",
        {**dict.fromkeys(LISTS, ""), "Flickr8k.token.txt": TOKENS},
        "data.empty_split",
        "no training pictures",
    ),
    (
        "Karpathy's split of other pictures",
        {"results_20130124.token": "z.jpg#0\tx\n", "dataset_flickr30k.json": KARPATHY_ABC},
        "data.empty_split",
        "no training pictures",
    ),
    (
        "no training pictures",
        {"captions.csv": "picture,caption,split\na.jpg,x,test\n"},
        "data.empty_split",
        "no training pictures among the 1 with captions and a split",
    ),
    (
        "split list missing",
        {"Flickr8k.token.txt": TOKENS},
        "data.missing",
        "Flickr_8k.trainImages.txt",
    ),
    (
        "two data sets",
        {"dataset_a.json": "", "dataset_b.json": ""},
        "data.layout",
        "dataset_a.json, dataset_b.json",
    ),
    (
        "two years of COCO",
        {f"captions_{part}.json": TRAIN_2014 for part in ("train2014", "train2017", "val2014")},
        "data.layout",
        "captions_train2014.json, captions_train2017.json",
    ),
    ("nothing known", {"notes.txt": "", "a.jpg": ""}, "data.layout", "results_20130124.token"),
]


@pytest.mark.parametrize(
    ("files", "code", "message"), [row[1:] for row in BAD], ids=[r[0] for r in BAD]
)
def test_wrong_data_is_named(tmp_path: Path, files: Files, code: str, message: str) -> None:
    write(tmp_path, files)
    with pytest.raises(UserError) as caught:
        load_dataset(tmp_path)
    assert caught.value.code == code
    assert str(caught.value).startswith(str(tmp_path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)  # on a terminal it would be two characters


@pytest.mark.parametrize(
    "content",
    [gzip.compress(KARPATHY_ABC.encode())[:-30], b"no gzip at all"],
    ids=["cut off", "no gzip"],
)
def test_damaged_packed_file_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "dataset_x.json.gz"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"dataset_x\.json\.gz: cannot be read") as caught:
        load_dataset(file)
    assert caught.value.code == "data.unreadable"


WRONG_REQUESTS: list[tuple[dict[str, Any], str, str]] = [
    ({"layout": "flick8k"}, "request.layout", "did you mean flickr8k?"),
    ({"layout": "zzz"}, "request.layout", "known are flickr8k, flickr30k, coco, karpathy, folder"),
    ({"layout": "flickr30k"}, "data.missing", "results_20130124.token"),
    (
        {"captions_per_picture": 0},
        "request.bad",
        "captions_per_picture is 0; it must be a whole number 1 or more",
    ),
    ({"pictures": Path("nowhere")}, "data.missing", "nowhere"),
]


@pytest.mark.parametrize(("options", "code", "message"), WRONG_REQUESTS)
def test_wrong_request_is_answered(
    tmp_path: Path, options: dict[str, Any], code: str, message: str
) -> None:
    write(tmp_path, {"captions.csv": "picture,caption\na.jpg,x\n"})
    with pytest.raises(UserError) as caught:
        load_dataset(tmp_path, **options)
    assert caught.value.code == code
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["absent", "n" * 300])
def test_missing_data_set_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=name) as caught:
        load_dataset(tmp_path / name)
    assert caught.value.code == "data.missing"


def test_error_shows_control_characters_escaped(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load_dataset(write(tmp_path, tokens_with("\x1b[2J no tab")))
    assert "\x1b" not in str(caught.value)


FUZZED = {
    "Flickr8k.token.txt": TOKENS,
    "Flickr_8k.trainImages.txt": "a.jpg\n",
    "captions.csv": 'picture,caption,split\na.jpg,"x, y",train\nb.jpg,z,dev\n',
    "captions.jsonl": '{"picture": "a.jpg", "captions": ["x", "y"], "split": "train"}\n',
    "dataset_x.json": KARPATHY_ABC,
    "captions_x.json": VAL_2014,
}


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(FUZZED)),
    edits=st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 20), st.binary(max_size=6)), max_size=4
    ),
)
def test_damaged_data_file_is_read_or_refused_but_never_a_crash(
    name: str, edits: list[tuple[int, int, bytes]]
) -> None:
    data = FUZZED[name].encode()
    for start, removed, added in edits:
        data = data[:start] + added + data[start + removed :]
    with tempfile.TemporaryDirectory() as folder:
        files: Files = {name: data}
        if name.startswith("Flickr"):
            files = {**LISTS, "Flickr8k.token.txt": TOKENS, name: data}
        try:
            dataset = load_dataset(write(Path(folder), files))
        except UserError:
            return
        assert all(example.captions for example in dataset.examples)


# The real files


@needs_shared
def test_flickr8k_has_its_official_splits() -> None:
    dataset = load_dataset(SHARED / "data" / "flickr8k")
    captions = Counter({split: 0 for split in ("train", "dev", "test")})
    for example in dataset.examples:
        captions[example.split] += len(example.captions)
    assert Counter(splits_of(dataset).values()) == {"train": 6000, "dev": 1000, "test": 1000}
    assert captions == {"train": 30_000, "dev": 5000, "test": 5000}
    # 91 pictures and 2258277193_586949ec62.jpg.1, which is no picture
    assert "Left out 92 pictures in no split." in dataset.notes


@needs_shared
def test_flickr8k_pictures_are_all_found() -> None:
    assert missing_pictures(load_dataset(SHARED / "data" / "flickr8k")) == []


@needs_shared
def test_karpathys_flickr8k_equals_the_official_one() -> None:
    official = load_dataset(SHARED / "data" / "flickr8k")
    pictures = SHARED / "data" / "flickr8k" / "Flicker8k_Dataset"
    file = SHARED / "data" / "karpathy" / "dataset_flickr8k.json.gz"
    theirs = load_dataset(file, pictures=pictures)

    def by_id(dataset: Dataset) -> dict[str, tuple[Path, str, list[str]]]:
        return {e.id: (e.picture, e.split, sorted(e.captions)) for e in dataset.examples}

    assert by_id(theirs) == by_id(official)


@needs_shared
@pytest.mark.parametrize(
    ("file", "layout", "splits"),
    [
        ("karpathy/dataset_flickr30k_300_rebuilt.json.gz", "karpathy", (200, 50, 50)),
        ("karpathy/dataset_coco_300_rebuilt.json.gz", "karpathy", (206, 48, 46)),
        ("coco", "coco", (240, 30, 30)),
    ],
)
def test_three_hundred_real_pictures_are_read(
    file: str, layout: str, splits: tuple[int, int, int]
) -> None:
    dataset = load_dataset(SHARED / "data" / file)
    counts = Counter(splits_of(dataset).values())
    assert (dataset.layout, len(dataset.examples)) == (layout, 300)
    assert (counts["train"], counts["dev"], counts["test"]) == splits
    assert all(len(example.captions) == 5 for example in dataset.examples)


@needs_shared
def test_coco_and_karpathy_agree_on_the_captions_they_share() -> None:
    ours = captions_of(load_dataset(SHARED / "data" / "coco"))
    file = SHARED / "data" / "karpathy" / "dataset_coco_300_rebuilt.json.gz"
    theirs = captions_of(load_dataset(file))
    both = ours.keys() & theirs.keys()
    assert len(both) == 240
    assert {id: ours[id] for id in both} == {id: theirs[id] for id in both}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("all.csv", "picture,caption,Split\n", True),
        ("all.csv", "picture,caption\na.jpg,split\n", False),
        ("all.tsv", "picture\tsplit\tcaption\n", True),
        ("all.jsonl", '\n{"picture": "a.jpg", "caption": "x", "split": "dev"}\n', True),
        ("all.jsonl", '{"picture": "a.jpg", "caption": "split"}\n', False),
        ("all.jsonl", "", False),
        ("Flickr8k.token.txt", "", True),
        ("dataset_coco.json", "", True),
        ("captions_val2014.json", "", False),
        ("captions.txt", "split", False),
    ],
)
def test_whether_a_file_names_splits(
    name: str, content: str, expected: bool, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    assert names_splits(tmp_path / name) is expected
    assert names_splits(tmp_path)
    assert not names_splits(tmp_path / "missing.csv")
