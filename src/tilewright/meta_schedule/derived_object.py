"""`@derived_object`: TVM needs it around Python classes, we do not; it checks and lets pass."""

from __future__ import annotations

from typing import TypeVar

from tilewright.cost_model.base import CostModel
from tilewright.database import Database
from tilewright.errors import TuneError
from tilewright.features.base import FeatureExtractor
from tilewright.measure import Builder, Runner
from tilewright.search.base import SearchStrategy
from tilewright.space.base import Mutator, Postproc, ScheduleRule, SpaceGenerator
from tilewright.tune.callbacks import MeasureCallback
from tilewright.tune.schedulers import TaskScheduler

CONTRACTS = (
    Builder,
    CostModel,
    Database,
    FeatureExtractor,
    MeasureCallback,
    Mutator,
    Postproc,
    Runner,
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
    return cls
