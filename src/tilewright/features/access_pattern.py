"""How a store touches memory: footprints under each loop, strides, and reuse."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from tilewright.features.affine import Affine, IndexReader
from tilewright.features.loop_nest import Indices, Loop, Store
from tilewright.features.placement import Placements
from tilewright.features.strides import coefficient
from tilewright.ir import Buffer, Var


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


@dataclass(slots=True)
class Reuse:
    kind: ReuseKind = ReuseKind.NO_REUSE
    distance_iterations: float = 0
    distance_bytes: float = 0
    count: float = 0


@dataclass(slots=True)
class BufferUse:
    """One buffer in one store."""

    buffer: Buffer
    kind: AccessKind
    accesses: list[Indices]
    shape: tuple[int, ...]
    strides: list[int]
    itemsize: int
    numel: int = 1  # distinct elements over all loops
    box: list[int] = field(default_factory=list)  # their extent in each dimension

    def uses(self, var: Var, reader: IndexReader) -> bool:
        """True when an index depends on `var`."""
        return any(
            var in (index.terms if index.is_plain else reader.variables_in(index))
            for indices in self.accesses
            for index in indices
        )

    def stride_of(self, var: Var, reader: IndexReader) -> int:
        """The elements between what two iterations touch; 0 when `var` is unused."""
        found = 0
        for indices in self.accesses:
            for dim in range(len(indices) - 1, -1, -1):
                factor = coefficient(indices[dim], var, reader)
                if factor:
                    stride = factor * self.strides[dim]
                    found = min(found, stride) if found else stride
                    break
        return found


# Elements touched under each loop by each buffer, one entry for each store so far.
Touched = dict[Loop, dict[Buffer, list[int]]]


def buffer_uses(store: Store, placements: Placements) -> list[BufferUse]:
    """The buffers of a store: its own first, then what it loads."""
    own = store.buffer
    accesses: dict[Buffer, list[Indices]] = {own: [store.indices]}
    kinds = {own: AccessKind.WRITE}
    for buffer, indices in store.loads:
        if buffer is own:
            kinds[own] = AccessKind.READ_WRITE
        else:
            kinds[buffer] = AccessKind.READ
            accesses.setdefault(buffer, []).append(indices)
    uses = []
    for buffer, all_indices in accesses.items():
        placement = placements.of(buffer)
        shifted = [placements.shifted(buffer, indices) for indices in all_indices]
        itemsize = buffer.dtype.itemsize * buffer.dtype.lanes
        uses.append(
            BufferUse(buffer, kinds[buffer], shifted, placement.shape, placement.strides, itemsize)
        )
    return uses


class _Box:
    """The box that a buffer's accesses touch while more and more loops run."""

    def __init__(self, use: BufferUse, reader: IndexReader) -> None:
        self._reader = reader
        self._lows: list[list[int]] = []
        self._highs: list[list[int]] = []
        self._moves: dict[Var, list[tuple[int, int, int]]] = {}  # access, dimension, scale
        self._opaque: dict[Var, list[tuple[int, int, Affine]]] = {}
        self._running: set[Var] = set()
        for number, indices in enumerate(use.accesses):
            starts = [self._start(number, dim, index) for dim, index in enumerate(indices)]
            self._lows.append([low for low, _ in starts])
            self._highs.append([high for _, high in starts])

    def _start(self, number: int, dim: int, index: Affine) -> tuple[int, int]:
        reader = self._reader
        if not index.is_plain:
            for var in reader.variables_in(index):
                self._opaque.setdefault(var, []).append((number, dim, index))
            return reader.bounds_while(index, self._running)
        value = index.base
        for term, scale in index.terms.items():
            assert isinstance(term, Var)
            value += scale * reader.first_of(term)
            self._moves.setdefault(term, []).append((number, dim, scale))
        return value, value

    def run(self, loop: Loop) -> bool:
        """Let one more loop run; False when it moves nothing."""
        moves, opaque = self._moves.get(loop.var), self._opaque.get(loop.var)
        for number, dim, scale in moves or ():
            reach = scale * (loop.extent - 1)
            (self._highs if scale > 0 else self._lows)[number][dim] += reach
        if opaque is not None:
            self._running.add(loop.var)
            for number, dim, index in opaque:
                low, high = self._reader.bounds_while(index, self._running)
                self._lows[number][dim], self._highs[number][dim] = low, high
        return moves is not None or opaque is not None

    def extents(self) -> list[int]:
        if len(self._lows) == 1:
            return [high - low + 1 for low, high in zip(self._lows[0], self._highs[0], strict=True)]
        return [
            max(highs) - min(lows) + 1
            for lows, highs in zip(
                zip(*self._lows, strict=True), zip(*self._highs, strict=True), strict=True
            )
        ]


def measure_footprints(
    uses: list[BufferUse], loops: tuple[Loop, ...], reader: IndexReader, touched: Touched
) -> list[int]:
    """Fill in what each use touches, and note it under every loop.

    The result is the number of bytes touched while the innermost loop runs, the innermost two, ...
    """
    if not loops:
        for use in uses:
            use.box = [1] * len(use.shape)
        return []
    boxes = [_Box(use, reader) for use in uses]
    for use, box in zip(uses, boxes, strict=True):
        use.box = box.extents()
        use.numel = _product(use.box)
    bytes_under: list[int] = []
    for loop in reversed(loops):
        noted = touched.setdefault(loop, {})
        total = 0
        for use, box in zip(uses, boxes, strict=True):
            if box.run(loop):
                use.box = box.extents()
                use.numel = _product(use.box)
            noted.setdefault(use.buffer, []).append(use.numel)
            total += use.numel * use.itemsize
        bytes_under.append(total)
    return bytes_under


def _product(numbers: list[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


def find_reuse(
    use: BufferUse,
    uses: list[BufferUse],
    loops: tuple[Loop, ...],
    reader: IndexReader,
    touched: Touched,
) -> Reuse:
    """The innermost loop that comes back to the same elements."""
    iterations = 1
    for depth in range(len(loops) - 1, -1, -1):
        loop = loops[depth]
        if not use.uses(loop.var, reader):
            if depth == len(loops) - 1:
                distance = sum(other.itemsize for other in uses)
            else:
                distance = _bytes_under(touched[loops[depth + 1]])
            return Reuse(ReuseKind.LOOP_MULTIPLE_READ, iterations, distance, loop.extent)
        noted = touched[loop][use.buffer]
        if len(noted) >= 2:
            return Reuse(
                ReuseKind.SERIAL_MULTIPLE_READ_WRITE,
                min(noted) / max(1, loop.extent),
                _bytes_under(touched[loop]) / max(1, loop.extent),
                len(noted) - 1,
            )
        iterations *= loop.extent
    return Reuse()


def _bytes_under(noted: dict[Buffer, list[int]]) -> int:
    return sum(
        sum(numels) * buffer.dtype.itemsize * buffer.dtype.lanes for buffer, numels in noted.items()
    )
