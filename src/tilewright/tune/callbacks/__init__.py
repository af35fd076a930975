"""Measure callbacks, one file each."""

from tilewright.tune.callbacks.add_to_database import AddToDatabase as AddToDatabase
from tilewright.tune.callbacks.base import (
    MeasureCallback as MeasureCallback,
    measure_callbacks as measure_callbacks,
)
from tilewright.tune.callbacks.remove_build_artifact import (
    RemoveBuildArtifact as RemoveBuildArtifact,
)
from tilewright.tune.callbacks.update_cost_model import UpdateCostModel as UpdateCostModel


def default_callbacks() -> list[MeasureCallback]:
    """What tuning does with each round unless told otherwise."""
    return MeasureCallback.create("default")
