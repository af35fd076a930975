"""From TensorIR to what code generators consume: one pass a file, in the order of `pipeline`."""

from tilewright.lowering.base import *  # noqa: F403 - its `__all__`
from tilewright.lowering.context import PassContext as PassContext, Sequential as Sequential
from tilewright.lowering.host_abi import (
    ArgumentSpec as ArgumentSpec,
    DerivedParameter as DerivedParameter,
    signature_of as signature_of,
)
from tilewright.lowering.pipeline import (
    Stage as Stage,
    Stages as Stages,
    run_pipeline as run_pipeline,
)
from tilewright.lowering.verify_lowered import verify_lowered as verify_lowered
