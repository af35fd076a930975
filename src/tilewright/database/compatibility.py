"""Decides whether a record that was measured for one target may be used for another.

The kind must be the same. A CPU must have all extensions that the record could use; a GPU must be
of an architecture that runs its code and grant at least the resources that the schedule could
count on. A record of the very same machine is preferred over one that is merely compatible.
"""

from __future__ import annotations

import enum
import functools
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from tilewright.ir.tensor_intrin import features_of_intrin
from tilewright.records import TargetIdentity, TuningRecord, read_target
from tilewright.schedule import Trace
from tilewright.schedule.primitives.tensorize import Tensorize
from tilewright.schedule.trace.instruction import is_step
from tilewright.target import Target


class Fit(enum.IntEnum):
    """How well a record fits a target; lower is better."""

    SAME = 0
    COMPATIBLE = 1
    UNKNOWN = 2  # a record that names no target


@functools.lru_cache(maxsize=256)
def identity_of(target: Target) -> TargetIdentity:
    """What has to be kept of a target so that it means the same on another machine."""
    description = target.export()
    if not target.is_cpu:
        return TargetIdentity(description, target.fingerprint, is_complete=True)
    # What was detected is written down: elsewhere, detection would find something else.
    description.setdefault("mcpu", target.mcpu)
    description.setdefault("num-cores", target.num_cores)
    features = target.cpu.compute_features
    known = dict(sorted(description.items()))
    return TargetIdentity(known, target.fingerprint, features, is_complete=True)


def identity_of_record(record: TuningRecord) -> TargetIdentity | None:
    """The target of a record where it was measured; None if it names none."""
    if record.identity is not None:
        return completed(record.identity)
    return None if record.target is None else identity_of(record.target)


def completed(identity: TargetIdentity) -> TargetIdentity:
    """With what follows from the description, which is all that TVM's files hold."""
    if identity.is_complete:
        return identity
    description = identity.description
    target = read_target(description)
    if target is None or (target.is_cpu and "mcpu" not in description):
        # A kind we do not know, or any CPU: TVM's "llvm" does not mean this one.
        return replace(identity, is_complete=True)
    features = target.cpu.compute_features if target.is_cpu else None
    return TargetIdentity(description, target.fingerprint, features, is_complete=True)


def fit_of_record(record: TuningRecord, target: Target) -> Fit | None:
    """How well a record fits a target; None: it must not be used there."""
    measured = identity_of_record(record)
    if measured is None:
        return Fit.UNKNOWN
    found = fit(measured, identity_of(target))
    if found is Fit.COMPATIBLE and measured.features is None and target.is_cpu:
        return found if needed_features(record.trace) <= set(target.features) else None
    return found


def fit(measured: TargetIdentity, wanted: TargetIdentity) -> Fit | None:
    """How well what was measured for one target fits another; None: not at all."""
    kind = measured.description.get("kind")
    if kind != wanted.description.get("kind"):
        return None
    if measured.fingerprint is not None and measured.fingerprint == wanted.fingerprint:
        return Fit.SAME
    rule = _RULES.get(str(kind))
    return Fit.COMPATIBLE if rule is not None and rule(measured, wanted) else None


# --- CPUs ---------------------------------------------------------------------------------------


def needed_features(trace: Trace) -> set[str]:
    """The extensions of the CPU that the tensor intrinsics of a trace need.

    It is asked for records that do not say which CPU they are for.
    """
    names = (inst.step.tensor_intrin for inst in trace.insts if is_step(inst, Tensorize))
    return {feature for name in names for feature in features_of_intrin(name)}


def _cpu_fits(measured: TargetIdentity, wanted: TargetIdentity) -> bool:
    if measured.features is None:
        # Any CPU is meant if none is named; one that we cannot name may be able to do anything.
        return "mcpu" not in measured.description
    return set(measured.features) <= set(wanted.features or ())


# --- GPUs ---------------------------------------------------------------------------------------

# A schedule may use all that its target grants, so the other one must grant as much.
_GPU_RULES: Mapping[str, Callable[[int, int], bool]] = {
    "max_num_threads": operator.le,
    "max_threads_per_block": operator.le,
    "max_shared_memory_per_block": operator.le,
    "registers_per_block": operator.le,
    "thread_warp_size": operator.eq,
}


def _gpu_fits(measured: TargetIdentity, wanted: TargetIdentity) -> bool:
    ours, theirs = measured.description, wanted.description
    if not _arch_runs(str(ours.get("arch", "")), str(theirs.get("arch", ""))):
        return False
    both = [name for name in _GPU_RULES if name in ours and name in theirs]
    values = [(_GPU_RULES[name], ours[name], theirs[name]) for name in both]
    return all(isinstance(a, int) and isinstance(b, int) and rule(a, b) for rule, a, b in values)


def _arch_runs(measured: str, wanted: str) -> bool:
    """Code for `sm_80` runs on later ones; `sm_90a` only there; `sm_100f` within its family."""
    if measured == wanted:
        return True
    ours, theirs = (re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch) for arch in (measured, wanted))
    if ours is None or theirs is None:
        return False
    family, minor, suffix = ours.groups()
    if suffix == "a":
        return False
    if suffix == "f":
        return theirs[1] == family and int(theirs[2]) >= int(minor)
    return (int(theirs[1]), int(theirs[2])) >= (int(family), int(minor))


_RULES: Mapping[str, Callable[[TargetIdentity, TargetIdentity], bool]] = {
    "llvm": _cpu_fits,
    "c": _cpu_fits,
    "cuda": _gpu_fits,
}
