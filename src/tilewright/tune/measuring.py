"""Builds and runs the candidates of a round; those that were measured before are left out.

In a rematch contenders run in heats: short rows of runs of all of them in turns, so that what
disturbs the machine disturbs them all. How two of them compare within a turn says more than how
long either takes, and the median of many turns does not mind those in which only one was disturbed.
Heats go on until it is clear for each contender that it is slower than the leader, or as good, or
until the time is used up. Those that are clearly slower drop out.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from statistics import median, stdev
from typing import Protocol, TypeVar

from tilewright.cost_model.prior import operations_per_second
from tilewright.errors import TuneError
from tilewright.measure import Builder, FinishedFuture, Runner
from tilewright.measure.build_task import as_called
from tilewright.records import (
    BuilderFuture,
    BuilderInput,
    BuilderResult,
    Candidates,
    FailureKind,
    MeasureCandidate,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
    RunnerResults,
    args_info_of,
)
from tilewright.support.member_failures import MemberFailures
from tilewright.support.text import counted
from tilewright.target import Target
from tilewright.tune.abilities import (
    BuildsAhead,
    Distributed,
    Forewarned,
    Rematchable,
    Warmable,
)
from tilewright.tune.events import NodeSeen
from tilewright.tune.fallback import default_schedule
from tilewright.tune.profiler import Profiler
from tilewright.tune.task import TaskRecord

# No kernel is this many times faster than all units of all cores together: operations that an
# estimate counts may be skipped (padding), but not nearly all of them.
IMPOSSIBLE = 16.0
KNOWN = _UNCHECKED = BuilderResult(None)
_MOST_KEPT = 8  # compiled candidates of a task: a few more than take part in a final
# Plain loops that take longer are not run just for a comparison.
QUICKLY_CHECKED_FLOP = 1e8

ValueT = TypeVar("ValueT")
Phase = Callable[[str, int], None]  # what happens now, and to how many candidates
HasTime = Callable[[], bool]
Key = tuple[int, int]  # of a task, and of a program


@dataclass
class RoundResults:
    """The results of the first candidates of a round, in order."""

    built: list[BuilderResult] = field(default_factory=list)
    results: list[RunnerResult] = field(default_factory=list)
    interrupt: BaseException | None = None  # Ctrl-C, for example, while the next one was run


class Measuring(Protocol):
    """Measures candidates for the loop."""

    @property
    def can_rematch(self) -> bool: ...

    def warm_up(self) -> None: ...

    def build_ahead(self, task: TaskRecord, candidate: MeasureCandidate) -> None: ...

    def measure(
        self,
        task: TaskRecord,
        candidates: Candidates,
        tell: Phase,
        has_time: HasTime = ...,
        *,
        is_quick: bool = False,
    ) -> RoundResults: ...

    def rematch(
        self, task: TaskRecord, candidates: Candidates, rows: int, seconds: float
    ) -> list[RunnerResult | None]: ...


@dataclass
class Measurer:
    """A builder and a runner, and the untransformed programs that results are compared with."""

    builder: Builder
    runner: Runner
    logger: logging.Logger
    check: bool = True
    failures: MemberFailures = field(default_factory=MemberFailures)
    _references: dict[int, BuilderResult] = field(default_factory=dict)
    _references_started: dict[int, BuilderFuture] = field(default_factory=dict)
    _ahead: dict[Key, BuilderFuture] = field(default_factory=dict)
    _kept: dict[int, dict[int, tuple[float, BuilderResult]]] = field(default_factory=dict)

    @property
    def can_rematch(self) -> bool:
        """Whether the runner can measure candidates against each other."""
        return isinstance(self.runner, Rematchable)

    def warm_up(self) -> None:
        """Let workers start while something else is being done."""
        for member in (self.builder, self.runner):
            if isinstance(member, Warmable):
                member.warm_up()

    def nodes_seen(self) -> Iterator[NodeSeen]:
        """The machines that a builder or a runner on a cluster works on."""
        for phase, member in (("build", self.builder), ("run", self.runner)):
            if isinstance(member, Distributed):
                for work in member.node_work():
                    yield NodeSeen(phase=phase, **work._asdict())

    def measure(
        self,
        task: TaskRecord,
        candidates: Candidates,
        tell: Phase,
        has_time: HasTime = lambda: True,
        *,
        is_quick: bool = False,
    ) -> RoundResults:
        """Results for the candidates, or for the first of them if time runs out.

        `is_quick`: they are not compared with a program that takes long.
        """
        known = task.look_up(candidates)
        fresh = [c for c, result in zip(candidates, known, strict=True) if result is None]
        if fresh:
            tell("build", len(fresh))
            self._begin_reference(task, is_quick)
        built = iter(self._build(task, fresh))
        measured = RoundResults([KNOWN if result is not None else next(built) for result in known])
        if fresh:
            tell("run", sum(each.artifact_path is not None for each in measured.built))
        try:
            inputs = self._runner_inputs(task, candidates, measured.built, is_quick)
            self._take_results(task, inputs, known, measured, has_time)
        except BaseException as interrupt:  # whoever gets this raises it, after taking notes
            measured.interrupt = interrupt
        del measured.built[len(measured.results) :]
        self._keep_best(task, candidates, measured)
        return measured

    def _keep_best(self, task: TaskRecord, candidates: Candidates, measured: RoundResults) -> None:
        """Keep what was compiled of the fastest: they need not be built again for the final."""
        kept = self._kept.setdefault(id(task), {})
        for candidate, built, result in zip(
            candidates, measured.built, measured.results, strict=False
        ):
            if built.artifact is not None and result.run_secs:
                kept[candidate.program_hash] = (min(result.run_secs), built)
        for shash in sorted(kept, key=lambda shash: kept[shash][0])[_MOST_KEPT:]:
            del kept[shash]

    def build_ahead(self, task: TaskRecord, candidate: MeasureCandidate) -> None:
        """Begin to build a candidate of the next round, if it is not known and the builder can."""
        if not isinstance(self.builder, BuildsAhead) or task.measured.find(candidate) is not None:
            return
        # What goes wrong here goes wrong again when the round is built, where it belongs.
        with suppress(Exception):
            started = self.builder.begin(build_input(candidate, task.target))
            if started is not None:
                self._ahead[_key(task, candidate)] = started

    def _build(self, task: TaskRecord, candidates: Candidates) -> list[BuilderResult]:
        """The results of candidates; no candidate is being built any more when it returns.

        Builders that are still at work would disturb the measurements that follow.
        """
        with Profiler.timeit("SendToBuilder"):
            ahead, self._ahead = self._ahead, {}
            others = [each for each in candidates if _key(task, each) not in ahead]
            inputs = [build_input(each, task.target) for each in others]
            results = self._guarded(
                self.builder,
                lambda: [future.result() for future in self.builder.submit(inputs)],
                lambda text: [_not_built(text)] * len(inputs),
            )
            _check_count(self.builder, len(others), len(results))
            started = {
                key: self._guarded(self.builder, future.result, _not_built)
                for key, future in ahead.items()
            }
        rest = iter(results)
        return [started.get(_key(task, each)) or next(rest) for each in candidates]

    def _take_results(
        self,
        task: TaskRecord,
        inputs: Sequence[RunnerInput],
        known: Sequence[RunnerResult | None],
        measured: RoundResults,
        has_time: HasTime,
    ) -> None:
        """Append results one by one, so that those that are there outlive whatever happens.

        However little time there is, one candidate is run.
        """
        results, is_first = self._results(inputs), True
        for built, result in zip(measured.built, known, strict=True):
            if result is None and built.artifact_path is None:
                why = built.failure or FailureKind.BUILD_ERROR
                result = RunnerResult(None, built.error_msg, why)
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
                futures = self._start(waiting[:1])
            del waiting[:1]
            _check_count(self.runner, 1, len(futures))
            if waiting and not futures[0].done():
                with Profiler.timeit("SendToRunner"):
                    futures.extend(self._start(waiting))
                _check_count(self.runner, 1 + len(waiting), len(futures))
                waiting.clear()
            for future in futures:
                with Profiler.timeit("JoinRunnerFutures"):
                    result = self._guarded(self.runner, future.result, _not_run)
                for step, seconds in result.step_secs.items():
                    Profiler.count(f"{type(self.runner).__name__}/{step}", seconds)
                yield _checked(result)

    def _start(self, inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return self._guarded(
            self.runner,
            lambda: list(self.runner.run(inputs)),
            lambda text: [FinishedFuture(_not_run(text)) for _ in inputs],
        )

    def _guarded(
        self, member: Builder | Runner, call: Callable[[], ValueT], failed: Callable[[str], ValueT]
    ) -> ValueT:
        """The value of a call; in a run that keeps going, `failed` makes it of an exception."""
        try:
            return call()
        except Exception as error:
            what = "builder" if member is self.builder else "runner"
            name = f"{what} {type(member).__name__}"
            if not self.failures.take(name, error, member):
                raise
            return failed(f"{name} failed: {type(error).__name__}: {error}")

    def rematch(
        self, task: TaskRecord, candidates: Candidates, rows: int, seconds: float
    ) -> list[RunnerResult | None]:
        """Results of candidates that run in turns; None for those that cannot be built."""
        runner = self.runner
        assert isinstance(runner, Rematchable)
        built = self._built_again(task, candidates)
        inputs = self._runner_inputs(task, candidates, built, is_quick=True)
        results = iter(run_heats(inputs, lambda some: runner.measure_again(some, rows), seconds))
        return [None if each.artifact_path is None else next(results) for each in built]

    def _built_again(self, task: TaskRecord, candidates: Candidates) -> list[BuilderResult]:
        """Candidates that were built before, most of which are at hand."""
        kept = self._kept.get(id(task), {})
        missing = [each for each in candidates if each.program_hash not in kept]
        built = iter(self.builder.build([build_input(each, task.target) for each in missing]))
        return [
            kept[each.program_hash][1] if each.program_hash in kept else next(built)
            for each in candidates
        ]

    def _runner_inputs(
        self,
        task: TaskRecord,
        candidates: Candidates,
        built: Sequence[BuilderResult],
        is_quick: bool,
    ) -> list[RunnerInput]:
        """The candidates that were compiled, as a runner takes them."""
        pairs = zip(candidates, built, strict=True)
        made = [(each, result) for each, result in pairs if result.artifact_path is not None]
        if not made:
            return []
        reference = self._reference(task) if self._is_checked(task, is_quick) else _UNCHECKED
        common = RunnerInput(
            "",
            task.target.kind.name,
            (),
            reference_path=reference.artifact_path,
            reference=reference.artifact,
            best_secs=task.best_secs,
            min_secs=_least_secs(task),
            row_offsets=task.row_offsets,
        )
        return [
            replace(
                common,
                artifact_path=result.artifact_path or "",
                artifact=result.artifact,
                args_info=candidate.args_info,
                candidate=candidate,
                is_plain=candidate.sch.trace is not None and not candidate.sch.trace.insts,
            )
            for candidate, result in made
        ]

    def _is_checked(self, task: TaskRecord, is_quick: bool) -> bool:
        return self.check and not (is_quick and task.flop > QUICKLY_CHECKED_FLOP)

    def _begin_reference(self, task: TaskRecord, is_quick: bool) -> None:
        """Let the untransformed program be built beside the first candidates."""
        if id(task) in self._references or not self._is_checked(task, is_quick):
            return
        if isinstance(self.builder, BuildsAhead):
            started = self.builder.begin(_program_to_compare_with(task))
            if started is not None:
                self._references_started[id(task)] = started

    def _reference(self, task: TaskRecord) -> BuilderResult:
        """The untransformed program, compiled once a task."""
        key = id(task)
        if key not in self._references:
            started = self._references_started.pop(key, None)
            with Profiler.timeit("SendToBuilder"):
                if started is None:
                    (result,) = self.builder.build([_program_to_compare_with(task)])
                else:
                    result = started.result()
            self._references[key] = result
            if result.artifact_path is None:
                self.logger.warning(
                    "candidates of %s are not checked, because the untransformed program cannot be "
                    "built: %s",
                    task.ctx.task_name,
                    result.error_msg,
                )
            elif isinstance(self.runner, Forewarned) and task.measured.best_secs is not None:
                self.runner.notify_best(result.artifact_path, task.measured.best_secs)
        return self._references[key]


def build_input(candidate: MeasureCandidate, target: Target) -> BuilderInput:
    """A candidate as it is measured: as a user calls it."""
    return BuilderInput(as_called(candidate.sch.mod), target)


def _key(task: TaskRecord, candidate: MeasureCandidate) -> Key:
    return id(task), candidate.program_hash


def _check_count(member: object, expected: int, found: int) -> None:
    if found != expected:
        raise TuneError(
            f"{type(member).__name__} gave {counted(found, 'result')} for "
            f"{counted(expected, 'candidate')}; it must give one for each, in order"
        )


def _program_to_compare_with(task: TaskRecord) -> BuilderInput:
    """The untransformed program; for a GPU the CPU computes it, with a schedule of its own."""
    if task.target.is_cpu:
        return BuilderInput(task.mod, task.target, is_reference=True)
    host = Target("llvm")
    return BuilderInput(default_schedule(task.mod, host).mod, host, is_reference=True)


def _least_secs(task: TaskRecord) -> float | None:
    """What no candidate can be faster than."""
    if not task.target.is_cpu:
        return None
    dtypes = [info.dtype for info in args_info_of(task.mod)]
    return task.flop / operations_per_second(task.target, dtypes) / IMPOSSIBLE


def _checked(result: RunnerResult) -> RunnerResult:
    """A result whose times are times; a clock that stands still is a failure like any other."""
    if not result.run_secs or all(0 < secs < math.inf for secs in result.run_secs):
        return result
    times = ", ".join(f"{secs:g}" for secs in result.run_secs)
    text = f"a run cannot take {times} seconds"
    return RunnerResult(None, text, FailureKind.IMPOSSIBLE_SPEED, protocol=result.protocol)


def _not_built(text: str) -> BuilderResult:
    return BuilderResult(None, text, FailureKind.BUILD_ERROR)


def _not_run(text: str) -> RunnerResult:
    return RunnerResult(None, text, FailureKind.RUN_ERROR)


EQUAL = 0.02  # who takes so much longer at most is as good
LEAST_HEATS, MOST_HEATS = 3, 24
_FEW_TURNS = 8  # whose spread is not told by their quartiles
_DEVIATION = 1.4826  # of normal figures, in terms of the median distance from their median
_OF_MEDIAN = 1.2533  # how much more the median of normal figures is off than their mean

Turn = tuple[int, int]  # the number of a heat, and of a row in it

Heat = Callable[[Sequence[RunnerInput]], RunnerResults]  # measures all, in turns


@dataclass
class _Runner:
    """A contender and its times, by turn."""

    given: RunnerInput
    last: RunnerResult | None = None
    times: dict[Turn, float] = field(default_factory=dict)
    is_out: bool = False  # it failed, or is clearly slower

    @property
    def has_failed(self) -> bool:
        return self.last is not None and not self.last.run_secs

    def heat_secs(self) -> tuple[float, ...]:
        """The median of each heat."""
        heats = itertools.groupby(self.times.items(), lambda item: item[0][0])
        return tuple(median(secs for _, secs in heat) for _, heat in heats)


def run_heats(inputs: Sequence[RunnerInput], heat: Heat, seconds: float) -> list[RunnerResult]:
    """One result for each input; its time is what all heats together say."""
    runners = [_Runner(given) for given in inputs]
    start = time.monotonic()
    for number in range(MOST_HEATS):
        _run(number, [each for each in runners if not each.is_out], heat)
        left = [each for each in runners if not each.is_out]
        if len(left) < 2 and number:
            break
        if number + 1 >= LEAST_HEATS and (_is_decided(left) or time.monotonic() - start > seconds):
            break
    return _results(runners)


def _run(number: int, runners: Sequence[_Runner], heat: Heat) -> None:
    results = heat([each.given for each in runners])
    for runner, result in zip(runners, results, strict=True):
        runner.last = result
        if result.run_secs:
            runner.times.update({(number, row): s for row, s in enumerate(result.run_secs)})
        else:
            runner.is_out = True


def _is_decided(left: Sequence[_Runner]) -> bool:
    """True if all but the leader are known to be slower, or as good. The slower are out."""
    leader = min(left, key=lambda each: median(each.times.values()))
    is_decided = True
    for runner in left:
        if runner is leader:
            continue
        lags = _lags(runner, leader)
        lag, noise = median(lags), _noise(lags)
        if lag > noise:
            runner.is_out = True
        elif abs(lag) + noise > EQUAL:
            is_decided = False
    return is_decided


def _lags(runner: _Runner, leader: _Runner) -> list[float]:
    """How much longer one took than the other, as logarithms, in the turns of both."""
    common = runner.times.keys() & leader.times.keys()
    return [math.log(runner.times[turn] / leader.times[turn]) for turn in common]


def _noise(lags: Sequence[float]) -> float:
    """What the median may be off by: the fewer turns, the less is known of their spread, too."""
    count, middle = len(lags), median(lags)
    spread = _DEVIATION * median(abs(lag - middle) for lag in lags)
    if count < _FEW_TURNS:
        spread = stdev(lags)
    return (2 + 4 / (count - 1)) * _OF_MEDIAN * spread / math.sqrt(count)


def _results(runners: Sequence[_Runner]) -> list[RunnerResult]:
    """The leader's median; of the others how they compare with it in the turns of both."""
    ran = [each for each in runners if not each.has_failed]
    if not ran:
        return [each.last for each in runners if each.last is not None]
    leader = min(ran, key=lambda each: (each.is_out, median(each.times.values())))
    return [_result(each, leader) for each in runners]


def _result(runner: _Runner, leader: _Runner) -> RunnerResult:
    assert runner.last is not None
    if runner.has_failed:
        return runner.last
    secs = median(leader.times.values())
    if runner is not leader:
        secs *= math.exp(median(_lags(runner, leader)))
    return replace(runner.last, run_secs=(secs,), heat_secs=runner.heat_secs())
