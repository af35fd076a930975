"""`@derived_object`: TVM needs it around Python classes, we do not.

It checks the class, and adds what code for TVM expects of such a class: `_outer()`, which there
leads to the object that C++ holds, and a text with the name of the class.
"""

from __future__ import annotations

from typing import Any, TypeVar

from tilewright.cost_model.base import CostModel
from tilewright.database import Database
from tilewright.errors import TuneError
from tilewright.features.base import FeatureExtractor
from tilewright.measure import Builder, Runner
from tilewright.records import RunnerFuture
from tilewright.search.base import SearchStrategy
from tilewright.space.base import Mutator, Postproc, ScheduleRule, SpaceGenerator
from tilewright.tune.callbacks import MeasureCallback
from tilewright.tune.policy import TaskScheduler

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
    """The class itself, which must derive from one of the contracts (`PyScheduleRule`, ...)."""
    if not issubclass(cls, CONTRACTS):
        names = ", ".join(f"Py{contract.__name__}" for contract in CONTRACTS)
        raise TuneError(f"@derived_object: {cls.__name__} derives from none of {names}")
    derived: Any = cls
    derived._outer = _itself
    if derived.__str__ is object.__str__ and derived.__repr__ is object.__repr__:
        derived.__str__ = _text
    return cls


def _itself(member: object) -> object:
    return member


def _text(member: object) -> str:
    return f"meta_schedule.{type(member).__name__}({id(member):#x})"
