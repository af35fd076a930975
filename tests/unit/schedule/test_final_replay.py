"""Replays that are the last word on a program: the same result without answers nobody asks for."""

from __future__ import annotations

from tilewright.ir import structural_equal
from tilewright.schedule import Schedule, Trace
from tilewright.schedule.trace.instruction import all_primitives
from tilewright.testing.te_workload import create_te_workload

KEEP_IN_PLACE = [
    "AddUnitLoop",
    "Annotate",
    "Bind",
    "CacheWrite",
    "DecomposeReduction",
    "EnterPostproc",
    "Fuse",
    "GetBlock",
    "GetChildBlocks",
    "GetConsumers",
    "GetLoops",
    "GetOutputBlocks",
    "GetProducers",
    "Parallel",
    "Reorder",
    "SampleCategorical",
    "SamplePerfectTile",
    "SetScope",
    "Split",
    "StorageAlign",
    "Unannotate",
    "Unroll",
    "Vectorize",
]


def scheduled() -> Schedule:
    sch = Schedule(create_te_workload("GMM", 0), seed=1)
    block = sch.get_block("Z")
    _, i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, [None, 13])
    j_0, j_1 = sch.split(j, [None, 32])
    sch.reorder(i_0, j_0, k, i_1, j_1)
    copy = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(copy, j_0)
    sch.parallel(i_0)
    sch.decompose_reduction(block, k)
    return sch


def test_the_program_is_the_same() -> None:
    recorded = scheduled()
    assert recorded.trace is not None
    final = Schedule(create_te_workload("GMM", 0), seed=2)
    Trace(recorded.trace.insts).apply_to_schedule(final, remove_postproc=True, is_final=True)
    assert structural_equal(final.mod, recorded.mod)


def test_answers_are_left_open_only_after_the_last_move() -> None:
    recorded = scheduled()
    assert recorded.trace is not None
    final, usual = (Schedule(create_te_workload("GMM", 0), seed=2) for _ in range(2))
    recorded.trace.apply_to_schedule(final, remove_postproc=True, is_final=True)
    recorded.trace.apply_to_schedule(usual, remove_postproc=True)
    assert not final.state.settles_flow
    assert usual.state.settles_flow


def test_a_trace_without_moves_settles_as_always() -> None:
    sch = Schedule(create_te_workload("GMM", 0), seed=1)
    sch.parallel(sch.get_loops(sch.get_block("Z"))[0])
    assert sch.trace is not None
    other = Schedule(create_te_workload("GMM", 0), seed=1)
    sch.trace.apply_to_schedule(other, remove_postproc=True, is_final=True)
    assert other.state.settles_flow


def test_primitives_that_leave_blocks_where_they_are() -> None:
    own = (p for p in all_primitives() if p.__module__.startswith("tilewright"))
    assert sorted(p.kind for p in own if not p.moves_blocks) == KEEP_IN_PLACE
