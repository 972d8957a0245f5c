"""Caption files: what is read, how captions find their pictures, and what is refused."""

import gzip
from pathlib import Path

import pytest

from show_attend_tell.errors import UserError
from show_attend_tell.scoring.files import (
    Candidates,
    Columns,
    References,
    read_candidates,
    read_references,
)
from show_attend_tell.scoring.pairing import pair
from tests.scoring import caption_files as files
from tests.scoring.caption_files import (
    FORMATS,
    Write,
    WriteReferences,
    write_csv,
    write_json,
    write_lines,
    write_text,
)

CAPTIONS = {"a.jpg": "A dog runs .", "b.jpg": "zwei Hunde, naß 😀", "c.jpg": '"ça" 狗 كلب'}
REFERENCES = {
    "a.jpg": ["a dog runs", "the dog", "the dog"],
    "b.jpg": ["two dogs"],
    "c.jpg": ["a cat", "0 cats"],
}
# Characters at which something other than a line feed would cut a line.
CUTTING = ["a\u2028dog", "a\u2029dog", "a\x85dog", "a\rdog", "a\x0bdog", "a\x0cdog", "a\x1edog"]


def file_formats() -> list[tuple[Write, WriteReferences]]:
    return [pair_ for pair_ in FORMATS if not pair_[1].__name__.startswith("data_set")]


def ids(formats: list[tuple[Write, WriteReferences]]) -> list[str]:
    return [f"{one.__name__}-{other.__name__}" for one, other in formats]


@pytest.mark.parametrize(("write", "write_references"), file_formats(), ids=ids(file_formats()))
def test_every_format_gives_the_same_captions_and_references(
    write: Write, write_references: WriteReferences, tmp_path: Path
) -> None:
    references = read_references(write_references(tmp_path, REFERENCES))
    captions, _ = pair(read_candidates(write(tmp_path, CAPTIONS)), references)
    assert list(captions.values()) == list(CAPTIONS.values())
    assert list(references.captions.values()) == list(REFERENCES.values())
    assert list(captions) == list(references.captions)


@pytest.mark.parametrize("text", [*CUTTING, "a\ndog", "a\r\ndog", "tab\tdog", "nul\0dog"], ids=repr)
@pytest.mark.parametrize("write", [files.candidates_jsonl, files.candidates_json])
def test_line_breaks_in_json_stay_inside_the_caption(
    write: Write, text: str, tmp_path: Path
) -> None:
    captions = {"a": text, "b": "two"}
    assert read_candidates(write(tmp_path, captions)).captions == captions


@pytest.mark.parametrize("text", [*CUTTING, "a\ndog", "tab\tdog", 'say "dog", twice'], ids=repr)
def test_line_breaks_in_csv_stay_inside_the_caption(text: str, tmp_path: Path) -> None:
    captions = {"a": text, "b": "two"}
    assert read_candidates(files.candidates_csv(tmp_path, captions)).captions == captions


@pytest.mark.parametrize("text", [*CUTTING, "tab\tdog"], ids=repr)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=repr)
def test_text_is_cut_at_line_feeds_alone(text: str, end: str, tmp_path: Path) -> None:
    found = read_candidates(write_text(tmp_path / "c.txt", [text, "two", "three"], end))
    assert list(found.captions.values()) == [text, "two", "three"]


def test_mixed_line_ends_and_a_last_line_without_one(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_bytes(b"one\r\ntwo\nthree\r\n\nfive")
    found = read_candidates(tmp_path / "c.txt")
    assert list(found.captions.values()) == ["one", "two", "three", "", "five"]


@pytest.mark.parametrize("name", ["c.jsonl", "c.json", "c.csv", "c.txt"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_and_gzip_are_no_text(name: str, packed: bool, tmp_path: Path) -> None:
    content = {
        "c.jsonl": '{"id": "1", "caption": "a dog"}\n',
        "c.json": '[{"id": "1", "caption": "a dog"}]',
        "c.csv": "id,caption\n1,a dog\n",
        "c.txt": "a dog\n",
    }[name].encode("utf-8-sig")
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(content) if packed else content)
    assert read_candidates(path).captions == {"1": "a dog"}


def test_a_picture_has_the_number_of_its_picture_not_of_its_caption(tmp_path: Path) -> None:
    rows = [{"id": 7, "image_id": 1, "caption": "a"}, {"id": 8, "image_id": 1, "caption": "b"}]
    assert read_references([write_json(tmp_path / "r.json", rows)]).captions == {"1": ["a", "b"]}
    table = write_csv(tmp_path / "r.csv", ["id", "image_id", "caption"], [["7", "1", "a"]])
    assert read_references([table]).captions == {"1": ["a"]}


@pytest.mark.parametrize("number", [1, 5, 50])
def test_any_number_of_references(number: int, tmp_path: Path) -> None:
    references = {"1": [f"dog {n}" for n in range(number)], "2": ["cat"]}
    for write in (files.references_jsonl, files.references_csv, files.references_text):
        found = read_references(write(tmp_path, references)).captions
        assert found == references


# Every layout: name of the file, its content, the captions by id (None: in the order of the
# references), and words of the notes that say what was taken for what.
DOGS = {"a.jpg": "a dog", "b.jpg": "a cat"}
LAYOUTS: dict[str, tuple[str, str, dict[str, str] | list[str], list[str]]] = {
    "COCO's results": (
        "c.json",
        '[{"image_id": 1, "caption": "a dog"}, {"image_id": 2, "caption": "a cat"}]',
        {"1": "a dog", "2": "a cat"},
        [],
    ),
    "pycocoevalcap, a text each": ("c.json", '{"a.jpg": "a dog", "b.jpg": "a cat"}', DOGS, []),
    "pycocoevalcap, a list of one": (
        "c.json",
        '{"a.jpg": ["a dog"], "b.jpg": ["a cat"]}',
        DOGS,
        [],
    ),
    "pycocoevalcap, before its tokeniser": (
        "c.json",
        '{"a.jpg": [{"caption": "a dog"}], "b.jpg": [{"image_id": 2, "caption": "a cat"}]}',
        DOGS,
        [],
    ),
    "pictures called like keys": (
        "c.json",
        '{"id": "a dog", "captions": "a cat"}',
        {"a dog": "a cat"},  # a single row
        [],
    ),
    "a single row": ("c.json", '{"id": "a.jpg", "caption": "a dog"}', {"a.jpg": "a dog"}, []),
    "generated_text": (
        "c.jsonl",
        '{"image": "a.jpg", "generated_text": "a dog"}\n'
        '{"image": "b.jpg", "generated_text": "a cat"}\n',
        DOGS,
        [],
    ),
    "a pipeline's answers": (
        "c.json",
        '[[{"generated_text": "a dog"}], [{"generated_text": "a cat"}]]',
        ["a dog", "a cat"],
        [],
    ),
    "prediction beside references": (
        "c.jsonl",
        '{"id": "a.jpg", "prediction": "a dog", "references": ["x", "y"]}\n'
        '{"id": "b.jpg", "prediction": "a cat", "references": ["z"]}\n',
        DOGS,
        [],
    ),
    "rows without ids": (
        "c.jsonl",
        '{"prediction": "a dog", "references": ["x"]}\n\n{"prediction": "a cat", "references": []}',
        ["a dog", "a cat"],
        [],
    ),
    "columns": (
        "c.json",
        '{"predictions": ["a dog", "a cat"], "references": [["x"], ["y"]]}',
        ["a dog", "a cat"],
        [],
    ),
    "columns with ids": (
        "c.json",
        '{"image_id": ["a.jpg", "b.jpg"], "prediction": ["a dog", "a cat"]}',
        DOGS,
        [],
    ),
    "a list of texts": ("c.json", '["a dog", "a cat"]', ["a dog", "a cat"], []),
    "numbers of pandas": ("c.jsonl", '{"id": 391895.0, "caption": "a"}', {"391895": "a"}, []),
    "a number of 400 digits": (
        "c.jsonl",
        f'{{"id": {"9" * 400}, "caption": "a"}}',
        {"9" * 400: "a"},
        [],
    ),
    "capitals in keys": ("c.jsonl", '{"Image_ID": 1, "Caption": "a dog"}', {"1": "a dog"}, []),
    "semicolons": (
        "c.csv",
        "image;caption\na.jpg;a dog\nb.jpg;a cat\n",
        DOGS,
        ["took columns as separated by semicolons, 'caption' as the caption and 'image' as its"],
    ),
    "semicolons, commas and quotes": (
        "c.csv",
        'image;caption\na.jpg;"a dog; wet, ""old"""\n',
        {"a.jpg": 'a dog; wet, "old"'},
        ["separated by semicolons"],
    ),
    "tabs in csv": (
        "c.csv",
        'image\tcaption\na.jpg\t"a dog"\nb.jpg\ta cat\n',
        DOGS,
        ["separated by tabs"],
    ),
    "commas in tsv": ("c.tsv", "image,caption\na.jpg,a dog\n", {"a.jpg": "a dog"}, ["by commas"]),
    "quotes in tsv": ("c.tsv", 'image\tcaption\na.jpg\t"a" dog\n', {"a.jpg": '"a" dog'}, []),
    "a column alone": ("c.csv", "caption\na dog\na cat\n", ["a dog", "a cat"], []),
    "no header": (
        "c.csv",
        "photos/a.jpg,a dog\nphotos/b.jpg,a cat\n",
        {"photos/a.jpg": "a dog", "photos/b.jpg": "a cat"},
        ["no header", "'photos/a.jpg' as a picture and 'a dog' as its caption"],
    ),
    "no header, numbers, semicolons": (
        "c.csv",
        "391895;a dog, wet\n42;a cat\n",
        {"391895": "a dog, wet", "42": "a cat"},
        ["no header"],
    ),
    "what sat caption prints": ("c.txt", "a.jpg\ta dog\nb.jpg\ta cat\n", DOGS, ["no header"]),
    "json without an ending": (
        "c",
        '[{"id": "a.jpg", "caption": "a dog"}]',
        {"a.jpg": "a dog"},
        [],
    ),
    "json by id without an ending": ("c", '{"a.jpg": "a dog",\n "b.jpg": "a cat"}', DOGS, []),
    "json lines without an ending": (
        "c",
        '\n{"id": "a.jpg", "caption": "a dog"}\n{"id": "b.jpg", "caption": "a cat"}\n',
        DOGS,
        [],
    ),
    "a line of json without an ending": (
        "c",
        '{"id": "a.jpg", "caption": "a dog"}\n',
        {"a.jpg": "a dog"},
        [],
    ),
    "a table without an ending": (
        "c",
        "id,caption,score\na.jpg,a dog,1\nb.jpg,a cat,2\n",
        DOGS,
        [],
    ),
    "text in brackets": ("c.txt", "[unk] dog\n{a cat\n", ["[unk] dog", "{a cat"], []),
    "text with commas": ("c.txt", "a.jpg, a dog\nid; a cat\n", ["a.jpg, a dog", "id; a cat"], []),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_gives_its_captions_and_says_what_was_taken(layout: str, tmp_path: Path) -> None:
    name, content, expected, words = LAYOUTS[layout]
    (tmp_path / name).write_text(content, "utf-8", newline="")
    found = read_candidates(tmp_path / name)
    assert found.has_ids == isinstance(expected, dict)
    assert (dict if found.has_ids else list)(
        found.captions.items() if found.has_ids else found.captions.values()
    ) == expected
    assert len(found.notes) == bool(words)
    assert all(word in found.notes[0] for word in words)
    if words:
        assert found.notes[0].startswith(f"{tmp_path / name}: ")


# The same for references.
REFERENCE_LAYOUTS: dict[str, tuple[str, str, dict[str, list[str]], bool]] = {
    "pycocoevalcap": (
        "r.json",
        '{"1": ["a", "b"], "2": ["c"]}',
        {"1": ["a", "b"], "2": ["c"]},
        True,
    ),
    "pycocoevalcap, a text each": (
        "r.json",
        '{"1": "a", "2": "c"}',
        {"1": ["a"], "2": ["c"]},
        True,
    ),
    "pycocoevalcap, before its tokeniser": (
        "r.json",
        '{"1": [{"caption": "a"}, {"caption": "b"}]}',
        {"1": ["a", "b"]},
        True,
    ),
    "references beside a prediction": (
        "r.jsonl",
        '{"id": 1, "prediction": "x", "references": ["a", "b"]}\n',
        {"1": ["a", "b"]},
        True,
    ),
    "references beside a caption": (
        "r.jsonl",
        '{"id": 1, "caption": "x", "references": ["a", "b"]}\n',
        {"1": ["a", "b"]},
        True,
    ),
    "COCO's annotations alone": (
        "r.json",
        '{"annotations": [{"image_id": 1, "id": 7, "caption": "a"}]}',
        {"1": ["a"]},
        True,
    ),
    "columns": (
        "r.json",
        '{"predictions": ["x", "y"], "references": [["a", "b"], ["c"]]}',
        {"1": ["a", "b"], "2": ["c"]},
        False,
    ),
    "lists in order": ("r.json", '[["a", "b"], ["c"]]', {"1": ["a", "b"], "2": ["c"]}, False),
    "semicolons": ("r.csv", "id;caption\n1;a\n1;b\n2;c\n", {"1": ["a", "b"], "2": ["c"]}, True),
    "no header": ("r.csv", "1.jpg,a\n1.jpg,b\n", {"1.jpg": ["a", "b"]}, True),
}


@pytest.mark.parametrize("layout", REFERENCE_LAYOUTS)
def test_a_layout_gives_its_references(layout: str, tmp_path: Path) -> None:
    name, content, expected, has_ids = REFERENCE_LAYOUTS[layout]
    (tmp_path / name).write_text(content, "utf-8", newline="")
    found = read_references([tmp_path / name])
    assert (found.captions, found.has_ids) == (expected, has_ids)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.csv", "Bild;Text;caption\na.jpg;a dog;x\n"),
        ("c.jsonl", '{"bild": "a.jpg", "TEXT": "a dog", "id": 7, "caption": "x"}\n'),
        ("c.json", '{"Bild": ["a.jpg"], "text": ["a dog"]}'),
        ("c", "Bild\tText\na.jpg\ta dog\n"),
    ],
)
def test_columns_of_other_names_are_named(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    found = read_candidates(tmp_path / name, Columns(id="Bild", caption="text"))
    assert found.captions == {"a.jpg": "a dog"}
    assert found.columns == {"bild", "text"}
    assert read_references([tmp_path / name], Columns("Bild", "text")).captions == {
        "a.jpg": ["a dog"]
    }


# Matching.


@pytest.mark.parametrize(
    ("generated", "asked", "way"),
    [
        (["7"], ["7"], None),
        (["photos/a.jpg", "photos/b.jpg"], ["a.jpg", "b.jpg"], "by file name ("),
        ([r"C:\photos\a.jpg"], ["a.jpg"], "by file name ("),
        (["a.jpg"], ["train/a.jpg"], "by file name ("),
        (["caf\u00e9.jpg"], ["cafe\u0301.jpg"], "by file name ("),
        (["a"], ["a.jpg"], "by file name without its ending"),
        (["x/a.png"], ["a.jpg"], "by file name without its ending"),
        (["391895"], ["COCO_val2014_000000391895.jpg"], "by COCO's number"),
        (["val2017/000000391895.jpg"], ["391895"], "by COCO's number"),
        (["391895", "42"], ["000000391895.jpg", "000000000042.jpg"], "by COCO's number"),
    ],
)
def test_ids_and_file_names_find_each_other(
    generated: list[str], asked: list[str], way: str | None
) -> None:
    candidates = Candidates("c", {id_: id_ for id_ in reversed(generated)})
    captions, notes = pair(candidates, References("r", {id_: ["x"] for id_ in asked}))
    assert captions == dict(zip(asked, generated, strict=True))
    assert [way in note for note in notes if way] == [True] * len(notes)
    assert bool(notes) == bool(way)


def test_file_names_of_cocos_annotations_are_known(tmp_path: Path) -> None:
    """Here a picture's number cannot be guessed from its name."""
    references = read_references(files.references_coco(tmp_path, REFERENCES))
    captions, notes = pair(Candidates("c", {f"x/{id_}": id_ for id_ in CAPTIONS}), references)
    assert captions == {"100": "a.jpg", "101": "b.jpg", "102": "c.jpg"}
    assert "by file name" in notes[0]


@pytest.mark.parametrize(
    ("generated", "asked"),
    [
        (["1.jpg"], ["x/1.jpg", "y/1.jpg"]),  # which of the two?
        (["1"], ["img1.jpg"]),  # a number inside a name is no id
        (["a.jpg"], ["A.jpg"]),
    ],
)
def test_what_is_not_surely_the_same_picture_is_not_matched(
    generated: list[str], asked: list[str]
) -> None:
    references = References("r", {id_: ["x"] for id_ in asked})
    with pytest.raises(UserError, match="give both the same ids") as refusal:
        pair(Candidates("c", dict.fromkeys(generated, "")), references)
    assert refusal.value.code == "score.ids"


def test_two_captions_that_would_become_one_pictures_are_refused() -> None:
    candidates = Candidates("c", {"x/1.jpg": "a", "y/1.jpg": "b"})
    with pytest.raises(UserError, match=r"'x/1.jpg', 'y/1.jpg' are captions of one picture"):
        pair(candidates, References("r", {"1.jpg": ["x"]}))


def test_captions_of_other_pictures_are_left_out_and_counted() -> None:
    candidates = Candidates("c", {"1": "a", "2": "b", "3": "c"})
    captions, notes = pair(candidates, References("r", {"2": ["x"]}))
    assert captions == {"2": "b"}
    assert notes == ["c: left out 2 captions of pictures without references (1, 3)."]


def test_lines_in_the_order_of_a_file_with_ids_say_so(tmp_path: Path) -> None:
    references = read_references(files.references_jsonl(tmp_path, REFERENCES))
    _, notes = pair(read_candidates(files.candidates_text(tmp_path, CAPTIONS)), references)
    assert "taken in the order of" in notes[0]
    assert "from 'a.jpg' to 'c.jpg'" in notes[0]


# What is odd but legal is counted.


def test_empty_captions_are_kept_and_counted(tmp_path: Path) -> None:
    captions = {"a.jpg": "", "b.jpg": " \u2028", "c.jpg": "..."}
    references = read_references(files.references_jsonl(tmp_path, REFERENCES))
    generated = files.candidates_jsonl(tmp_path, captions)
    found, notes = pair(read_candidates(generated), references)
    assert found == captions
    assert notes == [
        f"{generated}: 2 captions are empty and scored as such (pictures a.jpg, b.jpg)."
    ]


def test_an_empty_line_of_text_shifts_nothing(tmp_path: Path) -> None:
    generated = write_text(tmp_path / "c.txt", ["one", "", "three"])
    references = read_references([write_text(tmp_path / "r.txt", ["1", "2", "3"])])
    captions, notes = pair(read_candidates(generated), references)
    assert captions == {"1": "one", "2": "", "3": "three"}
    assert notes == [f"{generated}: 1 caption is empty and scored as such (line 2)."]


@pytest.mark.parametrize("mark", ["<unk>", "<UNK>", "<end>", "</s>", "<pad>"])
def test_marks_of_a_model_are_counted(mark: str) -> None:
    captions, notes = pair(
        Candidates("c", {"1": f"a {mark} dog", "2": "0"}), References("r", {"1": ["x"], "2": ["y"]})
    )
    assert captions["1"] == f"a {mark} dog"
    assert "1 caption is written with a model's own marks" in notes[0]


def test_rows_given_twice_alike_are_counted_and_read_once(tmp_path: Path) -> None:
    rows = [{"id": "1", "caption": "a"}, {"id": 1, "caption": "a"}, {"id": "2", "caption": "b"}]
    found = read_candidates(write_lines(tmp_path / "c.jsonl", rows))
    assert found.captions == {"1": "a", "2": "b"}
    assert found.notes == (f"{tmp_path / 'c.jsonl'}: ignored 1 row given twice.",)


def test_blank_references_are_left_out_and_counted(tmp_path: Path) -> None:
    texts = [write_text(tmp_path / f"{n}.txt", lines) for n, lines in enumerate(["ab", ["c", " "]])]
    found = read_references(texts)
    assert found.captions == {"1": ["a", "c"], "2": ["b"]}
    assert found.notes == (f"{texts[0]}, {texts[1]}: left out 1 blank reference.",)


def test_a_picture_without_a_reference_is_left_out_and_counted(tmp_path: Path) -> None:
    (path,) = files.references_coco(tmp_path, {**REFERENCES, "d.jpg": [], "e.jpg": [" "]})
    found = read_references([path])
    assert list(found.captions) == ["100", "101", "102"]
    assert f"{path}: left out 2 pictures without any reference (103, 104)." in found.notes
    with pytest.raises(
        UserError, match="have no order"
    ):  # of the lines two would belong to no picture
        pair(read_candidates(files.candidates_text(tmp_path, CAPTIONS)), found)


# What is wrong is named: the content of c.NAME, the code, and words of the sentence.
BAD_CANDIDATES = {
    "empty jsonl": ("c.jsonl", "", "data.empty", "no captions in this file"),
    "empty json": ("c.json", "", "data.row", "line 1, column 0: not JSON"),
    "empty list": ("c.json", "[]", "data.empty", "no captions in this file"),
    "empty csv": ("c.csv", "", "data.empty", "no captions in this file"),
    "csv with a header alone": ("c.csv", "id,caption\n", "data.empty", "no captions"),
    "empty text": ("c.txt", "", "data.empty", "no captions in this file"),
    "cut jsonl": ("c.jsonl", '{"id": 1, "caption": "a"}\n{"id": 2, "capt', "data.row", "line 2"),
    "cut json": ("c.json", '[{"id": 1, "caption": "a"}, {"id', "data.row", "may be cut off"),
    "lines in json": (
        "c.json",
        '[{"id": 1, "caption": "a"}]\n[{"id": 2, "caption": "b"}]',
        "data.row",
        "let its name end in .jsonl",
    ),
    "a number in json": ("c.json", "7", "data.row", "recognised in 7; give a list of rows such as"),
    "an object of other things": (
        "c.json",
        '{"BLEU-4": 0.3, "n": 2}',
        "data.row",
        "no captions were recognised in .*; give a list of rows such as",
    ),
    "images alone": ("c.json", '{"images": [{"id": 1}]}', "data.row", "without one of annotations"),
    "a picture twice in an object": (
        "c.json",
        '{"1": "a", "2": "b", "1": "c"}',
        "data.duplicate",
        "picture '1' is there 2 times; keep one",
    ),
    "two captions in an object": (
        "c.json",
        '{"1": ["a", "b"]}',
        "data.row",
        "picture '1': 2 captions of picture '1'; give one",
    ),
    "no caption in an object": ("c.json", '{"1": []}', "data.row", "0 captions of picture '1'"),
    "a number in an object": ("c.json", '{"1": [7]}', "data.row", "picture '1': 7 is no caption"),
    "columns of different lengths": (
        "c.json",
        '{"image_id": [1, 2, 3], "predictions": ["a", "b"]}',
        "data.row",
        "3 of image_id and 2 of predictions; give as many of each",
    ),
    "columns with ids of another name": (
        "c.json",
        '{"name": ["1", "2"], "predictions": ["a", "b"]}',
        "data.row",
        "no id: expected one of image_id, .*, found 'name, predictions'.*--id-column",
    ),
    "ids of another name": (
        "c.jsonl",
        '{"name": "1", "caption": "a"}',
        "data.row",
        "line 1: no id: .*found 'name, caption'; name yours with --id-column",
    ),
    "some without an id": (
        "c.jsonl",
        '{"id": 1, "caption": "a"}\n\n{"caption": "b"}\n',
        "data.row",
        "line 3: no id, unlike the first; give each caption one",
    ),
    "some with an id": (
        "c.jsonl",
        '{"caption": "a"}\n{"id": 1, "caption": "b"}\n',
        "data.row",
        "line 2: an id, unlike the first",
    ),
    "lone surrogate": ("c.jsonl", '{"id": 1, "caption": "\\ud800"}', "data.row", "line 1, column"),
    "lone surrogate in json": (
        "c.json",
        '[\n{"id": 1, "caption": "\\ud800"}]',
        "data.row",
        "line 2, column",
    ),
    "no caption": (
        "c.jsonl",
        '{"id": 1}',
        "data.row",
        "line 1: no caption: expected one of caption, .*, found 'id'; name .* --caption-column",
    ),
    "no id": ("c.jsonl", '\n{"caption": "a", "score": 1}', "data.row", "line 2: no id: expected"),
    "empty id": ("c.jsonl", '{"id": "", "caption": "a"}', "data.row", "line 1: '' is no id"),
    "id is null": ("c.jsonl", '{"id": null, "caption": "a"}', "data.row", "line 1: null is no id"),
    "id is no number": ("c.jsonl", '{"id": NaN, "caption": "a"}', "data.row", "line 1: nan is no"),
    "id is true": ("c.jsonl", '{"id": true, "caption": "a"}', "data.row", "line 1: True is no id"),
    "caption is null": ("c.jsonl", '{"id": 1, "caption": null}', "data.row", "null is no caption"),
    "captions in captions": ("c.json", '[[["a"]]]', "data.row", "entry 1: .'a'. is no caption"),
    "a list of captions": (
        "c.jsonl",
        '{"id": 1, "captions": ["a", "b"]}',
        "data.row",
        "line 1: 2 captions of picture '1'; give one",
    ),
    "two captions of a picture": (
        "c.jsonl",
        '{"id": 1, "caption": "a"}\n\n{"id": "1", "caption": "b"}\n',
        "data.duplicate",
        "line 3: another caption of picture '1', which has one in line 1; keep one",
    ),
    "two captions in json": (
        "c.json",
        '[{"id": 1, "caption": "a"}, {"id": 1, "caption": "b"}]',
        "data.duplicate",
        "entry 2: another caption of picture '1', which has one in entry 1",
    ),
    "csv that may have a header": (
        "c.csv",
        "1.jpg,2.jpg\n",
        "data.row",
        "line 1: no caption: expected one of caption, .*, found '1.jpg, 2.jpg'",
    ),
    "csv without captions": (
        "c.csv",
        "id,text\n1,a\n",
        "data.row",
        "line 1: no caption: .* found 'id, text'; name yours with --caption-column",
    ),
    "csv without ids": ("c.csv", "name,caption\n1,a\n", "data.row", "line 1: no id: expected"),
    "csv with a bare semicolon": (
        "c.csv",
        "id;caption\n2;a dog; wet\n",
        "data.row",
        "line 2: expected 2 columns, found 3; put .quotes. round a caption that holds a semicolon",
    ),
    "no header and a bare comma": (
        "c.csv",
        "1.jpg,a dog\n2.jpg,a dog, wet\n",
        "data.row",
        "line 2: expected 2 columns, found 3",
    ),
    "csv with a bare comma": (
        "c.csv",
        'id,caption\n1,"a\n\nb"\n2,a dog, wet\n',
        "data.row",
        "line 5: expected 2 columns, found 3; put .quotes. round",
    ),
    "csv with an open quote": ("c.csv", 'id,caption\n1,"a dog\n', "data.row", "check its quotes"),
    "csv without an id": (
        "c.csv",
        "id,caption\n ,a dog\n",
        "data.row",
        "line 2: ' ' is no id of a picture; give each caption its picture's name",
    ),
    "names and captions as text": (
        "c.txt",
        "1.jpg#0\ta dog\n1.jpg#1\ta cat\n",
        "data.row",
        "every line holds a tab.*let the first line name the columns",
    ),
}


@pytest.mark.parametrize("problem", BAD_CANDIDATES)
def test_bad_candidates_are_refused_by_name(problem: str, tmp_path: Path) -> None:
    name, content, code, words = BAD_CANDIDATES[problem]
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(UserError, match=words) as refusal:
        read_candidates(tmp_path / name)
    assert (refusal.value.code, refusal.value.exit_code) == (code, 1)
    assert str(refusal.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize("name", ["c.jsonl", "c.json", "c.csv", "c.txt"])
def test_what_is_not_utf8_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes('{"id": "1", "caption": "caf\xe9"}'.encode("latin-1"))
    with pytest.raises(UserError, match="line 1") as refusal:
        read_candidates(tmp_path / name)
    assert refusal.value.code == "data.row"


@pytest.mark.parametrize("name", ["c.jsonl", "c.json", "c.csv", "c.txt", "c.jsonl.gz"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    for read in (read_candidates, lambda path: read_references([path])):
        with pytest.raises(UserError, match="there is no such file") as refusal:
            read(tmp_path / name)
        assert refusal.value.code == "data.missing"


def test_a_folder_is_no_file_of_captions(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"this is a folder; give a file.*captions\.jsonl"):
        read_candidates(tmp_path)


BAD_REFERENCES = {
    "different line counts": (
        {"a.txt": "1\n2\n3\n", "b.txt": "1\n2\n"},
        "data.lines",
        "a.txt has 3 lines and .*b.txt has 2 lines; line i of each",
    ),
    "a line without a reference": (
        {"a.txt": "1\n\n3\n", "b.txt": "1\n \n3\n"},
        "score.no_reference",
        "1 line without any reference \\(2\\)",
    ),
    "only blank": ({"r.jsonl": '{"id": 1, "caption": " "}'}, "score.no_reference", "1 picture"),
    "several of other kinds": (
        {"a.jsonl": '{"id": 1, "caption": "a"}', "b.txt": "a\n"},
        "request.references",
        "must all be text",
    ),
    "no annotations": ({"r.json": '{"images": []}'}, "data.row", "give COCO's annotations"),
    "nothing annotated": ({"r.json": '{"images": [], "annotations": []}'}, "data.empty", "r.json"),
    "empty": ({"r.txt": ""}, "data.empty", "r.txt"),
}


@pytest.mark.parametrize("problem", BAD_REFERENCES)
def test_bad_references_are_refused_by_name(problem: str, tmp_path: Path) -> None:
    contents, code, words = BAD_REFERENCES[problem]
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=words) as refusal:
        read_references([tmp_path / name for name in contents])
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("generated", "counts"),
    [
        (["1", "2"], "c.txt has 2 captions and r has 3 lines"),
        (
            ["1", "2", "3", ""],
            "c.txt has 4 captions and r has 3 lines.*the last line of .*c.txt is blank",
        ),
    ],
)
def test_text_of_another_length_names_both_counts(
    generated: list[str], counts: str, tmp_path: Path
) -> None:
    references = References("r", {str(n): ["x"] for n in range(3)}, has_ids=False)
    with pytest.raises(UserError, match=counts) as refusal:
        pair(read_candidates(write_text(tmp_path / "c.txt", generated)), references)
    assert refusal.value.code == "data.lines"


def test_missing_captions_are_counted_and_named() -> None:
    references = References("r.jsonl", {str(n): ["x"] for n in range(6)})
    with pytest.raises(UserError) as refusal:
        pair(Candidates("c.jsonl", {"5": "a", "9": "b"}), references)
    assert refusal.value.code == "score.missing"
    assert str(refusal.value) == (
        "c.jsonl: no caption of 5 of the 6 pictures of r.jsonl (0, 1, 2, ...); "
        "caption them too, or score only the pictures that have both with --subset"
    )


def test_ids_and_lines_cannot_be_put_together() -> None:
    lines = References("r.txt", {"1": ["x"]}, has_ids=False)
    with pytest.raises(UserError, match="give both as text"):
        pair(Candidates("c.jsonl", {"1": "a"}), lines)
    data_set = References("flickr8k (test)", {"1.jpg": ["x"]}, has_order=False)
    with pytest.raises(UserError, match="give the captions with ids"):
        pair(Candidates("c.txt", {"1": "a"}, has_ids=False), data_set)
