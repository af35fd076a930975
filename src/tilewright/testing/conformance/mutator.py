"""Checks that every mutator must pass.

from tilewright.testing.conformance import mutator

@pytest.mark.parametrize("check", mutator.CHECKS)
def test_conformance(check):
    check(MyMutator)

Checks take a function that makes the mutator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilewright.ir import IRModule
from tilewright.schedule import Schedule, Trace
from tilewright.space.base import Mutator
from tilewright.testing.conformance.drafts import drafts, task_for
from tilewright.testing.schedule_checks import assert_same_result

MakeMutator = Callable[[], Mutator]
_SEEDS = (1, 123456789)


def _mutants(mutator: Mutator) -> Iterator[tuple[IRModule, Trace, Trace | None]]:
    for module, sch in drafts():
        mutator._initialize_with_tune_context(task_for(module))
        sch.enter_postproc()
        assert sch.trace is not None
        for seed in _SEEDS:
            yield module, sch.trace, mutator.apply(sch.trace, seed)


def _text(trace: Trace | None) -> str:
    return "None" if trace is None else str(trace)


def check_changes_something(make: MakeMutator) -> None:
    """What comes back is None, or a trace that differs and has no post-processing."""
    for _, trace, mutant in _mutants(make()):
        if mutant is None:
            continue
        assert isinstance(mutant, Trace), f"a trace or None was expected, got {mutant!r}"
        assert not any(inst.primitive.is_postproc for inst in mutant.insts)
        before = "\n".join(trace.as_python(remove_postproc=True))
        assert "\n".join(mutant.as_python()) != before, "the mutant is the trace itself"


def check_leaves_trace_alone(make: MakeMutator) -> None:
    """The trace that was given stays as it was."""
    mutator = make()
    for module, sch in drafts():
        mutator._initialize_with_tune_context(task_for(module))
        before = str(sch.trace)
        assert sch.trace is not None
        mutator.apply(sch.trace, _SEEDS[0])
        assert str(sch.trace) == before


def check_mutants_are_legal(make: MakeMutator) -> None:
    """Every mutant replays, and computes what the program did."""
    for turn, (module, _, mutant) in enumerate(_mutants(make())):
        if mutant is not None:
            sch = Schedule(module, seed=1)
            mutant.apply_to_schedule(sch, remove_postproc=True)
            if turn % len(_SEEDS) == 0:  # interpreting a program takes long
                assert_same_result(module, sch.mod)


def check_is_deterministic(make: MakeMutator) -> None:
    """A seed decides everything."""
    for mine, other in zip(_mutants(make()), _mutants(make()), strict=True):
        assert _text(mine[2]) == _text(other[2])


def check_clone(make: MakeMutator) -> None:
    """A clone is another mutator with the same settings."""
    mutator = make()
    clone = mutator.clone()
    assert clone is not mutator
    assert type(clone) is type(mutator)
    for mine, other in zip(_mutants(mutator), _mutants(clone), strict=True):
        assert _text(mine[2]) == _text(other[2])


CHECKS: tuple[Callable[[MakeMutator], None], ...] = (
    check_changes_something,
    check_leaves_trace_alone,
    check_mutants_are_legal,
    check_is_deterministic,
    check_clone,
)
