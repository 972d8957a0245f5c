"""The page in a real browser: mouse, keys, fingers, screen readers, and every width."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from show_attend_tell.drawing import page as page_of
from tests.browser import needs_chromium, opened, overflows, serious_findings
from tests.drawing.cases import caption_of, grey

pytestmark = [pytest.mark.slow, needs_chromium]

WIDTHS = (360, 768, 1440)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of every shape; a long caption, one without words, one that looked hard."""
    hard = replace(caption_of("a cat"), look="sampled")
    hard.attention[:] = np.eye(35)[[3, 20]].reshape(2, 7, 5)
    items = [
        ("wide.jpg", caption_of("a dog runs"), grey()),
        (
            "tall.jpg",
            caption_of("an elephant , wet , walks behind " * 6, (90, 160)),
            grey((90, 160)),
        ),
        ("w" * 120 + ".jpg", caption_of("w" * 80, (120, 120)), grey((120, 120))),
        ("hard.jpg", hard, grey()),
        ("silent.jpg", caption_of(""), grey()),
    ]
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(page_of(items, "Where each word looked"), encoding="utf-8")
    return file


@pytest.fixture
def page(file: Path) -> Iterator[Any]:
    with opened(file) as page:
        yield page


def shown(page: Any) -> tuple[list[str], list[int], str]:
    """The words set off and the maps seen in the first figure, and its note."""
    figure = page.locator("figure").first
    words = figure.locator("button.shown").all_inner_texts()
    opacity = figure.locator(".map").evaluate_all(
        "all => all.map(e => getComputedStyle(e).opacity)"
    )
    note = figure.locator(".note").first.inner_text()
    return words, [index for index, value in enumerate(opacity) if value == "1"], note


NOTHING: tuple[list[str], list[int], str] = ([], [], "")


def test_a_page_opens_with_its_pictures_as_they_are(page: Any) -> None:
    assert shown(page) == NOTHING
    assert page.title() == "Where each word looked"


def test_a_word_under_the_mouse_shows_its_map_and_the_mouse_takes_it_away(page: Any) -> None:
    page.get_by_role("button", name="dog").hover()
    words, maps, note = shown(page)
    assert (words, maps) == (["dog"], [1])
    assert note.startswith("dog: looked most at the")
    page.mouse.move(0, 0)
    assert shown(page) == NOTHING


def test_arrow_keys_move_through_the_words_and_escape_leaves(page: Any) -> None:
    page.keyboard.press("Tab")
    assert shown(page)[:2] == (["A"], [0])
    for key, word in [
        ("ArrowRight", "dog"),
        ("ArrowRight", "runs"),
        ("ArrowRight", "runs"),
        ("ArrowLeft", "dog"),
        ("Home", "A"),
        ("ArrowLeft", "A"),
        ("End", "runs"),
        ("ArrowUp", "dog"),
        ("ArrowDown", "runs"),
    ]:
        page.keyboard.press(key)
        assert shown(page)[0] == [word], key
    page.keyboard.press("Escape")
    assert shown(page) == NOTHING


def test_tab_moves_from_caption_to_caption(page: Any) -> None:
    for figure in range(4):
        page.keyboard.press("Tab")
        assert page.locator("figure").nth(figure).locator("button:focus").count() == 1


def test_a_finger_shows_a_word_and_then_another(file: Path) -> None:
    with opened(
        file, has_touch=True, is_mobile=True, viewport={"width": 360, "height": 740}
    ) as page:
        page.get_by_role("button", name="dog").tap()
        assert shown(page)[:2] == (["dog"], [1])
        page.get_by_role("button", name="runs").tap()
        assert shown(page)[:2] == (["runs"], [2])


def test_the_light_on_the_screen_falls_where_the_word_looked(page: Any, tmp_path: Path) -> None:
    page.get_by_role("button", name="runs").hover()
    picture = page.locator("figure svg").first
    picture.screenshot(path=tmp_path / "seen.png")
    with Image.open(tmp_path / "seen.png") as image:
        seen = np.asarray(image.convert("L").resize((160, 90))).astype(int)
    caption = caption_of("a dog runs")
    x0, y0, x1, y1 = caption.crop.cell(2, 2, (7, 5))
    y, x = np.unravel_index(seen[5:-5, 5:-5].argmax(), (80, 150))
    assert x0 - 1 <= x + 5 <= x1 + 1
    assert y0 - 1 <= y + 5 <= y1 + 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_reader_can_use_the_page(file: Path, width: int, scheme: str) -> None:
    with opened(file, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
        assert not overflows(page)
        assert serious_findings(page) == []
        page.get_by_role("button", name="dog").focus()
        assert serious_findings(page) == []
        assert not overflows(page)


def test_no_line_begins_with_a_comma(page: Any) -> None:
    tall = page.locator("figure").nth(1).get_by_role("button")
    words = tall.all_inner_texts()
    assert words.count(",") == 12
    for width in (*WIDTHS, *range(200, 360, 20)):
        page.set_viewport_size({"width": width, "height": 800})
        tops = tall.evaluate_all("all => all.map(e => e.getBoundingClientRect().top)")
        for index, word in enumerate(words):
            assert word != "," or tops[index] == tops[index - 1], width


def test_axe_is_awake(tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text(
        "<html><body><img src='data:,'><button></button></body></html>"
    )
    with opened(tmp_path / "bad.html") as page:
        assert serious_findings(page)
