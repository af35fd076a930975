"""A search strategy of your own: it says what to measure next, and is told what came out.

This one climbs hills. It starts with random candidates of the sketches, then changes one decision
of the best candidate so far, or now and then draws a new one.

    python examples/custom_search.py
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median
from typing import Any

from tilewright import meta_schedule as ms
from tilewright.errors import ScheduleError
from tilewright.ir import structural_hash
from tilewright.schedule import Schedule, Trace
from tilewright.testing.handwritten import matmul

SIZE = 128
TRIALS = 24


@ms.derived_object
class HillClimbing(ms.search_strategy.PySearchStrategy):
    """Neighbours of the best; every `restart`-th candidate is a random one."""

    def __init__(self, restart: int = 4, attempts: int = 5) -> None:
        self.restart = restart
        self.attempts = attempts  # for each place in a batch

    def _initialize_with_tune_context(self, context: Any) -> None:
        self.context = context
        self.random = random.Random(context.rand_state)  # the seed of the run decides all

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        self.left, self.batch = max_trials, num_trials_per_iter
        self.sketches = [sketch.trace for sketch in design_spaces if sketch.trace is not None]
        self.seen: set[int] = set()
        self.best: Trace | None = None
        self.best_secs = float("inf")

    def post_tuning(self) -> None:
        self.sketches = []

    def generate_measure_candidates(self) -> list[ms.MeasureCandidate] | None:
        found: list[ms.MeasureCandidate] = []
        for _ in range(self.attempts * self.batch):
            if len(found) == min(self.batch, self.left):
                break
            candidate = self._finished(self._next_trace(len(found)))
            if candidate is not None:
                found.append(candidate)
        return found or None  # None: there is nothing more to propose

    def notify_runner_results(
        self,
        measure_candidates: Sequence[ms.MeasureCandidate],
        results: Sequence[ms.runner.RunnerResult],
    ) -> None:
        self.left -= len(results)
        for candidate, result in zip(measure_candidates, results, strict=True):
            if result.run_secs and median(result.run_secs) < self.best_secs:
                self.best, self.best_secs = candidate.sch.trace, median(result.run_secs)

    def _next_trace(self, number: int) -> Trace:
        """A neighbour of the best, or a sketch whose decisions are open."""
        mutators = list(self.context.space_generator.mutator_probs)
        if self.best is not None and mutators and number % self.restart:
            mutated = self.random.choice(mutators).apply(self.best, self._seed())
            if mutated is not None:
                return mutated
        return Trace(self.random.choice(self.sketches).insts)

    def _finished(self, trace: Trace) -> ms.MeasureCandidate | None:
        """The candidate of a trace, unless it is illegal or was proposed before."""
        sch = Schedule(self.context.mod, seed=self._seed())
        try:
            trace.apply_to_schedule(sch, remove_postproc=True)
            sch.enter_postproc()
            is_legal = all(each.apply(sch) for each in self.context.space_generator.postprocs)
        except ScheduleError:
            return None
        shash = structural_hash(sch.mod)
        if not is_legal or shash in self.seen:
            return None
        self.seen.add(shash)
        return ms.MeasureCandidate(sch, ms.arg_info.from_entry_func(sch.mod))

    def _seed(self) -> int:
        return self.random.randrange(1, 2**31 - 1)


def main() -> None:
    """Search with it, and show how the best time falls."""
    database = ms.tune_tir(
        matmul(SIZE, SIZE, SIZE),
        "llvm",
        max_trials_global=TRIALS,
        num_trials_per_iter=8,
        space="llvm",
        strategy=HillClimbing(),
        cost_model=None,
        seed=0,
        console=False,
    )
    best = float("inf")
    for record in database.get_all_tuning_records():
        secs = median(record.run_secs or [float("inf")])
        if record.is_valid and secs < best:
            best = secs
            print(f"trial {record.extra['trial']:2}: {best * 1e6:.0f} us")
    print("measured:", len(database))


if __name__ == "__main__":
    main()
