"""How errors of primitives read, at each level, and that a failure leaves everything as it was."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, strategies as st

from tilewright.errors import ScheduleError
from tilewright.ir import IRModule, PrimFunc
from tilewright.schedule import PrimitiveError, Schedule
from tilewright.schedule.render import excerpt
from tilewright.testing.handwritten import matmul as matmul_of
from tilewright.testing.schedule_checks import verify_trace_roundtrip

DETAIL = """\
ScheduleError: parallel: the iterations of loop 'k' depend on each other: block 'C' binds it to \
its reduction iterator 'vk'; only loops over spatial iterators can run in any order; see rfactor \
for reductions
def main(A: T.Buffer((32, 24), "float32"), B: T.Buffer((24, 48), "float32"), \
C: T.Buffer((32, 48), "float32")):
    ...
    for i, j, k in T.grid(32, 48, 24):
              ^
        with T.block("C"):
        ^^^^^^^^^^^^^^^^^
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(A[vi, vk], B[vk, vj])
            T.writes(C[vi, vj])
            ..."""


def failure_of(sch: Schedule) -> PrimitiveError:
    with pytest.raises(PrimitiveError) as failure:
        sch.parallel(sch.get_loops("C")[2])
    return failure.value


def test_levels(matmul: PrimFunc) -> None:
    assert str(failure_of(Schedule(matmul))) == DETAIL
    fast = failure_of(Schedule(matmul, error_render_level="fast"))
    assert str(fast) == DETAIL.splitlines()[0]
    assert str(failure_of(Schedule(matmul, error_render_level="none"))) == "ScheduleError: parallel"


def test_the_program_is_that_of_the_failure(matmul: PrimFunc) -> None:
    sch = Schedule(matmul)
    error = failure_of(sch)
    sch.fuse(*sch.get_loops("C"))
    assert str(error) == DETAIL


def test_loops_on_lines_of_their_own(matmul: PrimFunc) -> None:
    sch = Schedule(matmul)
    i, _, k = sch.get_loops("C")
    sch.parallel(i)
    with pytest.raises(ScheduleError) as failure:
        sch.fuse(i, k)
    assert str(failure.value).splitlines()[2:] == [
        "    ...",
        "    for i in T.parallel(32):",
        "    ^^^^^^^^^^^^^^^^^^^^^^^",
        "        for j, k in T.grid(48, 24):",
        "               ^",
        '            with T.block("C"):',
        '                vi, vj, vk = T.axis.remap("SSR", [i, j, k])',
        "                T.reads(A[vi, vk], B[vk, vj])",
        "                ...",
    ]


def test_only_the_function_concerned(matmul: PrimFunc, chain: PrimFunc) -> None:
    sch = Schedule(IRModule({"first": chain, "second": matmul}))
    sch.work_on("second")
    text = str(failure_of(sch))
    assert "def second(" in text
    assert "def first(" not in text
    assert excerpt(sch.mod, [matmul.params[0]]) == ""


def test_the_fast_level_is_cheap(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, error_render_level="fast")
    error = failure_of(sch)
    best = min(_seconds_of_rendering(error) for _ in range(20))
    assert best < 20e-6


def _seconds_of_rendering(error: PrimitiveError) -> float:
    start = time.perf_counter()
    for _ in range(10):
        str(error)
    return (time.perf_counter() - start) / 10


@given(st.integers(0, 10**6))
def test_failures_change_nothing(seed: int) -> None:
    """Random calls, most of which fail; after each failure everything is as it was."""
    rng = random.Random(seed)
    func = matmul_of(6, 4, 2)
    sch = Schedule(func, seed=1, debug_mask="all", error_render_level="fast")
    block = sch.get_block("C")
    handles = sch.get_loops(block)
    for _ in range(12):
        before, steps = sch.mod, str(sch.trace)
        known = {rv: sch.symbols[rv] for rv in handles}
        try:
            _random_call(rng, sch, handles)
        except ScheduleError:
            assert sch.mod is before
            assert str(sch.trace) == steps
            assert {rv: sch.symbols[rv] for rv in handles} == known
            sch.state.verify_sref_tree()
    verify_trace_roundtrip(sch, func)


def _random_call(rng: random.Random, sch: Schedule, handles: list) -> None:  # type: ignore[type-arg]
    loop, other = rng.choice(handles), rng.choice(handles)
    match rng.randrange(8):
        case 0:
            factors = [rng.choice([None, -2, 0, 1, 2, 3, 7]) for _ in range(rng.randint(0, 3))]
            handles += sch.split(loop, factors)
        case 1:
            handles.append(sch.fuse(loop, other))
        case 2:
            sch.reorder(loop, other)
        case 3:
            rng.choice([sch.parallel, sch.vectorize, sch.unroll])(loop)
        case 4:
            sch.bind(loop, rng.choice(["threadIdx.x", "blockIdx.x", "threadIdx"]))
        case 5:
            sch.annotate(loop, "key", rng.choice([1, "text", object()]))
        case 6:
            sch.unannotate(loop, "key")
        case 7:
            sch.get_block(rng.choice("ABC"))
