"""Replays of records, with decisions changed: in a process of their own that has limits.

Replaying runs no code of a record: steps are checked as if somebody had called them. It may take
long, though, and much memory, which only a process of its own can be kept from.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile

import msgspec

from tilewright.cost_model.prior import AnalyticPrior
from tilewright.errors import ServeError, TilewrightError
from tilewright.ir.json import load_json, save_json
from tilewright.measure.pool import PoolOptions, Task, WorkerPool
from tilewright.records import FailureKind, MeasureCandidate, TuningRecord, args_info_of
from tilewright.report.units import seconds
from tilewright.schedule import Schedule, Trace
from tilewright.serve.stepwise import Decided, Replayed, Stepper, in_one_line
from tilewright.tune.context import TuneContext

LONGEST_SECS = 20.0
_MEMORY = 2 << 30
_SPACE = "tilewright"  # its post-processors look at changed candidates
_WAITING = 4  # more requests at a time are refused


class ReplayCall(msgspec.Struct):
    """A record in plain values, as it goes to the worker."""

    mod: str
    trace: object
    target: str | None
    decided: dict[int, Decided]


class ReplayAnswer(msgspec.Struct):
    """The steps, and what became of the candidate."""

    replayed: Replayed
    refusal: str = ""  # which post-processor refused it
    estimate: str = ""  # the running time that is expected without measuring


class ReplayService:
    """Answers one replay after the other."""

    def __init__(self, longest_secs: float = LONGEST_SECS) -> None:
        self._longest = longest_secs
        self._pool = WorkerPool(PoolOptions(1, memory_limit=_MEMORY))
        # Workers end with the thread that started them, and those of servers come and go.
        self._thread = ThreadPoolExecutor(1)
        self._places = threading.BoundedSemaphore(_WAITING)

    def replay(self, record: TuningRecord, decided: dict[int, Decided]) -> bytes:
        """The answer as JSON."""
        if not self._places.acquire(blocking=False):
            raise ServeError("too many replays at a time; try again in a moment")
        try:
            return self._answer(record, decided)
        finally:
            self._places.release()

    def _answer(self, record: TuningRecord, decided: dict[int, Decided]) -> bytes:
        target = None if record.target is None else str(record.target)
        mod = save_json(record.workload.mod)
        call = ReplayCall(mod, record.trace.as_json(), target, decided)
        task = Task("tilewright.serve.replay:answer", msgspec.json.encode(call), self._longest)
        (outcome,) = self._thread.submit(self._pool.run, [task]).result()
        match outcome.failure:
            case None:
                return outcome.payload
            case FailureKind.TIMEOUT:
                raise ServeError(f"the replay was ended after {self._longest:g} seconds")
            case FailureKind.OUT_OF_MEMORY:
                raise ServeError(f"the replay needs more than {_MEMORY >> 30} GiB of memory")
        raise ServeError(f"the replay failed: {outcome.message.strip().splitlines()[-1]}")

    def warm_up(self) -> None:
        """Start the worker, so that the first replay need not wait for it."""
        self._thread.submit(self._pool.warm_up)

    def close(self) -> None:
        """End the worker."""
        self._pool.stop()
        self._thread.shutdown()
        self._pool.close()


# --- in the worker ------------------------------------------------------------------------------


def answer(payload: bytes) -> bytes:
    """The work of one call."""
    call = msgspec.json.decode(payload, type=ReplayCall)
    return msgspec.json.encode(answer_of(call))


def answer_of(call: ReplayCall) -> ReplayAnswer:
    """Replay as it was recorded; with other decisions post-processors have their say again."""
    mod, trace = load_json(call.mod), Trace.from_json(call.trace)
    context = TuneContext(mod, target=call.target, space_generator=_SPACE)
    if not call.decided:
        return _answer(Stepper(mod), trace, context)
    main_part = takewhile(lambda inst: not inst.step.is_postproc, trace.insts)
    stepper = Stepper(mod, call.decided)
    replayed = stepper.run(Trace(main_part, trace.decisions))
    refusal = "" if replayed.error else _refusal(stepper.schedule, context)
    if replayed.error or refusal:
        return ReplayAnswer(replayed, refusal)
    assert stepper.schedule.trace is not None
    return _answer(Stepper(mod), stepper.schedule.trace, context)


def _answer(stepper: Stepper, trace: Trace, context: TuneContext) -> ReplayAnswer:
    replayed = stepper.run(trace)
    if replayed.error:
        return ReplayAnswer(replayed)
    return ReplayAnswer(replayed, estimate=_estimate(stepper.schedule, context))


def _refusal(sch: Schedule, context: TuneContext) -> str:
    """Finish a candidate as a search does; which post-processor refuses it, if one does."""
    assert context.space_generator is not None
    if context.target is None:
        return ""
    sch.enter_postproc()
    for postproc in context.space_generator.postprocs:
        name = type(postproc).__name__
        try:
            if not postproc.apply(sch):
                return f"refused by {name}"
        except TilewrightError as error:
            return f"refused by {name}: {in_one_line(error)}"
    return ""


def _estimate(sch: Schedule, context: TuneContext) -> str:
    """The running time that the prior expects; nothing where it cannot tell."""
    try:
        candidate = MeasureCandidate(sch, args_info_of(sch.mod))
        return seconds(float(2 ** AnalyticPrior().score(context, [candidate])[0]))
    except TilewrightError:
        return ""
