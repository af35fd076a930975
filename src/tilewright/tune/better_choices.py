"""A schedule improved choice by choice, by calculation alone.

Rules that write kernels for GPUs list few numbers to choose from. A handful of random drafts rarely
has the best of them, but from a good one it is never far: other candidates of one choice are tried,
and where none is better, those of two choices at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from tilewright.schedule import Schedule, Trace
from tilewright.space.mutators.decisions import Draw, categorical_draws, has_choice

MOST_STEPS = 1200  # to replay in all: some tenths of a second

Replay = Callable[[Trace], Schedule | None]
Costs = Callable[[Sequence[Schedule]], Sequence[float]]


def with_better_choices(
    best: Schedule, replay: Replay, costs: Costs, most_steps: int = MOST_STEPS
) -> Schedule:
    """The schedule, or one that differs in some choices and should be faster."""
    (cost,) = costs([best])
    assert best.trace is not None
    left = most_steps // max(1, len(best.trace.insts))
    together = 1  # choices that are changed at a time
    while left > 0 and together <= 2:
        others = [*itertools.islice(_others(best, together), left)]
        left -= len(others)
        tried = [sch for trace in others if (sch := replay(trace)) is not None]
        ranked = zip(costs(tried), range(len(tried)), strict=True) if tried else ()
        found = min(ranked, default=(cost, 0))
        if found[0] < cost:
            cost, best, together = found[0], tried[found[1]], 1
        else:
            together += 1
    return best


def _others(sch: Schedule, count: int) -> Iterator[Trace]:
    """The trace with other candidates in some of its choices; later choices come first."""
    assert sch.trace is not None
    draws = [draw for draw in categorical_draws(sch.trace).values() if has_choice(draw)]
    for changed in itertools.combinations(reversed(draws), count):
        for candidates in itertools.product(*(_other_candidates(sch.trace, d) for d in changed)):
            trace = sch.trace
            for draw, candidate in zip(changed, candidates, strict=True):
                trace = trace.with_decision(draw, candidate, remove_postproc=True)
            yield trace


def _other_candidates(trace: Trace, draw: Draw) -> list[int]:
    current = int(trace.get_decision(draw))
    return [other for other in range(len(draw.step.candidates)) if other != current]
