"""The connection of this process to a Ray cluster: the one place that calls Ray.

What crosses it are bytes. Ray has one connection for a process, so all that use a cluster share it.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tilewright.codegen.artifact import Artifact
from tilewright.errors import MachineError, TuneError
from tilewright.fleet.joining import LOCAL, join
from tilewright.fleet.ray_library import (
    in_one_line,
    is_client_connected,
    ray_faults,
    require_ray,
)

_STORED = 256 << 20  # bytes of artefacts that are kept in the object store


@dataclass(frozen=True)
class ClusterNode:
    """A machine of the cluster."""

    id: str
    name: str  # its address
    resources: dict[str, float]


@dataclass(frozen=True)
class Claim:
    """What an actor claims of its node; Ray gives it to nobody else as long as it lives."""

    node: ClusterNode
    number: int = 0  # among those of the node
    cores: float = 0
    gpus: float = 0
    resources: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """Tells claims of one cluster apart."""
        return f"{self.node.id}/{self.number}"


@dataclass
class RayConnection:
    """A cluster that this process is connected to."""

    address: str
    is_ours: bool  # we connected, so we disconnect
    is_client: bool = False  # it goes through the client server, as ray://HOST:PORT does
    users: int = 0
    lost: MachineError | None = None  # after which nothing is asked of it any more
    _stored: OrderedDict[str, tuple[Any, int]] = field(default_factory=OrderedDict)
    _storing: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Any]:
        """Ray, to ask it something, unless the cluster is lost.

        A client that is not connected any more would look for another cluster, for minutes.
        """
        if self.lost is None and self.is_client and not is_client_connected():
            self.give_up("the client was disconnected")
        if self.lost is not None:
            raise self.lost
        with ray_faults(self.give_up):
            yield require_ray()

    def give_up(self, why: object) -> MachineError:
        """The cluster cannot be reached any more, which is said to all who ask from now on."""
        self.lost = self.lost or _lost(why)
        return self.lost

    def nodes(self) -> list[ClusterNode]:
        """The machines that are there now."""
        with self._asking() as ray:
            found = ray.nodes()
        return [
            ClusterNode(each["NodeID"], each["NodeManagerAddress"], each["Resources"])
            for each in found
            if each["Alive"]
        ]

    def start(self, actor: type, settings: bytes, claim: Claim) -> Any:
        """An actor on a node; it begins when its claim is free there."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        options = {
            "num_cpus": claim.cores,
            "num_gpus": claim.gpus,
            "resources": dict(claim.resources),
            "scheduling_strategy": NodeAffinitySchedulingStrategy(claim.node.id, soft=False),
        }
        with self._asking() as ray:
            return ray.remote(actor).options(**options).remote(settings)

    def call(self, actor: Any, what: str, payload: bytes, stored: list[Any]) -> Future[bytes]:
        """Let an actor do something; `stored` are its artefacts."""
        with self._asking():
            answer: Future[bytes] = actor.perform.remote(what, payload, *stored).future()
        return answer

    def kill(self, actor: Any) -> None:
        """End an actor, whatever it is doing."""
        with contextlib.suppress(Exception), self._asking() as ray:  # it may be gone
            ray.kill(actor)

    def store(self, artifact: Artifact) -> Any:
        """An artefact in the object store; each is put there once."""
        with self._storing:
            return self._store(artifact)

    def _store(self, artifact: Artifact) -> Any:
        found = self._stored.get(artifact.digest)
        if found is None:
            data = msgspec.msgpack.encode(artifact)
            with self._asking() as ray:
                found = self._stored[artifact.digest] = (ray.put(data), len(data))
            while len(self._stored) > 1 and self._stored_bytes() > _STORED:
                self._stored.popitem(last=False)
        self._stored.move_to_end(artifact.digest)
        return found[0]

    def _stored_bytes(self) -> int:
        return sum(size for _, size in self._stored.values())

    def disconnect(self) -> None:
        """One user less; the last one lets go of the cluster."""
        self.users -= 1
        if self.users == 0:
            self._stored.clear()
            _connection().cluster = None
            if self.is_ours:
                require_ray().shutdown()


@dataclass
class _Connection:
    cluster: RayConnection | None = None


@functools.cache
def _connection() -> _Connection:
    """Of this process: Ray has one only."""
    return _Connection()


def connect(address: str | None) -> RayConnection:
    """The cluster at an address; without one, that of this process, or one that is started here."""
    shared = _connection()
    if shared.cluster is None:
        given = own_address()
        if given is not None and address not in (None, LOCAL, given):
            raise _other_cluster(given, address)
        if given is None:
            join(address or LOCAL)
        is_client = is_client_connected()
        shared.cluster = RayConnection(address or LOCAL, given is None, is_client)
    elif address not in (None, shared.cluster.address):
        raise _other_cluster(shared.cluster.address, address)
    shared.cluster.users += 1
    return shared.cluster


def own_address() -> str | None:
    """The cluster that this process joined by itself, HOST:PORT; None if it did not."""
    ray, shared = require_ray(), _connection().cluster
    is_joined = ray.is_initialized() and not (shared is not None and shared.is_ours)
    return str(ray.get_runtime_context().gcs_address) if is_joined else None


def _lost(why: object) -> MachineError:
    return MachineError(f"lost the connection to the Ray cluster: {in_one_line(why)}")


def _other_cluster(here: str, wanted: str | None) -> TuneError:
    return TuneError(
        f"this process is connected to the Ray cluster at {here}, so it cannot use {wanted}; "
        "close what uses the first one"
    )


Placing = Callable[[ClusterNode], list[Claim]]  # the actors that a node gets
