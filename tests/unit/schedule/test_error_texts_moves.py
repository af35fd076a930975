# mypy: disable-error-code="valid-type, no-untyped-def"
"""Texts of rare refusals to move, inline or cache blocks, one program for each."""

from __future__ import annotations

import pytest

from tilewright.script import tir as T
from tilewright.testing.placement_programs import (
    half_written,
    halves,
    overwritten,
    two_stages,
)
from tilewright.testing.refusals import Refusal, check_refusal


@T.prim_func
def nested(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(2):
        with T.block("outer"):
            vo = T.axis.spatial(2, i)
            T.reads(B[vo * 4 : vo * 4 + 4])
            T.writes(C[vo * 4 : vo * 4 + 4])
            for j in range(4):
                with T.block("C"):
                    vj = T.axis.spatial(4, j)
                    C[vo * 4 + vj] = B[vo * 4 + vj]


@T.prim_func
def alone(A: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]


@T.prim_func
def two_readers(
    A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")
):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi]


@T.prim_func
def side_by_side(
    A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")
):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]


@T.prim_func
def wraps_around(A: T.Buffer((4,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((4,), "float32")
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi % 4]


@T.prim_func
def reads_everything(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(B[0:8])
            T.writes(C[vi])
            C[vi] = B[7 - vi]


@T.prim_func
def forked(
    A: T.Buffer((8, 4), "float32"),
    B: T.Buffer((8, 4), "float32"),
    C: T.Buffer((8, 4), "float32"),
    D: T.Buffer((8, 4), "float32"),
):
    for i in range(8):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj]
    for i, j in T.grid(8, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj]


CASES = [
    Refusal(
        "primitives.merge.NotSingleNest",
        forked,
        lambda sch: sch.merge(sch.get_loops("B")[1], sch.get_loops("D")[1]),
        "merge: loop 'j' is not the only statement in loop 'i'",
    ),
    Refusal(
        "moves.compute_at.NeitherCompleteNorReduction",
        halves,
        lambda sch: sch.compute_at("low", sch.get_loops("C")[0]),
        "compute_at: block 'low' is neither a complete nor a reduction block: it is not the "
        "only writer of what it writes; only blocks that compute each of their outputs once "
        "can be moved",
    ),
    Refusal(
        "moves.compute_at.NotInTheSameScope",
        nested,
        lambda sch: sch.compute_at("B", sch.get_loops("C")[0]),
        "compute_at: block 'B' and loop 'j' are not in the same scope; choose a loop under "
        "block 'root'",
    ),
    Refusal(
        "moves.relocate.OnlyBlockOfScope",
        alone,
        lambda sch: sch.compute_inline("B"),
        "compute_inline: block 'B' is the only one under 'root'; a scope cannot be left empty",
    ),
    Refusal(
        "primitives.compute_inline.NotComplete",
        halves,
        lambda sch: sch.compute_inline("low"),
        "compute_inline: block 'low' is not a complete block: it is not the only writer of "
        "what it writes; only blocks that compute each element of their output once can be "
        "inlined",
    ),
    Refusal(
        "primitives.reverse_compute_inline.SeveralConsumers",
        two_readers,
        lambda sch: sch.reverse_compute_inline("C"),
        "reverse_compute_inline: the producer 'B' of block 'C' has 2 consumers; its result "
        "would still be needed; inline or move the other consumers first",
    ),
    Refusal(
        "primitives.sample_compute_location.NotALocation",
        two_stages,
        lambda sch: sch.sample_compute_location("B", decision="root"),  # type: ignore[arg-type]
        "sample_compute_location: the decision 'root' is not a compute location; give -2 "
        "(inline), -1 (root) or the position of a loop",
    ),
    Refusal(
        "primitives.cache_read.ReadsMoreThanWritten",
        half_written,
        lambda sch: sch.cache_read("C", 0, "global"),
        "cache_read: block 'C' may read parts of 'B' or of other buffers before their "
        "writers; only what was written before is copied; put the blocks in the order of "
        "their data",
    ),
    Refusal(
        "primitives.reindex.NotALeafBlock",
        nested,
        lambda sch: sch.reindex("outer", ("read", 0)),
        "reindex: block 'outer' holds other blocks; reindex the blocks inside it",
    ),
    Refusal(
        "primitives.reindex.LoopsNotInAChain",
        side_by_side,
        lambda sch: sch.reindex("B", ("read", 0)),
        "reindex: loop 'i' holds more than the way to block 'B'; reindex before other blocks "
        "are moved under its loops",
    ),
    Refusal(
        "primitives.reindex_cache.ReadBeforeWritten",
        overwritten,
        lambda sch: sch.reindex_cache_read("C", 0, "global", lambda i: i),
        "reindex_cache_read: block 'C' reads 'B' before block 'B' writes it",
        enable_check=False,
    ),
    Refusal(
        "moves.reverse_compute_at.CannotFollowProducer",
        wraps_around,
        lambda sch: sch.reverse_compute_at("C", sch.get_loops("B")[0]),
        "reverse_compute_at: index `vi % 4` of block 'C' does not say which of its iterations"
        " read a region; only accesses that give each element to one iteration can follow "
        "their producer",
    ),
    Refusal(
        "moves.reverse_compute_at.NotYetProduced",
        reads_everything,
        lambda sch: sch.reverse_compute_at("C", sch.get_loops("B")[0]),
        "reverse_compute_at: block 'C' would read parts of buffer 'B' that are not written in"
        " the same iteration of loop 'i'; choose a loop further out",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.error)
def test_refusal(case: Refusal) -> None:
    check_refusal(case)
