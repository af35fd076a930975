"""`ScheduleFn`, `SpaceGeneratorUnion`, and generators by name."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tilewright.errors import TuneError
from tilewright.ir import as_module
from tilewright.schedule import Schedule
from tilewright.space.base import SpaceGenerator
from tilewright.space.generators import (
    PostOrderApply,
    ScheduleFn,
    SpaceGeneratorUnion,
    create_space_generator,
)
from tilewright.target import Target
from tilewright.testing.space_generation import SpaceTask, decisions_of
from tilewright.testing.te_workload import create_te_workload

LLVM = Target("llvm -num-cores=4")
MODULE = as_module(create_te_workload("GMM", 0))


def space(generator: SpaceGenerator) -> list[Schedule]:
    generator._initialize_with_tune_context(SpaceTask(MODULE, LLVM))
    return generator.generate_design_space(MODULE)


def tile(sch: Schedule) -> None:
    sch.sample_perfect_tile(sch.get_loops("Z")[1], n=4)


# --- ScheduleFn ---------------------------------------------------------------------------------


def test_functions_may_return_nothing_one_or_several() -> None:
    assert len(space(ScheduleFn(tile, [], [], {}))) == 1
    assert len(space(ScheduleFn(lambda sch: sch.copy(), [], [], {}))) == 1
    assert len(space(ScheduleFn(lambda sch: [sch, sch.copy()], [], [], {}))) == 2


def test_functions_may_return_nothing_else() -> None:
    wrong: Any = lambda sch: "schedule"  # noqa: E731
    with pytest.raises(TypeError) as caught:
        space(ScheduleFn(wrong, [], [], {}))
    assert isinstance(caught.value, TuneError)
    assert str(caught.value) == (
        "a schedule function returns nothing, a schedule or a list of schedules, got 'schedule'"
    )


def test_a_function_needs_no_target() -> None:
    generator = ScheduleFn(tile)
    generator._initialize_with_tune_context(SpaceTask(MODULE, None))
    assert len(generator.generate_design_space(MODULE)) == 1
    assert (generator.sch_rules, generator.postprocs, generator.mutator_probs) == ((), (), {})
    generator._initialize_with_tune_context(SpaceTask(MODULE, LLVM))
    assert generator.postprocs


# --- SpaceGeneratorUnion ------------------------------------------------------------------------


def by_rules() -> PostOrderApply:
    return PostOrderApply(sch_rules="llvm", postprocs=[], mutator_probs={})


def test_unions_draw_seeds_as_tvm_does() -> None:
    made = space(SpaceGeneratorUnion([by_rules(), ScheduleFn(tile, [], [], {})], [], [], {}))
    assert [[value for _, value in decisions_of(sch)] for sch in made] == [
        *[[[1, 1, 1, 1], [2, 4, 1, 16], [2, 2, 16, 2], [8, 16], 1]] * 3,
        [[8, 4, 2, 2]],
    ]


def fail(sch: Schedule) -> None:
    raise ZeroDivisionError("no way")


def test_a_failing_generator_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    broken = ScheduleFn(fail, [], [], {})
    with caplog.at_level(logging.WARNING):
        made = space(SpaceGeneratorUnion([broken, ScheduleFn(tile, [], [], {})], [], [], {}))
    assert len(made) == 1
    assert caplog.messages == [
        "space generator ScheduleFn failed and is left out: ZeroDivisionError: no way"
    ]
    with pytest.raises(ZeroDivisionError):
        space(SpaceGeneratorUnion([broken], [], [], {}))


def test_unions_have_children() -> None:
    with pytest.raises(TuneError, match="SpaceGeneratorUnion needs at least one space generator"):
        SpaceGeneratorUnion([], [], [], {})


# --- by name ------------------------------------------------------------------------------------


def test_functions_come_without_members() -> None:
    made = create_space_generator(tile)
    assert isinstance(made, ScheduleFn)
    made._initialize_with_tune_context(SpaceTask(MODULE))  # no target is needed
    assert (list(made.sch_rules), list(made.postprocs), dict(made.mutator_probs)) == ([], [], {})


def test_names() -> None:
    default = create_space_generator(sch_rules=[], postprocs=[], mutator_probs={})
    assert type(default) is PostOrderApply
    union = create_space_generator("union", [by_rules()], [], [], {})
    assert type(union) is SpaceGeneratorUnion
    with pytest.raises(TuneError) as caught:
        create_space_generator("lllvm")
    assert str(caught.value) == "unknown space generator 'lllvm'; did you mean 'llvm'?"
    nonsense: Any = 3
    with pytest.raises(TuneError, match="a space generator is a name or a schedule function"):
        create_space_generator(nonsense)
