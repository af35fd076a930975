"""The memory that a store touches: footprints under each loop, strides, and reuse."""

from __future__ import annotations

from enum import IntEnum
from math import prod

from tilewright.arith.affine import Affine
from tilewright.features.stores import Store
from tilewright.features.tvm_oddities import FirstRemainders, bounds_while, coefficient
from tilewright.ir import Buffer, PrimExpr, Var
from tilewright.nest.access import Reaches, Steps
from tilewright.nest.index_reader import IndexReader, Indices
from tilewright.nest.loops import Loop
from tilewright.nest.placement import BufferPlacement, Placements


class AccessKind(IntEnum):
    """What a store does to a buffer; the values are columns."""

    READ = 0
    WRITE = 1
    READ_WRITE = 2


class ReuseKind(IntEnum):
    """How an element comes to be touched again; the values are columns."""

    LOOP_MULTIPLE_READ = 0
    SERIAL_MULTIPLE_READ_WRITE = 1
    NO_REUSE = 2


Reuse = tuple[ReuseKind, float, float, float]  # kind, distance in iterations and bytes, count
_NO_REUSE: Reuse = (ReuseKind.NO_REUSE, 0.0, 0.0, 0.0)


class BufferUse:
    """One buffer in one store."""

    __slots__ = (
        "accesses", "box", "buffer", "itemsize", "kind", "numel", "placement",
        "variables",
    )  # fmt: skip

    def __init__(
        self, buffer: Buffer, kind: AccessKind, accesses: list[Indices], placement: BufferPlacement
    ) -> None:
        self.buffer = buffer
        self.kind = kind
        self.accesses = accesses
        self.placement = placement
        self.itemsize = placement.itemsize
        self.numel = 1  # distinct elements over all loops
        self.box = [1] * len(placement.shape)  # their extent in each dimension
        self.variables: set[PrimExpr] = set()  # that indices depend on
        for indices in accesses:
            for index in indices:
                if index.terms:
                    self.variables |= index.variables

    def stride_of(self, var: Var) -> int:
        """The elements between what two iterations touch; 0 when `var` is unused."""
        if var not in self.variables:
            return 0
        found = 0
        strides = self.placement.strides
        for indices in self.accesses:
            for dim in range(len(indices) - 1, -1, -1):
                factor = coefficient(indices[dim], var)
                if factor:
                    stride = factor * strides[dim]
                    found = min(found, stride) if found else stride
                    break
        return found


def buffer_uses(store: Store, placements: Placements) -> tuple[list[BufferUse], list[Indices]]:
    """The buffers of a store, its own first, and the indices of all its loads."""
    own = store.buffer
    accesses: dict[Buffer, list[Indices]] = {own: [placements.shifted(own, store.indices)]}
    kinds = {own: AccessKind.WRITE}
    loads = []
    for buffer, indices in store.loads:
        shifted = placements.shifted(buffer, indices)
        loads.append(shifted)
        if buffer is own:
            kinds[own] = AccessKind.READ_WRITE
        else:
            kinds[buffer] = AccessKind.READ
            found = accesses.setdefault(buffer, [])
            if shifted not in found:
                found.append(shifted)
    uses = [
        BufferUse(buffer, kinds[buffer], found, placements.of(buffer))
        for buffer, found in accesses.items()
    ]
    return uses, loads


class _Box:
    """The box that several accesses touch while more and more loops run."""

    def __init__(self, use: BufferUse, reader: IndexReader) -> None:
        self._use = use
        self._reader = reader
        self._lows: list[list[int]] = []
        self._highs: list[list[int]] = []
        self._running: set[Var] = set()
        for indices in use.accesses:
            starts = [self._start(index) for index in indices]
            self._lows.append([low for low, _ in starts])
            self._highs.append([high for _, high in starts])

    def _start(self, index: Affine) -> tuple[int, int]:
        if not index.is_plain:
            return bounds_while(index, self._reader.ranges, self._running)
        value = index.base
        for term, scale in index.terms.items():
            value += scale * self._reader.first_of(term)  # type: ignore[arg-type]
        return value, value

    def run(self, loop: Loop) -> list[int]:
        """Let one more loop run, which moves something; the extents of the box after that."""
        var = loop.var
        self._running.add(var)
        for indices, lows, highs in zip(self._use.accesses, self._lows, self._highs, strict=True):
            for dim, index in enumerate(indices):
                if var not in index.variables:
                    continue
                if index.is_plain:
                    scale = index.terms[var]
                    (highs if scale > 0 else lows)[dim] += scale * (loop.iterations - 1)
                else:
                    lows[dim], highs[dim] = bounds_while(index, self._reader.ranges, self._running)
        return self.extents()

    def extents(self) -> list[int]:
        return [
            max(highs) - min(lows) + 1
            for lows, highs in zip(
                zip(*self._lows, strict=True), zip(*self._highs, strict=True), strict=True
            )
        ]


class _SumBox:
    """The same for one access, where it does not matter which other loops run."""

    def __init__(self, dimensions: int, steps: Steps) -> None:
        self._steps = steps
        self._extents = [1] * dimensions

    def run(self, loop: Loop) -> list[int]:
        extents = self._extents
        for dim, reach in self._steps[loop.var]:
            extents[dim] += reach
        return extents

    def extents(self) -> list[int]:
        return self._extents


class Footprints:
    """What the stores of a function touch, and when they come back to it, store by store."""

    def __init__(self, reader: IndexReader, placements: Placements) -> None:
        self._reader = reader
        self._placements = placements
        self._reaches = Reaches(FirstRemainders(reader.ranges, reader.ranges))
        # Elements touched under each loop by each buffer, one entry for each store so far.
        self._touched: dict[Loop, dict[Buffer, list[int]]] = {}

    def _box(self, use: BufferUse) -> _Box | _SumBox:
        if len(use.accesses) == 1:
            (indices,) = use.accesses
            steps, others, _ = self._reaches.steps(indices)
            if not others:
                return _SumBox(len(indices), steps)
        return _Box(use, self._reader)

    def measure(self, uses: list[BufferUse], loops: tuple[Loop, ...]) -> list[int]:
        """Fill in what each use touches, and note it under every loop.

        The result is the number of bytes touched while the innermost loop runs, the two innermost,
        and so on.
        """
        if not loops:
            return []
        bytes_under = [0] * len(loops)
        order = [(loop.var, self._touched.setdefault(loop, {})) for loop in reversed(loops)]
        for use in uses:
            box = self._box(use)
            extents = box.extents()
            numel = prod(extents)
            buffer, variables, itemsize = use.buffer, use.variables, use.itemsize
            for place, (var, noted) in enumerate(order):
                if var in variables:
                    extents = box.run(loops[-1 - place])
                    numel = prod(extents)
                if buffer in noted:
                    noted[buffer].append(numel)
                else:
                    noted[buffer] = [numel]
                bytes_under[place] += numel * itemsize
            use.box, use.numel = extents, numel
        return bytes_under

    def reuse(self, use: BufferUse, uses: list[BufferUse], loops: tuple[Loop, ...]) -> Reuse:
        """The innermost loop that comes back to the same elements."""
        iterations = 1
        inner: Loop | None = None
        for loop in reversed(loops):
            if loop.var not in use.variables:
                if inner is None:
                    distance = sum([other.itemsize for other in uses])
                else:
                    distance = self._bytes_under(inner)
                return (ReuseKind.LOOP_MULTIPLE_READ, iterations, distance, loop.iterations)
            noted = self._touched[loop][use.buffer]
            if len(noted) >= 2:
                return (
                    ReuseKind.SERIAL_MULTIPLE_READ_WRITE,
                    min(noted) / max(1, loop.iterations),
                    self._bytes_under(loop) / max(1, loop.iterations),
                    len(noted) - 1,
                )
            iterations *= loop.iterations
            inner = loop
        return _NO_REUSE

    def _bytes_under(self, loop: Loop) -> int:
        return sum(
            [
                sum(numels) * self._placements.of(buffer).itemsize
                for buffer, numels in self._touched[loop].items()
            ]
        )
