# mypy: disable-error-code="valid-type, no-untyped-def"
"""What mutators change, with the draws of TVM; `tests/differential` asks TVM itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tilewright.errors import ScheduleError
from tilewright.ir import IRModule
from tilewright.ir.annotation_keys import COOPERATIVE_FETCH, PARALLEL, UNROLL_EXPLICIT
from tilewright.schedule import Schedule, Trace
from tilewright.schedule.trace.random import RandomEngine
from tilewright.script import tir as T
from tilewright.space.mutators import (
    MutateCategorical,
    MutateComputeLocation,
    MutateParallel,
    MutateTileSize,
    MutateUnroll,
)
from tilewright.space.mutators.mutate_tile_size import divisors, moved_factor
from tilewright.target import Target
from tilewright.testing.space_generation import SpaceTask


@T.prim_func
def matmul(
    A: T.Buffer((64, 64), "float32"),
    B: T.Buffer((64, 64), "float32"),
    C: T.Buffer((64, 64), "float32"),
):
    for i, j, k in T.grid(64, 64, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def stages(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    B = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)


MATMUL, STAGES = IRModule({"main": matmul}), IRModule({"main": stages})
CPU = Target("llvm -num-cores=4")


def trace_of(module: IRModule, steps: Callable[[Schedule], Any]) -> Trace:
    sch = Schedule(module, seed=1)
    steps(sch)
    sch.enter_postproc()
    assert sch.trace is not None
    return sch.trace


def decision(trace: Trace | None, kind: str) -> Any:
    """The decision of the only step of that kind."""
    assert trace is not None
    (inst,) = (inst for inst in trace.insts if inst.primitive.kind == kind)
    return trace.decisions[inst]


# --- tile sizes -----------------------------------------------------------------------------------


def tiled(n: int, limit: int, *tile: int) -> Trace:
    def steps(sch: Schedule) -> None:
        i = sch.get_loops(sch.get_block("C"))[0]
        sch.split(i, sch.sample_perfect_tile(i, n, limit, decision=tile))

    return trace_of(MATMUL, steps)


def test_a_factor_moves() -> None:
    trace = tiled(4, 16, 4, 4, 2, 2)
    found = {tuple(_tile(trace, seed * 7919)) for seed in range(1, 60)}
    assert (4, 4, 2, 2) not in found
    assert all(math.prod(tile) == 64 and tile[-1] <= 16 for tile in found)
    assert all(sum(a != b for a, b in zip(tile, (4, 4, 2, 2), strict=True)) == 2 for tile in found)
    assert len(found) > 10


def _tile(trace: Trace, seed: int) -> list[int]:
    tile: list[int] = decision(MutateTileSize().apply(trace, seed), "SamplePerfectTile")
    return tile


def test_draws_are_those_of_tvm() -> None:
    trace = tiled(4, 16, 4, 4, 2, 2)
    assert [_tile(trace, seed) for seed in (1, 1000, 123456789)] == [
        [1, 16, 2, 2],
        [2, 8, 2, 2],
        [1, 16, 2, 2],
    ]


def test_innermost_tile_respects_its_limit() -> None:
    trace = tiled(2, 8, 8, 8)
    found = [MutateTileSize().apply(trace, seed * 7919) for seed in range(1, 40)]
    tiles = {tuple(decision(mutant, "SamplePerfectTile")) for mutant in found if mutant}
    assert tiles == {(16, 4), (32, 2), (64, 1)}
    assert None in found  # a factor that would have to move inside: no room there


def test_nothing_to_tile() -> None:
    assert MutateTileSize().apply(trace_of(MATMUL, lambda sch: None), 1) is None


def test_number_of_elements_fetched_at_once() -> None:
    def steps(sch: Schedule) -> None:
        lanes = sch.sample_categorical([1, 2, 4], [0.4, 0.3, 0.3], decision=1)
        sch.annotate(sch.get_block("C"), COOPERATIVE_FETCH, lanes)

    trace = trace_of(MATMUL, steps)
    mutants = [MutateTileSize().apply(trace, seed * 7919) for seed in range(1, 30)]
    assert {decision(mutant, "SampleCategorical") for mutant in mutants} == {0, 2}
    assert MutateCategorical().apply(trace, 1) is None


@given(
    tile=st.lists(st.integers(1, 24), min_size=2, max_size=5),
    limit=st.integers(1, 64),
    seed=st.integers(1, 2**31 - 2),
)
def test_moved_factor_keeps_the_product(tile: list[int], limit: int, seed: int) -> None:
    if math.prod(tile) < 2 or (max(tile[:-1]) == 1 and tile[-1] > 1 and len(tile) > 2):
        return
    room = any(limit >= tile[-1] * factor for part in tile[:-1] for factor in divisors(part)[1:])
    if not room and tile[-1] == 1 and sum(part > 1 for part in tile) == 0:
        return
    moved = moved_factor(RandomEngine(seed), list(tile), limit)
    if moved is None:
        assert len(tile) == 2
        return
    assert math.prod(moved) == math.prod(tile)
    assert sum(a != b for a, b in zip(tile, moved, strict=True)) == 2
    assert moved[-1] <= max(limit, tile[-1])


@given(st.integers(1, 5000))
def test_divisors(number: int) -> None:
    assert list(divisors(number)) == [d for d in range(1, number + 1) if number % d == 0]


# --- unrolling and other choices ------------------------------------------------------------------


def unrolled(sch: Schedule) -> None:
    steps = sch.sample_categorical([0, 16, 64, 512], [0.25, 0.25, 0.25, 0.25], decision=2)
    sch.annotate(sch.get_block("root"), UNROLL_EXPLICIT, steps)


def test_another_limit_for_unrolling() -> None:
    trace = trace_of(MATMUL, unrolled)
    chosen = [
        decision(MutateUnroll().apply(trace, seed), "SampleCategorical")
        for seed in (1, 1000, 123456789, 987654321)
    ]
    assert chosen == [1, 3, 1, 1]
    assert MutateCategorical().apply(trace, 1) is None


def test_no_limit_to_change() -> None:
    def constant(sch: Schedule) -> None:
        sch.annotate(sch.get_block("root"), UNROLL_EXPLICIT, 16)

    def single(sch: Schedule) -> None:
        steps = sch.sample_categorical([16], [1.0])
        sch.annotate(sch.get_block("root"), UNROLL_EXPLICIT, steps)

    for steps in (constant, single, lambda sch: None):
        assert MutateUnroll().apply(trace_of(MATMUL, steps), 1) is None


def test_numbers_chosen_from_a_list() -> None:
    def steps(sch: Schedule) -> None:
        unrolled(sch)
        i, j, _ = sch.get_loops(sch.get_block("C"))
        sch.split(i, [None, sch.sample_categorical([4, 8, 16], [0.2, 0.3, 0.5], decision=0)])
        sch.split(j, [None, sch.sample_categorical([32], [1.0])])

    trace = trace_of(MATMUL, steps)
    draws = [inst for inst in trace.insts if inst.primitive.kind == "SampleCategorical"]
    seen = set()
    for seed in range(1, 30):
        mutant = MutateCategorical().apply(trace, seed * 7919)
        assert mutant is not None
        seen.add(tuple(mutant.decisions[draw] for draw in draws))
    assert seen == {(2, 1, 0), (2, 2, 0)}


# --- parallel loops -------------------------------------------------------------------------------


def parallel_mutator(module: IRModule = MATMUL) -> MutateParallel:
    mutator = MutateParallel(max_jobs_per_core=16)
    mutator._initialize_with_tune_context(SpaceTask(module, CPU))
    return mutator


def parallel(limit: int) -> Callable[[Schedule], None]:
    def steps(sch: Schedule) -> None:
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        i0, i1 = sch.split(i, [4, 16])
        j0, j1 = sch.split(j, [8, 8])
        sch.reorder(i0, j0, k, i1, j1)
        sch.annotate(sch.get_block("root"), PARALLEL, limit)

    return steps


def limits(trace: Trace, mutator: MutateParallel) -> set[int]:
    found = set()
    for seed in range(1, 30):
        mutant = mutator.apply(trace, seed * 7919)
        assert mutant is not None
        (note,) = (i for i in mutant.insts if i.attrs == (PARALLEL,))
        found.add(note.inputs[1])
    return found


def test_another_number_of_parallel_loops() -> None:
    # 4 iterations with one loop, 32 with two; a reduction follows.
    assert limits(trace_of(MATMUL, parallel(64)), parallel_mutator()) == {4}
    assert limits(trace_of(MATMUL, parallel(4)), parallel_mutator()) == {32}


def test_no_other_number_of_parallel_loops() -> None:
    trace = trace_of(MATMUL, lambda sch: sch.annotate(sch.get_block("root"), PARALLEL, 64))
    assert parallel_mutator().apply(trace, 1) is None
    assert parallel_mutator().apply(trace_of(MATMUL, lambda sch: None), 1) is None


def test_mutated_limit_is_replayed() -> None:
    trace = trace_of(MATMUL, parallel(64))
    mutant = parallel_mutator().apply(trace, 1)
    assert mutant is not None
    sch = Schedule(MATMUL)
    mutant.apply_to_schedule(sch, remove_postproc=True)
    assert sch.get_sref(sch.get_block("root")).block.annotations == {PARALLEL: 4}


def test_block_must_be_found_by_name() -> None:
    def steps(sch: Schedule) -> None:
        (block,) = sch.get_child_blocks(sch.get_block("root"))
        sch.annotate(block, PARALLEL, 8)

    with pytest.raises(ScheduleError, match="does not come from get_block"):
        parallel_mutator().apply(trace_of(MATMUL, steps), 1)


# --- compute locations ----------------------------------------------------------------------------


def located(place: int) -> Callable[[Schedule], None]:
    def steps(sch: Schedule) -> None:
        block = sch.get_block("B")
        sch.compute_at(block, sch.sample_compute_location(block, decision=place))

    return steps


def location_mutator() -> MutateComputeLocation:
    mutator = MutateComputeLocation()
    mutator._initialize_with_tune_context(SpaceTask(STAGES, CPU))
    return mutator


@pytest.mark.parametrize("place", [-2, -1, 0, 1])
def test_all_other_places(place: int) -> None:
    trace = trace_of(STAGES, located(place))
    found = {
        decision(location_mutator().apply(trace, seed * 7919), "SampleComputeLocation")
        for seed in range(1, 40)
    }
    assert found == {-2, -1, 0, 1} - {place}


def test_nothing_to_place() -> None:
    assert location_mutator().apply(trace_of(STAGES, lambda sch: None), 1) is None


@pytest.mark.parametrize("member", [MutateComputeLocation(), MutateParallel(16)])
def test_the_program_must_be_known(member: Any) -> None:
    def steps(sch: Schedule) -> None:
        located(0)(sch)
        sch.annotate(sch.get_block("root"), PARALLEL, 8)

    message = f"{type(member).__name__} does not know the program"
    with pytest.raises(ScheduleError, match=message):
        member.apply(trace_of(STAGES, steps), 1)
