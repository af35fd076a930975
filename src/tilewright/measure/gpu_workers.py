"""Several GPUs: a worker process for each, and candidates shared out among them.

A worker sees one GPU only, as its first, so that nothing in it has to know which one that is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TypeVar

from tilewright.config import environ_for_gpu
from tilewright.errors import DeviceError, TuneError
from tilewright.measure.pool import WorkerPool
from tilewright.native.cuda_driver import cuda_driver

_STOP_INTERVAL = 0.05
Given = TypeVar("Given")
Result = TypeVar("Result")


def chosen_gpus(wanted: Sequence[int] | None, owner: str) -> list[int]:
    """The GPUs to run on: those that are wanted, or all of the first one's model.

    Times on GPUs of different models are not comparable.
    """
    try:
        driver = cuda_driver()
    except DeviceError as error:
        named = "" if wanted is None else f"devices={list(wanted)}: "
        raise TuneError(f"{owner}: {named}{error}") from error
    if wanted is None:
        alike = [n for n in range(driver.device_count) if driver.name(n) == driver.name(0)]
        return alike or [0]
    for device_id in wanted:
        if reason := driver.why_missing(device_id):
            raise TuneError(f"{owner}: devices={list(wanted)}: {reason}")
    if not wanted or len(set(wanted)) < len(wanted):
        raise TuneError(f"{owner}: devices={list(wanted)}: name each GPU once, and at least one")
    return list(wanted)


def pools_for(gpus: Sequence[int], pool: WorkerPool) -> list[WorkerPool]:
    """A pool like another one for each GPU; that one itself where it is the first GPU alone."""
    if list(gpus) == [0]:
        return [pool]
    pool.close()  # it may have been warmed up
    return [WorkerPool(replace(pool.options, environ=environ_for_gpu(n))) for n in gpus]


def shared_out(
    given: Sequence[Given],
    pools: Sequence[WorkerPool | None],
    run: Callable[[Given, WorkerPool | None], Result],
) -> list[Result]:
    """Results in order; each pool takes the next one when it is done with the last."""
    if len(pools) == 1:
        return [run(each, pools[0]) for each in given]
    waiting = deque(range(len(given)))
    results: dict[int, Result] = {}

    def work(pool: WorkerPool | None) -> None:
        while waiting:
            try:
                number = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            results[number] = run(given[number], pool)

    with ThreadPoolExecutor(len(pools)) as threads:
        futures = [threads.submit(work, pool) for pool in pools]
        try:
            for future in futures:
                future.result()
        except BaseException:
            waiting.clear()
            while not all(future.done() for future in futures):
                for pool in pools:  # again and again: one may be between two tasks
                    if pool is not None:
                        pool.stop()
                wait(futures, _STOP_INTERVAL)
            raise
    return [results[number] for number in range(len(given))]
