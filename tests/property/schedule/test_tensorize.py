"""Tensorized programs compute what they did before, wherever the tiles lie in memory."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings, strategies as st

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def tile_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (2, 4), "int32", offset_factor=1)
    B = T.match_buffer(b, (4, 3), "int32", offset_factor=1)
    C = T.match_buffer(c, (2, 3), "int32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:2, 0:3], A[0:2, 0:4], B[0:4, 0:3])
        T.writes(C[0:2, 0:3])
        for i, j, k in T.grid(2, 3, 4):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def tile_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
    """The same in another order: column by column, the whole sum at once."""
    A = T.match_buffer(a, (2, 4), "int32", offset_factor=1)
    B = T.match_buffer(b, (4, 3), "int32", offset_factor=1)
    C = T.match_buffer(c, (2, 3), "int32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:2, 0:3], A[0:2, 0:4], B[0:4, 0:3])
        T.writes(C[0:2, 0:3])
        for j, i in T.grid(3, 2):
            C[i, j] = (
                C[i, j]
                + A[i, 0] * B[0, j]
                + A[i, 1] * B[1, j]
                + A[i, 2] * B[2, j]
                + A[i, 3] * B[3, j]
            )


TensorIntrin.register("test_tile_2x3x4", tile_desc, tile_impl, override=True)


def matmul(m: int, n: int, k: int) -> PrimFunc:
    @T.prim_func
    def main(
        X: T.Buffer((m, k), "int32"), Y: T.Buffer((k, n), "int32"), Z: T.Buffer((m, n), "int32")
    ) -> None:
        A = T.alloc_buffer((m, k), "int32")
        B = T.alloc_buffer((k, n), "int32")
        for i, j in T.grid(m, k):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = X[vi, vj] + 1
        for i, j in T.grid(k, n):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = Y[vi, vj] + 2
        for i, j, l in T.grid(m, n, k):
            with T.block("Z"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, l])
                with T.init():
                    Z[vi, vj] = 0
                Z[vi, vj] = Z[vi, vj] + A[vi, vk] * B[vk, vj]

    return main


Layout = Callable[[Any, Any], tuple[Any, ...]]
# By rows, in tiles, with tiles of another size, and transposed: only the last does not fit.
LAYOUTS: dict[str, Callable[[int, int], Layout]] = {
    "rows": lambda r, c: lambda i, j: (i, j),
    "tiles": lambda r, c: lambda i, j: (i // r, j // c, i % r, j % c),
    "columns of tiles": lambda r, c: lambda i, j: (j // c, i, j % c),
    "transposed": lambda r, c: lambda i, j: (j, i),
}


@settings(max_examples=25, deadline=None)
@given(
    tiles=st.tuples(*[st.integers(1, 3)] * 3),
    layout_a=st.sampled_from(sorted(LAYOUTS)),
    layout_b=st.sampled_from(sorted(LAYOUTS)),
    order=st.permutations(range(3)),
)
def test_tiles_anywhere(
    tiles: tuple[int, int, int], layout_a: str, layout_b: str, order: list[int]
) -> None:
    func = matmul(tiles[0] * 2, tiles[1] * 3, tiles[2] * 4)
    sch = Schedule(func, debug_mask="all")
    sch.transform_layout("A", ("write", 0), LAYOUTS[layout_a](2, 4))
    sch.transform_layout("B", ("write", 0), LAYOUTS[layout_b](4, 3))
    block = sch.get_block("Z")
    pairs = [
        sch.split(loop, [None, size])
        for loop, size in zip(sch.get_loops(block), (2, 3, 4), strict=True)
    ]
    outer = [pairs[position][0] for position in order]
    sch.reorder(*outer, *(inner for _, inner in pairs))
    sch.decompose_reduction(block, outer[0])
    before = sch.mod
    try:
        sch.tensorize(pairs[0][1], "test_tile_2x3x4")
    except ScheduleError as error:
        assert "transposed" in (layout_a, layout_b)
        assert "does not follow the description" in str(error)  # noqa: PT017
        assert sch.mod is before
        return
    assert "transposed" not in (layout_a, layout_b)
    verify_trace_roundtrip(sch, func)
    assert_same_result(func, sch.mod)
