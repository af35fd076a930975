"""`sample_categorical`, `sample_perfect_tile`, `sample_partitioned_tile`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.testing.handwritten import matmul as matmul_of
from tilewright.testing.schedule_checks import verify_trace_roundtrip


def test_categories(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, seed=42, debug_mask="all")
    drawn = [sch.get(sch.sample_categorical([10, 20, 30, 40], [0.25] * 4)) for _ in range(10)]
    assert drawn == [30, 20, 40, 30, 10, 30, 10, 20, 40, 30]
    assert sch.get(sch.sample_categorical([7, 8], [0.5, 0.5], decision=1)) == 8
    verify_trace_roundtrip(sch, matmul)


def test_perfect_tiles(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, seed=42, debug_mask="all")
    i, j, k = sch.get_loops("C")
    for loop, extent in ((i, 32), (j, 48), (k, 24)):
        tile = [sch.int_of(factor) for factor in sch.sample_perfect_tile(loop, 3, 4)]
        assert math.prod(tile) == extent
        assert tile[-1] <= 4
    verify_trace_roundtrip(sch, matmul)


@pytest.mark.parametrize(
    ("given_decision", "repaired"),
    [
        ([4, 8], [4, 8]),
        ([1, 64], [1, 32]),
        ([100, 3], [1, 32]),
        ([9, 9, 2], [1, 16, 2]),
        ([1, 2, 16], [1, 2, 16]),
    ],
)
def test_decisions_are_repaired(
    given_decision: list[int], repaired: list[int], matmul: PrimFunc
) -> None:
    sch = Schedule(matmul)
    loop = sch.get_loops("C")[0]
    tile = sch.sample_perfect_tile(loop, len(given_decision), 1, decision=given_decision)
    assert [sch.get(factor) for factor in tile] == repaired
    assert sch.trace is not None
    assert sch.trace.decisions[sch.trace.insts[-1]] == repaired


def test_symbolic_extents(symbolic: PrimFunc) -> None:
    sch = Schedule(symbolic, seed=42, debug_mask="all")
    i, _ = sch.get_loops("B")
    tile = sch.sample_perfect_tile(i, 3)
    assert [sch.get(factor) for factor in tile] == [-1, 1, 1]
    sch.split(i, tile)
    assert "for i_0, i_1, i_2, j in T.grid(n, 1, 1, 16):" in sch.mod.script()
    verify_trace_roundtrip(sch, symbolic)
    rows = sch.get_loops("B")[0]
    parts = sch.sample_partitioned_tile(rows, 2, 1, 4)
    assert [sch.get(part) for part in parts] == [-1, 1]


def test_partitioned_tiles(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, seed=42, debug_mask="all")
    _, j, _ = sch.get_loops("C")
    for _ in range(5):
        parts = [sch.int_of(part) for part in sch.sample_partitioned_tile(j, 4, 2, 8)]
        assert math.prod(parts) == 48
        assert math.prod(parts[2:]) % 8 == 0
    kept = sch.sample_partitioned_tile(j, 3, 1, 8, decision=[6, 2, 4])
    assert [sch.get(part) for part in kept] == [6, 2, 4]
    replaced = sch.sample_partitioned_tile(j, 3, 1, 8, decision=[24, 2, 1])
    assert [sch.get(part) for part in replaced] == [6, 8, 1]
    indivisible = sch.sample_partitioned_tile(j, 3, 1, 7)
    assert [sch.get(part) for part in indivisible] == [48, 1, 1]
    verify_trace_roundtrip(sch, matmul)


REFUSED: dict[str, tuple[Callable[[Schedule], object], str]] = {
    "lengths": (
        lambda sch: sch.sample_categorical([1, 2], [1.0]),
        "sample_categorical: 2 candidates but 1 probabilities",
    ),
    "nothing": (
        lambda sch: sch.sample_categorical([], []),
        "sample_categorical: 0 candidates but 0 probabilities",
    ),
    "category": (
        lambda sch: sch.sample_categorical([1, 2], [0.5, 0.5], decision=2),
        "sample_categorical: the decision 2 is not the position of one of 2 candidates",
    ),
    "weights": (
        lambda sch: sch.sample_categorical([1, 2], [0.0, 0.0]),
        "sample_categorical: the probabilities [0.0, 0.0] are not positive numbers with a sum",
    ),
    "parts": (
        lambda sch: sch.sample_perfect_tile(sch.get_loops("C")[0], 0),
        "sample_perfect_tile: cannot factor an extent of 32 into 0 parts; extents and the number "
        "of parts are at least 1",
    ),
    "limit of one part": (
        lambda sch: sch.sample_perfect_tile(sch.get_loops("C")[0], 1),
        "sample_perfect_tile: max_innermost_factor=16 needs at least 2 parts, got 1",
    ),
    "limit of nothing": (
        lambda sch: sch.sample_perfect_tile(sch.get_loops("C")[0], 2, 0),
        "sample_perfect_tile: max_innermost_factor=0 leaves no factor; it is at least 1, or -1 for "
        "no limit",
    ),
    "decision": (
        lambda sch: sch.sample_perfect_tile(sch.get_loops("C")[0], 2, decision=[1, 2, 3]),
        "sample_perfect_tile: the decision [1, 2, 3] is not a list of 2 positive factors",
    ),
    "partition": (
        lambda sch: sch.sample_partitioned_tile(sch.get_loops("C")[0], 2, 2, 4),
        "sample_partitioned_tile: partition_pos=2 and innerpart_factor=4 do not fit 2 parts; "
        "0 < partition_pos < n and innerpart_factor > 0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, matmul: PrimFunc) -> None:
    step, text = REFUSED[case]
    sch = Schedule(matmul, seed=5, error_render_level="fast")
    before, random = sch.mod, sch.random.state
    with pytest.raises(ScheduleError, match=f"^ScheduleError: {re.escape(text)}$"):
        step(sch)
    assert sch.mod is before
    assert sch.random.state == random


@given(st.integers(1, 64), st.integers(2, 4), st.integers(1, 8), st.integers(1, 10**9))
def test_limits_hold(extent: int, n: int, limit: int, seed: int) -> None:
    sch = Schedule(matmul_of(extent, 2, 2), seed=seed)
    tile = [sch.int_of(f) for f in sch.sample_perfect_tile(sch.get_loops("C")[0], n, limit)]
    assert math.prod(tile) == extent
    assert tile[-1] <= limit
