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
from tilewright.measure.workbench import (
    Expectation,
    Workbench,
    accesses_of,
    entry_of,
    expectation_for,
)
from tilewright.runtime import devices, threads, timing

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
    timing.evict(())
    threads.num_threads()


def prepare(payload: bytes) -> bytes:
    """The task: compute what is expected of the candidates of a request's workload."""
    return expect(_decoder.decode(payload), _workbench())


def expect(request: RunRequest, workbench: Workbench) -> bytes:
    """Make sure that the expected results of a request's workload are known."""
    assert request.reference is not None
    workbench.expectation(request.reference, request.args_info, request.seed)
    return b""


def perform(payload: bytes) -> bytes:
    """The task: run one candidate."""
    return msgspec.msgpack.encode(run_candidate(_decoder.decode(payload), _workbench()))


def run_candidate(request: RunRequest, workbench: Workbench) -> RunReport:
    """Load, allocate, look, check, time; clean up whatever happens."""
    run = _Run(request, workbench)
    try:
        return run.report()
    except CandidateFailed as failure:
        return RunReport(failure=failure.kind, message=str(failure), step_secs=run.step_secs)
    finally:
        if request.hooks.f_cleanup is not None:
            resolve_hook(request.hooks.f_cleanup)()


class _Run:
    """One candidate on its way."""

    def __init__(self, request: RunRequest, workbench: Workbench) -> None:
        self.request = request
        self.workbench = workbench
        self.step_secs: dict[str, float] = {}

    @contextlib.contextmanager
    def _step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.step_secs[name] = time.perf_counter() - start

    def report(self) -> RunReport:
        """Go all the way, unless the candidate is hopeless."""
        self.load()
        with self._step("first_look"):
            look = self._first_look()
        if look.hopeless:
            return RunReport((look.secs,), stopped_early=True, step_secs=self.step_secs)
        checked = self.check()
        with self._step("run"):
            run_secs = self._evaluate(look.secs)
        self.refuse_impossible(run_secs)
        return RunReport(tuple(run_secs), checked=checked, step_secs=self.step_secs)

    def load(self) -> None:
        """Load the code and allocate the arguments."""
        request = self.request
        self.device = devices.device(request.device_type)
        with self._step("load"):
            self.module, _ = load_artifact(request.artifact_path)
            self.function = entry_of(self.module)
        with self._step("expect"):
            self.expectation = self._expectation()
        with self._step("allocate"):
            self.sets = self._allocate()

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

    def _first_look(self) -> FirstLook:
        if self.request.hooks.f_run_evaluator is not None:
            return FirstLook(0.0, hopeless=False)
        return self.request.adaptive.first_look(self.function, self.sets[0], self.request.best_secs)

    def check(self) -> bool:
        """Compare with the reference, if there is one."""
        reference = self.request.reference
        if reference is None:
            return False
        with self._step("check"):
            if self.expectation is not None:
                expected, arguments = self.expectation, self._own_sets[0]
            else:  # the user's own arguments: what the reference makes of them is not known yet
                expected, arguments = expectation_for(reference, self.sets[0])
            arguments.restore()
            self.function(*arguments.arrays)
            complaint = expected.complaint(arguments)
        if complaint:
            raise CandidateFailed(
                WRONG_RESULT,
                f"the result differs from that of the untransformed function: {complaint}",
            )
        return True

    def _evaluate(self, about: float) -> list[float]:
        request = self.request
        if request.hooks.f_run_evaluator is not None:
            run = resolve_hook(request.hooks.f_run_evaluator)
            config = request.evaluator or EvaluatorConfig()
            return [float(secs) for secs in run(self.module, self.device, config, self.sets)]
        if request.evaluator is not None:
            return evaluate_as_tvm(self.function, self.sets, request.evaluator)
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
        request = self._run.request
        self._about = request.adaptive.first_look(self._run.function, self._run.sets[0], None).secs

    def _row(self) -> None:
        run = self._run
        self._rows.append(run.request.adaptive.row(run.function, run.sets[0], self._about))

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except CandidateFailed as failure:
            self._failed = RunReport(failure=failure.kind, message=str(failure))
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            self._failed = RunReport(failure=RUN_ERROR, message=text)
