"""Joins a Ray cluster: one that is started here, or one that runs elsewhere, at `ray://HOST:PORT`.

Ray's client would wait for half a minute for whatever is wrong with an address, and not say what
it is. So its server is asked something before: what listens there, and whether it takes our token.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import signal
import socket
import threading
import warnings
from collections.abc import Iterator
from urllib.parse import urlsplit

from tilewright.config import ray_token
from tilewright.errors import TuneError
from tilewright.fleet.ray_library import in_one_line, require_ray

LOCAL = "ray"  # the address of a cluster that is started here
SCHEME = "ray://"
_PROBE_SECS = 5.0
JOIN_SECS = 120.0  # a busy machine takes a quarter of a minute to start the server of a client
_QUESTION = "/ray.rpc.RayletDriver/ClusterInfo"  # of Ray's client servers
# A cluster has a process for each client, which now and then dies as it starts.
_NOT_STARTED = ("Starting Ray client server failed", "psutil.")
_NO_ANSWER = "it did not let this process in within"
_TOKEN = "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN as it was when the cluster started"


def join(address: str) -> None:
    """Connect this process to a cluster."""
    if address == LOCAL:
        _init("local", include_dashboard=False)
        return
    _require_server(address)
    _silence_the_client()
    try:
        _init(address)
    except TuneError as error:
        if not any(each in str(error) for each in _NOT_STARTED):
            raise
        _init(address)


def _init(address: str, **options: object) -> None:
    try:
        with warnings.catch_warnings(), _limited(JOIN_SECS):
            warnings.simplefilter("ignore")
            require_ray().init(address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:
        raise TuneError(_why_not_joined(address, in_one_line(error))) from error


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Give up after a time, where that can be done: Ray waits for ever for a server that hangs."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"{_NO_ANSWER} {seconds:.0f} s; try again")

    if threading.current_thread() is not threading.main_thread() or os.name != "posix":
        yield
        return
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _why_not_joined(address: str, why: str) -> str:
    text = f"cannot use the Ray cluster at {address}: {why}"
    if "ersion mismatch" in why or _NO_ANSWER in why:  # Ray names both versions
        return text
    here = f"Ray {require_ray().__version__} and Python {platform.python_version()}"
    return f"{text}; this machine has {here}, and so must the cluster"


def _silence_the_client() -> None:
    """Whatever it says of a lost connection from its threads is said once, by us."""
    for name in ("ray.util.client", "ray.util.client.logsclient"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module=r"ray\.util\.client")


def _require_server(address: str) -> None:
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
    problem = _problem_of(f"{host}:{port}")
    if problem is not None:
        raise TuneError(f"cannot use what answers at {address}: {problem}")


def _problem_of(server: str) -> str | None:
    """What is wrong with a server; None if Ray's client may try."""
    token = ray_token()
    match _answer_of(server):
        case "UNAUTHENTICATED" if token is None:
            return f"it asks for a token; {_TOKEN}"
        case "UNAUTHENTICATED" if token and _answer_of(server, token) == "UNAUTHENTICATED":
            return f"it refuses the token; {_TOKEN}"
        case "UNIMPLEMENTED":
            return (
                "it is not a client server of Ray's; name the client port of the cluster, which "
                "is 10001 unless `ray start --ray-client-server-port` says another"
            )
        case "UNAVAILABLE" | "DEADLINE_EXCEEDED":
            return "it does not speak as Ray does; name the client port of a Ray cluster"
    return None


def _answer_of(server: str, token: str = "") -> str:
    """The name of gRPC's status for a question."""
    try:
        import grpc  # it comes with Ray's client
    except ImportError as error:
        raise TuneError(
            "a Ray cluster elsewhere needs Ray's client, which is not installed here: "
            'pip install "tilewright[ray]"'
        ) from error
    sent = [("authorization", f"Bearer {token}")] if token else None
    with grpc.insecure_channel(server) as channel:
        try:
            channel.unary_unary(_QUESTION)(b"", timeout=_PROBE_SECS, metadata=sent)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"
