"""Runs a candidate in the steps of TVM's runner with sessions, in a worker on the node.

A session stands for the device of this node. Each step can be replaced by a function, by its name:
`f_create_session(config)`, `f_upload_module(session, local_path, remote_path)`,
`f_alloc_argument(session, device, args_info, alloc_repeat)`,
`f_run_evaluator(session, module, device, evaluator_config, repeated_args)`, and, whatever happens,
`f_cleanup(session, remote_path)`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tilewright.codegen.artifact import Artifact
from tilewright.fleet.rpc_config import RPCConfig, Session
from tilewright.measure.artifact import SUFFIX
from tilewright.measure.default_hooks import Infos, default_alloc_argument, default_run_evaluator
from tilewright.measure.evaluator import EvaluatorConfig
from tilewright.measure.hooks import resolve_hook
from tilewright.runtime.devices import Device
from tilewright.runtime.module import Module

PERFORM = "tilewright.fleet.session_task:perform"


class SessionRequest(msgspec.Struct, frozen=True):
    """A candidate to run in a session."""

    artifact: Artifact
    device_type: str
    args_info: list[tuple[str, tuple[int, ...]]]
    evaluator: EvaluatorConfig
    alloc_repeat: int
    hooks: dict[str, str]
    config: RPCConfig


def default_create_session(rpc_config: RPCConfig) -> Session:
    """A session on this node."""
    return rpc_config.connect_server()


def default_upload_module(session: Session, local_path: str, remote_path: str) -> Module:
    """Upload a file and load it."""
    session.upload(local_path, remote_path)
    return session.load_module(remote_path)


def _alloc_argument(session: object, where: Device, infos: Infos, repeat: int) -> object:
    return default_alloc_argument(where, infos, repeat)


def _run_evaluator(
    session: object,
    module: Module,
    where: Device,
    config: EvaluatorConfig,
    repeated_args: Sequence[Sequence[object]],
) -> list[float]:
    return default_run_evaluator(module, where, config, repeated_args)


def default_cleanup(session: Session | None, remote_path: str | None) -> None:
    """Remove the folder of a session."""
    if isinstance(session, Session):
        session.close()


_DEFAULTS: dict[str, Callable[..., Any]] = {
    "f_create_session": default_create_session,
    "f_upload_module": default_upload_module,
    "f_alloc_argument": _alloc_argument,
    "f_run_evaluator": _run_evaluator,
    "f_cleanup": default_cleanup,
}


def perform(payload: bytes) -> bytes:
    """The task: the seconds of all runs."""
    request = msgspec.msgpack.decode(payload, type=SessionRequest)
    step = {
        name: resolve_hook(request.hooks[name]) if name in request.hooks else default
        for name, default in _DEFAULTS.items()
    }
    session: Any = None
    remote_path = f"{request.artifact.digest}{SUFFIX}"
    try:
        session = step["f_create_session"](request.config)
        where = session.device(dev_type=request.device_type, dev_id=0)
        with tempfile.TemporaryDirectory(prefix="tilewright-upload-") as folder:
            local_path = Path(folder) / remote_path
            local_path.write_bytes(request.artifact.data)
            module = step["f_upload_module"](session, str(local_path), remote_path)
        infos = [["TENSOR", dtype, list(shape)] for dtype, shape in request.args_info]
        sets = step["f_alloc_argument"](session, where, infos, request.alloc_repeat)
        secs = step["f_run_evaluator"](session, module, where, request.evaluator, sets)
        return msgspec.msgpack.encode([float(each) for each in secs])
    finally:
        step["f_cleanup"](session, remote_path)
