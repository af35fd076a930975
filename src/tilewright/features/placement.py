"""Where buffers live, and how large they are: as lowering would place and shrink them.

A buffer that the function makes is allocated inside the innermost loop around all its accesses, and
holds only the box that they touch while the loops inside run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.features.affine import Affine, IndexReader
from tilewright.features.loop_nest import Allocation, Indices, Nest
from tilewright.ir import Buffer, IntImm, PrimExpr, Var


@dataclass(slots=True)
class Placement:
    """The memory behind a buffer."""

    shape: tuple[int, ...]
    origin: Indices | None = None  # the element that is the first one in memory; None: zeros
    outer_prod: int = 1  # iterations of the loops around the allocation

    @property
    def strides(self) -> list[int]:
        """Row-major, in elements."""
        strides = [1]
        for extent in reversed(self.shape[1:]):
            strides.append(strides[-1] * extent)
        return strides[::-1]


class Placements:
    """Finds the placement of each buffer, once."""

    def __init__(self, nest: Nest) -> None:
        self._nest = nest
        self._known: dict[Buffer, Placement] = {}

    def of(self, buffer: Buffer) -> Placement:
        known = self._known.get(buffer)
        if known is None:
            allocation = self._nest.allocations.get(buffer)
            if allocation is None:
                known = Placement(static_shape(buffer))
            else:
                known = _place(allocation, self._nest.reader)
            self._known[buffer] = known
        return known

    def shifted(self, buffer: Buffer, indices: Indices) -> Indices:
        """The indices of an access, counted from the first element in memory."""
        origin = self.of(buffer).origin
        if origin is None:
            return indices
        return tuple(map(self._nest.reader.minus, indices, origin))


def static_shape(buffer: Buffer) -> tuple[int, ...]:
    """The shape; extents that are not known count as one."""
    return tuple(dim.value if isinstance(dim, IntImm) else 1 for dim in buffer.shape)


def _place(allocation: Allocation, reader: IndexReader) -> Placement:
    loops = allocation.common or ()
    private = {loop.var for loop in loops if not _is_shared(allocation.buffer.scope, loop.tag)}
    box = _union_of_boxes(allocation, private, reader)
    outer_prod = prod(loop.extent for loop in loops)
    whole = static_shape(allocation.buffer)
    if box is None:
        return Placement(whole, None, outer_prod)
    axes = [_clip(span, extent) for span, extent in zip(box, whole, strict=True)]
    return Placement(
        tuple(extent for _, extent in axes), tuple(origin for origin, _ in axes), outer_prod
    )


def _is_shared(scope: str, tag: str) -> bool:
    """True when the iterations of a loop over threads all see one copy of the buffer."""
    if not tag:
        return False
    if tag.startswith("blockIdx"):
        return scope == "global"
    return scope in ("global", "shared", "shared.dyn")


@dataclass(slots=True)
class _Span:
    """The elements from `origin + low` to `origin + high` of one dimension."""

    origin: dict[PrimExpr, int]
    low: int
    high: int


def _clip(span: _Span | None, extent: int) -> tuple[Affine, int]:
    """The first element in memory and how many there are."""
    if span is None or span.high - span.low + 1 >= extent:
        return Affine({}), extent
    low = span.low if span.origin else max(span.low, 0)
    return Affine(span.origin, low), span.high - span.low + 1


def _union_of_boxes(
    allocation: Allocation, outside: set[Var], reader: IndexReader
) -> list[_Span | None] | None:
    union: list[_Span | None] | None = None
    for first, last in allocation.boxes:
        box = [_span(low, high, outside, reader) for low, high in zip(first, last, strict=True)]
        union = box if union is None else list(map(_join, union, box))
    return union


def _span(first: Affine, last: Affine, outside: set[Var], reader: IndexReader) -> _Span | None:
    ends = [
        _relaxed(index, outside, reader) for index in ((first,) if last is first else (first, last))
    ]
    low, high = ends[0], ends[-1]
    if low is None or high is None or low.origin != high.origin:
        return None
    return _Span(low.origin, low.low, high.high)


def _relaxed(index: Affine, outside: set[Var], reader: IndexReader) -> _Span | None:
    """Where an index lies while all loops but those outside run; None: not known."""
    origin: dict[PrimExpr, int] = {}
    low = high = index.base
    for term, scale in index.terms.items():
        used = reader.variables_of(term)
        if used <= outside:
            origin[term] = scale
            continue
        if not used.isdisjoint(outside):
            return None
        bound = reader.bound(term)
        if bound is None:
            return None
        low += scale * bound[0 if scale > 0 else 1]
        high += scale * bound[1 if scale > 0 else 0]
    return _Span(origin, low, high)


def _join(a: _Span | None, b: _Span | None) -> _Span | None:
    if a is None or b is None or a.origin != b.origin:
        return None
    return _Span(a.origin, min(a.low, b.low), max(a.high, b.high))
