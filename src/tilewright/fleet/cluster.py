"""The connection of this process to a Ray cluster: the one place that calls Ray.

What crosses it are bytes. Ray has one connection for a process, so all that use a cluster share it.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import socket
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tilewright.codegen.artifact import Artifact
from tilewright.errors import MachineError, TuneError

LOCAL = "ray"  # the address of a cluster that is started here
SCHEME = "ray://"
_PROBE_SECS = 5.0
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
    users: int = 0
    _stored: OrderedDict[str, tuple[Any, int]] = field(default_factory=OrderedDict)
    _storing: threading.Lock = field(default_factory=threading.Lock)

    def nodes(self) -> list[ClusterNode]:
        """The machines that are there now."""
        with ray_faults():
            found = require_ray().nodes()
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
        with ray_faults():
            return require_ray().remote(actor).options(**options).remote(settings)

    def call(self, actor: Any, what: str, payload: bytes, stored: list[Any]) -> Future[bytes]:
        """Let an actor do something; `stored` are its artefacts."""
        with ray_faults():
            answer: Future[bytes] = actor.perform.remote(what, payload, *stored).future()
        return answer

    def kill(self, actor: Any) -> None:
        """End an actor, whatever it is doing."""
        with contextlib.suppress(Exception):  # it may be gone, and so may the cluster
            require_ray().kill(actor)

    def store(self, artifact: Artifact) -> Any:
        """An artefact in the object store; each is put there once."""
        with self._storing:
            return self._store(artifact)

    def _store(self, artifact: Artifact) -> Any:
        found = self._stored.get(artifact.digest)
        if found is None:
            data = msgspec.msgpack.encode(artifact)
            with ray_faults():
                found = self._stored[artifact.digest] = (require_ray().put(data), len(data))
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
            _connect(address or LOCAL)
        shared.cluster = RayConnection(address or LOCAL, is_ours=given is None)
    elif address not in (None, shared.cluster.address):
        raise _other_cluster(shared.cluster.address, address)
    shared.cluster.users += 1
    return shared.cluster


def own_address() -> str | None:
    """The cluster that this process joined by itself, HOST:PORT; None if it did not."""
    ray, shared = require_ray(), _connection().cluster
    is_joined = ray.is_initialized() and not (shared is not None and shared.is_ours)
    return str(ray.get_runtime_context().gcs_address) if is_joined else None


def _other_cluster(here: str, wanted: str | None) -> TuneError:
    return TuneError(
        f"this process is connected to the Ray cluster at {here}, so it cannot use {wanted}; "
        "close what uses the first one"
    )


def require_ray() -> Any:
    """The module of Ray, or one line that says how to get it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
    except ImportError as error:
        raise TuneError(
            "measuring on other machines needs Ray, which is not installed here: "
            'pip install "tilewright[ray]"'
        ) from error
    return ray


def _connect(address: str) -> None:
    if address != LOCAL:
        _require_server(address)
    options: dict[str, object] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        options["include_dashboard"] = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            require_ray().init("local" if address == LOCAL else address, **options)
    except Exception as error:
        raise TuneError(_why_not_connected(address, error)) from error


def _require_server(address: str) -> None:
    """Ray itself would wait for half a minute, and not say what for."""
    parts = urlsplit(address)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not address.startswith(SCHEME) or not host or not port:
        raise TuneError(f"{address!r}: expected 'ray', or 'ray://HOST:PORT' of a cluster")
    try:
        socket.create_connection((host, port), _PROBE_SECS).close()
    except OSError as error:
        raise TuneError(
            f"no Ray cluster answers at {address}: {error.strerror or error}; start one with "
            "`ray start --head` or `tilewright rpc-tracker`, and name its client port"
        ) from error


def _why_not_connected(address: str, error: Exception) -> str:
    text = re.sub(r"\s+", " ", str(error)).strip()
    if "ersion mismatch" in text:
        return f"cannot use the Ray cluster at {address}: {text}"
    return (
        f"cannot connect to the Ray cluster at {address}: {text or type(error).__name__}; if it "
        "asks for a token, set RAY_AUTH_TOKEN"
    )


@contextlib.contextmanager
def ray_faults() -> Iterator[None]:
    """Raise what Ray raises as one line; what it does not explain is a cluster that is gone."""
    from ray import exceptions

    try:
        yield
    except (exceptions.ObjectStoreFullError, exceptions.OutOfDiskError) as error:
        raise MachineError(
            "the object store of the Ray cluster is full; start its nodes with a larger "
            "--object-store-memory, or free some disk space for it to spill to"
        ) from error
    except Exception as error:
        raise lost_connection(error) from error


def lost_connection(error: BaseException) -> MachineError:
    """For all that waits for a cluster that cannot be reached any more."""
    details = getattr(error, "details", None)  # of gRPC's errors, whose text has many lines
    text = re.sub(r"\s+", " ", str(details() if callable(details) else error)).strip()
    return MachineError(f"lost the connection to the Ray cluster: {text}")


def is_connection_lost(error: BaseException) -> bool:
    """Whether a task failed because the cluster cannot be reached, not because of its actor."""
    from ray.exceptions import RaySystemError

    names = {kind.__name__ for kind in type(error).__mro__}  # gRPC's is not ours to import
    return isinstance(error, ConnectionError | RaySystemError) or "RpcError" in names


Placing = Callable[[ClusterNode], list[Claim]]  # the actors that a node gets
