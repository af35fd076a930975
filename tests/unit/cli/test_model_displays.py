"""What tuning a model looks like on a screen, in a pipe and as JSON, driven by made-up events."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from tilewright.cli.model_display import (
    ModelJson,
    ModelLines,
    ModelProgress,
    ModelTable,
    latency_line,
    make_model_display,
)
from tilewright.records import MeasureCandidate, RunnerResult, args_info_of
from tilewright.schedule import Schedule
from tilewright.target import Target
from tilewright.testing.conformance.database import matmul
from tilewright.tune.context import TuneContext
from tilewright.tune.events import (
    MemberFailed,
    RoundMeasured,
    TaskFinished,
    TuningFinished,
    TuningStarted,
)
from tilewright.tune.task import TaskRecord

TARGET = Target("llvm -mcpu=haswell -num-cores=2")


def a_task(name: str, weight: float = 1.0) -> TaskRecord:
    context = TuneContext(matmul(64, 64, 64), target=TARGET, task_name=name)
    return TaskRecord(context, task_weight=weight)


def measure(task: TaskRecord, *times: float) -> None:
    sch = Schedule(matmul(8, 8, 8))
    candidates = [MeasureCandidate(sch, args_info_of(sch.mod)) for _ in times]
    task.add_trials(candidates, [RunnerResult((secs,)) for secs in times], 0.0)
    task.end_round()


def play(show: ModelLines | ModelTable | ModelJson) -> None:
    conv, pool = a_task("conv", 3.0), a_task("pool")
    show(TuningStarted([conv, pool], 16, None))
    measure(conv, 8e-6, 9e-6)
    show(RoundMeasured(0, 2, 1.0))
    measure(pool, 6e-6, 7e-6)
    show(RoundMeasured(1, 2, 2.0))
    measure(conv, 4e-6, 5e-6)
    show(RoundMeasured(0, 2, 3.0))
    show(TaskFinished(1, "its next round promises less than 0.1 % of the model's latency"))


def test_lines() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=400, force_terminal=False)
    play(ModelLines(console, ModelProgress(lambda: 0.0)))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "2 tasks"
    assert lines[1].startswith(
        "measuring what is calculated: 1 of 2 tasks; conv: 8.00 µs (1.00x), 100 % of the model "
    )
    assert lines[2].startswith("model 30.0 µs, 1.00x faster than calculated (30.0 µs); pool: 6.00")
    assert lines[3].startswith(
        "model 18.0 µs, 1.67x faster than calculated (30.0 µs); conv: 4.00 µs (2.00x), 67 % of the "
        "model after 4 trials; 6 of 16 trials, 0 s"
    )
    assert lines[4].startswith("pool: finished, its next round promises less than 0.1 % ")


def test_table() -> None:
    console = Console(file=io.StringIO(), width=140, force_terminal=True, color_system=None)
    table = ModelTable(console, ModelProgress(lambda: 0.0))
    with console.capture() as shown:
        console.print(table)
    assert shown.get().startswith("generating the search spaces ...")
    play(table)
    with console.capture() as shown:
        console.print(table)
    header, _, first, second, latency, status = shown.get().splitlines()
    assert header.split()[:5] == ["task", "runs", "best", "share", "speed-up"]
    assert first.split()[:6] == ["conv", "3", "4.00", "µs", "67", "%"]
    assert second.split()[0] == "pool"
    assert latency.strip() == "model 18.0 µs, 1.67x faster than calculated (30.0 µs)"
    assert status.strip().startswith("6 of 16 trials, 0 s")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    play(ModelJson(ModelProgress(lambda: 0.0)))
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    measured = [event for event in told if event["event"] == "round_measured"]
    assert [event["model_secs"] for event in measured] == pytest.approx([None, 3e-5, 1.8e-5])
    assert measured[-1]["share_in_model"] == pytest.approx(2 / 3)


def test_failures_of_own_code_are_told() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=200, force_terminal=False)
    ModelLines(console, ModelProgress())(MemberFailed("rule Mine failed: oops"))
    assert stream.getvalue() == "rule Mine failed: oops\n"


def test_time_begins_with_the_first_round() -> None:
    now = [0.0]
    progress = ModelProgress(lambda: now[0])
    now[0] = 50.0
    progress(TuningStarted([a_task("conv")], 16, 100.0))
    now[0] = 60.0
    assert (progress.elapsed, progress.remaining()) == (10.0, 90.0)


def test_of_rivals_the_fastest_counts() -> None:
    progress = ModelProgress(lambda: 0.0)
    direct, tiles, pool = a_task("direct"), a_task("tiles"), a_task("pool")
    direct.computes = tiles.computes = "conv"
    progress(TuningStarted([direct, tiles, pool], 16, None))
    measure(direct, 8e-6)
    measure(pool, 2e-6)
    assert progress.secs == pytest.approx(1e-5)
    measure(tiles, 6e-6)
    assert latency_line(progress) == "model 8.00 µs, 1.00x faster than calculated (8.00 µs)"
    shares = [progress.share_in_model(state) for state in progress.tasks]
    assert shares == [None, pytest.approx(0.75), pytest.approx(0.25)]
    progress(TuningFinished("done", 1.0))


def test_the_view_suits_where_the_output_goes() -> None:
    pipe = Console(file=io.StringIO(), force_terminal=False)
    assert isinstance(make_model_display(pipe, as_json=False), ModelLines)
    assert isinstance(make_model_display(pipe, as_json=True), ModelJson)
    screen = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    assert isinstance(make_model_display(screen, as_json=False), ModelTable)
