"""`SessionRunner`: the steps of `session_task`, in a worker of this node."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from tilewright.fleet import session_task
from tilewright.fleet.messages import RunnerSettings
from tilewright.fleet.session_task import SessionRequest
from tilewright.measure import run_task
from tilewright.measure.base import FinishedFuture, Runner
from tilewright.measure.evaluator import EvaluatorConfig
from tilewright.measure.memory import usable_memory
from tilewright.measure.pool import PoolOptions, Task, WorkerPool
from tilewright.records import RunnerFuture, RunnerInput, RunnerResult

_seconds = msgspec.msgpack.Decoder(tuple[float, ...])


class SessionRunner(Runner):
    """Runs candidates with functions of the user's own; results are not compared."""

    def __init__(self, settings: RunnerSettings) -> None:
        self._settings = settings
        self._evaluator = settings.evaluator_config or EvaluatorConfig()
        options = PoolOptions(
            1, usable_memory(), preload=(run_task.PRELOAD,), initializer=settings.initializer
        )
        self._pool = WorkerPool(options)

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """One future for each input, in order; all are done."""
        return [FinishedFuture(self._run_one(each)) for each in runner_inputs]

    def _run_one(self, given: RunnerInput) -> RunnerResult:
        settings = self._settings
        assert settings.session_config is not None
        assert given.artifact is not None
        request = SessionRequest(
            given.artifact,
            given.device_type,
            [(info.dtype, info.shape) for info in given.args_info],
            self._evaluator,
            settings.alloc_repeat,
            settings.session_hooks,
            settings.session_config,
        )
        limit = settings.timeout_sec
        task = Task(session_task.PERFORM, msgspec.msgpack.encode(request), limit)
        (outcome,) = self._pool.run([task])
        time.sleep(settings.cooldown_sec)
        if outcome.failure is not None:
            text = outcome.complaint(settings.owner, limit)
            return RunnerResult(None, text, outcome.failure, protocol=str(self._evaluator))
        return RunnerResult(_seconds.decode(outcome.payload), protocol=str(self._evaluator))
