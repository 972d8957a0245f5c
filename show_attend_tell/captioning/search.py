"""Search: from a model's next-word probabilities to captions, by beam search or by sampling.

A beam of 1 is greedy search. Scores are sums of log-probabilities, as in the authors' code, unless
a length power is asked for. All pictures of a batch advance together and leave it when they are
done; the captions of one never depend on the others.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from show_attend_tell.captioning.model import Arrays, CaptioningModel, Floats, Integers, pick
from show_attend_tell.captioning.settings import MOST_BEAM, SETTINGS, Look, SearchSettings
from show_attend_tell.errors import UserError, number, whole_number, wrong_argument

# (alpha (rows, L), step, words so far (rows, step)) -> weights (rows, L)
Pointing = Callable[[Floats, int, Integers], Floats]


# Words are numbered by frequency, after the end and the unknown word; many good captions have one
# of the first eleven ("a", "in", "on", ...) twice.
COMMONEST = 13

MOST_SAMPLES = 10_000  # n_best of sampling
TEMPERATURES = (1e-4, 1e3)


@dataclass(frozen=True, kw_only=True)
class Search(SearchSettings):
    """A search: the settings kept with a model, and those that only a call asks for.

    It is a beam search by default; a `temperature` makes it sampling.
    """

    # Also a function, which returns the weights to use in place of the model's attention.
    look: Look | Pointing = "expected"  # type: ignore[assignment]  # wider than what is kept
    n_best: int = 1  # captions returned for each picture; when sampling, how many are drawn
    min_words: int = 1  # the end is forbidden before
    allow_unknown: bool = False
    allow_repeats: bool = False  # the same word twice in a row
    temperature: float | None = None  # sampling: below 1 nearer to greedy, above 1 more varied
    among: int | None = None  # sampling: draw from this many likeliest words only; None: from all
    seed: int = 0  # every picture sees the same random numbers, whatever its place in the batch

    @classmethod
    def of(cls, settings: SearchSettings, **others: Any) -> "Search":
        """The search of a recipe or a model, with other values for some settings."""
        return cls(**vars(settings)).override(**others)

    def override(self, **others: Any) -> "Search":
        """The same search with other values for some settings.

        More captions than the beam holds widen the beam, unless that is given too.

        Raises
        ------
        UserError
            `request.bad`: there is no such setting, or its value does not fit.
        """
        known = [field.name for field in fields(self)]
        for name in others:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                raise UserError("request.bad", f"{name} is not a search setting; {hint}")
        count = others.get("n_best")
        if isinstance(count, int) and others.get("temperature", self.temperature) is None:
            others.setdefault("beam", max(self.beam, count))
        return replace(self, **others)

    def kept(self) -> SearchSettings:
        """The settings that a recipe or a model keeps."""
        return SearchSettings(**{name: getattr(self, name) for name in SETTINGS})

    def __post_init__(self) -> None:
        """Check every value; numbers of NumPy become Python's."""
        sampling = self.temperature is not None
        most = MOST_SAMPLES if sampling else MOST_BEAM
        checked: dict[str, object] = {
            name: setting.check(getattr(self, name))
            for name, setting in SETTINGS.items()
            if not (name == "look" and callable(self.look))
        }
        checked["n_best"] = whole_number("n_best", self.n_best, 1, most)
        checked["seed"] = whole_number("seed", self.seed, 0)
        if not sampling and self.n_best > self.beam:
            raise wrong_argument("n_best", self.n_best, f"at most beam ({self.beam})")
        checked["min_words"] = whole_number("min_words", self.min_words, 0)
        if self.min_words > self.max_words:
            raise wrong_argument(
                "min_words", self.min_words, f"at most max_words ({self.max_words})"
            )
        if self.temperature is not None:
            checked["temperature"] = number("temperature", self.temperature, *TEMPERATURES)
        if self.among is not None:
            checked["among"] = whole_number("among", self.among, 1)
        for name in ("allow_unknown", "allow_repeats"):
            if not isinstance(getattr(self, name), bool):
                raise wrong_argument(name, getattr(self, name), "True or False", is_kind=False)
        for name, value in checked.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False)
class Decoded:
    """One caption of T words, their probabilities, and where each of them looked."""

    words: tuple[int, ...]  # without the end
    log_probs: npt.NDArray[np.float64]  # (T,), the model's own, whatever was forbidden
    end_log_prob: float | None  # of the end after the last word; None if the caption was cut
    attention: Floats  # (T, L): alpha, where the model would look
    weights: Floats  # (T, L): the weights used; alpha itself with look="expected"
    gates: Floats  # (T,): β
    score: float  # what captions were ranked by

    @property
    def ended(self) -> bool:
        """Whether the model ended the caption itself."""
        return self.end_log_prob is not None

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole caption, the end included where there is one."""
        return float(self.log_probs.sum()) + (self.end_log_prob or 0.0)


class _Look(NamedTuple):
    alpha: Floats  # (rows, L)
    weights: Floats  # (rows, L)
    gate: Floats  # (rows,)


class _Finished(NamedTuple):
    words: Integers  # (T,)
    log_probs: npt.NDArray[np.float64]  # (T,)
    rows: Integers  # (T,): which row of each step's look was its own
    end_log_prob: float | None
    score: float


@dataclass(frozen=True, eq=False)
class _Live:
    """The hypotheses of the pictures still in the batch, all t words long."""

    pictures: Integers  # (P,): their places among all pictures
    totals: npt.NDArray[np.float64]  # (P, beams): log-probability so far; -inf: nothing lives here
    words: Integers  # (P, beams, t)
    log_probs: npt.NDArray[np.float64]  # (P, beams, t)
    rows: Integers  # (P, beams, t): which row of each step's look was its own

    @classmethod
    def start(cls, pictures: int, beams: int) -> "_Live":
        empty = np.zeros((pictures, beams, 0))
        no_words = empty.astype(np.int64)
        totals = np.zeros((pictures, beams))
        return cls(np.arange(pictures), totals, no_words, empty, no_words)

    def follow(
        self,
        going: Integers,
        parents: Integers,
        words: Integers,
        log_probs: npt.NDArray[np.float64],
        totals: npt.NDArray[np.float64],
    ) -> "_Live":
        """Keep the pictures `going`, and in each the beams `parents`, every one a word longer."""
        own = going[:, None], parents
        rows = going[:, None] * self.totals.shape[1] + parents

        def longer(history: npt.NDArray[Any], last: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return np.concatenate([history[own], last[:, :, None]], axis=2)

        return _Live(
            self.pictures[going],
            totals,
            longer(self.words, words),
            longer(self.log_probs, log_probs),
            longer(self.rows, rows),
        )

    def finish(
        self, at: tuple[np.intp, ...], end_log_prob: float | None, score: float
    ) -> _Finished:
        """The hypothesis at a place (picture, beam), finished."""
        # Copies: a view would keep the words of all other rows in memory.
        history = self.words[at].copy(), self.log_probs[at].copy(), self.rows[at].copy()
        return _Finished(*history, end_log_prob, score)


def decode(model: CaptioningModel, annotations: Floats, search: Search) -> list[list[Decoded]]:
    """The captions of each picture, best first.

    A picture is done when `beam` hypotheses have ended, or `n_best` have and no live one can still
    beat them. Captions that were cut come after those that ended, so they count when none did.

    Parameters
    ----------
    model
        What can look and advance.
    annotations
        What the model starts from, (pictures, L, D).
    search
        How to search.

    Returns
    -------
    list of list of Decoded
        For each picture its `n_best` captions. There are fewer only if a tiny vocabulary has no
        more; at least one always.
    """
    return decode_started(model, model.start(annotations), search) if len(annotations) else []


# Above 80 lines: one loop, all parts of which share the arrays of a step.
def decode_started(
    model: CaptioningModel, started: tuple[Arrays, Arrays], search: Search
) -> list[list[Decoded]]:
    """The same of one picture or more for which `model.start` has returned memory and state."""
    sampling = search.temperature is not None
    width = search.n_best if sampling else search.beam
    # Room for what may be forbidden: the end, the unknown word, a repetition.
    enough = search.among if sampling else width + 3
    best = min(enough or model.vocabulary_size, model.vocabulary_size)
    random = np.random.default_rng(search.seed)

    memory, state = started
    pictures = len(state[0])
    live = _Live.start(pictures, width if sampling else 1)
    state = pick(state, live.pictures.repeat(live.totals.shape[1]))
    looks: list[_Look] = []
    finished: list[list[_Finished]] = [[] for _ in live.pictures]
    ended_count = np.zeros(pictures, dtype=np.int64)
    ended_scores = np.full((pictures, search.n_best), -np.inf)  # the best ones, ascending

    for step in range(search.max_words + 1):
        is_last = step == search.max_words  # a caption may end here, but not grow
        beams = live.totals.shape[1]
        words = live.words.reshape(live.totals.size, step)
        alpha, gate = model.look(memory, state)
        uniforms = random.random((2, width))  # always as many, whatever other pictures need
        weights = _weights(search.look, alpha, step, words, uniforms[0, :beams])
        looks.append(_Look(alpha, weights, gate))
        previous = words[:, -1] if step else np.full(len(words), model.start_word)
        state, log_probs, ids = model.advance(memory, state, weights, gate, previous, best)

        # Every beam's words side by side: (P, beams × best).
        log_probs = np.where(_allowed(model, search, step, previous, ids), log_probs, -np.inf)
        log_probs = log_probs.astype(np.float64).reshape(-1, beams * best)
        totals = live.totals.repeat(best, axis=1) + log_probs
        if search.repetition_penalty and not sampling:
            totals -= search.repetition_penalty * _is_repeated(words, ids).reshape(totals.shape)
        ids = ids.reshape(log_probs.shape)
        ends = ids == model.end_word
        if search.temperature is None:
            leading, following = _best_first(totals, ends, width)
        else:
            tempered = log_probs.reshape(-1, beams, best) / search.temperature
            leading = following = np.arange(beams) * best + _draw(tempered, uniforms[1, :beams])

        # What ends here, and what can go no further and is cut: both (P, beams).
        chosen = np.zeros(ids.shape, dtype=bool)
        np.put_along_axis(chosen, leading, True, axis=1)
        end_log_probs = np.where(ends & chosen, log_probs, -np.inf)
        end_log_probs = end_log_probs.reshape(-1, beams, best).max(axis=2)
        end_scores = (live.totals + end_log_probs) / (step + 1) ** search.length_power
        ended = np.isfinite(end_scores)
        can_grow = np.isfinite(totals).reshape(-1, beams, best).any(axis=2) & (not is_last)
        cut = np.isfinite(live.totals) & ~can_grow  # unless it ends
        cut_scores = live.totals / max(step, 1) ** search.length_power
        for at in zip(*np.nonzero(ended | cut), strict=True):
            end_log_prob = float(end_log_probs[at]) if ended[at] else None
            score = float((end_scores if ended[at] else cut_scores)[at])
            finished[live.pictures[at[0]]].append(live.finish(at, end_log_prob, score))
        if is_last:
            break

        # A picture goes on while a live hypothesis could still enter its n best: log-probabilities
        # only fall, and a score is highest when divided by the longest length.
        totals = np.take_along_axis(np.where(ends, -np.inf, totals), following, axis=1)
        ended_count += ended.sum(axis=1)
        ended_scores = np.sort(np.hstack([ended_scores, end_scores]))[:, -search.n_best :]
        bound = totals.max(axis=1) / (search.max_words + 1) ** search.length_power
        going = np.flatnonzero((ended_count < width) & (ended_scores[:, 0] < bound))
        if len(going) == 0:
            break
        if len(going) < len(live.pictures):
            memory = pick(memory, going)
        ended_count, ended_scores = ended_count[going], ended_scores[going]
        following, totals = following[going], totals[going]
        if sampling:
            following, totals = _without_ended(following, totals)
        live = live.follow(
            going,
            following // best,
            np.take_along_axis(ids[going], following, axis=1),
            np.take_along_axis(log_probs[going], following, axis=1),
            totals,
        )
        state = pick(state, live.rows[:, :, -1].ravel())

    return [[_decoded(one, looks) for one in _ranked(ones)[: search.n_best]] for ones in finished]


def _without_ended(
    following: Integers, totals: npt.NDArray[np.float64]
) -> tuple[Integers, npt.NDArray[np.float64]]:
    """Each picture's live hypotheses first, and no more columns than the most of any picture."""
    live_first = np.argsort(np.isneginf(totals), axis=1, kind="stable")
    live_first = live_first[:, : np.isfinite(totals).sum(axis=1).max()]
    return (
        np.take_along_axis(following, live_first, axis=1),
        np.take_along_axis(totals, live_first, axis=1),
    )


def bytes_foreseen(search: Search, places: int, words: int) -> int:
    """Bytes that a search takes at most for each picture, an upper estimate.

    Parameters
    ----------
    places, words
        L, and the size of the vocabulary.
    """
    sampling = search.temperature is not None
    rows = search.n_best if sampling else search.beam
    best = min((search.among or words) if sampling else rows + 3, words)
    candidates = best * (100 + (search.max_words if search.repetition_penalty else 0))
    a_step = 16 * places + 50  # where a row looked, and the word that it chose; twice, at the end
    return rows * (candidates + 16 * words + search.max_words * a_step)


def _weights(
    look: str | Pointing,
    alpha: Floats,
    step: int,
    words: Integers,
    uniforms: npt.NDArray[np.float64],
) -> Floats:
    """The weights used in place of the attention, (rows, L)."""
    if look == "expected":
        return alpha
    if callable(look):
        weights = np.asarray(look(alpha, step, words), dtype=alpha.dtype)
        if weights.shape != alpha.shape:
            raise UserError(
                "request.bad",
                f"look returned weights of shape {weights.shape}; it must be {alpha.shape}, "
                "one weight for every row and place",
            )
        return weights
    if look == "most-likely":
        places = alpha.argmax(axis=1)
    else:
        with np.errstate(divide="ignore"):  # log 0: a place that is never drawn
            log_alpha = np.log(alpha.astype(np.float64))
        places = _draw(log_alpha.reshape(-1, len(uniforms), alpha.shape[1]), uniforms).ravel()
    weights = np.zeros_like(alpha)
    weights[np.arange(len(alpha)), places] = 1
    return weights


def _allowed(
    model: CaptioningModel, search: Search, step: int, previous: Integers, ids: Integers
) -> npt.NDArray[np.bool_]:
    """Which of the words (rows, best) may follow the previous words (rows,)."""
    allowed = np.ones(ids.shape, dtype=bool)
    if not search.allow_unknown:
        allowed &= ids != model.unknown_word
    if not search.allow_repeats and step > 0:
        allowed &= ids != previous[:, None]
    if step < search.min_words:
        allowed &= ids != model.end_word
    return allowed


def _is_repeated(words: Integers, ids: Integers) -> npt.NDArray[np.bool_]:
    """Which words (rows, best) are among those before (rows, t), except the most frequent words."""
    repeated: npt.NDArray[np.bool_] = (ids[:, :, None] == words[:, None, :]).any(axis=2)
    return repeated & (ids >= COMMONEST)


def _best_first(
    candidates: npt.NDArray[np.float64], ends: npt.NDArray[np.bool_], width: int
) -> tuple[Integers, Integers]:
    """Pick each picture's best candidates: with ends, and without; ties to the lower index.

    An end counts only among the best `width` of all, so that a beam of 1 is greedy.

    Parameters
    ----------
    candidates
        (pictures, beams × best) log-probabilities.
    ends
        Which of them are ends; at most one a beam.
    width
        How many to pick.

    Returns
    -------
    leading, following
        Both (pictures, width) or fewer, indices into the second axis.
    """
    order = np.argsort(-candidates, axis=1, kind="stable")
    ends_last = np.argsort(np.take_along_axis(ends, order, axis=1), axis=1, kind="stable")
    return order[:, :width], np.take_along_axis(order, ends_last[:, :width], axis=1)


def _draw(log_weights: Floats, uniforms: npt.NDArray[np.float64]) -> Integers:
    """Draw an index of the last axis for every picture and beam, in proportion to exp(log_weights).

    Parameters
    ----------
    log_weights
        (pictures, beams, n); where all are -inf the index is 0.
    uniforms
        (beams,) numbers from 0 to 1, the same for all pictures.

    Returns
    -------
    Integers
        (pictures, beams).
    """
    highest = log_weights.max(axis=2, keepdims=True)
    highest[np.isneginf(highest)] = 0
    cumulative = np.exp(log_weights - highest).cumsum(axis=2)
    threshold = uniforms[:, None] * cumulative[:, :, -1:]
    drawn: Integers = (cumulative > threshold).argmax(axis=2)
    return drawn


def _ranked(ones: list[_Finished]) -> list[_Finished]:
    return sorted(ones, key=lambda one: (one.end_log_prob is None, -one.score))


def _decoded(one: _Finished, looks: list[_Look]) -> Decoded:
    """Gather where a finished hypothesis looked."""
    own = list(zip(looks, one.rows.tolist(), strict=False))  # the looks of later steps are others'
    shape = len(own), looks[0].alpha.shape[1]
    return Decoded(
        words=tuple(one.words.tolist()),
        log_probs=one.log_probs,
        end_log_prob=one.end_log_prob,
        attention=np.array([look.alpha[row] for look, row in own]).reshape(shape),
        weights=np.array([look.weights[row] for look, row in own]).reshape(shape),
        gates=np.array([look.gate[row] for look, row in own]),
        score=one.score,
    )
