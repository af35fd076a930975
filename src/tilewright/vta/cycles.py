"""The clock of the simulator: three modules, four queues of tokens, one port to main memory.

The model is approximate in what instructions cost (`duration`) and exact in what they wait for. A
matrix operation takes a cycle; so does an ALU operation with a number, one with a row takes two.
A transfer takes, for each row, the latency of memory and a cycle for each piece as wide as the bus.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.errors import DeviceError
from tilewright.vta.configuration import Configuration
from tilewright.vta.isa import (
    Alu,
    Engine,
    Finish,
    Gemm,
    Instruction,
    LoadRows,
    MemoryKind,
    StoreRows,
    module_of,
)

PIPELINE_FILL = 10  # cycles until the first result of a row of operations is written
_NEIGHBOURS = {"prev": -1, "next": 1}


@dataclass(frozen=True)
class CycleReport:
    """What a program costs, and the order in which its instructions start."""

    cycles: int
    busy: Mapping[str, int]  # cycles by module
    waiting: Mapping[str, int]  # cycles that modules waited for tokens
    moved_bytes: Mapping[str, int]  # by memory
    gemm_operations: int
    alu_operations: int
    bound: int  # cycles that no schedule of these operations and transfers can get below
    order: tuple[int, ...]

    def __str__(self) -> str:
        busy = ", ".join(f"{name} {count}" for name, count in self.busy.items())
        return f"{self.cycles} cycles (at least {self.bound}); busy: {busy}"


def duration(instruction: Instruction, configuration: Configuration) -> int:
    """Cycles of one instruction."""
    match instruction:
        case Finish():
            return 1
        case Gemm():
            return instruction.operations + PIPELINE_FILL
        case Alu():
            return instruction.operations * (1 if instruction.use_imm else 2) + PIPELINE_FILL
    row = instruction.x_size * configuration.element_bytes[MemoryKind(instruction.memory)]
    each = configuration.row_latency_cycles + -(-row // configuration.bus_bytes)
    padding = instruction.elements - instruction.x_size * instruction.y_size
    return instruction.y_size * each + padding


class _Clock:
    """Modules, tokens and the bus at a moment."""

    def __init__(self, program: Sequence[Instruction], configuration: Configuration) -> None:
        self.program, self.configuration = program, configuration
        self.queues: dict[Engine, deque[int]] = {module: deque() for module in Engine}
        for number, instruction in enumerate(program):
            self.queues[module_of(instruction)].append(number)
        self.tokens: dict[tuple[Engine, Engine], deque[int]] = {
            (Engine(a), Engine(b)): deque() for a, b in ((0, 1), (1, 0), (1, 2), (2, 1))
        }
        self.free = dict.fromkeys(Engine, 0)
        self.bus = 0
        self.busy, self.waiting = Counter[str](), Counter[str]()
        self.order: list[int] = []

    def ready_at(self, module: Engine) -> int | None:
        """When the next instruction of a module can start; None while a token is missing."""
        if not self.queues[module]:
            return None
        number = self.queues[module][0]
        moments = [self.free[module], number]  # one instruction is decoded in a cycle
        for source in self._partners(module, number, "pop"):
            waiting = self.tokens[source, module]
            if not waiting:
                return None
            moments.append(waiting[0])
        if isinstance(self.program[number], LoadRows | StoreRows):
            moments.append(self.bus)
        return max(moments)

    def run(self, module: Engine, start: int) -> None:
        """Let the next instruction of a module run."""
        number = self.queues[module].popleft()
        cycles = duration(self.program[number], self.configuration)
        for source in self._partners(module, number, "pop"):
            late = self.tokens[source, module].popleft() - self.free[module]
            name = f"{module.name.lower()} for {source.name.lower()}"
            self.waiting[name] += max(0, late)
        self.free[module] = start + cycles
        if isinstance(self.program[number], LoadRows | StoreRows):
            self.bus = start + cycles
        for target in self._partners(module, number, "push"):
            self.tokens[module, target].append(start + cycles)
        self.busy[module.name.lower()] += cycles
        self.order.append(number)

    def _partners(self, module: Engine, number: int, what: str) -> list[Engine]:
        instruction = self.program[number]
        steps = [s for side, s in _NEIGHBOURS.items() if getattr(instruction, f"{what}_{side}")]
        for step in steps:
            if not 0 <= module + step < len(Engine):
                raise DeviceError(
                    f"vta: instruction {number} of the {module.name.lower()} module names a "
                    "neighbour that this module does not have"
                )
        return [Engine(module + step) for step in steps]


def simulate_cycles(program: Sequence[Instruction], configuration: Configuration) -> CycleReport:
    """Run the clock over a program; what it computes is `machine.Simulator`'s business."""
    if not program or not isinstance(program[-1], Finish):
        raise DeviceError("vta: a program ends with finish")
    clock = _Clock(program, configuration)
    while any(clock.queues.values()):
        moments = {module: clock.ready_at(module) for module in Engine}
        # Who comes first in the program gets the bus first.
        ready = [(at, clock.queues[m][0], m) for m, at in moments.items() if at is not None]
        if not ready:
            raise DeviceError(f"vta: deadlock: {_stuck(clock)}")
        at, _, module = min(ready)
        clock.run(module, at)
    return _report(clock)


def _stuck(clock: _Clock) -> str:
    heads = [
        f"{module.name.lower()} waits at instruction {queue[0]}"
        for module, queue in clock.queues.items()
        if queue
    ]
    return ", ".join(heads) + " for tokens that nobody pushes"


def _report(clock: _Clock) -> CycleReport:
    moved = Counter[str]()
    for each in clock.program:
        if isinstance(each, LoadRows | StoreRows):
            memory = MemoryKind(each.memory)
            size = each.x_size * each.y_size * clock.configuration.element_bytes[memory]
            moved[memory.name.lower()] += size
    gemms = sum(each.operations for each in clock.program if isinstance(each, Gemm))
    alus = sum(each.operations for each in clock.program if isinstance(each, Alu))
    on_bus = -(-sum(moved.values()) // clock.configuration.bus_bytes)
    return CycleReport(
        max(clock.free.values()),
        dict(clock.busy),
        dict(clock.waiting),
        dict(moved),
        gemms,
        alus,
        max(gemms + alus, on_bus),
        tuple(clock.order),
    )
