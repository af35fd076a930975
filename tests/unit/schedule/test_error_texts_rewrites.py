# mypy: disable-error-code="valid-type, no-untyped-def"
"""Texts of rare refusals to factor, divide or lay out blocks, one program for each."""

from __future__ import annotations

import pytest

from tilewright.script import tir as T
from tilewright.testing.placement_programs import halves, unread
from tilewright.testing.refusals import Refusal, check_refusal


@T.prim_func
def late_start(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8,), "float32"), n: T.int32):
    for i, k in T.grid(8, 16):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(n <= k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func
def two_guards(
    A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")
):
    for i in range(8):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(i < 5)
                B[vi, vj] = A[vi, vj]
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(i < 6)
                C[vi, vj] = A[vi, vj]


@T.prim_func
def input_renewed(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        for k in range(16):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
        with T.block("clear"):
            vi = T.axis.spatial(8, i)
            A[vi, 0] = T.float32(0)


@T.prim_func
def shared_loop(
    A: T.Buffer((16,), "float32"), C: T.Buffer((1,), "float32"), D: T.Buffer((4,), "float32")
):
    for k0 in range(4):
        for k1 in range(4):
            with T.block("C"):
                vk = T.axis.reduce(16, k0 * 4 + k1)
                with T.init():
                    C[0] = T.float32(0)
                C[0] = C[0] + A[vk]
        with T.block("D"):
            vd = T.axis.spatial(4, k0)
            D[vd] = A[vd]


@T.prim_func
def repeated(A: T.Buffer((16,), "float32"), C: T.Buffer((1,), "float32")):
    for k0, again, k1 in T.grid(4, 2, 4):  # noqa: B007
        with T.block("C"):
            vk = T.axis.reduce(16, k0 * 4 + k1)
            with T.init():
                C[0] = T.float32(0)
            C[0] = C[0] + A[vk]


@T.prim_func
def allocated_further_out(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(2):
        with T.block("outer"):
            vo = T.axis.spatial(2, i)
            T.reads(A[vo * 4 : vo * 4 + 4])
            T.writes(B[vo * 4 : vo * 4 + 4], C[vo * 4 : vo * 4 + 4])
            for j in range(4):
                with T.block("B"):
                    vj = T.axis.spatial(4, j)
                    B[vo * 4 + vj] = A[vo * 4 + vj]
                with T.block("C"):
                    vj = T.axis.spatial(4, j)
                    C[vo * 4 + vj] = B[vo * 4 + vj]


@T.prim_func
def shifted(A: T.Buffer((9,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((9,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi + 1]


@T.prim_func
def through_view(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(B[vi])
            T.writes(C[vi])
            part = T.match_buffer(B[vi : vi + 1], (1,), elem_offset=T.int32())
            C[vi] = part[0]


@T.prim_func
def input_cleared(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(0)


@T.prim_func
def declared(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.decl_buffer((8,), "float32", data=A.data)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]


@T.prim_func
def mixed_loop(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8,), "float32")):
    for f, k in T.grid(32, 4):
        with T.block("C"):
            vi = T.axis.spatial(8, f // 4)
            vk = T.axis.reduce(16, f % 4 * 4 + k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]


CASES = [
    Refusal(
        "core.NotAHandle",
        unread,
        lambda sch: sch.fuse(3, 4),  # type: ignore[arg-type]
        "fuse: expected a handle of a block or loop, got 3; handles come from get_block, "
        "get_loops and other primitives",
    ),
    Refusal(
        "primitives.transform_layout.NotInvertible",
        mixed_loop,
        lambda sch: sch.transform_layout("C", ("read", 0), lambda i, j: [i * 2, j]),
        "transform_layout: the index map lambda i, j: (i * 2, j,) cannot be inverted on "
        "buffer 'A': the map cannot be inverted: an index advances in steps of 2; pass "
        "assume_injective_transform=True if it sends no two elements to one place",
    ),
    Refusal(
        "primitives.rfactor.MixedLoop",
        mixed_loop,
        lambda sch: sch.rfactor(sch.get_loops("C")[1], 0),
        "rfactor: spatial and reduction iterators of block 'C' are both bound to loop 'f'",
    ),
    Refusal(
        "moves.init_block.GuardAcrossLoops",
        late_start,
        lambda sch: sch.decompose_reduction("C", sch.get_loops("C")[0]),
        "decompose_reduction: the condition `n <= k` of block 'C' does not say when its "
        "initialization runs; choose an outer loop",
    ),
    Refusal(
        "primitives.blockize.DifferentPredicates",
        two_guards,
        lambda sch: sch.blockize([sch.get_block("B"), sch.get_block("C")]),
        "blockize: blocks 'B' and 'C' run under different conditions on the outer loops",
    ),
    Refusal(
        "primitives.rfactor.InputsWrittenInNest",
        input_renewed,
        lambda sch: sch.rfactor(sch.get_loops("C")[1], 0),
        "rfactor: block 'clear', under loop 'i' too, writes 'A', which 'C' reads",
    ),
    Refusal(
        "primitives.rfactor.SharedReductionLoop",
        shared_loop,
        lambda sch: sch.rfactor(sch.get_loops("C")[1], 0),
        "rfactor: other statements share the reduction loop 'k0' with block 'C'",
    ),
    Refusal(
        "primitives.rfactor.UnboundLoopInside",
        repeated,
        lambda sch: sch.rfactor(sch.get_loops("C")[0], 0),
        "rfactor: no iterator of block 'C' is bound to loop 'again', which lies inside "
        "reduction loops and runs more than once",
    ),
    Refusal(
        "primitives.rolling_buffer.NotAnIntermediate",
        allocated_further_out,
        lambda sch: sch.rolling_buffer("B", 0),
        "rolling_buffer: buffer 'B', which block 'B' writes, is not allocated in its scope",
    ),
    Refusal(
        "primitives.rolling_buffer.NotAProducer",
        halves,
        lambda sch: sch.rolling_buffer("low", 0),
        "rolling_buffer: block 'low' cannot be a producer of a rolling buffer: it has no init"
        " statement",
    ),
    Refusal(
        "primitives.rolling_buffer.NotAProducer",
        input_cleared,
        lambda sch: sch.rolling_buffer("B", 0),
        "rolling_buffer: block 'B' cannot be a producer of a rolling buffer: other blocks "
        "write what it reads or writes",
    ),
    Refusal(
        "primitives.rolling_buffer.NotAProducer",
        unread,
        lambda sch: sch.rolling_buffer("B", 0),
        "rolling_buffer: block 'B' cannot be a producer of a rolling buffer: nothing reads 'B'",
    ),
    Refusal(
        "primitives.rolling_buffer.NotAProducer",
        shifted,
        lambda sch: sch.rolling_buffer("B", 0),
        "rolling_buffer: block 'B' cannot be a producer of a rolling buffer: block 'C' reads "
        "more than the same iteration has produced",
    ),
    Refusal(
        "primitives.rolling_buffer.NotAProducer",
        through_view,
        lambda sch: sch.rolling_buffer("B", 0),
        "rolling_buffer: block 'B' cannot be a producer of a rolling buffer: match_buffer is used",
    ),
    Refusal(
        "layouts.layout.BufferUnknown",
        declared,
        lambda sch: sch.transform_layout("C", ("read", 0), lambda i: i),
        "transform_layout: buffer 'B' is neither allocated around block 'C' nor a parameter",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.error)
def test_refusal(case: Refusal) -> None:
    check_refusal(case)
