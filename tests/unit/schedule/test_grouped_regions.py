# mypy: disable-error-code="valid-type, no-untyped-def"
"""What a block needs of its producer where indices are quotients, as in grouped convolutions."""

from __future__ import annotations

import pytest

from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result


def grouped() -> PrimFunc:
    """16 channels in 2 groups; each sums the 4 input channels of its group."""

    @T.prim_func
    def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 16), "float32")):
        S = T.alloc_buffer((8, 8), "float32")
        for i, k in T.grid(8, 8):
            with T.block("S"):
                vi, vk = T.axis.remap("SS", [i, k])
                S[vi, vk] = A[vi, vk] * T.float32(2)
        for i, j, k in T.grid(8, 16, 4):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + S[vi, vj // 8 * 4 + vk]

    return main


@pytest.mark.parametrize(
    ("tile", "loop", "values"),
    [
        (2, "for ax0 in range(4):", "vk = T.axis.spatial(8, j_0 // 4 * 4 + ax0)"),
        (8, "for ax0 in range(4):", "vk = T.axis.spatial(8, j_0 * 4 + ax0)"),  # a group
        (16, "for ax0 in range(8):", 'vi, vk = T.axis.remap("SS", [i, ax0])'),  # all groups
        (
            3,  # tiles that belong to two groups
            "for ax0 in range((j_0 * 3 + 2) // 8 * 4 + 4 - j_0 * 3 // 8 * 4):",
            "vk = T.axis.spatial(8, j_0 * 3 // 8 * 4 + ax0)",
        ),
    ],
)
def test_tiles_of_groups(tile: int, loop: str, values: str) -> None:
    func = grouped()
    sch = Schedule(func, debug_mask="all")
    _, j, _ = sch.get_loops("C")
    outer, _ = sch.split(j, [None, tile])
    sch.compute_at("S", outer)
    lines = [line.strip() for line in sch.mod.script().splitlines()]
    assert loop in lines
    assert values in lines
    assert_same_result(func, sch.mod)
