"""Charts as inline SVG: few kinds, quiet axes, every line and dot named beside it.

Colours are classes that the page's style fills, so that a chart suits light and dark.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.drawing.page import escaped
from show_attend_tell.errors import counted
from show_attend_tell.report.facts import Points
from show_attend_tell.scoring.analysis.calibration import Bin

REPORT_STYLE = files("show_attend_tell.report").joinpath("report.css").read_text("utf-8")

# In the units of a drawing, about a pixel on a phone.
WIDTH, HEIGHT = 380, 230
LEFT, TOP, BOTTOM = 38, 12, 40
LABEL_HEIGHT = 15
LETTER = 7.2  # the usual width of one

# Cividis (Nuñez, Anderton and Renslow 2018), from little to much: the same to all eyes.
CIVIDIS = ((0, 34, 78), (67, 78, 108), (125, 124, 120), (188, 174, 108), (254, 232, 56))


@dataclass(frozen=True)
class Line:
    """A line, or dots on it; `kind` is its class in the page's style."""

    name: str
    points: Points
    kind: str
    dotted: bool = False


@dataclass(frozen=True)
class _Frame:
    """Where numbers lie on the drawing."""

    x: tuple[float, float]
    y: tuple[float, float]
    right: float = 12
    width: float = WIDTH
    height: float = HEIGHT

    def across(self, x: float) -> float:
        low, high = self.x
        return LEFT + (x - low) / (high - low) * (self.width - LEFT - self.right)

    def down(self, y: float) -> float:
        low, high = self.y
        return self.height - BOTTOM - (y - low) / (high - low) * (self.height - TOP - BOTTOM)

    def at(self, x: float, y: float) -> str:
        return f"{self.across(x):.1f} {self.down(y):.1f}"

    def grid(
        self, x_label: str, x_at: Sequence[float], x_form: str = "g", y_form: str = "g"
    ) -> str:
        """Lines across, numbers at both axes, and what runs along the lower one."""
        end, base = self.width - self.right, self.height - BOTTOM
        parts = [
            f'<path class="grid" d="M{LEFT} {self.down(y):.1f}H{end:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{self.down(y) + 4:.1f}" text-anchor="end">{y:{y_form}}</text>'
            for y in ticks(*self.y, most=5)
        ]
        parts += [
            f'<text x="{self.across(x):.1f}" y="{base + 16}" text-anchor="middle">{x:{x_form}}'
            "</text>"
            for x in x_at
        ]
        middle = (LEFT + end) / 2
        parts.append(
            f'<text x="{middle:.1f}" y="{self.height - 5:.1f}" text-anchor="middle">'
            f"{escaped(x_label)}</text>"
        )
        return "".join(parts)


def ticks(low: float, high: float, *, most: int, whole: bool = False) -> list[float]:
    """Round numbers from low to high, at most so many, evenly apart.

    >>> ticks(0, 1, most=5), ticks(2.1, 7.4, most=5), ticks(0.5, 3.5, most=9, whole=True)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [4.0, 6.0], [1.0, 2.0, 3.0])
    """
    least = (high - low) / most
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * times for times in (1, 2, 5, 10) if power * times >= least * (1 - 1e-9))
    if whole:
        step = max(1.0, step)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def lines(
    title: str,
    summary: str,
    drawn: Sequence[Line],
    *,
    x_label: str,
    y: tuple[float, float],
    marker: tuple[float, str] | None = None,
) -> str:
    """Lines over epochs or words, each with its name at its end; `marker` is an upright line."""
    first = min(line.points[0][0] for line in drawn)
    last = max(line.points[-1][0] for line in drawn)
    if first == last:
        first, last = first - 1, last + 1
    if y[0] == y[1]:
        y = (y[0], y[1] + 1)
    longest = max(len(line.name) for line in drawn)
    frame = _Frame((first, last), y, right=14 + LETTER * longest)
    parts = [frame.grid(x_label, ticks(first, last, most=7, whole=True))]
    if marker:
        x = frame.across(marker[0])
        side = "end" if x > WIDTH / 2 else "start"
        parts.append(
            f'<path class="marker" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
            f'<text class="marker-label" x="{x + (-5 if side == "end" else 5):.1f}" y="{TOP + 8}" '
            f'text-anchor="{side}">{escaped(marker[1])}</text>'
        )
    for line in drawn:
        kept = [(a, min(max(b, y[0]), y[1])) for a, b in line.points]
        path = "L".join(frame.at(*point) for point in kept)
        parts.append(f'<path class="line {line.kind}" d="M{path}"/>')
        if line.dotted:
            parts += [f'<path class="dot {line.kind}" d="M{frame.at(*p)}h0"/>' for p in kept]
    ends = [frame.down(min(max(line.points[-1][1], y[0]), y[1])) for line in drawn]
    for line, at in zip(drawn, _apart(ends), strict=True):
        x = frame.across(line.points[-1][0]) + 8
        parts.append(
            f'<text class="name {line.kind}" x="{x:.1f}" y="{at + 4:.1f}">{escaped(line.name)}'
            "</text>"
        )
    return _svg(title, summary, "".join(parts))


def columns(
    title: str, summary: str, heights: Mapping[str, Mapping[int, float]], *, x_label: str
) -> str:
    """Shares by whole numbers, a column of each kind side by side; at most two kinds."""
    low = min(min(of) for of in heights.values())
    high = max(max(of) for of in heights.values())
    top = max(max(of.values()) for of in heights.values())
    frame = _Frame((low - 0.6, high + 0.6), (0, top * 1.12))
    width = (frame.across(1) - frame.across(0)) * 0.82 / len(heights)
    parts = [frame.grid(x_label, ticks(low - 0.5, high + 0.5, most=7, whole=True), y_form=".0%")]
    base = frame.down(0)
    for index, (name, shares) in enumerate(heights.items()):
        for number, share in shares.items():
            x = frame.across(number) + width * (index - len(heights) / 2)
            parts.append(
                f'<rect class="{name}" x="{x:.1f}" y="{frame.down(share):.1f}" '
                f'width="{max(width - 0.8, 0.6):.1f}" height="{base - frame.down(share):.1f}">'
                f"<title>{number}: {share:.1%}</title></rect>"
            )
    return _svg(title, summary, "".join(parts))


def reliability_diagram(title: str, summary: str, bins: Sequence[Bin]) -> str:
    """How often right, by confidence; a dot's area is the number of words behind it."""
    frame = _Frame((0, 1), (0, 1), right=22, height=320)
    most = max(one.count for one in bins)
    path = "L".join(frame.at(one.confidence, one.outcome) for one in bins)
    parts = [
        frame.grid("probability of the likeliest word", ticks(0, 1, most=5), ".0%", ".0%"),
        f'<path class="ideal" d="M{frame.at(0, 0)}L{frame.at(1, 1)}"/>',
        f'<text class="quiet" x="{frame.across(0.04):.1f}" y="{frame.down(0.88):.1f}">'
        "under-confident</text>",
        f'<text class="quiet" x="{frame.across(0.96):.1f}" y="{frame.down(0.1):.1f}" '
        'text-anchor="end">over-confident</text>',
        f'<path class="line generated" d="M{path}"/>',
    ]
    for one in bins:
        x, y = frame.at(one.confidence, one.outcome).split()
        radius = 3 + 8 * math.sqrt(one.count / most)
        parts.append(
            f'<circle class="generated" cx="{x}" cy="{y}" r="{radius:.1f}">'
            f"<title>{counted(one.count, 'word')}: confidence {one.confidence:.1%}, "
            f"right {one.outcome:.1%}"
            "</title></circle>"
        )
    return _svg(title, summary, "".join(parts), height=320)


def score_by_confidence(title: str, summary: str, bins: Sequence[Bin], form: str) -> str:
    """Mean score of captions, from the tenth of lowest confidence to that of highest."""
    top = max(one.outcome for one in bins) or 1.0
    frame = _Frame((0.4, len(bins) + 0.6), (0, top * 1.15), height=320)
    width = (frame.across(1) - frame.across(0)) * 0.78
    base = frame.down(0)
    parts = [frame.grid("confidence, from the lowest tenth to the highest", ())]
    for place, one in enumerate(bins, start=1):
        x, y = frame.across(place), frame.down(one.outcome)
        parts.append(
            f'<rect class="generated" x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{base - y:.1f}"/><text class="quiet" x="{x:.1f}" y="{y - 5:.1f}" '
            f'text-anchor="middle">{one.outcome:{form}}</text>'
            f'<text x="{x:.1f}" y="{base + 16:.1f}" text-anchor="middle">'
            f"{one.confidence:.2f}</text>"
        )
    return _svg(title, summary, "".join(parts), height=320)


def heat_map(title: str, summary: str, values: NDArray[np.float64]) -> str:
    """Numbers of a grid as colours, from its least to its largest; written out in a small grid."""
    rows, cells = values.shape
    side = 360 / max(rows, cells)
    low, high = float(values.min()), float(values.max())
    parts = []
    for (row, column), value in np.ndenumerate(values):
        share = (float(value) - low) / (high - low) if high > low else 0.5
        x, y = column * side, row * side
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}" '
            f'fill="{_colour(share)}"><title>{value:.3f}</title></rect>'
        )
        if max(rows, cells) <= 10:
            ground = "on-dark" if share < 0.5 else "on-light"
            parts.append(
                f'<text x="{x + side / 2:.1f}" y="{y + side / 2 + 4:.1f}" text-anchor="middle" '
                f'class="inside {ground}">{value:.2f}</text>'
            )
    return _svg(title, summary, "".join(parts), width=cells * side, height=rows * side)


def panels(*drawn: str) -> str:
    """Panels side by side where there is room, as HTML."""
    return '<div class="panels">\n' + "\n".join(drawn) + "\n</div>\n"


def panel(title: str, explained: str, svg: str) -> str:
    """A chart below its heading and what it shows; `explained` and `svg` are HTML."""
    return f'<div class="panel"><h3>{title}</h3><p class="sub">{explained}</p>{svg}</div>'


def dumbbell(generated: float, reference: float, most: float) -> str:
    """Two numbers as dots on one line, for a cell of a table that has both in words."""
    a, b = (6 + 108 * math.sqrt(value / most) for value in (generated, reference))
    return (
        '<svg class="dumbbell" viewBox="0 0 120 14" aria-hidden="true">'
        f'<path class="bar" d="M{a:.1f} 7H{b:.1f}"/><circle class="reference" cx="{b:.1f}" cy="7" '
        f'r="4.5"/><circle class="generated" cx="{a:.1f}" cy="7" r="4.5"/></svg>'
    )


def bar(share: float) -> str:
    """A number from 0 to 1 as a bar, for a cell of a table that has it in words."""
    return (
        '<svg class="dumbbell" viewBox="0 0 120 14" aria-hidden="true"><path class="track" '
        f'd="M0 7H120"/><path class="filled" d="M0 7H{120 * share:.1f}"/></svg>'
    )


def _svg(
    title: str, summary: str, inside: str, *, width: float = WIDTH, height: float = HEIGHT
) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {width:g} {height:g}" role="img">'
        f"<title>{escaped(title)}</title><desc>{escaped(summary)}</desc>{inside}</svg>"
    )


def _apart(places: Sequence[float]) -> list[float]:
    """Move labels so that none lies on another, keeping their order.

    >>> _apart([50, 10, 52])
    [50, 10, 65]
    """
    moved = list(places)
    taken = -math.inf
    for index in sorted(range(len(places)), key=lambda i: places[i]):
        moved[index] = taken = max(places[index], taken + LABEL_HEIGHT)
    return moved


def _colour(share: float) -> str:
    """Of cividis at 0 to 1.

    >>> _colour(0), _colour(1)
    ('#00224e', '#fee838')
    """
    at = np.linspace(0, 1, len(CIVIDIS))
    red, green, blue = (
        round(float(np.interp(share, at, band))) for band in zip(*CIVIDIS, strict=True)
    )
    return f"#{red:02x}{green:02x}{blue:02x}"
