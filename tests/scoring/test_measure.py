"""What is measured, how it is signed, and what is refused."""

from dataclasses import replace
from typing import NoReturn

import pytest

import show_attend_tell.scoring as scoring
from show_attend_tell.errors import UserError
from show_attend_tell.scoring import (
    BLEU,
    METRICS,
    PROTOCOLS,
    DocumentFrequencies,
    measure,
    score_captions,
)
from show_attend_tell.scoring.measure import check_metrics, find_metric
from show_attend_tell.scoring.metrics.meteor_data import MISSING

CAPTIONS = {"1": "A dog runs .", "2": "a cat sleeps"}
REFERENCES = {"1": ["a dog runs fast .", "the dog"], "2": ["a cat sleeps"]}


def test_public_names_are_listed_and_sorted() -> None:
    assert scoring.__all__ == sorted(scoring.__all__, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(scoring, name) for name in scoring.__all__)


@pytest.mark.parametrize(
    ("protocol", "same_as"), [("authors", "nobp"), ("plain", "nobp"), ("coco", "bp")]
)
def test_a_bare_bleu_has_the_penalty_its_protocol_names(protocol: str, same_as: str) -> None:
    captions = {"1": "a dog", "2": "a cat"}
    names = ["BLEU-1", "BLEU-1-bp", "BLEU-1-nobp"]
    scores = score_captions(captions, REFERENCES, metrics=names, protocol=protocol)
    assert scores["BLEU-1-bp"].value < scores["BLEU-1-nobp"].value
    assert scores["BLEU-1"].value == scores[f"BLEU-1-{same_as}"].value
    assert scores["BLEU-1"].signature == scores[f"BLEU-1-{same_as}"].signature


def test_the_full_stop_counts_only_where_it_is_kept() -> None:
    found = {
        protocol: measure(CAPTIONS, REFERENCES, metrics=["BLEU-1"], protocol=protocol)[
            "BLEU-1"
        ].rows[0, 8]
        for protocol in PROTOCOLS
    }
    assert found == {"authors": 4, "plain": 3, "coco": 3}


def test_a_signature_names_everything_that_decides_the_number() -> None:
    scores = score_captions(CAPTIONS, REFERENCES, metrics=["BLEU-4", "ROUGE-L", "CIDEr-D"])
    setting = "nrefs:1-2|n:2|tok:ptb-3.4.1|case:lc|punct:coco17|lines:space"
    assert [score.signature for score in scores.values()] == [
        f"{setting}|bleu:closest,bp,eps1e-15/1e-9|v:1",
        f"{setting}|rougeL:b1.2|v:1",
        f"{setting}|cider:D,s6,df-refs|v:1",
    ]


def test_no_two_metrics_share_a_signature_and_a_formula() -> None:
    orders = {name: metric.signature for name, metric in METRICS.items() if "BLEU" not in name}
    assert len(set(orders.values())) == len(orders)


def test_there_is_no_interval_unless_asked_for() -> None:
    score = score_captions(CAPTIONS, REFERENCES, metrics=["BLEU-1"])["BLEU-1"]
    assert (score.low, score.high) == (None, None)


@pytest.mark.parametrize(
    ("captions", "references", "code", "words"),
    [
        ({"1": "a"}, {"1": ["a"], "2": ["b"]}, "score.missing", "1 of 2 pictures .*(2)"),
        ({"1": "a", "3": "b"}, {"1": ["a"]}, "score.extra", "1 of 2 captions .*(3)"),
        ({"1": "a"}, {"1": []}, "score.no_reference", "picture 1"),
        ({}, {}, "score.empty", "no references"),
    ],
)
def test_captions_that_do_not_fit_their_references_are_refused(
    captions: dict[str, str], references: dict[str, list[str]], code: str, words: str
) -> None:
    with pytest.raises(UserError, match=words) as refusal:
        measure(captions, references)
    assert refusal.value.code == code


def test_one_text_where_a_list_of_references_belongs_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="list of captions"):
        measure({"1": "a"}, {"1": "a dog"})


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        ({"metrics": ["ROUGE"]}, "request.metric", "did you mean ROUGE-L"),
        ({"protocol": "cocco"}, "request.protocol", "did you mean coco"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(
    arguments: dict[str, list[str]], code: str, hint: str
) -> None:
    with pytest.raises(UserError, match=hint) as refusal:
        measure(CAPTIONS, REFERENCES, **arguments)  # type: ignore[arg-type]
    assert (refusal.value.code, refusal.value.exit_code) == (code, 2)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *((name, name) for name in (*BLEU, *METRICS)),
        *(("cider", "CIDEr-D"), ("CIDEr", "CIDEr-D"), ("cider-d", "CIDEr-D"), ("spice", "SPICE")),
        *(("bleu-4", "BLEU-4"), ("bleu4", "BLEU-4"), ("Bleu_4", "BLEU-4"), ("ROUGE_L", "ROUGE-L")),
        *(("bleu-2-NOBP", "BLEU-2-nobp"), ("Meteor", "METEOR"), ("rougeL", "ROUGE-L")),
    ],
)
def test_a_metric_is_found_by_every_spelling(name: str, meant: str) -> None:
    assert find_metric(name) == meant


@pytest.mark.parametrize(
    ("name", "near"),
    [("blue-4", "BLEU-4"), ("rouge", "ROUGE-L"), ("cidr", "CIDEr-D"), ("meteo", "METEOR")],
)
def test_a_metric_that_is_none_is_answered_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UserError, match=f"unknown metric '{name}': did you mean {near}") as refusal:
        find_metric(name)
    assert refusal.value.code == "request.metric"


def test_what_a_metric_lacks_is_said_before_anything_is_scored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def count(*_: object) -> NoReturn:
        raise AssertionError("nothing is to be scored")

    rouge = replace(METRICS["ROUGE-L"], count=count)
    monkeypatch.setitem(METRICS, "ROUGE-L", rouge)
    check_metrics(["ROUGE-L", "BLEU-4"])
    monkeypatch.setitem(METRICS, "CIDEr-D", replace(METRICS["CIDEr-D"], why_not=lambda: MISSING))
    for check in (check_metrics, lambda names: measure(CAPTIONS, REFERENCES, metrics=names)):
        with pytest.raises(UserError, match="pycocoevalcap") as refusal:
            check(["ROUGE-L", "CIDEr-D"])
        assert refusal.value is MISSING
    with pytest.raises(UserError, match="unknown metric"):
        check_metrics(["BLEU-5"])


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
@pytest.mark.parametrize(
    "caption", ["", "   ", "...", "\u2028", "\r", "😀", "\ud800", "a " * 300, "|||", "a\x00b"]
)
def test_odd_captions_get_a_number(protocol: str, caption: str) -> None:
    scores = score_captions({**CAPTIONS, "1": caption}, REFERENCES, protocol=protocol)
    assert all(0 <= score.value <= 10 for score in scores.values())


def test_document_frequencies_of_the_references_change_nothing_when_given() -> None:
    protocol = PROTOCOLS["coco"]
    tokenised = [[protocol.tokenise(text) for text in own] for own in REFERENCES.values()]
    frequencies = DocumentFrequencies.of(tokenised, name="mine")
    given = measure(CAPTIONS, REFERENCES, metrics=["CIDEr-D"], frequencies=frequencies)["CIDEr-D"]
    counted = measure(CAPTIONS, REFERENCES, metrics=["CIDEr-D"])["CIDEr-D"]
    assert given.value == counted.value
    assert "df-mine" in given.signature
