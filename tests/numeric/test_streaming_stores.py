# mypy: disable-error-code="valid-type, no-untyped-def"
"""Stores past the caches: the instruction, the fence, and the same results wherever arrays lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.driver import compile_only
from tilewright.ir import PrimFunc
from tilewright.ir.annotation_keys import STREAM_STORES
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.target import Target

ROWS, COLUMNS = 12, 48


@T.prim_func
def doubled(A: T.Buffer((ROWS, COLUMNS), "float32"), B: T.Buffer((ROWS, COLUMNS), "float32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    for i, j in T.grid(ROWS, COLUMNS):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


def streamed(*, parallel: bool = False, lanes: int = 16, func: PrimFunc = doubled) -> Schedule:
    sch = Schedule(func)
    rows, columns = sch.get_loops("B")
    if parallel:
        task, rows = sch.split(rows, [None, 4])
        sch.parallel(task)
    _, vector = sch.split(columns, [None, lanes])
    sch.vectorize(vector)
    sch.annotate(rows, STREAM_STORES, 1)
    return sch


def assembly(sch: Schedule, target: str = "llvm -mcpu=x86-64-v4") -> str:
    return compile_only(sch.mod, Target(target)).get_source("asm")


def memory_at(offset: int) -> Any:
    """An array that starts `offset` bytes behind the start of a cache line."""
    raw = np.zeros(ROWS * COLUMNS * 4 + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    return raw[start : start + ROWS * COLUMNS * 4].view(np.float32).reshape(ROWS, COLUMNS)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("lanes", [4, 8, 16, 48])
@pytest.mark.parametrize("offset", [0, 4, 16, 32])
def test_results_do_not_depend_on_where_arrays_lie(parallel: bool, lanes: int, offset: int) -> None:
    module = tw.build(streamed(parallel=parallel, lanes=lanes).mod)
    a = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    b = memory_at(offset)
    module(a, b)
    np.testing.assert_array_equal(b, 2 * a)


@pytest.mark.parametrize("parallel", [False, True])
def test_whole_lines_are_streamed_and_fenced(parallel: bool) -> None:
    text = assembly(streamed(parallel=parallel))
    assert "vmovntps" in text
    assert text.count("sfence") == 1
    assert "vmovups" in text  # for memory that is not aligned


def test_other_threads_start_behind_the_fence() -> None:
    @T.prim_func
    def two_steps(
        A: T.Buffer((ROWS, COLUMNS), "float32"),
        B: T.Buffer((ROWS, COLUMNS), "float32"),
        C: T.Buffer((ROWS, COLUMNS), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, j in T.grid(ROWS, COLUMNS):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(ROWS, COLUMNS):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    sch = streamed(func=two_steps)
    sch.parallel(sch.get_loops("C")[0])
    text = compile_only(sch.mod, Target("llvm -mcpu=x86-64-v4")).get_source("ll")
    assert 0 < text.index("call void @llvm.x86.sse.sfence") < text.index("@tw_parallel_launch(ptr")


def test_old_processors() -> None:
    text = assembly(streamed(lanes=4), "llvm -mcpu=x86-64")
    assert "movntps" in text
    assert "sfence" in text


def test_rows_that_do_not_start_a_line() -> None:
    @T.prim_func
    def ragged(A: T.Buffer((ROWS, 50), "float32"), B: T.Buffer((ROWS, 50), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, j in T.grid(ROWS, 48):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)

    text = assembly(streamed(func=ragged))
    assert "movnt" not in text
    assert "sfence" not in text


def test_own_memory_and_single_elements_are_not_streamed() -> None:
    @T.prim_func
    def summed(A: T.Buffer((ROWS, COLUMNS), "float32"), C: T.Buffer((ROWS,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((ROWS, COLUMNS))
        for i, j in T.grid(ROWS, COLUMNS):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i in T.serial(ROWS, annotations={"pragma_stream_stores": 1}):
            with T.block("C"):
                vi = T.axis.spatial(ROWS, i)
                C[vi] = B[vi, 0] + B[vi, COLUMNS - 1]

    assert "movnt" not in assembly(streamed(func=summed))


def test_other_architectures() -> None:
    text = compile_only(streamed(lanes=4).mod, Target("llvm -mtriple=aarch64-linux-gnu"))
    assert "nontemporal" not in text.get_source("ll")
