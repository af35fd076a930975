# mypy: disable-error-code="valid-type, no-untyped-def"
"""What single columns mean, on programs small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import TuneError
from tilewright.features import PerStoreFeature
from tilewright.features.per_store import workload_embedding
from tilewright.ir import IRModule, PrimFunc
from tilewright.records import MeasureCandidate
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.target import Target
from tilewright.testing.conformance.candidates import SmallContext

EXTRACTOR = PerStoreFeature()


def rows_of(func: PrimFunc, is_gpu: bool = False) -> list[dict[str, float]]:
    """Each row as a dictionary, off the logarithmic scale."""
    matrix = EXTRACTOR.extract(IRModule({"main": func}), is_gpu)
    plain = np.round(2**matrix - 1, 6)
    return [dict(zip(EXTRACTOR.column_names, row, strict=True)) for row in plain.tolist()]


def check(row: dict[str, float], **expected: float) -> None:
    found = {name: row[name.replace("__", ".")] for name in expected}
    assert found == pytest.approx(expected, rel=1e-6)


@T.prim_func
def shared_loop(
    A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")
) -> None:
    for i_0 in range(5):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(20, i_0 * 4 + i)
                B[vi] = A[vi]
        for i in range(3):
            with T.block("C"):
                vi = T.axis.spatial(19, i_0 * 4 + i)
                C[vi] = A[vi] + B[vi]


def test_reuse_between_the_stores_of_a_loop() -> None:
    first, second = rows_of(shared_loop)
    check(first, B0__reuse_type__kNoReuse=1, B0__bytes=80, B0__bytes_d_reuse_ct=160)
    check(
        second,
        B0__reuse_type__kSerialMultipleReadWrite=1,
        B0__reuse_dis_iter=19 / 5,  # the smaller of 20 and 19 elements, over five iterations
        B0__reuse_dis_bytes=(20 + 20 + 19 + 19 + 19) * 4 / 5,
        B0__reuse_ct=1,
        B2__reuse_type__kNoReuse=1,
        float_addsub=15,
        int_addsub=30,
        int_mul=30,
        num_loops=2,
    )


@T.prim_func
def transposed(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")) -> None:
    for i, j in T.grid(64, 64):
        for u in T.vectorized(1):
            with T.block("B"):
                vi = T.axis.spatial(64, i + u)
                vj = T.axis.spatial(64, j)
                B[vi, vj] = A[vi, vj] + A[vj, vi]


def test_the_smallest_stride_of_several_loads_counts() -> None:
    (row,) = rows_of(transposed)
    check(row, vec_num=1, vec_len=1, num_loops=3, B0__lines=256, B1__lines=256, B0__stride=0)
    check(row, B0__reuse_type__kLoopMultipleRead=1, B0__reuse_ct=1, B0__reuse_dis_bytes=8)


@T.prim_func
def conditions(A: T.Buffer((65, 64), "float32"), B: T.Buffer((64, 64), "float32")) -> None:
    for i, j in T.grid(64, 64):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i + j < 60)
            B[vi, vj] = T.if_then_else(
                vi + vj < 60,
                A[vi, vj] + T.if_then_else(vi < 64, A[vi + 1, vj], T.float32(2)),
                T.float32(5),
            ) * T.Select(vi < 3, T.float32(2), T.float32(3))


def test_conditions_that_always_hold_cost_nothing() -> None:
    (row,) = rows_of(conditions)
    check(row, float_mathfunc=4096, int_cmp=4096, int_addsub=8192, float_addsub=4096)
    check(row, select_op=0, float_mul=0)  # a choice that loads nothing counts as one


@T.prim_func
def nested_choices(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    for i in range(64):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = T.if_then_else(
                vi % 2 == 0,
                T.if_then_else(vi < 9, A[vi], T.float32(0)),
                T.float32(0),
            )


def test_choices_with_the_same_other_value_are_one() -> None:
    (row,) = rows_of(nested_choices)
    check(row, float_mathfunc=64, bool_op=64, int_cmp=128, int_divmod=64)


@T.prim_func
def local_stage(A: T.Buffer((32, 32), "float32"), C: T.Buffer((32, 32), "float32")) -> None:
    B = T.alloc_buffer((32, 32), "float32")
    for i_0, j_0 in T.grid(4, 2):
        for i, j in T.grid(8, 16):
            with T.block("B"):
                vi = T.axis.spatial(32, i_0 * 8 + i)
                vj = T.axis.spatial(32, j_0 * 16 + j)
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(8, 16):
            with T.block("C"):
                vi = T.axis.spatial(32, i_0 * 8 + i)
                vj = T.axis.spatial(32, j_0 * 16 + j)
                C[vi, vj] = B[vi, vj] + T.float32(1.5)


def test_buffers_are_as_small_as_their_place_allows() -> None:
    first, second = rows_of(local_stage)
    check(first, alloc_size=8 * 16 * 4, alloc_prod=8 * 16 * 8, alloc_outer_prod=8)
    check(first, alloc_inner_prod=128, outer_prod=1024)
    check(second, int_addsub=0, alloc_size=32 * 32 * 4, alloc_outer_prod=1)


@T.prim_func
def constants(B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "int32")) -> None:
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.float32(1)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.if_then_else(vi < 8, 3, 4)


def test_stores_of_constants_have_no_row() -> None:
    assert EXTRACTOR.extract(IRModule({"main": constants}), is_gpu=False).shape == (0, 164)


@T.prim_func
def dead_branch(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            if vi < 8:
                B[vi] = A[vi] + T.float32(2.5)
            else:
                B[vi] = A[vi] * T.float32(2.5)


def test_branches_that_never_run_have_no_row() -> None:
    (row,) = rows_of(dead_branch)
    check(row, float_addsub=8, float_mul=0)


@T.prim_func
def rewritten_layout(
    A: T.Buffer((8, 4), "float32"), W: T.Buffer((4, 8), "float32"), C: T.Buffer((8,), "float32")
) -> None:
    packed = T.alloc_buffer((8, 4), "float32")
    for i, j in T.grid(8, 4):
        with T.block("pack"):
            T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
            vi, vj = T.axis.remap("SS", [i, j])
            packed[vi, vj] = W[vj, vi]
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk] * packed[vi, vk]


def test_layouts_of_weights_are_changed_before_the_run() -> None:
    (row,) = rows_of(rewritten_layout)
    check(row, float_mul=32, B0__unique_bytes=128, B2__acc_type__kReadWrite=1)


@T.prim_func
def matched(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32")) -> None:
    for i_0, j_0 in T.grid(4, 4):
        with T.block("outer"):
            vi, vj = T.axis.remap("SS", [i_0, j_0])
            T.reads(A[vi * 8 : vi * 8 + 8, vj * 8 : vj * 8 + 8])
            T.writes(B[vi * 8 : vi * 8 + 8, vj * 8 : vj * 8 + 8])
            tile = T.match_buffer(A[vi * 8 : vi * 8 + 8, vj * 8 : vj * 8 + 8], (8, 8), "float32")
            for i, j in T.grid(8, 8):
                with T.block("inner"):
                    vii, vjj = T.axis.remap("SS", [i, j])
                    B[vi * 8 + vii, vj * 8 + vjj] = tile[vii, vjj] + T.float32(2.5)


def test_views_are_what_they_match() -> None:
    (row,) = rows_of(matched)
    check(row, B0__unique_bytes=4096, B1__unique_bytes=4096, int_addsub=2048, int_mul=2048)


@T.prim_func
def on_threads(A: T.Buffer((64, 32), "float32"), B: T.Buffer((64, 32), "float32")) -> None:
    S = T.alloc_buffer((64, 32), "float32", scope="shared")
    for b in T.thread_binding(64, thread="blockIdx.x"):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            for x in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("S"):
                    vi, vj = T.axis.remap("SS", [b, x])
                    S[vi, vj] = A[vi, vj] * T.float32(2)
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [b, t])
                B[vi, vj] = S[vi, vj] + T.float32(2.5)


def test_threads_of_a_gpu() -> None:
    shared, last = rows_of(on_threads, is_gpu=True)
    check(shared, is_gpu=1, blockIdx_x_len=64, threadIdx_x_len=32, threadIdx_y_len=1, vthread_len=1)
    check(shared, num_loops=2, outer_prod=2048, alloc_size=32 * 4)  # one row for all threads
    check(last, num_loops=2, int_mul=0)


def test_no_loops() -> None:
    @T.prim_func
    def scalar(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")) -> None:
        for _ in range(1):
            with T.block("B"):
                B[0] = T.sqrt(A[0])

    (row,) = rows_of(scalar)
    check(row, float_mathfunc=1, num_loops=0, B0__unique_bytes=1, arith_intensity_curve_9=0)


def test_unroll_steps_come_from_the_innermost_loop_that_has_one() -> None:
    @T.prim_func
    def annotated(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")) -> None:
        for i in T.serial(8, annotations={"pragma_auto_unroll_max_step": 16}):
            for j in T.serial(8, annotations={"pragma_auto_unroll_max_step": 64}):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + T.float32(2)

    (row,) = rows_of(annotated)
    check(row, auto_unroll_max_step=64)


def test_widths() -> None:
    assert EXTRACTOR.feature_vector_length == 164
    assert PerStoreFeature(extract_workload=True).feature_vector_length == 172
    small = PerStoreFeature(2, 4)
    assert small.feature_vector_length == 57 + 2 * 18 + 4 + 7
    assert small.extract(IRModule({"main": transposed}), is_gpu=False).shape == (1, 104)


def test_the_workload_of_the_task_not_of_the_candidate_is_embedded() -> None:
    @T.prim_func
    def named(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        C = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("T_add_softmax"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[vi] + T.float32(2)
        for i in range(8):
            with T.block("Conv2d"):
                vi = T.axis.spatial(8, i)
                B[vi] = C[vi] + T.float32(2)

    task = IRModule({"main": named})
    assert workload_embedding(task) == [1, 0, 0, 0, 0, 0, 0, 1]
    candidate = MeasureCandidate(Schedule(IRModule({"main": transposed})), ())
    context = SmallContext(task, Target("llvm"))
    (rows,) = PerStoreFeature(extract_workload=True).extract_from(context, [candidate])
    assert rows[:, 164:].tolist() == [[1, 0, 0, 0, 0, 0, 0, 1]]


def test_bad_settings() -> None:
    with pytest.raises(TuneError) as error:
        PerStoreFeature(buffers_per_store=0)
    assert str(error.value) == "PerStoreFeature: buffers_per_store must be at least 1, got 0"
