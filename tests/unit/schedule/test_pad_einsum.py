# mypy: disable-error-code="valid-type, no-untyped-def"
"""`pad_einsum`: contractions over longer axes."""

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
    A: T.Buffer((5, 7), "int8"), B: T.Buffer((7, 6), "int8"), C: T.Buffer((5, 6), "int32")
):
    X = T.alloc_buffer((5, 7), "int8")
    Y = T.alloc_buffer((7, 6), "int8")
    Z = T.alloc_buffer((5, 6), "int32")
    for i, k in T.grid(5, 7):
        with T.block("X"):
            vi, vk = T.axis.remap("SS", [i, k])
            X[vi, vk] = A[vi, vk]
    for j, k in T.grid(6, 7):
        with T.block("Y"):
            vj, vk = T.axis.remap("SS", [j, k])
            Y[vk, vj] = B[vk, vj] + T.int8(1)
    for i, j, k in T.grid(5, 6, 7):
        with T.block("Z"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Z[vi, vj] = 0
            Z[vi, vj] = {update}
    for i, j in T.grid(5, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = Z[vi, vj] + T.Cast("int32", X[vi, vj])
"""
UPDATE = 'Z[vi, vj] + T.Cast("int32", X[vi, vk]) * T.Cast("int32", Y[vk, vj])'


def einsum(update: str = UPDATE) -> PrimFunc:
    func = from_source(PROGRAM.format(update=update))
    assert isinstance(func, PrimFunc)
    return func


def test_inputs_are_padded_with_zeros() -> None:
    @T.prim_func
    def main(
        A: T.Buffer((5, 7), "int8"), B: T.Buffer((7, 6), "int8"), C: T.Buffer((5, 6), "int32")
    ):
        X = T.alloc_buffer((8, 8), "int8")
        Y = T.alloc_buffer((8, 6), "int8")
        Z = T.alloc_buffer((8, 6), "int32")
        for i, k in T.grid(8, 8):
            with T.block("X"):
                vi, vk = T.axis.remap("SS", [i, k])
                X[vi, vk] = T.if_then_else(vi < 5 and vk < 7, A[vi, vk], T.int8(0))
        for j, k in T.grid(6, 8):
            with T.block("Y"):
                vj, vk = T.axis.remap("SS", [j, k])
                T.reads(B[vk, vj])
                Y[vk, vj] = T.if_then_else(vk < 7, B[vk, vj] + T.int8(1), T.int8(0))
        for i, j, k in T.grid(8, 6, 8):
            with T.block("Z"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Z[vi, vj] = 0
                Z[vi, vj] = Z[vi, vj] + T.Cast("int32", X[vi, vk]) * T.Cast("int32", Y[vk, vj])
        for i, j in T.grid(5, 6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = Z[vi, vj] + T.Cast("int32", X[vi, vj])

    func = einsum()
    sch = Schedule(func, debug_mask="all")
    sch.pad_einsum("Z", [3, 0, 1])
    assert_structural_equal(sch.mod["main"], main)
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("padding", [[0, 0, 0], [1, 2, 3], [0, 0, 1], [0, 2, 0], [3, 2, 1]])
def test_any_padding(padding: list[int]) -> None:
    func = einsum()
    sch = Schedule(func, debug_mask="all")
    sch.pad_einsum("Z", padding)
    sch.split(sch.get_loops("Z")[0], [2, None])
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(
    ("update", "why"),
    [
        ("T.max(Z[vi, vj], 1)", "its body is not one store of a sum"),
        ("Z[vi, vj] + 1", "it does not add a product to what it stores to"),
        ("Z[vi, vj] + vk * vi", "the factors are not elements of buffers"),
        (
            'Z[vi, vj] + T.Cast("int32", X[vi, vk]) * T.Cast("int32", Y[(vk + 1) % 7, vj])',
            "Y is not indexed by plain iterators",
        ),
    ],
)
def test_no_contraction(update: str, why: str) -> None:
    sch = Schedule(einsum(update), error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        sch.pad_einsum("Z", [1, 1, 1])
    assert str(caught.value) == (
        f"ScheduleError: pad_einsum: block 'Z' is not a contraction that can be padded: {why}; its "
        "update must be `O[...] = O[...] + A[...] * B[...]`, with padded iterators as indices"
    )


CONVOLUTION = """
@T.prim_func
def main(
    A: T.Buffer((7, 3), "int8"), W: T.Buffer((3, 3, 5), "int8"), B: T.Buffer((5, 5), "int32")
):
    X = T.alloc_buffer((7, 3), "int8")
    Y = T.alloc_buffer((3, 3, 5), "int8")
    Z = T.alloc_buffer((5, 5), "int32")
    for i, c in T.grid(7, 3):
        with T.block("X"):
            vi, vc = T.axis.remap("SS", [i, c])
            X[vi, vc] = A[vi, vc]
    for r, c, j in T.grid(3, 3, 5):
        with T.block("Y"):
            vr, vc, vj = T.axis.remap("SSS", [r, c, j])
            Y[vr, vc, vj] = W[vr, vc, vj]
    for i, j, r, c in T.grid(5, 5, 3, 3):
        with T.block("Z"):
            vi, vj, vr, vc = T.axis.remap("SSRR", [i, j, r, c])
            with T.init():
                Z[vi, vj] = 0
            Z[vi, vj] = Z[vi, vj] + T.Cast("int32", X[vi + vr, vc]) * T.Cast("int32", Y[vr, vc, vj])
    for i, j in T.grid(5, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = Z[vi, vj]
"""


def test_channels_of_a_convolution() -> None:
    func = from_source(CONVOLUTION)
    assert isinstance(func, PrimFunc)
    sch = Schedule(func, debug_mask="all")
    sch.pad_einsum("Z", [0, 3, 0, 1])
    assert 'X = T.alloc_buffer((7, 4), "int8")' in sch.mod.script()
    assert 'Y = T.alloc_buffer((3, 4, 8), "int8")' in sch.mod.script()
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


def test_the_window_of_a_convolution() -> None:
    func = from_source(CONVOLUTION)
    assert isinstance(func, PrimFunc)
    sch = Schedule(func, error_render_level="fast")
    for padding in ([1, 0, 0, 0], [0, 0, 1, 0]):
        with pytest.raises(ScheduleError, match="X is not indexed by plain iterators"):
            sch.pad_einsum("Z", padding)


def test_refused(matmul: PrimFunc) -> None:
    sch = Schedule(einsum(), error_render_level="fast")
    for padding in ([1, 1], [1, -1, 1]):
        with pytest.raises(ScheduleError) as caught:
            sch.pad_einsum("Z", padding)
        assert str(caught.value) == (
            f"ScheduleError: pad_einsum: the padding {padding} does not fit the 3 iterators of "
            "block 'Z'; give one number, zero or more, for each iterator"
        )
    outside = Schedule(matmul, error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        outside.pad_einsum("C", [1, 0, 0])
    assert str(caught.value) == (
        "ScheduleError: pad_einsum: buffer 'C' of block 'C' is not allocated in its scope; use "
        "cache_read and cache_write to give the block buffers of its own"
    )
    sch.split(sch.get_loops("X")[0], [1, 5])
    with pytest.raises(ScheduleError) as caught:
        sch.pad_einsum("Z", [1, 0, 0])
    assert str(caught.value) == (
        "ScheduleError: pad_einsum: block 'X', which makes 'X', cannot be padded: its iterators "
        "are not bound to its loops one by one, in order"
    )
    sch.fuse(*sch.get_loops("Z")[:2])
    with pytest.raises(ScheduleError) as caught:
        sch.pad_einsum("Z", [1, 0, 0])
    assert str(caught.value) == (
        "ScheduleError: pad_einsum: the iterators of block 'Z' are not bound to its loops one by "
        "one, in order; pad before transforming the loops"
    )
