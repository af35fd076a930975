"""`tilewright rpc-tracker` and `rpc-server`: the head and the nodes of a Ray cluster.

Both become a process of Ray's, which runs until it is ended.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

from tilewright.config import child_environ
from tilewright.errors import TuneError
from tilewright.fleet.ray_library import require_ray
from tilewright.fleet.rpc_config import client_port, resource_of

_START = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
_ANY = "0.0.0.0"
_WORKER_PORTS = range(10002, 20000)  # that Ray gives to workers


def track(host: str, ports: range, *, silent: bool) -> None:
    """Be a tracker until the process is ended."""
    require_ray()
    command = tracker_command(host, ports)
    if not silent:
        port = next(part for part in command if part.startswith("--port=")).partition("=")[2]
        print(f"tracker at {host}:{port}; servers join with: tilewright rpc-server --tracker "
              f"HOST:{port} --key KEY", flush=True)  # fmt: skip
    _become(command)


def serve(tracker: str, key: str, host: str, ports: range, *, silent: bool) -> None:
    """Be a server until the process is ended."""
    require_ray()
    command = server_command(tracker, key, host, ports)
    if not silent:
        print(f"server with the key {key} for the tracker {tracker}", flush=True)
    _become(command)


def tracker_command(host: str, ports: range) -> list[str]:
    """What starts the head of a cluster."""
    port = _free_port(host, ports, with_next=True)
    return [
        *_START, "--head", "--include-dashboard=false", f"--port={port}",
        f"--ray-client-server-port={client_port(port)}", *_worker_ports(port), *_address(host),
    ]  # fmt: skip


def server_command(tracker: str, key: str, host: str, ports: range) -> list[str]:
    """What starts a node of the tracker's cluster."""
    name, _, port = tracker.rpartition(":")
    if not name or not port.isdecimal():
        raise TuneError(f"--tracker {tracker}: expected HOST:PORT")
    if not key:
        raise TuneError("--key: expected the name under which runners ask for this server")
    try:
        socket.create_connection((name, int(port)), 5).close()
    except OSError as error:
        text = f"--tracker {tracker}: no tracker answers there: {error.strerror or error}"
        raise TuneError(text) from error
    return [
        *_START, f"--address={tracker}", f"--resources={json.dumps({resource_of(key): 1})}",
        f"--node-manager-port={_free_port(host, ports)}", *_address(host),
    ]  # fmt: skip


def _worker_ports(tracker: int) -> list[str]:
    """Any ports for workers where a tracker has one of theirs, which Ray would refuse."""
    if {tracker, client_port(tracker)}.isdisjoint(_WORKER_PORTS):
        return []
    return ["--min-worker-port=0", "--max-worker-port=0"]


def _address(host: str) -> list[str]:
    return [] if host == _ANY else [f"--node-ip-address={host}"]


def _free_port(host: str, ports: range, *, with_next: bool = False) -> int:
    for port in ports:
        if _is_free(host, port) and (not with_next or _is_free(host, client_port(port))):
            return port
    raise TuneError(f"no port from {ports.start} to {ports.stop - 1} is free on {host}")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _become(command: list[str]) -> None:
    """Go on as Ray, whose nodes find this package where this process does."""
    package = str(Path(__file__).parents[2])
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    os.execve(command[0], command, child_environ(package))
