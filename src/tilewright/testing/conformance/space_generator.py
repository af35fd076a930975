"""Checks that every space generator must pass.

from tilewright.testing.conformance import space_generator

@pytest.mark.parametrize("check", space_generator.CHECKS)
def test_conformance(check):
    check(MyGenerator, Target("llvm"))

Checks take a function that makes the generator, and the target it is initialised for.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import IRModule, structural_equal
from tilewright.schedule import Schedule
from tilewright.space.base import Mutator, Postproc, ScheduleRule, SpaceGenerator
from tilewright.target import Target
from tilewright.testing.conformance.small_programs import small_programs
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip
from tilewright.testing.space_generation import SpaceTask

MakeGenerator = Callable[[], SpaceGenerator]
_SEED = 42


def _space(generator: SpaceGenerator, module: IRModule, target: Target) -> list[Schedule]:
    generator._initialize_with_tune_context(SpaceTask(module, target, rand_state=_SEED))
    return generator.generate_design_space(module)


def check_makes_sketches(make: MakeGenerator, target: Target) -> None:
    """There is a sketch; each computes what the program did, and its trace repeats it."""
    for name, module in small_programs().items():
        sketches = _space(make(), module, target)
        assert sketches, f"{name}: no sketch at all"
        for sketch in sketches:
            assert isinstance(sketch, Schedule), f"{name}: {sketch!r} is not a schedule"
            verify_trace_roundtrip(sketch, module)
            assert_same_result(module, sketch.mod)


def check_has_members(make: MakeGenerator, target: Target) -> None:
    """Once initialised, a generator names its rules, post-processors and mutators."""
    generator = make()
    generator._initialize_with_tune_context(SpaceTask(target=target))
    assert all(isinstance(rule, ScheduleRule) for rule in generator.sch_rules)
    assert all(isinstance(postproc, Postproc) for postproc in generator.postprocs)
    for mutator, probability in generator.mutator_probs.items():
        assert isinstance(mutator, Mutator)
        assert 0.0 <= probability <= 1.0


def check_is_deterministic(make: MakeGenerator, target: Target) -> None:
    """The seed of the task decides everything."""
    for module in small_programs().values():
        _check_equal(_space(make(), module, target), _space(make(), module, target))


def check_usable_again(make: MakeGenerator, target: Target) -> None:
    """A generator serves any number of tasks, one after the other."""
    generator = make()
    for module in small_programs().values():
        _check_equal(_space(generator, module, target), _space(generator, module, target))


def check_clone(make: MakeGenerator, target: Target) -> None:
    """A clone makes the same sketches."""
    for module in small_programs().values():
        generator = make()
        mine = _space(generator, module, target)
        _check_equal(mine, _space(generator.clone(), module, target))


def _check_equal(mine: list[Schedule], others: list[Schedule]) -> None:
    assert [str(sch.trace) for sch in mine] == [str(sch.trace) for sch in others]
    assert all(structural_equal(a.mod, b.mod) for a, b in zip(mine, others, strict=True))


CHECKS: tuple[Callable[[MakeGenerator, Target], None], ...] = (
    check_makes_sketches,
    check_has_members,
    check_is_deterministic,
    check_usable_again,
    check_clone,
)
