"""The first two candidates of a search: the schedule without a search, and the program as it is.

They are measured like all others, so that what a search ends with is never slower than either. The
program itself comes second: where its plain loops are clearly slower, they are not run again.
"""

from __future__ import annotations

from tilewright.ir import structural_equal
from tilewright.records import PLAIN, ZERO_SEARCH, MeasureCandidate, args_info_of
from tilewright.schedule import Schedule
from tilewright.tune.fallback import best_of_sketches
from tilewright.tune.task import TaskRecord


def baselines_of(task: TaskRecord) -> dict[str, MeasureCandidate]:
    """The candidates that come before those of the search, by name; none if it has begun.

    Spaces of the user's own have none: their searches stay inside of them.
    """
    space, mod = task.ctx.space_generator, task.mod
    if task.trials or space is None or not space.has_baselines:
        return {}
    infos, plain = args_info_of(mod), Schedule(mod)
    found = {PLAIN: MeasureCandidate(plain, infos)}
    best = best_of_sketches(task.ctx, task.sketches)
    if best is None or structural_equal(best.mod, mod):
        return found
    return {ZERO_SEARCH: MeasureCandidate(best, infos), **found}
