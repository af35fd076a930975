"""Convolutions of Heron's front: every candidate equals NumPy, on CPUs and on tensor cores."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.heron.convolutions import in_numpy, operands, packed, sizes, solutions, space

import tilewright
from tilewright.errors import TuneError
from tilewright.heron.demands import with_demands
from tilewright.search.constrained import ConstrainedSettings, constrained_strategies
from tilewright.solver.array_solver import ArraySolver
from tilewright.space.postprocs.verify_gpu_code import VerifyGPUCode
from tilewright.target import Target
from tilewright.testing import simt
from tilewright.testing.gpu_lowering import lower_for_gpu
from tilewright.testing.space_generation import SpaceTask

CASES: dict[str, tuple[int, ...]] = {
    "c1d": (1, 20, 8, 16, 3, 1, 2, 2),
    "c2d": (1, 8, 7, 8, 32, 3, 3, 2, 1, 1),
    "dil": (1, 8, 8, 8, 16, 3, 3, 1, 2, 2),
    "c3d": (1, 4, 3, 4, 8, 16, 3, 3, 3, 1, 1, 1),
    "t2d": (1, 4, 4, 8, 16, 3, 3, 2, 1, 1),
    "dep": (1, 6, 6, 16, 3, 3, 1, 1, 1),
}
PLACES = ["dense.wmma.accumulator_shared_pos == 1", "dense.wmma.accumulator_local_pos == 3"]


@pytest.mark.parametrize("operator", CASES)
def test_dl_boost(operator: str) -> None:
    conv = sizes(operator, CASES[operator])
    found = space("dlboost", operator, CASES[operator])
    data, weights = operands(conv)
    stored = weights if conv.is_depthwise else packed(weights)
    is_tensorized = "dot_16x4_vnni" in found.script({})
    assert is_tensorized != conv.is_depthwise
    expected = in_numpy(conv, data, weights)
    for values in solutions(found, 3):
        func = tilewright.build(found.schedule(values).mod, target="llvm")
        result = np.zeros(expected.shape, np.int32)
        func(data.astype(np.uint8), stored.astype(np.int8), result)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("operator", CASES)
def test_tensor_cores(operator: str) -> None:
    conv = sizes(operator, CASES[operator])
    found = with_demands(space("tensorcore", operator, CASES[operator]), PLACES)
    data, weights = operands(conv)
    expected = in_numpy(conv, data, weights).reshape(-1, conv.filters)
    for values in solutions(found, 1):
        result = np.zeros(expected.shape, np.float16)
        inputs = [data.astype(np.float16), weights.astype(np.float16), result]
        simt.run(lower_for_gpu(found.schedule(values).mod), inputs)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("operator", "shape"),
    [("gemm", (7, 5, 13)), ("gemv", (16, 16)), ("bmm", (2, 3, 16, 5)), ("gemm", (8, 16, 32))],
)
def test_products_that_fill_no_fragments(operator: str, shape: tuple[int, ...]) -> None:
    """There are zeros around operands, and a kernel takes what is a result."""
    found = with_demands(space("tensorcore", operator, shape), PLACES)
    *batch, m, k, n = shape if operator != "gemv" else (*shape, 1)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (*batch, rows, k)).astype(np.float16) for rows in (m, n))
    expected = a.astype(np.float32) @ np.swapaxes(b.astype(np.float32), -1, -2)
    for values in solutions(found, 2):
        result = np.zeros(expected.shape, np.float16)
        simt.run(lower_for_gpu(found.schedule(values).mod), [a, b, result])
        np.testing.assert_array_equal(result, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "shape"),
    [
        ("gemm", (250, 100, 37)),
        ("bmm", (12, 128, 64, 128)),
        ("c2d", (16, 14, 14, 256, 256, 3, 3, 1, 1, 1)),
        ("t2d", (1, 14, 14, 32, 32, 3, 3, 2, 1, 1)),
        ("dep", (1, 14, 14, 32, 3, 3, 1, 1, 1)),
    ],
)
def test_candidates_of_cga_keep_to_the_limits_of_gpus(
    operator: str, shape: tuple[int, ...]
) -> None:
    """The verifier reads shared memory, threads and vectors off the program; all are lowered."""
    found = space("tensorcore", operator, shape)
    verifier = VerifyGPUCode()
    task = SpaceTask(found.operation.mod, Target("nvidia/nvidia-h100"))
    verifier._initialize_with_tune_context(task)
    solved = ArraySolver().prepare(found.problem)
    knobs = [solved.names.index(knob) for knob in found.knobs]
    search = constrained_strategies.create("cga", solved, knobs, ConstrainedSettings(), 1)
    for _ in range(2):
        points = search.ask(6)
        for row in points.tolist():
            sch = found.schedule(dict(zip(solved.names, row, strict=True)))
            assert verifier.apply(sch)
            lower_for_gpu(sch.mod)
        search.tell(points, (1.0 + points[:, knobs].sum(axis=1)).tolist())


def test_more_than_a_million_results_that_fill_no_fragments() -> None:
    found = with_demands(space("tensorcore", "gemm", (1009, 16, 1013)), PLACES)
    (values,) = solutions(found, 1)
    whole = values["L#ST:out,AX:ax0.ax1.fused"]
    assert whole == 1009 * 1013


@pytest.mark.parametrize("operator", ["mean", "var"])
def test_statistics_of_rows(operator: str) -> None:
    found = with_demands(space("tensorcore", operator, (5, 16), "float16", "float32"), PLACES)
    rows = np.random.default_rng(0).integers(-3, 4, (5, 16)).astype(np.float16)
    (values,) = solutions(found, 1)
    result = np.zeros((5, 1), np.float32)
    simt.run(lower_for_gpu(found.schedule(values).mod), [rows, result])
    expected = getattr(np, operator)(rows.astype(np.float64), axis=1, keepdims=True)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("operator", "shape", "message"),
    [
        (
            "c2d",
            (1, 8, 8, 16),
            "operator 'c2d' takes the sizes (N, H, W, CI, CO, KH, KW, stride, padding, dilation), "
            "got [1, 8, 8, 16]",
        ),
        ("c1d", (1, 8, 4, 4, 3, 0, 1, 1), "operator 'c1d': stride must be at least 1, got 0"),
        ("c1d", (1, 8, 4, 4, 3, 1, -1, 1), "operator 'c1d': padding must be at least 0, got -1"),
        (
            "dil",
            (1, 4, 4, 4, 4, 3, 3, 1, 0, 2),
            "operator 'dil': the kernel does not fit into the padded input of [4, 4], so nothing "
            "is computed",
        ),
        (
            "t2d",
            (1, 4, 4, 4, 4, 3, 3, 1, 3, 1),
            "operator 't2d': padding must be at most 2 for this kernel, got 3",
        ),
        (
            "mean",
            (4, 4),
            "operator 'mean' is a product for tensor cores: use the platform 'tensorcore'",
        ),
    ],
)
def test_bad_sizes(operator: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(TuneError) as error:
        space("dlboost", operator, shape)
    assert str(error.value) == message


@pytest.mark.parametrize("shape", [(1, 7, 1, 1, 1, 1, 1, 1, 0, 1), (1, 5, 7, 3, 1, 3, 3, 1, 1, 1)])
def test_extents_of_one_and_primes(shape: tuple[int, ...]) -> None:
    conv, found = sizes("c2d", shape), space("dlboost", "c2d", shape)
    data, weights = operands(conv)
    expected = in_numpy(conv, data, weights)
    for values in solutions(found, 2):
        result = np.zeros(expected.shape, np.int32)
        func = tilewright.build(found.schedule(values).mod, target="llvm")
        func(data.astype(np.uint8), weights.astype(np.int8), result)
        np.testing.assert_array_equal(result, expected)
