"""The report in a real browser: silent, without a request, searchable, and open to everyone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from show_attend_tell.report.curves import curves_page
from show_attend_tell.report.page import report_page
from tests.browser import needs_chromium, opened, overflows, serious_findings
from tests.report.cases import facts_of

pytestmark = [pytest.mark.slow, needs_chromium]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(report_page(facts_of()), encoding="utf-8")
    return file


@pytest.fixture
def report(file: Path) -> Iterator[Any]:
    with opened(file) as page:
        yield page


@pytest.mark.parametrize("width", [360, 768, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_suits_every_screen_and_reader(file: Path, width: int, scheme: str) -> None:
    with opened(file, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
        assert not overflows(page)
        assert serious_findings(page) == []


@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_curves_suit_every_screen_and_reader(width: int, scheme: str, tmp_path: Path) -> None:
    curves = facts_of().curves
    assert curves is not None
    (tmp_path / "curves.html").write_text(curves_page("soft", curves), encoding="utf-8")
    window = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with opened(tmp_path / "curves.html", **window) as page:
        assert not overflows(page)
        assert serious_findings(page) == []
        assert page.locator("svg.chart").count() == 2


def shown(report: Any) -> list[str]:
    items = report.locator("#gallery > li:not([hidden]) .generated-text")
    return [text.split()[1] for text in items.all_text_contents()]


def test_the_gallery_is_searched_by_words_of_captions_and_references(report: Any) -> None:
    assert shown(report) == ["dog", "men", "zebra"]
    report.get_by_label("Only with the word").fill("Horse")
    assert shown(report) == ["zebra"]
    assert report.locator("#found").inner_text() == "1 caption"
    report.get_by_label("Only with the word").fill("CIDEr")
    assert shown(report) == []


def test_the_gallery_is_ordered_as_asked(report: Any) -> None:
    report.get_by_label("Order").select_option("-score")
    assert shown(report) == ["zebra", "men", "dog"]
    report.get_by_label("Order").select_option("confidence")
    assert shown(report) == ["dog", "men", "zebra"]


def test_words_show_where_they_looked(report: Any) -> None:
    report.locator("figure button").nth(1).hover()
    assert report.locator("figure .map.shown").count() == 1
    assert "men" in report.locator("figure .note").inner_text()
