"""The roofline of a machine: no program is faster than its arithmetic and its data allow.

The peaks of the machine are measured beside the kernels, or else those that it is built for. A
share of the roofline tells a kernel that leaves a factor of five from one that leaves nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.cost_model.prior import operations_per_cycle
from tilewright.ir import DType, IRModule
from tilewright.records import args_info_of
from tilewright.report.peaks import BuiltFor, Peaks
from tilewright.schedule.analysis import flop_of as flop_of
from tilewright.target import Target


@dataclass(frozen=True)
class Roofline:
    """The least time that a program takes, and what that time goes into."""

    seconds: float
    bound: str  # "compute" or "memory"

    def share(self, measured: float | None) -> float | None:
        """How much of what is possible a measured time makes use of.

        Never more than all of it: what was done is possible. A kernel that seems faster skips
        operations that were counted, or ran in a better moment than the peaks.
        """
        return None if not measured else min(1.0, self.seconds / measured)


def roofline_of(
    mod: IRModule, target: Target | None, peaks: Peaks | None = None
) -> Roofline | None:
    """The roofline of a program; None where the figures of the machine are not known.

    Without peaks that were measured those count that the target is built for.
    """
    if target is None or not target.is_cpu:
        return None
    known, arguments = peaks or BuiltFor(target), args_info_of(mod)
    dtypes = [info.dtype for info in arguments]
    factor = operations_per_cycle(target, dtypes) / operations_per_cycle(target)
    compute = flop_of(mod) / (known.operations() * factor)
    size = bytes_of(mod)
    memory = size / known.bandwidth(size)
    return Roofline(max(compute, memory), "compute" if compute >= memory else "memory")


def bytes_of(mod: IRModule) -> int:
    """The size of all arguments of a program."""
    return sum(math.prod(info.shape) * DType(info.dtype).bits // 8 for info in args_info_of(mod))
