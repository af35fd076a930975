# mypy: disable-error-code="valid-type, no-untyped-def"
"""`shift_operand`: products of numbers of one sign as products of the other."""

from __future__ import annotations

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import from_source, tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip

PROGRAM = """
@T.prim_func
def main(
    A: T.Buffer((5, 7), "{a}"), B: T.Buffer((7, 6), "{b}"), C: T.Buffer((5, 6), "{c}")
):
    for i, j, k in T.grid(5, 6, 7):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = {init}
            C[vi, vj] = {update}
"""
UPDATE = 'C[vi, vj] + T.Cast("{c}", A[vi, vk]) * T.Cast("{c}", B[vk, vj])'


def product(
    a: str = "int8", b: str = "int8", c: str = "int32", init: str = "0", update: str = UPDATE
) -> PrimFunc:
    func = from_source(PROGRAM.format(a=a, b=b, c=c, init=init, update=update.format(c=c)))
    assert isinstance(func, PrimFunc)
    return func


def test_sums_start_from_the_compensation() -> None:
    @T.prim_func
    def main(
        A: T.Buffer((5, 7), "int8"), B: T.Buffer((7, 6), "int8"), C: T.Buffer((5, 6), "int32")
    ):
        A_shifted = T.alloc_buffer((5, 7), "uint8")
        C_start = T.alloc_buffer((6,), "int32")
        for ax0, ax1 in T.grid(5, 7):
            with T.block("A_shifted"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_shifted[v0, v1] = T.Cast("uint8", T.bitwise_xor(A[v0, v1], T.int8(-128)))
        for ax0, ax1 in T.grid(6, 7):
            with T.block("C_start"):
                vj, vk = T.axis.remap("SR", [ax0, ax1])
                with T.init():
                    C_start[vj] = 0
                C_start[vj] = C_start[vj] + T.Cast("int32", B[vk, vj]) * -128
        for i, j, k in T.grid(5, 6, 7):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A_shifted[vi, vk], B[vk, vj], C_start[vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = C_start[vj]
                C[vi, vj] = C[vi, vj] + T.Cast("int32", A_shifted[vi, vk]) * T.Cast(
                    "int32", B[vk, vj]
                )

    sch = Schedule(product(), debug_mask="all")
    shifted, start = sch.shift_operand("C", 0)
    assert_structural_equal(sch.mod["main"], main)
    assert [sch.get_sref(made).name for made in (shifted, start)] == ["A_shifted", "C_start"]
    verify_trace_roundtrip(sch, product())
    assert_same_result(product(), sch.mod)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        ("int8", "int8", "int32"),
        ("uint8", "uint8", "int32"),
        ("uint8", "int8", "int32"),
        ("int16", "uint16", "int64"),
        ("int8", "int8", "int16"),  # wraps, and still gives the same
    ],
)
def test_same_result(a: str, b: str, c: str, index: int) -> None:
    func = product(a, b, c)
    sch = Schedule(func, debug_mask="all")
    sch.shift_operand("C", index)
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


def test_a_sum_that_starts_elsewhere() -> None:
    func = product(init="vi * 3")
    sch = Schedule(func, debug_mask="all")
    sch.shift_operand("C", 0)
    assert "C[vi, vj] = vi * 3 + C_start[vj]" in sch.mod.script()
    assert_same_result(func, sch.mod)


def test_the_initialisation_can_be_decomposed() -> None:
    func = product()
    sch = Schedule(func, debug_mask="all")
    sch.shift_operand("C", 0)
    sch.decompose_reduction("C", sch.get_loops("C")[-1])
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(
    ("program", "index", "message"),
    [
        (
            product(update='T.max(C[vi, vj], T.Cast("int32", A[vi, vk]))'),
            0,
            "shift_operand: block 'C' is not a sum of products of integers: its body is not one "
            "store of a sum; its update must be `O[...] = O[...] + A[...] * B[...]` with one read "
            "of each operand",
        ),
        (
            product(update='C[vi, vj] + T.Cast("int32", A[vi, vk])'),
            0,
            "it does not add products of integers",
        ),
        (
            product(update='C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", A[vi, 0])'),
            0,
            "both factors are elements of the same buffer",
        ),
        (
            product(update='T.Cast("int32", B[vk, vj]) + T.Cast("int32", A[vi, vk]) * 2'),
            0,
            "it does not add to what it stores to",
        ),
        (
            product(update='C[vi, vj] + T.Cast("int32", A[vi, vk]) * 2'),
            0,
            "the factors are not elements of buffers, widened to the type of the result",
        ),
        (
            product("int32", "int32", "int64"),
            1,
            "shift_operand: operand 'B' of block 'C' is of type int32; operands of type int8, "
            "uint8, int16 and uint16 can be shifted",
        ),
    ],
)
def test_what_cannot_be_shifted(program: PrimFunc, index: int, message: str) -> None:
    sch = Schedule(program, debug_mask="all")
    before = sch.mod
    with pytest.raises(ScheduleError) as caught:
        sch.shift_operand("C", index)
    assert message in str(caught.value)
    assert sch.mod is before


def test_a_block_without_reduction() -> None:
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((5,), "int8"), C: T.Buffer((5,), "int8")):
    for i in range(5):
        with T.block("C"):
            vi = T.axis.spatial(5, i)
            C[vi] = A[vi]
"""
    )
    assert isinstance(func, PrimFunc)
    with pytest.raises(ScheduleError, match="it has no init statement"):
        Schedule(func).shift_operand("C", 0)


def test_an_operand_that_is_made_under_the_same_loop() -> None:
    """The sums to start from were made of an operand that was not there yet."""
    program = product("int8", "int8")
    sch = Schedule(program, debug_mask="all", error_render_level="fast")
    sch.read_at(sch.get_loops("C")[0], "C", 0, "global")
    with pytest.raises(ScheduleError) as caught:
        sch.shift_operand("C", 1)
    assert str(caught.value) == (
        "ScheduleError: shift_operand: block 'A_global' makes an operand of block 'C' under the "
        "same loop 'i'; shift the operand first, and move its producer afterwards"
    )


def test_a_part_of_a_sum() -> None:
    """The sums to start from were made of all terms, where the block adds up only some."""
    sch = Schedule(product("int8", "int8"), error_render_level="fast")
    sch.loop_partition(sch.get_loops("C")[-1], [2, None])
    block = sch.get_block("C_k0")
    with pytest.raises(ScheduleError) as caught:
        sch.shift_operand(block, 1)
    assert str(caught.value) == (
        "ScheduleError: shift_operand: the loops of block 'C_k0' do not run it for all values of "
        "its iterators; shift the operand before the program is cut into parts"
    )
