"""Builds and runs the candidates of a round; what is known already is not measured again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.cost_model.prior import Machine
from tilewright.measure import Builder, Runner
from tilewright.records import (
    BuilderInput,
    BuilderResult,
    FailureKind,
    MeasureCandidate,
    RunnerInput,
    RunnerResult,
)
from tilewright.target import Target
from tilewright.tune.profiler import Profiler
from tilewright.tune.task import TaskRecord, trace_key, trace_of

# No kernel is this many times faster than all units of all cores together: operations that an
# estimate counts may be skipped (padding), but not nearly all of them.
IMPOSSIBLE = 16.0
_FLOPS_PER_LANE_AND_CYCLE = 4.0  # two multiply-adds
KNOWN = BuilderResult(None)


@dataclass
class Measurer:
    """A builder and a runner, and the untransformed programs that results are compared with."""

    builder: Builder
    runner: Runner
    logger: logging.Logger
    check: bool = True
    _references: dict[int, str | None] = field(default_factory=dict)

    def measure(
        self, task: TaskRecord, candidates: Sequence[MeasureCandidate]
    ) -> tuple[list[BuilderResult], list[RunnerResult]]:
        """One result of each kind for each candidate, in order."""
        known = [task.known.get(trace_key(trace_of(candidate))) for candidate in candidates]
        task.reused_now = frozenset(n for n, result in enumerate(known) if result is not None)
        task.reused += len(task.reused_now)
        fresh = [c for c, result in zip(candidates, known, strict=True) if result is None]
        built = iter(self._build(task, fresh))
        built_all = [KNOWN if result is not None else next(built) for result in known]
        to_run = [b for b, result in zip(built_all, known, strict=True) if result is None]
        ran = iter(self._run(task, fresh, to_run))
        return built_all, [result if result is not None else next(ran) for result in known]

    def _build(
        self, task: TaskRecord, candidates: Sequence[MeasureCandidate]
    ) -> list[BuilderResult]:
        if not candidates:
            return []
        target = _target(task)
        with Profiler.timeit("SendToBuilder"):
            return self.builder.build([BuilderInput(c.sch.mod, target) for c in candidates])

    def _run(
        self,
        task: TaskRecord,
        candidates: Sequence[MeasureCandidate],
        built: Sequence[BuilderResult],
    ) -> list[RunnerResult]:
        reference = self._reference(task) if candidates else None
        inputs = [
            RunnerInput(
                result.artifact_path,
                _target(task).kind.name,
                candidate.args_info,
                reference_path=reference,
                best_secs=task.best_secs,
                min_secs=_least_secs(task),
                candidate=candidate,
            )
            for candidate, result in zip(candidates, built, strict=True)
            if result.artifact_path is not None
        ]
        with Profiler.timeit("SendToRunner"):
            futures = iter(self.runner.run(inputs))
        with Profiler.timeit("JoinRunnerFutures"):
            return [
                _not_built(result) if result.artifact_path is None else next(futures).result()
                for result in built
            ]

    def _reference(self, task: TaskRecord) -> str | None:
        """The untransformed program, compiled once a task."""
        key = id(task)
        if not self.check:
            return None
        if key not in self._references:
            assert task.ctx.mod is not None
            (result,) = self.builder.build([BuilderInput(task.ctx.mod, _target(task))])
            if result.artifact_path is None:
                self.logger.warning(
                    "the untransformed program cannot be built; %s", result.error_msg
                )
            self._references[key] = result.artifact_path
        return self._references[key]


def _target(task: TaskRecord) -> Target:
    assert task.ctx.target is not None
    return task.ctx.target


def _least_secs(task: TaskRecord) -> float | None:
    """What no candidate can be faster than."""
    target = _target(task)
    if not target.is_cpu:
        return None
    machine = Machine.of(target)
    lanes = machine.vector_bytes / 4
    peak = machine.cores * lanes * _FLOPS_PER_LANE_AND_CYCLE * machine.hertz
    return task.flop / peak / IMPOSSIBLE


def _not_built(result: BuilderResult) -> RunnerResult:
    return RunnerResult(None, result.error_msg, result.failure or FailureKind.BUILD_ERROR)
