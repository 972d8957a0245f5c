"""Captions to statistics: a row of summable numbers a caption, and a formula for their sum.

The same formula gives the score of one caption (its row), of the whole set (the sum of rows) and
of a resample.
"""

import difflib
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.errors import UserError
from show_attend_tell.scoring.metrics import meteor, spice, tokens
from show_attend_tell.scoring.metrics.bleu import bleu, bleu_rows
from show_attend_tell.scoring.metrics.cider import DocumentFrequencies, cider_rows
from show_attend_tell.scoring.metrics.meteor_halves import meteor_rows_in_halves
from show_attend_tell.scoring.metrics.ngrams import ORDERS
from show_attend_tell.scoring.metrics.rouge import rouge_rows

Rows = NDArray[np.float64]

# Raised whenever the same captions could get another number.
SIGNATURE_VERSION = 1


@dataclass(frozen=True)
class Protocol:
    """What is done to text before it is compared, and which BLEU a bare `BLEU-n` means."""

    name: str
    tokenise: Callable[[str], str]  # caption -> words joined by single blanks
    brevity_penalty: bool
    signature: str


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("authors", tokens.authors, False, "tok:blanks|case:lc|punct:kept"),
        Protocol("plain", tokens.plain, False, "tok:blanks|case:lc|punct:dropped"),
        Protocol("coco", tokens.ptb, True, "tok:ptb-3.4.1|case:lc|punct:coco17|lines:space"),
    )
}


@dataclass(frozen=True)
class Metric:
    """How to count, and what the counts are worth."""

    count: Callable[[Sequence[str], Sequence[Sequence[str]]], Rows]
    formula: Callable[[Rows], Rows]
    signature: str
    # What is missing on this machine for it to be computed.
    why_not: Callable[[], UserError | None] = lambda: None


def mean(sums: Rows) -> Rows:
    """Give the mean from (..., 2): a sum of scores, and their number."""
    return np.asarray(sums[..., 0] / sums[..., 1])


# Bare names follow the protocol: `BLEU-4` is `BLEU-4-bp` under coco's, -nobp under the authors'.
BLEU = tuple(f"BLEU-{order}" for order in range(1, ORDERS + 1))

METRICS = {
    **{
        f"BLEU-{order}-{name}": Metric(
            bleu_rows,
            partial(bleu, order=order, brevity_penalty=name == "bp"),
            f"bleu:closest,{name},eps1e-15/1e-9",
        )
        for name in ("bp", "nobp")
        for order in range(1, ORDERS + 1)
    },
    "METEOR": Metric(
        meteor_rows_in_halves, meteor.meteor, "meteor:1.5,en,rank,norm", meteor.why_not
    ),
    "ROUGE-L": Metric(rouge_rows, mean, "rougeL:b1.2"),
    "CIDEr-D": Metric(cider_rows, mean, "cider:D,s6,df-refs"),
    "SPICE": Metric(spice.spice_rows, mean, "spice:1.0,corenlp-3.6.0", spice.why_not),
}

_NAMES = (*BLEU, *METRICS)

# What is measured unless one asks otherwise: all that needs no further data or program.
DEFAULT_METRICS = (*BLEU, "ROUGE-L", "CIDEr-D")


@dataclass(frozen=True)
class Measured:
    """One metric over one set of captions.

    Parameters
    ----------
    ids
        The pictures, sorted, so that no result depends on the order in which captions came.
    rows
        (captions, k): what the metric counted.
    formula
        (..., k) -> (...): the score of a row, or of a sum of rows.
    """

    name: str
    ids: tuple[str, ...]
    rows: Rows
    formula: Callable[[Rows], Rows]
    signature: str

    @property
    def value(self) -> float:
        """The score of the whole set."""
        return float(self.formula(self.rows.sum(axis=0)))

    @property
    def per_caption(self) -> dict[str, float]:
        """The score of every caption alone."""
        return dict(zip(self.ids, self.formula(self.rows).tolist(), strict=True))


def find_protocol(protocol: str | Protocol) -> Protocol:
    """Give the protocol of that name, or the protocol itself."""
    return (
        protocol
        if isinstance(protocol, Protocol)
        else PROTOCOLS[_known(protocol, PROTOCOLS, "protocol")]
    )


def find_metric(name: str) -> str:
    """Give the metric of that name in any case and spelling: `bleu4` or `Bleu_4` is `BLEU-4`.

    >>> find_metric("cider")
    'CIDEr-D'
    """

    def letters(text: str) -> str:
        return re.sub(r"[-_ ]", "", text).lower()

    # pycocoevalcap, too, calls CIDEr-D CIDEr.
    spellings = {"cider": "CIDEr-D"} | {letters(one): one for one in _NAMES}
    return spellings.get(letters(name)) or _known(name, _NAMES, "metric")


def check_metrics(metrics: Iterable[str]) -> None:
    """Raise what is missing for one of these metrics, before anything is computed."""
    for name in metrics:
        _known(name, _NAMES, "metric")
        if name in METRICS and (lack := METRICS[name].why_not()):
            raise lack


def measure(
    candidates: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    protocol: str | Protocol = "coco",
    frequencies: DocumentFrequencies | None = None,
    watch: Callable[[int], object] = lambda done: None,
    subset_of: int | None = None,
) -> dict[str, Measured]:
    """Measure one caption a picture against the picture's references.

    Parameters
    ----------
    candidates
        The caption of each picture; empty text is allowed and scores 0.
    references
        The references of the same pictures, at least one each.
    metrics
        Names out of `METRICS`, or `BLEU-1` to `BLEU-4`, whose brevity penalty the protocol decides.
    protocol
        A name out of `PROTOCOLS`, or a protocol of one's own.
    frequencies
        Document frequencies for CIDEr-D instead of those of these references.
    watch
        Called with 1 after each caption that METEOR, by far the slowest, has aligned.
    subset_of
        How many pictures there are, if only some of them are scored; the signature then says so.
    """
    protocol = find_protocol(protocol)
    check_metrics(metrics)
    penalty = "bp" if protocol.brevity_penalty else "nobp"
    chosen = {name: METRICS[f"{name}-{penalty}" if name in BLEU else name] for name in metrics}
    if "METEOR" in chosen:
        chosen["METEOR"] = replace(
            chosen["METEOR"], count=partial(meteor_rows_in_halves, watch=watch)
        )
    if frequencies and "CIDEr-D" in chosen:
        count = partial(cider_rows, frequencies=frequencies)
        chosen["CIDEr-D"] = Metric(count, mean, f"cider:D,s6,df-{frequencies.name}")
    ids = _common_ids(candidates, references)
    captions = [protocol.tokenise(candidates[id_]) for id_ in ids]
    own_references = [[protocol.tokenise(text) for text in references[id_]] for id_ in ids]
    counts = {
        count: count(captions, own_references) for count in {m.count for m in chosen.values()}
    }
    number = f"{len(ids)}" + (f"|{_subset(ids, subset_of)}" if subset_of else "")
    setting = f"nrefs:{_span(map(len, own_references))}|n:{number}|{protocol.signature}"
    return {
        name: Measured(
            name,
            ids,
            counts[metric.count],
            metric.formula,
            f"{setting}|{metric.signature}|v:{SIGNATURE_VERSION}",
        )
        for name, metric in chosen.items()
    }


def _known(name: str, names: Iterable[str], kind: str) -> str:
    known = {one.lower(): one for one in names}
    if name in known.values():
        return name
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.4)
    hint = f"did you mean {known[near[0]]}? " if near else ""
    raise UserError(
        f"request.{kind}", f"unknown {kind} {name!r}: {hint}Known are {', '.join(known.values())}"
    )


def _common_ids(
    candidates: Mapping[str, str], references: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    ids = tuple(sorted(references))
    if not ids:
        raise UserError("score.empty", "there are no references; give at least one picture's")
    if missing := sorted(references.keys() - candidates.keys()):
        raise UserError(
            "score.missing",
            f"{len(missing)} of {len(ids)} pictures have references but no caption "
            f"({_some(missing)}); caption them too, or leave their references out",
        )
    if extra := sorted(candidates.keys() - references.keys()):
        raise UserError(
            "score.extra",
            f"{len(extra)} of {len(candidates)} captions belong to no picture with references "
            f"({_some(extra)}); give their references, or leave them out",
        )
    for id_ in ids:
        if isinstance(references[id_], str):
            raise TypeError(f"references of {id_!r} must be a list of captions, not one text")
        if not references[id_]:
            raise UserError("score.no_reference", f"picture {id_} has an empty list of references")
    return ids


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:3]) + (", ..." if len(ids) > 3 else "")


def _subset(ids: Sequence[str], total: int) -> str:
    """Name a subset such that another one of as many pictures is called otherwise."""
    which = hashlib.sha256("\n".join(ids).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"subset:of{total},{which}"


def _span(sizes: Iterable[int]) -> str:
    low, *_, high = sorted((*sizes,) * 2)
    return str(low) if low == high else f"{low}-{high}"
