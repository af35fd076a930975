"""`LocalRunner`: runs candidates in a worker process of this machine, one at a time.

Where it has several GPUs of a model there is a worker for each.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import msgspec

from tilewright.errors import TuneError
from tilewright.measure import run_task
from tilewright.measure.base import FinishedFuture, Runner, runners
from tilewright.measure.evaluator import AdaptiveProtocol, EvaluatorConfig
from tilewright.measure.gpu_workers import chosen_gpus, pools_for, shared_out
from tilewright.measure.hook_placement import PlacedMember, SessionFolder, place, run_in_process
from tilewright.measure.hooks import Hook
from tilewright.measure.memory import usable_memory
from tilewright.measure.pool import Outcome, PoolOptions, Task, WorkerPool, check_positive
from tilewright.measure.row_offsets import argument_specs
from tilewright.records import FailureKind, RunnerFuture, RunnerInput, RunnerResult

_ROUGH, _BEHIND = "first look", "first rows"  # of candidates that are slower than the best
_log = logging.getLogger("tilewright.measure")
_reports = msgspec.msgpack.Decoder(list[run_task.RunReport])
_prepared = msgspec.msgpack.Decoder(run_task.Prepared)
_report = msgspec.msgpack.Decoder(run_task.RunReport)


@dataclass(eq=False)
class RunnerOptions:
    """TVM's options of a runner, in TVM's order, and the best that it knows of each workload."""

    timeout_sec: float = 30.0
    evaluator_config: EvaluatorConfig | None = None
    cooldown_sec: float = 0.0
    alloc_repeat: int = 1
    f_alloc_argument: Hook | None = None
    f_run_evaluator: Hook | None = None
    f_cleanup: Hook | None = None
    initializer: Hook | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_positive(name, timeout_sec=self.timeout_sec, alloc_repeat=self.alloc_repeat)
        self._best: dict[str, float] = {}  # seconds, by reference

    def notify_best(self, reference_path: str, secs: float) -> None:
        """Say how fast the best candidate of a workload is, for example after a restart."""
        self._best[reference_path] = min(secs, self._best.get(reference_path, secs))

    def _best_known(self, given: RunnerInput) -> float | None:
        known = (given.best_secs, self._best.get(given.reference_path or ""))
        return min((secs for secs in known if secs is not None), default=None)

    def _note(self, given: RunnerInput, result: RunnerResult) -> None:
        if given.reference_path is not None and result.checked and result.run_secs:
            self.notify_best(given.reference_path, min(result.run_secs))


@runners.register("local")
@dataclass(eq=False)
class LocalRunner(RunnerOptions, PlacedMember, Runner):
    """Loads, checks and times candidates in one worker process, so that nothing else is timed.

    Without `evaluator_config` the time of a candidate is the median of a few short rows of runs;
    with it, it is what TVM would measure. Either way a candidate that is clearly slower than the
    best of its workload (`RunnerInput.reference_path` says which that is) gets a rough figure only,
    and one that is not is first compared with the untransformed program.

    Hooks: `f_alloc_argument(device, args_info, alloc_repeat) -> [[array]]`,
    `f_run_evaluator(compiled, device, evaluator_config, repeated_args) -> [seconds]`,
    `f_cleanup()`; the worker imports them by name, as `LocalBuilder` does. What an `f_export` of
    one's own wrote is loaded by `f_load(path) -> compiled`, for `f_run_evaluator` to run; its
    results are not compared.
    """

    _: KW_ONLY
    adaptive: AdaptiveProtocol = field(default_factory=AdaptiveProtocol)
    reference_timeout_sec: float = 300.0
    memory_limit: int | None = None
    max_uses: int = 1000
    seed: int | None = None
    f_load: Hook | None = None
    devices: Sequence[int] | None = None  # GPUs; without it all of the first one's model
    owner: str = "LocalRunner"  # whom messages name

    def __post_init__(self) -> None:
        if self.f_load is not None and self.f_run_evaluator is None:
            raise TuneError("LocalRunner: what f_load loads needs an f_run_evaluator to run it")
        super().__post_init__()
        self.seed = secrets.randbits(31) if self.seed is None else self.seed
        self._references: dict[tuple[str, int], bool] = {}  # whether it can be compared with
        self._prepared: dict[str, run_task.Prepared] = {}  # what running a reference showed
        self._folder = SessionFolder()
        limit = usable_memory() if self.memory_limit is None else self.memory_limit
        preload = (run_task.PRELOAD,)
        self._placement = place(
            "LocalRunner",
            lambda initializer: PoolOptions(1, limit, self.max_uses, preload, initializer),
            {name: getattr(self, name) for name in run_task.RunHooks.__struct_fields__},
            self.initializer,
        )
        self._hooks = run_task.RunHooks(**self._placement.hooks)
        self._runs = run_task.CandidateRuns()  # used by hooks that run in this process
        self._gpu_pools: list[WorkerPool] | None = None
        self._preparing = threading.Lock()

    @property
    def protocol(self) -> str:
        """How candidates are timed, as records keep it."""
        if self.evaluator_config is None:
            return str(self.adaptive)
        return str(self.evaluator_config)

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """One future for each input, in order; all are done."""
        pools = self._pools_for(runner_inputs)
        return [FinishedFuture(each) for each in shared_out(runner_inputs, pools, self._cooled)]

    def _pools_for(self, runner_inputs: Sequence[RunnerInput]) -> Sequence[WorkerPool | None]:
        """One for each GPU, or one; None stands for this process."""
        on_gpu = any(each.device_type == "cuda" for each in runner_inputs)
        if self._placement.pool is None or not on_gpu:
            return [self._placement.pool]
        if self._gpu_pools is None:
            gpus = chosen_gpus(self.devices, "LocalRunner")
            self._gpu_pools = pools_for(gpus, self._placement.pool)
        return self._gpu_pools

    def close(self) -> None:
        """End the workers and remove all files now, rather than with this object."""
        for pool in self._gpu_pools or ():
            pool.close()
        super().close()

    def _cooled(self, runner_input: RunnerInput, pool: WorkerPool | None) -> RunnerResult:
        result = self._run_one(runner_input, pool)
        if self.cooldown_sec:
            time.sleep(self.cooldown_sec)
        return result

    def measure_again(
        self, runner_inputs: Sequence[RunnerInput], rounds: int = 7
    ) -> list[RunnerResult]:
        """Measure contenders against each other: in turns, on other data, all checked again.

        The seconds of each are those of its rows, one a turn.
        """
        pool = self._pools_for(runner_inputs)[0]  # all on the same GPU
        requests = [
            self._request(replace(each, seed=self._seed_of(each) + 1), pool)
            for each in runner_inputs
        ]
        limit = self.timeout_sec * len(requests)
        outcome = self._perform(run_task.Step("again", requests, rounds), limit, pool)
        if outcome.failure is not None:  # one of them took the worker down: find out which
            return [future.result() for future in self.run(runner_inputs)]
        protocol = f"median of {rounds} rows of {self.adaptive.row_ms:g} ms, in turns"
        return [self._result_of(report, protocol) for report in _reports.decode(outcome.payload)]

    # --- one candidate ---

    def _seed_of(self, runner_input: RunnerInput) -> int:
        assert self.seed is not None
        return self.seed if runner_input.seed is None else runner_input.seed

    def _run_one(self, runner_input: RunnerInput, pool: WorkerPool | None) -> RunnerResult:
        request = self._request(runner_input, pool)
        prepared = self._prepared.get(runner_input.reference_path or "", run_task.Prepared())
        plain, best, spent = prepared.secs, request.best_secs, 0.0
        if runner_input.is_plain and plain and best and self.adaptive.gives_up(plain, best):
            # When it was run for its results, it took far longer than the best.
            return RunnerResult((plain,), stopped_early=True, protocol=_ROUGH, notes=prepared.notes)
        if self._hooks.f_run_evaluator is None:
            start = time.monotonic()
            look = self._look_at(request, pool)
            spent = time.monotonic() - start
            if look.failure is not None or look.stopped_early:
                return look
        limit = max(self.timeout_sec - spent, 0.1)
        outcome = self._perform(run_task.Step("run", [request]), limit, pool)
        result = self._result(outcome, self.timeout_sec)
        self._note(runner_input, result)
        return replace(result, notes=prepared.notes)

    def _look_at(self, request: run_task.RunRequest, pool: WorkerPool | None) -> RunnerResult:
        """A first run, with less time if it is known how fast others are."""
        limit = self.timeout_sec
        if request.best_secs is not None:
            limit = min(limit, self.adaptive.look_limit(request.best_secs))
        outcome = self._perform(run_task.Step("look", [request]), limit, pool)
        return self._result(outcome, round(limit, 3))

    def _request(self, runner_input: RunnerInput, pool: WorkerPool | None) -> run_task.RunRequest:
        reference = runner_input.reference_path
        request = run_task.RunRequest(
            artifact=runner_input.artifact or runner_input.artifact_path,
            args_info=argument_specs(runner_input.args_info, runner_input.row_offsets),
            seed=self._seed_of(runner_input),
            adaptive=self.adaptive,
            evaluator=self.evaluator_config,
            alloc_repeat=self.alloc_repeat,
            reference=runner_input.reference or reference,
            folder=self._folder.path,
            best_secs=self._best_known(runner_input),
            min_secs=runner_input.min_secs,
            hooks=self._hooks,
        )
        if reference is not None:
            with self._preparing:  # other workers find what one has found out
                if not self._is_comparable(reference, request, pool):
                    return msgspec.structs.replace(request, reference=None)
        return request

    def _is_comparable(
        self, reference: str, request: run_task.RunRequest, pool: WorkerPool | None
    ) -> bool:
        """Run the untransformed program once for each workload, with more time than candidates."""
        key = (reference, request.seed)
        if key not in self._references and self._hooks.f_alloc_argument is None:
            step = run_task.Step("expect", [request])
            outcome = self._perform(step, self.reference_timeout_sec, pool)
            self._references[key] = outcome.failure is None
            if outcome.failure is None:
                self._prepared.setdefault(reference, _prepared.decode(outcome.payload))
            else:
                _log.warning(
                    "candidates cannot be checked: the untransformed program failed with %s: %s",
                    outcome.failure.value,
                    outcome.message,
                )
        return self._references.get(key, True)

    def _perform(self, step: run_task.Step, timeout_sec: float, pool: WorkerPool | None) -> Outcome:
        """Let a worker take a step, or take it here."""
        if pool is None:
            return run_in_process(lambda: self._runs.perform(step), timeout_sec)
        task = Task(run_task.PERFORM, msgspec.msgpack.encode(step), timeout_sec)
        (outcome,) = pool.run([task])
        return outcome

    # --- results ---

    def _result(self, outcome: Outcome, limit: float) -> RunnerResult:
        if outcome.failure is None:
            return self._result_of(_report.decode(outcome.payload), self.protocol)
        text = outcome.complaint(self.owner, limit)
        return RunnerResult(None, text, outcome.failure, protocol=self.protocol)

    def _result_of(self, report: run_task.RunReport, protocol: str) -> RunnerResult:
        if report.failure:
            return RunnerResult(
                None,
                f"{self.owner}: {report.message}",
                FailureKind(report.failure),
                protocol=protocol,
                step_secs=report.step_secs,
            )
        return RunnerResult(
            report.run_secs,
            checked=report.checked,
            stopped_early=report.stopped_early,
            protocol=_protocol_of(report, protocol),
            step_secs=report.step_secs,
        )


def _protocol_of(report: run_task.RunReport, whole: str) -> str:
    """How a candidate was timed; one that stopped early was checked or only looked at."""
    if not report.stopped_early:
        return whole
    return _BEHIND if report.checked else _ROUGH
