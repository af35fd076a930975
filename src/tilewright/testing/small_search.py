# mypy: disable-error-code="valid-type, no-untyped-def"
"""A small task for the tests of strategies: a matmul of 32³ with a space of the test's choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.cost_model.base import CostModel
from tilewright.cost_model.random_model import RandomModel
from tilewright.database import MemoryDatabase
from tilewright.ir import IRModule
from tilewright.records import (
    CANDIDATE_HASH,
    MeasureCandidate,
    RunnerResult,
    TuningRecord,
    candidate_hash,
)
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.search import SearchStrategy
from tilewright.space.base import Mutator, Postproc
from tilewright.space.generators import ScheduleFn
from tilewright.target import Target
from tilewright.testing.space_generation import SpaceTask


@T.prim_func
def matmul(
    A: T.Buffer((32, 32), "float32"),
    B: T.Buffer((32, 32), "float32"),
    C: T.Buffer((32, 32), "float32"),
):
    T.func_attr({"global_symbol": "main"})
    for i, j, k in T.grid(32, 32, 32):
        with T.block("matmul"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


MODULE = IRModule({"main": matmul})
CPU = Target("llvm -num-cores=2")


def tile_all(sch: Schedule) -> None:
    """4, 4 and 2 tiles of the three loops: thousands of programs."""
    i, j, k = sch.get_loops(sch.get_block("matmul"))
    parts = [
        sch.split(loop, sch.sample_perfect_tile(loop, n=n))
        for loop, n in zip((i, j, k), (4, 4, 2), strict=True)
    ]
    (i0, i1, i2, i3), (j0, j1, j2, j3), (k0, k1) = parts
    sch.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)


def tile_two(sch: Schedule) -> None:
    """2 tiles of two loops, 16 at most inside: 25 programs."""
    i, j, _ = sch.get_loops(sch.get_block("matmul"))
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, n=2))
    sch.reorder(i0, j0, i1, j1)


def nothing(sch: Schedule) -> None:
    """One program."""


class Search:
    """A strategy at work."""

    def __init__(
        self,
        strategy: SearchStrategy,
        space: Callable[[Schedule], None] = tile_all,
        *,
        postprocs: Sequence[Postproc] = (),
        mutators: Mapping[Mutator, float] | None = None,
        database: MemoryDatabase | None = None,
        seed: int = 42,
    ) -> None:
        self.strategy = strategy
        self.database = MemoryDatabase() if database is None else database
        self.space = ScheduleFn(
            space, sch_rules=[], postprocs=list(postprocs), mutator_probs=mutators or {}
        )
        self.task = SpaceTask(MODULE, CPU, rand_state=seed, space_generator=self.space)
        self.space._initialize_with_tune_context(self.task)
        strategy._initialize_with_tune_context(self.task)

    def begin(self, trials: int, batch: int, model: CostModel | None = None) -> Search:
        spaces = self.space.generate_design_space(MODULE)
        model = RandomModel(seed=1) if model is None else model
        self.strategy.pre_tuning(trials, batch, spaces, self.database, model)
        return self

    def next_batch(self, seconds: float = 0.5, **extra: Any) -> list[MeasureCandidate] | None:
        """The next batch, measured and recorded."""
        batch = self.strategy.generate_measure_candidates()
        if batch is None:
            return None
        workload = self.database.commit_workload(MODULE)
        for candidate in batch:
            assert candidate.sch.trace is not None
            noted = {CANDIDATE_HASH: candidate_hash(candidate), **extra}
            self.database.commit_tuning_record(
                TuningRecord(
                    candidate.sch.trace, workload, (seconds,), CPU, candidate.args_info, extra=noted
                )
            )
        self.strategy.notify_runner_results(batch, [RunnerResult((seconds,))] * len(batch))
        return batch

    def sizes(self, most: int = 40) -> list[int]:
        """The sizes of all batches."""
        sizes: list[int] = []
        for _ in range(most):
            batch = self.next_batch()
            if batch is None:
                return sizes
            sizes.append(len(batch))
        raise AssertionError("the search does not end")
