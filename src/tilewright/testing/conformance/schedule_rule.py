"""Checks that every schedule rule must pass.

from tilewright.testing.conformance import schedule_rule

@pytest.mark.parametrize("check", schedule_rule.CHECKS)
def test_conformance(check):
    check(MyRule, Target("llvm"))

Checks take a function that makes the rule, and the target it is initialised for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilewright.ir import IRModule, structural_equal
from tilewright.schedule import BlockRV, Schedule
from tilewright.space.base import ScheduleRule
from tilewright.target import Target
from tilewright.testing.conformance.small_programs import small_programs
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip
from tilewright.testing.space_generation import SpaceTask

MakeRule = Callable[[], ScheduleRule]
_SEED = 42


def _initialized(rule: ScheduleRule, module: IRModule, target: Target) -> ScheduleRule:
    rule._initialize_with_tune_context(SpaceTask(module, target, rand_state=_SEED))
    return rule


def _blocks(module: IRModule) -> list[str]:
    sch = Schedule(module)
    return [sref.name for sref in sch.state.srefs.values() if sref.is_block]


def _visits(module: IRModule) -> Iterator[tuple[Schedule, BlockRV]]:
    """Every block of a program, each in a schedule of its own."""
    for name in _blocks(module):
        sch = Schedule(module, seed=_SEED)
        yield sch, sch.get_block(name)


def check_returns_schedules(make: MakeRule, target: Target) -> None:
    """A rule says for every block how to go on: `[sch]` if it has nothing to say."""
    for name, module in small_programs().items():
        rule = _initialized(make(), module, target)
        for sch, block in _visits(module):
            made = rule.apply(sch, block)
            assert isinstance(made, list), f"{name}: a list was expected, got {made!r}"
            assert made, f"{name}: a rule without anything to say returns [sch]"
            assert all(isinstance(result, Schedule) for result in made), name
            assert len({id(result) for result in made}) == len(made), f"{name}: one twice"


def check_keeps_results(make: MakeRule, target: Target) -> None:
    """Every schedule computes what the program did."""
    for module in small_programs().values():
        rule = _initialized(make(), module, target)
        for sch, block in _visits(module):
            for made in rule.apply(sch, block):
                assert_same_result(module, made.mod)


def check_is_recorded(make: MakeRule, target: Target) -> None:
    """The trace of every schedule repeats it: whatever a rule does, it does by primitives."""
    for module in small_programs().values():
        rule = _initialized(make(), module, target)
        for sch, block in _visits(module):
            for made in rule.apply(sch, block):
                verify_trace_roundtrip(made, module)


def check_is_deterministic(make: MakeRule, target: Target) -> None:
    """A seed decides everything: all chance comes from the schedule."""
    for module in small_programs().values():
        rule, other = (_initialized(make(), module, target) for _ in range(2))
        for (sch, block), (again, same) in zip(_visits(module), _visits(module), strict=True):
            _check_equal(rule.apply(sch, block), other.apply(again, same))


def check_clone(make: MakeRule, target: Target) -> None:
    """A clone is another rule with the same settings."""
    for module in small_programs().values():
        rule = _initialized(make(), module, target)
        clone = _initialized(rule.clone(), module, target)
        assert clone is not rule
        for (sch, block), (again, same) in zip(_visits(module), _visits(module), strict=True):
            _check_equal(rule.apply(sch, block), clone.apply(again, same))


def _check_equal(mine: list[Schedule], others: list[Schedule]) -> None:
    assert [str(sch.trace) for sch in mine] == [str(sch.trace) for sch in others]
    assert all(structural_equal(a.mod, b.mod) for a, b in zip(mine, others, strict=True))


CHECKS: tuple[Callable[[MakeRule, Target], None], ...] = (
    check_returns_schedules,
    check_keeps_results,
    check_is_recorded,
    check_is_deterministic,
    check_clone,
)
