"""Checks that every runner must pass; each takes a function that makes one, and artefacts.

from tilewright.testing.conformance import runner

@pytest.mark.parametrize("check", runner.CHECKS)
def test_conformance(check):
    check(MyRunner, [good_input, another_input], input_that_cannot_run)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.measure.base import Runner
from tilewright.records import RunnerInput, RunnerResult

MakeRunner = Callable[[], Runner]


def _check_result(result: RunnerResult) -> None:
    assert (result.run_secs is None) != (result.error_msg is None), result
    assert (result.failure is None) == (result.error_msg is None), result
    if result.run_secs is not None:
        assert len(result.run_secs) > 0
        assert all(secs > 0 for secs in result.run_secs)


def check_nothing_to_run(make: MakeRunner, good: Sequence[RunnerInput], bad: RunnerInput) -> None:
    """No input, no future."""
    assert list(make().run([])) == []


def check_one_future_each(make: MakeRunner, good: Sequence[RunnerInput], bad: RunnerInput) -> None:
    """A future for each input; a future that has given its result is done."""
    futures = make().run(good)
    assert len(futures) == len(good)
    for future in futures:
        result = future.result()
        _check_result(result)
        assert result.failure is None, result.error_msg
        assert future.done()
        assert future.result() == result


def check_usable_again(make: MakeRunner, good: Sequence[RunnerInput], bad: RunnerInput) -> None:
    """A runner serves many calls."""
    runner = make()
    for _ in range(2):
        (future,) = runner.run(good[:1])
        assert future.result().failure is None, future.result().error_msg


def check_bad_candidate_is_a_result(
    make: MakeRunner, good: Sequence[RunnerInput], bad: RunnerInput
) -> None:
    """What cannot be run is a failed result, and the others run all the same."""
    first, failed, last = make().run([good[0], bad, good[0]])
    for future in (first, failed, last):
        _check_result(future.result())
    assert failed.result().failure is not None
    assert first.result().failure is None, first.result().error_msg
    assert last.result().failure is None, last.result().error_msg


Check = Callable[[MakeRunner, Sequence[RunnerInput], RunnerInput], None]
CHECKS: tuple[Check, ...] = (
    check_nothing_to_run,
    check_one_future_each,
    check_usable_again,
    check_bad_candidate_is_a_result,
)
