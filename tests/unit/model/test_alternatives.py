"""Direct convolutions and Winograd's tiles compete: what is faster is what runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright import ir
from tilewright.database import Database, MemoryDatabase
from tilewright.graph import Graph, GraphBuilder, TensorType
from tilewright.graph.graph import Array
from tilewright.graph.passes.winograd import with_winograd
from tilewright.model.alternatives import (
    DIRECT,
    TILES,
    RememberedSchedules,
    competing_tasks,
    ways_of,
    with_fastest_convolutions,
)
from tilewright.model.api import compile_model, served_by
from tilewright.model.executable import Executable
from tilewright.model.kernels import compile_calls, groups_of, program_of
from tilewright.model.loading import load
from tilewright.model.rounding import rounding_errors
from tilewright.records import TuningRecord
from tilewright.target import Target
from tilewright.tune.context import normalize_mod
from tilewright.tune.fallback import default_schedule

TARGET = Target("llvm -num-cores=2")


def network(side: int = 12, channels: int = 32) -> tuple[Graph, Array, Array]:
    """A convolution with bias and ReLU, channels last."""
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal((3, 3, channels, channels)) / 17).astype(np.float32)
    bias = rng.standard_normal((1, 1, 1, channels)).astype(np.float32)
    builder = GraphBuilder()
    x = builder.input("x", TensorType((1, side, side, channels), "float32"))
    y = builder.call(
        "nn.conv2d",
        x,
        builder.constant(weights, "w"),
        source="layer1",
        padding=[1, 1],
        data_layout="NHWC",
    )
    z = builder.call("nn.relu", builder.call("add", y, builder.constant(bias, "b")))
    return builder.graph([z]), weights, bias


def exact(x: Array, weights: Array, bias: Array) -> Array:
    wide = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    side = x.shape[1]
    total: Array = sum(
        wide[:, i : i + side, j : j + side] @ weights[i, j].astype(np.float64)
        for i in range(3)
        for j in range(3)
    )
    result: Array = np.maximum(total + bias, 0)
    return result


def measured(graph: Graph, seconds: dict[int, float]) -> Database:
    """A database in which each way took so long."""
    database = MemoryDatabase()
    (ways,) = ways_of(graph)
    for size, secs in seconds.items():
        mod = normalize_mod(ways.program(size))
        trace = default_schedule(mod, TARGET).trace
        assert trace is not None
        workload = database.commit_workload(mod)
        database.commit_tuning_record(TuningRecord(trace, workload, (secs,), TARGET))
    return database


def test_each_way_is_one_kernel_with_bias_and_activation() -> None:
    graph, *_ = network()
    (own,) = ways_of(graph)
    for size in (DIRECT, *TILES):
        way = with_winograd(graph, {own.node.outputs[0]: size})
        (group,) = groups_of(way)
        assert ir.structural_equal(program_of(group, way), own.program(size))


@pytest.mark.parametrize(
    ("seconds", "tile"),
    [
        ({0: 3e-3, 2: 2e-3, 4: 1e-3}, 4),
        ({0: 3e-3, 2: 1e-3, 4: 2e-3}, 2),
        ({0: 1e-3, 2: 2e-3, 4: 3e-3}, 0),
        ({0: 1e-3}, 0),
    ],
    ids=["F(4)", "F(2)", "direct", "nothing else measured"],
)
def test_measurements_decide(seconds: dict[int, float], tile: int) -> None:
    graph, *_ = network()
    chosen = with_fastest_convolutions(graph, TARGET, measured(graph, seconds))
    (choice,) = chosen.choices
    assert choice.is_measured
    assert choice.tile == tile
    assert choice.source == "layer1"
    assert dict(choice.seconds) == seconds
    ops = [node.op for node in chosen.graph.nodes]
    assert ops[0] == ("nn.winograd_conv2d" if tile else "nn.conv2d")


def test_without_measurements_a_clear_promise_decides() -> None:
    graph, weights, bias = network(28, 64)
    chosen = with_fastest_convolutions(graph, TARGET)
    (choice,) = chosen.choices
    assert not choice.is_measured
    assert choice.tile == 4
    assert choice.seconds[4] < 0.85 * choice.seconds[0]
    assert str(chosen).startswith("layer1: F(4) (calculated: direct ")
    x = np.random.default_rng(1).standard_normal((1, 28, 28, 64)).astype(np.float32)
    (made,) = Executable(chosen.graph, compile_calls(chosen.graph, TARGET))(x)
    wanted = exact(x, weights, bias)
    assert abs(made - wanted).max() <= 5e-6 * abs(wanted).max()


def test_the_report_tells_times() -> None:
    graph, *_ = network()
    chosen = with_fastest_convolutions(graph, TARGET, measured(graph, {0: 3e-3, 4: 1e-3}))
    assert str(chosen) == "layer1: F(4) (measured: direct 3.000 ms, F(4) 1.000 ms)"
    slower = with_fastest_convolutions(graph, TARGET, measured(graph, {0: 1e-3, 4: 2e-3}))
    assert str(slower) == "layer1: direct (measured: direct 1.000 ms, F(4) 2.000 ms)"


def test_models_are_compiled_with_the_faster_way_unless_it_is_ruled_out(tmp_path: Path) -> None:
    graph, weights, bias = network()
    database = measured(graph, {0: 3e-3, 4: 1e-3})
    fast = compile_model(graph, TARGET, database)
    plain = compile_model(graph, TARGET, database, winograd=False)
    assert fast.graph.nodes[0].op == "nn.winograd_conv2d"
    assert plain.graph.nodes[0].op == "nn.conv2d"
    x = np.random.default_rng(1).standard_normal((1, 12, 12, 32)).astype(np.float32)
    wanted = exact(x, weights, bias)
    saved = load(fast.save(tmp_path / "model.twm"))
    for made in (fast(x)[0], plain(x)[0], saved(x)[0]):
        assert abs(made - wanted).max() <= 5e-6 * abs(wanted).max()
    own, direct = rounding_errors(weights, 4)
    assert str(served_by(fast)).splitlines()[-1] == (
        f"layer1: Winograd F(4), largest error {own:.1e} of the largest result, "
        f"{direct:.1e} if direct"
    )
    assert "Winograd" not in str(served_by(plain))


def test_one_direct_tile_is_no_case_for_winograd() -> None:
    """A result of one element needs a whole tile: nothing is saved, nothing is scheduled."""
    graph, *_ = network(1)
    chosen = with_fastest_convolutions(graph, TARGET, None, RememberedSchedules(_refuse))
    assert chosen.choices[0].tile == DIRECT


def _refuse(func: ir.PrimFunc, target: Target) -> ir.IRModule:
    raise AssertionError("scheduled in vain")


def test_each_way_with_some_hope_is_a_task() -> None:
    graph, *_ = network(28, 64)
    competing = competing_tasks(graph, TARGET)
    names = [each.task.task_name for each in competing]
    assert names[0] == "fused_nn_conv2d_add_nn_relu"
    assert "fused_nn_winograd_conv2d_add_nn_relu" in names
    assert len(set(names)) == len(names)
    assert [each.size for each in competing] == [DIRECT, 4]  # F(2) saves too little
    (direct,) = competing_tasks(graph, TARGET, winograd=False)
    assert (direct.size, direct.least) == (DIRECT, {})


def test_what_a_task_takes_is_known_from_a_run_of_the_model() -> None:
    """Of a way that the model does not take, by the arithmetic that each of them needs."""
    graph, *_ = network(28, 64)
    direct, tiles = competing_tasks(graph, TARGET)
    (name,) = [value.name for value in graph.outputs]
    assert tiles.expected_secs({name: 2.0}, {direct.source: 4}) == 2.0
    assert direct.expected_secs({name: 2.0}, {}) == 2.0
    ratio = direct.least[DIRECT] / direct.least[4]
    assert ratio > 1.6
    assert direct.expected_secs({name: 2.0}, {direct.source: 4}) == pytest.approx(2.0 * ratio)
    assert direct.expected_secs({"other": 2.0}, {}) is None


def test_errors_grow_with_the_tiles_and_stay_small() -> None:
    _, weights, _ = network(4, 64)
    (small, direct), (large, again) = (rounding_errors(weights, tile) for tile in (2, 4))
    assert direct == again <= 1e-6
    assert small <= 2e-6
    assert small < large <= 6e-6


def test_weights_that_come_from_memory_count() -> None:
    """A model whose constants fill the caches reads those of Winograd from memory each time."""
    graph, weights, _ = network()
    seconds = {0: 2.0e-3, 2: 1.99e-3, 4: 1.98e-3}
    database = measured(graph, seconds)
    assert with_fastest_convolutions(graph, TARGET, database).choices[0].tile == 4
    small_cache = Target("llvm -num-cores=2 -l3_cache_size_bytes=1024")
    (choice,) = with_fastest_convolutions(graph, small_cache, database).choices
    memory = {size: choice.seconds[size] - seconds[size] for size in seconds}
    assert memory[0] == pytest.approx(weights.nbytes / 28e9)
    assert memory[2] == pytest.approx(memory[0] * 16 / 9)
    assert memory[4] == pytest.approx(memory[0] * 4)


def test_other_devices_and_graphs_without_windows_stay_as_they_are() -> None:
    graph, *_ = network()
    gpu = Target("nvidia/geforce-rtx-2080")
    assert with_fastest_convolutions(graph, gpu).graph is graph
    builder = GraphBuilder()
    x = builder.input("x", TensorType((4,), "float32"))
    plain = builder.graph([builder.call("nn.relu", x)])
    assert with_fastest_convolutions(plain, TARGET).graph is plain
    assert [(one.size, one.least) for one in competing_tasks(plain, TARGET)] == [(DIRECT, {})]
