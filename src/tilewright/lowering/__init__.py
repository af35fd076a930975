"""From TensorIR to what code generators consume: one pass a file, in the order of `pipeline`."""

from tilewright.lowering.base import (
    FunctionPass as FunctionPass,
    Pass as Pass,
    get_pass as get_pass,
    list_passes as list_passes,
    prim_func_pass as prim_func_pass,
    register_pass as register_pass,
)
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
