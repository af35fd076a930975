"""Checks that every builder must pass.

from tilewright.testing.conformance import builder

@pytest.mark.parametrize("check", builder.CHECKS)
def test_conformance(check):
    check(MyBuilder)
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import IRModule, as_module
from tilewright.measure.base import Builder
from tilewright.records import BuilderInput, BuilderResult
from tilewright.target import Target
from tilewright.testing import faults

MakeBuilder = Callable[[], Builder]


def _input(mod: IRModule) -> BuilderInput:
    return BuilderInput(mod, Target("llvm"))


def _without_functions() -> BuilderInput:
    """A candidate that no builder can make anything of."""
    return _input(IRModule({}))


def _check_result(result: BuilderResult) -> None:
    assert (result.artifact_path is None) != (result.error_msg is None), result
    assert (result.failure is None) == (result.error_msg is None), result


def check_nothing_to_build(make: MakeBuilder) -> None:
    """No input, no result."""
    assert list(make().build([])) == []


def check_one_result_each(make: MakeBuilder) -> None:
    """Results come in the order of the inputs, each with an artefact of its own."""
    mods = [as_module(faults.double), as_module(faults.triple), as_module(faults.double)]
    results = make().build([_input(mod) for mod in mods])
    assert len(results) == len(mods)
    for result in results:
        _check_result(result)
        assert result.failure is None, result.error_msg
    assert results[0].artifact_path != results[1].artifact_path


def check_usable_again(make: MakeBuilder) -> None:
    """A builder serves many calls."""
    builder = make()
    for _ in range(2):
        (result,) = builder.build([_input(as_module(faults.double))])
        assert result.failure is None, result.error_msg


def check_bad_candidate_is_a_result(make: MakeBuilder) -> None:
    """What cannot be compiled is a failed result, and the others are built all the same."""
    good = _input(as_module(faults.double))
    first, bad, last = make().build([good, _without_functions(), good])
    for result in (first, bad, last):
        _check_result(result)
    assert first.failure is None, first.error_msg
    assert last.failure is None, last.error_msg


CHECKS: tuple[Callable[[MakeBuilder], None], ...] = (
    check_nothing_to_build,
    check_one_result_each,
    check_usable_again,
    check_bad_candidate_is_a_result,
)
