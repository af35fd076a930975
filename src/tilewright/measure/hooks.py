"""Functions of users by name, so that a worker can import them.

A hook is given as "package.module:function", as the name of a global function
(`runtime.register_func`, usually registered by the pool's initializer), or as a plain function,
which travels under its qualified name. A function that no other process can import (a lambda, a
function inside a function, one of a script or a notebook) has no such name: builders and runners
then do their work inside the calling process, without protection from crashes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tilewright.errors import TuneError
from tilewright.runtime.registry import get_global_func

Hook = str | Callable[..., object]


def resolve_hook(hook: Hook) -> Callable[..., Any]:
    """The function behind a hook, in this process."""
    if not isinstance(hook, str):
        return hook
    if ":" not in hook:
        return get_global_func(hook)
    module_name, _, path = hook.partition(":")
    try:
        value: object = importlib.import_module(module_name)
    except ImportError as error:
        raise TuneError(f"hook {hook!r}: cannot import {module_name!r}: {error}") from error
    for part in path.split("."):
        value = getattr(value, part, None)
    if not callable(value):
        raise TuneError(f"hook {hook!r}: {module_name} has no function {path!r}")
    return value


def importable_name(hook: Hook) -> str | None:
    """The name under which another process may find a hook; None if there is none."""
    if isinstance(hook, str):
        return hook
    module = getattr(hook, "__module__", None)
    path = getattr(hook, "__qualname__", "")
    if module in (None, "__main__") or not path or "<" in path:
        return None
    name = f"{module}:{path}"
    try:
        return name if resolve_hook(name) is hook else None
    except TuneError:
        return None


def check_names(payload: bytes) -> bytes:
    """A task for workers: every name of the payload, one a line, can be resolved there."""
    for name in payload.decode().splitlines():
        resolve_hook(name)
    return b""
