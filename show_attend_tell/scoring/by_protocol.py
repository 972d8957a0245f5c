"""The same captions under every protocol: BLEU and METEOR under each, the rest under coco's.

A paper's figures and coco-caption's can then both be compared with: METEOR, too, counts a full stop
where the protocol keeps it.
"""

from collections.abc import Callable, Mapping, Sequence

from show_attend_tell.scoring.measure import BLEU, PROTOCOLS, Measured, measure
from show_attend_tell.scoring.report import choose_metrics
from show_attend_tell.scoring.score import Score, score_measured

RESAMPLES = 1000


def measure_by_protocol(
    captions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    watch: Callable[[int], object] = lambda done: None,
) -> dict[str, dict[str, Measured]]:
    """What was measured, by protocol and metric; BLEU with and without brevity penalty.

    METEOR is left out where its data is not installed.

    Parameters
    ----------
    captions, references
        Of each picture, by id.
    watch
        As in `measure`, so once a caption and protocol.
    """
    bleu = [f"{name}-{penalty}" for penalty in ("nobp", "bp") for name in BLEU]
    further = [name for name in choose_metrics()[0] if name not in BLEU]
    meteor = [name for name in further if name == "METEOR"]
    return {
        protocol: measure(
            captions,
            references,
            metrics=[*bleu, *(further if protocol == "coco" else meteor)],
            protocol=protocol,
            watch=watch,
        )
        for protocol in PROTOCOLS
    }


def score_by_protocol(
    measured: Mapping[str, Mapping[str, Measured]],
) -> dict[str, dict[str, Score]]:
    """The scores of what was measured, each with its interval."""
    return {name: score_measured(found, resamples=RESAMPLES) for name, found in measured.items()}
