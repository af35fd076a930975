"""Bytes of shared memory that a kernel needs, as an expression (`space/gpu/shared_memory.py`).

When buffers live and how many versions a software pipeline keeps of them follows from the order of
stages, which all decisions share; only the boxes depend on decisions.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from tilewright import ir
from tilewright.algebra.expr import Value, maximum, minimum, multiply, product_of, remainder
from tilewright.algebra.indices import index_terms
from tilewright.algebra.loop_tree import (
    LoopNode,
    Node,
    NotInterpreted,
    StageNode,
    digits_of,
    iterators_of,
    loops_of,
)
from tilewright.algebra.reach import DigitReaches
from tilewright.ir.annotation_keys import (
    MANIFEST_SHARED_MEMORY_LOCAL_STAGE,
    SOFTWARE_PIPELINE_ORDER,
    SOFTWARE_PIPELINE_STAGE,
)
from tilewright.nest.loops import common_prefix
from tilewright.space.gpu.shared_memory import SharedBufferUse


def shared_bytes(stages: Sequence[StageNode]) -> Value:
    """How many bytes a block of threads needs that runs these stages."""
    kernel = _Kernel(stages)
    found = [(use.buffer.scope, kernel.lifetime(use), kernel.bytes(use)) for use in _uses(stages)]
    fixed = [(life, size) for scope, life, size in found if scope == "shared"]
    dynamic = [(life, size) for scope, life, size in found if scope != "shared"]
    if any(a.stop <= b.start for a, _ in fixed for b, _ in fixed):
        raise NotInterpreted("buffers in shared memory live at different times")
    total: Value = 0
    for _, size in fixed:
        total = total + size
    return total + _peak(dynamic)


def _peak(sizes: Sequence[tuple[range, Value]]) -> Value:
    """The most bytes that are in use at the same time."""
    most: Value = 0
    for now in {life.start for life, _ in sizes}:
        used: Value = 0
        for life, size in sizes:
            used = used + size if now in life else used
        most = maximum(most, used)
    return most


def _uses(stages: Sequence[StageNode]) -> list[SharedBufferUse]:
    found: dict[ir.Buffer, SharedBufferUse] = {}

    def use_of(buffer: ir.Buffer) -> SharedBufferUse:
        return found.setdefault(buffer, SharedBufferUse(buffer))

    for number, stage in enumerate(stages):
        own = stage.does == "all" and stage.block.init is not None
        written = {region.buffer for region in stage.block.writes} if own else ()
        for region in stage.reads:
            if region.buffer.scope.startswith("shared") and region.buffer not in written:
                use_of(region.buffer).reads.append(number)
        for position, region in enumerate(stage.block.writes):
            if region.buffer.scope.startswith("shared"):
                use_of(region.buffer).note_write(number, position, region, stage.annotations)
    return list(found.values())


class _Kernel:
    """The stages of a kernel in program order."""

    def __init__(self, stages: Sequence[StageNode]) -> None:
        self._stages = stages
        self._loops = [tuple(loops_of(stage)) for stage in stages]

    def _common_loops(self, use: SharedBufferUse) -> tuple[LoopNode, ...]:
        return functools.reduce(common_prefix, [self._loops[n] for n in use.numbers])

    def lifetime(self, use: SharedBufferUse) -> range:
        """The stages during which a buffer holds values: whole loops inside its allocation."""
        depth = len(self._common_loops(use))
        first, last = use.numbers[0], use.numbers[-1]
        while first > 0 and self._share_loop(first, first - 1, depth):
            first -= 1
        while last + 1 < len(self._stages) and self._share_loop(last, last + 1, depth):
            last += 1
        return range(first, last + 1)

    def _share_loop(self, a: int, b: int, depth: int) -> bool:
        one, other = self._loops[a], self._loops[b]
        return len(one) > depth and len(other) > depth and one[depth] is other[depth]

    def bytes(self, use: SharedBufferUse) -> Value:
        """The box that is written, in all versions of the buffer."""
        around = self._common_loops(use)
        box = self._written(use, len(around))
        elements = multiply(_aligned_size(box, use.alignment), self._versions(use, around))
        return multiply(elements, use.buffer.dtype.nbytes)

    def _written(self, use: SharedBufferUse, depth: int) -> list[Value]:
        """The box that is written; halves of one reduction begin at the same place."""
        writers = [self._stages[number] for number, _ in use.writes]
        if len(writers) > 1 and {stage.does for stage in writers} != {"init", "update"}:
            raise NotInterpreted(f"{use.buffer.name!r} is written in several places")
        boxes = [
            _box(stage, region, depth)
            for stage, (_, region) in zip(writers, use.writes, strict=True)
        ]
        return [functools.reduce(maximum, sizes) for sizes in zip(*boxes, strict=True)]

    # --- how many copies a software pipeline needs ----------------------------------------------

    def _versions(self, use: SharedBufferUse, around: Sequence[LoopNode]) -> int:
        loop = around[-1] if around else None
        if loop is None or len(loop.body) < 2:
            return 1
        stages: Sequence[int] | None = loop.annotations.get(SOFTWARE_PIPELINE_STAGE)
        orders: Sequence[int] | None = loop.annotations.get(SOFTWARE_PIPELINE_ORDER)
        parts = [part for part in loop.body for _ in range(_statement_count(part))]
        if stages is None or orders is None or not len(parts) == len(stages) == len(orders):
            return 1
        depth = len(around)
        numbers = [number for number, _ in use.writes]
        written = [n for each in numbers for n in self._places(parts, each, depth, writes=True)]
        read = [n for each in use.reads for n in self._places(parts, each, depth, writes=False)]
        if not written or not read:
            return 1
        versions = max(max(stages[n] for n in read) - min(stages[n] for n in written) + 1, 1)
        read_first = all(
            stages[r] == stages[w] or orders[r] < orders[w] for r in read for w in written
        )
        if versions == 2 and not use.double_buffered and read_first:
            return 1
        return max(versions, 2 if use.double_buffered else 1)

    def _places(self, parts: Sequence[Node], number: int, depth: int, *, writes: bool) -> list[int]:
        """The statements in which a stage writes to, or reads from, shared memory."""
        loops = self._loops[number]
        own: Node = loops[depth] if len(loops) > depth else self._stages[number]
        found = [place for place, part in enumerate(parts) if part is own]
        if len(found) == 2:  # to a register first, then to shared memory
            return found[1:] if writes else found[:1]
        return found[:2]  # of three, the end only computes


def _statement_count(part: Node) -> int:
    """What notes of pipelines count: some parts become several statements."""
    while isinstance(part, LoopNode):
        if SOFTWARE_PIPELINE_STAGE in part.annotations:
            return 3  # beginning, middle and end of a pipeline of its own
        if len(part.body) != 1:
            return 1
        part = part.body[0]
    return 2 if part.annotations.get(MANIFEST_SHARED_MEMORY_LOCAL_STAGE) else 1


# --- how large it is ----------------------------------------------------------------------------


def _box(writer: StageNode, region: ir.BufferRegion, depth: int) -> list[Value]:
    """The extents of what a stage writes while all threads and the loops from `depth` on run."""
    running = digits_of(
        loop
        for position, loop in enumerate(loops_of(writer))
        if position >= depth or loop.tag.startswith(("threadIdx", "vthread"))
    )
    reaches = DigitReaches(running, writer.predicates)
    box: list[Value] = []
    for axis, whole in zip(region.region, region.buffer.shape, strict=True):
        if not isinstance(axis.extent, ir.IntImm) or not isinstance(whole, ir.IntImm):
            raise NotInterpreted(f"{region.buffer.name!r} has no constant shape")
        span = reaches.of(index_terms(iterators_of(writer), axis.min)) + axis.extent.value
        box.append(minimum(span, whole.value))
    return box


def _aligned_size(box: Sequence[Value], alignment: Mapping[int, tuple[int, int]]) -> Value:
    """Elements from the first to the last, where strides are as `alignment` asks for."""
    if not alignment:
        return product_of(list(box))
    stride: Value = 1
    for axis in reversed(range(len(box))):
        if axis in alignment:
            factor, offset = alignment[axis]
            missing = factor + offset - remainder(stride, factor)
            stride = stride + remainder(missing, factor)
        stride = multiply(stride, box[axis])
    return stride
