"""The two actors of a node: one builds, one measures.

Both have one method, which takes and returns bytes. They work through the builder and the runner of
one machine, in worker processes of their own: a candidate that crashes takes no actor with it.
"""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tilewright.codegen.artifact import Artifact
from tilewright.errors import MachineError
from tilewright.fleet import messages
from tilewright.fleet.calibration import calibration_secs
from tilewright.fleet.messages import (
    ActorReply,
    BuildAnswer,
    BuilderSettings,
    BuildOrder,
    RunnerSettings,
    RunOrder,
)
from tilewright.fleet.session_runner import SessionRunner
from tilewright.measure import LocalBuilder, LocalRunner
from tilewright.measure.hooks import resolve_hook
from tilewright.measure.memory import usable_memory
from tilewright.measure.wire import MACHINE, RUN_ERROR
from tilewright.records import FailureKind, RunnerInput, RunnerResult
from tilewright.runtime.threads import available_cores
from tilewright.target import Target

_artifacts = msgspec.msgpack.Decoder(Artifact)
_encode = msgspec.msgpack.encode


class Actor:
    """Does tasks by name."""

    def perform(self, what: str, payload: bytes, *artifacts: bytes) -> bytes:
        """The task of that name; whatever it raises becomes an answer."""
        task: Callable[..., bytes] = getattr(self, what)
        try:
            reply = ActorReply(task(payload, *artifacts))
        except MachineError as error:
            reply = ActorReply(failure=MACHINE, message=str(error))
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            reply = ActorReply(failure=RUN_ERROR, message=text)
        return _encode(reply)

    def describe(self, payload: bytes) -> bytes:
        """The facts of this node."""
        return _encode(messages.facts_of_this_node())


class _NodeBuilder(LocalBuilder):
    owner = "RayBuilder"


class BuildActor(Actor):
    """Compiles one candidate at a time, for this node or another one."""

    def __init__(self, settings: bytes) -> None:
        given = msgspec.msgpack.decode(settings, type=BuilderSettings)
        options: dict[str, Any] = msgspec.structs.asdict(given)
        share = usable_memory() // available_cores()  # other cores have builders, too
        self._builder = _NodeBuilder(max_workers=1, memory_limit=share, **options)

    def build(self, payload: bytes) -> bytes:
        """A `BuildOrder`; its `BuildAnswer`."""
        order = msgspec.msgpack.decode(payload, type=BuildOrder)
        request = order.request
        if Target(request.target).fingerprint != order.fingerprint:
            request = msgspec.structs.replace(request, target=order.portable)
        (result,) = self._builder.build_prepared([request])
        if result.artifact is None and result.artifact_path is not None:
            text = (
                f"RayBuilder: f_export wrote {result.artifact_path}, which cannot travel to "
                "another machine; leave f_export out"
            )
            return _encode(BuildAnswer(message=text, failure=FailureKind.BUILD_ERROR))
        if result.artifact_path is not None:
            shutil.rmtree(Path(result.artifact_path).parent, ignore_errors=True)
        return _encode(BuildAnswer(result.artifact, result.error_msg, result.failure))


class MeasureActor(Actor):
    """Measures one candidate at a time, on a device that is its own."""

    def __init__(self, settings: bytes) -> None:
        self._settings = msgspec.msgpack.decode(settings, type=RunnerSettings)
        self._runner = _runner_of(self._settings)

    def run(self, payload: bytes, artifact: bytes, *reference: bytes) -> bytes:
        """A `RunOrder`; its `RunnerResult`."""
        order = msgspec.msgpack.decode(payload, type=RunOrder)
        (future,) = self._runner.run([_input(order, artifact, *reference)])
        return _encode(future.result())

    def again(self, payload: bytes, *artifacts: bytes) -> bytes:
        """Several orders and a number of rounds; their results, measured in turns."""
        orders, rounds = msgspec.msgpack.decode(payload, type=tuple[list[RunOrder], int])
        assert isinstance(self._runner, LocalRunner)
        waiting = iter(artifacts)
        inputs = [
            _input(order, next(waiting), *([next(waiting)] if order.reference else []))
            for order in orders
        ]
        return _encode(list[RunnerResult](self._runner.measure_again(inputs, rounds)))

    def calibrate(self, payload: bytes) -> bytes:
        """The seconds that the calibration kernel takes here."""
        hook = self._settings.calibration
        if hook is not None:
            return _encode(float(resolve_hook(hook)()))
        return _encode(calibration_secs(self._settings.device_type))


def _runner_of(settings: RunnerSettings) -> LocalRunner | SessionRunner:
    if settings.session_hooks:
        return SessionRunner(settings)
    given: dict[str, Any] = msgspec.structs.asdict(settings)
    for name in ("device_type", "calibration", "session_hooks", "session_config"):
        del given[name]
    hooks = given.pop("hooks")
    return LocalRunner(**given, **hooks)


def _input(order: RunOrder, artifact: bytes, *reference: bytes) -> RunnerInput:
    expected = _artifacts.decode(reference[0]) if reference else None
    return order.as_input(_artifacts.decode(artifact), expected)
