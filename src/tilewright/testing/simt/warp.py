"""One warp: a coroutine whose 32 lanes run in step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tilewright import ir
from tilewright.testing.simt.given_sums import GivenSums
from tilewright.testing.simt.products import WARPS, WarpGroup
from tilewright.testing.simt.scheduler import GO_ON, Scheduler
from tilewright.testing.simt.shared_memory import SharedMemory
from tilewright.testing.simt.tensor_maps import CopyMap
from tilewright.testing.simt.threads import (
    Array,
    LockstepThreads,
    RaceError,
    ThreadMemory,
    Value,
    Wait,
    function_name,
    scope_of,
)
from tilewright.testing.simt.warp_state import BulkStores, WarpProducts

LANES = 32
Arguments: TypeAlias = Sequence[ir.PrimExpr]
# Run a device function for its effect, or for its value.
Effect: TypeAlias = "Callable[[Warp, Arguments], Iterator[Wait] | None]"
Result: TypeAlias = "Callable[[Warp, Arguments], Value]"


@dataclass
class NamedBarrier:
    """A barrier of some threads of a block."""

    threads: int
    arrived: int = 0
    turn: int = 0

    def arrive(self) -> None:
        """A warp is there; the last one lets all go on."""
        self.arrived += LANES
        if self.arrived >= self.threads:
            self.turn, self.arrived = self.turn + 1, 0


@dataclass
class Cluster:
    """Blocks that run at the same time, and their barrier."""

    barrier: NamedBarrier
    blocks: list[BlockState] = field(default_factory=list)


@dataclass(eq=False)
class BlockState:
    """What the warps of a block share."""

    threads: int
    shared: SharedMemory
    scheduler: Scheduler
    groups: Mapping[int, WarpGroup]
    cluster: Cluster
    given: GivenSums
    named: dict[int, NamedBarrier] = field(default_factory=dict)
    running: int = 0  # warps

    @property
    def interval(self) -> int:
        """A number that grows whenever threads meet."""
        barriers = (*self.named.values(), self.cluster.barrier)
        return sum(barrier.turn for barrier in barriers)


@dataclass(frozen=True)
class DeviceFunctions:
    """Finds device functions by name."""

    effect: Callable[[str], Effect]
    result: Callable[[str], Result | None]


class Warp(LockstepThreads):
    """A warp of a block."""

    def __init__(
        self,
        block: BlockState,
        number: int,
        places: Mapping[str, Array],
        params: Mapping[ir.Var, Any],
        functions: DeviceFunctions,
    ) -> None:
        super().__init__(places, LANES)
        self.block = block
        rank = block.cluster.blocks.index(block)
        self.name = f"warp {number} of block {rank}" if rank else f"warp {number}"
        self.group = block.groups[number // WARPS]
        self.products = WarpProducts(self.group, number)
        self.stores = BulkStores()
        self.unfenced: list[Array] = []  # addresses that were written since the last fence
        self._functions = functions
        self._maps = {var: each for var, each in params.items() if isinstance(each, CopyMap)}
        self.bind(params)

    def run(self, body: ir.Stmt) -> Iterator[Wait]:
        """Run the kernel."""
        self.block.running += 1
        yield from self.steps(body)
        self.products.check_end()
        self.stores.check_end()
        self.block.running -= 1

    def allocate(self, node: ir.Allocate) -> None:
        """Shared memory is there already, and used by its addresses."""
        if scope_of(node) != "shared.dyn":
            self.allocate_registers(node)

    def evaluate(self, call: ir.Call, name: str) -> Iterator[Wait]:
        """Run a device function; others may have their turn after it."""
        is_extern = isinstance(call.args[0], ir.StringImm) and call.args[0].value == name
        waits = self._functions.effect(name)(self, call.args[1:] if is_extern else call.args)
        if waits is not None:
            yield from waits
        yield GO_ON

    # --- arguments -----------------------------------------------------------------------------

    def lanes(self, expr: ir.PrimExpr) -> Array:
        """The value of each lane."""
        return np.broadcast_to(self.value(expr), (LANES,))

    def number(self, expr: ir.PrimExpr) -> int:
        """The value that all lanes have."""
        if isinstance(expr, ir.IntImm):
            return expr.value
        value = self.value(expr)
        if np.ndim(value) == 0:
            return int(value)
        found = value[self._mask]
        if np.any(found != found[0]):
            raise RaceError(f"lanes of {self.name} differ in `{expr}`")
        return int(found[0])

    def map(self, expr: ir.PrimExpr) -> CopyMap:
        """A tensor map."""
        assert isinstance(expr, ir.Var)
        return self._maps[expr]

    def memory(self, buffer: ir.Buffer) -> ThreadMemory:
        """The memory of a buffer."""
        return self._memory[buffer.data]

    @property
    def active(self) -> int:
        """How many lanes take part."""
        return int(self._mask.sum())

    @property
    def taken(self) -> Array:
        """Which lanes take part."""
        return self._mask

    def need(self, lanes: int, what: str) -> None:
        """Refuse a call that more or fewer lanes make."""
        if self.active != lanes:
            raise RaceError(f"{self.active} lanes of {self.name} run {what}, expected {lanes}")

    # --- what is different for a warp ----------------------------------------------------------

    def _touch(self, memory: ThreadMemory, dtype: ir.DType, index: Array, *, write: bool) -> None:
        super()._touch(memory, dtype, index, write=write)
        self.products.touch(memory)

    def _call(self, node: ir.Call) -> Value:
        compute = self._functions.result(function_name(node))
        return super()._call(node) if compute is None else compute(self, node.args[1:])
