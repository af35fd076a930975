"""`LoopKernels`: what no other rule for GPUs takes, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import ir, te, topi
from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.schedule import Schedule
from tilewright.space.base import NotApplied
from tilewright.space.gpu.loop_kernels import STRUCTURE, LoopKernels
from tilewright.target import Target
from tilewright.testing.gpu_lowering import candidates, lower_for_gpu
from tilewright.testing.simt import run
from tilewright.tune import default_schedule

TAG = "nvidia/nvidia-h200"
TARGET = Target(TAG)


def of_one(shape: tuple[int, ...], make: Callable[[Any], Any], dtype: str = "float32") -> Any:
    a = te.placeholder(shape, dtype, name="A")
    return te.create_prim_func([a, make(a)])


def values(shape: tuple[int, ...]) -> Any:
    """With equal numbers among them."""
    return np.random.default_rng(0).integers(-999, 1000, shape).astype("float32") / 64


# Shape, operator, what NumPy has for it.
PROGRAMS: dict[str, tuple[tuple[int, ...], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sums of columns": ((70, 50), lambda a: topi.sum(a, 0), lambda a: a.sum(0)),
    "sums of long columns": ((4099, 33), lambda a: topi.sum(a, 0), lambda a: a.sum(0)),
    "a middle axis": ((3, 40, 30), lambda a: topi.max(a, 1), lambda a: a.max(1)),
    "the first and the last axis": (
        (20, 30, 10), lambda a: topi.sum(a, [0, 2]), lambda a: a.sum((0, 2)),
    ),
    "everything": ((9001,), topi.sum, np.sum),
    "short": ((5, 40), lambda a: topi.sum(a, 0), lambda a: a.sum(0)),
    "few long rows": ((2, 40000), lambda a: topi.sum(a, 1), lambda a: a.sum(1)),
    "places in columns": ((90, 40), lambda a: topi.argmax(a, 0), lambda a: a.argmax(0)),
    "places in long columns": ((2500, 33), lambda a: topi.argmin(a, 0), lambda a: a.argmin(0)),
    "what comes before": (
        (64, 48), lambda a: topi.sum(topi.exp(topi.abs(a) * -1.0), 0),
        lambda a: np.exp(-np.abs(a)).sum(0),
    ),
    "softmax of columns": (
        (40, 24), lambda a: topi.nn.softmax(a, 0),
        lambda a: np.exp(a - a.max(0)) / np.exp(a - a.max(0)).sum(0),
    ),
    "running totals": ((70, 33), lambda a: topi.cumsum(a, 1), lambda a: a.cumsum(1)),
    "running totals of columns": ((33, 70), lambda a: topi.cumsum(a, 0), lambda a: a.cumsum(0)),
    "sorted rows": ((70, 19), topi.sort, lambda a: np.sort(a)),
    "sorted columns": ((19, 40), lambda a: topi.sort(a, 0), lambda a: np.sort(a, 0)),
    "pools": (
        (2, 3, 9, 11), lambda a: topi.nn.pool2d(a, (3, 3), (2, 2), (1, 1), (0, 0, 0, 0), "max"),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, (3, 3), (2, 3))[:, :, ::2, ::2]
        .max((4, 5)),
    ),
}  # fmt: skip


def check(func: ir.PrimFunc, sch: Schedule, shape: Any, exact: Callable[[Any], Any]) -> None:
    given = values(shape)
    wanted = np.asarray(exact(given.astype("float64")))
    out = np.full(wanted.shape, 99, str(list(func.buffer_map.values())[-1].dtype))
    run(lower_for_gpu(sch.mod, TAG), [given, out])
    np.testing.assert_allclose(out, wanted, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_schedule_without_a_search(name: str) -> None:
    shape, make, exact = PROGRAMS[name]
    func = of_one(shape, make)
    sch = default_schedule(func, TARGET)
    blocks = [sref.block for sref in sch.state.infos if sref.parent is not None]
    assert all(TILING_STRUCTURE in block.annotations for block in blocks)
    check(func, sch, shape, exact)


@pytest.mark.parametrize("name", ["sums of columns", "sums of long columns", "few long rows"])
def test_all_candidates(name: str) -> None:
    shape, make, exact = PROGRAMS[name]
    func = of_one(shape, make)
    found = list(candidates(ir.IRModule({"main": func}), TARGET, "cuda-kernels", range(3), 3))
    assert found
    for sch in found:
        check(func, sch, shape, exact)


def threads_of(sch: Schedule) -> list[int]:
    """How many threads each kernel has."""
    functions = lower_for_gpu(sch.mod, TAG).functions.values()
    kernels = [func for func in functions if "calling_conv" in func.attrs]
    counts = []
    for kernel in kernels:
        launches = [
            n for n in ir.nodes_of(kernel.body, ir.AttrStmt) if n.attr_key == "thread_extent"
        ]
        counts.append(int(np.prod([n.value.value for n in launches])))  # type: ignore[attr-defined]
    return counts


@pytest.mark.parametrize(
    ("shape", "make", "least"),
    [
        ((4096, 1024), lambda a: topi.sum(a, 0), 1 << 16),
        ((1 << 22,), topi.sum, 1 << 13),
        ((2, 1 << 20), lambda a: topi.max(a, 1), 1 << 13),
        ((4096, 64), lambda a: topi.cumsum(a, 1), 1024),
        ((4096, 64), topi.sort, 4096),
    ],
)
def test_a_gpu_has_enough_to_do(shape: Any, make: Any, least: int) -> None:
    assert max(threads_of(default_schedule(of_one(shape, make), TARGET))) >= least


def test_what_is_before_a_reduction_is_no_kernel_of_its_own() -> None:
    func = of_one((4096, 64), lambda a: topi.sum(topi.reshape(topi.exp(a), (64, 64, 64)), 1))
    assert len(threads_of(default_schedule(func, TARGET))) == 1


def test_what_is_behind_a_short_reduction_is_no_kernel_of_its_own() -> None:
    func = of_one((2, 7, 7, 40), lambda a: topi.nn.relu(topi.mean(a, [1, 2])))
    sch = default_schedule(func, TARGET)
    assert len(threads_of(sch)) == 1
    check(func, sch, (2, 7, 7, 40), lambda a: np.maximum(a.mean((1, 2)), 0))


@pytest.mark.parametrize("channels", [32, 40])
def test_windows_of_each_channel_with_bias_and_activation_are_one_kernel(channels: int) -> None:
    shape = (1, 9, 9, channels)
    x, w = te.placeholder(shape, name="X"), te.placeholder((3, 3, 1, channels), name="W")
    b = te.placeholder((channels,), name="B")
    made = topi.nn.conv2d(
        x, w, strides=[2, 2], padding=[1] * 4, dilation=[1, 1], groups=channels, data_layout="NHWC"
    )
    func = te.create_prim_func([x, w, b, topi.nn.relu(topi.add(made, b))])
    sch = default_schedule(func, TARGET)
    assert len(threads_of(sch)) == 1
    rng = np.random.default_rng(4)
    sizes = (shape, (3, 3, 1, channels), (channels,))
    given = [rng.normal(size=size).astype("float32") for size in sizes]
    out = np.full((1, 5, 5, channels), np.nan, "float32")
    run(lower_for_gpu(sch.mod, TAG), [*given, out])
    padded = np.pad(given[0][0], ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (0, 1))[::2, ::2]
    wanted = np.einsum("yxcij,ijc->yxc", windows, given[1][:, :, 0]) + given[2]
    np.testing.assert_allclose(out[0], np.maximum(wanted, 0), rtol=1e-4, atol=1e-5)


def windows(a: Any, stride: int) -> Any:
    padded = np.pad(a, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    return seen[:, ::stride, ::stride]


def pooled(a: Any) -> Any:
    return topi.nn.pool2d(a, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max", layout="NHWC")


@pytest.mark.parametrize("behind", [False, True])
def test_many_windows_are_read_in_vectors(behind: bool) -> None:
    shape = (1, 96, 96, 32)
    func = of_one(shape, lambda a: topi.nn.relu(pooled(a)) if behind else pooled(a))
    sch = default_schedule(func, TARGET)
    assert len(threads_of(sch)) == 1
    assert "T.vectorized(4)" in str(sch.mod)
    least = 0 if behind else -np.inf
    check(func, sch, shape, lambda a: np.maximum(windows(a, 2).max((4, 5)), least))


def test_many_windows_of_each_channel_are_read_in_vectors() -> None:
    x, w = te.placeholder((1, 50, 50, 32), name="X"), te.placeholder((3, 3, 1, 32), name="W")
    options: Any = {"strides": [1, 1], "padding": [1] * 4, "dilation": [1, 1]}
    made = topi.nn.conv2d(x, w, groups=32, data_layout="NHWC", **options)
    func = te.create_prim_func([x, w, topi.nn.relu(made)])
    sch = default_schedule(func, TARGET)
    assert len(threads_of(sch)) == 1
    assert str(sch.mod).count("T.vectorized(4)") == 3
    rng = np.random.default_rng(6)
    given = [rng.normal(size=size).astype("float32") for size in ((1, 50, 50, 32), (3, 3, 1, 32))]
    out = np.full((1, 50, 50, 32), np.nan, "float32")
    run(lower_for_gpu(sch.mod, TAG), [*given, out])
    seen = np.where(np.isinf(windows(given[0], 1)), 0, windows(given[0], 1))
    wanted = np.einsum("nyxcij,ijc->nyxc", seen, given[1][:, :, 0])
    np.testing.assert_allclose(out, np.maximum(wanted, 0), rtol=1e-4, atol=1e-5)


def test_tables_are_looked_up_by_one_kernel() -> None:
    table, places = te.placeholder((50, 64), name="T"), te.placeholder((2, 6), "int64", name="P")
    other = te.placeholder((6, 64), name="O")
    func = te.create_prim_func([table, places, other, topi.take(table, places, 0) + other])
    sch = default_schedule(func, TARGET)
    assert len(threads_of(sch)) == 1
    rng = np.random.default_rng(5)
    rows = rng.integers(-3, 60, (2, 6))  # those outside are limited
    given = [rng.normal(size=(50, 64)).astype("float32"), rows, rng.normal(size=(6, 64))]
    out = np.full((2, 6, 64), np.nan, "float32")
    run(lower_for_gpu(sch.mod, TAG), [*given[:2], given[2].astype("float32"), out])
    wanted = given[0][np.clip(rows, 0, 49)] + given[2]
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["C", "root"])
def test_it_leaves_alone_what_others_do_better(name: str) -> None:
    a, b = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    assert isinstance(LoopKernels().apply(sch, sch.get_block(name)), NotApplied)


def test_empty_sums_are_written() -> None:
    a, b = te.placeholder((3, 0), name="A"), te.placeholder((0, 40), name="B")
    func = te.create_prim_func([a, b, topi.matmul(a, b)])
    sch = default_schedule(func, TARGET)
    assert any(STRUCTURE in str(s.block.annotations) for s in sch.state.infos)
    out = np.full((3, 40), 99, "float32")
    run(
        lower_for_gpu(sch.mod, TAG),
        [np.zeros((3, 0), "float32"), np.zeros((0, 40), "float32"), out],
    )
    assert not out.any()
