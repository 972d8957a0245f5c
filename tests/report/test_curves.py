"""The page of learning curves: what the report shows of learning, on a page of its own."""

import re

import pytest

from show_attend_tell.report.curves import curves_page, learning
from show_attend_tell.report.facts import Curves
from show_attend_tell.report.page import report_page
from tests.report.cases import facts_of
from tests.report.test_page import parsed, text_of


def curves_of_facts() -> Curves:
    curves = facts_of().curves
    assert curves is not None
    return curves


def test_the_report_and_the_page_of_curves_draw_the_same() -> None:
    charts = re.findall(r'<svg class="chart".*?</svg>', learning(curves_of_facts()), re.DOTALL)
    assert len(charts) == 2
    for page in (report_page(facts_of()), curves_page("soft", curves_of_facts())):
        assert all(chart in page for chart in charts)


def test_every_element_is_closed_and_names_are_only_text() -> None:
    page = parsed(curves_page("a <b> & c", curves_of_facts()))
    assert page.open == []
    assert page.text["h1"] == "a <b> & c"


@pytest.mark.parametrize(
    "text",
    ["After epoch 2", "Epoch 2 is kept", "The kept epoch has 3.456", "BLEU on dev"],
)
def test_the_page_says(text: str) -> None:
    assert text in text_of(curves_page("soft", curves_of_facts()))
