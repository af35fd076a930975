"""Places of arrays in the main memory of a VTA."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright import ir
from tilewright.codegen.vta import scratchpads
from tilewright.codegen.vta.program import PlacedTensor
from tilewright.errors import CodegenError
from tilewright.lowering.host_abi import signature_of

ALIGNMENT = 256  # bytes: the largest element


def placed_tensors(func: ir.PrimFunc) -> Mapping[ir.Var, PlacedTensor]:
    """Places in main memory for arguments and buffers outside of scratchpads."""
    made: dict[ir.Var, PlacedTensor] = {}
    at = 0
    specs = signature_of(func)
    if len(specs) != len(func.params) or any(spec.kind != "buffer" for spec in specs):
        raise CodegenError(
            f"vta: function {func.name!r} takes numbers, or arrays of unknown sizes; instructions "
            "need sizes that are known"
        )
    for position, (param, spec) in enumerate(zip(func.params, specs, strict=True)):
        size = int(np.prod([int(e) for e in spec.shape])) * ir.DType(spec.dtype).itemsize
        planes = 4 if spec.access == "w" and spec.dtype == "int32" else 1
        made[param] = PlacedTensor(spec.name, at, size, position, "w" in spec.access, planes)
        at = -(-(at + size) // ALIGNMENT) * ALIGNMENT
    for each in ir.nodes_of(func.body, ir.Allocate):
        if scratchpads.scope_of(each) == "global":
            size = scratchpads.numbers_of(each) * each.dtype.itemsize
            made[each.buffer_var] = PlacedTensor(each.buffer_var.name, at, size)
            at = -(-(at + size) // ALIGNMENT) * ALIGNMENT
    return made
