"""Bytes of shared memory that a kernel needs, from the program before lowering.

Each buffer needs the box of elements that are written to it while the loops run that lie inside
the place where it is allocated, and while the threads of a block do. Buffers that a software
pipeline fills ahead exist several times.

Buffers whose lives do not overlap share memory: those in `shared` one with another, as each is an
array of its own in the kernel, those in `shared.dyn` in any way, as all are parts of one array.

A pipelined loop names a stage and a position for each statement in its body; a statement of stage s
runs s iterations late. What an early statement writes must last until a late one has read it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.ir import BlockRealize, Buffer, BufferRegion, For, IntImm, SeqStmt, Stmt, Var
from tilewright.ir.access import inputs_of
from tilewright.ir.annotation_keys import (
    BUFFER_DIM_ALIGN,
    DOUBLE_BUFFER_SCOPE,
    MANIFEST_SHARED_MEMORY_LOCAL_STAGE,
    SOFTWARE_PIPELINE_ORDER,
    SOFTWARE_PIPELINE_STAGE,
)
from tilewright.nest.index_ranges import AxisRange, Domain, IndexRanges, Unbounded
from tilewright.nest.kernels import Kernel, Leaf, tag_of
from tilewright.nest.loops import common_prefix, known_extent

# Buffers share memory if neither is more than `_ALIKE` times as large as the other.
_ALIKE = 16


@dataclass
class SharedBufferUse:
    """The accesses to one buffer, each with the number of the block that does it."""

    buffer: Buffer
    reads: list[int] = field(default_factory=list)
    writes: list[tuple[int, BufferRegion]] = field(default_factory=list)
    alignment: dict[int, tuple[int, int]] = field(default_factory=dict)
    double_buffered: bool = False

    def note_write(
        self, number: int, position: int, region: BufferRegion, annotations: Mapping[str, Any]
    ) -> None:
        """Block `number`, which has these annotations, writes a region, its `position`-th."""
        self.writes.append((number, region))
        self.double_buffered |= annotations.get(DOUBLE_BUFFER_SCOPE) == position
        self.alignment |= {
            int(axis): (int(factor), int(offset))
            for index, axis, factor, offset in annotations.get(BUFFER_DIM_ALIGN, ())
            if int(index) == position
        }

    @property
    def numbers(self) -> list[int]:
        """All blocks that access the buffer, in program order."""
        return sorted({*self.reads, *(number for number, _ in self.writes)})


@dataclass
class _Slot:
    """Memory that several buffers use, one after another; free after the block `last`."""

    size: int
    last: int


def shared_memory_bytes(kernel: Kernel) -> int:
    """How many bytes of shared memory a block of threads needs."""
    found = [
        (use.buffer.scope, _lifetime(kernel, use), _bytes(kernel, use)) for use in _uses(kernel)
    ]
    fixed = [(life, size) for scope, life, size in found if scope == "shared"]
    dynamic = [(life, size) for scope, life, size in found if scope != "shared"]
    return _size_in_slots(fixed) + _peak(dynamic)


def _peak(sizes: Sequence[tuple[range, int]]) -> int:
    """The most bytes that are in use at the same time."""
    starts = [life.start for life, _ in sizes]
    return max((sum(size for life, size in sizes if now in life) for now in starts), default=0)


def _size_in_slots(sizes: Sequence[tuple[range, int]]) -> int:
    """The bytes of all slots, where each buffer takes a free one of about its size if there is."""
    slots: list[_Slot] = []
    for life, size in sorted(sizes, key=lambda item: item[0].start):
        slot = _fitting_slot([slot for slot in slots if slot.last < life.start], size)
        if slot is None:
            slots.append(_Slot(size, life[-1]))
        else:
            slot.size, slot.last = max(slot.size, size), life[-1]
    return sum(slot.size for slot in slots)


def _fitting_slot(free: Sequence[_Slot], size: int) -> _Slot | None:
    """The smallest slot that is large enough, else the largest, which has to grow."""
    alike = [slot for slot in free if slot.size <= size * _ALIKE and size <= slot.size * _ALIKE]
    large = [slot for slot in alike if slot.size >= size]
    if large:
        return min(large, key=lambda slot: slot.size)
    return max(alike, key=lambda slot: slot.size, default=None)


def _uses(kernel: Kernel) -> list[SharedBufferUse]:
    found: dict[Buffer, SharedBufferUse] = {}

    def use_of(buffer: Buffer) -> SharedBufferUse:
        return found.setdefault(buffer, SharedBufferUse(buffer))

    for number, leaf in enumerate(kernel.leaves):
        block = leaf.realize.block
        for region in inputs_of(block).values():
            if region.buffer.scope.startswith("shared"):
                use_of(region.buffer).reads.append(number)
        for position, region in enumerate(block.writes):
            if region.buffer.scope.startswith("shared"):
                use_of(region.buffer).note_write(number, position, region, block.annotations)
    return list(found.values())


# --- when a buffer lives ------------------------------------------------------------------------


def _common_loops(kernel: Kernel, use: SharedBufferUse) -> tuple[For, ...]:
    """The loops around all accesses: inside of the innermost one, a buffer is allocated."""
    return functools.reduce(common_prefix, [kernel.leaves[n].loops for n in use.numbers])


def _lifetime(kernel: Kernel, use: SharedBufferUse) -> range:
    """The blocks during which a buffer holds values: whole loops inside its allocation."""
    depth = len(_common_loops(kernel, use))
    first, last = use.numbers[0], use.numbers[-1]
    while first > 0 and _share_loop(kernel, first, first - 1, depth):
        first -= 1
    while last + 1 < len(kernel.leaves) and _share_loop(kernel, last, last + 1, depth):
        last += 1
    return range(first, last + 1)


def _share_loop(kernel: Kernel, a: int, b: int, depth: int) -> bool:
    one, other = kernel.leaves[a].loops, kernel.leaves[b].loops
    return len(one) > depth and len(other) > depth and one[depth] is other[depth]


# --- how large it is ----------------------------------------------------------------------------


def _bytes(kernel: Kernel, use: SharedBufferUse) -> int:
    around = _common_loops(kernel, use)
    shape = _compact_shape(kernel, use, len(around))
    dtype = use.buffer.dtype
    elements = _aligned_size(shape, use.alignment) * _versions(kernel, use, around)
    return elements * dtype.nbytes


def _compact_shape(kernel: Kernel, use: SharedBufferUse, depth: int) -> list[int]:
    """The extents of the smallest box that holds all that is written."""
    boxes = [_written(kernel.leaves[number], region, depth) for number, region in use.writes]
    shape = []
    for axis, whole in enumerate(use.buffer.shape):
        used = _hull([box[axis] for box in boxes])
        known = whole.value if isinstance(whole, IntImm) else None
        sizes = [size for size in (used, known) if size is not None]
        shape.append(min(sizes, default=1))
    return shape


def _written(leaf: Leaf, region: BufferRegion, depth: int) -> list[AxisRange | None]:
    """What a block writes along each axis while all threads and the loops from `depth` on run."""
    realize = leaf.realize
    ranges = IndexRanges(_relaxed(leaf, depth), realize.values, realize.predicate)
    axes: list[AxisRange | None] = []
    for axis in region.region:
        length = axis.extent.value if isinstance(axis.extent, IntImm) else None
        try:
            axes.append(None if length is None else ranges.of(axis.min, length))
        except Unbounded:
            axes.append(None)
    return axes


def _relaxed(leaf: Leaf, depth: int) -> Mapping[Var, Domain]:
    """The loops whose iterations share one copy of a buffer: inner ones, and all threads."""
    domains = {}
    for position, loop in enumerate(leaf.loops):
        is_thread = tag_of(loop).startswith(("threadIdx", "vthread"))
        extent = known_extent(loop)
        if (position >= depth or is_thread) and extent is not None:
            begin = loop.min.value if isinstance(loop.min, IntImm) else 0
            domains[loop.loop_var] = (begin, extent)
    return domains


def _hull(ranges: Sequence[AxisRange | None]) -> int | None:
    known = [item for item in ranges if item is not None]
    if not known or len(known) < len(ranges):
        return None
    if any(item.origin != known[0].origin for item in known):
        return None
    low = min(item.low for item in known)
    return max(item.low + item.extent for item in known) - low


def _aligned_size(shape: Sequence[int], alignment: Mapping[int, tuple[int, int]]) -> int:
    """Elements from the first to the last, where strides are as `alignment` asks for."""
    stride = 1
    for axis in reversed(range(len(shape))):
        if axis in alignment:
            factor, offset = alignment[axis]
            stride += (factor + offset - stride % factor) % factor
        stride *= shape[axis]
    return stride


# --- how many copies a software pipeline needs --------------------------------------------------


def _versions(kernel: Kernel, use: SharedBufferUse, around: Sequence[For]) -> int:
    """How many copies of a buffer exist that is allocated inside the innermost loop `around`."""
    loop = around[-1] if around else None
    if loop is None or not isinstance(loop.body, SeqStmt):
        return 1
    stages = loop.annotations.get(SOFTWARE_PIPELINE_STAGE)
    orders = loop.annotations.get(SOFTWARE_PIPELINE_ORDER)
    # What the notes count: parts of the body, some of which will become several statements.
    statements = [part for part in loop.body.seq for _ in range(_statement_count(part))]
    if stages is None or orders is None or not len(statements) == len(stages) == len(orders):
        return 1
    leaves, depth = kernel.leaves, len(around)
    writers = [leaves[number] for number, _ in use.writes]
    readers = [leaves[number] for number in use.reads]
    written = [n for leaf in writers for n in _places(statements, leaf, depth, writes=True)]
    read = [n for leaf in readers for n in _places(statements, leaf, depth, writes=False)]
    if not written or not read:
        return 1
    first = min(int(stages[number]) for number in written)
    last = max(int(stages[number]) for number in read)
    versions = max(last - first + 1, 1)
    if versions == 2 and not use.double_buffered and _read_first(stages, orders, written, read):
        return 1
    return max(versions, 2 if use.double_buffered else 1)


def _statement_count(part: Stmt) -> int:
    inner = part
    while isinstance(inner, For):
        if SOFTWARE_PIPELINE_STAGE in inner.annotations:
            return 3  # beginning, middle and end of a pipeline of its own
        inner = inner.body
    if isinstance(inner, BlockRealize):
        notes = inner.block.annotations
        return 2 if notes.get(MANIFEST_SHARED_MEMORY_LOCAL_STAGE) else 1
    return 1


def _places(statements: Sequence[Stmt], leaf: Leaf, depth: int, writes: bool) -> list[int]:
    """The statements in which a block writes to, or reads from, shared memory."""
    part: Stmt = leaf.loops[depth] if len(leaf.loops) > depth else leaf.realize
    found = [place for place, stmt in enumerate(statements) if stmt is part]
    if len(found) == 2:  # to a register first, then to shared memory
        return found[1:] if writes else found[:1]
    if len(found) == 3:  # the end only computes
        return found[:2]
    return found


def _read_first(
    stages: Sequence[int], orders: Sequence[int], written: Sequence[int], read: Sequence[int]
) -> bool:
    """True when, within an iteration, old values are read before new ones take their place."""
    return all(
        int(stages[r]) == int(stages[w]) or int(orders[r]) < int(orders[w])
        for r in read
        for w in written
    )
