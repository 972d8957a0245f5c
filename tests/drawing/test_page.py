"""The page: one button and one map for each word, and it keeps to itself."""

import base64
import hashlib
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from show_attend_tell.captioning.caption import Looked
from show_attend_tell.data.pictures import crop_of
from show_attend_tell.drawing import page
from tests.drawing.cases import PAPER, SQUEEZE, caption_of, grey, looking_at, with_metadata


class Page(HTMLParser):
    """Elements, their attributes and their text, as a browser would see them."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text: dict[str, str] = {}
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self.open[-1:]:
            self.text[tag] = self.text.get(tag, "") + data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def pictures(self) -> list[Image.Image]:
        uris = [image["href"].partition("base64,")[2] for image in self.all("image")]
        return [Image.open(io.BytesIO(base64.b64decode(uri))) for uri in uris]


def page_of(words: str, name: str = "dog.jpg", title: str = "Dogs") -> str:
    return page([(name, caption_of(words), grey())], title)


def test_every_element_of_the_page_is_closed() -> None:
    assert Page(page_of("a dog , wet , runs")).open == []


def test_a_page_has_one_button_and_one_map_for_each_word() -> None:
    two = [("one.jpg", caption_of("a dog"), grey()), ("two.jpg", caption_of("a wet cat"), grey())]
    read = Page(page(two, "Both"))
    assert len(read.all("button")) == 5
    assert read.all("g") == [{"class": "map"}] * 5


def test_the_buttons_read_as_the_sentence() -> None:
    source = page_of("a man 's dog , wet , runs . ,")
    words = re.search(r'<p class="words".*?>(.*?)</p>', source)
    assert words is not None
    assert re.sub("<.*?>", "", words[1]) == "A man&#x27;s dog, wet, runs.,"


def test_a_page_asks_for_nothing_from_outside() -> None:
    source = page_of("a dog")
    assert not re.search(r"https?:|//\w", source)
    addresses = [
        value
        for _, attributes in Page(source).elements
        for name, value in attributes.items()
        if name in ("src", "href", "action", "srcset", "poster")
    ]
    assert addresses
    assert all(address.startswith("data:image/") for address in addresses)


def test_the_policy_of_a_page_allows_its_own_script_and_style_alone() -> None:
    read = Page(page_of("a dog"))
    (policy,) = (meta["content"] for meta in read.all("meta") if "http-equiv" in meta)
    for tag in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(read.text[tag].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy
    assert "default-src 'none';" in policy
    assert not any("style" in attributes for _, attributes in read.elements)


def test_names_titles_and_captions_are_escaped() -> None:
    evil = "<script>alert('\"&')</script>"
    read = Page(page_of(evil, name=evil, title=evil))
    assert len(read.all("script")) == 1
    assert read.text["title"] == read.text["h1"] == read.text["h2"] == evil
    assert read.text["button"] == evil


def test_a_name_that_is_no_unicode_does_not_spoil_the_page() -> None:
    assert "caf?.jpg" in page_of("a dog", name="caf\udce9.jpg").encode("utf-8").decode()


@pytest.mark.parametrize(("size", "embedded"), [((1600, 900), (640, 360)), ((160, 90), (160, 90))])
def test_pictures_are_embedded_small_and_never_enlarged(
    size: tuple[int, int], embedded: tuple[int, int]
) -> None:
    read = Page(page([("a.jpg", caption_of("a dog", size), grey(size))], "Dogs"))
    assert read.pictures()[0].size == embedded


def test_a_map_lies_on_the_crop() -> None:
    read = Page(page_of("a"))
    (svg,) = (found for found in read.all("svg") if found.get("role") == "img")
    crop = crop_of((160, 90), PAPER)
    place = [float(read.all("image")[1][side]) for side in ("x", "y", "width", "height")]
    expected = [crop.x0, crop.y0, crop.x1 - crop.x0, crop.y1 - crop.y0]
    assert svg["viewbox"] == "0 0 640 360"
    np.testing.assert_allclose(np.array(place) / 4, expected, atol=0.01)


def test_a_map_is_lightest_where_its_word_looked() -> None:
    _, _, second = Page(page_of("a dog")).pictures()
    grey, alpha = np.moveaxis(np.asarray(second).astype(float), 2, 0)
    over_grey = 128 + (grey - 128) * alpha / 255
    row, column = np.unravel_index(over_grey.argmax(), over_grey.shape)
    assert (row // 2, column // 2) == (1, 1)


@pytest.mark.parametrize(
    ("cell", "where"),
    [((0, 0), "upper left"), ((0, 2), "top"), ((3, 2), "centre"), ((6, 4), "lower right")],
)
def test_a_word_says_where_it_looked(cell: tuple[int, int], where: str) -> None:
    caption = caption_of("dog", preprocessing=SQUEEZE)
    caption.attention[0] = looking_at(*cell, (7, 5))
    (button,) = Page(page([("dog.jpg", caption, grey())], "Dogs")).all("button")
    assert button["data-note"] == f"dog: looked most at the {where} · β 0.50 · probability 0.61"


@pytest.mark.parametrize("look", ["most-likely", "sampled"])
def test_the_cell_that_hard_attention_chose_is_outlined_and_named(look: Looked) -> None:
    caption = replace(caption_of("dog"), look=look)
    caption.attention[:] = 0
    caption.attention[0, 6, 1] = 1
    source = page([("dog.jpg", caption, grey())], "Dogs")
    read = Page(source)
    x0, y0, x1, y1 = caption.crop.cell(6, 1, (7, 5))
    for outline in (one for one in read.all("rect") if one["class"] in ("shade", "mark")):
        place = [float(outline[side]) / 4 for side in ("x", "y", "width", "height")]
        np.testing.assert_allclose(place, [x0, y0, x1 - x0, y1 - y0], atol=0.01)
    assert [one["class"] for one in read.all("rect")][-2:] == ["shade", "mark"]
    assert "dog: looked at the bottom ·" in read.all("button")[0]["data-note"]
    chosen = "the most likely" if look == "most-likely" else "sampled"
    assert f"Outlined: one place for each word, {chosen}." in source


def test_a_caption_without_words_still_makes_a_page() -> None:
    read = Page(page_of(""))
    assert read.all("button") == []
    assert len(read.pictures()) == 1


def test_nothing_that_came_with_the_file_is_in_the_page() -> None:
    source = page([("dog.jpg", caption_of("a dog"), with_metadata())], "Dogs")
    uris = re.findall(r"base64,([^\"]+)", source)
    assert not any(b"secret" in base64.b64decode(uri) for uri in uris)
