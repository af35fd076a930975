"""`RayRunner`: measures candidates on the nodes of a Ray cluster that the target stands for."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

import msgspec

from tilewright.errors import MachineError, TuneError
from tilewright.fleet import messages
from tilewright.fleet.actors import MeasureActor
from tilewright.fleet.cluster import Claim, ClusterNode, connect
from tilewright.fleet.fleet import Fleet, FleetPlan, TaskLost, Work
from tilewright.fleet.messages import NodeFacts, RunnerSettings, RunOrder, artifacts_of, names_of
from tilewright.fleet.scheduler import FleetLimits
from tilewright.measure.base import FinishedFuture, FunctionFuture, Runner, runners
from tilewright.measure.hooks import Hook
from tilewright.measure.local_runner import RunnerOptions
from tilewright.measure.node_work import NodeWork
from tilewright.records import FailureKind, RunnerFuture, RunnerInput, RunnerResult
from tilewright.target import Target

Then = Callable[[RunnerInput, RunnerResult], None]
_HOOKS = ("f_alloc_argument", "f_run_evaluator", "f_cleanup", "initializer", "calibration")

_result = msgspec.msgpack.Decoder(RunnerResult)
_results = msgspec.msgpack.Decoder(list[RunnerResult])


def fits(target: Target, facts: NodeFacts) -> bool:
    """Whether a node measures for a target: it is that machine, or has a GPU of that architecture.

    Targets of GPUs need not say more than their architecture.
    """
    here = facts.fingerprints.get(target.kind.name, "")
    if target.is_cpu or target.kind.name != "cuda":
        return here == target.fingerprint
    return f"arch={target.arch}" in here.split(";")


@dataclass(eq=False)
class _OnCluster:
    address: str | None = None  # the one option that comes before those of all runners


@runners.register("ray")
@dataclass(eq=False)
class RayRunner(RunnerOptions, _OnCluster, Runner):
    """Measures on all devices of a Ray cluster that are what the target says, each by itself.

    `address` is "ray://HOST:PORT"; without it the cluster of this process is used, or one that is
    started here. A CPU is one device, a GPU is one; a named board is a resource of Ray's, `board`.
    Devices that run the calibration kernel 20 % off their peers are set aside, with a warning;
    `calibration` may name another function that says the seconds. The other options are those of
    `LocalRunner`; functions are imported on the nodes, by name.
    """

    _: KW_ONLY
    target: Target | str = "llvm"
    board: str | None = None
    calibration: Hook | None = None
    calibrate_every: int = FleetLimits().calibrate_every
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        hooks = names_of("RayRunner", {name: getattr(self, name) for name in _HOOKS})
        settings = RunnerSettings(
            owner="RayRunner",
            timeout_sec=self.timeout_sec,
            seed=secrets.randbits(31) if self.seed is None else self.seed,
            device_type=Target(self.target).kind.name,
            evaluator_config=self.evaluator_config,
            cooldown_sec=self.cooldown_sec,
            alloc_repeat=self.alloc_repeat,
            initializer=hooks.pop("initializer", None),
            calibration=hooks.pop("calibration", None),
            hooks=hooks,  # the rest
        )
        limits = FleetLimits(calibrate_every=self.calibrate_every)
        target = Target(self.target)
        place = DevicePlace(target.kind.name, target.fingerprint, partial(fits, target), self.board)
        self._devices = Devices(self.address, settings, place, limits)

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """One future for each input, in order; they come as devices are done."""
        given = [replace(each, best_secs=self._best_known(each)) for each in runner_inputs]
        return [self._devices.submit(each, self._note) for each in given]

    def measure_again(
        self, runner_inputs: Sequence[RunnerInput], rounds: int = 7
    ) -> list[RunnerResult]:
        """Measure contenders against each other: on one device, in turns."""
        return self._devices.measure_again(runner_inputs, rounds)

    def node_work(self) -> list[NodeWork]:
        """What each node has measured so far."""
        return self._devices.node_work()

    def require_device(self) -> None:
        """Wait for a device that is what the target says; an error says why there is none."""
        self._devices.require()

    def close(self) -> None:
        """End the actors."""
        self._devices.close()


@dataclass(frozen=True)
class DevicePlace:
    """Which devices of a cluster measure."""

    kind: str  # of target
    fingerprint: str
    fits: Callable[[NodeFacts], bool]  # whether a node stands for the target
    board: str | None = None  # a resource that counts devices; None: CPUs or GPUs
    most: int | None = None

    def claims(self, node: ClusterNode) -> list[Claim]:
        """One for each device of a node, of the whole device."""
        if self.board is not None:
            count = int(node.resources.get(self.board, 0))
            made = [Claim(node, each, resources=((self.board, 1.0),)) for each in range(count)]
        elif self.kind == "cuda":
            made = [Claim(node, each, gpus=1) for each in range(int(node.resources.get("GPU", 0)))]
        else:
            own = f"node:{node.name}"  # Ray gives every node one: its CPU has one claim only
            made = [Claim(node, resources=((own, 1.0),))] if own in node.resources else []
        return made[: self.most]

    def kind_of(self, facts: NodeFacts) -> str:
        """What tasks a device gets: those for the target, if it fits."""
        if self.fits(facts):
            return self.fingerprint
        if self.kind not in facts.fingerprints:
            why = facts.missing.get(self.kind, "it has no such device")
            raise MachineError(f"it cannot run {self.kind}: {why}")
        return facts.fingerprints[self.kind]

    @property
    def missing(self) -> str:
        """What a cluster without such devices lacks."""
        if self.board:
            return f"the resource {self.board!r}"
        return "a GPU" if self.kind == "cuda" else f"a device for {self.kind}"


class Devices:
    """The devices of a cluster that measure for a target."""

    def __init__(
        self, address: str | None, settings: RunnerSettings, place: DevicePlace, limits: FleetLimits
    ) -> None:
        self._kind, self._owner = place.fingerprint, settings.owner
        plan = FleetPlan(
            MeasureActor,
            msgspec.msgpack.encode(settings),
            place.claims,
            place.kind_of,
            f"{settings.owner}: no node of the Ray cluster has {place.missing}",
            limits,
        )
        self._fleet = Fleet(connect(address), plan)

    def submit(self, given: RunnerInput, then: Then = lambda given, result: None) -> RunnerFuture:
        """A future for a candidate; `then` gets its result."""
        try:
            artifacts = artifacts_of(given)
        except TuneError as error:
            return FinishedFuture(self._not_run(error, FailureKind.RUN_ERROR))
        order = msgspec.msgpack.encode(RunOrder.of(given, artifacts))
        answer = self._fleet.submit(self._kind, Work(messages.RUN, order, artifacts))

        def result() -> RunnerResult:
            found = self._result(answer)
            then(given, found)
            return found

        return FunctionFuture(answer.done, result)

    def measure_again(
        self, runner_inputs: Sequence[RunnerInput], rounds: int
    ) -> list[RunnerResult]:
        """Results of candidates that run in turns on one device."""
        sent = [artifacts_of(each) for each in runner_inputs]
        orders = [RunOrder.of(*each) for each in zip(runner_inputs, sent, strict=True)]
        payload = msgspec.msgpack.encode((orders, rounds))
        work = Work(messages.AGAIN, payload, [artifact for each in sent for artifact in each])
        try:
            return _results.decode(self._fleet.submit(self._kind, work).result())
        except TaskLost as error:
            return [self._not_run(error)] * len(runner_inputs)

    def require(self) -> None:
        """Wait until one answers."""
        self._fleet.submit(self._kind, Work(messages.DESCRIBE, b"")).result()

    def node_work(self) -> list[NodeWork]:
        """What each node has measured so far."""
        return self._fleet.node_work()

    def close(self) -> None:
        """End the actors."""
        self._fleet.close()

    def _result(self, answer: Future[bytes]) -> RunnerResult:
        try:
            return _result.decode(answer.result())
        except TaskLost as error:
            return self._not_run(error)

    def _not_run(self, error: Exception, failure: FailureKind = FailureKind.CRASH) -> RunnerResult:
        return RunnerResult(None, f"{self._owner}: {error}", failure)
