"""From TensorIR to what code generators consume: one pass a file, in the order of `pipeline`."""

from tilewright.lowering.base import (
    FunctionPass,
    Pass,
    get_pass,
    list_passes,
    prim_func_pass,
    register_pass,
)
from tilewright.lowering.context import PassContext, Sequential
from tilewright.lowering.host_abi import ArgumentSpec, DerivedParameter, signature_of
from tilewright.lowering.pipeline import Stage, Stages, run_pipeline
from tilewright.lowering.verify_lowered import verify_lowered

__all__ = [
    "ArgumentSpec",
    "DerivedParameter",
    "FunctionPass",
    "Pass",
    "PassContext",
    "Sequential",
    "Stage",
    "Stages",
    "get_pass",
    "list_passes",
    "prim_func_pass",
    "register_pass",
    "run_pipeline",
    "signature_of",
    "verify_lowered",
]
