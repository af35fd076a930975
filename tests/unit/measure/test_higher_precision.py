"""The reference in higher precision: how it is made, and what candidates are held against."""

# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.driver import build
from tilewright.ir import PrimFunc, as_module, verify_well_formed
from tilewright.measure import LocalBuilder, LocalRunner
from tilewright.measure.arguments import ArgumentSet, TensorSpec
from tilewright.measure.checking import inexact_outputs
from tilewright.measure.higher_precision import in_higher_precision, with_precise_twin
from tilewright.measure.tolerance import Rounding, rounding_of
from tilewright.records import (
    BuilderInput,
    FailureKind,
    RunnerInput,
    RunnerResult,
    args_info_of,
    normalize_mod,
)
from tilewright.script import tir as T
from tilewright.target import Target
from tilewright.testing import oracle

Array = npt.NDArray[Any]


def row_sums(dtype: str, accumulator: str = "", *, rows: int = 4, terms: int = 4096) -> PrimFunc:
    """Sums of the rows of a matrix, accumulated in the output, or in a buffer of another type."""

    @T.prim_func
    def in_place(A: T.Buffer((rows, terms), dtype), C: T.Buffer((rows,), dtype)):
        for i, k in T.grid(rows, terms):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.Cast(dtype, 0)
                C[vi] = C[vi] + A[vi, vk]

    @T.prim_func
    def apart(A: T.Buffer((rows, terms), dtype), C: T.Buffer((rows,), dtype)):
        S = T.alloc_buffer((rows,), accumulator or dtype)
        for i, k in T.grid(rows, terms):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.Cast(accumulator or dtype, 0)
                S[vi] = S[vi] + T.Cast(accumulator or dtype, A[vi, vk])
        for i in range(rows):
            with T.block("C"):
                vi = T.axis.spatial(rows, i)
                C[vi] = T.Cast(dtype, S[vi])

    return apart if accumulator else in_place


# --- the transformation ---


def test_a_result_that_is_accumulated_in_place() -> None:
    precise = in_higher_precision(row_sums("float16", rows=2, terms=8))
    assert precise is not None

    @T.prim_func
    def expected(A: T.Buffer((2, 8), "float16"), C: T.Buffer((2,), "float16")):
        T.func_attr({"global_symbol": "in_place"})
        wide = T.alloc_buffer((2,), "float64")
        for i0 in range(2):
            with T.block("C_in"):
                v0 = T.axis.spatial(2, i0)
                wide[v0] = T.Cast("float64", C[v0])
        for i, k in T.grid(2, 8):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    wide[vi] = T.float64(0)
                wide[vi] = wide[vi] + T.Cast("float64", A[vi, vk])
        for i0 in range(2):
            with T.block("C_out"):
                v0 = T.axis.spatial(2, i0)
                C[v0] = T.Cast("float16", wide[v0])

    assert precise.script().replace("C_1", "wide") == expected.script()


@T.prim_func
def softmax(A: T.Buffer((3, 50), "bfloat16"), B: T.Buffer((3, 50), "bfloat16")):
    largest = T.alloc_buffer((3,), "bfloat16")
    total = T.alloc_buffer((3,), "bfloat16")
    for i, k in T.grid(3, 50):
        with T.block("largest"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                largest[vi] = T.min_value("bfloat16")
            largest[vi] = T.max(largest[vi], A[vi, vk])
    for i, k in T.grid(3, 50):
        with T.block("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.Cast("bfloat16", 0)
            total[vi] = total[vi] + T.exp(A[vi, vk] - largest[vi])
    for i, k in T.grid(3, 50):
        with T.block("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = T.exp(A[vi, vk] - largest[vi]) / total[vi]


@T.prim_func
def updates_half(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
    for i in range(20):
        with T.block("B"):
            v = T.axis.spatial(20, i)
            B[v * 2] = B[v * 2] * T.float32(0.1) + T.if_then_else(v < 5, A[v], T.float32(0.2))


@T.prim_func
def scan_of_a_view(A: T.Buffer((6, 8), "float16"), B: T.Buffer((6, 8), "float16")):
    for i in range(6):
        with T.block("row"):
            v = T.axis.spatial(6, i)
            T.reads(A[v, 0:8])
            T.writes(B[v, 0:8])
            row = T.match_buffer(B[v, 0:8], (8,), "float16", strides=[1], offset_factor=1)
            row[0] = A[v, 0]
            for k in range(7):
                step = T.float16(0.1) * A[v, k + 1]
                row[k + 1] = row[k] * T.float16(0.9) + step


@T.prim_func
def total_of_all(
    A: T.Buffer((30,), "float32"), n: T.Buffer((1,), "int32"), B: T.Buffer((), "float32")
):
    for k in range(30):
        with T.block("B"):
            v = T.axis.reduce(30, k)
            with T.init():
                B[()] = T.float32(0)
            B[()] = B[()] + T.Select(A[v] > T.float32(0), T.Cast("float32", n[0]), A[v])


def softmax_in_numpy(a: Array, b: Array) -> Array:
    exps = np.exp(a - a.max(axis=1, keepdims=True))
    return np.asarray(exps / exps.sum(axis=1, keepdims=True))


def updates_half_in_numpy(a: Array, b: Array) -> Array:
    b[::2] = b[::2] * 0.1 + np.where(np.arange(20) < 5, a[:20], 0.2)
    return b


def scan_in_numpy(a: Array, b: Array) -> Array:
    b[:, 0] = a[:, 0]
    for k in range(7):
        b[:, k + 1] = b[:, k] * 0.9 + a[:, k + 1] * 0.1
    return b


def total_in_numpy(a: Array, n: Array, b: Array) -> Array:
    return np.asarray(np.where(a > 0, n[0], a).sum())


def row_sums_in_numpy(a: Array, c: Array) -> Array:
    return np.asarray(a.sum(axis=1))


def random_arguments(func: PrimFunc) -> list[Array]:
    """Random contents for all arguments, results too."""
    infos = [TensorSpec(info.dtype, info.shape) for info in args_info_of(as_module(func))]
    return ArgumentSet.random(infos, ["rw"] * len(infos), 1, positive=False).arrays


@pytest.mark.parametrize(
    ("func", "in_numpy"),
    [
        (softmax, softmax_in_numpy),
        (updates_half, updates_half_in_numpy),
        (scan_of_a_view, scan_in_numpy),
        (total_of_all, total_in_numpy),
        (row_sums("float16"), row_sums_in_numpy),
        (row_sums("bfloat16", "float32"), row_sums_in_numpy),
        (row_sums("float8_e5m2"), row_sums_in_numpy),
        (row_sums("float32"), row_sums_in_numpy),
    ],
)
def test_results_are_rounded_once(func: PrimFunc, in_numpy: Callable[..., Array]) -> None:
    precise = in_higher_precision(func)
    assert precise is not None
    verify_well_formed(precise)
    given = random_arguments(func)
    exact = in_numpy(*(array.astype(np.float64) for array in given)).astype(given[-1].dtype)
    for run in (build(precise, "llvm"), lambda *args: oracle.run(precise, *args)):
        args = [array.copy() for array in given]
        run(*args)
        for before, after in zip(given[:-1], args[:-1], strict=True):
            np.testing.assert_array_equal(before, after)
        # Half a unit of the type, and the last digits of float64.
        unit = float(np.spacing(np.ones((), exact.dtype)))
        np.testing.assert_allclose(
            args[-1].astype(np.float64), exact.astype(np.float64), rtol=unit / 2, atol=1e-12
        )


def test_a_module_with_its_twins() -> None:
    mod = normalize_mod(row_sums("float16", terms=8))
    twin = with_precise_twin(mod)
    assert list(twin.functions) == ["main", "main.precise"]
    assert twin.functions["main"] is mod.functions["main"]
    assert twin.functions["main.precise"].name == "main.precise"


@T.prim_func
def calls_c(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = T.call_pure_extern("float32", "fabsf", A[v])


@T.prim_func
def reads_bits(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = T.reinterpret("float32", T.reinterpret("int32", A[v]) + 1)


@T.prim_func
def has_pointers(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    with T.block("B"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        C = T.decl_buffer((8,), "float32", data=B.data)
        for i in range(8):
            C[i] = A[i]


@T.prim_func
def has_threads(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.thread_binding(8, "threadIdx.x"):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v]


@T.prim_func
def to_integers(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = T.Cast("int32", A[v] * T.float32(3))


@pytest.mark.parametrize(
    "func",
    [
        calls_c,
        reads_bits,
        has_pointers,
        has_threads,
        to_integers,
        row_sums("float64"),
        row_sums("int32"),
    ],
)
def test_what_cannot_be_computed_in_higher_precision(func: PrimFunc) -> None:
    assert in_higher_precision(func) is None
    mod = as_module(func)
    assert with_precise_twin(mod) is mod


# --- programs that are wrong themselves ---


def test_a_sum_of_ones_in_float16_shows() -> None:
    rounding = rounding_of(as_module(row_sums("float16")))
    results = {1: np.full(4, 2048, np.float16)}
    precise = {1: np.full(4, 4096, np.float16)}
    assert inexact_outputs(["A", "C"], results, precise, rounding) == [
        "output 'C' of the program itself is off by 50%: 2048 where 4096 is right; accumulate in "
        "float32 instead of float16 and cast the result at the end"
    ]


def test_what_is_off_by_rounding_does_not_show() -> None:
    rounding = rounding_of(as_module(row_sums("float16", "float32")))
    exact = np.linspace(1000, 4000, 64).astype(np.float16)
    near = (exact.astype(np.float32) * (1 + 2.0**-11)).astype(np.float16)
    assert inexact_outputs(["A", "C"], {1: near}, {1: exact}, rounding) == []


def test_a_few_large_errors_do_not_show() -> None:
    """Comparisons and cancellation turn a rounding error into a large one."""
    exact = np.ones(100, np.float32)
    actual = exact.copy()
    actual[:5] = 0
    rounding = Rounding(("float32",), ())
    assert inexact_outputs(["A"], {0: actual}, {0: exact}, rounding) == []
    actual[:6] = 0
    assert inexact_outputs(["A"], {0: actual}, {0: exact}, rounding) == [
        "output 'A' of the program itself is off by 100%: 0 where 1 is right; compute it in "
        "float64 if that matters"
    ]


def test_infinities_show() -> None:
    exact = np.full(3, 4096, np.float16)
    (note,) = inexact_outputs(["A"], {0: exact * np.inf}, {0: exact}, Rounding(("float16",), ()))
    assert "is off: inf where 4096 is right; accumulate in float32" in note


# --- what the runner makes of it ---


def run_against(
    program: PrimFunc, candidate: PrimFunc, builder: LocalBuilder, runner: LocalRunner
) -> RunnerResult:
    mod, target = normalize_mod(program), Target("llvm")
    inputs = [
        BuilderInput(mod, target, is_reference=True),
        BuilderInput(normalize_mod(candidate), target),
    ]
    reference, built = builder.build(inputs)
    assert built.artifact_path is not None, built.error_msg
    infos = args_info_of(mod)
    (future,) = runner.run(
        [RunnerInput(built.artifact_path, "llvm", infos, reference_path=reference.artifact_path)]
    )
    return future.result()


NARROW, WIDE = row_sums("float16"), row_sums("float16", "float32")


def test_a_wrong_program_shows_and_both_ways_are_accepted(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    for candidate in (NARROW, WIDE):
        result = run_against(NARROW, candidate, builder, runner)
        assert result.failure is None, result.error_msg
        assert result.checked
        (note,) = result.notes
        assert note.startswith("output 'C' of the program itself is off by 3")
        assert note.endswith(
            "accumulate in float32 instead of float16 and cast the result at the end"
        )


def positive_sums(dtype: str, accumulator: str) -> PrimFunc:
    """Sums that grow: they show what an accumulator loses, whatever the signs of the terms."""

    @T.prim_func
    def func(A: T.Buffer((4, 8192), dtype), C: T.Buffer((4,), dtype)):
        S = T.alloc_buffer((4,), accumulator)
        for i, k in T.grid(4, 8192):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.Cast(accumulator, 0)
                S[vi] = S[vi] + T.Cast(
                    accumulator, T.exp(T.Cast("float32", A[vi, vk])) * T.float32(0) + T.float32(1)
                )
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = T.Cast(dtype, S[vi])

    return func


def test_candidates_are_held_against_the_precise_sum(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    narrow, wide = positive_sums("float16", "float16"), positive_sums("float16", "float32")
    # Far from what the program computes, but right.
    result = run_against(narrow, wide, builder, runner)
    assert (result.failure, result.checked) == (None, True)
    # As wrong as the program, which says so.
    assert run_against(narrow, narrow, builder, runner).failure is None
    # The program is right, the candidate is not.
    result = run_against(wide, narrow, builder, runner)
    assert result.failure is FailureKind.WRONG_RESULT
    assert "expected 8192.0, got 2048.0" in (result.error_msg or "")
    assert result.notes == ()


def test_what_a_new_worker_reads_back_is_the_same(builder: LocalBuilder) -> None:
    narrow, wide = positive_sums("float16", "float16"), positive_sums("float16", "float32")
    impatient = LocalRunner(timeout_sec=60, seed=1, max_uses=1)  # a new worker for each task
    try:
        assert run_against(narrow, wide, builder, impatient).failure is None
    finally:
        impatient.close()


def test_programs_of_integers_have_no_notes(builder: LocalBuilder, runner: LocalRunner) -> None:
    result = run_against(row_sums("int32"), row_sums("int32"), builder, runner)
    assert (result.failure, result.checked, result.notes) == (None, True, ())
