"""Footprints where predicates hold iterations back, against all iterations one by one."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given, settings, strategies as st

from tilewright.arith.numpy_eval import evaluate_on_arrays
from tilewright.ir import BlockRealize, PrimFunc, nodes_of
from tilewright.nest.access import MemoryAccess
from tilewright.nest.nests import StoreNest, nests_in
from tilewright.nest.reading import read
from tilewright.schedule import Schedule
from tilewright.script import from_source

LINE = 64
COPY = """
from tilewright.script import tir as T

@T.prim_func
def main(A: T.Buffer(({rows}, {columns}), "float32"), B: T.Buffer(({rows}, {columns}), "float32")):
    for i, j in T.grid({rows}, {columns}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"""


def copy_of(rows: int, columns: int) -> Schedule:
    func = from_source(COPY.format(rows=rows, columns=columns))
    assert isinstance(func, PrimFunc)
    return Schedule(func)


def main_of(sch: Schedule) -> PrimFunc:
    func = sch.mod["main"]
    assert isinstance(func, PrimFunc)
    return func


def the_nest(sch: Schedule) -> StoreNest:
    (nest,) = nests_in(read(main_of(sch)))
    return nest


def boxes(sch: Schedule, nest: StoreNest) -> list[int]:
    """Bytes of the boxes around all iterations below each loop that the predicate lets through."""
    (realize,) = [r for r in nodes_of(main_of(sch).body, BlockRealize) if r.block.name_hint == "B"]
    found = []
    for depth in range(len(nest.loops) + 1):
        running = nest.loops[depth:]
        points = list(itertools.product(*[range(loop.extent) for loop in running]))
        still = {loop.var: np.array(0) for loop in nest.loops[:depth]}
        seen = set()
        for point in points:
            own = {loop.var: np.array(n) for loop, n in zip(running, point, strict=True)}
            values = still | own
            if evaluate_on_arrays(realize.predicate, values):
                seen.add(tuple(int(evaluate_on_arrays(e, values)) for e in realize.iter_values))
        rows, columns = (max(axis) - min(axis) + 1 for axis in zip(*seen, strict=True))
        found.append(rows * math.ceil(columns * 4 / LINE) * LINE)
    return found


def accesses(nest: StoreNest) -> tuple[MemoryAccess, ...]:
    return (nest.store, *nest.loads)


def check(sch: Schedule) -> None:
    nest = the_nest(sch)
    expected = boxes(sch, nest)
    for access in accesses(nest):
        assert access.footprints(nest.loops) == expected
        below = [
            access.footprint({loop.var: loop.extent for loop in nest.loops[depth:]})
            for depth in range(len(nest.loops) + 1)
        ]
        assert below == expected


def test_more_threads_than_elements() -> None:
    sch = copy_of(4, 32)
    row, column = sch.get_loops(sch.get_block("B"))
    _, thread = sch.split(column, [None, 4096])
    sch.bind(thread, "threadIdx.x")
    sch.bind(row, "blockIdx.x")
    nest = the_nest(sch)
    assert [access.footprints(nest.loops)[0] for access in accesses(nest)] == [4 * 128] * 2


@settings(max_examples=40)
@given(
    rows=st.integers(1, 12), columns=st.integers(1, 40), first=st.integers(1, 6),
    second=st.integers(1, 7), fuses=st.booleans(),
)  # fmt: skip
def test_tiles_that_do_not_divide(
    rows: int, columns: int, first: int, second: int, fuses: bool
) -> None:
    sch = copy_of(rows, columns)
    row, column = sch.get_loops(sch.get_block("B"))
    outer, middle, _ = sch.split(row, [None, second, first])
    column, _ = sch.split(column, [None, second])
    if fuses:
        sch.fuse(outer, middle)
    check(sch)


@settings(max_examples=40)
@given(
    rows=st.integers(1, 8), columns=st.integers(1, 12), threads=st.integers(1, 40),
    lanes=st.integers(1, 4),
)  # fmt: skip
def test_fetches(rows: int, columns: int, threads: int, lanes: int) -> None:
    sch = copy_of(rows, columns)
    fused = sch.fuse(*sch.get_loops(sch.get_block("B")))
    sch.split(fused, [None, threads, lanes])
    nest = the_nest(sch)
    for access in accesses(nest):
        found = access.footprints(nest.loops)
        for size, box in zip(found, boxes(sch, nest), strict=True):
            assert size >= box
        assert found[0] == boxes(sch, nest)[0]
