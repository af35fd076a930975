"""`WinogradTiling`: one parallel loop over blocks of tiles, right for all shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import ir, te, topi
from tilewright.lowering.prepacking import packed_weights, separate_packing
from tilewright.schedule import Schedule
from tilewright.space.base import NotApplied
from tilewright.space.cpu.winograd_tiling import WinogradTiling
from tilewright.space.layout_free import with_bound_weights
from tilewright.target import Target
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip
from tilewright.testing.space_generation import generate_design_space
from tilewright.tune.fallback import default_schedule

TARGET = Target("llvm -num-cores=2")
TOLERANCE = 1e-5  # of the largest result


def program(
    shape: tuple[int, int, int, int], filters: int, m: int, padding: int = 1
) -> ir.IRModule:
    """A convolution with bias and ReLU, whose weights are bound."""
    data = te.placeholder(shape, name="data")
    kernel = te.placeholder((3, 3, shape[3], filters), name="kernel")
    bias = te.placeholder((1, 1, 1, filters), name="bias")
    result = topi.nn.relu(topi.add(topi.nn.winograd_conv2d(data, kernel, padding, m), bias))
    func = te.create_prim_func([data, kernel, bias, result])
    func = func.with_attr("layout_free_buffers", [1]).with_attr("global_symbol", "main")
    return with_bound_weights(ir.IRModule({"main": func}))


def sketches(module: ir.IRModule) -> list[Schedule]:
    made = generate_design_space("llvm", module, TARGET, sch_rules=[WinogradTiling()])
    return list(made)


def check(module: ir.IRModule, scheduled: ir.IRModule) -> None:
    """Compare with the sum over the window, in 64 bits."""
    data, kernel, bias, result = (b.shape for b in module["main"].buffer_map.values())
    rng = np.random.default_rng(0)
    x, w, b = (
        rng.standard_normal([int(getattr(n, "value", 0)) for n in shape]).astype(np.float32)
        for shape in (data, kernel, bias)
    )
    made = np.zeros([int(getattr(n, "value", 0)) for n in result], np.float32)
    tw.build(scheduled, TARGET)(x, w, b, made)
    pad = (made.shape[1] - x.shape[1] + 2) // 2
    wide = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    h, v = made.shape[1:3]
    total: Any = sum(
        wide[:, i : i + h, j : j + v] @ w[i, j].astype(np.float64)
        for i in range(3)
        for j in range(3)
    )
    wanted = np.maximum(total + b, 0)
    assert abs(made - wanted).max() <= TOLERANCE * max(1.0, abs(wanted).max())


def test_everything_happens_in_one_parallel_loop() -> None:
    module = program((1, 12, 12, 16), 32, 4)
    made = sketches(module)
    assert len(made) > 1
    for sketch in made:
        text = separate_packing(sketch.mod)["main"].script()
        assert text.count("T.parallel(") == 1
        assert packed_weights(sketch.mod["main"]) == ["kernel"]


def test_steps_can_be_taken_again_and_results_stay() -> None:
    module = program((1, 3, 4, 3), 2, 2)
    for sketch in sketches(module)[:1]:
        verify_trace_roundtrip(sketch, module)
        assert_same_result(module, sketch.mod)


SHAPES = [
    ((1, 7, 7, 5), 3, 4, 1),
    ((1, 14, 14, 20), 17, 4, 1),
    ((2, 9, 5, 17), 33, 2, 1),
    ((1, 8, 8, 16), 16, 4, 0),
    ((1, 6, 70, 4), 8, 4, 1),
    ((1, 1, 1, 1), 1, 4, 1),
    ((2, 10, 7, 8), 16, 6, 1),
]


@pytest.mark.parametrize(("shape", "filters", "m", "padding"), SHAPES)
def test_results_are_right_for_all_shapes(
    shape: tuple[int, int, int, int], filters: int, m: int, padding: int
) -> None:
    module = program(shape, filters, m, padding)
    made = sketches(module)
    assert made[0].trace is not None
    assert made[0].trace.has_steps()
    check(module, made[-1].mod)


def test_without_a_search_the_rule_is_chosen() -> None:
    module = program((1, 16, 16, 32), 32, 4)
    text = default_schedule(module, TARGET).mod.script()
    assert '"meta_schedule.tiling_structure": "winograd"' in text


def test_other_blocks_are_left_alone() -> None:
    a, b = te.placeholder((8, 8), name="a"), te.placeholder((8, 8), name="b")
    sch = Schedule(te.create_prim_func([a, b, topi.matmul(a, b)]))
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    made = WinogradTiling().apply(sch, block)
    assert isinstance(made, NotApplied)
    assert made.reason == "it is not a product of Winograd tiles"


def test_a_result_that_two_blocks_read_is_stored() -> None:
    """Nothing can follow it inside of the loop; it comes out as it is."""
    data = te.placeholder((1, 4, 4, 2), name="data")
    kernel = te.placeholder((3, 3, 2, 2), name="kernel")
    made = topi.nn.winograd_conv2d(data, kernel, 1, 2)
    func = te.create_prim_func([data, kernel, topi.nn.relu(made), topi.tanh(made)])
    module = ir.IRModule({"main": func.with_attr("global_symbol", "main")})
    for sketch in sketches(module)[:1]:
        assert "winograd_conv2d = T.alloc_buffer" in sketch.mod.script()
        assert_same_result(module, sketch.mod)
