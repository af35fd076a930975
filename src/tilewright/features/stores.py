"""The stores of a function as features count them: in their simplest form, on memory as lowered.

What lowering would do to the program is done on the way: `match_buffer` views become the buffers
behind them, branches that never run and the packing of constant weights are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright import ir
from tilewright.features.store_value import Counts, never_holds, read_value
from tilewright.nest.index_reader import Indices
from tilewright.nest.loops import Loop
from tilewright.nest.placement import Placements
from tilewright.nest.reading import Branches, Loops, Reading


@dataclass(slots=True)
class Store:
    """A store of something that is not a constant."""

    buffer: ir.Buffer
    indices: Indices
    counts: Counts  # of operations outside of indices
    loads: list[tuple[ir.Buffer, Indices]]
    loops: tuple[Loop, ...]


class StoreReader:
    """Finds the stores of a function and where their buffers live."""

    def __init__(self, reading: Reading) -> None:
        self.reader = reading.reader
        self.placements = Placements(reading.reader, reading.allocated)
        self._views: dict[ir.Buffer, tuple[ir.Buffer, Indices]] = {}
        self._dead: dict[tuple[ir.PrimExpr, bool], bool] = {}
        for match, loops, branches in reading.views:
            if self._runs(branches):
                self._add_view(match, loops)
        for other in reading.others:
            if self._runs(other.branches):
                for load in ir.nodes_of(other.node, ir.BufferLoad):
                    self._access(load.buffer, load.indices, other.loops)
        self.stores = [
            store
            for site in reading.sites
            if isinstance(site.node, ir.BufferStore)
            and not site.packs_weights
            and self._runs(site.branches)
            and (store := self._store(site.node, site.lowered_loops)) is not None
        ]

    def _runs(self, branches: Branches) -> bool:
        """False when a condition around never has the value that it must have."""
        return not any(map(self._is_dead, branches))

    def _is_dead(self, branch: tuple[ir.PrimExpr, bool]) -> bool:
        known = self._dead.get(branch)
        if known is None:
            condition, holds = branch
            known = never_holds(condition if holds else ir.logical_not(condition), self.reader)
            self._dead[branch] = known
        return known

    def _store(self, node: ir.BufferStore, loops: Loops) -> Store | None:
        buffer, indices = self._access(node.buffer, node.indices, loops)
        if isinstance(node.value, (ir.IntImm, ir.FloatImm)):
            return None
        value = read_value(node.value, self.reader)
        if value is None:
            return None
        loads = [self._access(load.buffer, load.indices, loops) for load in value.loads]
        return Store(buffer, indices, value.counts, loads, loops)

    def _access(
        self, buffer: ir.Buffer, indices: Iterable[ir.PrimExpr], loops: Loops
    ) -> tuple[ir.Buffer, Indices]:
        buffer, read = self._resolve(buffer, indices)
        self.placements.note(buffer, read, read, loops)
        return buffer, read

    def _resolve(
        self, buffer: ir.Buffer, indices: Iterable[ir.PrimExpr]
    ) -> tuple[ir.Buffer, Indices]:
        """The buffer in memory behind an access, and the indices over loop variables."""
        read = tuple(map(self.reader.read, indices))
        view = self._views.get(buffer)
        if view is None:
            return buffer, read
        source, offsets = view
        leading = len(offsets) - len(read)
        moved = (offset.plus(index) for offset, index in zip(offsets[leading:], read, strict=True))
        return source, (*offsets[:leading], *moved)

    def _add_view(self, match: ir.MatchBufferRegion, loops: Loops) -> None:
        region = match.source.region
        buffer, first = self._resolve(match.source.buffer, [axis.min for axis in region])
        last = [axis.min + axis.extent - 1 for axis in region]
        self._views[match.buffer] = (buffer, first)
        self.placements.note(buffer, first, self._resolve(match.source.buffer, last)[1], loops)
