"""`runner="replay"`: recorded measurements instead of new ones, for documents, tests and research.

A candidate is recognised by the program it became, whatever trace led there. With `ReplayBuilder`
nothing is compiled; behind any other builder, `ReplayRunner` looks at `RunnerInput.candidate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tilewright.errors import TuneError
from tilewright.ir import IRModule, structural_hash
from tilewright.measure.base import Builder, FinishedFuture, Runner, builders, runners
from tilewright.records import (
    BuilderInput,
    BuilderResult,
    FailureKind,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
    TuningRecord,
)

_SCHEME = "replay:"


class RecordSource(Protocol):
    """A database, as far as replaying needs one."""

    def get_all_tuning_records(self) -> list[TuningRecord]: ...


@builders.register("replay")
class ReplayBuilder(Builder):
    """Compiles nothing: its artefacts are names by which `ReplayRunner` finds measurements."""

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """One result for each input, in order."""
        return [BuilderResult(_SCHEME + _key_of(each.mod)) for each in build_inputs]


@runners.register("replay")
class ReplayRunner(Runner):
    """Answers with what was measured before; a candidate without a record fails."""

    def __init__(self, records: RecordSource | Iterable[TuningRecord]) -> None:
        if not isinstance(records, Iterable):
            records = records.get_all_tuning_records()
        self._results, self.unreadable = _index(records)

    def __len__(self) -> int:
        """The number of different programs with a measurement."""
        return len(self._results)

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """One future for each input, in order; all are done."""
        return [FinishedFuture(self._answer(each)) for each in runner_inputs]

    def _answer(self, runner_input: RunnerInput) -> RunnerResult:
        if runner_input.artifact_path.startswith(_SCHEME):
            key = runner_input.artifact_path.removeprefix(_SCHEME)
        elif runner_input.candidate is not None:
            key = _key_of(runner_input.candidate.sch.mod)
        else:
            raise TuneError(
                "the replay runner cannot tell which candidate it got: use ReplayBuilder, or set "
                "RunnerInput.candidate"
            )
        missing = "ReplayRunner: this program was not measured in the recorded run"
        return self._results.get(key) or RunnerResult(None, missing, FailureKind.RUN_ERROR)


def _key_of(mod: IRModule) -> str:
    return f"{structural_hash(mod):016x}"


def _index(records: Iterable[TuningRecord]) -> tuple[Mapping[str, RunnerResult], int]:
    """Results by program (the first record counts), and how many records could not be read."""
    results: dict[str, RunnerResult] = {}
    unreadable = 0
    for record in records:
        candidate = record.as_candidate_or_none()
        unreadable += candidate is None
        if candidate is not None:
            results.setdefault(_key_of(candidate.sch.mod), _result_of(record))
    return results, unreadable


def _result_of(record: TuningRecord) -> RunnerResult:
    if record.run_secs:
        return RunnerResult(record.run_secs, protocol=record.protocol)
    failure, text = record.failure or FailureKind.RUN_ERROR, record.error_msg
    return RunnerResult(None, text or failure.value, failure, protocol=record.protocol)
