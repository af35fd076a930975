"""Helpers that code for MetaSchedule imports from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tilewright.cost_model.base import CostModel
from tilewright.database import Database
from tilewright.errors import TuneError
from tilewright.features.base import FeatureExtractor
from tilewright.ir import IRModule, structural_hash
from tilewright.measure import Builder, Runner
from tilewright.records import RunnerFuture
from tilewright.runtime import get_global_func
from tilewright.search.base import SearchStrategy
from tilewright.space.base import Mutator, Postproc, ScheduleRule, SpaceGenerator
from tilewright.tune.callbacks import MeasureCallback, remove_build_dir as remove_build_dir
from tilewright.tune.context import thread_count
from tilewright.tune.policy import TaskScheduler

# Found by name without being in the registry, which holds what users registered.
_OWN = {"meta_schedule.remove_build_dir": remove_build_dir}


def cpu_count(logical: bool = True) -> int:
    """How many cores this process may use."""
    return thread_count("logical" if logical else "physical")


def fork_seed(seed: int | None, n: int) -> list[int]:
    """Seeds for n tasks from one; different ones at each call without a seed."""
    return [int(each) for each in np.random.RandomState(seed).randint(1, 2**30, n)]


def shash2hex(mod: IRModule) -> str:
    """The structural hash of a module as a text."""
    return f"{structural_hash(mod):#018x}"


def get_global_func_with_default_on_worker(
    name: str | Callable[..., object] | None, default: Callable[..., object]
) -> Callable[..., object]:
    """The function that a hook means: a registered one by name, itself, or the default for none."""
    if name is None:
        return default
    if not isinstance(name, str):
        return name
    return _OWN.get(name) or get_global_func(name)


CONTRACTS = (
    Builder,
    CostModel,
    Database,
    FeatureExtractor,
    MeasureCallback,
    Mutator,
    Postproc,
    Runner,
    RunnerFuture,
    ScheduleRule,
    SearchStrategy,
    SpaceGenerator,
    TaskScheduler,
)
ClassT = TypeVar("ClassT", bound=type)


def derived_object(cls: ClassT) -> ClassT:
    """The class itself, which must derive from one of the contracts (`PyScheduleRule`, ...).

    TVM needs this around Python classes, we do not. It adds what code for TVM expects of such a
    class: `_outer()`, which there leads to the object that C++ holds, and a text with its name.
    """
    if not issubclass(cls, CONTRACTS):
        names = ", ".join(f"Py{contract.__name__}" for contract in CONTRACTS)
        raise TuneError(f"@derived_object: {cls.__name__} derives from none of {names}")
    derived: Any = cls
    derived._outer = lambda member: member
    if derived.__str__ is object.__str__ and derived.__repr__ is object.__repr__:
        derived.__str__ = lambda member: f"meta_schedule.{type(member).__name__}({id(member):#x})"
    return cls
