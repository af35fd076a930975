"""Messages between a tuner and its actors: msgspec structs as bytes, never pickled objects.

Artefacts travel beside them, as bytes of their own in the object store.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

import msgspec

from tilewright.codegen.artifact import Artifact
from tilewright.errors import TuneError
from tilewright.fleet.rpc_config import RPCConfig
from tilewright.measure.arguments import TensorSpec
from tilewright.measure.artifact import read_artifact
from tilewright.measure.build_task import BuildRequest
from tilewright.measure.evaluator import EvaluatorConfig
from tilewright.measure.hooks import Hook, importable_name
from tilewright.records import FailureKind, RunnerInput, TensorInfo
from tilewright.runtime.devices import cuda
from tilewright.target import Target
from tilewright.target.isa import COMPUTE_FEATURES, host
from tilewright.version import __version__

# What actors do, by name.
DESCRIBE, BUILD, RUN, AGAIN, CALIBRATE = "describe", "build", "run", "again", "calibrate"


class ActorReply(msgspec.Struct, frozen=True):
    """The end of a task: a payload, or what went wrong."""

    payload: bytes = b""
    failure: str = ""
    message: str = ""


class NodeFacts(msgspec.Struct, frozen=True):
    """What an actor says of the node that it is on."""

    tilewright: str
    python: str
    fingerprints: dict[str, str]  # of the targets that it can run, by their kind
    missing: dict[str, str] = {}  # why it cannot run others


class BuildOrder(msgspec.Struct, frozen=True):
    """A candidate to compile."""

    request: BuildRequest
    fingerprint: str  # of its target where the tuner runs
    portable: dict[str, object]  # the same target in words that do not depend on the machine


class BuildAnswer(msgspec.Struct, frozen=True):
    """The artefact of a candidate, or why there is none."""

    artifact: Artifact | None = None
    message: str | None = None
    failure: FailureKind | None = None


class BuilderSettings(msgspec.Struct, frozen=True):
    """A builder on a node."""

    timeout_sec: float
    f_build: str | None = None
    initializer: str | None = None


class RunnerSettings(msgspec.Struct, frozen=True):
    """A runner on a node."""

    owner: str  # whom messages name
    timeout_sec: int | float  # as it was given: messages name it
    seed: int
    device_type: str
    evaluator_config: EvaluatorConfig | None = None
    cooldown_sec: float = 0.0
    alloc_repeat: int = 1
    hooks: dict[str, str] = {}
    initializer: str | None = None
    calibration: str | None = None  # a function that says the seconds; None: our own kernel
    session_hooks: dict[str, str] = {}  # functions of a runner with sessions, by TVM's names
    session_config: RPCConfig | None = None


class RunOrder(msgspec.Struct, frozen=True):
    """A candidate to run; its artefact and that of the reference travel beside it."""

    device_type: str
    args_info: tuple[TensorSpec, ...]
    artifact: str  # digests
    reference: str | None
    best_secs: float | None
    min_secs: float | None
    seed: int | None
    is_plain: bool
    row_offsets: dict[int, int]

    @staticmethod
    def of(given: RunnerInput, artifacts: Sequence[Artifact]) -> RunOrder:
        """The order for an input of a runner and its `artifacts_of`."""
        return RunOrder(
            given.device_type,
            tuple(TensorSpec(info.dtype, info.shape) for info in given.args_info),
            artifacts[0].digest,
            artifacts[1].digest if artifacts[1:] else None,
            given.best_secs,
            given.min_secs,
            given.seed,
            given.is_plain,
            dict(given.row_offsets),
        )

    def as_input(self, artifact: Artifact, reference: Artifact | None) -> RunnerInput:
        """The input for the runner on a node."""
        return RunnerInput(
            self.artifact,
            self.device_type,
            tuple(TensorInfo(info.dtype, info.shape) for info in self.args_info),
            reference_path=self.reference,
            artifact=artifact,
            reference=reference,
            best_secs=self.best_secs,
            min_secs=self.min_secs,
            seed=self.seed,
            is_plain=self.is_plain,
            row_offsets=self.row_offsets,
        )


def artifacts_of(given: RunnerInput) -> list[Artifact]:
    """The artefact of a candidate, and that of the reference if it has one, as values."""
    found = [given.artifact or _read(given.artifact_path)]
    if given.reference_path is not None:
        found.append(given.reference or _read(given.reference_path))
    return found


def _read(path: str) -> Artifact:
    """A path means nothing on another machine."""
    found = read_artifact(path)
    if found is None:
        raise TuneError(
            f"{path}: only artefacts of our builders can be sent to other machines; build with "
            "LocalBuilder or RayBuilder, without an f_export of your own"
        )
    return found


def facts_of_this_node() -> NodeFacts:
    """What the tuner has to know of the node that this process runs on."""
    missing = {"cuda": reason} if (reason := cuda(0).why_missing) else {}
    kinds = [kind for kind in ("llvm", "c", "cuda") if kind not in missing]
    fingerprints = {kind: Target(kind).fingerprint for kind in kinds}
    return NodeFacts(__version__, platform.python_version(), fingerprints, missing)


def portable(target: Target) -> dict[str, object]:
    """A target that means the same on another machine: what was detected here is written down."""
    description = target.export()
    if not target.is_cpu or not target.cpu.is_host:
        return description
    known = [name for name in COMPUTE_FEATURES if name in host().known_features]
    features = [f"{'+' if name in target.features else '-'}{name}" for name in known]
    return {
        **description,
        "mcpu": target.mcpu,
        "mtriple": target.cpu.triple,
        "num-cores": target.num_cores,
        "mattr": [*target.mattr, *features],
    }


def names_of(owner: str, hooks: Mapping[str, Hook | None]) -> dict[str, str]:
    """The names of functions of users: nodes import them; one that cannot be is an error."""
    names = {}
    for option, hook in hooks.items():
        if hook is None:
            continue
        name = importable_name(hook)
        if name is None:
            raise TuneError(
                f"{owner}: {option}={getattr(hook, '__qualname__', hook)!r} cannot be imported by "
                "name on another machine; put it into a module that is installed there"
            )
        names[option] = name
    return names
