"""One system's captions scored, or compared with others'."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from show_attend_tell.errors import UserError
from show_attend_tell.scoring.analysis.diversity import Diversity, measure_diversity
from show_attend_tell.scoring.measure import DEFAULT_METRICS, Measured, measure
from show_attend_tell.scoring.metrics.meteor import why_not
from show_attend_tell.scoring.score import Score, score_measured
from show_attend_tell.scoring.statistics import LEVEL, SEED, Comparison, compare

RESAMPLES = 1000


@dataclass(frozen=True)
class System:
    """One system's captions and what they are worth."""

    name: str
    captions: Mapping[str, str]
    measured: Mapping[str, Measured]
    scores: Mapping[str, Score]
    diversity: Diversity


@dataclass(frozen=True)
class Report:
    """One system, and others with the first one's differences from them, on the same pictures."""

    protocol: str
    systems: tuple[System, ...]
    comparisons: tuple[Mapping[str, Comparison], ...]  # of the first with each of the others
    subset_of: int | None = None  # of so many pictures only some were scored

    @property
    def first(self) -> System:
        """The system that is scored."""
        return self.systems[0]

    @property
    def signatures(self) -> dict[str, list[str]]:
        """Signatures, and the metrics that share each."""
        shared: dict[str, list[str]] = {}
        for name, score in self.first.scores.items():
            shared.setdefault(score.signature, []).append(name)
        return shared


def choose_metrics() -> tuple[tuple[str, ...], UserError | None]:
    """Give the usual metrics, METEOR among them if its data is installed, else what it lacks."""
    lack = why_not()
    if lack:
        return DEFAULT_METRICS, lack
    place = DEFAULT_METRICS.index("ROUGE-L")
    return (*DEFAULT_METRICS[:place], "METEOR", *DEFAULT_METRICS[place:]), None


def make_report(
    systems: Mapping[str, Mapping[str, str]],
    references: Mapping[str, Sequence[str]],
    *,
    metrics: Sequence[str],
    protocol: str = "coco",
    training: Sequence[str] | None = None,
    watch: Callable[[int], object] = lambda done: None,
    subset_of: int | None = None,
) -> Report:
    """Score the captions of one system, or of several and compare the first with each other one.

    Parameters
    ----------
    systems
        Their names, and their captions by picture.
    training
        Captions of the training set, to count generated ones that are none of them.
    watch
        Called with 1 after each caption that METEOR has aligned.
    subset_of
        How many pictures there are, if only some of them are scored.
    """
    made = []
    for name, captions in systems.items():
        measured = measure(
            captions,
            references,
            metrics=metrics,
            protocol=protocol,
            watch=watch,
            subset_of=subset_of,
        )
        scores = score_measured(measured, resamples=RESAMPLES)
        diversity = measure_diversity(captions.values(), training=training, protocol=protocol)
        made.append(System(name, captions, measured, scores, diversity))
    first, *others = made
    comparisons = (compare(first.measured, one.measured, resamples=RESAMPLES) for one in others)
    return Report(protocol, tuple(made), tuple(comparisons), subset_of)


def facts(report: Report) -> dict[str, Any]:
    """Everything at full precision, for machines; scores as they are, not in percent."""
    first, *others = (
        {
            "captions": system.name,
            "scores": {
                name: {key: getattr(score, key) for key in ("value", "low", "high", "signature")}
                for name, score in system.scores.items()
            },
            "diversity": dataclasses.asdict(system.diversity),
        }
        for system in report.systems
    )
    result: dict[str, Any] = {
        "protocol": report.protocol,
        "pictures": len(report.first.captions),
        **({"subset_of": report.subset_of} if report.subset_of else {}),
        "intervals": {"percent": LEVEL, "resamples": RESAMPLES, "seed": SEED},
        **first,
    }
    if others:
        result["against"] = [
            {
                **other,
                "comparison": {
                    name: {
                        key: getattr(one, key) for key in ("difference", "low", "high", "p_value")
                    }
                    for name, one in comparison.items()
                },
            }
            for other, comparison in zip(others, report.comparisons, strict=True)
        ]
        result["correction"] = None  # p-values are of each comparison alone
    return result


def caption_facts(report: Report) -> Iterator[dict[str, Any]]:
    """Every picture with its captions and what each is worth alone."""
    alone = [
        {name: measured.per_caption for name, measured in system.measured.items()}
        for system in report.systems
    ]
    for id_ in report.first.captions:
        first, *others = (
            {
                "caption": system.captions[id_],
                "scores": {name: values[id_] for name, values in scores.items()},
            }
            for system, scores in zip(report.systems, alone, strict=True)
        )
        yield {"id": id_, **first, **({"against": others} if others else {})}
