"""The report in a real browser: silent, without a request, searchable, and open to everyone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from show_attend_tell.report.page import report_page
from tests.report.cases import facts_of

sync_api = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")
CHROMIUM = Path("/usr/bin/chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="Debian's chromium is not installed"),
]
WIDTHS = (360, 768, 1440)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])


@pytest.fixture
def report(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """The page, opened; whatever it complains of or asks for fails the test."""
    path = tmp_path / "report.html"
    path.write_text(report_page(facts_of()), encoding="utf-8")
    heard: list[str] = []
    with browser.new_context() as context:
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: heard.append(request.url))
        page.goto(path.as_uri())
        yield page
        mine = (path.as_uri(), "data:")
        assert [text for text in heard if not text.startswith(mine)] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_nothing_serious_to_say(report: Any, width: int, scheme: str) -> None:
    report.set_viewport_size({"width": width, "height": 800})
    report.emulate_media(color_scheme=scheme)
    found = axe.Axe().run(report).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_never_scrolls_sideways(report: Any, width: int) -> None:
    report.set_viewport_size({"width": width, "height": 800})
    assert report.evaluate("document.documentElement.scrollWidth") == width


def shown(report: Any) -> list[str]:
    items = report.locator("#gallery > li:not([hidden]) .told-text")
    return [text.split()[1] for text in items.all_text_contents()]


def test_the_gallery_is_searched_by_words_of_captions_and_references(report: Any) -> None:
    assert shown(report) == ["dog", "men", "zebra"]
    report.get_by_label("Only with the word").fill("Horse")
    assert shown(report) == ["zebra"]
    assert report.locator("#found").inner_text() == "1 captions"
    report.get_by_label("Only with the word").fill("CIDEr")
    assert shown(report) == []


def test_the_gallery_is_ordered_as_asked(report: Any) -> None:
    report.get_by_label("Order").select_option("-score")
    assert shown(report) == ["zebra", "men", "dog"]
    report.get_by_label("Order").select_option("sure")
    assert shown(report) == ["dog", "men", "zebra"]


def test_words_show_where_they_looked(report: Any) -> None:
    report.locator("figure button").nth(1).hover()
    assert report.locator("figure .map.shown").count() == 1
    assert "men" in report.locator("figure .note").inner_text()
