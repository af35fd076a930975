"""Arithmetic and bandwidth that a processor is built for."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.cost_model.prior import Machine, operations_per_second
from tilewright.target import Target


@dataclass(frozen=True)
class BuiltFor:
    """What the vector units and caches of a target are built for, roughly, with all cores."""

    target: Target

    def operations(self) -> float:
        """Operations of single precision a second."""
        return operations_per_second(self.target)

    def bandwidth(self, size: int) -> float:
        """Bytes a second, read from as many bytes again and again."""
        machine = Machine.of(self.target)
        if size <= machine.cores * machine.l2_bytes:
            speed = machine.l2_bytes_per_cycle
        elif size <= machine.l3_bytes:
            speed = machine.l3_bytes_per_cycle
        else:
            speed = machine.memory_bytes_per_cycle
        return machine.cores * speed * machine.hertz
