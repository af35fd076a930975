"""The library of Ray: imported when it is needed, and what it raises said in one line."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from tilewright.errors import MachineError, TuneError


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


@contextlib.contextmanager
def ray_faults(give_up: Callable[[Exception], MachineError]) -> Iterator[None]:
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
        raise give_up(error) from error


def in_one_line(error: object) -> str:
    """What an error of Ray's says."""
    details = getattr(error, "details", None)  # of gRPC's errors, whose text has many lines
    text = str(details() if callable(details) else error).strip()
    _, is_traceback, rest = text.rpartition("Traceback (most recent call last):\n")
    if is_traceback:
        text = rest.rpartition("\n")[2]
    return re.sub(r"\s+", " ", text) or type(error).__name__


def is_client_connected() -> bool:
    """Whether this process has a connection to a client server now; asks nobody."""
    from ray.util.client import ray as client

    return bool(client.is_connected())


def is_connection_lost(error: BaseException) -> bool:
    """Whether a task failed because the cluster cannot be reached, not because of its actor."""
    from ray.exceptions import RaySystemError

    names = {kind.__name__ for kind in type(error).__mro__}  # gRPC's is not ours to import
    return isinstance(error, ConnectionError | RaySystemError) or "RpcError" in names
