"""Every score of the recorded cases, per set and per caption."""

from collections.abc import Mapping
from functools import cache

import pytest

from show_attend_tell.scoring import (
    BLEU,
    DEFAULT_METRICS,
    Measured,
    Protocol,
    Score,
    measure,
    score_captions,
)
from tests.scoring.cases import CASES, needs_meteor, read_json, recorded
from tests.shared import needs_shared

AS_IS = Protocol("as-is", lambda text: text, brevity_penalty=True, signature="tok:none")


def test_one_example_by_hand() -> None:
    """Candidate of 3 words, 2 of them right, against a reference of 4."""
    score = score_captions(
        {"1": "a dog sat"},
        {"1": ["the dog sat down"]},
        metrics=["BLEU-1-bp", "BLEU-1-nobp", "BLEU-2-nobp", "ROUGE-L"],
    )
    assert score["BLEU-1-nobp"].value == pytest.approx(2 / 3, abs=1e-8)
    assert score["BLEU-1-bp"].value == pytest.approx(2 / 3 * 0.7165313105737893, abs=1e-8)
    assert score["BLEU-2-nobp"].value == pytest.approx((2 / 3 * 1 / 2) ** 0.5, abs=1e-8)
    precision, recall = 2 / 3, 2 / 4
    assert score["ROUGE-L"].value == pytest.approx(
        (1 + 1.44) * precision * recall / (recall + 1.44 * precision), abs=1e-12
    )


# Three of the six are enough for a quick look.
QUICK_AND_SLOW = [
    pytest.param(case, marks=[] if case[5] in "ade" else [pytest.mark.slow]) for case in CASES
]


@cache
def measured_case(case: str) -> dict[str, Measured]:
    texts = read_json(f"{case}.json.gz")
    metrics = [*DEFAULT_METRICS, *(f"{name}-nobp" for name in BLEU)]
    return measure(texts["candidates"], texts["references"], metrics=metrics)


@needs_shared
@pytest.mark.parametrize("case", QUICK_AND_SLOW)
def test_bleu_equals_the_recorded_case(case: str) -> None:
    measured, expected = measured_case(case), recorded(case)
    statistics = expected["bleu_statistics"]
    assert measured["BLEU-1"].rows.sum(axis=0).tolist() == [
        *statistics["correct"],
        *statistics["guess"],
        statistics["candidate_length"],
        statistics["reference_length"],
    ]
    for order in (1, 2, 3, 4):
        bare = expected[f"Bleu_{order}_no_brevity_penalty"]
        assert measured[f"BLEU-{order}"].value == pytest.approx(
            expected[f"Bleu_{order}"], abs=1e-12
        )
        assert measured[f"BLEU-{order}-nobp"].value == pytest.approx(bare, abs=1e-12)


@needs_shared
@pytest.mark.parametrize("case", QUICK_AND_SLOW)
@pytest.mark.parametrize(("ours", "theirs"), [("ROUGE-L", "ROUGE_L"), ("CIDEr-D", "CIDEr")])
def test_rouge_and_cider_equal_the_recorded_case(case: str, ours: str, theirs: str) -> None:
    assert measured_case(case)[ours].value == pytest.approx(recorded(case)[theirs], abs=1e-12)


@needs_shared
@needs_meteor
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_meteor_equals_the_recorded_case_to_the_last_bit(case: str) -> None:
    texts = read_json(f"{case}.json.gz")
    score = score_captions(texts["candidates"], texts["references"], metrics=["METEOR"])
    assert score["METEOR"].value == recorded(case)["METEOR"]


@needs_shared
@pytest.mark.parametrize("case", ["a_heldout_human", "e_adversarial"])
def test_captions_score_alone_as_recorded(case: str) -> None:
    expected = read_json(f"per_caption_{case}.json.gz")
    names = {"BLEU-1": "Bleu_1", "BLEU-4": "Bleu_4", "ROUGE-L": "ROUGE_L", "CIDEr-D": "CIDEr"}
    for ours, theirs in names.items():
        alone = measured_case(f"case_{case}")[ours].per_caption
        assert alone == pytest.approx(expected[theirs], abs=1e-12)


@needs_shared
@needs_meteor
@pytest.mark.slow
@pytest.mark.parametrize("case", ["a_heldout_human", "e_adversarial"])
def test_meteor_scores_captions_alone_as_recorded(case: str) -> None:
    texts = read_json(f"case_{case}.json.gz")
    measured = measure(texts["candidates"], texts["references"], metrics=["METEOR"])
    assert measured["METEOR"].per_caption == read_json(f"per_caption_{case}.json.gz")["METEOR"]


@needs_shared
def test_tiny_texts_score_as_recorded() -> None:
    for name, case in read_json("edge-cases.json")["cases"].items():
        measured = measure(case["candidates"], case["references"], protocol=AS_IS)
        ours = {metric: one.value for metric, one in measured.items()}
        theirs: Mapping[str, float] = {
            **{f"BLEU-{order}": case["Bleu"][order - 1] for order in (1, 2, 3, 4)},
            "ROUGE-L": case["ROUGE_L"],
            "CIDEr-D": case["CIDEr"],
        }
        assert ours == pytest.approx(theirs, abs=1e-12), name
        ids = list(case["candidates"])
        alone = [measured["CIDEr-D"].per_caption[id_] for id_ in ids]
        assert alone == pytest.approx(case["CIDEr_per_caption"], abs=1e-12), name


@needs_shared
@needs_meteor
@pytest.mark.slow
def test_meteor_scores_tiny_texts_as_recorded() -> None:
    for name, case in read_json("edge-cases.json")["cases"].items():
        measured = measure(
            case["candidates"], case["references"], metrics=["METEOR"], protocol=AS_IS
        )["METEOR"]
        alone = [measured.per_caption[id_] for id_ in case["candidates"]]
        assert (measured.value, alone) == (case["METEOR"], case["METEOR_per_caption"]), name


@needs_shared
def test_the_order_of_pictures_changes_no_bit() -> None:
    texts = read_json("case_e_adversarial.json.gz")
    ids = list(texts["candidates"])[:50]

    def scores(order: list[str]) -> dict[str, Score]:
        return score_captions(
            {id_: texts["candidates"][id_] for id_ in order},
            {id_: texts["references"][id_] for id_ in order},
            resamples=20,
        )

    assert scores(ids) == scores(ids[::-1])
