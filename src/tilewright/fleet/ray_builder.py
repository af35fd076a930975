"""`RayBuilder`: compiles candidates on all nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial

import msgspec

from tilewright.errors import IRError
from tilewright.fleet import messages
from tilewright.fleet.actors import BuildActor
from tilewright.fleet.cluster import Claim, ClusterNode, connect
from tilewright.fleet.fleet import Fleet, FleetPlan, TaskLost, Work
from tilewright.fleet.messages import BuildAnswer, BuilderSettings, BuildOrder, names_of, portable
from tilewright.fleet.scheduler import FleetLimits
from tilewright.measure.base import Builder, FinishedFuture, FunctionFuture, builders
from tilewright.measure.hooks import Hook
from tilewright.measure.local_builder import request_for
from tilewright.measure.node_work import NodeWork
from tilewright.measure.pool import check_positive
from tilewright.records import BuilderFuture, BuilderInput, BuilderResult, FailureKind

_BUILDING = "builders"  # all of them are of one kind: they build for any node


@builders.register("ray")
class RayBuilder(Builder):
    """Compiles with one actor for each core of the cluster, also for targets of other nodes.

    `address` is "ray://HOST:PORT"; without it the cluster of this process is used, or one that is
    started here. `resources` are resources of Ray's that a node needs to have builders. `f_build`
    and `initializer` are imported on the nodes, by name.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        max_workers: int | None = None,
        timeout_sec: float = 30.0,
        f_build: Hook | None = None,
        initializer: Hook | None = None,
        resources: Mapping[str, float] | None = None,
    ) -> None:
        check_positive("RayBuilder", timeout_sec=timeout_sec, max_workers=max_workers or 1)
        self._most = max_workers
        self._resources = tuple((resources or {}).items())
        hooks = names_of("RayBuilder", {"f_build": f_build, "initializer": initializer})
        settings = BuilderSettings(timeout_sec, **hooks)
        plan = FleetPlan(
            BuildActor,
            msgspec.msgpack.encode(settings),
            self._placing,
            lambda facts: _BUILDING,
            f"RayBuilder: no node of the Ray cluster has a core to build on{self._needs()}",
            FleetLimits(calibrate_every=0),
        )
        self._fleet = Fleet(connect(address), plan)

    def _needs(self) -> str:
        """The resources that nodes have to have, in words."""
        wanted = [f"{amount:g} of {name!r}" for name, amount in self._resources]
        return f", with {' and '.join(wanted)}" if wanted else ""

    def _placing(self, node: ClusterNode) -> list[Claim]:
        if any(node.resources.get(name, 0) < amount for name, amount in self._resources):
            return []
        cores = int(node.resources.get("CPU", 0))
        count = cores if self._most is None else min(self._most, cores)
        return [Claim(node, number, 1, 0, self._resources) for number in range(count)]

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """One result for each input, in order."""
        return [future.result() for future in self.submit(build_inputs)]

    def submit(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderFuture]:
        """One future for each input, in order."""
        return [self._submit_one(each) for each in build_inputs]

    def node_work(self) -> list[NodeWork]:
        """What each node has built so far."""
        return self._fleet.node_work()

    def close(self) -> None:
        """End the actors."""
        self._fleet.close()

    def _submit_one(self, build_input: BuilderInput) -> BuilderFuture:
        try:
            request = request_for(build_input)
        except (IRError, TypeError) as error:
            text = f"RayBuilder: {error}"
            return FinishedFuture(BuilderResult(None, text, FailureKind.BUILD_ERROR))
        target = build_input.target
        order = BuildOrder(request, target.fingerprint, portable(target))
        work = Work(messages.BUILD, msgspec.msgpack.encode(order))
        answer = self._fleet.submit(_BUILDING, work)
        return FunctionFuture(answer.done, partial(_result, answer))


def _result(answer: Future[bytes]) -> BuilderResult:
    try:
        found = msgspec.msgpack.decode(answer.result(), type=BuildAnswer)
    except TaskLost as error:
        return BuilderResult(None, f"RayBuilder: {error}", FailureKind.CRASH)
    artifact = found.artifact
    name = None if artifact is None else artifact.digest
    return BuilderResult(name, found.message, found.failure, artifact)
