"""Places the hooks of a builder or a runner: in its workers, or in the calling process.

There a thread does a task, so that one that takes too long can be given up; it cannot be killed,
and goes on in the background. A crash of the task is a crash of the caller.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import MachineError, RegistryError, TuneError
from tilewright.measure.hooks import Hook, importable_name, resolve_hook
from tilewright.measure.memory import LEAST, can_get
from tilewright.measure.pool import Outcome, PoolOptions, Task, WorkerPool
from tilewright.records import FailureKind
from tilewright.support.machine_faults import as_machine_faults, is_lack_of_memory, machine_fault

_CHECK = "tilewright.measure.hooks:check_names"
_CHECK_TIMEOUT = 60.0
_log = logging.getLogger("tilewright.measure")


@dataclass(frozen=True)
class HookPlacement:
    """The pool that does the work, or none if the calling process does it.

    Hooks are names for workers, functions for the calling process.
    """

    pool: WorkerPool | None
    hooks: Mapping[str, str | Callable[..., object]]


class PlacedMember:
    """A builder or a runner, with the place where its work is done and a folder for its files."""

    _placement: HookPlacement
    _folder: SessionFolder

    def warm_up(self) -> None:
        """Start the workers now, without waiting for them."""
        if self._placement.pool is not None:
            self._placement.pool.warm_up()

    def close(self) -> None:
        """End the workers and remove all files now, rather than with this object."""
        if self._placement.pool is not None:
            self._placement.pool.close()
        self._folder.remove()


def place(
    owner: str,
    options: Callable[[str | None], PoolOptions],
    hooks: Mapping[str, Hook | None],
    initializer: Hook | None,
) -> HookPlacement:
    """Workers if they can import all hooks; otherwise the calling process, and a warning.

    `options` makes the pool's options from the name of the initializer.
    """
    given = {name: hook for name, hook in hooks.items() if hook is not None}
    reason = _why_not_by_name({**given, "initializer": initializer})
    if not reason:
        start = importable_name(initializer) if initializer is not None else None
        names = {name: str(importable_name(hook)) for name, hook in given.items()}
        pool = WorkerPool(options(start))
        reason = _what_workers_miss(pool, names) if given or start else ""
        if not reason:
            return HookPlacement(pool, names)
        pool.close()
    functions = _resolved_here(owner, given, initializer, reason)
    _log.warning(
        "%s: %s; the hooks run in this process, where a crash or a lack of memory is not contained "
        "and a time-out does not end what runs. Put them into a module that can be imported.",
        owner,
        reason,
    )
    return HookPlacement(None, functions)


def _why_not_by_name(hooks: Mapping[str, Hook | None]) -> str:
    for name, hook in hooks.items():
        if hook is not None and importable_name(hook) is None:
            shown = getattr(hook, "__qualname__", repr(hook))
            module = getattr(hook, "__module__", "?")
            return f"{name} ({shown} of {module}) cannot be imported by name in a worker process"
    return ""


def _what_workers_miss(pool: WorkerPool, names: Mapping[str, str]) -> str:
    payload = "\n".join(names.values()).encode()
    try:
        (outcome,) = pool.run([Task(_CHECK, payload, _CHECK_TIMEOUT)])
    except MachineError:
        raise
    except TuneError as error:  # the initializer failed
        return str(error)
    if outcome.failure is None:
        return ""
    last = outcome.message.strip().splitlines()[-1:] or [str(outcome.failure.value)]
    return f"a worker process cannot resolve the hooks: {last[0]}"


def _resolved_here(
    owner: str, hooks: Mapping[str, Hook], initializer: Hook | None, reason: str
) -> dict[str, Callable[..., object]]:
    functions = {}
    try:
        if initializer is not None:
            resolve_hook(initializer)()
        for name, hook in hooks.items():
            functions[name] = resolve_hook(hook)
    except (RegistryError, TuneError) as error:
        raise TuneError(f"{owner}: {error} ({reason})") from error
    return functions


def run_in_process(work: Callable[[], bytes], timeout_sec: float) -> Outcome:
    """The outcome of a task, or that it has not ended in time."""
    outcomes: list[Outcome | MachineError] = []

    def attempt() -> None:
        try:
            outcomes.append(Outcome(payload=work()))
        except BaseException as error:
            outcomes.append(_failure(error))

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(timeout_sec)
    outcome = outcomes[0] if outcomes else Outcome(failure=FailureKind.TIMEOUT)
    if isinstance(outcome, MachineError):
        raise outcome
    return outcome


def _failure(error: BaseException) -> Outcome | MachineError:
    if is_lack_of_memory(error) and can_get(LEAST):
        return Outcome(b"", FailureKind.OUT_OF_MEMORY, f"{type(error).__name__}: {error}")
    text = "".join(traceback.format_exception(error))
    return machine_fault(error) or Outcome(b"", FailureKind.RUN_ERROR, text)


_PREFIX = "tilewright-build-"
_LOCK_NAME = "lock"
_JUST_MADE_SECS = 60.0  # a folder so young may be waiting for its lock


class SessionFolder:
    """A temporary folder that goes away with its owner, even if the owner is killed.

    The owner holds a lock on a file in it for as long as it lives. Whoever makes the next such
    folder removes those whose lock nobody holds any more.
    """

    def __init__(self) -> None:
        with as_machine_faults():
            remove_abandoned_folders()
            self.path = tempfile.mkdtemp(prefix=_PREFIX)
            lock = os.open(Path(self.path) / _LOCK_NAME, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Remove the folder now."""
        self._finalizer()


def remove_abandoned_folders() -> None:
    """Remove the folders of sessions that did not live to do it themselves."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _JUST_MADE_SECS and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    if folder.stat().st_uid != os.getuid():
        return False
    lock = os.open(folder / _LOCK_NAME, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _remove(path: str, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # and not a fork of it
        shutil.rmtree(path, ignore_errors=True)
    os.close(lock)
