"""`LocalBuilder`: compiles candidates in worker processes of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from tilewright.errors import IRError
from tilewright.ir import IRModule
from tilewright.ir.json import save_json
from tilewright.ir.numpy_bridge import from_numpy
from tilewright.measure import build_task
from tilewright.measure.artifact import read_artifact
from tilewright.measure.base import Builder, FinishedFuture, FunctionFuture, builders
from tilewright.measure.build_task import BuildRequest, Parameter, Scheduled
from tilewright.measure.higher_precision import with_precise_twin
from tilewright.measure.hook_placement import PlacedMember, SessionFolder, place, run_in_process
from tilewright.measure.hooks import Hook
from tilewright.measure.memory import usable_memory
from tilewright.measure.pool import Outcome, PoolOptions, Task, check_positive
from tilewright.measure.tolerance import rounding_of
from tilewright.records import BuilderFuture, BuilderInput, BuilderResult, FailureKind
from tilewright.runtime.threads import available_cores
from tilewright.schedule.analysis import flop_of


@builders.register("local")
class LocalBuilder(PlacedMember, Builder):
    """Compiles as many candidates at a time as there are cores.

    `f_build(mod, target, params)` and `f_export(compiled) -> path` replace our own steps; both run
    in a worker, which imports them by name ("package.module:function", the name of a global
    function, or a function of a module that can be imported). `initializer` runs first in every
    worker. Hooks that cannot be imported run in this process, with a warning.

    Each artefact lies in a folder of its own; all go away with the builder.
    """

    owner = "LocalBuilder"  # whom messages name

    def __init__(
        self,
        *,
        max_workers: int | None = None,
        timeout_sec: float = 30.0,
        f_build: Hook | None = None,
        f_export: Hook | None = None,
        initializer: Hook | None = None,
        memory_limit: int | None = None,
        max_uses: int = 128,
    ) -> None:
        self.max_workers = available_cores() if max_workers is None else max_workers
        self.timeout_sec = timeout_sec
        check_positive("LocalBuilder", max_workers=self.max_workers, timeout_sec=timeout_sec)
        limit = usable_memory() // self.max_workers if memory_limit is None else memory_limit
        self._folder = SessionFolder()
        self._placement = place(
            "LocalBuilder",
            lambda initializer: PoolOptions(
                self.max_workers, limit, max_uses, (build_task.PRELOAD,), initializer
            ),
            {"f_build": f_build, "f_export": f_export},
            initializer,
        )

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """One result for each input, in order."""
        if self._placement.pool is None:
            return [self._build_here(build_input) for build_input in build_inputs]
        prepared = [self._prepare(build_input) for build_input in build_inputs]
        built = iter(
            self.build_prepared([each for each in prepared if isinstance(each, BuildRequest)])
        )
        return [each if isinstance(each, BuilderResult) else next(built) for each in prepared]

    def submit(self, build_inputs: Sequence[BuilderInput]) -> Sequence[BuilderFuture]:
        """One future for each input, in order; workers begin at once."""
        started = [self.begin(build_input) for build_input in build_inputs]
        futures = [each for each in started if each is not None]
        return futures if len(futures) == len(started) else super().submit(build_inputs)

    def begin(self, build_input: BuilderInput) -> BuilderFuture | None:
        """Compile a candidate while the caller does something else; None: workers cannot do it."""
        pool = self._placement.pool
        if pool is None:
            return None
        prepared = self._prepare(build_input)
        if isinstance(prepared, BuilderResult):
            return FinishedFuture(prepared)
        started = pool.begin(self._task(prepared))
        return FunctionFuture(started.done, lambda: self._result(started.result()))

    def _prepare(self, build_input: BuilderInput) -> BuildRequest | BuilderResult:
        """An input in the form of workers; or the result, if it cannot be written down."""
        try:
            return request_for(build_input)
        except (IRError, TypeError) as error:
            return BuilderResult(None, f"{self.owner}: {error}", FailureKind.BUILD_ERROR)

    def build_prepared(self, requests: Sequence[BuildRequest]) -> list[BuilderResult]:
        """The same for inputs that are in the form of workers already."""
        assert self._placement.pool is not None
        tasks = [self._task(request) for request in requests]
        return [self._result(outcome) for outcome in self._placement.pool.run(tasks)]

    def _task(self, request: BuildRequest) -> Task:
        hooks: Any = self._placement.hooks
        placed = msgspec.structs.replace(request, folder=self._folder.path, **hooks)
        return Task(build_task.PERFORM, msgspec.msgpack.encode(placed), self.timeout_sec)

    def _build_here(self, build_input: BuilderInput) -> BuilderResult:
        hooks: Any = self._placement.hooks
        given = Scheduled(build_input.mod, build_input.target, build_input.params)
        work = partial(build_task.build_candidate, given, self._folder.path, **hooks)
        return self._result(run_in_process(lambda: work().encode(), self.timeout_sec))

    def _result(self, outcome: Outcome) -> BuilderResult:
        kind = outcome.failure
        if kind is None:
            path = outcome.payload.decode()
            return BuilderResult(path, artifact=read_artifact(path))
        kind = FailureKind.BUILD_ERROR if kind is FailureKind.RUN_ERROR else kind
        return BuilderResult(None, outcome.complaint(self.owner, self.timeout_sec), kind)


def request_for(build_input: BuilderInput) -> BuildRequest:
    """An input in the form of workers; the builder adds its folder and its hooks."""
    params = build_input.params
    return BuildRequest(
        save_json(build_input.mod),
        build_input.target.export(),
        folder="",
        params=None if params is None else {name: _wrap(array) for name, array in params.items()},
        with_twins=with_twins(build_input.mod) if build_input.is_reference else None,
    )


def with_twins(mod: IRModule) -> str | None:
    """A module with its functions in higher precision, too, unless that takes too long to run."""
    # Operations for which plain loops take seconds; sums in a narrow type are worth more.
    limit = 1e10 if rounding_of(mod).is_narrow else 1e9
    twins = with_precise_twin(mod)
    return save_json(twins) if twins is not mod and flop_of(mod) <= limit else None


def _wrap(array: object) -> Parameter:
    values = np.asarray(array)
    return Parameter(str(from_numpy(values.dtype)), values.shape, values.tobytes())
