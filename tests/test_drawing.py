"""Drawing: the light falls where the word looked, and the page keeps to itself."""

import base64
import hashlib
import io
import re
from html.parser import HTMLParser

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from show_attend_tell.data.pictures import Crop, Preprocessing, crop_of
from show_attend_tell.drawing import MOST_COLUMNS, TILE_WIDTH, attention_map, draw, page
from show_attend_tell.errors import UserError
from show_attend_tell.telling.caption import Caption, sentence
from show_attend_tell.telling.model import Floats

PAPER = Preprocessing(mean=(0, 0, 0), std=(1, 1, 1))
SQUEEZE = PAPER.model_copy(update={"fit": "squeeze"})
SIZES = {"portrait": (90, 160), "landscape": (160, 90), "square": (120, 120)}


def looking_at(row: int, column: int, grid: tuple[int, int]) -> npt.NDArray[np.float32]:
    weights = np.full(grid, 0.2 / (grid[0] * grid[1]), dtype=np.float32)
    weights[row, column] += 0.8
    return weights


def caption_of(
    words: str,
    size: tuple[int, int] = (160, 90),
    preprocessing: Preprocessing = PAPER,
    gates: float = 0.5,
) -> Caption:
    """Each word looks one cell further."""
    spelled = tuple(words.split())
    cells = [looking_at(index % 7, index % 5, (7, 5)) for index in range(len(spelled))]
    return Caption(
        text=sentence(spelled),
        words=spelled,
        log_probs=np.full(len(spelled), -0.5),
        log_prob=-1.0,
        attention=np.array(cells).reshape(len(spelled), 7, 5),
        gates=np.full(len(spelled), gates),
        picture_size=size,
        crop=crop_of(size, preprocessing),
    )


def grey(size: tuple[int, int] = (160, 90)) -> Image.Image:
    return Image.new("RGB", size, (128, 128, 128))


# The map


@pytest.mark.parametrize("preprocessing", [PAPER, SQUEEZE], ids=["crop", "squeeze"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@given(row=st.integers(0, 6), column=st.integers(0, 8))
def test_the_brightest_pixel_lies_in_the_cell_looked_at(
    size: tuple[int, int], preprocessing: Preprocessing, row: int, column: int
) -> None:
    crop = crop_of(size, preprocessing)
    light = attention_map(looking_at(row, column, (7, 9)), size, crop)
    y, x = np.unravel_index(light.argmax(), light.shape)
    x0, y0, x1, y1 = crop.cell(row, column, (7, 9))
    assert x0 <= x + 0.5 <= x1
    assert y0 <= y + 0.5 <= y1


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_no_light_falls_outside_the_crop(size: tuple[int, int]) -> None:
    crop = crop_of(size, PAPER)
    light = attention_map(looking_at(0, 0, (14, 14)), size, crop)
    x, y = np.arange(size[0]) + 0.5, np.arange(size[1])[:, None] + 0.5
    inside = (crop.x0 <= x) & (x < crop.x1) & (crop.y0 <= y) & (y < crop.y1)
    assert not light[~inside].any()
    assert light[inside].all()


def test_light_runs_from_none_to_one() -> None:
    light = attention_map(looking_at(3, 3, (14, 14)), (160, 90), crop_of((160, 90), PAPER))
    assert light.shape == (90, 160)
    assert (light.min(), light.max()) == (0, 1)


def test_a_word_that_looked_everywhere_lights_the_whole_crop_alike() -> None:
    light = attention_map(np.full((14, 14), 1 / 196), (100, 80), Crop(20, 10, 80, 70))
    np.testing.assert_allclose(light[10:70, 20:80], 1, atol=1e-6)


def smoothed(values: Floats, sigma: float) -> Floats:
    """A Gaussian filter along the first axis, mirrored at the ends."""
    reach = round(4 * sigma)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    kernel /= kernel.sum()
    padded = np.pad(values, ((reach, reach), (0, 0)), mode="symmetric")
    return np.stack([np.convolve(line, kernel, mode="valid") for line in padded.T], axis=1)


def test_the_map_is_that_of_the_paper_upsampled_by_16_and_filtered() -> None:
    weights = np.random.default_rng(0).dirichlet(np.full(196, 0.1)).reshape(14, 14)
    paper = smoothed(smoothed(np.kron(weights, np.ones((16, 16))), 20).T, 20).T
    ours = attention_map(weights, (224, 224), Crop(0, 0, 224, 224))
    np.testing.assert_allclose(ours, paper / paper.max(), atol=0.002)


def test_a_word_that_looked_nowhere_is_dark() -> None:
    assert not attention_map(np.zeros((7, 7)), (20, 20), Crop(0, 0, 20, 20)).any()


# The figure


def tiles_of(figure: Image.Image, tile: tuple[int, int]) -> list[npt.NDArray[np.uint8]]:
    """What lies in each place of the figure that is not paper, row by row."""
    pixels = np.asarray(figure)
    dark = pixels.max(axis=2) < 200
    width, height = tile
    corners = dark.copy()  # dark, with paper above and to the left
    corners[1:] &= ~dark[:-1]
    corners[:, 1:] &= ~dark[:, :-1]
    found = zip(*np.nonzero(corners), strict=True)
    tiles = [pixels[y : y + height, x : x + width] for y, x in found]
    return [tile for tile in tiles if tile.shape[:2] == (height, width) and (tile < 200).all()]


SMALL = (TILE_WIDTH, TILE_WIDTH * 90 // 160)


@pytest.mark.parametrize("words", [0, 1, MOST_COLUMNS - 1, MOST_COLUMNS, 12])
def test_a_figure_has_a_tile_for_the_picture_and_one_for_each_word(words: int) -> None:
    figure = draw(caption_of("a " * words), grey())
    assert figure.mode == "RGB"
    assert len(tiles_of(figure, SMALL)) == words + 1


def test_tiles_wrap_into_rows() -> None:
    long, short = (draw(caption_of("a " * words), grey()) for words in (20, 4))
    assert long.width == short.width
    assert long.height > short.height + 3 * SMALL[1]


def test_the_first_tile_is_the_picture_itself() -> None:
    first, *_ = tiles_of(draw(caption_of("a dog"), grey()), SMALL)
    assert (first == 128).all()


def test_a_tile_is_lightest_where_its_word_looked() -> None:
    caption = caption_of("a dog runs", preprocessing=SQUEEZE)
    _, *tiles = tiles_of(draw(caption, grey()), SMALL)
    for index, tile in enumerate(tiles):
        y, x = np.unravel_index(tile[:, :, 0].argmax(), tile.shape[:2])
        assert (y * 7 // tile.shape[0], x * 5 // tile.shape[1]) == (index, index)


def test_what_the_crop_left_out_is_darker_than_what_was_seen() -> None:
    caption = caption_of("a")
    _, tile = tiles_of(draw(caption, grey()), SMALL)
    edge = int(caption.crop.x0 * TILE_WIDTH / 160)
    seen = tile[SMALL[1] // 2, edge + 1 : -edge - 1]
    assert tile[:, :edge].mean() < seen.min()


def test_the_bar_under_a_tile_is_as_long_as_the_gate() -> None:
    def accent(gate: float) -> int:
        pixels = np.asarray(draw(caption_of("a", gates=gate), grey())).astype(int)
        return int((pixels[:, :, 0] - pixels[:, :, 2] > 100).sum())

    assert accent(0.0) == 0
    assert accent(0.5) * 2 == accent(1.0) > 0


def test_a_long_word_stays_over_its_tile() -> None:
    pixels = np.asarray(draw(caption_of("w" * 200), grey()))
    assert (pixels[:, -20:] == 255).all()


@pytest.mark.parametrize("size", [(1, 1), (3000, 10), (10, 3000)])
def test_odd_pictures_can_be_drawn(size: tuple[int, int]) -> None:
    assert draw(caption_of("a dog", size), grey(size)).width > TILE_WIDTH


def test_a_smaller_copy_of_the_picture_draws_alike() -> None:
    whole = draw(caption_of("a dog", (1600, 900)), grey((1600, 900)))
    assert whole == draw(caption_of("a dog", (1600, 900)), grey((320, 180)))


@pytest.mark.parametrize("size", [(90, 160), (160, 120)])
def test_a_picture_of_another_shape_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(UserError, match="160 × 90") as refused:
        draw(caption_of("a dog", (160, 90)), grey(size))
    assert refused.value.code == "request.picture"


# The page


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
    assert [image.get("class") for image in read.all("image")].count("map") == 5


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


def test_a_caption_without_words_still_makes_a_page() -> None:
    read = Page(page_of(""))
    assert read.all("button") == []
    assert len(read.pictures()) == 1


def with_metadata() -> Image.Image:
    exif = Image.Exif()
    exif[0x010E] = "secret place"
    stream = io.BytesIO()
    grey().save(stream, "JPEG", exif=exif, comment=b"secret comment")
    picture = Image.open(stream)
    assert b"secret place" in picture.info["exif"]
    assert picture.info["comment"] == b"secret comment"
    return picture


def test_nothing_that_came_with_the_file_is_in_the_figure() -> None:
    assert draw(caption_of("a dog"), with_metadata()).info == {}


def test_nothing_that_came_with_the_file_is_in_the_page() -> None:
    source = page([("dog.jpg", caption_of("a dog"), with_metadata())], "Dogs")
    uris = re.findall(r"base64,([^\"]+)", source)
    assert not any(b"secret" in base64.b64decode(uri) for uri in uris)
