"""What a tuning run looks like on a screen, in a pipe and as JSON, driven by made-up events."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable

import pytest
from rich.console import Console

from tilewright.cli.live_table import JsonLines, LiveTable, PlainLines, make_display, status_line
from tilewright.cli.progress import Progress
from tilewright.cost_model.quality import RankingQuality
from tilewright.records import FailureKind, MeasureCandidate, RunnerResult, args_info_of
from tilewright.schedule import Schedule
from tilewright.target import Target
from tilewright.testing.conformance.database import matmul
from tilewright.tune.context import TuneContext
from tilewright.tune.events import (
    Event,
    MemberFailed,
    PhaseChanged,
    RoundMeasured,
    TaskFinished,
    TuningFinished,
    TuningStarted,
)
from tilewright.tune.options import UNLIMITED_TRIALS
from tilewright.tune.task import Funnel, FunnelStage, TaskRecord

# 2 cores x 8 lanes x 4 operations x 3.5 GHz = 224 GFLOPS
TARGET = Target("llvm -mcpu=haswell -num-cores=2")


FUNNEL = Funnel(
    [FunnelStage("proposed", 9), FunnelStage("legal", 4, Counter({"DisallowDynamicLoop": 5}))]
)
QUALITY = RankingQuality(4, 0.75, 1, 1.0, 1.0)


class Clock:
    """Time that passes when we say so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def a_task(name: str, size: int = 64) -> TaskRecord:
    task = TaskRecord(TuneContext(matmul(size, size, size), target=TARGET, task_name=name))
    task.search.sketches = [Schedule(matmul(8, 8, 8))] * 3
    return task


def measure(task: TaskRecord, *times: float | None, reused: int = 0) -> None:
    """One round of a task."""
    sch = Schedule(matmul(8, 8, 8))
    results = [
        RunnerResult(None, "boom", FailureKind.CRASH) if secs is None else RunnerResult((secs,))
        for secs in times
    ]
    candidates = [MeasureCandidate(sch, args_info_of(sch.mod)) for _ in times]
    task.add_trials(candidates, results, 0.0)
    task.end_round()
    task.counts.reused += reused


@pytest.fixture
def clock() -> Clock:
    return Clock()


def script(progress: Callable[[Event], object], clock: Clock, reason: str = "done") -> None:
    """Two tasks; the first gets two rounds, of which three trials were known, and finishes."""
    tasks = [a_task("mm"), a_task("big", 128)]
    progress(TuningStarted(tasks, 16, None))
    progress(PhaseChanged(0, "search", 0))
    progress(PhaseChanged(0, "build", 4))
    clock.now += 8
    measure(tasks[0], 4e-6, None, 8e-6, 5e-6)
    progress(RoundMeasured(0, 4, 8.0, QUALITY, FUNNEL))
    measure(tasks[0], 1e-5, 1e-5, 1e-5, 4.681e-6, reused=3)
    progress(RoundMeasured(0, 4, 9.0))
    progress(TaskFinished(0, "no gain in the last 4 trials"))
    progress(PhaseChanged(1, "search", 0))
    if reason:
        progress(TuningFinished(reason, 9.0))


def plain_console() -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, width=200, force_terminal=False), stream


def test_plain_lines(clock: Clock) -> None:
    console, stream = plain_console()
    script(PlainLines(console, Progress(clock)), clock)
    assert stream.getvalue().splitlines() == [
        "task mm: C 64x64x64, 3 sketches",
        "task big: C 128x128x128, 3 sketches",
        "mm C 64x64x64: best 4.00 µs, 131 GFLOPS, 59 % of roofline after 4; "
        "4 of 16 trials, 8 s, about 24 s left; Ctrl-C is safe",
        "mm C 64x64x64: best 4.00 µs, 131 GFLOPS, 59 % of roofline after 8 (3 known); "
        "8 of 16 trials, 8 s, about 13 s left; Ctrl-C is safe",
        "mm: finished, no gain in the last 4 trials",
    ]


def test_a_live_table(clock: Clock) -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=110, force_terminal=True, color_system=None)
    progress = Progress(clock)
    with LiveTable(console, progress) as table:
        script(table, clock, reason="")
        paper = Console(file=io.StringIO(), width=110)
        with paper.capture() as shown:
            paper.print(table)
    header, rule, first, second, status = shown.get().splitlines()
    assert header.split() == ["op", "shape", "best", "GFLOPS", "of", "roofline", "trials", "phase"]
    assert set(rule) == {"─"}
    assert " ".join(first.split()) == "mm C 64x64x64 4.00 µs 131 59 % 8 (3 known) done"
    assert second.split() == ["big", "C", "128x128x128", "-", "-", "-", "0", "search"]
    assert status.strip() == "8 of 16 trials, 8 s, about 13 s left; Ctrl-C is safe"
    assert "\x1b[" in stream.getvalue()  # it was redrawn


def test_a_live_table_shows_failures_above_it(clock: Clock) -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=110, force_terminal=True, color_system=None)
    with LiveTable(console, Progress(clock)) as table:
        table(MemberFailed("mutator [Mine] failed: oops"))
    assert stream.getvalue().count("mutator [Mine] failed: oops") == 1


def test_a_live_table_before_and_after(clock: Clock) -> None:
    console = Console(file=io.StringIO(), width=100)
    table = LiveTable(console, Progress(clock))
    with console.capture() as shown:
        console.print(table)
    assert shown.get().splitlines()[0] == "generating the search space ..."
    script(table.progress, clock)
    with console.capture() as shown:
        console.print(table)
    assert [line.split()[-1] for line in shown.get().splitlines()[2:4]] == ["done", "done"]
    assert shown.get().splitlines()[-1].strip() == "8 of 16 trials, 8 s"


def test_the_last_round_is_told(clock: Clock) -> None:
    progress = Progress(clock)
    progress(TuningStarted([a_task("mm")], 16, None))
    progress(RoundMeasured(0, 4, 8.0, QUALITY, FUNNEL))
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as shown:
        console.print(LiveTable(console, progress))
    assert shown.get().splitlines()[-2].strip() == (
        "mm: 9 proposed -> 4 legal (5 DisallowDynamicLoop); 75% of pairs ranked right, 100% of the "
        "top 1 found, best pick 1.00x the best of 4"
    )


def test_tasks_that_go_on(clock: Clock) -> None:
    console, stream = plain_console()
    task = a_task("mm")
    task.counts.reused = 3
    done = a_task("done")
    done.counts.reused, done.search.sketches = 1, []
    PlainLines(console, Progress(clock))(TuningStarted([task, done], 16, None))
    assert stream.getvalue().splitlines() == [
        "task mm: C 64x64x64, 3 sketches, 3 trials known from earlier runs",
        "task done: C 64x64x64, 1 trial known from earlier runs",
    ]


def test_many_tasks_show_those_that_are_left(clock: Clock) -> None:
    progress = Progress(clock)
    progress(TuningStarted([a_task(f"t{n}", 8) for n in range(35)], 10, None))
    progress(TaskFinished(0, "all its trials are done"))
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as shown:
        console.print(LiveTable(console, progress))
    lines = shown.get().splitlines()
    assert lines[2].startswith("t1 ")
    assert lines[-2] == "... and 5 more"


def test_json_lines(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    script(JsonLines(Progress(clock)), clock, reason="interrupted")
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    started, search, build, first, second, finished, _, ended = events
    assert started["tasks"][0] == {
        "task": "mm",
        "shape": "C 64x64x64",
        "sketches": 3,
        "flop": 2.0 * 64**3,
    }
    assert (started["max_trials"], started["budget_secs"]) == (16, None)
    assert search == {"event": "phase_changed", "task": "mm", "phase": "search", "candidates": 0}
    assert (build["phase"], build["candidates"]) == ("build", 4)
    assert (first["event"], first["best_secs"], first["trials"]) == ("round_measured", 4e-6, 4)
    assert (first["failures"], first["measured"]) == ({"crash": 1}, 4)
    assert first["funnel"] == [
        {"stage": "proposed", "count": 9, "losses": {}},
        {"stage": "legal", "count": 4, "losses": {"DisallowDynamicLoop": 5}},
    ]
    assert first["ranking"]["pairwise_accuracy"] == 0.75
    assert (second["funnel"], second["ranking"]) == (None, None)
    assert (second["trials"], second["reused"], second["elapsed_secs"]) == (8, 3, 9.0)
    assert first["share_of_roofline"] == pytest.approx(2 * 64**3 / 224e9 / 4e-6)
    assert finished["reason"] == "no gain in the last 4 trials"
    assert ended == {"event": "tuning_finished", "reason": "interrupted", "elapsed_secs": 9.0}


def test_what_is_left(clock: Clock) -> None:
    progress = Progress(clock)
    assert progress.remaining() is None
    task = a_task("mm")
    progress(TuningStarted([task], 10, 30.0))
    clock.now += 10
    assert progress.remaining() == 20.0  # of the budget; nothing is known of trials
    measure(task, *[1e-6] * 5)
    progress(RoundMeasured(0, 5, 10.0))
    assert progress.remaining() == 10.0
    clock.now += 15
    assert progress.remaining() == 5.0
    assert status_line(progress) == "5 of 10 trials, 25 s of 30 s, about 5 s left; Ctrl-C is safe"
    progress(TuningFinished("budget", 30.0))
    assert status_line(progress) == "5 of 10 trials, 25 s of 30 s"


def test_a_budget_alone(clock: Clock) -> None:
    progress = Progress(clock)
    progress(TuningStarted([a_task("mm")], UNLIMITED_TRIALS, 90.0))
    assert status_line(progress) == "0 trials, 0 s of 1:30, about 1:30 left; Ctrl-C is safe"


def test_the_display_suits_the_output() -> None:
    plain, _ = plain_console()
    assert isinstance(make_display(plain, as_json=False), PlainLines)
    screen = Console(file=io.StringIO(), force_terminal=True)
    assert isinstance(make_display(screen, as_json=False), LiveTable)
    assert isinstance(make_display(screen, as_json=True), JsonLines)
