"""The mean of several runs' weights, as a run of its own (model soups, Wortsman et al. 2022)."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from show_attend_tell.errors import UserError
from show_attend_tell.files import RunLock, cannot_write, write_json_lines, write_text
from show_attend_tell.learning.loop import checkpoint
from show_attend_tell.learning.run import (
    BEST,
    RECIPE,
    VOCABULARY,
    Run,
    check_same,
    check_shapes,
    check_words,
    features_of,
    mean_in_words,
    versions,
)
from show_attend_tell.learning.watching.events import Stop, to_line


def average_runs(folders: Sequence[Path], out: Path) -> str:
    """Make a run whose weights are the mean of other runs' best weights.

    Parameters
    ----------
    folders
        Runs of the same features, vocabulary and sizes; one named twice counts twice. The first
        gives the recipe.
    out
        The run folder to make. It has no state of training, only weights: it can be evaluated,
        exported and started from, not resumed.

    Returns
    -------
    str
        Which runs were averaged, with their shares.

    Raises
    ------
    UserError
        Runs that do not go together, or a folder that holds a run.
    """
    if (out / RECIPE).exists():
        raise UserError("run.exists", f"{out}: holds a run already; name another folder")
    if len(set(folders)) < 2:
        raise UserError("request.bad", "an average needs two different runs or more; name another")
    runs = [Run.open(folder) for folder in dict.fromkeys(folders)]
    _check_alike(runs)
    first = runs[0]
    states = [run.decoder.state_dict() for run in runs]
    counts = Counter(folders)
    shares = [counts[run.folder] / len(folders) for run in runs]
    mean = {
        name: sum(share * state[name] for share, state in zip(shares, states, strict=True))
        for name in states[0]
    }
    first.decoder.load_state_dict(mean)  # which gives them back their types
    names = [str(folder) for folder in folders]
    words = mean_in_words(names)
    meta = {
        "vocabulary": first.vocabulary.sha256,
        "features": first.features.model_dump(),
        "recipe": first.recipe.model_dump(),
        "start_from": names,
        "epoch": 0,
        "versions": versions(),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(out, error) from error
    with RunLock(out):
        first.vocabulary.save(out / VOCABULARY)
        checkpoint.save(out / BEST, first.decoder.state_dict(), meta)
        write_json_lines(out / "log.jsonl", [to_line(Stop(step=0, reason=words))])
        write_text(out / RECIPE, first.recipe.to_toml())  # last: it says that the rest is there
    return words


def _check_alike(runs: Sequence[Run]) -> None:
    """Check that runs have the features, vocabulary and shapes of the first."""
    first, *others = runs
    for run in others:
        check_same(
            features_of(run.features),
            features_of(first.features),
            "model.features",
            f"{run.folder}: was trained on other features than {first.folder}",
            "only runs of the same features can be averaged",
        )
        check_words(run, first.vocabulary)
        check_shapes(run.folder, run.decoder.state_dict(), first.decoder.state_dict())
