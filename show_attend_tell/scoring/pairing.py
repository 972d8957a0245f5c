"""Each caption put to its picture: by id, by file name, or in order.

What could shift captions against pictures is an error; what is left out or odd is counted in the
notes.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath

from show_attend_tell.errors import UserError, counted
from show_attend_tell.rows import short
from show_attend_tell.scoring.files import Candidates, References, some

# What models write for a word they do not know, or for the end of a sentence.
_MARKS = re.compile(r"</?(?:unk|start|end|pad|bos|eos|s)>", re.IGNORECASE)


def pair(
    candidates: Candidates, references: References, *, subset: bool = False
) -> tuple[dict[str, str], list[str]]:
    """Put each caption to its picture.

    Ids are compared as text first, so that 7 and "7" are the same. Where that does not find every
    picture, file names are compared without folders, then without endings, then by the number in
    COCO's file names (`COCO_val2014_000000391895.jpg` is 391895); the first of these that finds
    most is taken, for all captions alike.

    Parameters
    ----------
    subset
        Whether pictures without a caption are left out, instead of being an error.

    Returns
    -------
    captions
        By the ids of the references, in their order.
    notes
        How they were matched, and what was left out or is odd.
    """
    if candidates.has_ids and references.has_ids:
        captions, notes = _by_names(candidates, references, subset)
    else:
        captions, notes = _by_order(candidates, references, subset)
    which = "picture" if references.has_ids else "line"
    for problem, ids in (
        ("empty and scored as such", [i for i, text in captions.items() if not text.strip()]),
        (
            "written with a model's own marks such as <unk>, scored as words",
            [i for i, text in captions.items() if _MARKS.search(text)],
        ),
    ):
        if ids:
            number = counted(len(ids), "caption")
            are = "is" if len(ids) == 1 else "are"
            where = f"{which}{'' if len(ids) == 1 else 's'} {some(ids)}"
            notes.append(f"{candidates.source}: {number} {are} {problem} ({where}).")
    if candidates.failed:
        notes.append(f"{candidates.source}: {_failures(candidates)}.")
    return captions, [*candidates.notes, *notes]


def _failures(candidates: Candidates) -> str:
    number = counted(len(candidates.failed), "picture")
    return f"{number} failed to be captioned ({some(candidates.failed)})"


def common(
    systems: Mapping[str, Mapping[str, str]], references: Mapping[str, Sequence[str]]
) -> tuple[dict[str, dict[str, str]], dict[str, Sequence[str]], str]:
    """Keep the pictures of which every system has a caption.

    Returns
    -------
    The systems' captions and the references, of these pictures alone; a note that counts them.
    """
    kept = [id_ for id_ in references if all(id_ in captions for captions in systems.values())]
    if not kept:
        remedy = "score files of the same pictures"
        raise UserError("score.missing", f"no picture has a caption in every file; {remedy}")
    left = sorted(references.keys() - set(kept))
    return (
        {name: {id_: captions[id_] for id_ in kept} for name, captions in systems.items()},
        {id_: references[id_] for id_ in kept},
        f"scored {len(kept):,} of the {len(references):,} pictures, those with a caption in every "
        f"file; left out {len(left):,} ({some(left)}).",
    )


def _by_order(
    candidates: Candidates, references: References, subset: bool
) -> tuple[dict[str, str], list[str]]:
    if candidates.has_ids:
        problem = f"captions with ids cannot be put to {references.source}, which has none"
        remedy = "give both as text in the same order, or both with ids"
        raise UserError("score.no_ids", f"{candidates.source}: {problem}; {remedy}")
    if not references.has_order:
        problem = f"captions without ids, and the pictures of {references.source} have no order"
        remedy = "give the captions with ids, in .jsonl or .csv"
        raise UserError("score.no_ids", f"{candidates.source}: {problem}; {remedy}")
    texts, ids = list(candidates.captions.values()), list(references.captions)
    if len(texts) != len(ids):
        what = counted(len(ids), "picture" if references.has_ids else "line")
        remedy = "without ids, caption i must be that of picture i"
        if subset:
            remedy += "; --subset needs captions and references with ids"
        if not texts[-1].strip():
            remedy += f"; the last line of {candidates.source} is blank"
        raise UserError(
            "data.lines",
            f"{candidates.source} has {counted(len(texts), 'caption')} and "
            f"{references.source} has {what}; {remedy}",
        )
    notes = []
    if references.has_ids:
        taken = f"in the order of {references.source}, from {short(ids[0])} to {short(ids[-1])}"
        notes.append(f"{candidates.source}: its captions have no ids and were taken {taken}.")
    return dict(zip(ids, texts, strict=True)), notes


def _file_name(name: str) -> str:
    """Without folders; composed and decomposed accents are the same."""
    return unicodedata.normalize("NFC", re.split(r"[/\\]", name)[-1])


def _stem(name: str) -> str:
    return PurePath(_file_name(name)).stem


def _coco_number(name: str) -> str:
    found = re.fullmatch(r"(?:COCO_[a-z]+\d{4}_)?0*(\d+)", _stem(name))
    return found[1] if found else name


_WAYS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("by id", str),
    ("by file name", _file_name),
    ("by file name without its ending", _stem),
    ("by COCO's number", _coco_number),
)


def _by_names(
    candidates: Candidates, references: References, subset: bool
) -> tuple[dict[str, str], list[str]]:
    total = len(references.captions)
    way, found = "", dict[str, list[str]]()  # id of a picture -> ids of its captions
    for name, key in _WAYS:
        names = references.names if key is not str else {}
        pictures = {key(names.get(id_, id_)): id_ for id_ in references.captions}
        if len(pictures) < total:
            continue  # two pictures would become one
        here: dict[str, list[str]] = {}
        for id_ in candidates.captions:
            if (picture := pictures.get(key(id_))) is not None:
                here.setdefault(picture, []).append(id_)
        if not way or len(here) > len(found):
            way, found = name, here
        if len(found) == total:
            break
    _check_fit(candidates, references, found, subset)
    notes = []
    if way != "by id":
        first = next(id_ for id_ in references.captions if id_ in found)
        example = f"{short(found[first][0])} is {short(first)}"
        notes.append(f"{candidates.source}: matched with the references {way} ({example}).")
    if extra := len(candidates.captions) - len(found):
        known = {id_ for (id_,) in found.values()}
        left = some([id_ for id_ in candidates.captions if id_ not in known])
        what = f"{counted(extra, 'caption')} of pictures without references"
        notes.append(f"{candidates.source}: left out {what} ({left}).")
    captions = {
        id_: candidates.captions[found[id_][0]] for id_ in references.captions if id_ in found
    }
    return captions, notes


def _check_fit(
    candidates: Candidates,
    references: References,
    found: Mapping[str, Sequence[str]],
    subset: bool,
) -> None:
    for picture, ids in found.items():
        if len(ids) > 1:
            problem = f"{some([short(id_) for id_ in ids])} are captions of one picture"
            raise UserError(
                "data.duplicate",
                f"{candidates.source}: {problem} ({short(picture)}); keep one of them",
            )
    if not found:
        there, here = (short(next(iter(one.captions))) for one in (candidates, references))
        problem = f"no caption's id is one of {references.source}: {there} here, {here} there"
        raise UserError("score.ids", f"{candidates.source}: {problem}; give both the same ids")
    missing = [id_ for id_ in references.captions if id_ not in found]
    if missing and not subset:
        number = f"{len(missing):,} of the {len(references.captions):,} pictures"
        problem = f"no caption of {number} of {references.source} ({some(missing)})"
        if candidates.failed:
            problem += f"; {_failures(candidates)}"
        remedy = "caption them too, or score only the pictures that have both with --subset"
        raise UserError("score.missing", f"{candidates.source}: {problem}; {remedy}")
