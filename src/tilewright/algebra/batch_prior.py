"""The analytic prior of CPUs for whole populations: the formulas of `cost_model/prior` on arrays.

Arrays have a row for each slot and a column for each candidate. Loops of one iteration change
nothing here, so that no case has to be told apart for them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.algebra.nest_columns import NestColumns
from tilewright.cost_model.prior import (
    CACHE_WAY_BYTES,
    CONFLICT_CYCLES,
    FAR_BYTES,
    L2_WAY_BYTES,
    SCALARS_PER_CYCLE,
    TILE_SCOPES,
    Machine,
)
from tilewright.nest.access import LINE

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]
_FITS = 0.75  # of a cache can be used


class _Rows(NamedTuple):
    """Rows that accesses touch below each depth: widths, and divisors of distances; 0: one row."""

    width: npt.NDArray[np.int64]
    apart: npt.NDArray[np.int64]


class NestCost:
    """The cost of one nest, for all candidates."""

    def __init__(self, nest: NestColumns, machine: Machine) -> None:
        self.nest = nest
        self._machine = machine
        extents = nest.extents
        runs = extents > 1
        self._parallel = runs & (nest.is_parallel[:, None] | nest.in_parallel)
        vector = _innermost(runs & nest.is_vector[:, None]) | (runs & nest.in_vector)
        self.lanes = self.vector_extent = _product(vector, extents)
        self._vector = self._with_vector_reduction(runs, vector)
        self._has_vector = self._vector.any(0)
        self._inner = self._written_out(runs)
        self._unrolled = self._inner & ~self._vector
        self._outer = runs & ~self._inner
        # Accesses by candidates.
        self._moved: Masks = np.any(self._vector & nest.depends, axis=1)
        self.unrolled = _product(self._unrolled, extents)
        self.parallel_extent = _product(self._parallel, extents)
        self.inside = self._cycles_inside()
        self.repeats = self._repeats()
        self.traffic = self._traffic_cycles()
        self.speed_up = self._speed_up()
        self.seconds = self._seconds()

    # --- the loops ------------------------------------------------------------------------------

    def _with_vector_reduction(self, runs: Masks, vector: Masks) -> Masks:
        """Where no loop is a vector, the innermost one may be marked to add up as one."""
        width = self.nest.reduction_width
        if not width.any():
            return vector
        wide = (width > 0) & (self.nest.extents >= width)
        chosen = _innermost(runs) & ~vector.any(0) & wide
        is_chosen = chosen.any(0)
        self.lanes = np.where(is_chosen, width, self.lanes)
        whole = _product(chosen, self.nest.extents)
        self.vector_extent = np.where(is_chosen, whole, self.vector_extent)
        return vector | chosen

    def _written_out(self, runs: Masks) -> Masks:
        """The slots at the inside that are unrolled or part of a vector."""
        serial = runs & ~self._parallel & ~self._vector & self.nest.is_serial[:, None]
        steps = np.cumprod(np.where(serial, self.nest.extents, 1.0)[::-1], 0)[::-1]
        stops = self._parallel | (serial & (steps > self.nest.unroll_step))
        return runs & ~np.logical_or.accumulate(stops[::-1], 0)[::-1]

    @property
    def start_seconds(self) -> Floats:
        """The time that all starts of the parallel loop take together."""
        before = ~np.logical_or.accumulate(self._parallel, 0)
        return self._machine.region_seconds * _product(before, self.nest.extents)

    # --- costs ----------------------------------------------------------------------------------

    def _repeats(self) -> Floats:
        """How often the written-out loops run."""
        repeats = _product(self._outer, self.nest.extents) * self.nest.share
        whole: Floats = repeats * np.ceil(self.vector_extent / self.lanes)
        return whole

    def _seconds(self) -> Floats:
        """All parts together, on all cores that the nest can use."""
        parts = np.vstack([self.repeats * self.inside, self.traffic])
        most = parts.max(0)
        cycles = most + 0.3 * (parts.sum(0) - most)
        seconds: Floats = cycles / self._machine.hertz / self.speed_up
        return seconds

    def _speed_up(self) -> Floats:
        extent = self.parallel_extent
        cores = np.minimum(self._machine.cores, extent)
        speed: Floats = extent / np.ceil(extent / cores)
        return speed

    def _is_along(self) -> Masks:
        """For each access, where neighbours in a vector are neighbours in memory."""
        innermost = _innermost(self._vector)
        jumps = (self._vector & ~self.nest.depends) | (innermost & (self.nest.strides != 1))
        along: Masks = np.logical_not(np.any(jumps, axis=1))
        return along

    def _instructions(self) -> tuple[Floats, Floats]:
        """Loads or stores of each access in one pass through the written-out loops.

        Then the registers that one position of these loops needs.
        """
        nest = self.nest
        distinct = np.where(self._unrolled & nest.depends, nest.extents, 1.0).prod(1)
        whole = np.ceil(self.lanes * nest.element_bytes[:, None] / self._machine.vector_bytes)
        vectors = np.where(self._is_along(), whole, self.lanes * 1.5)
        count = distinct * np.where(self._moved, vectors, 0.5)
        units = np.ceil(nest.unit_bytes / self._machine.vector_bytes)[:, None]
        is_unit = nest.unit_bytes * 2 >= self._machine.vector_bytes
        count = np.where(is_unit[:, None], distinct * units, count)
        in_tiles = np.array([scope.startswith(TILE_SCOPES) for scope in nest.scopes])
        return np.where(in_tiles[:, None], distinct, count), whole

    def _conflicts(self) -> Floats:
        """Loads that find their lines gone: the rows of a tile share too few places of a cache."""
        nest = self.nest
        moving = self._unrolled & nest.depends
        strides = nest.strides * nest.element_bytes[:, None, None]
        ways = self._machine.l1_bytes // CACHE_WAY_BYTES
        far = moving & (strides >= LINE) & (nest.extents > ways)
        if not far.any():
            return np.zeros(nest.extents.shape[1])
        places = CACHE_WAY_BYTES // np.gcd(strides.astype(np.int64), CACHE_WAY_BYTES)
        crowded = (far & (nest.extents > places * ways)).any(1)
        loads = np.where(moving, nest.extents, 1.0).prod(1)
        crowded &= self._in_memory()[:, None]
        total: Floats = np.where(crowded[1:], loads[1:], 0.0).sum(0)
        return total

    def _in_memory(self) -> Masks:
        """Accesses to buffers that are not registers."""
        scopes = self.nest.scopes
        return np.array([not scope.startswith(("local", TILE_SCOPES)) for scope in scopes])

    def _cycles_inside(self) -> Floats:
        """Cycles of one pass through the written-out loops; the store is the first access."""
        instructions, registers = self._instructions()
        vectors = np.where(self._has_vector, registers[0], 1.0)
        arithmetic = self.unrolled * vectors * self.nest.operations
        arithmetic = np.where(self._has_vector, arithmetic, arithmetic / SCALARS_PER_CYCLE)
        stores = instructions[0]
        busy = np.maximum(arithmetic, instructions[1:].sum(0)) / self._machine.vectors_per_cycle
        cycles = np.maximum(busy, 1.0)
        cycles = cycles + CONFLICT_CYCLES * self._conflicts()
        if not self.nest.is_reduction:
            plain: Floats = np.maximum(cycles, stores) + 1.0
            return plain
        return self._with_accumulators(cycles, self.unrolled * vectors, stores) + 1.0

    def _with_accumulators(self, cycles: Floats, steps: Floats, stores: Floats) -> Floats:
        """Accumulators stay in registers, if they fit and do not move with the loop outside."""
        lanes = np.maximum(1.0, self.lanes * 4 / self._machine.vector_bytes)
        adds_up = self._has_vector & ~self._moved[0]
        held = np.where(adds_up, lanes, np.maximum(1.0, stores))
        cycles = np.maximum(cycles, self._machine.latency * np.maximum(1.0, steps / held))
        stays = ~(self._innermost_outside() & self.nest.depends[0]).any(0)
        fits = held <= self._machine.registers - 3
        return np.where(stays & fits, cycles, np.maximum(cycles, 2.0 * held) + held)

    def _innermost_outside(self) -> Masks:
        """The slots of the loop around the written-out ones."""
        first = _innermost(self._outer)
        grouped = (first & self.nest.in_parallel).any(0)
        return first | (self._outer & self.nest.in_parallel & grouped)

    def _traffic_cycles(self) -> Floats:
        """Cycles for the bytes that come from the second cache, the third, and memory."""
        machine, nest = self._machine, self.nest
        in_memory = self._in_memory()
        touched = nest.footprints[in_memory]
        sizes, rows = touched.sum(0), self._rows(in_memory)
        times = np.ones_like(sizes)
        np.cumprod(nest.extents, 0, out=times[1:])
        levels = (
            (machine.l1_bytes, CACHE_WAY_BYTES, machine.l2_bytes_per_cycle),
            (machine.l2_bytes, L2_WAY_BYTES, machine.l3_bytes_per_cycle),
            (machine.l3_bytes, 0, machine.memory_bytes_per_cycle),
        )
        moved = []
        for capacity, way, speed in levels:
            room = _room(touched, rows, capacity, way).sum(0) if way and rows else sizes
            fits = nest.boundaries & (room <= _FITS * capacity)
            moved.append(_traffic(sizes, times, fits) / speed)
        return np.vstack(moved)

    def _rows(self, chosen: Masks) -> _Rows | None:
        """Below each depth, the width of rows that accesses touch, and how far apart they lie.

        None: all of them are near.
        """
        nest = self.nest
        size = nest.element_bytes[chosen, None, None]
        moves = nest.depends[chosen] & (nest.extents > 1) & ~self._parallel & ~self._vector
        strides = np.where(moves, nest.strides[chosen], 0).astype(np.int64) * size
        far = (strides > 0) & (strides % FAR_BYTES == 0)
        if not far.any():
            return None
        reach = np.where(far, 0, strides) * (nest.extents - 1)
        along = self._vector & self._is_along()[chosen, None] & self._moved[chosen, None]
        last = _innermost(self._vector) & along
        reach = np.where(last, (self.vector_extent - 1) * size, reach)
        width = _below(reach, np.add) + size
        return _Rows(width, _below(np.where(far, strides, 0), np.gcd))


def _below(values: npt.NDArray[Any], combine: np.ufunc) -> npt.NDArray[Any]:
    """What the slots below each depth give together."""
    nothing = np.zeros_like(values[:, :1])
    below: npt.NDArray[Any] = combine.accumulate(values[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([below, nothing], axis=1)


def _room(touched: Floats, rows: _Rows, capacity: int, way: int) -> Floats:
    """Bytes of a cache that hold what an access touches, those that it cannot use included."""
    used = np.minimum(1.0, np.maximum(rows.width, LINE) / np.gcd(rows.apart, way))
    part = np.where(rows.apart > 0, used, 1.0)
    room: Floats = np.where(touched > part * capacity, touched / part, touched)
    return room


def _traffic(sizes: Floats, times: Floats, fits: Masks) -> Floats:
    """Bytes that enter a cache: what fits stays, all else comes again in every iteration."""
    fits[-1] = True
    depth = fits.argmax(0)
    columns = np.arange(sizes.shape[1])
    often = times[depth, columns]
    return np.where(often > 1, often * sizes[depth, columns], 0.0)


def _product(chosen: Masks, extents: Floats) -> Floats:
    product: Floats = np.where(chosen, extents, 1.0).prod(0)
    return product


def _innermost(chosen: Masks) -> Masks:
    """The last chosen slot of each candidate."""
    first: Masks = chosen & (np.cumsum(chosen[::-1], 0)[::-1] == 1)
    return first
