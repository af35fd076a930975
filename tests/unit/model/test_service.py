"""Which record serves which kernel: its own, one with the same anchor block, none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.database import Database, MemoryDatabase
from tilewright.graph import Graph, GraphBuilder, TensorType
from tilewright.graph.passes.winograd import winograd_candidates, with_winograd
from tilewright.ir import IRModule, structural_equal
from tilewright.model import (
    Executable,
    compile_model,
    extract_tasks,
    finals,
    schedules,
    served_by,
)
from tilewright.model.alternatives import with_fastest_convolutions
from tilewright.model.kernels import compile_calls
from tilewright.model.schedules import Match, from_database, is_beaten, note_beaten
from tilewright.model.tasks import simplified, tasks_of
from tilewright.records import BASELINE, ZERO_SEARCH, TuningRecord, args_info_of
from tilewright.schedule import Schedule
from tilewright.target import Target
from tilewright.testing.small_models import small_network
from tilewright.tune.fallback import default_schedule

_TARGET = Target("llvm")


def _record(database: Database, name: str, graph: Graph, **extra: object) -> TuningRecord:
    """A record of one task of a graph, with the schedule that is calculated."""
    (task,) = [task for task in extract_tasks(graph, _TARGET) if task.task_name == name]
    return _commit(database, task.dispatched[0], 2e-6, **extra)


def _commit(database: Database, mod: IRModule, secs: float, **extra: object) -> TuningRecord:
    trace = default_schedule(mod, _TARGET).trace
    assert trace is not None
    workload = database.commit_workload(mod)
    record = TuningRecord(trace, workload, (secs,), _TARGET, args_info_of(mod), extra=extra)
    database.commit_tuning_record(record)
    return record


def _product(relu: bool) -> Graph:
    net = GraphBuilder()
    x = net.input("x", TensorType((32, 64), "float32"))
    weight = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    y = net.call("nn.dense", x, net.constant(weight), source="fc")
    return net.graph([net.call("nn.relu", y, source="act") if relu else y])


def _run(graph: Graph, database: Database | None) -> Any:
    x = np.random.default_rng(1).standard_normal((32, 64)).astype(np.float32)
    (made,) = compile_model(graph, _TARGET, database)(x)
    return made


def test_nothing_is_known_without_a_database() -> None:
    report = served_by(compile_model(_product(True), _TARGET))
    assert str(report) == (
        "kernel                  runs  served by  record  measured  operators\n"
        "fused_nn_dense_nn_relu  1     none       -       -         fc, act\n"
        "1 kernel: 1 without a record"
    )


def test_a_record_serves_its_own_program() -> None:
    database = MemoryDatabase()
    _record(database, "fused_nn_dense_nn_relu", _product(True))
    report = served_by(compile_model(_product(True), _TARGET, database))
    (kernel,) = report.kernels
    assert kernel.origin.match is Match.EXACT
    assert kernel.cells()[1:3] == ("1", "exact")
    assert len(kernel.cells()[3]) == 10
    assert kernel.cells()[4] == "2.00 µs"


def test_a_record_serves_a_program_with_the_same_anchor_block() -> None:
    database = MemoryDatabase()
    _record(database, "fused_nn_dense", _product(False))
    report = served_by(compile_model(_product(True), _TARGET, database))
    assert [kernel.origin.match for kernel in report.kernels] == [Match.ANCHOR]
    assert report.summary() == "1 kernel: 1 anchor block"
    expected = _run(_product(True), None)
    np.testing.assert_allclose(_run(_product(True), database), expected, rtol=1e-5, atol=1e-5)
    assert (expected == 0).any()


def test_a_record_that_does_not_fit_serves_nobody_and_is_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A schedule that counts on an activation, for a product that has none."""
    (task,) = extract_tasks(_product(True), _TARGET)
    sch = Schedule(task.dispatched[0])
    (consumer,) = sch.get_consumers(sch.get_block("T_matmul_NT"))
    sch.parallel(sch.get_loops(consumer)[0])
    assert sch.trace is not None
    database = MemoryDatabase()
    workload = database.commit_workload(task.dispatched[0])
    database.commit_tuning_record(TuningRecord(sch.trace, workload, (2e-6,), _TARGET))
    report = served_by(compile_model(_product(False), _TARGET, database))
    assert report.summary() == "1 kernel: 1 without a record"
    assert caplog.text == ""


def test_equal_kernels_are_listed_once() -> None:
    database = MemoryDatabase()
    _record(database, "fused_nn_conv2d_add_add_nn_relu", small_network())
    report = served_by(compile_model(small_network(), _TARGET, database))
    (exact,) = [kernel for kernel in report.kernels if kernel.origin.match is Match.EXACT]
    assert (exact.runs, exact.sources) == (2, ("conv_3", "conv_5"))
    assert report.count(Match.NONE) + report.count(Match.ANCHOR) == len(report.kernels) - 1


def test_a_record_that_lost_in_the_model_serves_no_more() -> None:
    database, graph = MemoryDatabase(), _product(True)
    record = _record(database, "fused_nn_dense_nn_relu", graph)
    note_beaten(database, record, _TARGET)
    (kernel,) = served_by(compile_model(graph, _TARGET, database)).kernels
    assert kernel.origin.match is Match.NONE
    assert kernel.origin.note.startswith("faster in the model than record ")


def test_what_is_calculated_cannot_lose_against_itself() -> None:
    database, graph = MemoryDatabase(), _product(True)
    record = _record(database, "fused_nn_dense_nn_relu", graph, **{BASELINE: ZERO_SEARCH})
    note_beaten(database, record, _TARGET)
    (kernel,) = served_by(compile_model(graph, _TARGET, database)).kernels
    assert kernel.origin.match is Match.EXACT


# --- finals in the model ------------------------------------------------------------------------


def _final(graph: Graph, database: Database, before: Graph | None = None) -> finals.ModelFinal:
    """Calculated kernels against those of a database."""
    ways = [(before or graph, schedules.calculating(database)), (graph, from_database(database))]
    old, new = (Executable(way, compile_calls(way, _TARGET, how)) for way, how in ways)
    return finals.hold_model_final(old, new, database, _TARGET, 0.1)


def test_kernels_that_lose_in_the_model_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that was lucky: in place its kernel takes longer than the calculated one."""
    database, graph = MemoryDatabase(), simplified(_product(True))
    record = _record(database, "fused_nn_dense_nn_relu", _product(True))
    made = tuple(value.name for value in graph.outputs)
    monkeypatch.setattr(finals, "_step_secs", lambda *_: ({made: 1e-6}, {made: 2e-6}))
    final = _final(graph, database)
    assert final.beaten == ("fused_nn_dense_nn_relu",)
    assert (final.calculated_secs, final.secs) == (1e-6, 1e-6)  # it has the calculated one now
    assert is_beaten(database, record, _TARGET)
    (kernel,) = served_by(compile_model(_product(True), _TARGET, database)).kernels
    assert kernel.origin.match is Match.NONE


def test_a_final_runs_the_model_both_ways() -> None:
    database = MemoryDatabase()
    _record(database, "fused_nn_dense_nn_relu", _product(True))
    final = _final(simplified(_product(True)), database)
    (step,) = final.steps
    assert (step.name, step.sources) == ("fused_nn_dense_nn_relu", ("fc", "act"))
    assert step.flop == 2 * 32 * 64 * 16 + 32 * 16
    assert step.bytes == 4 * (32 * 64 + 16 * 64 + 32 * 16)
    assert step.secs > 0
    assert step.calculated_secs > 0


def test_random_inputs_may_be_indices() -> None:
    net = GraphBuilder()
    kinds = ("float32", "int64", "bool")
    values = [net.input(f"x{n}", TensorType((40,), kind)) for n, kind in enumerate(kinds)]
    floats, numbers, flags = finals.random_inputs(net.graph(values))
    assert (floats.dtype, numbers.dtype, flags.dtype) == (np.float32, np.int64, np.bool_)
    assert set(numbers.tolist()) == {0, 1}
    assert floats.std() > 0.1


def test_what_was_calculated_once_is_not_calculated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    database, graph = MemoryDatabase(), _product(True)
    record = _record(database, "fused_nn_dense_nn_relu", graph, **{BASELINE: ZERO_SEARCH})
    monkeypatch.setattr(schedules, "default_schedule", None)  # which nobody may call
    func = record.workload.mod["main"]
    found = schedules.calculated(func, _TARGET, database)
    assert structural_equal(found.mod, record.as_measure_candidate().sch.mod)


def test_a_way_that_loses_in_the_model_is_not_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Winograd's tiles, fast alone, against direct sums in place."""
    direct = simplified(_convolution())
    (node,) = winograd_candidates(direct)
    tiles = with_winograd(direct, {node.outputs[0]: 2})
    database = MemoryDatabase()
    for graph, secs in ((direct, 3e-6), (tiles, 1e-6)):
        (task,) = [task for task in tasks_of(graph, _TARGET) if "conv2d" in task.task_name]
        _commit(database, task.dispatched[0], secs)
    assert _tiles(direct, database) == [2]
    before = {(value.name,): 1e-6 for made in direct.nodes for value in made.outputs}
    after = dict.fromkeys(before, 2e-6)
    monkeypatch.setattr(finals, "_step_secs", lambda *_: (before, after))
    _final(tiles, database, direct)
    assert _tiles(direct, database) == [0]


def _tiles(graph: Graph, database: Database) -> list[int]:
    return [each.tile for each in with_fastest_convolutions(graph, _TARGET, database).choices]


def _convolution() -> Graph:
    net = GraphBuilder()
    x = net.input("x", TensorType((1, 16, 8, 8), "float32"))
    weight = np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype(np.float32)
    made = net.call("nn.conv2d", x, net.constant(weight), padding=[1, 1, 1, 1], source="conv")
    return net.graph([made])
