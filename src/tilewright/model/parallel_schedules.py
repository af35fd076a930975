"""Schedules without a search for many programs at once, on all cores, and their machine code.

Choosing a schedule is work for Python, which uses one core, and so is most of compiling; so worker
processes take the programs. Starting those takes a while, and a few programs are faster done here.
Code that a store keeps between runs is made, or found, by the caller.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

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
        compiled = _compiled(scheduled, target)
        made = _Made(made.module, compiled.info, compiled.artifact)
    return msgspec.msgpack.encode(made)


def _compiled(scheduled: ir.IRModule, target: Target) -> Module:
    """Code for constants that were packed before, as `model.kernels.compiled` makes it."""
    return driver.compile_only(separate_packing(scheduled), target)


def schedules_without_search(
    funcs: Sequence[ir.PrimFunc], target: Target
) -> list[ScheduledKernel | None]:
    """Schedules of programs in their order; None where a program is left to the caller."""
    workers = min(available_cores(), len(funcs) // 2)
    if workers < 2 or len(funcs) < LEAST or not target.is_cpu:
        return [None] * len(funcs)
    texts = [save_json(func) for func in funcs]
    # The longest programs first: no worker is left with one of them while others are done.
    order = sorted(range(len(funcs)), key=lambda number: -len(texts[number]))
    pool = WorkerPool(PoolOptions(workers, preload=(PRELOAD,)))
    try:
        outcomes = pool.run([_task(texts[number], target) for number in order])
        made = dict(zip(order, outcomes, strict=True))
        return [_scheduled(made[number], target) for number in range(len(funcs))]
    except (TilewrightError, OSError) as error:
        _log.info("schedules are chosen in this process: %s", error)
        return [None] * len(funcs)
    finally:
        pool.close()


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
