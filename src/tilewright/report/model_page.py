"""The part of a report on one model: its kernels on a timeline, before and after it was tuned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tilewright.database import Database
from tilewright.model.finals import StepComparison
from tilewright.report.html_parts import figure, table
from tilewright.report.model_notes import ModelNote
from tilewright.report.roofline import Peaks, known_peaks
from tilewright.report.svg import WIDTH, Axis, Plot, picture
from tilewright.report.units import gflops, percent, seconds, short_target, speed_up
from tilewright.support.text import counted

_MEMORY = 64 << 20  # bytes: no cache holds that
_LEAST_INTENSITY = 0.01  # FLOP a byte; what moves data only has no place in the plot
_NAMED = 6  # of more kernels the names would cover each other
_LEFT, _ROW, _GAP = 90, 46, 20
_LETTER, _LEAST_LETTERS = 6.0, 6  # the width of one in a bar; bars for fewer have no name
_HEADER = ("task", "runs", "calculated", "tuned", "speed-up", "share", "GFLOPS", "FLOP a byte")


def model_section(note: ModelNote, database: Database) -> str:
    """Headline, timeline, roofline and the table of tasks."""
    final = note.final
    if not final.steps or not final.secs:
        return ""
    peaks = known_peaks(database, note.where)
    beaten = ", ".join(map(escape, note.beaten))
    stay = (
        f"<p>Not replaced, since the calculated kernel is faster inside the model: {beaten}</p>"
        if beaten
        else ""
    )
    head = (
        f"<h2>Model {escape(note.name)}</h2><p><b>{seconds(final.secs)}</b> · calculated "
        f"{seconds(final.calculated_secs)}: <b>{speed_up(final.calculated_secs, final.secs)}</b> · "
        f"{counted(len(final.steps), 'kernel')} · {escape(short_target(note.where))}</p>{stay}"
    )
    timeline = figure(
        timeline_chart(final.steps), "Timeline of operators",
        "one run, before and after tuning, on the same scale; rest the mouse on a kernel",
    )  # fmt: skip
    plot = roofline_figure(final.steps, peaks)
    wide = timeline.replace("<figure>", '<figure class="wide">', 1)
    return f'{head}<div class="figures">{wide}{plot}</div>{_tasks(final.steps)}'


# --- timeline -----------------------------------------------------------------------------------


def timeline_chart(steps: Sequence[StepComparison]) -> str:
    """Kernels as bars side by side, as long as they take: calculated above, tuned below."""
    rows = [
        ("calculated", [step.calculated_secs for step in steps]),
        ("tuned", [step.secs for step in steps]),
    ]
    longest = max(sum(times) for _, times in rows) or 1.0
    parts = []
    for number, (label, times) in enumerate(rows):
        y = number * (_ROW + _GAP) + 4
        text = f'<text class="tick y" x="{_LEFT - 8}" y="{y + 27}">{label}</text>'
        parts += [text, *_bars(steps, times, y, (WIDTH - _LEFT - 8) / longest)]
    return picture(WIDTH, len(rows) * (_ROW + _GAP), "timeline of operators", "".join(parts))


def _bars(
    steps: Sequence[StepComparison], times: Sequence[float], y: int, scale: float
) -> list[str]:
    x, bars = float(_LEFT), []
    for number, (step, secs) in enumerate(zip(steps, times, strict=True)):
        width = secs * scale
        style = "bar next" if number % 2 else "bar"
        sources = f" ({', '.join(step.sources)})" if step.sources else ""
        hint = escape(f"{step.name}{sources}: {seconds(secs)}")
        bars.append(
            f'<rect class="{style}" x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_ROW}">'
            f"<title>{hint}</title></rect>"
        )
        letters = int(width / _LETTER) - 1
        if letters >= _LEAST_LETTERS:
            name = step.name if len(step.name) <= letters else f"{step.name[: letters - 1]}…"
            place = f'x="{x + width / 2:.2f}" y="{y + _ROW / 2 + 4:.0f}"'
            look = style.replace("bar", "inside")
            bars.append(f'<text class="{look}" {place}>{escape(name)}</text>')
        x += width
    return bars


# --- roofline -----------------------------------------------------------------------------------


def roofline_figure(steps: Sequence[StepComparison], peaks: Peaks | None) -> str:
    """The chart with its caption; nothing where the machine is not known."""
    if peaks is None:
        return ""
    return figure(roofline_chart(steps, peaks), "Roofline", _roofline_caption(peaks))


def roofline_chart(steps: Sequence[StepComparison], peaks: Peaks) -> str:
    """The speed of each kernel over its operations a byte, below what the machine can do."""
    shown = [s for s in steps if s.secs and s.bytes and s.flop / s.bytes >= _LEAST_INTENSITY]
    if not shown:
        return ""
    peak, bandwidth = peaks.operations(), peaks.bandwidth(_MEMORY)
    ridge = peak / bandwidth
    xs = [s.flop / s.bytes for s in shown]
    ends = min(*xs, ridge / 4), max(*xs, ridge * 4)
    roof = [(ends[0], ends[0] * bandwidth), (ridge, peak), (ends[1], peak)]
    speeds = [s.flop / secs for s in shown for secs in (s.secs, s.calculated_secs) if secs]
    x = Axis.over(ends, "FLOP a byte", log=True)
    y = Axis.over(
        [*speeds, *(rate for _, rate in roof)], "GFLOPS", log=True, text=lambda v: f"{v / 1e9:g}"
    )
    plot = Plot(x, y, "roofline")
    plot.line(roof)
    for step in shown:
        for secs, style, word in (
            (step.calculated_secs, "dot old", "calculated"), (step.secs, "dot", "tuned"),
        ):  # fmt: skip
            if secs:
                hint = f"{step.name}, {word}: {gflops(step.flop, secs)} GFLOPS"
                plot.dot(step.flop / step.bytes, step.flop / secs, hint, style)
    for step in shown if len(shown) <= _NAMED else ():
        plot.note(step.flop / step.bytes, step.flop / step.secs, step.name.split(" · ")[0][:20])
    return plot.svg()


def _roofline_caption(peaks: Peaks) -> str:
    return (
        f"peak {peaks.operations() / 1e9:.0f} GFLOPS, memory {peaks.bandwidth(_MEMORY) / 1e9:.0f} "
        "GB/s; a dot is a kernel, red as it was calculated, blue as it was tuned; kernels whose "
        "data stay in caches may lie above the slope"
    )


# --- tasks --------------------------------------------------------------------------------------


@dataclass
class _TaskSum:
    """All calls of one kernel."""

    name: str
    runs: int = 0
    flop: float = 0.0
    bytes: int = 0
    calculated: float = 0.0
    secs: float = 0.0

    def add(self, step: StepComparison) -> None:
        self.runs += 1
        self.flop += step.flop
        self.bytes += step.bytes
        self.calculated += step.calculated_secs
        self.secs += step.secs


def _tasks(steps: Sequence[StepComparison]) -> str:
    sums: dict[tuple[str, float, int], _TaskSum] = {}
    for step in steps:
        key = (step.name, step.flop, step.bytes)
        sums.setdefault(key, _TaskSum(step.name)).add(step)
    total = sum(step.secs for step in steps)
    rows = [
        (
            escape(task.name),
            str(task.runs),
            seconds(task.calculated),
            seconds(task.secs),
            speed_up(task.calculated, task.secs),
            percent(task.secs / total),
            gflops(task.flop, task.secs),
            f"{task.flop / task.bytes:.1f}" if task.bytes else "-",
        )
        for task in sorted(sums.values(), key=lambda task: -task.secs)
    ]
    return f"<h3>Tasks, all their runs together</h3>{table(_HEADER, rows)}"
