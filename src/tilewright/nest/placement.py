"""Places of buffers in memory, and their sizes: as lowering would place and shrink them.

A buffer that the function makes is allocated inside the innermost loop around all its accesses, and
holds only the box that they touch while the loops inside run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from operator import mul

from tilewright.arith.affine import Affine, Terms
from tilewright.ir import Buffer, IntImm, Var
from tilewright.ir.node import common_prefix
from tilewright.nest.index_reader import IndexReader, Indices
from tilewright.nest.reading import Loops


@dataclass(slots=True)
class _Allocation:
    """A buffer that the function makes, and everything that touches it."""

    buffer: Buffer
    common: Loops | None = None  # the loops around all accesses
    # First and last element of each access, once.
    boxes: dict[tuple[Indices, Indices], None] = field(default_factory=dict)


class BufferPlacement:
    """The memory behind a buffer."""

    __slots__ = ("itemsize", "origin", "outer_prod", "shape", "strides")

    def __init__(
        self, buffer: Buffer, shape: tuple[int, ...], origin: Indices | None, outer_prod: int
    ) -> None:
        self.shape = shape
        self.origin = origin  # the element that is the first one in memory; None: zeros
        self.outer_prod = outer_prod  # iterations of the loops around the allocation
        self.itemsize = buffer.dtype.nbytes
        self.strides = row_major(shape)  # in elements


def row_major(shape: tuple[int, ...]) -> list[int]:
    """The strides of a compact array, in elements."""
    return list(accumulate(reversed(shape[1:]), mul, initial=1))[::-1]


class Placements:
    """Finds the placement of each buffer, once, after all accesses were noted."""

    def __init__(self, reader: IndexReader, allocated: Iterable[Buffer]) -> None:
        self._reader = reader
        self._allocations = {buffer: _Allocation(buffer) for buffer in allocated}
        self._known: dict[Buffer, BufferPlacement] = {}
        self._shifted: dict[tuple[Buffer, Indices], Indices] = {}

    def note(self, buffer: Buffer, first: Indices, last: Indices, loops: Loops) -> None:
        """An access to a box of elements inside of some loops."""
        allocation = self._allocations.get(buffer)
        if allocation is None:
            return
        allocation.boxes[first, last] = None
        common = allocation.common
        allocation.common = loops if common is None else common_prefix(common, loops)

    def of(self, buffer: Buffer) -> BufferPlacement:
        """The memory behind a buffer."""
        known = self._known.get(buffer)
        if known is None:
            allocation = self._allocations.get(buffer)
            if allocation is None:
                known = BufferPlacement(buffer, static_shape(buffer), None, 1)
            else:
                known = _place(allocation, self._reader)
            self._known[buffer] = known
        return known

    def shifted(self, buffer: Buffer, indices: Indices) -> Indices:
        """The indices of an access, counted from the first element in memory."""
        known = self._shifted.get((buffer, indices))
        if known is None:
            origin = self.of(buffer).origin
            known = indices if origin is None else tuple(map(self._reader.minus, indices, origin))
            self._shifted[buffer, indices] = known
        return known


def static_shape(buffer: Buffer, unknown: int = 1) -> tuple[int, ...]:
    """The shape, with a number for extents that are not known."""
    return tuple([dim.value if type(dim) is IntImm else unknown for dim in buffer.shape])


def whole_bytes(buffer: Buffer) -> int:
    """The size of a buffer; 0 if it is not known."""
    return prod(static_shape(buffer, 0)) * buffer.dtype.itemsize


def _place(allocation: _Allocation, reader: IndexReader) -> BufferPlacement:
    loops = allocation.common or ()
    private = {loop.var for loop in loops if not _is_shared(allocation.buffer.scope, loop.tag)}
    box = _union_of_boxes(allocation, private, reader)
    outer_prod = prod([loop.iterations for loop in loops])
    whole = static_shape(allocation.buffer)
    if box is None:
        return BufferPlacement(allocation.buffer, whole, None, outer_prod)
    axes = [_clip(span, extent) for span, extent in zip(box, whole, strict=True)]
    origin = tuple([origin for origin, _ in axes])
    is_zero = not any([axis.terms or axis.base for axis in origin])
    shape = tuple([extent for _, extent in axes])
    return BufferPlacement(allocation.buffer, shape, None if is_zero else origin, outer_prod)


def _is_shared(scope: str, tag: str) -> bool:
    """True when the iterations of a loop over threads all see one copy of the buffer."""
    if tag.startswith("blockIdx"):
        return scope == "global"
    return tag != "" and scope in ("global", "shared", "shared.dyn")


_Span = tuple[Terms, int, int]  # origin, and the first and the last element counted from it


def _clip(span: _Span | None, extent: int) -> tuple[Affine, int]:
    """The first element in memory and how many there are."""
    if span is None or span[2] - span[1] + 1 >= extent:
        return Affine({}, 0, True), extent
    origin, low, high = span
    return Affine(origin, low if origin else max(low, 0)), high - low + 1


def _union_of_boxes(
    allocation: _Allocation, outside: set[Var], reader: IndexReader
) -> list[_Span | None] | None:
    union: list[_Span | None] | None = None
    for first, last in allocation.boxes:
        if first is last:
            box = [_relaxed(index, outside, reader) for index in first]
        else:
            box = [_span(low, high, outside, reader) for low, high in zip(first, last, strict=True)]
        union = box if union is None else list(map(_join, union, box))
    return union


def _span(first: Affine, last: Affine, outside: set[Var], reader: IndexReader) -> _Span | None:
    low, high = _relaxed(first, outside, reader), _relaxed(last, outside, reader)
    if low is None or high is None or low[0] != high[0]:
        return None
    return low[0], low[1], high[2]


def _relaxed(index: Affine, outside: set[Var], reader: IndexReader) -> _Span | None:
    """Where an index lies while all loops but those outside run; None: not known."""
    origin: Terms = {}
    low = high = index.base
    ranges = reader.ranges
    for term, scale in index.terms.items():
        if isinstance(term, Var):
            if term in outside:
                origin[term] = scale
                continue
            bound = ranges.get(term)
        else:
            used = reader.variables_of(term)
            if used <= outside:
                origin[term] = scale
                continue
            bound = reader.bound(term) if used.isdisjoint(outside) else None
        if bound is None:
            return None
        low += scale * bound[0 if scale > 0 else 1]
        high += scale * bound[1 if scale > 0 else 0]
    return origin, low, high


def _join(a: _Span | None, b: _Span | None) -> _Span | None:
    if a is None or b is None or a[0] != b[0]:
        return None
    return a[0], min(a[1], b[1]), max(a[2], b[2])
