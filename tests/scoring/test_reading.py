"""Caption files: what is read, how captions find their pictures, and what is refused."""

import gzip
from pathlib import Path

import pytest

from show_attend_tell.errors import UserError
from show_attend_tell.scoring.reading import (
    Candidates,
    References,
    pair,
    read_candidates,
    read_references,
)
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


# Matching.


@pytest.mark.parametrize(
    ("told", "asked", "way"),
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
    told: list[str], asked: list[str], way: str | None
) -> None:
    candidates = Candidates("c", {id_: id_ for id_ in reversed(told)})
    captions, notes = pair(candidates, References("r", {id_: ["x"] for id_ in asked}))
    assert captions == dict(zip(asked, told, strict=True))
    assert [way in note for note in notes if way] == [True] * len(notes)
    assert bool(notes) == bool(way)


def test_file_names_of_cocos_annotations_are_known(tmp_path: Path) -> None:
    """Here a picture's number cannot be guessed from its name."""
    references = read_references(files.references_coco(tmp_path, REFERENCES))
    captions, notes = pair(Candidates("c", {f"x/{id_}": id_ for id_ in CAPTIONS}), references)
    assert captions == {"100": "a.jpg", "101": "b.jpg", "102": "c.jpg"}
    assert "by file name" in notes[0]


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        (["1.jpg"], ["x/1.jpg", "y/1.jpg"]),  # which of the two?
        (["1"], ["img1.jpg"]),  # a number inside a name is no id
        (["a.jpg"], ["A.jpg"]),
    ],
)
def test_what_is_not_surely_the_same_picture_is_not_matched(
    told: list[str], asked: list[str]
) -> None:
    references = References("r", {id_: ["x"] for id_ in asked})
    with pytest.raises(UserError, match="give both the same ids") as refusal:
        pair(Candidates("c", dict.fromkeys(told, "")), references)
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
    told = files.candidates_jsonl(tmp_path, captions)
    found, notes = pair(read_candidates(told), references)
    assert found == captions
    assert notes == [f"{told}: 2 captions are empty and scored as such (pictures a.jpg, b.jpg)."]


def test_an_empty_line_of_text_shifts_nothing(tmp_path: Path) -> None:
    told = write_text(tmp_path / "c.txt", ["one", "", "three"])
    references = read_references([write_text(tmp_path / "r.txt", ["1", "2", "3"])])
    captions, notes = pair(read_candidates(told), references)
    assert captions == {"1": "one", "2": "", "3": "three"}
    assert notes == [f"{told}: 1 caption is empty and scored as such (line 2)."]


@pytest.mark.parametrize("mark", ["<unk>", "<UNK>", "<end>", "</s>", "<pad>"])
def test_marks_of_a_model_are_counted(mark: str) -> None:
    captions, notes = pair(
        Candidates("c", {"1": f"a {mark} dog", "2": "0"}), References("r", {"1": ["x"], "2": ["y"]})
    )
    assert captions["1"] == f"a {mark} dog"
    assert "1 caption is told with a model's own marks" in notes[0]


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
    with pytest.raises(UserError, match="no order"):  # of the lines two would belong to no picture
        pair(read_candidates(files.candidates_text(tmp_path, CAPTIONS)), found)


# What is wrong is named: the content of c.NAME, the code, and words of the sentence.
BAD_CANDIDATES = {
    "empty jsonl": ("c.jsonl", "", "data.empty", "no captions in this file"),
    "empty json": ("c.json", "", "data.row", "line 1, column 0: not JSON"),
    "empty list": ("c.json", "[]", "data.empty", "no captions in this file"),
    "empty csv": ("c.csv", "", "data.row", "line 1: expected a column named id"),
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
    "object in json": ("c.json", '{"1": "a dog"}', "data.row", "give a list of rows such as"),
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
        "line 1: Field required.*write rows such as",
    ),
    "no id": ("c.jsonl", '\n{"caption": "a"}', "data.row", "line 2: Field required"),
    "empty id": ("c.jsonl", '{"id": "", "caption": "a"}', "data.row", "line 1"),
    "id is null": ("c.jsonl", '{"id": null, "caption": "a"}', "data.row", "line 1"),
    "caption is null": ("c.jsonl", '{"id": 1, "caption": null}', "data.row", "line 1"),
    "a list of captions": (
        "c.jsonl",
        '{"id": 1, "captions": ["a", "b"]}',
        "data.row",
        "line 1: a list of captions of picture '1'; give one",
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
    "csv without a header": ("c.csv", "1.jpg,a dog\n", "data.row", "line 1: expected a column"),
    "csv without captions": ("c.csv", "id,text\n1,a\n", "data.row", "column named references"),
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
        "line 2: a caption without",
    ),
    "names and captions as text": (
        "c.txt",
        "1.jpg\ta dog\n2.jpg\ta cat\n",
        "data.row",
        "every line holds a tab.*sat caption --json",
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
    ("told", "counts"),
    [
        (["1", "2"], "c.txt has 2 lines and r has 3 lines"),
        (
            ["1", "2", "3", ""],
            "c.txt has 4 lines and r has 3 lines.*the last line of .*c.txt is blank",
        ),
    ],
)
def test_text_of_another_length_names_both_counts(
    told: list[str], counts: str, tmp_path: Path
) -> None:
    references = References("r", {str(n): ["x"] for n in range(3)}, has_ids=False)
    with pytest.raises(UserError, match=counts) as refusal:
        pair(read_candidates(write_text(tmp_path / "c.txt", told)), references)
    assert refusal.value.code == "data.lines"


def test_missing_captions_are_counted_and_named() -> None:
    references = References("r.jsonl", {str(n): ["x"] for n in range(6)})
    with pytest.raises(UserError) as refusal:
        pair(Candidates("c.jsonl", {"5": "a", "9": "b"}), references)
    assert refusal.value.code == "score.missing"
    assert str(refusal.value) == (
        "c.jsonl: no caption of 5 of the 6 pictures of r.jsonl (0, 1, 2, ...); "
        "caption them too, or leave their references out"
    )


def test_ids_and_lines_cannot_be_put_together() -> None:
    lines = References("r.txt", {"1": ["x"]}, has_ids=False)
    with pytest.raises(UserError, match="give both as text"):
        pair(Candidates("c.jsonl", {"1": "a"}), lines)
    data_set = References("flickr8k (test)", {"1.jpg": ["x"]}, has_order=False)
    with pytest.raises(UserError, match="give the captions with ids"):
        pair(Candidates("c.txt", {"1": "a"}, has_ids=False), data_set)
