"""Choices of a schedule are improved one after another, as long as calculation finds better."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tilewright import ir, te
from tilewright.schedule import Schedule, Trace
from tilewright.space.mutators.decisions import categorical_draws
from tilewright.tune.better_choices import MOST_STEPS, with_better_choices
from tilewright.tune.fallback import _first_of_each_sketch


def doubled() -> ir.PrimFunc:
    a = te.placeholder((1024,), "float32", name="A")
    return te.create_prim_func([a, te.compute((1024,), lambda i: a[i] * 2, name="B")])


def drafted(*counts: int) -> Schedule:
    """A schedule with some choices, of which it takes the last candidates."""
    sch = Schedule(doubled(), seed=1)
    (loop,) = sch.get_loops("B")
    for number, count in enumerate(counts):
        choice = sch.sample_categorical([*range(count)], [1 / count] * count, count - 1)
        sch.annotate(loop, f"choice {number}", choice)
    return sch


class Replays:
    """Replays traces, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, trace: Trace) -> Schedule | None:
        self.count += 1
        sch = Schedule(doubled())
        trace.apply_to_schedule(sch, remove_postproc=True)
        return sch


def choices_of(sch: Schedule) -> list[int]:
    assert sch.trace is not None
    return [int(sch.trace.get_decision(draw)) for draw in categorical_draws(sch.trace).values()]


def test_each_choice_is_improved() -> None:
    def costs(tried: Sequence[Schedule]) -> list[float]:
        # The best second choice depends on the first one.
        return [abs(a - 1) * 10 + abs(b - 3 * a) for a, b in map(choices_of, tried)]

    replays = Replays()
    best = with_better_choices(drafted(3, 5), replays, costs)
    assert choices_of(best) == [1, 3]


def test_what_is_best_already_stays() -> None:
    sch = drafted(3, 5)
    assert with_better_choices(sch, Replays(), lambda tried: [0.0] * len(tried)) is sch


def test_no_more_tries_than_allowed() -> None:
    replays, sch = Replays(), drafted(200, 20, 20)
    assert sch.trace is not None
    with_better_choices(sch, replays, lambda tried: [0.0] * len(tried))
    assert replays.count == MOST_STEPS // len(sch.trace.insts)


def test_two_choices_that_are_better_together() -> None:
    def costs(tried: Sequence[Schedule]) -> list[float]:
        return [0.0 if choices == [0, 0] else 1.0 + sum(choices) * -0.01
                for choices in map(choices_of, tried)]  # fmt: skip

    assert choices_of(with_better_choices(drafted(3, 4), Replays(), costs)) == [0, 0]


@pytest.mark.parametrize("counts", [(), (1,)])
def test_nothing_to_choose(counts: tuple[int, ...]) -> None:
    sch, replays = drafted(*counts), Replays()
    assert with_better_choices(sch, replays, lambda tried: [0.0] * len(tried)) is sch
    assert replays.count == 0


def test_schedules_that_cannot_be_made_are_passed_over() -> None:
    sch = drafted(3)
    assert with_better_choices(sch, lambda _: None, lambda tried: [0.0] * len(tried)) is sch


def test_fewer_steps_are_taken_where_fewer_are_allowed() -> None:
    sch, replays = drafted(50), Replays()
    assert sch.trace is not None
    with_better_choices(sch, replays, choice_costs, most_steps=7 * len(sch.trace.insts))
    assert replays.count == 7


def choice_costs(tried: Sequence[Schedule]) -> list[float]:
    return [float(choices_of(sch)[0]) for sch in tried]


def test_the_best_draft_of_each_sketch() -> None:
    first, other = drafted(3, 5), drafted(4)
    assert first.trace is not None
    draw = next(iter(categorical_draws(first.trace).values()))
    changed = Replays()(first.trace.with_decision(draw, 0, remove_postproc=True))
    assert changed is not None
    assert _first_of_each_sketch([first, changed, other]) == [first, other]
