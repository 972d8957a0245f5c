"""Files of rows: what is too much is refused before it is read, and what is wrong is named."""

import gzip
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel, Field, RootModel

from show_attend_tell import rows
from show_attend_tell.data.layouts import load_dataset
from show_attend_tell.errors import UserError
from show_attend_tell.scoring.files import read_candidates, read_references
from tests.conftest import Sat


def test_ten_million_rows_are_refused_at_once(sat: Sat, tmp_path: Path) -> None:
    references = tmp_path / "references.jsonl"
    references.write_text('{"id": "1", "captions": ["a dog"]}\n')
    with (tmp_path / "captions.jsonl").open("wb") as stream:
        stream.truncate(10_000_000 * len('{"id": "1234567", "caption": "a dog"}\n'))
    code, _, err = sat("score", tmp_path / "captions.jsonl", references)
    assert code == 1
    assert err.startswith("sat: ") and "split it into parts" in err


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_LINES"])
def test_a_file_may_be_as_large_as_the_limit_and_no_larger(
    name: str, limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    content = b"a\n" * 50
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)

    def read() -> int:
        return len(rows.read_whole(path)) if limit == "MOST_BYTES" else len(list(rows.lines(path)))

    size = read()
    monkeypatch.setattr(rows, limit, size)
    assert read() == size
    monkeypatch.setattr(rows, limit, size - 1)
    with pytest.raises(UserError, match="split it into parts"):
        read()


def test_a_line_may_be_as_long_as_the_limit_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_LINE_BYTES", 12)
    path = tmp_path / "a.txt"
    path.write_text("short\n" + "a" * 10 + "\r\nlast")
    assert [text for _, text in rows.lines(path)] == ["short", "a" * 10, "last"]
    path.write_text("short\n" + "a" * 13)
    with pytest.raises(UserError, match=r"a\.txt, line 2: longer than 12 bytes") as caught:
        list(rows.lines(path))
    assert caught.value.code == "data.too_large"


READERS: list[tuple[str, Callable[[Path], object]]] = [
    ("captions.jsonl", load_dataset),
    ("dataset_x.json", load_dataset),
    ("captions_x.json", load_dataset),
    ("captions.jsonl", read_candidates),
    ("captions.json", read_candidates),
    ("captions.csv", read_candidates),
    ("captions.txt", read_candidates),
    ("captions.txt", lambda path: read_references([path])),
    ("captions.json", lambda path: read_references([path])),
]


@pytest.mark.parametrize(
    "line",
    [b" ", b"0", b"0" * 1023 + b"\n", b" " * 1023 + b"\n"],
    ids=["blanks", "zeros", "lines of zeros", "lines of blanks"],
)
@pytest.mark.parametrize(("name", "read"), READERS)
def test_what_unpacks_to_gigabytes_is_refused_while_it_is_unpacked(
    name: str,
    read: Callable[[Path], object],
    line: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "MOST_BYTES", 2 << 20)
    monkeypatch.setattr(rows, "MOST_LINES", 10_000)
    path = tmp_path / f"{name}.gz"
    block = gzip.compress(line * ((1 << 20) // len(line)))
    path.write_bytes(block * 1000)  # 1 GiB in 1 MB
    begin = time.process_time()
    with pytest.raises(UserError) as caught:
        read(path)
    assert time.process_time() - begin < 2
    assert caught.value.code in ("data.too_large", "data.row")


KARPATHY, COCO = "dataset_x.json", "captions_x.json"
# A file, its content, and what the message says after the file's name.
MISTAKES = [
    ("captions.jsonl", "[]", ", line 1: expected an object, found []; write "),
    ("captions.jsonl", "[" * 100_000, ", line 1, column 202: not JSON (lists or objects inside "),
    ("captions.jsonl", '{"picture": "a"}', ", line 1: caption is missing in {'picture': 'a'}; "),
    (
        "captions.jsonl",
        '{"picture": "a", "caption": null}',
        ", line 1: caption: expected text, found None; write lines such as {",
    ),
    (
        "captions.jsonl",
        '{"picture": "a", "caption": ["b", {}]}',
        ", line 1: caption[1]: expected text, found {}; write lines such as {",
    ),
    ("captions.jsonl", '{"picture": a}', ", line 1, column 13: not JSON (no value where one"),
    ("captions.jsonl", "{'picture': 1}", ", line 1, column 2: not JSON (a name that is not text)"),
    ("captions.jsonl", '{"picture": 1,}', ", line 1, column 15: not JSON (a comma with nothing"),
    ("captions.jsonl", '{"picture": 01}', ", line 1, column 14: not JSON (a number that JSON"),
    ("captions.jsonl", '{"picture": "a" 1}', ", line 1, column 17: not JSON (neither a comma"),
    ("captions.jsonl", '{"picture" "a"}', ", line 1, column 12: not JSON (no colon after"),
    ("captions.jsonl", r'{"picture": "\d"}', ", line 1, column 15: not JSON (a backslash before"),
    ("captions.jsonl", '{"picture": "\t"}', ", line 1, column 14: not JSON (a control character"),
    ("captions.jsonl", '{"picture": tru}', ", line 1, column 16: not JSON (a word without quotes)"),
    (
        "captions.jsonl",
        "{} {}",
        ", line 1, column 4: not JSON (more text after its end); write one",
    ),
    (KARPATHY, "", ", line 1, column 0: not JSON (it is empty); the file may be cut off"),
    (KARPATHY, "[]", ": expected an object, found []; write "),
    (KARPATHY, '{"images": {}}', ": images: expected a list, found {}; write "),
    (KARPATHY, '{"images": [0]}', ": images[0]: expected an object, found 0; write "),
    (
        KARPATHY,
        '{"images": [{"filename": "a", "split": "train", "sentences": [{"raw": 1}]}]}',
        ": images[0].sentences[0].raw: expected text, found 1; write ",
    ),
    (COCO, '{"images": []}', ": annotations is missing in {'images': []}; write "),
    (
        COCO,
        '{"images": [{"id": null, "file_name": "a"}], "annotations": []}',
        ": images[0].id: expected text, found None; write ",
    ),
    (
        "captions.csv",
        f'picture,caption\na,"{"b" * 140_000}"',
        ", line 2: broken row (a cell of more",
    ),
    (
        "captions.tsv",
        f"picture\tcaption\na\t{'b' * 140_000}",
        ", line 2: broken row (a cell of more",
    ),
    ("captions.csv", 'picture,caption\na,"b" c\n', ", line 2: broken row (text after a closing"),
    ("captions.csv", 'picture,caption\na,"b\n', ", line 2: broken row (a quote that is opened and"),
    ("captions.csv", "picture,caption\na,b\rc\n", ", line 2: broken row (a carriage return in"),
]
THEIRS = ("Input", "valid", "whole", "Field required", "EOF", "ident", "delimiter", "field limit")


@pytest.mark.parametrize(("name", "content", "message"), MISTAKES)
def test_a_mistake_is_described_in_our_words(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode())
    with pytest.raises(UserError) as caught:
        load_dataset(tmp_path)
    said = str(caught.value)
    assert caught.value.code == "data.row"
    assert said.startswith(f"{path}{message}")
    assert len(said) < len(str(path)) + 300
    assert not [words for words in THEIRS if words in said.removeprefix(str(path))]


def test_a_mistake_of_another_kind_is_described_too(tmp_path: Path) -> None:
    class Other(BaseModel):
        number: int = Field(gt=3)

    for content in (b'{"number": 1}', b'{"number": "x"}'):
        with pytest.raises(UserError, match="number: expected another value, found"):
            rows.parse(Other, content, tmp_path)


LONG = [
    ("a caption of 10,001 characters", ("a" * 99 + " ") * 100 + "a"),
    ("a caption with a word of 1,001 characters", "a" * 1_001),
    ("a caption of 1,001 words", "a " * 1000 + "a"),
]


@pytest.mark.parametrize(("size", "caption"), LONG)
@pytest.mark.parametrize(
    ("name", "write", "where"),
    [
        ("captions.jsonl", '{{"picture": "a", "caption": "{}"}}', ", line 1"),
        ("captions.csv", "picture,caption\na,{}", ", line 2"),
        ("captions.tsv", "picture\tcaption\na\t{}", ", line 2"),
        ("captions.txt", "{}", ", line 1"),
        ("captions.json", '[{{"id": 1, "caption": "{}"}}]', ", entry 1"),
        (
            COCO,
            '{{"images": [{{"id": 1, "file_name": "a"}}],'
            ' "annotations": [{{"image_id": 1, "caption": "{}"}}]}}',
            ", annotations[0]",
        ),
        (
            KARPATHY,
            '{{"images": [{{"filename": "a", "split": "train", "sentences": [{{"raw": "{}"}}]}}]}}',
            ", images[0]",
        ),
    ],
)
def test_a_caption_that_is_too_long_is_refused_with_its_place(
    name: str, write: str, where: str, size: str, caption: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    readers: list[Callable[[Path], object]] = [
        load_dataset,
        read_candidates,
        lambda path: read_references([path]),
    ]
    if name.endswith(("txt", "captions.json")):
        readers.remove(load_dataset)
    if name in (COCO, KARPATHY):
        readers.remove(read_candidates)
    if name == KARPATHY:
        readers.pop()
    for read in readers:
        path.write_text(write.format(caption))
        with pytest.raises(UserError) as caught:
            read(path)
        assert caught.value.code == "data.too_large"
        places = (where, ", entry 1") if name == COCO else (where,)  # by either reader
        assert str(caught.value).startswith(tuple(f"{path}{one}: {size} ('a" for one in places))
        path.write_text(write.format(caption[1:].strip()))
        read(path)


@pytest.mark.parametrize("value", ["0", "{}", "[]", '"a"', "null"])
@pytest.mark.parametrize("name", [KARPATHY, COCO, "captions.json"])
def test_a_list_of_many_wrong_things_takes_little_room(
    name: str, value: str, tmp_path: Path
) -> None:
    """A sentence about each of them would take a kilobyte."""
    if (name, value) == ("captions.json", '"a"'):
        pytest.skip("captions in order")
    path = tmp_path / name
    many = ",".join([value] * 50_000)
    path.write_text(f"[{many}]" if name == "captions.json" else f'{{"images": [{many}]}}')
    read = read_candidates if name == "captions.json" else load_dataset
    tracemalloc.start()
    try:
        with pytest.raises(UserError) as caught:
            read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.code == "data.row"
    assert peak < 15 << 20


@pytest.mark.parametrize(("limit", "content"), [("MOST_LINES", b"{},{}"), ("MOST_VALUES", b"0,0")])
def test_more_values_than_fit_are_refused_before_they_are_parsed(
    limit: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Rows(RootModel[list[object]]):
        pass

    monkeypatch.setattr(rows, limit, 20)
    many = b"[" + b",".join([content] * 10) + b"]"
    assert rows.parse(Rows, many, tmp_path).root
    with pytest.raises(UserError, match="split it into parts"):
        rows.parse(Rows, many[:-1] + b"," + many[1:], tmp_path)


def test_what_is_quoted_is_short_however_long_it_is() -> None:
    deep: list[object] = []
    for _ in range(3000):
        deep = [deep]
    for value in ("a" * 10**7, ["a" * 10**7] * 1000, {"a": deep}, 10**4000, deep):
        begin = time.process_time()
        assert len(rows.short(value)) <= 80
        assert time.process_time() - begin < 0.1


ONE_OF_COCO = (
    '{"images": [{"id": 1, "file_name": "a"}],\n"annotations": [{"image_id": 1, "caption": "x"}]}'
)
# Numbers are rows of the project's list of bad inputs. A file, its content, what reads it.
GOOD: list[tuple[str, str, Callable[[Path], object]]] = [
    ("captions.jsonl", '{"picture": "a", "caption": "x"}\n', load_dataset),
    ("captions.csv", "picture,caption\na,x\n", load_dataset),
    ("captions.tsv", "picture\tcaption\na\tx\n", load_dataset),
    (
        KARPATHY,
        '{"images":\n[{"filename": "a", "split": "train", "sentences": [{"raw": "x"}]}]}',
        load_dataset,
    ),
    (
        COCO,
        ONE_OF_COCO,
        load_dataset,
    ),
    ("captions.jsonl", '{"id": "a", "caption": "x"}\n', read_candidates),
    ("captions.json", '[{"id": "a",\n"caption": "x"}]', read_candidates),
    ("captions.csv", "id,caption\na,x\n", read_candidates),
    ("captions.tsv", "id\tcaption\na\tx\n", read_candidates),
    ("captions.txt", "x\ny\n", read_candidates),
    ("captions.txt", "x\ny\n", lambda path: read_references([path])),
    (
        COCO,
        ONE_OF_COCO,
        lambda path: read_references([path]),
    ),
]


@pytest.mark.parametrize(("name", "content", "read"), GOOD)
def test_70_72_a_mark_in_front_and_other_line_ends_change_nothing(
    name: str, content: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / name
    found = []
    for text in (content, "\ufeff" + content, content.replace("\n", "\r\n")):
        path.write_bytes(text.encode())
        found.append(read(path))
    path.write_bytes(content.replace("\n", "\r\n", 1).encode())
    assert found == [read(path)] * 3


@pytest.mark.parametrize(("name", "content", "read"), [row for row in GOOD if "json" in row[0]])
def test_83_json_cut_anywhere_is_refused_with_its_line(
    name: str, content: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / name
    for length in range(1, len(content.strip())):
        path.write_text(content[:length])
        with pytest.raises(UserError, match=r", line \d, column \d+: not JSON \(it ends") as caught:
            read(path)
        assert caught.value.code == "data.row"


@pytest.mark.parametrize("content", [b"", b"\n", b" \n\t\n", b"\xef\xbb\xbf"], ids=repr)
@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "read"),
    # A blank line of text is an empty caption, and scored as such.
    [(name, read) for name, _, read in GOOD if (name, read) != ("captions.txt", read_candidates)],
)
def test_84_an_empty_file_is_refused(
    name: str, read: Callable[[Path], object], end: str, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / (name + end)
    path.write_bytes(gzip.compress(content) if end else content)
    with pytest.raises(UserError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path)) or caught.value.code == "data.empty_split"


@pytest.mark.parametrize(("name", "read"), READERS)
def test_87_ten_million_rows_are_refused_before_they_are_read(
    name: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / name
    with path.open("wb") as stream:
        stream.truncate(10_000_000 * 40)
    begin = time.process_time()
    with pytest.raises(UserError, match="split it into parts"):
        read(path)
    assert time.process_time() - begin < 0.5
