"""Kinds of drawings: the ending decides, what cannot be drawn is refused, nothing leaks."""

import base64
import io
import json
import re
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageCms, ImageSequence

from show_attend_tell.data.pictures import open_picture
from show_attend_tell.drawing import check, make
from show_attend_tell.errors import UserError
from tests.drawing.cases import caption_of, grey

ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".html", ".json", ".npz")
ITEM = ("dog.jpg", caption_of("a dog"), grey())


# The numbers


def test_json_has_what_a_drawing_is_made_of() -> None:
    caption = replace(caption_of("a dog"), look="sampled")
    one, two = json.loads(make(".json", [("one.jpg", caption, grey()), ITEM]))
    assert two["picture"] == "dog.jpg"
    assert (one["caption"], one["words"], one["look"]) == ("A dog.", ["a", "dog"], "sampled")
    np.testing.assert_allclose(one["log_probs"], caption.log_probs, atol=1e-4)
    np.testing.assert_allclose(one["gates"], caption.gates, atol=1e-6)
    np.testing.assert_allclose(one["weights"], caption.attention, atol=1e-6)
    assert (one["grid"], one["picture_size"]) == ([7, 5], [160, 90])
    assert one["crop"] == list(astuple(caption.crop))


def test_arrays_need_no_pickle_and_are_exact() -> None:
    caption = caption_of("a dog")
    with np.load(io.BytesIO(make(".npz", [ITEM])), allow_pickle=False) as arrays:
        assert arrays["words"].tolist() == ["a", "dog"]
        assert str(arrays["caption"]) == "A dog."
        assert str(arrays["look"]) == "expected"
        np.testing.assert_array_equal(arrays["weights"], caption.attention)
        np.testing.assert_array_equal(arrays["gates"], caption.gates)
        np.testing.assert_array_equal(arrays["log_probs"], caption.log_probs)
        assert arrays["grid"].tolist() == [7, 5]
        assert arrays["picture_size"].tolist() == [160, 90]
        assert arrays["crop"].tolist() == list(astuple(caption.crop))


@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_a_caption_without_words_has_numbers(ending: str) -> None:
    assert make(ending, [("dog.jpg", caption_of(""), grey())])


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_name_that_is_no_unicode_spoils_nothing(ending: str) -> None:
    made = make(ending, [("caf\udce9.jpg", caption_of("a dog"), grey())])
    if ending == ".json":
        assert json.loads(made)[0]["picture"] == "caf\udce9.jpg"


def test_a_name_that_is_no_unicode_has_its_place_on_a_sheet() -> None:
    assert make(".png", [("caf\udce9.jpg", caption_of("a dog"), grey())] * 2)


# What came with the file


def with_everything() -> bytes:
    """A photograph that says where it was taken, in every way that JPEG knows."""
    exif = Image.Exif()
    exif[ExifTags.Base.ImageDescription] = "secret place"
    exif.get_ifd(ExifTags.IFD.GPSInfo)[ExifTags.GPS.GPSLatitude] = (48.0, 12.0, 30.0)
    exif.get_ifd(ExifTags.IFD.GPSInfo)[ExifTags.GPS.GPSAreaInformation] = b"secret area"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    stream = io.BytesIO()
    grey().save(
        stream,
        "JPEG",
        exif=exif,
        comment=b"secret comment",
        icc_profile=profile + b"secret profile",
        xmp=b"<x:xmpmeta>secret packet</x:xmpmeta>",
    )
    content = stream.getvalue()
    assert all(b"secret " + what in content for what in WAYS)
    return content


WAYS = (b"place", b"area", b"comment", b"profile", b"packet")


@pytest.mark.parametrize("word", [None, "dog"], ids=["all", "word"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_that_came_with_the_file_is_in_what_is_drawn(
    ending: str, count: int, word: str | None
) -> None:
    items = [("dog.jpg", caption_of("a dog"), open_picture(with_everything()))] * count
    made = make(ending, items, word)
    inner = [base64.b64decode(uri) for uri in re.findall(rb"base64,([^\"]+)", made)]
    for content in (made, *inner):
        assert b"secret" not in content
        assert b"Exif" not in content
        assert b"ICC_PROFILE" not in content
    pictures = inner if ending == ".html" else [made] if ending not in (".json", ".npz") else []
    assert bool(pictures) is (ending not in (".json", ".npz"))
    for content in pictures:
        for frame in ImageSequence.Iterator(Image.open(io.BytesIO(content))):
            assert not frame.getexif()
            assert not {"icc_profile", "exif", "xmp", "comment", "photoshop"} & set(frame.info)


# What cannot be drawn


@pytest.mark.parametrize(
    ("out", "pictures", "models", "word", "answer"),
    [
        ("drawn.bmp", 1, 1, None, r"drawn.bmp: name a file that ends in .png, .jpg, .gif, .html"),
        ("drawn", 1, 1, None, r"ends in .png"),
        ("dog.html", 1, 1, "dog", r"--word makes a picture; end the name in .png"),
        ("dog.png", 2, 1, "dog", r"--word shows one caption of one picture"),
        ("dog.png", 1, 2, "dog", r"one caption of one picture"),
        (
            "dog.gif",
            2,
            1,
            None,
            r".gif shows one caption .* for several, end the name in .png, .html or .json",
        ),
        ("dog.npz", 1, 2, None, r".npz shows one caption"),
        ("many.png", 25, 1, None, r"room for 24, not for 25; end the name in .html"),
        ("many.jpg", 13, 2, None, r"room for 24, not for 26"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_it_is_tried(
    out: str, pictures: int, models: int, word: str | None, answer: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=answer) as refused:
        check(tmp_path / out, [Path(f"{i}.jpg") for i in range(pictures)], models, word)
    assert refused.value.code == "request.out"


@pytest.mark.parametrize("ending", [*ENDINGS, ".PNG"])
def test_one_picture_can_be_drawn_in_every_kind(ending: str, tmp_path: Path) -> None:
    check(tmp_path / f"drawn{ending}", [Path("dog.jpg")])


def test_a_picture_is_never_drawn_over_itself(tmp_path: Path) -> None:
    picture = tmp_path / "dog.png"
    grey().save(picture)
    (tmp_path / "link.png").symlink_to(picture)
    for out in (picture, tmp_path / "link.png", tmp_path / "." / "dog.png"):
        with pytest.raises(UserError, match="is the picture itself"):
            check(out, [Path("other.jpg"), picture])


def test_a_folder_that_is_not_there_is_named_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no folder .*none") as refused:
        check(tmp_path / "none" / "dog.png", [Path("dog.jpg")])
    assert refused.value.code == "disk.unwritable"
