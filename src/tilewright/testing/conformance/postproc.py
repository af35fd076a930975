"""Checks that every post-processor must pass.

from tilewright.testing.conformance import postproc

@pytest.mark.parametrize("check", postproc.CHECKS)
def test_conformance(check):
    check(MyPostproc)

Checks take a function that makes the post-processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilewright.ir import IRModule, structural_equal
from tilewright.schedule import Schedule
from tilewright.space.base import Postproc
from tilewright.testing.conformance.drafts import drafts, task_for
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip

MakePostproc = Callable[[], Postproc]


def _finished(postproc: Postproc) -> Iterator[tuple[IRModule, Schedule, bool]]:
    for module, sch in drafts():
        postproc._initialize_with_tune_context(task_for(module))
        sch.enter_postproc()
        yield module, sch, postproc.apply(sch)


def check_returns_bool(make: MakePostproc) -> None:
    """The verdict is True or False."""
    for _, _, verdict in _finished(make()):
        assert isinstance(verdict, bool), f"True or False was expected, got {verdict!r}"


def check_keeps_results(make: MakePostproc) -> None:
    """An accepted candidate computes what the program did."""
    for module, sch, accepted in _finished(make()):
        if accepted:
            assert_same_result(module, sch.mod)


def check_is_recorded(make: MakePostproc) -> None:
    """The trace repeats the candidate, and without post-processing what was there before."""
    for module, sch, accepted in _finished(make()):
        assert sch.trace is not None
        if accepted:
            verify_trace_roundtrip(sch, module)
        stripped = Schedule(module)
        sch.trace.apply_to_schedule(stripped, remove_postproc=True)
        names = [inst.primitive.kind for inst in sch.trace.insts]
        assert stripped.trace is not None
        assert len(stripped.trace.insts) == names.index("EnterPostproc")


def check_is_deterministic(make: MakePostproc) -> None:
    """The same draft always becomes the same candidate, with another post-processor too."""
    for (_, mine, verdict), (_, other, again) in zip(
        _finished(make()), _finished(make()), strict=True
    ):
        assert verdict == again
        assert structural_equal(mine.mod, other.mod)


def check_clone(make: MakePostproc) -> None:
    """A clone is another post-processor that does the same."""
    postproc = make()
    clone = postproc.clone()
    assert clone is not postproc
    assert type(clone) is type(postproc)
    for (_, mine, verdict), (_, other, again) in zip(
        _finished(postproc), _finished(clone), strict=True
    ):
        assert verdict == again
        assert structural_equal(mine.mod, other.mod)


CHECKS: tuple[Callable[[MakePostproc], None], ...] = (
    check_returns_bool,
    check_keeps_results,
    check_is_recorded,
    check_is_deterministic,
    check_clone,
)
