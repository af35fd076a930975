"""The analytic prior of CPUs for whole populations: the formulas of `cost_model/prior` on arrays.

Loops of one iteration change nothing here, so that no case has to be told apart for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.algebra.nest_view import AccessView, NestView
from tilewright.cost_model.prior import SCALARS_PER_CYCLE, TILE_SCOPES, Machine
from tilewright.ir import ForKind

Floats = npt.NDArray[np.float64]
_FITS = 0.75  # of a cache can be used


def seconds_of(nests: Sequence[NestView], machine: Machine, packed_before: bool) -> Floats:
    """Seconds that programs take, from their nests as arrays."""
    total: Any = 1e-7
    started: dict[object, Any] = {}
    for nest in nests:
        if nest.packs_weights and packed_before:
            continue
        cost = NestCost(nest, machine)
        total = total + cost.seconds()
        key = cost.parallel_key
        begins = (cost.parallel_extent > 1) & ~started.get(key, np.False_)
        total = total + np.where(begins, machine.region_seconds * cost.times_region_starts, 0.0)
        started[key] = started.get(key, np.False_) | begins
    return np.atleast_1d(np.asarray(total, np.float64))


class NestCost:
    """The cost of one nest, for all rows."""

    def __init__(self, nest: NestView, machine: Machine) -> None:
        self._nest, self._machine = nest, machine
        self._extents = [np.asarray(slot.extent) for slot in nest.slots]
        self._runs = [extent > 1 for extent in self._extents]
        self._parallel = [
            runs & ((slot.kind is ForKind.PARALLEL) | (np.asarray(slot.in_parallel) != 0))
            for slot, runs in zip(nest.slots, self._runs, strict=True)
        ]
        self._vector = self._vector_slots()
        self._has_vector = _any(self._vector)
        self.vector_extent = self._product(self._vector)
        self.lanes = self.vector_extent
        self._mark_vector_reduction()
        self._inner = self._written_out()
        self._unrolled = [a & ~b for a, b in zip(self._inner, self._vector, strict=True)]
        self._outer = [a & ~b for a, b in zip(self._runs, self._inner, strict=True)]
        self.unrolled = self._product(self._unrolled)

    # --- the loops ------------------------------------------------------------------------------

    def _product(self, chosen: Sequence[Any]) -> Any:
        total: Any = np.float64(1.0)
        for mask, extent in zip(chosen, self._extents, strict=True):
            if mask.ndim or mask:
                total = total * np.where(mask, extent, 1)
        return total

    def _vector_slots(self) -> list[Any]:
        """The innermost vector, which decisions may have made of several slots."""
        found: list[Any] = []
        seen: Any = np.False_
        for slot, runs in zip(reversed(self._nest.slots), reversed(self._runs), strict=True):
            written = runs & (slot.kind is ForKind.VECTORIZED) & ~seen
            seen = seen | written
            found.insert(0, written | (runs & (np.asarray(slot.in_vector) != 0)))
        return found

    def _mark_vector_reduction(self) -> None:
        """Where no loop is a vector, the innermost one may be marked to add up as one."""
        width = np.asarray(self._nest.reduction_width)
        if not np.any(width):
            return
        innermost: Any = ~self._has_vector
        for position in range(len(self._runs) - 1, -1, -1):
            here = innermost & self._runs[position]
            chosen = here & (width > 0) & (self._extents[position] >= width)
            self._vector[position] = self._vector[position] | chosen
            self.lanes = np.where(chosen, width, self.lanes)
            self.vector_extent = np.where(chosen, self._extents[position], self.vector_extent)
            self._has_vector = self._has_vector | chosen
            innermost = innermost & ~here

    def _written_out(self) -> list[Any]:
        """The slots at the inside that are unrolled or part of a vector."""
        limit = np.asarray(self._nest.unroll_step)
        found: list[Any] = []
        alive: Any = np.True_
        steps: Any = np.float64(1.0)
        for position in range(len(self._runs) - 1, -1, -1):
            runs, parallel = self._runs[position], self._parallel[position]
            is_serial = self._nest.slots[position].kind is ForKind.SERIAL
            serial = runs & ~parallel & ~self._vector[position] & is_serial
            steps = np.where(alive & serial, steps * self._extents[position], steps)
            alive = alive & ~parallel & ~(serial & (steps > limit))
            found.insert(0, alive & runs)
        return found

    @property
    def parallel_extent(self) -> Any:
        """The iterations that run on all cores."""
        return self._product(self._parallel)

    @property
    def parallel_key(self) -> object:
        """The loop that nests share when they run in the same parallel loop."""
        for slot in self._nest.slots:
            if slot.kind is ForKind.PARALLEL:
                return slot.loop
        return self._nest.slots[0].loop if self._nest.slots else None

    @property
    def times_region_starts(self) -> Any:
        """How often the parallel loop is started."""
        count: Any = np.float64(1.0)
        before: Any = np.True_
        for parallel, extent in zip(self._parallel, self._extents, strict=True):
            before = before & ~parallel
            count = count * np.where(before, extent, 1)
        return count

    # --- costs ----------------------------------------------------------------------------------

    def seconds(self) -> Any:
        """All parts together, on all cores that the nest can use."""
        repeats = self._product(self._outer) * self.share
        repeats = repeats * np.ceil(self.vector_extent / self.lanes)
        parts = [repeats * self._cycles_inside(), *self._traffic_cycles()]
        most = np.maximum(np.maximum(parts[0], parts[1]), np.maximum(parts[2], parts[3]))
        cycles = most + 0.3 * (sum(parts) - most)
        return cycles / self._machine.hertz / self._speed_up()

    @property
    def share(self) -> Any:
        """Of the iterations, those that predicates let through."""
        share: Any = np.float64(1.0)
        for limit, covered in self._nest.shares:
            share = share * np.minimum(1.0, np.asarray(limit) / np.asarray(covered))
        return share

    def _speed_up(self) -> Any:
        extent = self.parallel_extent
        cores = np.minimum(self._machine.cores, extent)
        return extent / np.ceil(extent / cores)

    def _moves_in(self, access: AccessView, slots: Sequence[Any]) -> Any:
        """True where some of the chosen slots move an access."""
        moves: Any = np.False_
        for mask, depends in zip(slots, access.depends, strict=True):
            moves = moves | (mask & (np.asarray(depends) != 0))
        return moves

    def _is_along(self, access: AccessView) -> Any:
        """True where neighbours in a vector are neighbours in memory."""
        along: Any = np.True_
        waiting: Any = np.True_  # for the innermost slot of the vector
        for position in range(len(self._vector) - 1, -1, -1):
            vector = self._vector[position]
            depends = np.asarray(access.depends[position]) != 0
            unit = np.asarray(access.unit_stride[position]) != 0
            along = along & (~vector | (depends & (unit | ~waiting)))
            waiting = waiting & ~vector
        return along

    def _registers(self, access: AccessView, moved: Any) -> Any:
        """Vector registers (or scalars) that one position of the unrolled loops needs."""
        whole = np.ceil(self.lanes * access.element_bytes / self._machine.vector_bytes)
        return np.where(moved, whole, 1.0)

    def _instructions(self, access: AccessView) -> Any:
        """Loads or stores of an access for one pass through the written-out loops."""
        distinct: Any = np.float64(1.0)
        for mask, depends, extent in zip(
            self._unrolled, access.depends, self._extents, strict=True
        ):
            distinct = distinct * np.where(mask & (np.asarray(depends) != 0), extent, 1)
        if access.buffer.scope.startswith(TILE_SCOPES):
            return distinct
        moved = self._moves_in(access, self._vector)
        along = distinct * self._registers(access, moved)
        gathered = distinct * self.lanes * 1.5
        return np.where(moved, np.where(self._is_along(access), along, gathered), distinct * 0.5)

    def _cycles_inside(self) -> Any:
        """Cycles of one pass through the written-out loops."""
        nest, store = self._nest, self._nest.store
        moved = self._moves_in(store, self._vector)
        vectors = self._registers(store, moved | self._has_vector)
        arithmetic = self.unrolled * vectors * nest.operations
        arithmetic = np.where(self._has_vector, arithmetic, arithmetic / SCALARS_PER_CYCLE)
        loads = sum([self._instructions(load) for load in nest.loads], np.float64(0.0))
        stores = self._instructions(store)
        cycles = np.maximum(np.maximum(arithmetic, loads), 1.0)
        if not nest.is_reduction:
            return np.maximum(cycles, stores) + 1.0
        return self._with_accumulators(cycles, self.unrolled * vectors, stores) + 1.0

    def _with_accumulators(self, cycles: Any, steps: Any, stores: Any) -> Any:
        """Accumulators stay in registers, if they fit and do not move with the loop outside."""
        store = self._nest.store
        moved = self._moves_in(store, self._vector)
        lanes = np.maximum(1.0, self.lanes * 4 / self._machine.vector_bytes)
        held = np.where(self._has_vector & ~moved, lanes, np.maximum(1.0, stores))
        cycles = np.maximum(cycles, self._machine.latency * np.maximum(1.0, steps / held))
        stays = ~self._moves_in(store, self._innermost_outside())
        fits = held <= self._machine.registers - 3
        return np.where(stays & fits, cycles, np.maximum(cycles, 2.0 * held) + held)

    def _innermost_outside(self) -> list[Any]:
        """The slots of the loop around the written-out ones."""
        found: list[Any] = []
        waiting: Any = np.True_
        in_group: Any = np.False_
        for position in range(len(self._outer) - 1, -1, -1):
            outer, slot = self._outer[position], self._nest.slots[position]
            grouped = np.asarray(slot.in_parallel) != 0
            first = waiting & outer
            in_group = in_group | (first & grouped)
            found.insert(0, first | (outer & in_group & grouped))
            waiting = waiting & ~outer
        return found

    def _traffic_cycles(self) -> list[Any]:
        """Cycles for the bytes that come from the second cache, the third, and memory."""
        machine = self._machine
        sizes = self._sizes()
        return [
            self._traffic(sizes, machine.l1_bytes) / machine.l2_bytes_per_cycle,
            self._traffic(sizes, machine.l2_bytes) / machine.l3_bytes_per_cycle,
            self._traffic(sizes, machine.l3_bytes) / machine.memory_bytes_per_cycle,
        ]

    def _sizes(self) -> list[Any]:
        """For each depth the bytes that all accesses touch below it."""
        in_memory = [
            access.footprints
            for access in self._nest.accesses
            if not access.buffer.scope.startswith(("local", TILE_SCOPES))
        ]
        depths = range(len(self._nest.slots) + 1)
        return [
            sum([np.asarray(each[depth]) for each in in_memory], np.int64(0)) for depth in depths
        ]

    def _traffic(self, sizes: Sequence[Any], capacity: int) -> Any:
        """Bytes that enter a cache: what fits stays, all else comes again in every iteration."""
        moved: Any = np.float64(0.0)
        searching: Any = np.True_
        times: Any = np.float64(1.0)
        for depth, below in enumerate(sizes):
            fits = np.True_
            if depth < len(self._extents):
                seen = np.asarray(self._nest.boundaries[depth]) != 0
                fits = seen & (below <= _FITS * capacity)
            here = searching & fits
            moved = np.where(here & (times > 1), times * below, moved)
            searching = searching & ~here
            if depth < len(self._extents):
                times = times * self._extents[depth]
        return moved


def _any(masks: Sequence[Any]) -> Any:
    total: Any = np.False_
    for mask in masks:
        total = total | mask
    return total
