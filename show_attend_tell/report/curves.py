"""How learning went: a section of the report, and a page of its own in every run folder."""

from show_attend_tell.drawing.page import STYLE, document, escaped
from show_attend_tell.report import charts
from show_attend_tell.report.charts import REPORT_STYLE, Line, panel, panels
from show_attend_tell.report.facts import Curves


def curves_page(run: str, curves: Curves) -> str:
    """Write the page that shows how a run has been learning so far."""
    last = max(epoch for points in (curves.dev, *curves.scores.values()) for epoch, _ in points)
    body = f"""<header>
<p class="kicker">Learning curves</p>
<h1>{escaped(run)}</h1>
</header>
<main class="curves">
<p class="sub">After epoch {last:g}. Epoch {curves.best} is kept: it has the best dev score so far.
While training goes on, this file is written again after every epoch; reload it then.</p>
{learning(curves)}</main>"""
    return document(f"Learning curves of {run}", body, STYLE + REPORT_STYLE, "")


def learning(curves: Curves | None) -> str:
    """The losses and the dev scores by epoch, as HTML; a sentence where nothing is known."""
    if curves is None:
        return '<p class="sub">The run has no log.jsonl, so how it learned is not known.</p>\n'
    drawn = [_losses(curves)]
    if curves.scores:
        drawn.append(_scores(curves))
    return panels(*drawn)


def _losses(curves: Curves) -> str:
    nats = [value for _, value in (*curves.training, *curves.dev)]
    # The first steps fall from the logarithm of the vocabulary; they would press the rest flat.
    top = sorted(nats)[int(0.97 * len(nats))] + 0.2
    training = [point for point in curves.training if point[1] <= top]
    named = (("training", training, "quiet"), ("dev", curves.dev, "generated"))
    dev = dict(curves.dev)
    drawn = charts.lines(
        "Loss by epoch",
        f"Nats a word of training and dev captions; dev ends at {curves.dev[-1][1]:.2f}."
        if curves.dev
        else "Nats a word of training captions.",
        [Line(name, points, kind, dotted=name == "dev") for name, points, kind in named if points],
        x_label="epoch",
        y=(min(nats) - 0.1, top),
        marker=_kept(curves),
    )
    kept = f" The kept epoch has {dev[curves.best]:.3f}." if curves.best in dev else ""
    return panel("Loss", f"Nats a word, teacher-forced.{kept}", drawn)


def _scores(curves: Curves) -> str:
    drawn = charts.lines(
        "BLEU by epoch",
        "; ".join(
            f"{name} of the kept epoch {100 * dict(points).get(curves.best, 0):.1f}"
            for name, points in curves.scores.items()
        ),
        [
            Line(name, [(x, 100 * y) for x, y in points], f"ramp-{order}", dotted=True)
            for order, (name, points) in enumerate(curves.scores.items(), start=1)
        ],
        x_label="epoch",
        y=(0, 100 * max(y for points in curves.scores.values() for _, y in points) * 1.15),
        marker=_kept(curves),
    )
    return panel("BLEU on dev", "In percent, of captions generated after every epoch.", drawn)


def _kept(curves: Curves) -> tuple[float, str]:
    return curves.best, f"epoch {curves.best}, kept"
