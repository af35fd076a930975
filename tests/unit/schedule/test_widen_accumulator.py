# mypy: disable-error-code="valid-type, no-untyped-def"
"""`widen_accumulator`: sums in a wider type, rounded once."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (NumPy learns bfloat16)
import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.schedule import Schedule
from tilewright.script import from_source, tir as T
from tilewright.testing.oracle import run
from tilewright.testing.schedule_checks import verify_trace_roundtrip

PROGRAM = """
@T.prim_func
def main(
    A: T.Buffer((3, {n}), "{dtype}"),
    B: T.Buffer(({n}, 4), "{dtype}"),
    C: T.Buffer((3, 4), "{dtype}"),
):
    for i, j, k in T.grid(3, 4, {n}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.{dtype}(0)
            C[vi, vj] = {update}
"""
PRODUCT = "C[vi, vj] + A[vi, vk] * B[vk, vj]"


def program(dtype: str = "float16", n: int = 8, update: str = PRODUCT) -> PrimFunc:
    func = from_source(PROGRAM.format(dtype=dtype, n=n, update=update))
    assert isinstance(func, PrimFunc)
    return func


def test_operands_are_converted_and_results_rounded() -> None:
    @T.prim_func
    def main(
        A: T.Buffer((3, 8), "float16"),
        B: T.Buffer((8, 4), "float16"),
        C: T.Buffer((3, 4), "float16"),
    ):
        C_global = T.alloc_buffer((3, 4), "float32")
        for i, j, k in T.grid(3, 4, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C_global[vi, vj] = T.float32(0)
                C_global[vi, vj] = C_global[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast(
                    "float32", B[vk, vj]
                )
        for ax0, ax1 in T.grid(3, 4):
            with T.block("C_global"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                C[v0, v1] = T.Cast("float16", C_global[v0, v1])

    sch = Schedule(program(), debug_mask="all")
    rounding = sch.widen_accumulator("C", "float32")
    assert sch.get_sref(rounding).name == "C_global"
    assert_structural_equal(sch.mod["main"], main)
    verify_trace_roundtrip(sch, program())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "update", [PRODUCT, "T.max(C[vi, vj], A[vi, vk])", "C[vi, vj] + T.exp(A[vi, vk])"]
)
def test_long_sums_are_as_good_as_in_the_wide_type(dtype: str, update: str) -> None:
    func = program(dtype, 5000, update)
    sch = Schedule(func)
    sch.widen_accumulator("C", "float32")
    kind = to_numpy(dtype)
    a, b = np.ones((3, 5000), kind), np.ones((5000, 4), kind)
    c, expected = np.zeros((3, 4), kind), np.zeros((3, 4), kind)
    tw.build(sch.mod)(a, b, c)
    run(sch.mod["main"], a, b, expected)
    np.testing.assert_array_equal(c, expected)
    exact = {PRODUCT: 5000.0, "T.max(C[vi, vj], A[vi, vk])": 1.0}.get(update, 5000 * np.e)
    np.testing.assert_allclose(c.astype("float64"), exact, rtol=0.01)


def test_shorter_floats_are_converted_at_once() -> None:
    func = program("float16", 8, "C[vi, vj] + T.Cast('float16', T.Cast('float8_e5m2', A[vi, vk]))")
    sch = Schedule(func)
    sch.widen_accumulator("C", "float32")
    assert 'T.Cast("float32", T.Cast("float8_e5m2", A[vi, vk]))' in str(sch.mod)


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        (
            "float16",
            "float16 does not hold all values of 'C', which is float16; give a wider floating type",
        ),
        ("int32", "int32 does not hold all values of 'C', which is float16"),
    ],
)
def test_the_type_must_be_wider(dtype: str, message: str) -> None:
    sch = Schedule(program())
    with pytest.raises(ScheduleError, match=message):
        sch.widen_accumulator("C", dtype)


def test_only_sums_have_an_accumulator() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "float16"), B: T.Buffer((8,), "float16")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + T.float16(1)

    message = (
        "block 'B' does not add up one result from an initial value; "
        "give a reduction block with T.init"
    )
    with pytest.raises(ScheduleError, match=message):
        Schedule(main).widen_accumulator("B", "float32")
