"""The styles and scripts of the pages: files that linters read, inlined as they are."""

import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from show_attend_tell.drawing import page
from show_attend_tell.report.curves import curves_page
from show_attend_tell.report.page import report_page
from tests.browser import needs_chromium, opened
from tests.drawing.cases import caption_of, grey
from tests.report.cases import facts_of

FILES = ("drawing/page.css", "drawing/page.js", "report/report.css", "report/report.js")
STYLES = [name for name in FILES if name.endswith(".css")]
SET_BY_SCRIPT = {"--beta"}
GIVEN_BY_SCRIPT = {"shown", "looking"}


def read(name: str) -> str:
    return files("show_attend_tell").joinpath(name).read_text("utf-8")


def pages() -> tuple[str, str, str]:
    tall = replace(caption_of("a cat", (90, 160)), look="sampled")
    items = [("dog.jpg", caption_of("a dog"), grey()), ("cat.jpg", tall, grey((90, 160)))]
    facts = facts_of()
    assert facts.curves is not None
    return page(items, "Dogs"), report_page(facts), curves_page("soft", facts.curves)


def blocks(name: str) -> list[tuple[str, list[str]]]:
    """Each rule of a style: its selector, or what follows an @, and its declarations."""
    source = re.sub(r"/\*.*?\*/", "", read(name), flags=re.DOTALL)
    return [
        (" ".join(head.split()), [" ".join(one.split()) for one in body.split(";") if one.strip()])
        for head, body in re.findall(r"([^{};]+)\{([^{}]*)\}", source)
    ]


@pytest.mark.parametrize("name", FILES)
def test_a_page_has_its_style_and_script_as_their_files_say(name: str) -> None:
    small, report, curves = pages()
    assert read(name) in report
    assert (read(name) in small) == name.startswith("drawing/")
    assert (read(name) in curves) == name.endswith(".css")


@pytest.mark.parametrize("name", FILES)
def test_no_style_or_script_ends_the_element_that_holds_it(name: str) -> None:
    assert "</" not in read(name)
    assert "<!--" not in read(name)


def test_every_variable_of_a_style_has_a_value() -> None:
    both = "".join(map(read, STYLES))
    named = set(re.findall(r"(--[\w-]+)\s*:", both)) | SET_BY_SCRIPT
    assert set(re.findall(r"var\((--[\w-]+)", both)) <= named


@pytest.mark.parametrize("name", STYLES)
def test_no_style_is_of_a_class_that_no_page_has(name: str) -> None:
    styled = {found for head, _ in blocks(name) for found in re.findall(r"\.([a-z][\w-]*)", head)}
    assert styled
    given = {
        one
        for source in pages()
        for found in re.findall(r'class="([^"]+)"', source)
        for one in found.split()
    }
    assert styled - given - GIVEN_BY_SCRIPT == set()


UNKNOWN = """([selectors, declarations]) => {
  const isKnown = (one) => {
    try { document.querySelector(one); return true; } catch { return false; }
  };
  return [
    selectors.filter((one) => !isKnown(one)),
    declarations.filter((one) => !CSS.supports(`(${one})`)),
  ];
}"""


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("name", STYLES)
def test_a_browser_knows_every_selector_and_declaration(name: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(pages()[0], "utf-8")
    selectors = [head for head, _ in blocks(name)]
    declarations = [one for _, several in blocks(name) for one in several]
    assert len(declarations) > 50
    with opened(tmp_path / "page.html") as window:
        wrong = [*selectors, "p:no-such"], [*declarations, "colour: red"]
        assert window.evaluate(UNKNOWN, wrong) == [["p:no-such"], ["colour: red"]]
