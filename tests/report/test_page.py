"""The report's page: it says what the facts say, and keeps to itself."""

import base64
import hashlib
import re
from itertools import pairwise

import pytest

from show_attend_tell.drawing.page import STYLE
from show_attend_tell.report.charts import REPORT_STYLE
from show_attend_tell.report.page import report_page
from show_attend_tell.scoring import measure_diversity
from tests.drawing.test_page import Page
from tests.report.cases import entries, facts_of

VOID = re.compile(r"<(img|input|meta)\b([^>]*)>")


def parsed(source: str) -> Page:
    return Page(VOID.sub(r"<\1\2/>", source))


def text_of(source: str) -> str:
    body = source[source.index("<body>") : source.index("<script>")]
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_every_element_is_closed_and_headings_come_in_order() -> None:
    page = parsed(report_page(facts_of()))
    assert page.open == []
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_links_lead_to_the_sections_and_ids_are_not_used_twice() -> None:
    page = parsed(report_page(facts_of()))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [link["href"] for link in page.all("a")]
    assert targets == [f"#{section['id']}" for section in page.all("section")]
    assert len(targets) == 8


@pytest.mark.parametrize(
    "text",
    [
        "METEOR 23.4 22.4 to 25.4",
        "CIDEr-D 0.679 0.669 to 0.699",
        "without 70.0 69.0 to 72.0 35.0",
        "17.5 16.5 to 19.5 23.4 22.4 to 25.4",
        "The kept epoch has 3.456",
        "CIDEr-D 1.123 · ROUGE-L 25.0 · confidence&nbsp;0.40",
        "different words 8 12",
        "none of the training captions 66.7% –",
        "The mean is 1.23",
        "The mean is 56 %; two pictures' maps share 78 %",
        "content words 0.81",
        "dog 0.97",
        "36.7 % 35.7 to 38.7 28.2 % 48.9 %",
        "in 38 % of 40; expected calibration error 7.5 %",
        "rank correlation is 0.42",
        "All 3 captions",
        "The pictures of 1 are not there any more",
    ],
)
def test_the_page_says(text: str) -> None:
    assert text in text_of(report_page(facts_of()))


def test_text_of_others_is_only_text() -> None:
    source = report_page(facts_of())
    assert "two men &lt;<mark>b</mark>&gt;sit&lt;/" in source
    assert "0&lt;i&gt;.jpg" in source
    assert "a &lt;set&gt;" in source
    assert "<h1>runs &amp; &lt;more&gt; on dev</h1>" in source
    assert not {"b", "i", "more", "set"} & {
        tag for tag, attributes in parsed(source).elements if "class" not in attributes
    }


def test_the_page_asks_for_nothing_and_forbids_itself_to() -> None:
    source = report_page(facts_of())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', source)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    for tag in ("style", "script"):
        inside = source.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    addresses = [
        value
        for _, attributes in parsed(source).elements
        for name, value in attributes.items()
        if name in ("src", "href", "action", "srcset")
    ]
    assert addresses
    assert all(value.startswith(("data:image/", "#")) for value in addresses)
    assert "http" not in re.sub(r"base64,[^\"]*|http-equiv", "", source)
    assert not any("style" in attributes for _, attributes in parsed(source).elements)


def test_a_picture_shown_large_carries_nothing_of_its_file() -> None:
    page = parsed(report_page(facts_of()))
    uris = [image["href"] for image in page.all("image")]
    assert uris
    for uri in uris:
        content = base64.b64decode(uri.partition("base64,")[2])
        assert b"secret" not in content
        assert b"Exif" not in content


def test_content_words_that_nobody_used_are_marked() -> None:
    source = report_page(facts_of())
    last = source[source.rindex("<li data-score") :]
    assert "A <mark>zebra</mark>" in last or "a <mark>zebra</mark>" in last
    assert "<mark>man</mark>" in last
    assert "<mark>a</mark>" not in last
    assert "<mark>dog</mark>" not in source


def test_pictures_that_are_gone_leave_their_captions() -> None:
    text = text_of(report_page(facts_of()))
    assert "The picture is not there any more. a zebra &amp; a man" in text
    assert "no picture" in text


def test_charts_have_names_and_tables_have_headers() -> None:
    source = report_page(facts_of())
    for chart in re.findall(r'<svg class="chart".*?</svg>', source, re.DOTALL):
        assert re.match(r"<svg[^>]* role=\"img\"><title>\w[^<]+</title><desc>\w[^<]+</desc>", chart)
    for table in re.findall(r"<table>.*?</table>", source, re.DOTALL):
        assert 'scope="col"' in table
        assert table.count("<tr>") == table.count('scope="row"') + 1


def test_what_is_not_known_is_left_out_or_said() -> None:
    bare = facts_of(curves=None, grounding={}, lack="Install its data.", without_picture=0)
    source = report_page(bare)
    assert 'id="grounding"' not in source
    text = text_of(source)
    assert "no log.jsonl" in text
    assert "METEOR is left out. Install its data." in text
    assert "not there any more; --pictures" not in text


def test_a_model_without_a_gate_has_no_chart_of_it() -> None:
    attention = facts_of().attention
    ungated = type(attention)(attention.health, attention.moments, attention.coverage, {})
    text = text_of(report_page(facts_of(attention=ungated)))
    assert "Gate" not in text
    assert "Coverage" in text


def test_no_class_has_two_meanings() -> None:
    styles = (set(re.findall(r"^\.([\w-]+) \{", style, re.M)) for style in (STYLE, REPORT_STYLE))
    assert not set.intersection(*styles)


def test_of_a_large_split_the_page_says_how_many_it_shows() -> None:
    text = text_of(report_page(facts_of(pictures=5000)))
    assert "The 3 lowest of 5,000 captions" in text


def test_one_picture_and_one_word_make_a_page_too() -> None:
    few = facts_of(gallery=entries()[:1], pictures=1)
    one = few.attention.moments[:1]
    single = type(few.attention)(few.attention.health, one, few.attention.coverage, {})
    assert "Movement over time" not in report_page(facts_of(attention=single))


def test_captions_longer_than_any_reference_are_in_the_histogram() -> None:
    source = report_page(facts_of(generated=measure_diversity(["a " * 30])))
    assert "<title>30: 100.0%</title>" in source
