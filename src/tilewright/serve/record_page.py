"""The schedule explorer: a record's trace step by step, with decisions that can be changed."""

from __future__ import annotations

from html import escape

from tilewright.database.record_ids import record_id
from tilewright.database.similarity import describe
from tilewright.database.task_queries import task_name
from tilewright.ir import structural_hash
from tilewright.records import TuningRecord
from tilewright.report.units import seconds, short_target
from tilewright.serve.layout import page
from tilewright.serve.snapshot import Snapshot


def record_page(record: TuningRecord, snapshot: Snapshot) -> str:
    """The page; the steps come by `explorer.js`, without it there is the trace."""
    name, title = record_id(record), describe(record.workload.mod)
    time = seconds(record.mean_secs) if record.is_valid else "failed"
    task = task_name(structural_hash(record.workload.mod), record.target)
    why = "" if record.failure is None else f" · {escape(record.failure.value)}"
    body = (
        f"<h1>Schedule of {escape(title)}</h1>"
        f"<p class=sub>record <code>{name}</code> · {escape(short_target(record.target))} · "
        f'<b>{time}</b>{why} · <a href="/task/{task}">its task</a> · '
        f"<code>tilewright show {name}</code></p>"
        f'{_error(record)}<div id="explorer" data-record="{name}">{_EXPLORER}</div>'
        f"<noscript><pre>{escape(str(record.trace))}</pre></noscript>"
    )
    return page(f"Schedule of {title}", body, snapshot, scripts=["explorer"])


def _error(record: TuningRecord) -> str:
    if not record.error_msg:
        return ""
    told = escape(record.error_msg)
    return f"<details><summary>Why it failed</summary><pre>{told}</pre></details>"


_EXPLORER = """
<p id="answer" role="status">Replaying the trace ...</p>
<div class="explorer">
<section class="steps" aria-labelledby="steps-title">
<h2 id="steps-title">Steps</h2>
<p class="hint">Arrow keys go from step to step. Decisions can be changed; the rest is replayed.</p>
<ol id="steps"></ol>
</section>
<section aria-label="The step">
<p id="step-title" class="step-title" aria-live="polite"></p>
<h2>Loop nest</h2><div id="loops" class="pair"></div>
<h2>Program</h2><div id="programs" class="pair"></div>
</section>
</div>
"""
