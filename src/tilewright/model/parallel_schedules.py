"""Schedules without a search for many programs at once, on all cores, and their machine code.

Choosing a schedule is work for Python, which uses one core, and so is most of compiling; so worker
processes take programs for the other cores. Starting those takes a while: this process begins at
once, with the shortest programs, and a few programs are faster done by it alone. Code that a store
keeps between runs is made, or found, by the caller.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec

from tilewright import driver, ir
from tilewright.codegen.artifact import Artifact
from tilewright.codegen.host.code_store import code_store
from tilewright.codegen.module_info import ModuleInfo
from tilewright.errors import TilewrightError
from tilewright.ir.json import load_json, save_json
from tilewright.lowering.prepacking import separate_packing
from tilewright.measure.pool import Outcome, PoolOptions, Task, WorkerPool
from tilewright.model.schedules import ScheduledKernel
from tilewright.runtime.module import Module, ModuleSources, Unrunnable
from tilewright.runtime.threads import available_cores
from tilewright.target import Target
from tilewright.tune.fallback import default_schedule

PERFORM = "tilewright.model.parallel_schedules:perform"
PRELOAD = "tilewright.model.parallel_schedules:preload"
LEAST = 8  # programs that are worth starting workers for
TIMEOUT_SEC = 120.0
_log = logging.getLogger(__name__)


class ScheduleRequest(msgspec.Struct, frozen=True):
    """A program, what it is for, and whether its code is wanted, too."""

    func: str
    target: dict[str, object]
    with_code: bool


class _Made(msgspec.Struct, frozen=True, array_like=True):
    """A scheduled program on its way back, and what it was compiled to."""

    module: str
    info: ModuleInfo | None = None
    artifact: Artifact | None = None


_request_decoder = msgspec.msgpack.Decoder(ScheduleRequest)
_made_decoder = msgspec.msgpack.Decoder(_Made)


def preload() -> None:
    """Load what compiling takes before the first program comes."""
    driver.warm_up()


def perform(payload: bytes) -> bytes:
    """The task of a worker: a program, scheduled and compiled."""
    request = _request_decoder.decode(payload)
    target = Target(request.target)
    scheduled = default_schedule(load_json(request.func), target).mod
    made = _Made(save_json(scheduled))
    if request.with_code:
        compiled = _compiled(scheduled, target, may_abort=True)
        made = _Made(made.module, compiled.info, compiled.artifact)
    return msgspec.msgpack.encode(made)


def _compiled(scheduled: ir.IRModule, target: Target, *, may_abort: bool = False) -> Module:
    """Code for constants that were packed before, as `model.kernels.compiled` makes it."""
    return driver.compile_only(separate_packing(scheduled), target, may_abort=may_abort)


def schedules_without_search(
    funcs: Sequence[ir.PrimFunc], target: Target
) -> list[ScheduledKernel | None]:
    """Schedules of programs in their order; None where a program is left to the caller."""
    workers = min(available_cores(), len(funcs) // 2) - 1
    if workers < 1 or len(funcs) < LEAST or not target.is_cpu:
        return [None] * len(funcs)
    return _SharedWork(funcs, target).done(workers)


class _SharedWork:
    """Programs that are taken from both ends: the longest by workers, the others here."""

    def __init__(self, funcs: Sequence[ir.PrimFunc], target: Target) -> None:
        self._funcs, self._target = funcs, target
        self._texts = [save_json(func) for func in funcs]
        order = sorted(range(len(funcs)), key=lambda number: -len(self._texts[number]))
        self._waiting = deque(order)
        self._outcomes: dict[int, Outcome] = {}
        self._made: dict[int, ScheduledKernel | None] = {}

    def done(self, workers: int) -> list[ScheduledKernel | None]:
        """All of it."""
        pools = [WorkerPool(PoolOptions(1, preload=(PRELOAD,))) for _ in range(workers)]
        with ThreadPoolExecutor(workers) as threads:
            try:
                busy = [threads.submit(self._by_worker, pool) for pool in pools]
                self._by_this_process()
                for each in busy:
                    each.result()
            finally:
                self._waiting.clear()
                for pool in pools:
                    pool.stop()
        for number, outcome in self._outcomes.items():
            self._made[number] = _scheduled(outcome, self._target)
        return [self._made.get(number) for number in range(len(self._funcs))]

    def _by_worker(self, pool: WorkerPool) -> None:
        try:
            with suppress(IndexError):  # until nothing is left
                while True:
                    number = self._waiting.popleft()
                    task = _task(self._texts[number], self._target)
                    (self._outcomes[number],) = pool.run([task])
        except (TilewrightError, OSError) as error:
            _log.info("schedules are chosen in this process: %s", error)
        finally:
            pool.close()

    def _by_this_process(self) -> None:
        with suppress(IndexError):
            while True:
                number = self._waiting.pop()
                self._made[number] = _made_here(self._funcs[number], self._target)


def _made_here(func: ir.PrimFunc, target: Target) -> ScheduledKernel:
    scheduled = default_schedule(func, target).mod
    if code_store() is not None:
        return ScheduledKernel(scheduled)
    return ScheduledKernel(scheduled, code=driver.load(_compiled(scheduled, target)))


def _task(text: str, target: Target) -> Task:
    request = ScheduleRequest(text, target.export(), code_store() is None)
    return Task(PERFORM, msgspec.msgpack.encode(request), TIMEOUT_SEC)


def _scheduled(outcome: Outcome, target: Target) -> ScheduledKernel | None:
    if outcome.failure is not None:
        _log.info("a schedule is chosen in this process: %s", outcome.message)
        return None
    made = _made_decoder.decode(outcome.payload)
    module = load_json(made.module)
    assert isinstance(module, ir.IRModule)
    if made.info is None or made.artifact is None:
        return ScheduledKernel(module)
    sources = ModuleSources(lambda: _compiled(module, target).sources.make())
    unloaded = Module(made.info, Unrunnable("it is not loaded"), sources, made.artifact)
    return ScheduledKernel(module, code=driver.load(unloaded))
