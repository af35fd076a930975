# mypy: disable-error-code="valid-type, no-untyped-def"
"""Moving one producer of a block says nothing against its other producers."""

from __future__ import annotations

from tilewright.ir import IRModule
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result


@T.prim_func
def upsampled(
    A: T.Buffer((6, 10), "float32"), W: T.Buffer((4, 6), "float32"), C: T.Buffer((8, 6), "float32")
):
    B = T.alloc_buffer((6, 10), "float32")
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j, k in T.grid(8, 6, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + B[vj, (vi + vk) // 2] * W[vk, vj]


def cached(sch: Schedule, block: BlockRV, index: int, loop: LoopRV) -> BlockRV:
    """Copy an input inside a loop; the loops of the copy become one."""
    copy = sch.cache_read(block, index, "shared")
    sch.compute_at(copy, loop, preserve_unit_loops=True)
    sch.fuse(*sch.get_loops(copy)[1:])
    return copy


def test_copies_whose_extent_depends_on_loops() -> None:
    sch = Schedule(upsampled)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    sch.reorder(k, i, j)
    first = cached(sch, block, 0, k)
    assert "k" in str(sch.get(sch.get_loops(first)[-1]).extent)  # type: ignore[union-attr]
    cached(sch, block, 1, k)
    # All of what is read is still known to be there, so that blocks may move and vanish.
    sch.compute_inline("B")
    assert_same_result(IRModule({"main": upsampled}), sch.mod)
