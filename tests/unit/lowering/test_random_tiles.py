"""Random tilings of a matrix product, most of them imperfect, lowered and run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings, strategies as st

from tilewright.driver import lower
from tilewright.ir import PrimFunc
from tilewright.lowering import PassContext, verify_lowered
from tilewright.script import from_source
from tilewright.testing.oracle import run


@dataclass(frozen=True)
class Tiling:
    """A product of size `m * n * k` in tiles of `rows * columns`, reduced in steps of `depth`."""

    m: int
    n: int
    k: int
    rows: int
    columns: int
    depth: int
    outer: str
    row_kind: str
    column_kind: str
    fused: bool
    local: bool

    def source(self) -> str:
        tiles_m, tiles_n = -(-self.m // self.rows), -(-self.n // self.columns)
        tiles_k = -(-self.k // self.depth)
        if self.fused:
            head = [f"for f in {self.outer}({tiles_m * tiles_n}):"]
            i0, j0 = f"f // {tiles_n}", f"f % {tiles_n}"
            indent = 1
        else:
            head = [f"for i0 in {self.outer}({tiles_m}):", f"    for j0 in range({tiles_n}):"]
            i0, j0, indent = "i0", "j0", 2
        i, j = f"{i0} * {self.rows} + i1", f"{j0} * {self.columns} + j1"
        inside = f"{i} < {self.m} and {j} < {self.n}"
        result = "X" if self.local else "C"
        tile = [f"for i1 in {self.row_kind}({self.rows}):"]
        tile += [f"    for j1 in {self.column_kind}({self.columns}):"]
        spatial = [f"vi = T.axis.spatial({self.m}, {i})", f"vj = T.axis.spatial({self.n}, {j})"]
        init = [
            *tile,
            *block("init", [*spatial, f"T.where({inside})", f"{result}[vi, vj] = T.float32(0)"]),
        ]
        steps = f"k0 * {self.depth} + k1"
        update = [f"for k0, k1 in T.grid({tiles_k}, {self.depth}):"]
        update += shifted(
            [
                *tile,
                *block(
                    "update",
                    [
                        *spatial,
                        f"vk = T.axis.reduce({self.k}, {steps})",
                        f"T.where({inside} and {steps} < {self.k})",
                        f"{result}[vi, vj] = {result}[vi, vj] + A[vi, vk] * B[vk, vj]",
                    ],
                ),
            ],
            1,
        )
        copy = [*tile, *block("copy", [*spatial, f"T.where({inside})", "C[vi, vj] = X[vi, vj]"])]
        body = [*init, *update, *(copy if self.local else [])]
        lines = [f'X = T.alloc_buffer(({self.m}, {self.n}), "float32")'] if self.local else []
        lines += head + shifted(body, indent)
        return "\n".join(
            [
                "from tilewright.script import tir as T",
                "@T.prim_func",
                f'def main(A: T.Buffer(({self.m}, {self.k}), "float32"), '
                f'B: T.Buffer(({self.k}, {self.n}), "float32"), '
                f'C: T.Buffer(({self.m}, {self.n}), "float32")):',
                *shifted(lines, 1),
            ]
        )


def shifted(lines: list[str], depth: int) -> list[str]:
    return ["    " * depth + line for line in lines]


def block(name: str, lines: list[str]) -> list[str]:
    return shifted([f'with T.block("{name}"):', *shifted(lines, 1)], 2)


tilings = st.builds(
    Tiling,
    m=st.integers(1, 9),
    n=st.integers(1, 19),
    k=st.integers(1, 7),
    rows=st.integers(1, 5),
    columns=st.sampled_from([1, 2, 3, 4, 8, 16]),
    depth=st.integers(1, 4),
    outer=st.sampled_from(["range", "T.parallel"]),
    row_kind=st.sampled_from(["range", "T.unroll"]),
    column_kind=st.sampled_from(["range", "T.vectorized", "T.unroll"]),
    fused=st.booleans(),
    local=st.booleans(),
)


@settings(max_examples=40)
@given(tiling=tilings, expand=st.booleans())
def test_lowered_tiling_is_right(tiling: Tiling, expand: bool) -> None:
    func = from_source(tiling.source())
    assert isinstance(func, PrimFunc)
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (tiling.m, tiling.k)).astype("float32")
    b = rng.integers(-4, 5, (tiling.k, tiling.n)).astype("float32")
    c = np.full((tiling.m, tiling.n), np.nan, "float32")
    with PassContext(config={"tir.UnrollLoop": {"expand": expand}}):
        lowered = lower(func)
    verify_lowered(lowered)
    run(lowered, a, b, c)
    np.testing.assert_array_equal(c, a @ b)
