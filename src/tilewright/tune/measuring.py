"""Builds and runs the candidates of a round; what is known already is not measured again."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from tilewright.cost_model.peak import operations_per_cycle
from tilewright.cost_model.prior import Machine
from tilewright.errors import TuneError
from tilewright.lowering.prepacking import separate_packing
from tilewright.measure import Builder, Runner
from tilewright.records import (
    BuilderInput,
    BuilderResult,
    FailureKind,
    MeasureCandidate,
    RunnerInput,
    RunnerResult,
    args_info_of,
)
from tilewright.space.layout_free import has_bound_weights
from tilewright.support.member_failures import MemberFailures
from tilewright.target import Target
from tilewright.tune.guarded import built_by, result_by, run_by
from tilewright.tune.profiler import Profiler
from tilewright.tune.task import TaskRecord

# No kernel is this many times faster than all units of all cores together: operations that an
# estimate counts may be skipped (padding), but not nearly all of them.
IMPOSSIBLE = 16.0
KNOWN = BuilderResult(None)

Phase = Callable[[str, int], None]  # what happens now, and to how many candidates
HasTime = Callable[[], bool]


@dataclass
class Measured:
    """The first candidates of a round, in order, and what became of them."""

    built: list[BuilderResult] = field(default_factory=list)
    results: list[RunnerResult] = field(default_factory=list)
    interrupt: BaseException | None = None  # Ctrl-C, for example, while the next one was run


def make_member(given: Any, family: Any, closing: ExitStack, **options: Any) -> Any:
    """A builder or a runner by name, closed at the end; one that was given stays open."""
    if not isinstance(given, str):
        return given
    made = family.create(given, **options)
    if hasattr(made, "close"):
        closing.callback(made.close)
    return made


@dataclass
class Measurer:
    """A builder and a runner, and the untransformed programs that results are compared with."""

    builder: Builder
    runner: Runner
    logger: logging.Logger
    check: bool = True
    failures: MemberFailures = field(default_factory=MemberFailures)
    _references: dict[int, str | None] = field(default_factory=dict)

    def warm_up(self) -> None:
        """Let workers start while something else is being done."""
        for member in (self.builder, self.runner):
            start = getattr(member, "warm_up", None)
            if start is not None:
                start()

    def measure(
        self,
        task: TaskRecord,
        candidates: Sequence[MeasureCandidate],
        tell: Phase,
        has_time: HasTime = lambda: True,
    ) -> Measured:
        """Results for the candidates, or for the first of them if time runs out."""
        known = task.look_up(candidates)
        fresh = [c for c, result in zip(candidates, known, strict=True) if result is None]
        if fresh:
            tell("build", len(fresh))
        built = iter(self._build(task, fresh))
        measured = Measured([KNOWN if result is not None else next(built) for result in known])
        if fresh:
            tell("run", sum(each.artifact_path is not None for each in measured.built))
        try:
            self._run(task, candidates, known, measured, has_time)
        except BaseException as interrupt:  # whoever gets this raises it, after taking notes
            measured.interrupt = interrupt
        del measured.built[len(measured.results) :]
        return measured

    def _build(
        self, task: TaskRecord, candidates: Sequence[MeasureCandidate]
    ) -> list[BuilderResult]:
        if not candidates:
            return []
        target = target_of(task)
        with Profiler.timeit("SendToBuilder"):
            inputs = [build_input(c, target) for c in candidates]
            results = built_by(self.builder, inputs, self.failures)
        _check_count(self.builder, len(candidates), len(results))
        return list(results)

    def _run(
        self,
        task: TaskRecord,
        candidates: Sequence[MeasureCandidate],
        known: Sequence[RunnerResult | None],
        measured: Measured,
        has_time: HasTime,
    ) -> None:
        """Append results one by one, so that those that are there outlive whatever happens.

        However little time there is, one candidate is run.
        """
        places = [n for n, built in enumerate(measured.built) if built.artifact_path is not None]
        reference = self.reference(task) if places else None
        inputs = [
            self.runner_input(task, candidates[n], measured.built[n], reference) for n in places
        ]
        results, is_first = self._results(inputs), True
        for built, result in zip(measured.built, known, strict=True):
            if result is None and built.artifact_path is None:
                result = _not_built(built)
            elif result is None:
                if not is_first and not has_time():
                    return
                result, is_first = next(results), False
                task.note(result.notes, self.logger)
            measured.results.append(result)

    def _results(self, inputs: Sequence[RunnerInput]) -> Iterator[RunnerResult]:
        """The results of a runner, each as soon as it is there.

        A runner whose futures are done when it returns is asked for one result at a time; one that
        works on after it returned gets everything at once.
        """
        waiting = list(inputs)
        while waiting:
            with Profiler.timeit("SendToRunner"):
                futures = run_by(self.runner, waiting[:1], self.failures)
            del waiting[:1]
            _check_count(self.runner, 1, len(futures))
            if waiting and not futures[0].done():
                with Profiler.timeit("SendToRunner"):
                    futures.extend(run_by(self.runner, waiting, self.failures))
                _check_count(self.runner, 1 + len(waiting), len(futures))
                waiting.clear()
            for future in futures:
                with Profiler.timeit("JoinRunnerFutures"):
                    result = result_by(self.runner, future, self.failures)
                for step, seconds in result.step_secs.items():
                    Profiler.count(f"{type(self.runner).__name__}/{step}", seconds)
                yield _checked(result)

    def runner_input(
        self,
        task: TaskRecord,
        candidate: MeasureCandidate,
        built: BuilderResult,
        reference: str | None,
    ) -> RunnerInput:
        """A compiled candidate as a runner takes it."""
        assert built.artifact_path is not None
        return RunnerInput(
            built.artifact_path,
            target_of(task).kind.name,
            candidate.args_info,
            reference_path=reference,
            best_secs=task.best_secs,
            min_secs=_least_secs(task),
            candidate=candidate,
            is_plain=candidate.sch.trace is not None and not candidate.sch.trace.insts,
            row_offsets=task.row_offsets,
        )

    def reference(self, task: TaskRecord) -> str | None:
        """The untransformed program, compiled once a task."""
        key = id(task)
        if not self.check:
            return None
        if key not in self._references:
            assert task.ctx.mod is not None
            program = BuilderInput(task.ctx.mod, target_of(task), is_reference=True)
            with Profiler.timeit("SendToBuilder"):
                (result,) = self.builder.build([program])
            self._references[key] = result.artifact_path
            if result.artifact_path is None:
                self.logger.warning(
                    "candidates of %s are not checked, because the untransformed program cannot be "
                    "built: %s",
                    task.ctx.task_name,
                    result.error_msg,
                )
            else:
                self._tell_best(task, result.artifact_path)
        return self._references[key]

    def _tell_best(self, task: TaskRecord, reference: str) -> None:
        """A runner need not time what is clearly slower than what earlier runs found."""
        notify = getattr(self.runner, "notify_best", None)
        best = task.known.best_secs
        if notify is not None and best is not None:
            notify(reference, best)


def build_input(candidate: MeasureCandidate, target: Target) -> BuilderInput:
    """A candidate as it is measured: as a user calls it.

    Weights are packed at each call, unless the program says that they are bound.
    """
    mod = candidate.sch.mod
    is_bound = any(map(has_bound_weights, mod.functions.values()))
    return BuilderInput(separate_packing(mod) if is_bound else mod, target)


def target_of(task: TaskRecord) -> Target:
    """The target of a task, which has one."""
    assert task.ctx.target is not None
    return task.ctx.target


def _check_count(member: object, expected: int, found: int) -> None:
    if found != expected:
        raise TuneError(
            f"{type(member).__name__} gave {found} results for {expected} candidates; it must give "
            "one for each, in order"
        )


def _least_secs(task: TaskRecord) -> float | None:
    """What no candidate can be faster than."""
    target = target_of(task)
    if not target.is_cpu:
        return None
    assert task.ctx.mod is not None
    machine = Machine.of(target)
    dtypes = [info.dtype for info in args_info_of(task.ctx.mod)]
    peak = machine.cores * operations_per_cycle(target, dtypes) * machine.hertz
    return task.flop / peak / IMPOSSIBLE


def _checked(result: RunnerResult) -> RunnerResult:
    """A result whose times are times; a clock that stands still is a failure like any other."""
    if not result.run_secs or all(0 < secs < math.inf for secs in result.run_secs):
        return result
    times = ", ".join(f"{secs:g}" for secs in result.run_secs)
    text = f"a run cannot take {times} seconds"
    return RunnerResult(None, text, FailureKind.IMPOSSIBLE_SPEED, protocol=result.protocol)


def _not_built(result: BuilderResult) -> RunnerResult:
    return RunnerResult(None, result.error_msg, result.failure or FailureKind.BUILD_ERROR)
