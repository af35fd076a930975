"""The report as one HTML file: pictures inline, styles inline, nothing fetched, no script."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from html import escape

from tilewright.database import Database, Run
from tilewright.database.record_ids import record_id
from tilewright.errors import TilewrightError
from tilewright.ir.highlight import to_classes
from tilewright.report import charts
from tilewright.report.collect import TaskSummary, collect
from tilewright.report.html_parts import figure, table
from tilewright.report.model_notes import model_notes
from tilewright.report.model_page import model_section
from tilewright.report.packing import packed_by, packing_note
from tilewright.report.predictions import mean_rank_correlation
from tilewright.report.task_rooflines import task_rooflines
from tilewright.report.units import date, duration, gflops, percent, seconds, speed_up
from tilewright.support.text import counted
from tilewright.version import __version__


def render(database: Database, source: str, *, now: datetime.datetime | None = None) -> str:
    """The whole page; `source` says where the database lies."""
    tasks = collect(database)
    runs = database.history.runs()
    made = (now or datetime.datetime.now()).strftime("%Y-%m-%d %H:%M")
    head = (
        f"<p class=sub>{escape(source)} · {counted(len(database), 'record')} · "
        f"{counted(len(tasks), 'task')} · {counted(len(runs), 'run')} · {made} · "
        f"Tilewright {__version__}</p>"
    )
    models = [model_section(note, database) for note in model_notes(database)]
    own = map(_task, range(len(tasks)), tasks)
    rooflines = f'<div class="figures">{task_rooflines(tasks, database)}</div>'
    body = "".join([head, *models, _overview(tasks), rooflines, _runs(runs), *own])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Tuning report</title><style>{STYLE}</style></head>"
        f"<body><h1>Tuning report</h1>{body}</body></html>\n"
    )


def _overview(tasks: Sequence[TaskSummary]) -> str:
    if not tasks:
        return "<p>There are no records in this database yet.</p>"
    header = (
        "task", "target", "plain", "best", "speed-up", "GFLOPS", "of roofline", "trials", "failed",
    )  # fmt: skip
    rows = [
        (
            f'<a href="#task-{number}">{escape(task.title)}</a>',
            escape(task.target),
            seconds(task.plain_secs),
            seconds(task.best_secs),
            speed_up(task.plain_secs, task.best_secs),
            gflops(task.flop, task.best_secs),
            percent(task.share),
            str(task.records),
            str(task.failed),
        )
        for number, task in enumerate(tasks)
    ]
    return table(header, rows)


def _runs(runs: Sequence[Run]) -> str:
    return f"<h2>Runs</h2>{runs_table(runs)}" if runs else ""


def runs_table(runs: Iterable[Run]) -> str:
    """Runs with their dates."""
    rows = [
        (
            str(run.id),
            escape(run.name),
            escape(run.status),
            date(run.started),
            "-" if run.finished is None else duration(run.finished - run.started),
            "-" if run.seed is None else str(run.seed),
        )
        for run in runs
    ]
    return table(("run", "tasks", "status", "started", "took", "seed"), rows)


# --- one task -----------------------------------------------------------------------------------


def _task(number: int, task: TaskSummary) -> str:
    packing = "" if task.best is None else packing_note(packed_by(task.best))
    return (
        f'<h2 id="task-{number}">{escape(task.title)}</h2>{figures_of_merit(task, packing)}'
        f"{task_figures(task)}{_winner(task)}"
    )


def task_figures(task: TaskSummary) -> str:
    """What to know of a task, and its pictures."""
    figures = "".join(part(task) for part in (_best_so_far, _predictions, _funnel, _failures))
    notes = "".join(f"<p>note: {escape(note)}</p>" for note in task.notes)
    return f'{notes}<div class="figures">{figures}</div>'


def figures_of_merit(task: TaskSummary, packing: str = "") -> str:
    """The best candidate in figures, and what it is compared with."""
    if task.best is None:
        return "<p>None of the candidates worked.</p>"
    bound = "" if task.roofline is None else f" ({task.roofline.bound}-bound)"
    return (
        f"<p>best <b>{seconds(task.best_secs)}</b> · {gflops(task.flop, task.best_secs)} GFLOPS · "
        f"{percent(task.share)} of the roofline{bound} · record <code>{record_id(task.best)}</code>"
        f"{f' · {escape(packing)}' if packing else ''}</p>{_baselines(task)}"
    )


def _baselines(task: TaskSummary) -> str:
    """What the best is compared with, and how much faster it is."""
    known = (
        ("the program as it was given", task.plain_secs),
        ("the schedule without a search", task.zero_search_secs),
    )
    parts = [
        f"{name} takes {seconds(secs)}: <b>{speed_up(secs, task.best_secs)}</b>"
        for name, secs in known
        if secs is not None
    ]
    return f"<p>{' · '.join(parts)}</p>" if parts else ""


def _best_so_far(task: TaskSummary) -> str:
    roofline = charts.shown_roofline(task)
    dashed = "" if roofline is None else f"; the dashed line is the roofline, {seconds(roofline)}"
    return figure(charts.best_so_far_chart(task), "Best so far", f"each dot is one trial{dashed}")


def _predictions(task: TaskSummary) -> str:
    found = mean_rank_correlation(task.predicted)
    caption = ""
    if found is not None:
        caption = f"rank correlation within a round: {found.mean:.2f}"
        if found.may_be_chance:
            caption += "; the cost model ranked these candidates no better than chance"
    return figure(charts.prediction_chart(task), "Predicted against measured", caption)


_PARTICIPLES = {"ran": "run"}  # the others are what they say


def _funnel(task: TaskSummary) -> str:
    losses = [
        f"{number} not {escape(_PARTICIPLES.get(stage.name, stage.name))}: {escape(reason)}"
        for stage in task.funnel
        for reason, number in stage.losses.items()
    ]
    return figure(charts.funnel_chart(task), "Funnel", "<br>".join(losses))


def _failures(task: TaskSummary) -> str:
    messages = "".join(
        f"<details><summary>{kind.value}: first message</summary>"
        f"<pre>{escape(message)}</pre></details>"
        for kind, message in task.errors.items()
        if message
    )
    return figure(charts.failure_chart(task), "Failures by cause", messages)


def _winner(task: TaskSummary) -> str:
    best = task.best
    if best is None:
        return ""
    texts: list[tuple[str, Callable[[], str]]] = [
        ("Winning script", lambda: best.as_measure_candidate().sch.mod.script()),
        ("Winning trace", lambda: str(best.trace)),
        ("Program as it was given", lambda: task.workload.mod.script()),
    ]
    return "".join(
        f"<details><summary>{title}</summary><pre>{_code(make)}</pre></details>"
        for title, make in texts
    )


def _code(make: Callable[[], str]) -> str:
    """Code in colours, or why there is none: a record of another version may not replay here."""
    try:
        return to_classes(make())
    except TilewrightError as error:
        return escape(f"not available: {error}")


# It follows the reader's choice of light or dark.
STYLE = """
:root{--ink:#1c2430;--dim:#647084;--rule:#dde3ec;--back:#fff;--soft:#f5f7fa;--main:#2563c9;
--bad:#c2412d;--good:#22763a;--odd:#8250df;--name:#0a7a8a}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ef;--dim:#97a3b6;--rule:#333c4a;--back:#151a21;
--soft:#1d242e;--main:#6ea2f7;--bad:#ef7f6b;
--good:#7fd192;--odd:#c9a5ff;--name:#6fcbd8}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);margin:2rem auto;
max-width:1180px;padding:0 1rem}
h1{margin-bottom:0}h2{margin-top:2.2rem;border-top:1px solid var(--rule);padding-top:1.2rem}
h3{font-size:1rem;margin:.2rem 0 .6rem}.sub,figcaption{color:var(--dim)}a{color:var(--main)}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .8rem .35rem 0;
border-bottom:1px solid var(--rule);vertical-align:top}th{color:var(--dim);font-weight:500}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr));gap:1rem}
figure{margin:0;padding:1rem;background:var(--soft);border-radius:8px}svg{width:100%;height:auto}
figcaption{font-size:.85rem}details{margin:.6rem 0}summary{cursor:pointer}
pre{background:var(--soft);padding:1rem;border-radius:8px;overflow:auto;font-size:12.5px}
svg text{font:12px system-ui,sans-serif;fill:var(--dim)}.tick.x,.label.x{text-anchor:middle}
.tick.y{text-anchor:end}.grid{stroke:var(--rule)}.mark{stroke:var(--dim);
stroke-dasharray:4 3}.line{fill:none;stroke:var(--main);stroke-width:2}
.dot{fill:var(--main);fill-opacity:.5}.bar{fill:var(--main)}.bar.bad{fill:var(--bad)}
.bar.next{fill-opacity:.6}.dot.old{fill:var(--bad)}.wide{grid-column:1/-1}
.line.other{stroke:var(--bad)}svg text.inside{font-size:9.5px;fill:var(--back);text-anchor:middle;
pointer-events:none}svg text.inside.next{fill:var(--ink)}
.tok-comment{color:var(--dim);font-style:italic}.tok-string{color:var(--good)}
.tok-decorator{color:var(--odd)}.tok-keyword{color:var(--main);font-weight:600}
.tok-namespace{color:var(--name)}.tok-number{color:var(--bad)}
@media(max-width:600px){body{margin:1rem auto}h1,h2,p,td{overflow-wrap:anywhere}
svg text{font-size:19px}.dot{r:5px}figure{padding:.6rem}th{display:none}
tr,td{display:block}tr{border-bottom:1px solid var(--rule);padding:.4rem 0}
td{border:0;padding:.1rem 0 .1rem 7rem;min-height:1.5em;position:relative}
td::before{content:attr(data-name);position:absolute;left:0;color:var(--dim)}}
""".strip()
