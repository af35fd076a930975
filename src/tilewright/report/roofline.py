"""What a machine could do at best: no program is faster than its arithmetic and its data allow.

The figures of the machine are those of the analytic prior: what its vector units and caches are
built for. They are rough, and so is a share of the roofline; it tells a kernel that leaves a factor
of five from one that leaves nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.cost_model.prior import Machine
from tilewright.ir import DType, IRModule
from tilewright.records import TensorInfo, args_info_of
from tilewright.schedule.analysis import flop_of as flop_of
from tilewright.target import Target

_OPERATIONS_PER_LANE_AND_CYCLE = 4.0  # two multiply-adds
# Processors that do one multiply-add of 512 bits a cycle: two halves of it, or one unit for it.
_HALF_AS_MANY_IF_WIDE = frozenset({"znver4", "icelake-client", "rocketlake", "tigerlake"})
_SINGLE_BITS = 32


@dataclass(frozen=True)
class Roofline:
    """The least time that a program takes, and what that time goes into."""

    seconds: float
    bound: str  # "compute" or "memory"

    def share(self, measured: float | None) -> float | None:
        """How much of what is possible a measured time makes use of."""
        return None if not measured else self.seconds / measured


def roofline_of(mod: IRModule, target: Target | None) -> Roofline | None:
    """The roofline of a program; None where the figures of the machine are not known."""
    if target is None or not target.is_cpu:
        return None
    machine = Machine.of(target)
    arguments = args_info_of(mod)
    lanes = machine.vector_bytes * 8 / _widest_bits(arguments)
    peak = machine.cores * lanes * _operations_per_lane(target) * machine.hertz
    compute = flop_of(mod) / peak
    memory = _traffic_seconds(sum(map(_bytes, arguments)), machine)
    return Roofline(max(compute, memory), "compute" if compute >= memory else "memory")


def _operations_per_lane(target: Target) -> float:
    halved = target.vector_bits >= 512 and target.mcpu in _HALF_AS_MANY_IF_WIDE
    return _OPERATIONS_PER_LANE_AND_CYCLE / (2 if halved else 1)


def _traffic_seconds(size: int, machine: Machine) -> float:
    """Time to bring the arguments in from the smallest cache that holds them all."""
    if size <= machine.cores * machine.l2_bytes:
        speed = machine.cores * machine.l2_bytes_per_cycle
    elif size <= machine.l3_bytes:
        speed = machine.cores * machine.l3_bytes_per_cycle
    else:
        speed = machine.cores * machine.memory_bytes_per_cycle
    return size / (speed * machine.hertz)


def _widest_bits(arguments: tuple[TensorInfo, ...]) -> int:
    """The width of the widest argument, which sums have too."""
    return max((DType(info.dtype).bits for info in arguments), default=_SINGLE_BITS)


def _bytes(info: TensorInfo) -> int:
    return math.prod(info.shape) * DType(info.dtype).bits // 8
