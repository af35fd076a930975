"""What our CPU rules make of small operators, with random decisions, computes the same."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from tilewright import te, topi
from tilewright.driver import build, lower
from tilewright.ir import IRModule, PrimExpr, PrimFunc, Var, as_module, logical_and, logical_or
from tilewright.ir.intrinsics import if_then_else
from tilewright.schedule import Schedule, Trace
from tilewright.space.base import schedule_rules
from tilewright.target import Target
from tilewright.testing import oracle, te_workload
from tilewright.testing.schedule_checks import assert_same_arrays, random_arguments
from tilewright.testing.space_generation import generate_design_space

RULES = (
    "FuseRows",
    "HaloTiling",
    "RegisterTiling",
    "ReduceInVectors",
    "ReduceColumns",
    "SpatialPass",
)
WIDE = "llvm -mcpu=skylake-avx512 -num-cores=2"  # 32 registers of 16 floats
NARROW = "llvm -mcpu=x86-64 -num-cores=3"  # 16 registers of 4
SEEDS = 2
# A blend reads lanes that nobody has written, and throws them away.
BLENDS = oracle.OracleOptions(track_uninitialized=False)


def transposing(rows: int, columns: int) -> te_workload.Tensors:
    """A matrix, transposed and doubled."""
    a = te.placeholder((rows, columns), name="A")
    return a, te.compute((columns, rows), lambda i, j: a[j, i] * 2.0, name="B")


def stencil(rows: int, columns: int, steps: int) -> te_workload.Tensors:
    """Each element becomes the sum of its neighbours; the border stays."""

    def step(before: te.Tensor, name: str) -> te.Tensor:
        def element(i: Var, j: Var) -> PrimExpr:
            row, column = logical_and(i > 0, i < rows - 1), logical_and(j > 0, j < columns - 1)
            around = before[i - 1, j] + before[i + 1, j] + before[i, j - 1] + before[i, j + 1]
            return if_then_else(logical_and(row, column), around, before[i, j])

        return te.compute((rows, columns), element, name=name)

    state = grid = te.placeholder((rows, columns), name="A")
    for number in range(steps):
        state = step(state, f"step{number}")
    return grid, state


def positions(rows: int, columns: int, axis: int = 0) -> te_workload.Tensors:
    """Where the least element of each column, or row, is."""
    a = te.placeholder((rows, columns), name="A")
    return a, topi.argmin(a, axis=axis)


def layer_norm(rows: int, columns: int) -> te_workload.Tensors:
    """Rows with their mean taken away, over their deviation."""
    a = te.placeholder((rows, columns), name="A")
    g, b = (te.placeholder((columns,), name=name) for name in "gb")
    return a, g, b, topi.nn.layer_norm(a, g, b, [1])


def either(rows: int, columns: int) -> te_workload.Tensors:
    """Whether an element of each row is true in one of two masks."""
    a, b = (te.placeholder((rows, columns), "bool", name=name) for name in "ab")
    or_ = te.compute((rows, columns), lambda i, j: logical_or(a[i, j], b[i, j]), name="or")
    return a, b, topi.any(or_, axis=1)


def blur(images: int, rows: int, columns: int) -> te_workload.Tensors:
    """Rows, then columns, of several images."""
    a = te.placeholder((images, rows + 2, columns + 2), name="A")
    across = te.compute(
        (images, rows + 2, columns),
        lambda n, i, j: a[n, i, j] + a[n, i, j + 1] + a[n, i, j + 2],
        name="across",
    )
    down = te.compute(
        (images, rows, columns),
        lambda n, i, j: across[n, i, j] + across[n, i + 1, j] + across[n, i + 2, j],
        name="down",
    )
    return a, down


def dense(batch: int, rows: int, columns: int, depth: int) -> te_workload.Tensors:
    """Products with matrices that lie across the vectors of the result."""
    a = te.placeholder((batch, rows, depth), name="A")
    w = te.placeholder((batch, columns, depth), name="W")
    k = te.reduce_axis((0, depth), name="k")
    shape = (batch, rows, columns)
    return (
        a,
        w,
        te.compute(shape, lambda b, i, j: te.sum(a[b, i, k] * w[b, j, k], axis=k), name="C"),
    )


PROGRAMS: dict[str, te_workload.Tensors] = {
    "product": te_workload.matmul(8, 32, 16),
    "product of primes": te_workload.matmul(7, 13, 5),
    "larger primes": te_workload.matmul(17, 31, 19),
    "just above": te_workload.matmul(9, 65, 17),
    "one row": te_workload.matmul(1, 37, 11),
    "with an epilogue": te_workload.matmul_relu(13, 17, 11),
    "batched": te_workload.batch_matmul_nkkm(2, 7, 19, 5),
    "transposed operand": te_workload.transpose_batch_matmul(1, 11, 2, 13),
    "dense": dense(1, 9, 32, 16),
    "dense of primes": dense(2, 7, 37, 5),
    "convolution": te_workload.conv2d_nhwc(1, 7, 5, 3, 18, 3, 1, 1),
    "strided convolution": te_workload.conv2d_nhwc(1, 9, 7, 4, 8, 3, 2, 1),
    "dilated convolution": te_workload.conv1d_nlc(1, 13, 3, 17, 3, 1, 1, 2),
    "groups": te_workload.conv2d_nhwc(1, 5, 5, 4, 32, 3, 1, 1, groups=2),
    "depthwise": te_workload.depthwise_conv2d_nhwc(1, 7, 5, 19, 3, 1, 1),
    "strided depthwise": te_workload.depthwise_conv2d_nhwc(1, 9, 11, 16, 3, 2, 1),
    "few channels": te_workload.conv2d_nhwc(1, 9, 9, 3, 8, 3, 2, 1),
    "transposed convolution": te_workload.conv2d_transpose_nhwc(1, 3, 3, 5, 7, 4, 2, 1),
    "convolution and norm": te_workload.conv2d_nhwc_bn_relu(1, 6, 5, 3, 11, 3, 1, 1),
    "softmax": te_workload.softmax_mn(5, 37),
    "long rows": te_workload.softmax_mn(3, 70),
    "norm": te_workload.norm_bmn(2, 5, 33),
    "transposition": transposing(19, 13),
    "positions of columns": positions(37, 70),
    "positions in rows": positions(5, 256, axis=1),
    "layer norm": layer_norm(5, 37),
    "some of either": either(5, 70),
    "stencil": stencil(67, 21, 3),
    "blur": blur(2, 70, 19),
}


@functools.cache
def sketches(name: str, target: str) -> tuple[IRModule, tuple[Schedule, ...]]:
    module = as_module(te.create_prim_func(list(PROGRAMS[name])))
    rules = [schedule_rules.create(rule) for rule in RULES]
    return module, tuple(generate_design_space("llvm", module, Target(target), sch_rules=rules))


def candidates(name: str, target: str) -> Iterator[tuple[IRModule, Schedule]]:
    """Every sketch, through JSON, with its own and with other random decisions."""
    module, made = sketches(name, target)
    for sketch in made:
        assert sketch.trace is not None
        document = sketch.trace.as_json()
        read = Trace.from_json(document)
        assert read.as_json() == document
        for seed in range(SEEDS):
            other = Schedule(module, seed=seed + 1)
            trace = read.copy()
            if seed:
                trace.decisions.clear()
            trace.apply_to_schedule(other, remove_postproc=False)
            yield module, other


def main_of(module: IRModule) -> PrimFunc:
    func = module["main"]
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", [WIDE, NARROW], ids=["wide", "narrow"])
def test_lowered_sketches_compute_the_same(name: str, target: str) -> None:
    for module, sch in candidates(name, target):
        func = main_of(module)
        expected = random_arguments(func)
        actual = [value.copy() for value in expected]
        oracle.run(func, *expected)
        oracle.run(lower(sch.mod, Target(target)), *actual, options=BLENDS)
        assert_same_arrays(func, expected, actual)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_sketches_compute_the_same(name: str) -> None:
    host = "llvm -num-cores=2"
    for module, sch in list(candidates(name, host))[::4]:
        func = main_of(module)
        expected = random_arguments(func)
        actual = [value.copy() for value in expected]
        oracle.run(func, *expected)
        build(sch.mod)(*actual)
        assert_same_arrays(func, expected, actual)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_operator_is_tiled(name: str) -> None:
    _, made = sketches(name, WIDE)
    assert all("meta_schedule.tiling_structure" in sch.mod.script() for sch in made)
