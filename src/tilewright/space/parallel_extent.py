"""How much work a CPU can do side by side."""

from __future__ import annotations

from typing import Any

from tilewright.errors import TuneError
from tilewright.target import Target


def max_parallel_extent(context: Any, max_jobs_per_core: int) -> int:
    """Jobs for all cores of the target together; -1 if the jobs of a core are not limited."""
    if max_jobs_per_core == -1:
        return -1
    target: Target | None = context.target
    if target is None:
        raise TuneError("this schedule rule needs a target; give one to the TuneContext")
    return target.num_cores * max_jobs_per_core
