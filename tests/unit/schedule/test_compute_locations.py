# mypy: disable-error-code="valid-type, no-untyped-def"
"""`sample_compute_location`: which loops of a consumer are places for its producer."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule, ScheduleState, StmtSRef
from tilewright.schedule.moves.compute_at import plan_compute_at
from tilewright.schedule.primitives import compute_at
from tilewright.schedule.primitives.sample_compute_location import compute_locations
from tilewright.script import tir as T


def copied_matmul() -> PrimFunc:
    @T.prim_func
    def main(
        A: T.Buffer((32, 24), "float32"),
        B: T.Buffer((24, 48), "float32"),
        C: T.Buffer((32, 48), "float32"),
    ):
        S = T.alloc_buffer((32, 24), "float32")
        for i, k in T.grid(32, 24):
            with T.block("S"):
                vi, vk = T.axis.remap("SS", [i, k])
                S[vi, vk] = A[vi, vk] * T.float32(2)
        for i, j, k in T.grid(32, 48, 24):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + S[vi, vk] * B[vk, vj]

    return main


@pytest.mark.parametrize(
    ("i_tiles", "j_tiles", "k_tiles", "expected"),
    [
        # 0-3: spatial; 4: reduction; 5, 6: spatial; 7: reduction; 8, 9: spatial
        ((2, 2, 2, 4), (2, 2, 2, 6), (4, 6), [-2, -1, 0, 1, 2, 3, 4]),
        # a reduction loop that runs once does not end the spatial ones before it
        ((2, 2, 2, 4), (2, 2, 2, 6), (1, 24), [-2, -1, 0, 1, 2, 3, 5, 6, 7]),
        # spatial loops inside that run once keep the reduction around them
        ((8, 1, 4, 1), (2, 1, 24, 1), (1, 24), [-2, -1, 0, 1, 5, 6, 7]),
        # spatial loops in between that run once end nothing: both reductions are places
        ((8, 1, 1, 4), (2, 1, 1, 24), (4, 6), [-2, -1, 0, 1, 4, 7]),
    ],
)
def test_places_in_a_tiled_reduction(
    i_tiles: tuple[int, ...],
    j_tiles: tuple[int, ...],
    k_tiles: tuple[int, ...],
    expected: list[int],
) -> None:
    sch = Schedule(copied_matmul())
    i, j, k = sch.get_loops("C")
    i0, i1, i2, i3 = sch.split(i, i_tiles)
    j0, j1, j2, j3 = sch.split(j, j_tiles)
    k0, k1 = sch.split(k, k_tiles)
    sch.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    block = sch.get_sref(sch.get_block("S"))
    assert list(compute_locations(sch.state, block)) == expected


def test_reductions_with_nothing_spatial_inside_are_no_places() -> None:
    sch = Schedule(copied_matmul())
    block = sch.get_sref(sch.get_block("S"))
    assert list(compute_locations(sch.state, block)) == [-2, -1, 0, 1]


def test_place_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[StmtSRef] = []

    def counted(state: ScheduleState, block: StmtSRef, loop: StmtSRef, **more: Any) -> Any:
        plans.append(loop)
        return plan_compute_at(state, block, loop, **more)

    monkeypatch.setattr(compute_at, "plan_compute_at", counted)
    sch = Schedule(copied_matmul())
    block = sch.get_block("S")
    sch.compute_at(block, sch.sample_compute_location(block, decision=0), preserve_unit_loops=True)
    assert len(plans) == 1
    assert plans[0] is sch.get_sref(sch.get_loops("C")[0])
    # The program has changed, so has the plan.
    sch.compute_at(block, sch.get_loops("C")[1], preserve_unit_loops=True)
    assert len(plans) == 2
