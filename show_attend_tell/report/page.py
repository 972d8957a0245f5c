"""The report's page: one HTML file that opens anywhere and asks for nothing."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.drawing.page import SCRIPT, STYLE, document, escaped, figure
from show_attend_tell.report import charts
from show_attend_tell.report.charts import REPORT_STYLE, Line, panel, panels
from show_attend_tell.report.curves import learning
from show_attend_tell.report.facts import Attention, Entry, Facts, Shown, Sureness
from show_attend_tell.scoring import Diversity, Score
from show_attend_tell.scoring.calibration import calibration_error
from show_attend_tell.scoring.health import word_class
from show_attend_tell.scoring.usage import WordUse

REPORT_SCRIPT = files("show_attend_tell.report").joinpath("report.js").read_text("utf-8")
WORDS_LISTED = 14
GATES_LISTED = 12

Rows = Iterable[Sequence[str]]  # of cells, as HTML

RECIPES = {
    "authors": "authors: full stop kept",
    "plain": "plain: no punctuation",
    "coco": "coco: Penn Treebank",
}
HEADLINES = (  # as the paper's tables count BLEU, then what the field reports
    ("authors", "BLEU-1-nobp", "BLEU-1"),
    ("authors", "BLEU-4-nobp", "BLEU-4"),
    ("coco", "METEOR", "METEOR"),
    ("coco", "ROUGE-L", "ROUGE-L"),
    ("coco", "CIDEr-D", "CIDEr-D"),
)


def report_page(facts: Facts) -> str:
    """Write the page of a report."""
    sections = {
        "scores": ("Scores", _scores(facts)),
        "learning": ("Learning", learning(facts.curves)),
        "examples": ("Best, median and worst", _shown(facts)),
        "words": ("Words", _words(facts.words, facts.told, facts.said)),
        "attention": ("Where it looks", _attention(facts.attention)),
        "grounding": ("Looking into boxes", _grounding(facts.grounding)),
        "sureness": ("How sure it is", _sureness(facts.sureness, facts.gallery)),
        "mistakes": ("Mistakes", _gallery(facts)),
    }
    kept = {name: part for name, part in sections.items() if part[1]}
    title = f"{facts.run} on {facts.split}"
    links = "".join(f'<li><a href="#{name}">{part[0]}</a></li>' for name, part in kept.items())
    bodies = "\n".join(
        f'<section id="{name}" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{heading}</h2>\n{body}</section>'
        for name, (heading, body) in kept.items()
    )
    about = "".join(
        f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}</dd></div>"
        for name, value in facts.about.items()
    )
    body = f"""<header>
<p class="kicker">Report of a captioning model</p>
<h1>{escaped(title)}</h1>
<dl class="about">{about}</dl>
</header>
<nav aria-label="Sections"><ul>{links}</ul></nav>
<main>
{bodies}
</main>"""
    return document(title, body, STYLE + REPORT_STYLE, SCRIPT + REPORT_SCRIPT)


# Scores


def _scores(facts: Facts) -> str:
    tiles = "".join(
        f"<div><dt>{name}</dt><dd>{_number(key, score.value)}</dd>"
        f'<dd class="interval">{_interval(key, score)}</dd></div>'
        for recipe, key, name in HEADLINES
        if (score := facts.scores[recipe].get(key))
    )
    bleu = [f"BLEU-{n}" for n in range(1, 5)]
    meteor = ["METEOR"] if all("METEOR" in scores for scores in facts.scores.values()) else []
    rows = [
        [
            RECIPES[recipe],
            "without" if penalty == "nobp" else "with",
            *(_cell(name, scores[f"{name}-{penalty}"]) for name in bleu),
            *(_cell(name, scores[name]) for name in meteor),
        ]
        for recipe, scores in facts.scores.items()
        for penalty in ("nobp", "bp")
    ]
    heads = ("recipe of scoring", "brevity penalty", *bleu, *meteor)
    signatures: dict[str, list[str]] = {}
    for scores in facts.scores.values():
        for name, score in scores.items():
            signatures.setdefault(score.signature, []).append(name)
    listed = "".join(
        f"<li>{', '.join(dict.fromkeys(_family(name) for name in names))}: "
        f"<code>{escaped(signature)}</code></li>"
        for signature, names in signatures.items()
    )
    lack = f'<p class="sub">METEOR is left out. {escaped(facts.lack)}</p>' if facts.lack else ""
    return f"""<p class="sub">Over {facts.pictures:,} captions told by the search, each score
with its 95 % bootstrap interval. In the boxes BLEU is as the paper counts it, without brevity
penalty, and the rest by coco's recipe. CIDEr-D runs from 0 to 10; all others are in percent.</p>
<dl class="tiles">{tiles}</dl>
{lack}
{_table("The same captions under every recipe of scoring", heads, rows)}
<details><summary>Signatures: scores may be compared when these agree</summary>
<ul class="signatures">{listed}</ul></details>
"""


def _cell(name: str, score: Score) -> str:
    return f'{_number(name, score.value)}<span class="interval">{_interval(name, score)}</span>'


def _number(name: str, value: float) -> str:
    return f"{value:.3f}" if name == "CIDEr-D" else f"{100 * value:.1f}"


def _interval(name: str, score: Score) -> str:
    if score.low is None or score.high is None:
        return ""
    return f"{_number(name, score.low)} to {_number(name, score.high)}"


def _family(name: str) -> str:
    """The name of a metric without its order: BLEU-1-bp to BLEU-4-bp are BLEU-bp."""
    return re.sub(r"^BLEU-\d", "BLEU", name)


# Captions


def _shown(facts: Facts) -> str:
    rank = _ranked_by(facts.gallery)
    parts = [
        f"""<p class="sub">Ranked by {rank} of each caption alone. Point at a word, touch it, or
move with the arrow keys: the picture stays light where the model looked for that word; the line
under a word is its gate β.</p>
"""
    ]
    for title, several in facts.shown.items():
        cards = "\n".join(_card(one) for one in several)
        parts.append(f'<h3>{escaped(title)}</h3>\n<div class="figures">\n{cards}\n</div>\n')
    return "".join(parts)


def _card(shown: Shown) -> str:
    entry = shown.entry
    if shown.caption and shown.picture:
        top = figure(entry.id, shown.caption, shown.picture, level=4)
    else:
        top = (
            f'<h4>{escaped(entry.id)}</h4><p class="gone">The picture is not there any more.</p>'
            f'<p class="words">{escaped(entry.caption)}</p>'
        )
    return f'<div class="card">{top}\n{_worth(entry)}{_people(entry)}</div>'


def _gallery(facts: Facts) -> str:
    count = len(facts.gallery)
    which = (
        f"All {count:,} captions"
        if count == facts.pictures
        else f"The {count:,} lowest of {facts.pictures:,} captions"
    )
    missing = (
        f" The pictures of {facts.without_picture:,} are not there any more; "
        "--pictures FOLDER says where they are now."
        if facts.without_picture
        else ""
    )
    items = "\n".join(map(_item, facts.gallery))
    rank = _ranked_by(facts.gallery)
    return f"""<p class="sub">{which}, the lowest {rank} first. <mark>Marked</mark> are words with
a meaning that no person used of the picture in that form.{missing}</p>
<form class="controls" role="search" aria-label="Captions">
<label>Only with the word <input type="search" id="wanted" autocomplete="off"></label>
<label>Order <select id="order"><option value="score">lowest score first</option>
<option value="-score">highest score first</option><option value="-sure">surest first</option>
<option value="sure">least sure first</option></select></label>
<output id="found">{count:,} captions</output>
</form>
<ol class="gallery" id="gallery">
{items}
</ol>
"""


def _item(entry: Entry) -> str:
    picture = (
        f'<img src="{entry.thumbnail}" alt="" loading="lazy" decoding="async">'
        if entry.thumbnail
        else '<span class="gone">no picture</span>'
    )
    score = next(iter(entry.scores.values()))
    return (
        f'<li data-score="{score:.4f}" data-sure="{entry.confidence:.4f}">'
        f'<div class="thumb">{picture}</div><div><p class="told-text">{_marked(entry)}</p>'
        f"{_worth(entry)}{_people(entry)}"
        f'<p class="id">{escaped(entry.id)}</p></div></li>'
    )


def _worth(entry: Entry) -> str:
    scores = " · ".join(f"{name} {_number(name, value)}" for name, value in entry.scores.items())
    return f'<p class="worth">{scores} · confidence&nbsp;{entry.confidence:.2f}</p>'


def _people(entry: Entry) -> str:
    # Some data sets keep a blank before every mark.
    texts = (re.sub(r" +(?=[.,;:!?])", "", text) for text in entry.references)
    said = "".join(f"<li>{escaped(text)}</li>" for text in texts)
    return f'<ul class="people" aria-label="What people said">{said}</ul>'


def _marked(entry: Entry) -> str:
    """The caption, each content word marked that is in none of the references."""
    known = set(re.findall(r"\w+", " ".join(entry.references).lower()))
    pieces = re.split(r"(\w+)", entry.caption)
    return "".join(
        f"<mark>{escaped(piece)}</mark>"
        if word_class(piece) == "content" and piece.lower() not in known
        else escaped(piece)
        for piece in pieces
    )


def _ranked_by(gallery: Sequence[Entry]) -> str:
    return next(iter(gallery[0].scores))


# Words


def _words(words: Sequence[WordUse], told: Diversity, said: Diversity) -> str:
    lengths = {
        name: {length: count / of.captions for length, count in of.lengths.items()}
        for name, of in (("told", told), ("said", said))
    }
    longest = max(map(_usual_longest, (told, said)))
    lengths = {
        name: {length: share for length, share in of.items() if length <= longest}
        for name, of in lengths.items()
    }
    means = [
        sum(length * count for length, count in of.lengths.items()) / of.captions
        for of in (told, said)
    ]
    summary = f"The model's captions have {means[0]:.1f} words, people's {means[1]:.1f}."
    histogram = charts.columns(
        "Lengths of captions", summary, lengths, x_label="words in a caption, without punctuation"
    )
    rows = [
        ["different words", f"{told.vocabulary:,}", f"{said.vocabulary:,}"],
        ["captions", f"{told.captions:,}", f"{said.captions:,}"],
        ["different captions", f"{told.unique:.1%}", f"{said.unique:.1%}"],
        ["words a caption", f"{means[0]:.1f}", f"{means[1]:.1f}"],
    ]
    if told.unseen is not None:
        rows.append(["none of the training captions", f"{told.unseen:.1%}", "–"])
    frequent = sorted(words, key=lambda one: -one.said)[:WORDS_LISTED]
    over = [one for one in words[:WORDS_LISTED] if one.surplus > 0]
    under = [one for one in reversed(words[-WORDS_LISTED:]) if one.surplus < 0]
    return (
        panels(
            panel("Lengths", f"{summary} {_KEY}", histogram),
            f'<div class="panel"><h3>Variety</h3>'
            f"{_table('Variety', ('of all', 'model', 'people'), rows)}</div>",
        )
        + f'<p class="sub">In each thousand words, on a square-root scale; {_KEY_WORDS}. Over- and '
        "under-used are ranked by how surely the counts differ (log-likelihood ratio), not by how "
        "much.</p>\n"
        + panels(
            _use("Most frequent", frequent),
            _use("Told too often", over),
            _use("Told too seldom", under),
        )
    )


_KEY_WORDS = '<b class="told-text">blue the model</b>, <b class="said-text">orange people</b>'
_KEY = f"Columns: {_KEY_WORDS}."


def _use(title: str, words: Sequence[WordUse]) -> str:
    most = max((max(one.told, one.said) for one in words), default=1.0)
    rows = [
        [
            escaped(one.word),
            f"{one.told:.1f}",
            f"{one.said:.1f}",
            charts.dumbbell(one.told, one.said, most),
        ]
        for one in words
    ]
    table = _table(title, ("word", "model", "people", "both"), rows) if rows else "<p>None.</p>"
    return f'<div class="panel"><h3>{title}</h3>{table}</div>'


def _usual_longest(of: Diversity) -> int:
    """The length that 99.5 % of captions do not pass."""
    below = 0
    for length, count in of.lengths.items():
        below += count
        if below >= 0.995 * of.captions:
            return length
    return 1


# Attention


def _attention(attention: Attention) -> str:
    health, grid = attention.health, attention.coverage
    most = max(moment.captions for moment in attention.moments)
    # The few longest captions would draw a line of their own.
    moments = [one for one in attention.moments if one.captions >= 0.05 * most]
    places = grid.size
    even = math.log(places)
    entropy = [(float(i), one.entropy) for i, one in enumerate(moments, start=1)]
    change = [
        (float(i), 100 * one.change)
        for i, one in enumerate(moments, start=1)
        if one.change is not None
    ]
    gate = [(float(i), one.gate) for i, one in enumerate(moments, start=1)]
    drawn = [
        panel(
            "Entropy over time",
            f"Nats; {even:.2f} would be looking at all {places} places alike, 0 at a single one. "
            f"The mean is {health.entropy:.2f}.",
            charts.lines(
                "Entropy of attention by word",
                f"From {entropy[0][1]:.2f} nats at the first word to {entropy[-1][1]:.2f} at word "
                f"{len(entropy)}.",
                [
                    Line("even", [(1.0, even), (float(len(entropy)), even)], "faint"),
                    Line("model", entropy, "told", dotted=True),
                ],
                x_label="word of the caption",
                y=(0, even * 1.1),
            ),
        )
    ]
    if change:
        drawn.append(
            panel(
                "Movement over time",
                f"Per cent of the weight that moves from the word before. The mean is "
                f"{100 * health.change:.0f} %; two pictures' maps share "
                f"{100 * health.likeness:.0f} % in the same step.",
                charts.lines(
                    "Movement of attention by word",
                    f"Mean {100 * health.change:.0f} per cent of the weight.",
                    [Line("model", change, "told", dotted=True)],
                    x_label="word of the caption",
                    y=(0, max(value for _, value in change) * 1.2),
                ),
            )
        )
    if attention.gates:
        classes = [
            [name if name == "punctuation" else f"{name} words", f"{gate:.2f}", charts.bar(gate)]
            for name, gate in health.gates.items()
        ]
        drawn.append(
            panel(
                "Gate over time",
                "β, how much the picture counts: 0 not at all, 1 in full.",
                charts.lines(
                    "Gate by word",
                    f"From {gate[0][1]:.2f} at the first word to {gate[-1][1]:.2f} at word "
                    f"{len(gate)}.",
                    [Line("model", gate, "told", dotted=True)],
                    x_label="word of the caption",
                    y=(0, 1),
                )
                + "<h3>Gate by word class</h3>"
                + _table("Gate by word class", ("class", "mean β", "bar"), classes),
            )
        )
    return panels(*drawn) + panels(_coverage(grid), *_gates(attention.gates))


def _coverage(grid: NDArray[np.float64]) -> str:
    rows, columns = grid.shape
    return panel(
        "Coverage",
        f"Σ<sub>t</sub> α: how often a caption looks at each of {rows} × {columns} places, the "
        f"mean over captions; looking everywhere alike would give {grid.mean():.2f} each. Yellow "
        "is most, blue least.",
        charts.heat_map(
            "Coverage of places",
            f"From {grid.min():.2f} to {grid.max():.2f}, mean {grid.mean():.2f}.",
            grid,
        ),
    )


def _gates(gates: Mapping[str, float]) -> list[str]:
    """The words with the highest gates, and those with the lowest."""
    count = min(GATES_LISTED, len(gates) // 2)
    listed = [[escaped(word), f"{gate:.2f}", charts.bar(gate)] for word, gate in gates.items()]
    chosen = {
        "Words that look most": listed[:count],
        "Words that look least": listed[::-1][:count],
    }
    return [
        f'<div class="panel"><h3>{title}</h3>{_table(title, ("word", "mean β", "bar"), rows)}</div>'
        for title, rows in chosen.items()
        if rows
    ]


# Grounding


def _grounding(scores: Mapping[str, Score]) -> str:
    if not scores:
        return ""
    names = {"mass": "attention inside the boxes", "pointing": "most attended place inside"}
    rows = [
        [
            title,
            f'{100 * scores[name].value:.1f} %<span class="interval">'
            f"{_interval(name, scores[name])}</span>",
            *(f"{100 * scores[f'{name}-{other}'].value:.1f} %" for other in ("even", "centre")),
        ]
        for name, title in names.items()
    ]
    heads = ("while it is taught a word with a box", "model", "even attention", "always the centre")
    return f"""<p class="sub">Taught captions whose phrases people drew boxes for, the model should
look into the box of what it names. The two baselines look everywhere alike, and always at the
centre.</p>
{_table("Where it looks against boxes", heads, rows)}
<p class="sub"><code>{escaped(scores["mass"].signature)}</code></p>
"""


# Sureness


def _sureness(sureness: Sureness, gallery: Sequence[Entry]) -> str:
    error = calibration_error(sureness.words)
    count = sum(group.count for group in sureness.words)
    right = sum(group.count * group.worth for group in sureness.words) / count
    rank = _ranked_by(gallery)
    words = charts.reliability_diagram(
        "Reliability of word probabilities",
        f"Expected calibration error {100 * error:.1f} per cent over {count:,} words; "
        f"{100 * right:.1f} per cent were right.",
        sureness.words,
    )
    captions = charts.worth_by_confidence(
        f"{rank} by confidence",
        f"From {sureness.captions[0].worth:.2f} for the least sure to "
        f"{sureness.captions[-1].worth:.2f} for the surest.",
        sureness.captions,
        ".2f" if rank == "CIDEr-D" else ".1f",
    )
    correlation = (
        f" Their rank correlation is {sureness.correlation:.2f}."
        if sureness.correlation is not None
        else ""
    )
    return panels(
        panel(
            "Of the next word",
            "Given the picture and a person's words so far: how often was the word that the model "
            f"thought likeliest the one that the person wrote next, the end included? It was in "
            f"{100 * right:.0f} % of {count:,}; expected calibration error {100 * error:.1f} %.",
            words,
        ),
        panel(
            "Of a caption",
            f"Captions told, in ten groups by confidence, which is the geometric mean of their "
            f"words' probabilities: mean {rank} of each group.{correlation}",
            captions,
        ),
    )


# Pieces


def _table(name: str, heads: Sequence[str], rows: Rows) -> str:
    """A table whose first column names its rows; it scrolls by itself where it is too wide."""
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for first, *cells in rows
    )
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{escaped(name)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
