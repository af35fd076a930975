"""What the worker of a runner does: load a candidate, check it, time it.

The arguments and the expected results of a workload are kept for its next candidates. Expected
results are also written beside the reference, so that a new worker does not compute them again.
"""

from __future__ import annotations

import contextlib
import functools
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from tilewright.measure.argument_cache import (
    Expectation,
    Workbench,
    accesses_of,
    entry_of,
    expectation_for,
    packed,
)
from tilewright.measure.arguments import TensorSpec
from tilewright.measure.artifact import load_artifact
from tilewright.measure.evaluator import (
    AdaptiveProtocol,
    EvaluatorConfig,
    FirstLook,
    evaluate_as_tvm,
    summary,
)
from tilewright.measure.hooks import resolve_hook
from tilewright.measure.wire import IMPOSSIBLE_SPEED, RUN_ERROR, WRONG_RESULT
from tilewright.runtime import cpu, threads
from tilewright.support.machine_faults import machine_fault

PERFORM_LOOK = "tilewright.measure.run_task:perform_look"
PERFORM = "tilewright.measure.run_task:perform"
PERFORM_AGAIN = "tilewright.measure.run_task:perform_again"
PREPARE = "tilewright.measure.run_task:prepare"
PRELOAD = "tilewright.measure.run_task:preload"


class RunHooks(msgspec.Struct, frozen=True):
    """Functions of the user that replace steps of ours."""

    f_alloc_argument: Any = None
    f_run_evaluator: Any = None
    f_cleanup: Any = None


class RunRequest(msgspec.Struct, frozen=True):
    """A candidate to run."""

    artifact_path: str
    device_type: str
    args_info: tuple[TensorSpec, ...]
    seed: int
    adaptive: AdaptiveProtocol
    evaluator: EvaluatorConfig | None = None  # None: the adaptive protocol alone
    alloc_repeat: int = 1
    reference: str | None = None
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


class AgainRequest(msgspec.Struct, frozen=True):
    """Contenders to measure against each other."""

    requests: list[RunRequest]
    rounds: int


class CandidateFailed(Exception):
    """A candidate that ran, but must not count; `kind` is a value of FailureKind."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


_decoder = msgspec.msgpack.Decoder(RunRequest)
_again_decoder = msgspec.msgpack.Decoder(AgainRequest)


@functools.cache
def _workbench() -> Workbench:
    return Workbench()


def preload() -> None:
    """Load LLVM, the timer and the thread pool before the first candidate comes."""
    cpu().api.evict(())
    threads.num_threads()


def prepare(payload: bytes) -> bytes:
    """The task: compute what is expected of the candidates of a request's workload."""
    return msgspec.msgpack.encode(expect(_decoder.decode(payload), _workbench()))


class Prepared(msgspec.Struct, frozen=True):
    """What running the untransformed program showed."""

    notes: tuple[str, ...] = ()  # what is wrong with it
    secs: float | None = None


def expect(request: RunRequest, workbench: Workbench) -> Prepared:
    """Make sure that the expected results of a request's workload are known."""
    assert request.reference is not None
    found = workbench.expectation(request.reference, request.args_info, request.seed)
    return Prepared(found.notes, found.plain_secs)


def perform_look(payload: bytes) -> bytes:
    """The task: run a candidate for the first time."""
    return msgspec.msgpack.encode(look_at_candidate(_decoder.decode(payload), _workbench()))


def perform(payload: bytes) -> bytes:
    """The task: check and time a candidate, after a first look at it or without."""
    return msgspec.msgpack.encode(run_candidate(_decoder.decode(payload), _workbench()))


def look_at_candidate(request: RunRequest, workbench: Workbench) -> RunReport:
    """Load, allocate, run once or a few times; the seconds are rough."""
    run = _Run(request, workbench)
    workbench.under_way = None
    try:
        run.load()
        found = run.first_look()
        if not found.hopeless:
            workbench.under_way = run
        return RunReport((found.secs,), stopped_early=found.hopeless, step_secs=run.step_secs)
    finally:
        if workbench.under_way is not run:
            run.clean_up()


def run_candidate(request: RunRequest, workbench: Workbench) -> RunReport:
    """Check and time; clean up whatever happens."""
    run, workbench.under_way = workbench.under_way, None
    if not isinstance(run, _Run) or run.request.artifact_path != request.artifact_path:
        run = _Run(request, workbench)
    try:
        return run.check_and_time()
    except CandidateFailed as failure:
        return RunReport(failure=failure.kind, message=str(failure), step_secs=run.step_secs)
    finally:
        run.clean_up()


def wrong_result(request: RunRequest, workbench: Workbench) -> str:
    """How the results of a candidate differ from those of its reference; empty if they do not."""
    run = _Run(request, workbench)
    try:
        run.load()
        run.check()
    except CandidateFailed as failure:
        return str(failure)
    return ""


class _Run:
    """One candidate on its way."""

    def __init__(self, request: RunRequest, workbench: Workbench) -> None:
        self.request = request
        self.workbench = workbench
        self.step_secs: dict[str, float] = {}
        self.is_loaded = False
        self._about: float | None = None

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
        return RunReport(tuple(run_secs), checked=checked, step_secs=self.step_secs)

    def clean_up(self) -> None:
        """Whatever the user wants to be done after a candidate."""
        if self.request.hooks.f_cleanup is not None:
            resolve_hook(self.request.hooks.f_cleanup)()

    def load(self) -> None:
        """Load the code and allocate the arguments."""
        request = self.request
        with self._step("load"):
            self.module, _ = load_artifact(request.artifact_path)
            self.device = self.module.device
            self.function = entry_of(self.module)
        with self._step("expect"):
            self.expectation = self._expectation()
        with self._step("allocate"):
            self._given_sets = self._allocate()
            self.sets = [packed(self.module, args) for args in self._given_sets]
        self.is_loaded = True

    def _expectation(self) -> Expectation | None:
        request = self.request
        if request.reference is None or request.hooks.f_alloc_argument is not None:
            return None
        return self.workbench.expectation(request.reference, request.args_info, request.seed)

    def _allocate(self) -> list[list[Any]]:
        """The sets of arguments to run with."""
        request, expected = self.request, self.expectation
        if request.hooks.f_alloc_argument is not None:
            infos = [["TENSOR", info.dtype, list(info.shape)] for info in request.args_info]
            allocate = resolve_hook(request.hooks.f_alloc_argument)
            return [list(args) for args in allocate(self.device, infos, request.alloc_repeat)]
        self._own_sets = self.workbench.argument_sets(
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
        if reference is None:
            return False
        with self._step("check"):
            if self.expectation is not None:
                expected, arguments = self.expectation, self._own_sets[0]
            else:  # the user's own arguments: what the reference makes of them is not known yet
                expected, arguments = expectation_for(reference, self._given_sets[0])
            arguments.restore()
            self.function(*packed(self.module, arguments.arrays))
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
        about = self._about or self.first_look().secs
        return [summary(request.adaptive.full(self.function, args, about)) for args in self.sets]

    def refuse_impossible(self, run_secs: Sequence[float]) -> None:
        """Nothing is faster than the machine: such a figure is a mistake."""
        least, fastest = self.request.min_secs, min(run_secs)
        if least is not None and fastest < least:
            raise CandidateFailed(
                IMPOSSIBLE_SPEED,
                f"{fastest:.3g} s is faster than this machine can be ({least:.3g} s)",
            )


def perform_again(payload: bytes) -> bytes:
    """The task: measure contenders again, in turns."""
    return msgspec.msgpack.encode(run_again(_again_decoder.decode(payload), _workbench()))


def run_again(request: AgainRequest, workbench: Workbench) -> list[RunReport]:
    """Rows of all candidates in turns, so that what disturbs the machine disturbs them all."""
    contenders = [_Contender(each, workbench) for each in request.requests]
    for contender in contenders:
        contender.prepare()
    for turn in range(request.rounds):
        for contender in contenders if turn % 2 == 0 else reversed(contenders):
            contender.take_turn()
    return [contender.report() for contender in contenders]


class _Contender:
    """A candidate that runs in turns with others; its failures are its own."""

    def __init__(self, request: RunRequest, workbench: Workbench) -> None:
        self._run = _Run(request, workbench)
        self._rows: list[float] = []
        self._about = 0.0
        self._checked = False
        self._failed: RunReport | None = None

    def prepare(self) -> None:
        self._attempt(self._prepare)

    def take_turn(self) -> None:
        if self._failed is None:
            self._attempt(self._row)

    def report(self) -> RunReport:
        if self._failed is None:
            self._attempt(lambda: self._run.refuse_impossible(self._rows))
        if self._failed is not None:
            return self._failed
        return RunReport((summary(self._rows),), checked=self._checked)

    def _prepare(self) -> None:
        self._run.load()
        self._checked = self._run.check()
        self._about = self._run.first_look().secs

    def _row(self) -> None:
        run = self._run
        self._rows.append(run.request.adaptive.row(run.function, run.sets[0], self._about))

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except CandidateFailed as failure:
            self._failed = RunReport(failure=failure.kind, message=str(failure))
        except Exception as error:
            if machine_fault(error) is not None:
                raise
            text = "".join(traceback.format_exception(error))
            self._failed = RunReport(failure=RUN_ERROR, message=text)
