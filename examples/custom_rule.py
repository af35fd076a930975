"""A schedule rule of your own: what you know about a computation becomes part of the search.

A rule looks at one block and returns schedules that compete. This one returns two for a matrix
product: in the first all tile sizes are written down, in the second they are left to the search.

    python examples/custom_rule.py
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import meta_schedule as ms
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.testing.handwritten import matmul

SIZE = 128
TRIALS = 16


@ms.derived_object
class WowSoFancyScheduleRule(ms.schedule_rule.PyScheduleRule):
    """Four tiles of rows and columns, two of the reduction, and a bit of everything else."""

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        assert context.target is not None
        self.lanes = context.target.vector_bits // 32  # the task tells what a rule wants to know

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if len(sch.get_loops(block)) != 3:
            return [sch]  # not for us (the root block, for one): leave it as it is
        fixed = sch.copy()
        i, j, k = fixed.get_loops(block)
        self._arrange(
            fixed,
            fixed.split(i, [8, 2, 4, 2]),
            fixed.split(j, [2, None, 1, 2 * self.lanes]),
            fixed.split(k, [8, 16]),
        )
        sampled = sch.copy()
        i, j, k = sampled.get_loops(block)
        self._arrange(
            sampled,
            sampled.split(i, sampled.sample_perfect_tile(i, n=4)),
            sampled.split(j, sampled.sample_perfect_tile(j, n=4, max_innermost_factor=64)),
            sampled.split(k, sampled.sample_perfect_tile(k, n=2)),
        )
        return [fixed, sampled]

    def _arrange(self, sch: Schedule, i: list[LoopRV], j: list[LoopRV], k: list[LoopRV]) -> None:
        sch.reorder(i[0], j[0], i[1], j[1], k[0], i[2], j[2], k[1], i[3], j[3])
        sch.parallel(sch.fuse(i[0], j[0]))
        sch.vectorize(j[3])


def main() -> None:
    """Tune with the rule, then say which of its schedules won."""
    func = matmul(SIZE, SIZE, SIZE)
    space = ms.space_generator.PostOrderApply(
        sch_rules=[WowSoFancyScheduleRule()],
        postprocs=[ms.postproc.RewriteReductionBlock()],
        mutator_probs={ms.mutator.MutateTileSize(): 1.0},
    )
    database = ms.tune_tir(
        func, "llvm", max_trials_global=TRIALS, space=space, seed=0, console=False
    )
    times: dict[str, list[float]] = {"written down": [], "sampled": []}
    for record in database.get_all_tuning_records():
        kind = "sampled" if record.trace.decisions else "written down"
        times[kind] += record.run_secs or ()
    for kind, secs in times.items():
        best_secs = min(secs, default=float("nan"))
        print(f"tile sizes {kind}: best of {len(secs)} is {best_secs * 1e6:.0f} us")
    best = ms.compile_tir(database, func, "llvm")
    assert best is not None
    print(best.trace)

    a, b = (np.random.default_rng(0).random((SIZE, SIZE), dtype="float32") for _ in range(2))
    c = np.full_like(a, np.nan)
    with database:
        tuned = tw.build(func)
    for name, module in (("plain loops", tw.build(func)), ("tuned", tuned)):
        taken = module.time_evaluator("main", number=10)(a, b, c)
        print(f"{name}: {taken.mean * 1e6:.0f} us")
    print("right:", np.allclose(c, a @ b, rtol=1e-4))


if __name__ == "__main__":
    main()
