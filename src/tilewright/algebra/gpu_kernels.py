"""Post-processors of GPUs on trees of loops: fetches by all threads, and the limits of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.algebra.expr import (
    Value,
    equal,
    less_equal,
    multiply,
    negate,
    product_of,
    remainder,
    where,
)
from tilewright.algebra.gpu_memory import shared_bytes
from tilewright.algebra.gpu_vectors import vector_widths
from tilewright.algebra.loop_tree import LoopNode, LoopTree, NotInterpreted, StageNode, loops_of
from tilewright.algebra.steps import split
from tilewright.ir.annotation_keys import (
    COOPERATIVE_FETCH,
    THREAD_EXTENT_HIGH,
    THREAD_EXTENT_LOW,
    WARP_EXECUTION,
)
from tilewright.space.gpu.lowered_kernels import VECTOR_BYTES
from tilewright.space.postprocs.rewrite_cooperative_fetch import WIDEST_BYTES, moved_bytes

_THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


@dataclass(frozen=True)
class LegalityCheck:
    """A condition that candidates must meet, and where it comes from."""

    holds: Value
    quantity: Value
    most: int
    origin: str


def cooperative_fetch(tree: LoopTree, warp_size: int | None) -> None:
    """Split and bind the loop of every stage that is noted to be copied by all threads."""
    for stage in tree.stages():
        lanes = stage.annotations.pop(COOPERATIVE_FETCH, None)
        if lanes is not None:
            _fetch(tree, stage, lanes, warp_size)


def _fetch(tree: LoopTree, stage: StageNode, lanes: Value, warp_size: int | None) -> None:
    *_, loop = loops_of(stage)
    threads = {
        tag: warp_size if around is None else around.extent
        for tag, around in stage.fetched_by.items()
        if tag in ("threadIdx.x", "threadIdx.y")
    }
    x = threads.get("threadIdx.x")
    if x is None:
        raise NotInterpreted(f"block {stage.name!r} is fetched by threads that are not known")
    width = max(map(moved_bytes, ir.walk(stage.block.body)))
    fits = equal(remainder(loop.extent, lanes), 0) if width <= WIDEST_BYTES else 0
    rows = [y for y in (threads.get("threadIdx.y"),) if y is not None]
    pieces = split(tree, loop, [None, *rows, x, where(fits, lanes, 1)])
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


@dataclass(frozen=True)
class KernelLimits:
    """What a target allows a block of threads."""

    threads: int
    shared_bytes: int
    warp_size: int


def kernel_checks(tree: LoopTree, limits: KernelLimits) -> list[LegalityCheck]:
    """The limits of a GPU, as conditions on kernels."""
    found: list[LegalityCheck] = []
    for stage in tree.stages():
        found += _wanted_threads(stage, limits.warp_size)
    for node in tree.body:
        stages = tree.stages_below(node)
        found += _threads_fit(stages, limits.threads)
        found += _vectors_fit(stages)
        memory = f"max_shared_memory_per_block = {limits.shared_bytes} of the target"
        found.append(_at_most(shared_bytes(stages), limits.shared_bytes, memory))
    return found


def _at_most(quantity: Value, most: int, origin: str) -> LegalityCheck:
    return LegalityCheck(less_equal(quantity, most), quantity, most, origin)


def _wanted_threads(stage: StageNode, warp_size: int) -> list[LegalityCheck]:
    low = stage.annotations.get(THREAD_EXTENT_LOW)
    high = stage.annotations.get(THREAD_EXTENT_HIGH)
    if low is None or high is None or stage.does == "init":
        return []
    extents = _thread_extents(loops_of(stage))
    if stage.annotations.get(WARP_EXECUTION):
        extents["threadIdx.x"] = warp_size
    threads = product_of(list(extents.values()))
    name = stage.name
    return [
        _at_most(
            multiply(threads, -1), -int(low), f"block {name!r} asks for at least {low} threads"
        ),
        _at_most(threads, int(high), f"block {name!r} asks for at most {high} threads"),
    ]


def _threads_fit(stages: Sequence[StageNode], most: int) -> Iterator[LegalityCheck]:
    """Each axis has one extent in the whole kernel, and a block has not too many threads."""
    extents: dict[str, Value] = {}
    for stage in stages:
        for loop in loops_of(stage):
            known = extents.setdefault(loop.tag, loop.extent)
            if loop.tag and known != loop.extent:
                differ = negate(equal(known, loop.extent))
                yield _at_most(differ, 0, f"{loop.tag} has one extent in a kernel")
    threads = product_of([extent for tag, extent in extents.items() if tag in _THREADS])
    yield _at_most(threads, most, f"max_threads_per_block = {most} of the target")


def _vectors_fit(stages: Sequence[StageNode]) -> Iterator[LegalityCheck]:
    for stage, width in vector_widths(stages):
        origin = f"vectors of {VECTOR_BYTES} bytes in block {stage.name!r}"
        yield _at_most(width, VECTOR_BYTES, origin)
