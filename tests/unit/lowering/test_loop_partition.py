"""Ragged tiles become smaller tiles without checks, wherever loops outside put them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tilewright.driver import lower
from tilewright.ir import PrimFunc
from tilewright.lowering import verify_lowered
from tilewright.script import from_source
from tilewright.target import Target
from tilewright.testing.oracle import run

AVX512 = Target("llvm -mcpu=skylake-avx512 -num-cores=2")


def parsed(source: str) -> PrimFunc:
    func = from_source("from tilewright.script import tir as T\n" + source)
    assert isinstance(func, PrimFunc)
    return func


@dataclass(frozen=True)
class Blocks:
    """A row of `size` elements: blocks of tiles, either of which need not divide."""

    size: int
    blocks: int
    tile: int
    outer: str = "T.parallel"
    inner: str = "range"
    columns: int = 3
    fused: bool = False

    @property
    def inside(self) -> int:
        return -(-self.size // (self.blocks * self.tile))

    @property
    def func(self) -> PrimFunc:
        first = f"b * {self.inside * self.tile} + t * {self.tile} + i"
        head = [f"for b in {self.outer}({self.blocks}):", f"  for t in range({self.inside}):"]
        column = "c"
        if self.fused:
            head[0] = f"for f in {self.outer}({self.blocks * self.columns}):"
            first = first.replace("b *", f"f // {self.columns} *")
            column = f"f % {self.columns}"
        lines = [
            "@T.prim_func",
            f'def main(A: T.Buffer(({self.columns}, {self.size}), "float32"), '
            f'B: T.Buffer(({self.columns}, {self.size}), "float32")):',
            *(f"  {line}" for line in head),
            *([] if self.fused else [f"      for c in range({self.columns}):"]),
            f"          for i in {self.inner}({self.tile}):",
            '            with T.block("B"):',
            f"              vc = T.axis.spatial({self.columns}, {column})",
            f"              vi = T.axis.spatial({self.size}, {first})",
            f"              T.where({first} < {self.size})",
            "              B[vc, vi] = A[vc, vi] + T.float32(1)",
        ]
        return parsed("\n".join(lines))


def checked(func: PrimFunc) -> str:
    """The lowered text, once its results are right."""
    lowered = lower(func, AVX512)
    verify_lowered(lowered)
    shape = tuple(int(getattr(e, "value", 0)) for e in next(iter(func.buffer_map.values())).shape)
    a = np.random.default_rng(0).standard_normal(shape).astype("float32")
    b = np.full(shape, np.nan, "float32")
    run(lowered, a, b)
    np.testing.assert_array_equal(b, a + 1)
    return str(lowered)


@settings(max_examples=60)
@given(
    blocks=st.builds(
        Blocks,
        size=st.integers(1, 60),
        blocks=st.integers(1, 7),
        tile=st.integers(1, 9),
        outer=st.sampled_from(["range", "T.parallel"]),
        inner=st.sampled_from(["range", "T.unroll", "T.vectorized"]),
        fused=st.booleans(),
    )
)
def test_blocks_of_tiles(blocks: Blocks) -> None:
    checked(blocks.func)


def partitioned(func: PrimFunc) -> list[str]:
    """The statements after the pass, without declarations of buffers."""
    checked(func)
    text = str(lower(func, AVX512, stages=True).after("LoopPartition")["main"])
    lines = [line[4:] for line in text.splitlines()[4:]]
    return [line for line in lines if line.strip() and "T.Buffer(" not in line]


def test_loop_over_tiles_is_cut_where_they_end() -> None:
    """29 elements in tiles of 4: seven whole ones, and one element; no check is left."""
    assert partitioned(Blocks(29, 2, 4, inner="T.unroll", columns=1).func) == [
        "for b in T.parallel(2):",
        "    for t in range(7 - T.max(b * 4, 3)):",
        "        for i in T.unroll(4):",
        "            B_1[b * 16 + t * 4 + i] = A_1[b * 16 + t * 4 + i] + T.float32(1)",
        "    for t in range(7 - T.max(b * 4, 3), 7 - T.max(b * 4, 3) + T.max(b * 4 - 3, 0)):",
        "        B_1[b * 16 + t * 4] = A_1[b * 16 + t * 4] + T.float32(1)",
    ]


def test_loop_over_tiles_ends_early() -> None:
    """Five tiles of 4, so that the second block of 3 has only two; none is ragged."""
    assert partitioned(Blocks(20, 2, 4, inner="T.unroll", columns=1).func) == [
        "for b in T.parallel(2):",
        "    for t in range(5 - T.max(b * 3, 2)):",
        "        for i in T.unroll(4):",
        "            B_1[b * 12 + t * 4 + i] = A_1[b * 12 + t * 4 + i] + T.float32(1)",
    ]


def test_inner_loops_keep_constant_bounds() -> None:
    """Below serial loops alone, a test decides between two constant lengths."""
    assert partitioned(Blocks(28, 3, 4, columns=1).func) == [
        "for b in T.parallel(3):",
        "    if T.likely(b <= 1):",
        "        for t, i in T.grid(3, 4):",
        "            B_1[b * 12 + t * 4 + i] = A_1[b * 12 + t * 4 + i] + T.float32(1)",
        "    else:",
        "        for i in range(4):",
        "            B_1[b * 12 + i] = A_1[b * 12 + i] + T.float32(1)",
    ]


ROWS_AND_COLUMNS = """
@T.prim_func
def main(A: T.Buffer((10, 37), "float32"), B: T.Buffer((10, 37), "float32")):
    for f in T.parallel(9):
        for i in T.unroll(4):
            for j in T.vectorized(16):
                with T.block("B"):
                    vi = T.axis.spatial(10, f // 3 * 4 + i)
                    vj = T.axis.spatial(37, f % 3 * 16 + j)
                    T.where(f // 3 * 4 + i < 10 and f % 3 * 16 + j < 37)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
"""


def test_rows_and_columns_are_ragged_at_once() -> None:
    """Four versions: whole tiles, those at either end, and the corner."""
    lines = [line.strip() for line in partitioned(parsed(ROWS_AND_COLUMNS))]
    assert [line for line in lines if "B_1" not in line] == [
        "for f in T.parallel(9):",
        "if T.likely(f <= 5):",
        "if T.likely(f % 3 <= 1):",
        "for i in T.unroll(4):",
        "for j in T.vectorized(16):",
        "else:",
        "for i in T.unroll(4):",
        "for j in T.vectorized(8):",
        "if T.likely(j <= 4):",
        "else:",
        "if T.likely(f % 3 <= 1):",
        "for i in T.unroll(2):",
        "for j in T.vectorized(16):",
        "else:",
        "for i in T.unroll(2):",
        "for j in T.vectorized(8):",
        "if T.likely(j <= 4):",
    ]


@pytest.mark.parametrize(
    ("size", "lanes", "is_masked"),
    [
        (64, 64, False),
        (61, 64, True),
        (48, 48, False),
        (37, 48, True),
        (16, 16, False),
        (13, 16, True),
        (8, 8, False),
        (5, 8, True),
        (1, 1, False),
    ],
)
def test_vectors_are_as_long_as_need_be(size: int, lanes: int, is_masked: bool) -> None:
    """Whole registers of 16 floats, or a power of two; what is too much is masked."""
    func = parsed(
        f"""
@T.prim_func
def main(A: T.Buffer((1, {64 + size}), "float32"), B: T.Buffer((1, {64 + size}), "float32")):
    for i in range(2):
        for j in T.vectorized(64):
            with T.block("B"):
                v = T.axis.spatial({64 + size}, i * 64 + j)
                T.where(i * 64 + j < {64 + size})
                B[0, v] = A[0, v] + T.float32(1)
"""
    )
    tail = partitioned(func)[-2 - is_masked :] if size < 64 else partitioned(func)[-2:]
    assert f"T.vectorized({lanes})" in tail[0]
    assert any("T.likely" in line for line in tail) == is_masked


def test_symbolic_extents_are_cut_as_before() -> None:
    func = parsed(
        """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (1, n), "float32")
    B = T.match_buffer(b, (1, n), "float32")
    for i in range((n + 7) // 8):
        for j in range(8):
            with T.block("B"):
                v = T.axis.spatial(n, i * 8 + j)
                T.where(i * 8 + j < n)
                B[0, v] = A[0, v] + T.float32(1)
"""
    )
    text = str(lower(func, AVX512, stages=True).after("LoopPartition"))
    assert text.count("for i") == 2
    assert text.count("if ") == 1
