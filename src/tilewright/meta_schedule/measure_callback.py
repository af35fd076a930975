"""Measure callbacks."""

from tilewright.tune.callbacks import (
    AddToDatabase as AddToDatabase,
    MeasureCallback as MeasureCallback,
    RemoveBuildArtifact as RemoveBuildArtifact,
    UpdateCostModel as UpdateCostModel,
    default_callbacks as default_callbacks,
)

PyMeasureCallback = MeasureCallback
create = MeasureCallback.create
