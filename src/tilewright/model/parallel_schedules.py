"""Schedules without a search for many programs at once, on all cores.

Choosing a schedule is work for Python, which uses one core; so worker processes take the programs.
Starting those takes a while, and a few programs are faster done here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from tilewright import ir
from tilewright.errors import TilewrightError
from tilewright.ir.json import load_json, save_json
from tilewright.measure.pool import Outcome, PoolOptions, Task, WorkerPool
from tilewright.runtime.threads import available_cores
from tilewright.target import Target
from tilewright.tune.fallback import default_schedule

PERFORM = "tilewright.model.parallel_schedules:perform"
LEAST = 8  # programs that are worth starting workers for
TIMEOUT_SEC = 120.0
_log = logging.getLogger(__name__)


class ScheduleRequest(msgspec.Struct, frozen=True):
    """A program, and what it is for."""

    func: str
    target: dict[str, object]


_decoder = msgspec.msgpack.Decoder(ScheduleRequest)


def perform(payload: bytes) -> bytes:
    """The task of a worker: a program, scheduled."""
    request = _decoder.decode(payload)
    sch = default_schedule(load_json(request.func), Target(request.target))
    return save_json(sch.mod).encode()


def schedules_without_search(
    funcs: Sequence[ir.PrimFunc], target: Target
) -> list[ir.IRModule | None]:
    """Schedules of programs in their order; None where a program is left to the caller."""
    workers = min(available_cores(), len(funcs) // 2)
    if workers < 2 or len(funcs) < LEAST or not target.is_cpu:
        return [None] * len(funcs)
    exported = target.export()
    tasks = [
        Task(
            PERFORM, msgspec.msgpack.encode(ScheduleRequest(save_json(func), exported)), TIMEOUT_SEC
        )
        for func in funcs
    ]
    pool = WorkerPool(PoolOptions(workers))
    try:
        return [_scheduled(outcome) for outcome in pool.run(tasks)]
    except (TilewrightError, OSError) as error:
        _log.info("schedules are chosen in this process: %s", error)
        return [None] * len(funcs)
    finally:
        pool.close()


def _scheduled(outcome: Outcome) -> ir.IRModule | None:
    if outcome.failure is not None:
        _log.info("a schedule is chosen in this process: %s", outcome.message)
        return None
    module = load_json(outcome.payload)
    assert isinstance(module, ir.IRModule)
    return module
