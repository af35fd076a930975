"""WarpGroupTiling and ThreadTiling: what they make computes the same, and what they leave alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import ir, te, topi
from tilewright.ir.annotation_keys import (
    ALLOW_TF32,
    STREAMED,
    THREAD_COLUMNS,
    THREAD_ROWS,
    TILE_CONSUMERS,
    TILE_GATHERERS,
)
from tilewright.lowering.gpu.tile_kernels.tile_form import read_tile_form, tile_loops
from tilewright.space.base import NotApplied
from tilewright.space.gpu import thread_tiling, tile_rule, warp_group_tiling
from tilewright.target import Target
from tilewright.testing.gpu_lowering import random_arrays
from tilewright.testing.oracle import run
from tilewright.testing.tile_kernel_runs import ordered_product
from tilewright.testing.tile_programs import RULES, convolution, product, reason_of, sketches_of

WARPS, THREADS = RULES
HALF, FLOAT, BYTES = ("float16", "float32"), ("float32", "float32"), ("int8", "int32")


def bias_and_relu(dtypes: tuple[str, str]) -> ir.PrimFunc:
    a = te.placeholder((10, 24), dtypes[0], name="A")
    b = te.placeholder((24, 16), dtypes[0], name="B")
    bias = te.placeholder((16,), dtypes[1], name="bias")
    c = topi.matmul(a, b) if dtypes[0] == dtypes[1] else _summed(a, b, dtypes[1])
    d = te.compute(c.shape, lambda i, j: c[i, j] + bias[j], name="D")
    return te.create_prim_func([a, b, bias, topi.nn.relu(d)])


def rounded_bias(dtypes: tuple[str, str]) -> ir.PrimFunc:
    """As `bias_and_relu`, with a bias that is computed after the product."""
    a = te.placeholder((10, 24), dtypes[0], name="A")
    b = te.placeholder((24, 16), dtypes[0], name="B")
    bias = te.placeholder((16,), "float16", name="bias")
    c = _summed(a, b, dtypes[1])
    wide = te.compute((16,), lambda j: bias[j].astype(dtypes[1]), name="wide")
    d = te.compute(c.shape, lambda i, j: c[i, j] + wide[j], name="D")
    return te.create_prim_func([a, b, bias, topi.nn.relu(d)])


def two_consumers(dtypes: tuple[str, str]) -> ir.PrimFunc:
    a = te.placeholder((10, 24), dtypes[0], name="A")
    b = te.placeholder((24, 16), dtypes[0], name="B")
    c = _summed(a, b, dtypes[1])
    d = te.compute(c.shape, lambda i, j: c[i, j] + te.const(1, dtypes[1]), name="D")
    e = te.compute(c.shape, lambda i, j: c[i, j] * d[i, j], name="E")
    return te.create_prim_func([a, b, e])


def _summed(a: te.Tensor, b: te.Tensor, dtype: str) -> te.Tensor:
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return te.compute(
        (a.shape[0], b.shape[1]),
        lambda i, j: te.sum(a[i, k].astype(dtype) * b[k, j].astype(dtype), axis=k),
        name="C",
    )


COMPUTED: dict[str, tuple[str, Callable[[], ir.PrimFunc]]] = {
    "float16": (WARPS, lambda: product((10, 16, 24), HALF)),
    "odd sizes": (WARPS, lambda: product((9, 11, 13), HALF)),
    "odd sizes, turned": (WARPS, lambda: product((9, 11, 13), HALF, is_turned=True)),
    "odd sizes, batches": (WARPS, lambda: product((9, 11, 13), HALF, [2])),
    "float16, odd rows": (WARPS, lambda: product((67, 8, 8), HALF)),
    "bfloat16": (WARPS, lambda: product((10, 16, 24), ("bfloat16", "float32"), result="bfloat16")),
    "float8": (WARPS, lambda: product((9, 16, 32), ("float8_e4m3fn", "float32"), is_turned=True)),
    "int8": (WARPS, lambda: product((9, 16, 32), BYTES, is_turned=True)),
    "int8 results": (WARPS, lambda: product((9, 16, 32), BYTES, is_turned=True, result="int8")),
    "int8 across the sum": (WARPS, lambda: product((9, 16, 32), BYTES)),
    "uint8 and int8": (
        WARPS, lambda: ordered_product((9, 16, 32), ("uint8", "int8", "int32", "int32"), "nt")),
    "two kinds of float8": (
        WARPS,
        lambda: ordered_product(
            (9, 16, 32), ("float8_e4m3fn", "float8_e5m2", "float32", "float32"), "nt")),
    "tf32": (WARPS, lambda: product((9, 16, 32), FLOAT).with_attr(ALLOW_TF32, True)),
    "sums of 16 bits": (WARPS, lambda: product((9, 16, 24), ("float16", "float16"))),
    "odd rows of all": (WARPS, lambda: product((9, 11, 13), HALF)),
    "odd rows of batches": (WARPS, lambda: product((9, 11, 13), HALF, [2], result="float16")),
    "few channels": (WARPS, lambda: convolution((1, 5, 4, 3), (3, 3, 7), HALF, padding=1)),
    "batches": (WARPS, lambda: product((10, 16, 24), HALF, [2])),
    "convolution": (WARPS, lambda: convolution((1, 5, 4, 64), (3, 3, 8), HALF, padding=1)),
    "stride": (WARPS, lambda: convolution((2, 5, 5, 64), (3, 3, 8), HALF, stride=2, padding=1)),
    "few channels of int8": (
        WARPS, lambda: convolution((1, 5, 4, 3), (3, 3, 8), BYTES, padding=1)),
    "few channels of tf32": (
        WARPS,
        lambda: convolution((1, 5, 4, 3), (3, 3, 8), FLOAT, padding=1).with_attr(ALLOW_TF32, True)),
    "too many axes": (WARPS, lambda: product((10, 16, 24), HALF, [1, 2, 1, 2])),
    "bias and relu": (WARPS, lambda: bias_and_relu(HALF)),
    "two consumers": (WARPS, lambda: two_consumers(HALF)),
    "float32": (THREADS, lambda: product((9, 11, 13), FLOAT)),
    "float64": (THREADS, lambda: product((9, 11, 13), ("float64", "float64"))),
    "int32": (THREADS, lambda: product((9, 11, 13), ("int32", "int32"))),
    "float32 batches": (THREADS, lambda: product((9, 11, 13), FLOAT, [2])),
    "float32 windows": (THREADS, lambda: convolution((1, 5, 4, 3), (3, 3, 7), FLOAT, padding=1)),
    "float32 bias and relu": (THREADS, lambda: bias_and_relu(FLOAT)),
    "float32 rounded bias": (THREADS, lambda: rounded_bias(FLOAT)),
    "float32 two consumers": (THREADS, lambda: two_consumers(FLOAT)),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED)
def test_the_same_is_computed(name: str) -> None:
    rule, make = COMPUTED[name]
    func = make()
    wanted = random_arrays(func, are_whole=True)
    run(func, *wanted)
    sketches = sketches_of(func, rule)
    assert not isinstance(sketches, NotApplied)
    for sketch in sketches[::3]:
        found = random_arrays(func, are_whole=True)
        run(sketch.mod["main"], *found)
        np.testing.assert_array_equal(found[-1], wanted[-1])


def product_in_numpy(arrays: list[Any]) -> Any:
    return arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)


@pytest.mark.parametrize("rule", RULES)
def test_the_same_as_numpy(rule: str) -> None:
    func = product((10, 16, 24), HALF if rule == WARPS else FLOAT)
    arrays = random_arrays(func)
    run(sketches_of(func, rule)[0].mod["main"], *arrays)
    np.testing.assert_allclose(arrays[-1], product_in_numpy(arrays), rtol=1e-5, atol=1e-5)


# --- the sketches --------------------------------------------------------------------------------


def test_a_sketch_for_each_way_to_share_a_tile() -> None:
    sketches = sketches_of(product((512, 512, 512), HALF), WARPS)
    forms = [read_tile_form(next(tile_loops(each.mod["main"].body))) for each in sketches]
    assert [(form.row.extent, form.consumers) for form in forms] == [
        (shape.rows, shape.annotations[TILE_CONSUMERS]) for shape in warp_group_tiling.SHAPES
    ]
    for form, shape in zip(forms, warp_group_tiling.SHAPES, strict=True):
        assert form.column.extent in shape.columns
        assert form.depth.extent == 64


def test_a_sketch_for_each_way_to_gather() -> None:
    sketches = sketches_of(convolution((1, 40, 40, 3), (3, 3, 64), HALF), WARPS)
    forms = [read_tile_form(next(tile_loops(each.mod["main"].body))) for each in sketches]
    assert [(form.row.extent, form.consumers, form.gatherers) for form in forms] == [
        (shape.rows, shape.annotations[TILE_CONSUMERS], shape.annotations[TILE_GATHERERS])
        for shape in warp_group_tiling.GATHERING_SHAPES
    ]


IS_GATHERED: dict[str, tuple[Callable[[], ir.PrimFunc], bool]] = {
    "windows for bulk copies": (lambda: convolution((1, 8, 8, 64), (3, 3, 64), HALF), False),
    "windows": (lambda: convolution((1, 8, 8, 3), (3, 3, 64), HALF), True),
    "windows of int8": (lambda: convolution((1, 8, 8, 3), (3, 3, 64), BYTES), True),
    "windows of tf32": (
        lambda: convolution((1, 8, 8, 3), (3, 3, 64), FLOAT).with_attr(ALLOW_TF32, True), True),
    "weights of int8": (lambda: convolution((1, 8, 8, 128), (3, 3, 64), BYTES), False),
    "a matrix": (lambda: product((64, 64, 77), HALF), False),
    "a matrix that cannot be packed": (lambda: product((64, 64, 64), HALF, [2, 2, 2, 2]), True),
    "a matrix of tf32 that cannot be packed": (
        lambda: product((64, 64, 64), FLOAT, [2, 2, 2, 2]).with_attr(ALLOW_TF32, True), True),
}  # fmt: skip


@pytest.mark.parametrize("name", IS_GATHERED)
def test_windows_are_gathered_and_matrices_packed(name: str) -> None:
    make, is_gathered = IS_GATHERED[name]
    for sketch in sketches_of(make(), WARPS):
        form = read_tile_form(next(tile_loops(sketch.mod["main"].body)))
        assert (form.gatherers > 0) == is_gathered


def test_a_sketch_for_each_tile_of_a_thread() -> None:
    sketches = sketches_of(product((512, 512, 512), FLOAT), THREADS)
    forms = [read_tile_form(next(tile_loops(each.mod["main"].body))) for each in sketches]
    assert [(form.row.extent, form.thread_tile) for form in forms] == [
        (shape.rows, (shape.annotations[THREAD_ROWS], shape.annotations[THREAD_COLUMNS]))
        for shape in thread_tiling.SHAPES
    ]


@pytest.mark.parametrize(
    ("columns", "widths"), [(8, [32]), (32, [32]), (33, [32, 64]), (1000, [32, 64, 96, 128])]
)
def test_tiles_are_not_much_wider_than_the_result(columns: int, widths: list[int]) -> None:
    shape = warp_group_tiling.SHAPES[1]
    assert tile_rule._columns_of(columns, shape) == widths


def test_rows_of_tiles_that_are_done_together_divide_them() -> None:
    assert tile_rule._orders_of(1) == [1]
    assert tile_rule._orders_of(12) == [1, 4, 6, 12]
    assert tile_rule._orders_of(33) == [1, 3, 11, 33]
    assert tile_rule._orders_of(64) == [1, 4, 8, 16]
    assert tile_rule._orders_of(67) == [1]


def test_blocks_share_tiles_where_they_are_few_and_sums_are_long() -> None:
    assert tile_rule._splits_of(128, [64, 8], 132) == [1, 2, 4, 8, STREAMED]
    assert tile_rule._splits_of(15, [8], 132) == [1, 2]
    assert tile_rule._splits_of(128, [50], 132) == [1, 2, STREAMED]
    assert tile_rule._splits_of(128, [128], 132) == [1]


def test_all_steps_are_shared_where_the_last_round_of_tiles_would_leave_processors_idle() -> None:
    assert tile_rule._splits_of(128, [160, 100], 132) == [1, STREAMED]
    assert tile_rule._splits_of(128, [200, 264], 132) == [1]
    assert tile_rule._splits_of(128, [132, 264], 132) == [1]
    assert tile_rule._splits_of(128, [132 * 20 + 1], 132) == [1]
    assert tile_rule._splits_of(4, [100], 132) == [1]


@pytest.mark.parametrize("make", [bias_and_relu, rounded_bias])
@pytest.mark.parametrize(("dtypes", "rule"), [(HALF, WARPS), (FLOAT, THREADS)])
def test_what_comes_after_the_sum_is_done_on_the_way_out(
    make: Callable[[tuple[str, str]], ir.PrimFunc], dtypes: tuple[str, str], rule: str
) -> None:
    (sketch, *_) = sketches_of(make(dtypes), rule)
    (tiles,) = tile_loops(sketch.mod["main"].body)
    output = read_tile_form(tiles).output
    assert "T.max" in str(output.store.value)
    assert "bias" in str(output.store.value)


def test_results_that_bulk_copies_cannot_write_are_made_afterwards() -> None:
    func = product((64, 64, 128), BYTES, is_turned=True, result="int8")
    (sketch, *_) = sketches_of(func, WARPS)
    (tiles,) = tile_loops(sketch.mod["main"].body)
    assert str(read_tile_form(tiles).output.store.buffer.dtype) == "int32"


# --- what is left alone --------------------------------------------------------------------------

NOT_OF_TENSOR_CORES = "its types are not those of tensor cores"
LEFT_ALONE: dict[str, tuple[str, Callable[[], ir.PrimFunc], str]] = {
    "float32 on tensor cores": (WARPS, lambda: product((64, 64, 64), FLOAT), NOT_OF_TENSOR_CORES),
    "float16 on plain cores": (
        THREADS, lambda: product((64, 64, 64), HALF),
        "it does not multiply numbers of 32 or 64 bits"),
    "row sums": (
        THREADS, lambda: row_sums(), "it does not multiply numbers of 32 or 64 bits"),
    "a sum of differences": (
        THREADS, lambda: differences(), "it is not a product of two matrices"),
}  # fmt: skip


def row_sums() -> ir.PrimFunc:
    a = te.placeholder((64, 64), "float32", name="A")
    return te.create_prim_func([a, topi.sum(a, axis=1)])


def differences() -> ir.PrimFunc:
    a = te.placeholder((64, 64), "float32", name="A")
    b = te.placeholder((64, 64), "float32", name="B")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] - b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_left_alone(name: str) -> None:
    rule, make, reason = LEFT_ALONE[name]
    assert reason_of(sketches_of(make(), rule)) == reason


@pytest.mark.parametrize("target", ["nvidia/nvidia-a100", "llvm"])
def test_other_targets_have_no_warp_groups(target: str) -> None:
    sketches = sketches_of(product((64, 64, 64), HALF), WARPS, target=Target(target))
    assert reason_of(sketches) == "the target has no warp groups (they came with sm_90)"


@pytest.mark.parametrize("target", ["nvidia/nvidia-t4", "llvm"])
def test_other_targets_have_no_asynchronous_copies(target: str) -> None:
    sketches = sketches_of(product((64, 64, 64), FLOAT), THREADS, target=Target(target))
    assert reason_of(sketches) == ("the target has no asynchronous copies (they came with sm_80)")


def test_plain_cores_of_older_gpus() -> None:
    sketches = sketches_of(
        product((64, 64, 64), FLOAT), THREADS, target=Target("nvidia/nvidia-a100")
    )
    assert len(sketches) == len(thread_tiling.SHAPES)


def test_blocks_that_are_taken_are_left_alone() -> None:
    for rule, dtypes in ((WARPS, HALF), (THREADS, FLOAT)):
        (sketch, *_) = sketches_of(product((64, 64, 64), dtypes), rule)
        again = sketches_of(sketch.mod["main"], rule)
        assert reason_of(again) == "another rule has taken care of it already"
