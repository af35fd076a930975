"""The text of loads and stores: one instruction where memory is contiguous, alignment, masks."""

from __future__ import annotations

import re

import pytest

from tilewright.ir import (
    LT,
    TRUE,
    Allocate,
    Broadcast,
    BufferLoad,
    BufferStore,
    DType,
    For,
    ForKind,
    PointerType,
    PrimExpr,
    Ramp,
    Var,
    const,
    decl_buffer,
)
from tilewright.testing.kernels import flat, kernel, llvm_source

A, OUT, I = flat("a", 1024), flat("out", 1024), Var("i")


def looped(index: PrimExpr, predicate: PrimExpr | None = None) -> str:
    lanes = index.dtype.lanes
    value = BufferLoad(A, (index,), predicate)
    place = I * 16 if lanes == 1 else Ramp(I * 16, const(1), lanes)
    body = BufferStore(OUT, value, (place,))
    return llvm_source(kernel([A, OUT], For(I, const(0), const(16), ForKind.SERIAL, body)))


def test_contiguous_vectors_are_one_load() -> None:
    text = looped(Ramp(I * 16 + 3, const(1), 8))
    assert len(re.findall(r"= load ", text)) == 1 + 2  # two of them unpack the arguments
    assert re.search(r"load <8 x float>, ptr %v\d+, align 4", text)


def test_reversed_vectors_are_one_load_and_a_shuffle() -> None:
    text = looped(Ramp(I * 16 + 7, const(-1), 8))
    assert text.count("load <8 x float>") == 1
    assert "<8 x i32> <i32 7, i32 6, i32 5, i32 4, i32 3, i32 2, i32 1, i32 0>" in text


def test_the_constant_part_of_an_index_comes_last_and_promises_nothing_alone() -> None:
    text = looped(I * 16 - 5 + 21)
    assert re.search(r"getelementptr float, ptr %arg0, i64 %v\d+", text)
    assert re.search(r"getelementptr float, ptr %v\d+, i64 16", text)
    assert re.search(r"getelementptr inbounds float, ptr %arg0, i64 %v\d+", looped(I * 16))


@pytest.mark.parametrize(("factor", "constant", "align"), [(16, 0, 64), (4, 8, 16), (16, 3, 4)])
def test_alignment_of_own_memory(factor: int, constant: int, align: int) -> None:
    pointer = Var("memory", DType("handle"), PointerType(DType("float32")))
    memory = decl_buffer((1024,), "float32", "memory", data=pointer)
    index = Ramp(I * factor + constant, const(1), 16)
    store = BufferStore(memory, Broadcast(const(1.0), 16), (index,))
    loop = For(I, const(0), const(8), ForKind.SERIAL, store)
    body = Allocate(pointer, DType("float32"), (const(1024),), TRUE, loop)
    text = llvm_source(kernel([], body))
    assert re.search(rf"store <16 x float> .*, align {align}$", text, re.M)


def test_masks_are_intrinsics() -> None:
    mask = LT(Ramp(I, const(1), 8), Broadcast(const(20), 8))
    text = looped(Ramp(I * 16, const(1), 8), mask)
    assert re.search(
        r"call <8 x float> @llvm.masked.load.v8f32.p0\(ptr align 4 %v\d+, <8 x i1> %v\d+, "
        r"<8 x float> zeroinitializer\)",
        text,
    )
