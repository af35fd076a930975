"""Loads, checks and times candidates, in the worker of a runner.

The arguments and the expected results of a workload are kept for its next candidates. Expected
results are also kept in the runner's folder, so that a new worker does not compute them again.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any, Literal

import msgspec

from tilewright.codegen.artifact import Artifact
from tilewright.errors import DeviceError
from tilewright.measure.argument_cache import (
    ArgumentCache,
    Expectation,
    accesses_of,
    entry_of,
    expectation_for,
    packed,
)
from tilewright.measure.arguments import PlacedArguments, TensorSpec
from tilewright.measure.artifact import load_artifact, name_of
from tilewright.measure.default_hooks import default_alloc_argument
from tilewright.measure.evaluator import (
    AdaptiveProtocol,
    EvaluatorConfig,
    FirstLook,
    evaluate_as_tvm,
)
from tilewright.measure.hooks import resolve_hook
from tilewright.measure.wire import IMPOSSIBLE_SPEED, RUN_ERROR, WRONG_RESULT
from tilewright.runtime import cpu, ndarray, threads
from tilewright.support.machine_faults import machine_fault

PERFORM = "tilewright.measure.run_task:perform"
PRELOAD = "tilewright.measure.run_task:preload"


class RunHooks(msgspec.Struct, frozen=True):
    """Functions of the user that replace steps of ours."""

    f_alloc_argument: Any = None
    f_run_evaluator: Any = None
    f_cleanup: Any = None
    f_load: Any = None


class RunRequest(msgspec.Struct, frozen=True):
    """A candidate to run."""

    artifact: Artifact | str  # a value, or a path
    args_info: tuple[TensorSpec, ...]
    seed: int
    adaptive: AdaptiveProtocol
    evaluator: EvaluatorConfig | None = None  # None: the adaptive protocol alone
    alloc_repeat: int = 1
    reference: Artifact | str | None = None
    folder: str = ""  # for expected results
    best_secs: float | None = None
    min_secs: float | None = None
    hooks: RunHooks = RunHooks()


class RunReport(msgspec.Struct, frozen=True):
    """What a run gave."""

    run_secs: tuple[float, ...] = ()
    failure: str = ""
    message: str = ""
    checked: bool = False
    stopped_early: bool = False
    step_secs: dict[str, float] = {}


class Step(msgspec.Struct, frozen=True):
    """A step of a candidate; "again" measures several against each other."""

    kind: Literal["expect", "look", "run", "again"]
    requests: list[RunRequest]
    rounds: int = 0


class CandidateFailed(Exception):
    """A candidate that ran, but must not count; `kind` is a value of FailureKind."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


_decoder = msgspec.msgpack.Decoder(Step)


def preload() -> None:
    """Load LLVM, the timer and the thread pool before the first candidate comes."""
    cpu().api.evict(())
    threads.num_threads()


class Prepared(msgspec.Struct, frozen=True):
    """The result of running the untransformed program."""

    notes: tuple[str, ...] = ()  # about what is wrong with it
    secs: float | None = None


class CandidateRuns:
    """Runs candidates, and owns the one that is between its first look and its measurement."""

    def __init__(self) -> None:
        self.arguments = ArgumentCache()
        self.pending_run: _Run | None = None

    def perform(self, step: Step) -> bytes:
        """Take a step; its result as bytes."""
        if step.kind == "again":
            return msgspec.msgpack.encode(self._run_again(step.requests, step.rounds))
        take = {"expect": self._expect, "look": self._look_at, "run": self._run}[step.kind]
        return msgspec.msgpack.encode(take(step.requests[0]))

    def _expect(self, request: RunRequest) -> Prepared:
        """Make sure that the expected results of a request's workload are known."""
        found = _expectation(request, self.arguments)
        assert found is not None
        return Prepared(found.notes, found.plain_secs)

    def _look_at(self, request: RunRequest) -> RunReport:
        """Load, allocate, run once or a few times; the seconds are rough."""
        abandoned, self.pending_run = self.pending_run, None
        if abandoned is not None:
            abandoned.clean_up()
        run = _Run(request, self.arguments)
        try:
            run.load()
            found = run.first_look()
            if not found.hopeless:
                self.pending_run = run
            return RunReport((found.secs,), stopped_early=found.hopeless, step_secs=run.step_secs)
        finally:
            if self.pending_run is not run:
                run.clean_up()

    def _run(self, request: RunRequest) -> RunReport:
        """Check and time, after a first look or without; clean up whatever happens."""
        run, self.pending_run = self.pending_run, None
        if run is None or run.request.artifact != request.artifact:
            run = _Run(request, self.arguments)
        try:
            return run.check_and_time()
        except CandidateFailed as failure:
            return RunReport(failure=failure.kind, message=str(failure), step_secs=run.step_secs)
        finally:
            run.clean_up()

    def _run_again(self, requests: Sequence[RunRequest], rounds: int) -> list[RunReport]:
        """Rows of all candidates in turns, so that what disturbs the machine disturbs them all."""
        contenders = [_Contender(each, self.arguments) for each in requests]
        for contender in contenders:
            contender.attempt(contender.prepare)
        for turn in range(rounds):
            for contender in contenders if turn % 2 == 0 else reversed(contenders):
                contender.attempt(contender.take_turn)
        return [contender.report() for contender in contenders]


def _expectation(request: RunRequest, arguments: ArgumentCache) -> Expectation | None:
    """What the reference computes; None without one, and for arguments of the user's own."""
    if request.reference is None or request.hooks.f_alloc_argument is not None:
        return None
    known = request.args_info, request.seed, request.folder
    return arguments.expectation(request.reference, *known)


_runs = functools.cache(CandidateRuns)  # of this worker


def perform(payload: bytes) -> bytes:
    """The task of a runner's worker; one that has lost its GPU ends, so that another begins."""
    try:
        return _runs().perform(_decoder.decode(payload))
    except DeviceError as error:
        if not error.is_lost:
            raise
        print(error, file=sys.stderr, flush=True)
        os._exit(os.EX_SOFTWARE)


def wrong_result(request: RunRequest, arguments: ArgumentCache) -> str:
    """How the results of a candidate differ from those of its reference; empty if they do not."""
    run = _Run(request, arguments)
    try:
        run.load()
        run.check()
    except CandidateFailed as failure:
        return str(failure)
    return ""


class _Run:
    """One candidate on its way."""

    def __init__(self, request: RunRequest, arguments: ArgumentCache) -> None:
        self.request = request
        self.arguments = arguments
        self.step_secs: dict[str, float] = {}
        self.is_loaded = False
        self._about: float | None = None
        self._fell_behind = False

    @contextlib.contextmanager
    def _step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.step_secs[name] = time.perf_counter() - start

    def check_and_time(self) -> RunReport:
        """What remains after the first look, if there was one."""
        if not self.is_loaded:
            self.load()
        checked = self.check()
        with self._step("run"):
            run_secs = self._evaluate()
        self.refuse_impossible(run_secs)
        return RunReport(
            tuple(run_secs),
            checked=checked,
            stopped_early=self._fell_behind,
            step_secs=self.step_secs,
        )

    def clean_up(self) -> None:
        """Whatever the user wants to be done after a candidate."""
        if self.request.hooks.f_cleanup is not None:
            resolve_hook(self.request.hooks.f_cleanup)()

    def load(self) -> None:
        """Load the code and allocate the arguments."""
        request = self.request
        with self._step("load"):
            self._load_code()
        with self._step("expect"):
            self.expectation = _expectation(request, self.arguments)
        with self._step("allocate"):
            self._given_sets = self._allocate()
            self.sets = [self._on_device(args) for args in self._given_sets]
        self.is_loaded = True

    def _load_code(self) -> None:
        if self.request.hooks.f_load is not None:  # only f_run_evaluator knows what it is
            load = resolve_hook(self.request.hooks.f_load)
            self.module, self.device = load(name_of(self.request.artifact)), cpu()
            return
        self.module, _ = load_artifact(self.request.artifact)
        self.device = self.module.device
        self.function = entry_of(self.module)

    def _on_device(self, args: list[Any]) -> list[Any]:
        """Arguments where the function takes them; hooks of the user's put them there already."""
        if self.request.hooks.f_load is not None:
            return args
        if self.device.name == "cpu":
            return packed(self.module, args)
        is_ours = self.request.hooks.f_alloc_argument is None
        return [ndarray.array(arg, self.device) if is_ours else arg for arg in args]

    def _allocate(self) -> list[list[Any]]:
        """The sets of arguments to run with."""
        request, expected = self.request, self.expectation
        if request.hooks.f_alloc_argument is not None:
            given = [["TENSOR", info.dtype, list(info.shape)] for info in request.args_info]
            allocate = resolve_hook(request.hooks.f_alloc_argument)
            return [list(args) for args in allocate(self.device, given, request.alloc_repeat)]
        if request.hooks.f_load is not None:
            infos = [("TENSOR", info.dtype, info.shape) for info in request.args_info]
            return [[*args] for args in default_alloc_argument(cpu(), infos, request.alloc_repeat)]
        self._own_sets = self.arguments.argument_sets(
            request.args_info,
            accesses_of(self.function) if expected is None else expected.accesses,
            request.seed,
            count=request.alloc_repeat,
            positive=expected is not None and expected.positive,
        )
        for arguments in self._own_sets:
            arguments.restore()
        return [arguments.arrays for arguments in self._own_sets]

    def first_look(self) -> FirstLook:
        """Run once, or a few times, to see about how long it takes."""
        request = self.request
        with self._step("first_look"):
            found = request.adaptive.first_look(self.function, self.sets[0], request.best_secs)
        self._about = found.secs
        return found

    def check(self) -> bool:
        """Compare with the reference, if there is one."""
        reference = self.request.reference
        if reference is None or self.request.hooks.f_load is not None:
            return False
        with self._step("check"):
            if self.expectation is not None:
                expected, arguments = self.expectation, self._own_sets[0]
            else:  # the user's own arguments: what the reference makes of them is not known yet
                expected, arguments = expectation_for(reference, self._given_sets[0])
            arguments.restore()
            if self.device.name == "cpu":
                self.function(*packed(self.module, arguments.arrays))
            else:
                placed = PlacedArguments(arguments, self.device)
                self.function(*placed.arrays)
                placed.fetch()
            complaint = expected.complaint(arguments)
        if complaint:
            raise CandidateFailed(
                WRONG_RESULT,
                f"the result differs from that of the untransformed function: {complaint}",
            )
        return True

    def _evaluate(self) -> list[float]:
        request = self.request
        if request.hooks.f_run_evaluator is not None:
            run = resolve_hook(request.hooks.f_run_evaluator)
            config = request.evaluator or EvaluatorConfig()
            return [float(secs) for secs in run(self.module, self.device, config, self.sets)]
        if request.evaluator is not None:
            return evaluate_as_tvm(self.function, self.sets, request.evaluator)
        about, best = self._about or self.first_look().secs, request.best_secs
        rows = [request.adaptive.full(self.function, args, about, best) for args in self.sets]
        most = request.adaptive.rows_for(about)
        self._fell_behind = any(
            len(each) < most and request.adaptive.lags(each, best) for each in rows
        )
        return [median(each) for each in rows]

    def refuse_impossible(self, run_secs: Sequence[float]) -> None:
        """Nothing is faster than the machine: such a figure is a mistake."""
        least, fastest = self.request.min_secs, min(run_secs)
        if least is not None and fastest < least:
            raise CandidateFailed(
                IMPOSSIBLE_SPEED,
                f"{fastest:.3g} s is faster than this machine can be ({least:.3g} s)",
            )


class _Contender:
    """A candidate that runs in turns with others; its failures are its own."""

    def __init__(self, request: RunRequest, arguments: ArgumentCache) -> None:
        self._run = _Run(request, arguments)
        self._rows: list[float] = []
        self._about = 0.0
        self._checked = False
        self._failed: RunReport | None = None

    def report(self) -> RunReport:
        self.attempt(lambda: self._run.refuse_impossible(self._rows))
        return self._failed or RunReport(tuple(self._rows), checked=self._checked)

    def prepare(self) -> None:
        self._run.load()
        self._checked = self._run.check()
        self._about = self._run.first_look().secs

    def take_turn(self) -> None:
        run = self._run
        self._rows.append(run.request.adaptive.row(run.function, run.sets[0], self._about))

    def attempt(self, step: Callable[[], None]) -> None:
        """Take a step, unless an earlier one failed."""
        if self._failed is not None:
            return
        try:
            step()
        except CandidateFailed as failure:
            self._failed = RunReport(failure=failure.kind, message=str(failure))
        except Exception as error:
            is_lost = isinstance(error, DeviceError) and error.is_lost  # for all others, too
            if is_lost or machine_fault(error) is not None:
                raise
            text = "".join(traceback.format_exception(error))
            self._failed = RunReport(failure=RUN_ERROR, message=text)
