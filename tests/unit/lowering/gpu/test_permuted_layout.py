"""`permuted_layout`: rows in shared memory without bank conflicts, and the same results."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.schedule import Schedule
from tilewright.script import from_source
from tilewright.testing.gpu_lowering import count_barriers, lower_for_gpu, random_arrays
from tilewright.testing.gpu_programs import transposed
from tilewright.testing.simt import BankConflicts, run
from tilewright.testing.warp_matmul import WarpTiling, warp_matmul

TARGET = "nvidia/nvidia-a100"


def matmul_conflicts(tiling: WarpTiling, m: int, n: int, k: int) -> BankConflicts:
    """What a product asks of banks; its result is compared with NumPy's."""
    func = warp_matmul(m, n, k, tiling)
    arrays, conflicts = random_arrays(func, are_whole=True), BankConflicts()
    run(lower_for_gpu(func, TARGET), arrays, conflicts=conflicts)
    a, b, c = arrays
    assert np.array_equal(c, a.astype("float32") @ b.astype("float32"))
    return conflicts


@pytest.mark.parametrize(
    ("depth", "columns", "plain", "stages"),
    [(16, 16, 2, 3), (32, 64, 8, 1), (16, 128, 8, 2), (48, 96, 4, 3)],
)
def test_ldmatrix_without_conflicts(depth: int, columns: int, plain: int, stages: int) -> None:
    ways = {}
    for layout in ("plain", "padded", "permuted"):
        tiling = WarpTiling(16, columns, depth, 16, columns, stages, layout)
        found = matmul_conflicts(tiling, 16, columns, 3 * depth)
        ways[layout] = max(found.ways.values())
        assert set(found.served) == {"ldmatrix", "copy" if stages > 1 else "store"}
    assert ways["permuted"] == 1
    assert ways["plain"] == plain


def test_no_more_memory_and_no_more_barriers_than_plain() -> None:
    tilings = [WarpTiling(32, 64, 32, 16, 32, 3, layout) for layout in ("plain", "permuted")]
    plain, permuted = (
        lower_for_gpu(warp_matmul(64, 64, 256, tiling), TARGET) for tiling in tilings
    )
    assert count_barriers(permuted) == count_barriers(plain)
    assert "T.bitwise_xor" in str(permuted)
    assert "permuted" not in str(permuted)
    assert _shared(permuted) == _shared(plain)


def _shared(module: ir.IRModule) -> list[str]:
    """How much shared memory is allocated."""
    allocations = ir.nodes_of(module["main_kernel"].body, ir.Allocate)
    shared = [each for each in allocations if "shared" in str(each.buffer_var.type_annotation)]
    assert shared
    return [str(each.extents[0]) for each in shared]


def turned(columns: int, dtype: str = "float32", note: object = 1) -> ir.PrimFunc:
    return transposed(columns, dtype, 16 // np.dtype(dtype).itemsize, note)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("pieces", [1, 2, 3, 4, 6, 8, 16])
def test_vectors_and_single_elements(dtype: str, pieces: int) -> None:
    func = turned(pieces * 16 // np.dtype(dtype).itemsize, dtype)
    arrays, conflicts = random_arrays(func), BankConflicts()
    run(lower_for_gpu(func, TARGET), arrays, conflicts=conflicts)
    assert np.array_equal(arrays[1], arrays[0].T)
    assert conflicts.ways["store"] == 1


@pytest.mark.parametrize(("note", "ways"), [(0, 32), (1, 4), ("g2s_A", 4)])
def test_a_note_may_say_no(note: object, ways: int) -> None:
    """Single elements of a column have four to a piece: that is not what it is for."""
    func = turned(32, note=note)
    arrays, conflicts = random_arrays(func), BankConflicts()
    run(lower_for_gpu(func, TARGET), arrays, conflicts=conflicts)
    assert np.array_equal(arrays[1], arrays[0].T)
    assert conflicts.ways["load"] == ways


def test_the_note_of_a_reader_is_as_good() -> None:
    sch = Schedule(turned(32, note=0))
    sch.annotate(sch.get_block("B"), "permuted_layout", "s2l_A")
    assert "T.bitwise_xor" in str(lower_for_gpu(sch.mod, TARGET))


OWN_PIECES = """
@T.prim_func
def main(A: T.Buffer((8, 64), "float16"), B: T.Buffer((8, 64), "float16"),
         C: T.Buffer((8, 64), "float16"), D: T.Buffer((8, 64), "float16")):
    X = T.alloc_buffer((8, 64), "float16", scope="shared.dyn")
    Y = T.alloc_buffer((8, 64), "float16", scope="shared.dyn")
    for t in T.thread_binding(64, thread="threadIdx.x"):
COPIES
"""
COPY = """
        for v in T.vectorized(8):
            with T.block("TO"):
                vi = T.axis.spatial(8, t // 8)
                vj = T.axis.spatial(64, t % 8 * 8 + v)
                T.block_attr({"permuted_layout": NOTE})
                TO[vi, vj] = FROM[vi, vj]"""


def test_memory_that_another_buffer_uses_later() -> None:
    """Each thread touches its own pieces alone, but Y has those of other threads than X."""
    steps = [("A", "X", "1"), ("X", "B", "0"), ("C", "Y", "0"), ("Y", "D", "0")]
    copies = [
        COPY.replace("FROM", source).replace("TO", to).replace("NOTE", note)
        for source, to, note in steps
    ]
    func = from_source(OWN_PIECES.replace("COPIES", "".join(copies)))
    assert isinstance(func, ir.PrimFunc)
    lowered = lower_for_gpu(func, TARGET)
    assert _shared(lowered) == ["1024"]  # both have the same place
    assert count_barriers(lowered) == 1
    arrays = random_arrays(func)
    run(lowered, arrays)
    assert np.array_equal(arrays[0], arrays[1])
    assert np.array_equal(arrays[2], arrays[3])


# --- what cannot be permuted --------------------------------------------------------------------


def refusal(func: ir.PrimFunc | ir.IRModule) -> str:
    with pytest.raises(LowerError) as error:
        lower_for_gpu(func, TARGET)
    return str(error.value)


def test_rows_that_are_not_whole_pieces() -> None:
    assert refusal(transposed(6, "float32", 2, 1)) == (
        "X cannot have a permuted layout: its rows are 24 bytes apart, and pieces of 16 are "
        "exchanged; choose another tile, or pad its rows with storage_align"
    )


def test_padding_makes_whole_pieces() -> None:
    func = transposed(6, "float32", 2, 1)
    sch = Schedule(func)
    sch.storage_align(sch.get_block("X"), 0, 0, 8, 0)
    arrays = random_arrays(func)
    run(lower_for_gpu(sch.mod, TARGET), arrays)
    assert np.array_equal(arrays[1], arrays[0].T)


def test_nothing_in_shared_memory() -> None:
    sch = Schedule(turned(32))
    sch.set_scope(sch.get_block("X"), 0, "global")
    assert refusal(sch.mod) == (
        "block 'X': permuted_layout is for buffers in shared memory, but none of A, X_global is"
    )


def test_no_rows() -> None:
    sch = Schedule(turned(32))
    sch.transform_layout(sch.get_block("X"), ("write", 0), lambda i, j: [i * 32 + j])
    assert refusal(sch.mod) == (
        "block 'X': permuted_layout needs rows of a known length, but X has the shape (1024)"
    )


WMMA = """
@T.prim_func
def main(A: T.Buffer((16, 64), "float16"), B: T.Buffer((1,), "float16")):
    X = T.alloc_buffer((16, 64), "float16", scope="shared")
    F = T.alloc_buffer((256,), "float16", scope="wmma.matrix_a")
    for t in T.thread_binding(32, thread="threadIdx.x"):
        for k in range(32):
            with T.block("X"):
                vi = T.axis.spatial(16, k // 2)
                vj = T.axis.spatial(64, t * 2 + k % 2)
                T.block_attr({"permuted_layout": 1})
                X[vi, vj] = A[vi, vj]
        with T.block("F"):
            T.reads(X[0:16, 0:16])
            T.writes(F[0:256])
            T.evaluate(CALL)
"""
CALLS = {
    "wmma": 'T.tvm_load_matrix_sync(F.data, 16, 16, 16, 0, X.access_ptr("r"), 64, "row_major")',
    "bytes": 'T.ptx_ldmatrix("int8", T.bool(True), 4, ".b16", F.data, 0, X.access_ptr("r"), 64)',
}


@pytest.mark.parametrize("name", CALLS)
def test_instructions_that_need_whole_rows(name: str) -> None:
    func = from_source(WMMA.replace("CALL", CALLS[name]))
    assert isinstance(func, ir.PrimFunc)
    message = refusal(func)
    assert message.startswith(
        "X has a permuted layout, which loads, stores, ptx_ldmatrix of 16-bit rows and "
        "ptx_cp_async follow, but `T."
    )
    assert message.endswith("` does not; remove the annotation 'permuted_layout'")


def test_copies_across_pieces() -> None:
    copy = """T.reads(A[vi, vj])
                T.writes(X[vi, vj])
                T.ptx_cp_async("float16", X.data, vi * 64 + vj, A.data, vi * 64 + vj, 16)
    """
    text = WMMA.replace("CALL", "0").replace("X[vi, vj] = A[vi, vj]", copy)
    func = from_source(text)
    assert isinstance(func, ir.PrimFunc)
    assert refusal(func).endswith(
        "and the 7 elements behind it are not known to be in one piece of 16 bytes; use vectors of "
        "8 elements that begin at multiples of their size"
    )
