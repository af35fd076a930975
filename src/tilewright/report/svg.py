"""Plots as inline SVG: axes with round ticks, lines, dots and bars. No script, no network."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 300
# Room for the ticks and, clear of them, the titles of the axes, also in the larger type of phones.
_LEFT, _RIGHT, _TOP, _BOTTOM = 118, 16, 14, 60
_TICK_ROOM, _TITLE = 22, 18
_TICKS = 5
_LETTER, _LINE = 8.0, 13.0  # the size of notes
_DOT = 3


@dataclass(frozen=True)
class Axis:
    """A scale from values to shares of its length."""

    label: str
    low: float
    high: float
    log: bool = False
    text: Callable[[float], str] = lambda value: f"{value:g}"

    @staticmethod
    def over(
        values: Iterable[float],
        label: str,
        *,
        log: bool = False,
        text: Callable[[float], str] = lambda value: f"{value:g}",
    ) -> Axis:
        """An axis on which all values have a place."""
        known = list(values) or [0.0, 1.0]
        low, high = min(known), max(known)
        if log:
            return Axis(label, low / 1.15, high * 1.15, True, text)
        margin = 0.04 * (high - low) or 0.5
        return Axis(label, low - margin, high + margin, False, text)

    def place(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round numbers on the axis."""
        return _log_ticks(self.low, self.high) if self.log else _ticks(self.low, self.high)


def _ticks(low: float, high: float) -> list[float]:
    raw = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 3), (1, 2, 5)):
        found = [f * 10.0**p for p in powers for f in factors if low <= f * 10.0**p <= high]
        if len(found) >= 3:
            return found
    return found or [low, high]


def picture(width: int, height: int, title: str, body: str, attributes: str = "") -> str:
    """An inline SVG, with a title for those who cannot see it."""
    box = f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}"'
    return f"<svg {attributes}{box}>{body}</svg>"


class Plot:
    """A plot with two axes; marks are added, `svg()` is the result."""

    def __init__(self, x: Axis, y: Axis, title: str) -> None:
        self._x, self._y, self._title = x, y, title
        self._marks: list[str] = []
        self._dots: list[tuple[float, float]] = []
        self._notes: list[tuple[float, float, float]] = []  # from, to, and how high

    def line(self, points: Sequence[tuple[float, float]], style: str = "line") -> None:
        """A line through points."""
        path = " ".join(f"{self._px(x):.1f},{self._py(y):.1f}" for x, y in points)
        self._marks.append(f'<polyline class="{style}" points="{path}"/>')

    def dot(self, x: float, y: float, hint: str, style: str = "dot") -> None:
        """A dot; the hint shows when the mouse rests on it."""
        self._dots.append((self._px(x), self._py(y)))
        self._marks.append(
            f'<circle class="{style}" cx="{self._px(x):.1f}" cy="{self._py(y):.1f}" r="{_DOT}">'
            f"<title>{escape(hint)}</title></circle>"
        )

    def note(self, x: float, y: float, text: str) -> None:
        """A few words beside a place; none where they would cover others, or dots drawn before."""
        is_far, length = self._x.place(x) > 0.7, _LETTER * len(text)
        for lower, is_left in itertools.product((4, -10, 18), (is_far, not is_far)):
            at, high = self._px(x) + (-8 if is_left else 8), self._py(y) + lower
            left = at - length if is_left else at
            if self._is_free(left, left + length, high):
                self._notes.append((left, left + length, high))
                style, place = "tick y" if is_left else "tick", f'x="{at:.1f}" y="{high:.1f}"'
                self._marks.append(f'<text class="{style}" {place}>{escape(text)}</text>')
                return

    def _is_free(self, left: float, right: float, high: float) -> bool:
        """Whether there is room for words."""
        if left < _LEFT or right > WIDTH:
            return False
        taken = [*self._notes, *((px - _DOT, px + _DOT, py + 4) for px, py in self._dots)]
        return not any(a < right and left < b and abs(high - h) < _LINE for a, b, h in taken)

    def vertical(self, x: float, label: str) -> None:
        """A dashed line from top to bottom."""
        place = f"{self._px(x):.1f}"
        ends = f'x1="{place}" x2="{place}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"'
        self._marks.append(f'<line class="mark" {ends}><title>{escape(label)}</title></line>')

    def horizontal(self, y: float, label: str) -> None:
        """A dashed line from side to side."""
        place = f"{self._py(y):.1f}"
        ends = f'x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{place}" y2="{place}"'
        self._marks.append(f'<line class="mark" {ends}><title>{escape(label)}</title></line>')

    def svg(self) -> str:
        """The picture."""
        return picture(WIDTH, HEIGHT, self._title, "".join([*self._grid(), *self._marks]))

    def _px(self, x: float) -> float:
        return _LEFT + self._x.place(x) * (WIDTH - _LEFT - _RIGHT)

    def _py(self, y: float) -> float:
        return HEIGHT - _BOTTOM - self._y.place(y) * (HEIGHT - _TOP - _BOTTOM)

    def _grid(self) -> Iterable[str]:
        bottom = HEIGHT - _BOTTOM
        for value in self._x.ticks():
            x = f"{self._px(value):.1f}"
            yield f'<line class="grid" x1="{x}" x2="{x}" y1="{_TOP}" y2="{bottom}"/>'
            place = f'x="{x}" y="{bottom + _TICK_ROOM}"'
            yield f'<text class="tick x" {place}>{self._x.text(value)}</text>'
        for value in self._y.ticks():
            y = self._py(value)
            ends = f'x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
            place = f'x="{_LEFT - 8}" y="{y + 5:.1f}"'
            yield f'<line class="grid" {ends}/>'
            yield f'<text class="tick y" {place}>{self._y.text(value)}</text>'
        middle = (_LEFT + WIDTH - _RIGHT) / 2
        yield f'<text class="label x" x="{middle}" y="{HEIGHT - 6}">{escape(self._x.label)}</text>'
        turned = f"translate({_TITLE} {(_TOP + bottom) / 2}) rotate(-90)"
        yield f'<text class="label x" transform="{turned}">{escape(self._y.label)}</text>'


def bars(rows: Sequence[tuple[str, float, str]], title: str, style: str = "bar") -> str:
    """Horizontal bars: (name, value, text behind the bar)."""
    height, left = 30, 170
    longest = max((value for _, value, _ in rows), default=0) or 1
    room = WIDTH - left - 150
    parts = []
    for number, (name, value, text) in enumerate(rows):
        y = number * height + 4
        width = max(1.0, value / longest * room) if value else 0.0
        parts.append(
            f'<text class="tick y" x="{left - 8}" y="{y + 17}">{escape(name)}</text>'
            f'<rect class="{style}" x="{left}" y="{y}" width="{width:.1f}" height="{height - 8}"/>'
            f'<text class="tick" x="{left + width + 8:.1f}" y="{y + 17}">{escape(text)}</text>'
        )
    return picture(WIDTH, len(rows) * height + 4, title, "".join(parts))


def sparkline(points: Sequence[tuple[float, float]], title: str) -> str:
    """A falling line without axes; a logarithmic one, so that each gain shows."""
    width, height, edge = 120, 28, 2
    xs, ys = ([point[side] for point in points] for side in (0, 1))
    x = Axis("", min(xs), max(max(xs), min(xs) + 1))
    y = Axis("", min(ys), max(max(ys), min(ys) * 1.01), log=True)
    places = " ".join(
        f"{x.place(a) * width:.1f},{height - edge - y.place(b) * (height - 2 * edge):.1f}"
        for a, b in points
    )
    line = f'<polyline class="line" points="{places}"/>'
    return picture(width, height, title, line, 'class="spark" ')
