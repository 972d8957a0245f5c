"""Files of rows: what is too much is refused before it is read."""

import gzip
from pathlib import Path

import pytest

from show_attend_tell import rows
from show_attend_tell.errors import UserError
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
