"""Mistakes that lowering can prove are errors that name their place; everything else passes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tilewright.driver import lower
from tilewright.errors import LowerError, WellFormedError
from tilewright.ir import (
    HANDLE,
    Buffer,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Stmt,
    Var,
    as_module,
    const,
    decl_buffer,
    floordiv,
)
from tilewright.lowering.check_safety import CheckSafety

Parse = Callable[[str], PrimFunc]

WRONG = {
    "loop runs too far": (
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi + 1]
""",
        "function 'main', block 'B' reads A outside its bounds: index `i + 1` of dimension 0 "
        "reaches 8, valid indices are 0 to 7",
    ),
    "negative": (
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i, j in T.grid(4, 2):
        B[i * 2 + j] = A[i * 2 - j]
""",
        "function 'main' reads A outside its bounds: index `i * 2 - j` of dimension 0 reaches -1, "
        "valid indices are 0 to 7",
    ),
    "vector": (
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    A[T.Ramp(2, 2, 4)] = T.Broadcast(T.float32(0), 4)
""",
        "function 'main' writes A outside its bounds: index `T.Ramp(2, 2, 4)` of dimension 0 "
        "reaches 8, valid indices are 0 to 7",
    ),
    "race": (
        """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((4,), "float32")):
    for k in T.parallel(8):
        for i in range(4):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                B[vi] = B[vi] + A[vk, vi]
""",
        "function 'main', block 'sum': parallel loop 'k' has a race: all its iterations write "
        "B[i]; make the loop serial, or give each iteration an element of its own",
    ),
    "race through a view": (
        """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((4,), "float32")):
    for k in T.parallel(8):
        for i in range(4):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(B[vi], A[vk, vi])
                T.writes(B[vi])
                row = T.match_buffer(B[vi], (1,), "float32", offset_factor=1)
                row[0] = row[0] + A[vk, vi]
""",
        "function 'main', block 'sum': parallel loop 'k' has a race: all its iterations write "
        "B[i]; make the loop serial, or give each iteration an element of its own",
    ),
    "outside of a view": (
        """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            T.reads()
            T.writes(A[vi, 0:2])
            row = T.match_buffer(A[vi, 0:2], (2,), "float32", offset_factor=1)
            for j in range(3):
                row[j] = T.float32(0)
""",
        "function 'main', block 'A' writes row outside its bounds: index `j` of dimension 0 "
        "reaches 2, valid indices are 0 to 1",
    ),
    "two iterations an element": (
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.parallel(8):
        B[i // 2] = B[i // 2] + A[i]
""",
        "function 'main': parallel loop 'i' has a race: iterations 0 and 1 both write B[0]; "
        "make the loop serial, or give each iteration an element of its own",
    ),
    "around the corner": (
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.parallel(8):
        B[i % 4] = A[i]
""",
        "function 'main': parallel loop 'i' has a race: iterations 0 and 4 both write B[0]; "
        "make the loop serial, or give each iteration an element of its own",
    ),
    "overlapping tiles": (
        """
@T.prim_func
def main(A: T.Buffer((4, 4), "float32"), B: T.Buffer((2, 7), "float32")):
    for o in range(2):
        for i in T.parallel(4):
            for j in range(4):
                with T.block("sum"):
                    vo, vi, vj = T.axis.remap("SSS", [o, i, j])
                    B[vo, vi + vj] = A[vi, vj]
""",
        "function 'main', block 'sum': parallel loop 'i' has a race: iterations 0 and 1 both write "
        "B[0, 1]; make the loop serial, or give each iteration an element of its own",
    ),
    "only under a condition": (
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.parallel(8):
        if i < 5:
            B[i] = A[i]
        else:
            B[7 - i % 2] = A[i]
""",
        "function 'main': parallel loop 'i' has a race: iterations 5 and 7 both write B[6]; "
        "make the loop serial, or give each iteration an element of its own",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistake_is_told(parse: Parse, name: str) -> None:
    source, message = WRONG[name]
    with pytest.raises(LowerError, match=re.escape(message)):
        lower(parse(source))


def test_constant_index() -> None:
    buffer = decl_buffer((4, 8), name="A")
    store = BufferStore(buffer, const(0.0), (const(1), const(8)))
    message = (
        "function 'main' writes A outside its bounds: index `8` of dimension 1 reaches 8, valid "
        "indices are 0 to 7"
    )
    with pytest.raises(LowerError, match=re.escape(message)):
        CheckSafety()(as_module(function_of(buffer, store)))


def test_wrong_number_of_indices() -> None:
    buffer = decl_buffer((4, 8), name="A")
    store = BufferStore(buffer, const(0.0), (const(1),))
    message = "function 'main' writes A with 1 indices, but it has 2 dimensions"
    with pytest.raises(LowerError, match=re.escape(message)):
        CheckSafety()(as_module(function_of(buffer, store)))


def test_undefined_variable() -> None:
    buffer = decl_buffer((8,), name="A")
    store = BufferStore(buffer, const(0.0), (Var("nowhere"),))
    with pytest.raises(WellFormedError, match="variable 'nowhere' is used but nothing defines it"):
        lower(function_of(buffer, store))


def test_a_race_under_a_condition_that_never_holds() -> None:
    buffer, i = decl_buffer((8,), "int32", name="A"), Var("i")
    store = IfThenElse(const(0, "bool"), BufferStore(buffer, i, (floordiv(i, 2),)))
    loop = For(i, const(0), const(8), ForKind.PARALLEL, store)
    CheckSafety()(as_module(function_of(buffer, loop)))


def function_of(buffer: Buffer, body: Stmt) -> PrimFunc:
    param = Var("a", HANDLE)
    return PrimFunc((param,), body, {param: buffer})


def test_threads_of_a_gpu_on_a_cpu(parse: Parse) -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in T.thread_binding(8, thread="threadIdx.x"):
        A[i] = T.float32(0)
""")
    message = (
        "function 'main': loop 'i' is bound to threadIdx.x, but target 'llvm' has no such threads; "
        "use parallel or a GPU target"
    )
    with pytest.raises(LowerError, match=re.escape(message)):
        lower(func, "llvm")


RIGHT = {
    "view of another row in each iteration": """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    for i in T.parallel(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:4])
            T.writes(B[vi, 0:4])
            source = T.match_buffer(A[vi, 0:4], (4,), "float32", offset_factor=1)
            target = T.match_buffer(B[vi, 0:4], (4,), "float32", offset_factor=1)
            for j in range(4):
                target[j] = source[j]
""",
    "guarded access": """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((9,), "float32")):
    for i in range(9):
        B[i] = T.if_then_else(i < 8, A[i], T.float32(0))
    for i in range(9):
        if i < 8:
            A[i] = T.float32(1)
""",
    "loop that never runs": """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), n: T.int32):
    for i in range(n):
        for j in range(9):
            A[j] = T.float32(0)
""",
    "one iteration writes": """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    for i in T.parallel(8):
        if i == 3:
            B[0] = A[i]
""",
    "indirect": """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32")):
    for i in T.parallel(8):
        A[I[i]] = T.float32(0)
""",
    "memory of its own": """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    t = T.alloc_buffer((1,), "float32")
    for i in T.parallel(8):
        t[0] = A[i]
        A[i] = t[0] + t[0]
""",
    "inner loop follows the parallel one": """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in T.parallel(8):
        for j in range(i, i + 1):
            A[j] = T.float32(0)
""",
    "the same value twice": """
@T.prim_func
def main(A: T.Buffer((9,), "float32"), B: T.Buffer((9,), "float32")):
    for i in T.parallel(4):
        for j in range(3):
            B[i * 2 + j] = A[i * 2 + j] * T.float32(2)
""",
    "conditions keep iterations apart": """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.parallel(8):
        if i < 4:
            B[i % 4] = A[i]
""",
    "fused and tiled": """
@T.prim_func
def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    for f in T.parallel(64):
        for i, j in T.grid(8, 8):
            B[f // 8 * 8 + i, f % 8 * 8 + j] = B[f // 8 * 8 + i, f % 8 * 8 + j] + A[i, j]
""",
    "parallel loop of one iteration": """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in T.parallel(1):
        for j in range(8):
            A[j] = T.float32(0)
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_may_be_right_passes(parse: Parse, name: str) -> None:
    assert "main" in lower(parse(RIGHT[name]))
