"""Post-processors of GPUs on trees of loops: fetches by all threads, and the limits of kernels."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.algebra.expr import (
    Value,
    bounds,
    equal,
    less_equal,
    minimum,
    multiply,
    product_of,
    remainder,
    where,
)
from tilewright.algebra.indices import index_terms
from tilewright.algebra.loop_tree import (
    LoopNode,
    LoopTree,
    NotInterpreted,
    StageNode,
    digits_of,
    iterators_of,
    loops_of,
)
from tilewright.algebra.reach import DigitReaches
from tilewright.algebra.steps import split
from tilewright.ir.annotation_keys import (
    BUFFER_DIM_ALIGN,
    COOPERATIVE_FETCH,
    DOUBLE_BUFFER_SCOPE,
    MANIFEST_SHARED_MEMORY_LOCAL_STAGE,
    SOFTWARE_PIPELINE_ORDER,
    SOFTWARE_PIPELINE_STAGE,
    THREAD_EXTENT_HIGH,
    THREAD_EXTENT_LOW,
    WARP_EXECUTION,
)
from tilewright.space.gpu.lowered_kernels import VECTOR_BYTES

_THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_WIDEST_BYTES = 4  # of values that are fetched as vectors


@dataclass(frozen=True)
class LegalityCheck:
    """A condition that candidates must meet, and where it comes from."""

    holds: Value
    quantity: Value
    most: int
    origin: str


def cooperative_fetch(tree: LoopTree) -> None:
    """Split and bind the loop of every stage that is noted to be copied by all threads."""
    for stage in tree.stages():
        lanes = stage.annotations.pop(COOPERATIVE_FETCH, None)
        if lanes is not None:
            _fetch(tree, stage, lanes)


def _fetch(tree: LoopTree, stage: StageNode, lanes: Value) -> None:
    *_, loop = loops_of(stage)
    threads = _thread_extents(loops_of(stage))
    if WARP_EXECUTION in stage.annotations or "threadIdx.x" not in threads:
        raise NotInterpreted(f"block {stage.name!r} is fetched by threads that are not known")
    width = max(
        region.buffer.dtype.bits // 8 for region in (*stage.block.reads, *stage.block.writes)
    )
    fits = equal(remainder(loop.extent, lanes), 0) if width <= _WIDEST_BYTES else 0
    rows = [threads["threadIdx.y"]] if "threadIdx.y" in threads else []
    pieces = split(tree, loop, [None, *rows, threads["threadIdx.x"], where(fits, lanes, 1)])
    pieces[-1].kind = ir.ForKind.VECTORIZED
    for piece, tag in zip(reversed(pieces[1:-1]), _THREADS, strict=False):
        piece.kind, piece.tag = ir.ForKind.THREAD_BINDING, tag


def _thread_extents(loops: Iterable[LoopNode]) -> dict[str, Value]:
    return {loop.tag: loop.extent for loop in loops if loop.tag in _THREADS}


def require_bound(tree: LoopTree) -> None:
    """All stages run on threads already."""
    for stage in tree.stages():
        tags = [loop.tag for loop in loops_of(stage)]
        if not all(any(tag.startswith(axis) for tag in tags) for axis in ("blockIdx", "threadIdx")):
            raise NotInterpreted(
                f"block {stage.name!r} is bound to threads after all tiles are chosen"
            )


def kernel_checks(tree: LoopTree, most_threads: int, most_bytes: int) -> list[LegalityCheck]:
    """The limits of a GPU, as conditions on kernels."""
    found: list[LegalityCheck] = []
    for stage in tree.stages():
        found += _wanted_threads(stage)
    for node in tree.body:
        stages = tree.stages_below(node)
        found.append(_threads_fit(stages, most_threads))
        found.append(_memory_fits(tree, stages, most_bytes))
        _require_narrow_vectors(stages)
    return found


def _wanted_threads(stage: StageNode) -> list[LegalityCheck]:
    low = stage.annotations.get(THREAD_EXTENT_LOW)
    high = stage.annotations.get(THREAD_EXTENT_HIGH)
    if low is None or high is None or stage.does == "init":
        return []
    threads = product_of(list(_thread_extents(loops_of(stage)).values()))
    return [
        LegalityCheck(
            less_equal(int(low), threads), multiply(threads, -1), -int(low),
            f"block {stage.name!r} asks for at least {low} threads",
        ),
        LegalityCheck(
            less_equal(threads, int(high)), threads, int(high),
            f"block {stage.name!r} asks for at most {high} threads",
        ),
    ]  # fmt: skip


def _threads_fit(stages: Sequence[StageNode], most: int) -> LegalityCheck:
    extents: dict[str, Value] = {}
    for stage in stages:
        for tag, extent in _thread_extents(loops_of(stage)).items():
            if extents.setdefault(tag, extent) != extent:
                raise NotInterpreted(f"{tag} has different extents in one kernel")
    threads = product_of(list(extents.values()))
    origin = f"max_threads_per_block = {most} of the target"
    return LegalityCheck(less_equal(threads, most), threads, most, origin)


def _require_narrow_vectors(stages: Sequence[StageNode]) -> None:
    for stage in stages:
        regions = (*stage.block.reads, *stage.block.writes)
        width = max([_WIDEST_BYTES, *[region.buffer.dtype.bits // 8 for region in regions]])
        for loop in loops_of(stage):
            if loop.kind is ir.ForKind.VECTORIZED and bounds(loop.extent)[1] * width > VECTOR_BYTES:
                raise NotInterpreted(f"vectors of block {stage.name!r} may be too wide")


def _versions(tree: LoopTree, loop: LoopNode, buffer: ir.Buffer) -> int:
    """How many copies of a buffer exist that a software pipeline fills ahead."""
    stages = loop.annotations.get(SOFTWARE_PIPELINE_STAGE)
    orders = loop.annotations.get(SOFTWARE_PIPELINE_ORDER)
    if stages is None or orders is None or len(loop.body) < 2:
        return 1
    below = [tree.stages_below(part) for part in loop.body]
    if any(_is_several(part) for part in (*loop.body, *itertools.chain(*below))):
        raise NotInterpreted(f"{buffer.name!r} is filled ahead by pipelines in each other")
    if not len(below) == len(stages) == len(orders):
        return 1
    written = [n for n, part in enumerate(below) if _writes(part, buffer)]
    read = [n for n, part in enumerate(below) if _reads(part, buffer)]
    if not written or not read:
        return 1
    versions = max(max(stages[n] for n in read) - min(stages[n] for n in written) + 1, 1)
    in_order = all(stages[r] == stages[w] or orders[r] < orders[w] for r in read for w in written)
    return 1 if versions == 2 and in_order else versions


def _is_several(node: LoopNode | StageNode) -> bool:
    keys = (SOFTWARE_PIPELINE_STAGE, MANIFEST_SHARED_MEMORY_LOCAL_STAGE, DOUBLE_BUFFER_SCOPE)
    return any(key in node.annotations for key in keys)


def _writes(stages: Sequence[StageNode], buffer: ir.Buffer) -> bool:
    return any(each.buffer is buffer for stage in stages for each in stage.block.writes)


def _reads(stages: Sequence[StageNode], buffer: ir.Buffer) -> bool:
    return any(each.buffer is buffer for stage in stages for each in stage.reads)


def _memory_fits(tree: LoopTree, stages: Sequence[StageNode], most: int) -> LegalityCheck:
    """Buffers that live at the same time add up."""
    total: Value = 0
    places: set[LoopNode | None] = set()
    for stage in stages:
        for region in stage.block.writes:
            if region.buffer.scope.startswith("shared") and stage.does != "init":
                place, size = _shared_bytes(tree, stages, stage, region)
                places.add(place)
                total = total + size
    if len(places) > 1:
        raise NotInterpreted("buffers in shared memory live at different times")
    origin = f"max_shared_memory_per_block = {most} of the target"
    return LegalityCheck(less_equal(total, most), total, most, origin)


def _shared_bytes(
    tree: LoopTree, stages: Sequence[StageNode], writer: StageNode, region: ir.BufferRegion
) -> tuple[LoopNode | None, Value]:
    """The loop inside of which a buffer is allocated, and the bytes of its box."""
    if BUFFER_DIM_ALIGN in writer.annotations:
        raise NotInterpreted(f"rows of {region.buffer.name!r} are padded")
    paths = [
        loops_of(stage)
        for stage in stages
        if any(each.buffer is region.buffer for each in (*stage.reads, *stage.block.writes))
    ]
    around = [loop for loop in paths[0] if all(loop in path for path in paths)]
    versions = _versions(tree, around[-1], region.buffer) if around else 1
    own = loops_of(writer)
    running = digits_of(
        loop
        for position, loop in enumerate(own)
        if position >= len(around) or loop.tag.startswith(("threadIdx", "vthread"))
    )
    reaches = DigitReaches(running, writer.predicates)
    sizes: list[Value] = []
    for axis, whole in zip(region.region, region.buffer.shape, strict=True):
        if not isinstance(axis.extent, ir.IntImm) or not isinstance(whole, ir.IntImm):
            raise NotInterpreted(f"{region.buffer.name!r} has no constant shape")
        span = reaches.of(index_terms(iterators_of(writer), axis.min)) + axis.extent.value
        sizes.append(minimum(span, whole.value))
    size = multiply(product_of(sizes), versions * max(1, region.buffer.dtype.bits // 8))
    return (around[-1] if around else None), size
