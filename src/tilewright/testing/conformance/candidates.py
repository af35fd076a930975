"""A small task and candidates for it, which the suites of this package share."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.ir import IRModule
from tilewright.records import FailureKind, MeasureCandidate, RunnerResult, args_info_of
from tilewright.schedule import Schedule
from tilewright.space.base import SpaceGenerator
from tilewright.space.cpu.elementwise_loops import extent_of
from tilewright.support.member_failures import MemberFailures
from tilewright.target import Target
from tilewright.testing.te_workload import create_te_workload


@dataclass
class SmallContext:
    """As much of a task as members may look at."""

    mod: IRModule | None
    target: Target | None
    num_threads: int = 1
    rand_state: int = 1
    task_name: str = "matmul"
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger(__name__))
    failures: MemberFailures = field(default_factory=MemberFailures)
    space_generator: SpaceGenerator | None = None


@functools.cache
def _matmul() -> IRModule:
    return IRModule({"main": create_te_workload("GMM", 0)})


def matmul_context() -> SmallContext:
    """A 128x128x128 matrix product on this machine."""
    return SmallContext(_matmul(), Target("llvm"))


def tiled_matmul(mod: IRModule, seed: int) -> Schedule:
    """The product in sampled tiles, with vectors innermost and threads outermost."""
    sch = Schedule(mod, seed=seed)
    block = sch.get_block("Z")
    batch, i, j, k = sch.get_loops(block)
    i_0, i_1, i_2 = sch.split(i, sch.sample_perfect_tile(i, n=3, max_innermost_factor=16))
    j_0, j_1, j_2 = sch.split(j, sch.sample_perfect_tile(j, n=3, max_innermost_factor=64))
    k_0, k_1 = sch.split(k, sch.sample_perfect_tile(k, n=2, max_innermost_factor=16))
    sch.reorder(batch, i_0, j_0, i_1, j_1, k_0, i_2, k_1, j_2)
    sch.parallel(sch.fuse(batch, i_0, j_0))
    sch.vectorize(j_2)
    sch.decompose_reduction(block, k_0)
    return sch


def matmul_candidates(count: int, first_seed: int = 1) -> list[MeasureCandidate]:
    """Different tilings of the product; the same ones for the same seed."""
    return [_matmul_candidate(first_seed + number) for number in range(count)]


@functools.cache
def _matmul_candidate(seed: int) -> MeasureCandidate:
    sch = tiled_matmul(_matmul(), seed)
    return MeasureCandidate(sch, args_info_of(sch.mod))


def made_up_results(candidates: Sequence[MeasureCandidate]) -> list[RunnerResult]:
    """Results as if short vectors and long reduction tiles were slow; the third one failed."""
    results = []
    for number, candidate in enumerate(candidates):
        loops = candidate.sch.get_loops(candidate.sch.get_block("Z_update"))
        k_1, j_2 = (extent_of(candidate.sch, loop) for loop in loops[-2:])
        secs = 1e-3 / (1 + j_2) + 1e-6 * k_1
        if number == 2:
            results.append(RunnerResult(None, "made up", FailureKind.RUN_ERROR))
        else:
            results.append(RunnerResult((secs, secs * 1.01)))
    return results
