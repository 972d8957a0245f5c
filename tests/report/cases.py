"""Facts made up for the tests of the report: numbers that can be found again on the page."""

import base64
import io
from dataclasses import replace

import numpy as np

from show_attend_tell.report.facts import Attention, Calibration, Curves, Entry, Facts, Shown
from show_attend_tell.scoring import Score, measure_diversity
from show_attend_tell.scoring.analysis.calibration import Bin
from show_attend_tell.scoring.analysis.health import Health, Moment
from show_attend_tell.scoring.analysis.usage import compare_words
from tests.drawing.cases import caption_of, with_metadata

GENERATED = ["a dog runs", "two men <b>sit</b>", "a zebra & a man"]
REFERENCES = ["a brown dog runs .", "two men sit on a bench", "a horse in a field"]


def score(name: str, value: float) -> Score:
    return Score(name, value, value - 0.01, value + 0.02, f"{name}|v:1")


def thumbnail() -> str:
    stream = io.BytesIO()
    with_metadata().resize((32, 18)).save(stream, "JPEG")
    return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}"


def entries() -> list[Entry]:
    return [
        Entry(
            id=f"{place}<i>.jpg",
            caption=caption,
            references=(reference, "something else"),
            scores={"CIDEr-D": 0.1234 + place, "ROUGE-L": 0.25},
            confidence=0.3 + 0.1 * place,
            thumbnail=None if place == 2 else thumbnail(),
        )
        for place, (caption, reference) in enumerate(zip(GENERATED, REFERENCES, strict=True))
    ]


def facts_of(**changes: object) -> Facts:
    gallery = entries()
    scores = {
        f"BLEU-{n}-{p}": score(f"BLEU-{n}-{p}", 0.7 / n)
        for n in range(1, 5)
        for p in ("bp", "nobp")
    }
    scores["METEOR"] = score("METEOR", 0.2345)
    others = {"ROUGE-L": 0.4567, "CIDEr-D": 0.6789}
    picture = with_metadata()
    facts = Facts(
        run="runs & <more>",
        split="dev",
        about={"Model": "soft attention", "Data": "a <set>"},
        scores={
            "authors": scores,
            "plain": scores,
            "coco": scores | {name: score(name, value) for name, value in others.items()},
        },
        lack=None,
        curves=Curves(
            training=[(0.5, 5.0), (1.0, 4.0), (2.0, 3.0)],
            dev=[(1, 3.9), (2, 3.456)],
            scores={f"BLEU-{n}": [(1, 0.3 / n), (2, 0.6 / n)] for n in range(1, 5)},
            best=2,
        ),
        shown={
            "Best": [Shown(gallery[1], caption_of("two men sit"), picture)],
            "Worst": [Shown(gallery[2])],
        },
        gallery=gallery,
        pictures=3,
        without_picture=1,
        words=compare_words(GENERATED, REFERENCES),
        generated=measure_diversity(GENERATED, training=["a dog runs"]),
        references=measure_diversity(REFERENCES),
        attention=Attention(
            health=Health(9, 1.23, 0.4, 0.56, 0.78, {"content": 0.81, "function": 0.34}),
            moments=[
                Moment(3, 1.5, None, 0.9),
                Moment(3, 1.2, 0.31, 0.5),
                Moment(3, 1.1, 0.2, 0.4),
            ],
            coverage=np.array([[0.11, 0.22], [0.33, 0.44]]),
            gates={"dog": 0.97, "man": 0.6, "a": 0.12},
        ),
        calibration=Calibration(
            words=[Bin(30, 0.25, 0.2), Bin(10, 0.75, 0.9)],
            captions=[Bin(2, 0.3, 0.4), Bin(1, 0.5, 1.9)],
            correlation=0.42,
        ),
        grounding={
            name: score(name, value)
            for name, value in {
                "mass": 0.367,
                "mass-even": 0.282,
                "mass-centre": 0.489,
                "pointing": 0.45,
                "pointing-even": 0.285,
                "pointing-centre": 0.495,
            }.items()
        },
    )
    return replace(facts, **changes)  # type: ignore[arg-type]
