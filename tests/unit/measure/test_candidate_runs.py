"""A candidate between its first look and its measurement belongs to somebody."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import PrimFunc
from tilewright.measure.arguments import TensorSpec
from tilewright.measure.evaluator import AdaptiveProtocol
from tilewright.measure.run_task import CandidateRuns, RunHooks, RunRequest, Step
from tilewright.testing import faults


def test_every_candidate_is_cleaned_up_once(artifact: Callable[[PrimFunc], str]) -> None:
    cleaned: list[None] = []

    def request(program: PrimFunc) -> RunRequest:
        infos = (TensorSpec("float32", (64,)),) * 2
        hooks = RunHooks(f_cleanup=lambda: cleaned.append(None))
        return RunRequest(artifact(program), infos, 1, AdaptiveProtocol(), hooks=hooks)

    def pending() -> RunRequest | None:
        return None if runs.pending_run is None else runs.pending_run.request

    runs, one, other = CandidateRuns(), request(faults.double), request(faults.triple)
    runs.perform(Step("look", [one]))
    assert (pending(), len(cleaned)) == (one, 0)
    runs.perform(Step("look", [other]))  # nobody asked for the first again
    assert (pending(), len(cleaned)) == (other, 1)
    runs.perform(Step("run", [other]))
    assert (pending(), len(cleaned)) == (None, 2)
