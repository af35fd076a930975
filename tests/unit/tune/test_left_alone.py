# mypy: disable-error-code="valid-type, no-untyped-def"
"""Blocks and loops that no schedule changes: the rest is tuned, and users are told."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from tilewright.driver import build
from tilewright.ir import PrimFunc, as_module
from tilewright.measure.arguments import ArgumentSet, TensorSpec
from tilewright.records import args_info_of, normalize_mod
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.search.replayer import Replayer, SearchStatistics
from tilewright.testing import oracle
from tilewright.testing.edge_programs import ragged_rows
from tilewright.tune.checks import left_alone
from tilewright.tune.context import TuneContext
from tilewright.tune.fallback import default_schedule

TARGET = "llvm -num-cores=2"


@T.prim_func
def ordered_scan(A: T.Buffer((64, 40), "float32"), B: T.Buffer((64, 40), "float32")):
    for i, j in T.grid(64, 40):
        with T.block("scan"):
            vi = T.axis.spatial(64, i)
            vj = T.axis.scan(40, j)
            if vj == 0:
                B[vi, vj] = A[vi, vj]
            else:
                B[vi, vj] = B[vi, vj - 1] + A[vi, vj]


@T.prim_func
def scan(A: T.Buffer((64, 40), "float32"), B: T.Buffer((64, 40), "float32")):
    for i, j in T.grid(64, 40):
        with T.block("scan"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vj == 0, T.float32(0), B[vi, T.max(vj - 1, 0)]) + A[vi, vj]


@T.prim_func
def scan_in_a_block(A: T.Buffer((64, 40), "float32"), B: T.Buffer((64, 40), "float32")):
    for i in range(64):
        with T.block("scan"):
            vi = T.axis.spatial(64, i)
            T.reads(A[vi, 0:40])
            T.writes(B[vi, 0:40])
            B[vi, 0] = A[vi, 0]
            for j in range(39):
                B[vi, j + 1] = B[vi, j] + A[vi, j + 1]


@T.prim_func
def scan_between(A: T.Buffer((64, 40), "float32"), C: T.Buffer((64, 40), "float32")):
    X = T.alloc_buffer((64, 40))
    B = T.alloc_buffer((64, 40))
    for i, j in T.grid(64, 40):
        with T.block("double"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(64, 40):
        with T.block("scan"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vj == 0, T.float32(0), B[vi, T.max(vj - 1, 0)]) + X[vi, vj]
    for i, j in T.grid(64, 40):
        with T.block("exp"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.exp(B[vi, vj])


@T.prim_func
def in_place(A: T.Buffer((64, 40), "float32"), B: T.Buffer((64, 40), "float32")):
    for i, j in T.grid(64, 40):
        with T.block("update"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = B[vi, vj] * T.float32(0.5) + A[vi, vj]


@T.prim_func
def with_while(
    A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "int32"), C: T.Buffer((64,), "float32")
):
    for i in range(64):
        with T.block("halve"):
            vi = T.axis.spatial(64, i)
            T.reads(A[vi])
            T.writes(B[vi], C[vi])
            B[vi] = 0
            C[vi] = T.fabs(A[vi]) * T.float32(1000)
            while C[vi] > T.float32(1):
                C[vi] = C[vi] * T.float32(0.5)
                B[vi] = B[vi] + 1


@T.prim_func
def csr(
    indptr: T.Buffer((65,), "int32"),
    indices: T.Buffer((512,), "int32"),
    data: T.Buffer((512,), "float32"),
    x: T.Buffer((64,), "float32"),
    y: T.Buffer((64,), "float32"),
):
    for i in range(64):
        with T.block("row"):
            vi = T.axis.spatial(64, i)
            T.reads(indptr[vi : vi + 2], indices[0:512], data[0:512], x[0:64])
            T.writes(y[vi])
            y[vi] = T.float32(0)
            for k in range(indptr[vi + 1] - indptr[vi]):
                y[vi] = y[vi] + data[indptr[vi] + k] * x[indices[indptr[vi] + k]]


@T.prim_func
def csr_blocks(
    indptr: T.Buffer((65,), "int32"),
    indices: T.Buffer((512,), "int32"),
    data: T.Buffer((512,), "float32"),
    x: T.Buffer((64,), "float32"),
    z: T.Buffer((64,), "float32"),
):
    y = T.alloc_buffer((64,))
    for i in range(64):
        with T.block("outer"):
            vi = T.axis.spatial(64, i)
            T.reads(indptr[vi : vi + 2], indices[0:512], data[0:512], x[0:64])
            T.writes(y[vi])
            for k in range(indptr[vi + 1] - indptr[vi]):
                with T.block("inner"):
                    vk = T.axis.reduce(indptr[vi + 1] - indptr[vi], k)
                    with T.init():
                        y[vi] = T.float32(0)
                    y[vi] = y[vi] + data[indptr[vi] + vk] * x[indices[indptr[vi] + vk]]
    for i in range(64):
        with T.block("relu"):
            vi = T.axis.spatial(64, i)
            z[vi] = T.max(y[vi], T.float32(0))


@T.prim_func
def jacobi(A: T.Buffer((66, 66), "float32")):
    for _t in range(4):
        for i, j in T.grid(64, 64):
            with T.block("step"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi + 1, vj + 1] = (
                    A[vi, vj + 1] + A[vi + 2, vj + 1] + A[vi + 1, vj] + A[vi + 1, vj + 2]
                ) * T.float32(0.25)


@T.prim_func
def ordered_steps(A: T.Buffer((64,), "float32")):
    for i in range(63):
        with T.block("step"):
            vi = T.axis.scan(63, i)
            A[vi + 1] = A[vi + 1] + A[vi]


@T.prim_func
def jacobi_between(A: T.Buffer((66, 66), "float32"), C: T.Buffer((66, 66), "float32")):
    X = T.alloc_buffer((66, 66))
    for i, j in T.grid(66, 66):
        with T.block("double"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(64, 64):
        with T.block("step"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi + 1, vj + 1] = X[vi, vj + 1] + X[vi + 1, vj]
    for i, j in T.grid(66, 66):
        with T.block("exp"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.exp(X[vi, vj] * T.float32(0.001))


@T.prim_func
def ping_pong(A: T.Buffer((18, 18), "float32"), B: T.Buffer((18, 18), "float32")):
    for _t in range(4):
        for i, j in T.grid(16, 16):
            with T.block("there"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi + 1, vj + 1] = (A[vi, vj + 1] + A[vi + 2, vj + 1]) * T.float32(0.5)
        for i, j in T.grid(16, 16):
            with T.block("back"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi + 1, vj + 1] = B[vi + 1, vj + 1]


TO_HAVE_IT_TUNED = (
    "to have it tuned, write into another buffer than it reads, or move the loop that carries "
    "values on into the block"
)
AS_WRITTEN = "so its loops stay as written"
CSR_LOOP = (
    "loop 'k' runs as often as data say (`indptr[vi + 1] - indptr[vi]`), so it stays as "
    "written; the loops around it are tuned"
)


@pytest.mark.parametrize(
    ("func", "sentences"),
    [
        (
            ordered_steps,
            [f"block 'step' has the ordered iterator 'vi', {AS_WRITTEN}; {TO_HAVE_IT_TUNED}"],
        ),
        (ordered_scan, []),  # its rows are independent
        (scan, []),
        (scan_in_a_block, []),
        (scan_between, []),
        (
            jacobi_between,
            [f"block 'step' reads what it writes, {AS_WRITTEN}; the other 2 blocks are tuned"],
        ),
        (in_place, []),
        (with_while, []),
        (csr, [CSR_LOOP]),
        (csr_blocks, [CSR_LOOP]),
        (jacobi, [f"block 'step' reads what it writes, {AS_WRITTEN}; {TO_HAVE_IT_TUNED}"]),
    ],
)
def test_what_users_are_told(func: PrimFunc, sentences: list[str]) -> None:
    assert left_alone(normalize_mod(func)) == sentences


PROGRAMS = [
    ordered_scan, ordered_steps, scan, scan_in_a_block, scan_between, in_place, with_while, csr,
    csr_blocks, ragged_rows, jacobi, jacobi_between, ping_pong,
]  # fmt: skip


def arguments_for(func: PrimFunc) -> list[Any]:
    """Random ones, where pointers of rows rise."""
    infos = [TensorSpec(info.dtype, info.shape) for info in args_info_of(as_module(func))]
    arrays = ArgumentSet.random(infos, ["rw"] * len(infos), 1, positive=False).arrays
    for param, array in zip(func.params, arrays, strict=True):
        if func.buffer_map[param].name == "indptr":
            array[:] = np.cumsum(array) - array
    return arrays


def assert_agrees(func: PrimFunc, sch: Schedule) -> None:
    expected, actual = arguments_for(func), arguments_for(func)
    oracle.run(func, *expected)
    build(sch.mod, TARGET)(*actual)
    for want, have in zip(expected, actual, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("func", PROGRAMS, ids=lambda func: func.name)
def test_it_has_a_schedule_without_a_search(func: PrimFunc) -> None:
    assert_agrees(func, default_schedule(func, TARGET))


@pytest.mark.parametrize("space", ["tilewright", "post-order-apply"])
@pytest.mark.parametrize("func", PROGRAMS, ids=lambda func: func.name)
def test_every_sketch_becomes_a_candidate(func: PrimFunc, space: str) -> None:
    context = TuneContext(func, target=TARGET, space_generator=space, rand_state=1)
    assert context.mod is not None
    assert context.space_generator is not None
    counts = SearchStatistics()
    replayer = Replayer(
        context.mod,
        args_info_of(context.mod),
        context.space_generator.postprocs,
        counts,
        logging.getLogger("tilewright.tune"),
    )
    for sketch in context.generate_design_space():
        assert sketch.trace is not None
        draft = replayer.replay(sketch.trace, 1)
        assert draft is not None, counts
        assert_agrees(func, draft.candidate.sch)


def test_the_other_blocks_are_scheduled() -> None:
    script = default_schedule(jacobi_between, TARGET).mod.script()
    before, _, after = script.partition('T.block("step")')
    assert "T.parallel" in before or "T.parallel" in after
    assert "T.vectorized" in before or "T.vectorized" in after
