"""`model.json` and what it vouches for: whole, in range, and of one model; else one sentence."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sized
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from show_attend_tell import SHIPPED, load
from show_attend_tell.captioning import captioner
from show_attend_tell.captioning.exported import ExportedModel, read_facts, sealed
from show_attend_tell.captioning.search import Search, bytes_foreseen
from show_attend_tell.errors import UserError
from show_attend_tell.files import sha256_of, write_json
from tests.conftest import Sat

FLIPS = 1000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the model that ships, to be harmed."""
    return Path(shutil.copytree(SHIPPED, tmp_path / "model"))


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """Its `model.json` alone, which is looked at before the graphs."""
    (tmp_path / "model").mkdir()
    return Path(shutil.copy(SHIPPED / "model.json", tmp_path / "model")).parent


def change(folder: Path, harm: Callable[[dict[str, Any]], object]) -> None:
    """Change what `model.json` holds, and vouch for it again."""
    facts = json.loads((folder / "model.json").read_bytes())
    harm(facts)
    write_json(folder / "model.json", sealed(facts))


def put(folder: Path, name: str, content: bytes) -> None:
    """Put a graph into the folder as if it had been exported."""
    (folder / name).write_bytes(content)
    change(folder, lambda facts: facts["files"].update({name: sha256_of(folder / name)}))


def refusal(folder: Path, open_it: Callable[[Path], object] = ExportedModel) -> UserError:
    with pytest.raises(UserError) as refused:
        open_it(folder)
    return refused.value


def test_a_thousand_flipped_bits_are_refused_or_change_nothing(tmp_path: Path) -> None:
    whole, facts = (SHIPPED / "model.json").read_bytes(), read_facts(SHIPPED)
    draw = random.Random(0)
    refused = 0
    for _ in range(FLIPS):
        flipped = bytearray(whole)
        flipped[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        (tmp_path / "model.json").write_bytes(flipped)
        try:
            assert read_facts(tmp_path) == facts
        except UserError as error:
            assert error.code in ("model.damaged", "model.older", "model.newer")
            refused += 1
    assert refused > 0.99 * FLIPS


def test_a_cut_at_every_hundredth_is_refused(tmp_path: Path) -> None:
    whole = (SHIPPED / "model.json").read_bytes()
    for percent in range(100):
        (tmp_path / "model.json").write_bytes(whole[: len(whole) * percent // 100])
        assert refusal(tmp_path, read_facts).code == "model.damaged"


def set_to(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    def harm(facts: dict[str, Any]) -> None:
        *path, last = key.split("/")
        for step in path:
            facts = facts[step]
        facts[last] = value

    return harm


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("words", ["<end>", "<unk>", "a", "a"]),
        ("words", ["<end>", "<unk>", "two words"]),
        ("words", ["<end>", "<unk>", ""]),
        ("words", ["a", "<end>", "<unk>"]),
        ("words", ["<end>"]),
        ("words", []),
        ("words", ["<end>", "<unk>", 3]),
        ("grid", [0, 8]),
        ("grid", [-1, 8]),
        ("grid", [8, 10**9]),
        ("grid", [8]),
        ("preprocessing/size", 0),
        ("preprocessing/size", -1),
        ("preprocessing/size", 10**9),
        ("preprocessing/size", 294),  # the square would reach beyond the picture
        ("preprocessing/resize", 0),
        ("preprocessing/resize", 10**9),
        ("preprocessing/std", [128.0, 0.0, 128.0]),
        ("preprocessing/std", [128.0, -1.0, 128.0]),
        ("preprocessing/mean", [128.0, 128.0]),
        ("preprocessing/fit", "stretch"),
        ("search/beam", 0),
        ("search/beam", 10**9),
        ("search/beam", "10"),
        ("search/beam", True),
        ("search/beam", 2.0),
        ("search/max_words", 0),
        ("search/max_words", 10**9),
        ("search/length_power", -1.0),
        ("search/length_power", 1e3),
        ("search/repetition_penalty", -1.0),
        ("search/consensus", -1),
        ("search/consensus", 10**9),
        ("search/look", "away"),
        ("search/views", 0),
        ("search/views", 4),
        ("files", {}),
        ("files/look.onnx", "abc"),
        ("files/more.onnx", "0" * 64),
        ("origin", {}),
        ("example/picture", "../../etc/passwd"),
        ("example/picture", "other.jpg"),
        ("colour", "red"),
    ],
)
def test_a_field_out_of_range_is_refused_by_name(key: str, value: object, bare: Path) -> None:
    change(bare, set_to(key, value))
    error = refusal(bare)
    assert error.code == "model.damaged"
    assert all(part in str(error) for part in key.split("/"))
    assert "sat export" in str(error)


@pytest.mark.parametrize(
    ("version", "code", "words"),
    [
        (10**9, "model.newer", "by a newer version of show_attend_tell"),
        (4, "model.newer", "install the newer one"),
        (2, "model.older", "by an older version"),
        (1, "model.older", "by an older version"),
        (0, "model.older", "`sat export RUN OUT`"),
        (-1, "model.older", "`sat export RUN OUT`"),
        (True, "model.damaged", "format"),
        ("2", "model.damaged", "format"),
        (None, "model.damaged", "format"),
    ],
)
def test_the_format_is_looked_at_before_all_else(
    version: object, code: str, words: str, bare: Path
) -> None:
    facts = json.loads((bare / "model.json").read_bytes())
    write_json(bare / "model.json", {"format": version, "words": 3, "of_the_future": facts})
    error = refusal(bare)
    assert (error.code, words in str(error)) == (code, True)


def test_words_in_another_order_are_refused(bare: Path) -> None:
    facts = json.loads((bare / "model.json").read_bytes())
    facts["words"][2:] = facts["words"][:1:-1]
    write_json(bare / "model.json", facts)
    error = refusal(bare)
    assert error.code == "model.damaged"
    assert "its checksum does not match" in str(error)


def test_a_model_without_a_checksum_is_refused_with_a_remedy(bare: Path) -> None:
    facts = json.loads((bare / "model.json").read_bytes())
    del facts["sha256"]
    write_json(bare / "model.json", facts)
    error = refusal(bare)
    assert error.code == "model.damaged"
    assert "has no checksum" in str(error)
    assert "`sat export RUN OUT`" in str(error)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"format": 3, "sha256": "\\ud800"}',
        b'{"format": 3, "search": NaN}',
        b'{"format": 3, "search": 1e999}',
        b'{"format": 1' + b"0" * 5000 + b"}",
        b"[" * 100_000,
    ],
    ids=[
        "empty",
        "text",
        "list",
        "null",
        "not-UTF-8",
        "surrogate",
        "NaN",
        "infinity",
        "digits",
        "deep",
    ],
)
def test_what_is_no_model_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_bytes(content)
    assert refusal(tmp_path, read_facts).code == "model.damaged"


def one_word_less(facts: dict[str, Any]) -> None:
    facts["words"].pop()


def one_word_more(facts: dict[str, Any]) -> None:
    facts["words"].append("zebrafinch")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (one_word_less, "advance.onnx: is of another vocabulary than model.json's 2,932 words"),
        (one_word_more, "advance.onnx: is of another vocabulary than model.json's 2,934 words"),
        (set_to("preprocessing/size", 224), "encode.onnx: pixels is P × 256 × 256 × 3"),
        (set_to("grid", [8, 7]), "encode.onnx: annotations is P × 64 × 1280"),
    ],
)
def test_what_the_graphs_contradict_is_refused(
    harm: Callable[[dict[str, Any]], object], words: str, folder: Path
) -> None:
    change(folder, harm)
    error = refusal(folder)
    assert error.code == "model.damaged"
    assert words in str(error)


def test_graphs_in_each_others_place_are_refused(folder: Path) -> None:
    put(folder, "look.onnx", (folder / "start.onnx").read_bytes())
    error = refusal(folder)
    assert error.code == "model.damaged"
    assert "look.onnx: its inputs are annotations, expected keys, h" in str(error)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("encode.onnx", b"junk"),
        ("start.onnx", b"junk"),
        ("look.onnx", b""),
        ("advance.onnx", b"\x80\x04\x95pickle"),
    ],
)
def test_a_graph_that_is_none_is_refused(name: str, content: bytes, folder: Path) -> None:
    put(folder, name, content)
    error = refusal(folder)
    assert error.code == "model.damaged"
    assert f"{name}: " in str(error)
    assert "\n" not in str(error)


def test_flipped_bits_and_cuts_of_a_graph_are_refused(folder: Path) -> None:
    draw = random.Random(0)
    whole = draw.randbytes(5000)  # any bytes: the hash is looked at before ONNX Runtime gets them
    put(folder, "encode.onnx", whole)
    assert "ONNX Runtime cannot open it" in str(refusal(folder))
    for _ in range(200):
        flipped = bytearray(whole)
        flipped[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        (folder / "encode.onnx").write_bytes(flipped)
        assert "SHA-256 differs" in str(refusal(folder))
    for percent in range(0, 100, 5):
        (folder / "encode.onnx").write_bytes(whole[: len(whole) * percent // 100])
        assert "SHA-256 differs" in str(refusal(folder))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["model.json", "encode.onnx", "advance.onnx"])
def test_a_named_pipe_is_not_waited_for(name: str, folder: Path) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    error = refusal(folder)
    assert error.code == "model.unreadable"
    assert f"{name}: cannot be read (a folder, pipe or device" in str(error)


@pytest.mark.parametrize("name", ["model.json", "look.onnx"])
def test_a_folder_in_a_files_place_is_refused(name: str, folder: Path) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()
    assert "cannot be read (a folder, pipe or device" in str(refusal(folder))


@pytest.mark.parametrize("name", ["model.json", "look.onnx"])
def test_a_file_without_end_is_refused_before_it_is_read(name: str, folder: Path) -> None:
    with (folder / name).open("r+b") as stream:
        stream.truncate(1 << 36)  # takes no room on the disk
    error = refusal(folder)
    assert error.code == "model.damaged"
    assert ", found more; copy it again" in str(error)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"threads": -3}, "threads is -3; it must be a whole number from 1 to 1,024"),
        ({"threads": 0}, "threads is 0; it must be a whole number from 1 to 1,024"),
        ({"threads": 10**9}, "threads is 1000000000; it must be a whole number from 1 to 1,024"),
        ({"threads": "2"}, "threads is '2', of type str; it must be a whole number"),
        ({"threads": True}, "threads is True, of type bool; it must be a whole number"),
    ],
)
def test_a_model_is_not_opened_with_what_cannot_be(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as refused:
        load(**asked)
    assert refused.value.code == "request.bad"
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"views": "2"}, "views is '2', of type str; it must be a whole number from 1 to 3"),
        ({"views": 2.0}, "views is 2.0, of type float; it must be a whole number from 1 to 3"),
        ({"views": True}, "views is True, of type bool; it must be a whole number from 1 to 3"),
        ({"views": 0}, "views is 0; it must be a whole number from 1 to 3"),
        ({"view": 1}, "view is not a search setting; did you mean views?"),
        ({"qqq": 1}, "qqq is not a search setting; there are beam, length_power, "),
    ],
)
def test_a_picture_is_not_captioned_with_what_cannot_be(
    asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as refused:
        load()(SHIPPED / "example.jpg", **asked)
    assert refused.value.code == "request.bad"
    assert str(refused.value).startswith(message)


def test_pictures_framed_for_fewer_views_are_refused() -> None:
    captioner = load()
    framed = captioner.frame(SHIPPED / "example.jpg", captioner.search.override(views=1))
    with pytest.raises(UserError, match="uses 3 views and a picture was framed for 1"):
        captioner.decode([framed])


def test_a_beam_of_none_is_not_taken_for_the_models(sat: Sat) -> None:
    code, out, err = sat("caption", "--beam", 0, SHIPPED / "example.jpg")
    assert (code, out) == (2, "")
    assert "beam is 0; it must be a whole number from 1 to 1,000" in err


def test_a_large_beam_takes_fewer_pictures_together(monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[int] = []

    def count(model: object, annotations: Sized, search: Search) -> list[object]:
        together.append(len(annotations))
        return [[] for _ in range(len(annotations))]

    monkeypatch.setattr(captioner.consensus, "decode", count)
    sat_captioner = load(threads=1)
    pictures = [Image.new("RGB", (64, 64))] * 4
    list(sat_captioner.stream(pictures, sat_captioner.search.override(beam=1000)))
    list(sat_captioner.stream(pictures))
    sat_captioner.decode([sat_captioner.frame(one) for one in pictures], Search(beam=1000))
    assert together == [1, 1, 1, 1, 4, 1, 1, 1, 1]


def test_a_search_beyond_all_memory_is_refused_before_a_picture_is_read(sat: Sat) -> None:
    code, out, err = sat("caption", "--sample", "--n-best", 10_000, "nowhere.jpg", "--json")
    assert (code, out) == (2, "")
    assert "n_best 10,000 and max_words 30 would take" in err


PEAK = """
import sys
from pathlib import Path
import show_attend_tell as sat
captioner = sat.load(threads=1)
captioner(sys.argv[1])
memory = lambda key: int(Path("/proc/self/status").read_text().partition(key)[2].split()[0])
before = memory("VmRSS:")
captioner(sys.argv[1], beam=1000, consensus=0)
print((memory("VmHWM:") - before) / 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux counts memory so")
def test_the_widest_beam_takes_less_memory_than_foreseen() -> None:
    command = [sys.executable, "-c", PEAK, SHIPPED / "example.jpg"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    search = Search(beam=1000, max_words=30, repetition_penalty=3.0)
    assert float(done.stdout) < bytes_foreseen(search, places=192, words=2933) / 2**20


def spoil(folder: Path, name: str) -> None:
    """Make a number of a graph not a number, as a model whose training diverged has them."""
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(folder / name)
    tensor = max(graph.graph.initializer, key=lambda one: len(one.raw_data))
    values = onnx.numpy_helper.to_array(tensor).copy()
    values[...] = np.nan
    tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    put(folder, name, graph.SerializeToString())


@pytest.mark.parametrize("name", ["start.onnx", "advance.onnx"])
def test_a_decoder_of_numbers_that_are_none_is_refused(name: str, folder: Path) -> None:
    spoil(folder, name)
    error = refusal(folder)
    assert error.code == "model.damaged"
    assert "the decoder gives numbers that are not finite" in str(error)


def test_an_encoder_of_numbers_that_are_none_is_refused(folder: Path) -> None:
    spoil(folder, "encode.onnx")
    error = refusal(folder, lambda folder: load(folder)(SHIPPED / "example.jpg"))
    assert error.code == "model.damaged"
    assert "encode.onnx: it gives numbers that are not finite" in str(error)


@pytest.mark.slow
def test_files_of_two_models_are_not_put_together(folder: Path, exported_folder: Path) -> None:
    """Vocabulary and preprocessing are of one model.json, and graphs are those that it names."""
    other = exported_folder / "run" / "model"
    for name in ("encode.onnx", "start.onnx", "look.onnx", "advance.onnx"):
        whole = (folder / name).read_bytes()
        shutil.copy(other / name, folder / name)
        error = refusal(folder)
        assert error.code == "model.damaged"
        assert f"{name}: is not the file that model.json names" in str(error)
        (folder / name).write_bytes(whole)
    shutil.copy(other / "model.json", folder / "model.json")
    assert "is not the file that model.json names" in str(refusal(folder))
