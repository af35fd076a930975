"""Random Winograd convolutions, with random decisions: bias, ReLU, any size, any padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import tilewright as tw
from tilewright import ir, te, topi
from tilewright.schedule import Schedule
from tilewright.space.cpu.winograd_tiling import WinogradTiling
from tilewright.target import Target
from tilewright.testing.space_generation import generate_design_space

TARGET = Target("llvm -num-cores=2")
# The largest error as a share of the largest sum of absolute products.
TOLERANCE = {"float32": 3e-6, "float64": 1e-14}

shapes = st.fixed_dictionaries(
    {
        "shape": st.tuples(
            st.integers(1, 2), st.integers(3, 19), st.integers(3, 23), st.integers(1, 40)
        ),
        "filters": st.integers(1, 70),
        "padding": st.tuples(*[st.integers(0, 2)] * 4),
        "tile": st.sampled_from([2, 4]),
        "dtype": st.sampled_from(["float32", "float32", "float64"]),
        "seed": st.integers(1, 1000),
    }
)


def program(case: dict[str, Any]) -> ir.IRModule:
    filters, dtype = case["filters"], case["dtype"]
    data = te.placeholder(case["shape"], dtype, name="data")
    kernel = te.placeholder((3, 3, case["shape"][3], filters), dtype, name="kernel")
    bias = te.placeholder((1, 1, 1, filters), dtype, name="bias")
    made = topi.nn.winograd_conv2d(data, kernel, case["padding"], case["tile"])
    func = te.create_prim_func([data, kernel, bias, topi.nn.relu(topi.add(made, bias))])
    return ir.IRModule({"main": func.with_attr("global_symbol", "main")})


def scheduled(module: ir.IRModule, seed: int) -> ir.IRModule:
    """One of the sketches, with other decisions than those that it was made with."""
    made = generate_design_space("llvm", module, TARGET, sch_rules=[WinogradTiling()])
    sketch = made[seed % len(made)]
    assert sketch.trace is not None
    assert sketch.trace.has_steps()
    trace = sketch.trace.copy()
    trace.decisions.clear()
    again = Schedule(module, seed=seed)
    trace.apply_to_schedule(again, remove_postproc=True)
    return again.mod


def convolved(x: Any, w: Any, padding: tuple[int, int, int, int]) -> Any:
    top, left, bottom, right = padding
    wide = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    height, width = wide.shape[1] - 2, wide.shape[2] - 2
    return sum(wide[:, i : i + height, j : j + width] @ w[i, j] for i in range(3) for j in range(3))


def check(case: dict[str, Any]) -> None:
    module = program(case)
    rng = np.random.default_rng(case["seed"])
    x = rng.standard_normal(case["shape"]).astype(case["dtype"])
    w = rng.standard_normal((3, 3, x.shape[3], case["filters"])).astype(case["dtype"])
    b = rng.standard_normal((1, 1, 1, case["filters"])).astype(case["dtype"])
    wide_x, wide_w = (array.astype(np.longdouble) for array in (x, w))
    wanted = np.maximum(convolved(wide_x, wide_w, case["padding"]) + b, 0)
    made = np.full(wanted.shape, np.nan, case["dtype"])
    tw.build(scheduled(module, case["seed"]), TARGET)(x, w, b, made)
    scale = np.max(convolved(np.abs(wide_x), np.abs(wide_w), case["padding"]))
    assert np.max(np.abs(made - wanted)) <= TOLERANCE[case["dtype"]] * scale


@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(shapes)
def test_random_convolutions(case: dict[str, Any]) -> None:
    check(case)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(shapes)
def test_many_random_convolutions(case: dict[str, Any]) -> None:
    check(case)
