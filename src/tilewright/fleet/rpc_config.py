"""`RPCConfig`: where the servers are, and `Session`: the device of one, under TVM's names.

A tracker is the head of a Ray cluster. Ray listens at its port, and takes clients at the next one.
A server is a node of that cluster; its key is a resource of Ray's.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.config import tracker_variable
from tilewright.errors import TuneError
from tilewright.fleet.cluster import connect, own_address
from tilewright.fleet.joining import SCHEME
from tilewright.measure.artifact import load_artifact
from tilewright.runtime.devices import Device, device
from tilewright.runtime.module import Module

_KEY = "rpc:"
_DEVICES = {"llvm": "cpu", "c": "cpu"}  # by kind of target; others have the name of their kind


def resource_of(key: str) -> str:
    """What a server with that key has, as Ray calls it."""
    return f"{_KEY}{key}"


@dataclass(frozen=True)
class RPCConfig:
    """Host and port of a tracker, and the key of its servers.

    What is not given is taken from TVM_TRACKER_HOST, TVM_TRACKER_PORT and TVM_TRACKER_KEY. A run
    that takes longer than `session_timeout_sec` is ended. Ray has no priorities: candidates are
    measured in the order in which they come.
    """

    tracker_host: str | None = None
    tracker_port: int | None = None
    tracker_key: str | None = None
    session_priority: float = 1
    session_timeout_sec: float = 10

    def resolved(self) -> RPCConfig:
        """With what the environment says where nothing was given."""
        port = self.tracker_port or _from_environment("port")
        if not str(port).isdecimal() or not 0 < int(port) < 65535:
            raise TuneError(f"RPCConfig: tracker_port is a port up to 65534, got {port!r}")
        return replace(
            self,
            tracker_host=self.tracker_host or _from_environment("host"),
            tracker_port=int(port),
            tracker_key=self.tracker_key or _from_environment("key"),
        )

    @property
    def address(self) -> str:
        """Where a tuner finds the cluster of the tracker, unless it has joined that already."""
        config = self.resolved()
        joined = f"{config.tracker_host}:{config.tracker_port}"
        if own_address() == joined:
            return joined
        return f"{SCHEME}{config.tracker_host}:{client_port(int(config.tracker_port or 0))}"

    def connect_server(self) -> Session:
        """A session on the machine that calls this: functions of a runner do, on a server."""
        return Session(tempfile.mkdtemp(prefix="tilewright-session-"))

    def connect_tracker(self) -> Tracker:
        """The servers that the tracker knows now."""
        cluster = connect(self.address)
        try:
            found: Counter[str] = Counter()
            for node in cluster.nodes():
                for name, amount in node.resources.items():
                    if name.startswith(_KEY):
                        found[name.removeprefix(_KEY)] += int(amount)
        finally:
            cluster.disconnect()
        return Tracker(dict(found))

    def count_num_servers(self, allow_missing: bool = True) -> int:
        """How many servers have the key; none is an error unless it is allowed."""
        key = self.resolved().tracker_key or ""
        count = self.connect_tracker().servers.get(key, 0)
        if not count and not allow_missing:
            raise TuneError(f"no server with the key {key!r} is known to the tracker")
        return count


@dataclass(frozen=True)
class Tracker:
    """The number of servers by key."""

    servers: dict[str, int]

    def text_summary(self) -> str:
        """The same for people."""
        lines = [f"{key:<20} {count}" for key, count in sorted(self.servers.items())]
        return "\n".join(["key                  servers", *lines])


def client_port(port: int) -> int:
    """Where the cluster of a tracker takes tuners."""
    return port + 1


def _from_environment(field: str) -> str:
    variable = f"TVM_TRACKER_{field.upper()}"
    value = tracker_variable(field)
    if not value:
        raise TuneError(f"RPCConfig: tracker_{field} is not given, and {variable} is not set")
    return value


@dataclass(frozen=True)
class Session:
    """What functions of a runner work with on a server."""

    folder: str

    def device(self, dev_type: str, dev_id: int = 0) -> Device:
        """A device of this node."""
        return device(_DEVICES.get(dev_type, dev_type), dev_id)

    def upload(self, data: str, target: str = "") -> None:
        """Put a file into the folder of the session."""
        shutil.copyfile(data, Path(self.folder) / (target or Path(data).name))

    def load_module(self, path: str) -> Module:
        """A module that was uploaded."""
        return load_artifact(str(Path(self.folder) / path))[0]

    def remove(self, path: str) -> None:
        """Remove what was uploaded; without a name, all of it."""
        if path:
            (Path(self.folder) / path).unlink(missing_ok=True)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        """Remove the folder."""
        self.remove("")
