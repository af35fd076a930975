"""Products of tiles and bulk stores that a warp has started and not yet waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.testing.simt.products import WARPS, TileProduct, WarpGroup
from tilewright.testing.simt.shared_memory import SharedMemory
from tilewright.testing.simt.tensor_maps import CopyMap
from tilewright.testing.simt.threads import Array, RaceError, ThreadMemory, Wait


@dataclass
class Sums:
    """Registers that products add to; they have their values once none is under way."""

    memory: ThreadMemory
    registers: Array
    values: Array
    pending: int = 0

    def add(self, product: TileProduct, part: Array, is_sum: bool) -> None:
        """A product is done; its results are these."""
        self.values = product.instruction.kept(self.values + part if is_sum else part)
        self.pending -= 1
        if not self.pending:
            self.registers[...] = self.values


@dataclass
class _Started:
    product: TileProduct
    sums: Sums
    is_sum: bool


class WarpProducts:
    """The products that one warp of a group takes part in."""

    def __init__(self, group: WarpGroup, warp: int) -> None:
        self._group = group
        self._warp = warp
        self._started: list[_Started] = []
        self._count = 0
        self._groups: list[int] = []  # how many products each has
        self._sums: dict[tuple[int, int], Sums] = {}
        self._is_fenced = False
        self._touched: set[int] = set()

    def touch(self, memory: ThreadMemory) -> None:
        """Registers are used by something else."""
        if any(sums.memory is memory for sums in self._sums.values()):
            raise RaceError(f"{memory.name} is used before the products that write to it are done")
        self._touched.add(id(memory))

    def fence(self) -> None:
        """Products after this see registers as they are."""
        self._is_fenced = True
        self._touched.clear()

    def start(self, memory: ThreadMemory, place: slice, product: TileProduct, is_sum: bool) -> None:
        """Start adding a product to registers; when it arrives is not known."""
        if not self._is_fenced or id(memory) in self._touched:
            raise RaceError(f"a product follows other uses of {memory.name} without a fence")
        registers = memory.view("float32" if product.instruction.sums == "f32" else "int32")
        found = registers[:, place]
        sums = self._sums.setdefault(
            (id(memory), place.start), Sums(memory, found, np.array(found))
        )
        sums.pending += 1
        shared = self._group.start(self._count, product)
        self._count += 1
        self._started.append(_Started(shared, sums, is_sum))

    def commit(self) -> None:
        """What was started since the last time is a group."""
        self._groups.append(len(self._started) - sum(self._groups))

    def wait(self, pending: int) -> Iterator[Wait]:
        """All groups but the newest are done after this."""
        while len(self._groups) > pending:
            for _ in range(self._groups.pop(0)):
                yield from self._finish(self._started.pop(0))

    def _finish(self, started: _Started) -> Iterator[Wait]:
        product = started.product
        yield Wait(
            lambda: product.warps == WARPS,
            lambda: f"a product that {product.warps} of {WARPS} warps have started",
        )
        rows = product.rows_of(self._warp % WARPS, self._group.shared)
        started.sums.add(product, rows, started.is_sum)
        self._sums = {key: sums for key, sums in self._sums.items() if sums.pending}

    def check_end(self) -> None:
        """Nothing may be under way when a warp ends."""
        if self._started:
            raise RaceError("a warp ends before the products it started are done")


@dataclass
class BulkStore:
    """A bulk copy from shared memory to an array."""

    map: CopyMap
    coordinates: Sequence[int]
    shared: SharedMemory
    addresses: Array
    _data: Array | None = None
    _is_written: bool = False

    def __post_init__(self) -> None:
        self.shared.begin_read(self.addresses, "a bulk store")

    def read(self) -> None:
        """Shared memory may be used for something else after this."""
        if self._data is None:
            self._data = self.shared.end_read(self.addresses, "a bulk store")

    def write(self) -> None:
        """The array has its values after this."""
        self.read()
        assert self._data is not None
        if not self._is_written:
            self.map.write(self.coordinates, self._data)
            self._is_written = True

    @property
    def is_read(self) -> bool:
        """Whether shared memory is no longer used."""
        return self._data is not None


@dataclass
class BulkStores:
    """The bulk stores of a warp, in groups."""

    _open: list[BulkStore] = field(default_factory=list)
    _groups: list[list[BulkStore]] = field(default_factory=list)

    def add(self, store: BulkStore) -> None:
        """It belongs to the next group."""
        self._open.append(store)

    def commit(self) -> None:
        """What was started since the last time is a group."""
        self._groups.append(self._open)
        self._open = []

    def wait(self, pending: int, *, only_read: bool) -> None:
        """All groups but the newest have been read, or written as well."""
        for group in self._groups[: max(0, len(self._groups) - pending)]:
            for store in group:
                if only_read:
                    store.read()
                else:
                    store.write()

    def check_end(self) -> None:
        """Shared memory must not go while it is being read."""
        if not all(store.is_read for group in (*self._groups, self._open) for store in group):
            raise RaceError("a warp ends before its bulk stores have been waited for")
