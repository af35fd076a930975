"""`VerifyVTCMLimit`: reject candidates that need more of a small fast memory than there is."""

from __future__ import annotations

import math

from tilewright.ir import Allocate, IntImm, Stmt, statements_in
from tilewright.ir.expr import PointerType
from tilewright.schedule import Schedule
from tilewright.space.base import Postproc, TaskContext, postprocs
from tilewright.space.gpu.gpu_limits import gpu_number
from tilewright.space.postprocs.disallow_async_strided_mem_copy import holds_flat

CAPACITY = "vtcm-capacity"
_SCOPE = "global.vtcm"


@postprocs.register("VerifyVTCMLimit")
class VerifyVTCMLimit(Postproc):
    """Accept programs whose buffers in `global.vtcm` fit; without a limit all do."""

    def __init__(self) -> None:
        self.vtcm_capacity = 0

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        self.vtcm_capacity = gpu_number(context.target, CAPACITY) or 0

    def apply(self, sch: Schedule) -> bool:
        most = self.vtcm_capacity
        return most <= 0 or holds_flat(sch.mod, lambda func: _peak_bytes(func.body) <= most)


def _peak_bytes(stmt: Stmt) -> float:
    """The most bytes that are allocated at the same time."""
    below = max(map(_peak_bytes, statements_in(stmt)), default=0)
    return below + _bytes(stmt) if isinstance(stmt, Allocate) else below


def _bytes(allocation: Allocate) -> float:
    kind = allocation.buffer_var.type_annotation
    if not isinstance(kind, PointerType) or kind.storage_scope != _SCOPE:
        return 0
    if not all(isinstance(extent, IntImm) for extent in allocation.extents):
        return math.inf
    elements = math.prod(e.value for e in allocation.extents if isinstance(e, IntImm))
    return elements * allocation.dtype.lanes * -(-allocation.dtype.bits // 8)
