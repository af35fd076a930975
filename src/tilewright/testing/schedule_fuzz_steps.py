"""Random calls of schedule primitives: one function a primitive, in one table.

A step picks blocks, loops and arguments at random, sensible more often than not; the primitive
decides whether they are legal.

Some have no step, as there is nothing to compare them with: `unsafe_set_dtype` rounds,
`widen_accumulator` does not where the program does, and `disable_predication` runs iterations that
the program does not have, so results differ by design; `unsafe_hide_buffer_access` and
`annotate_buffer_access` take the user's word for what a block accesses, and a made-up word would
mislead all later primitives.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.ir import Block, Buffer, IntImm, IterType
from tilewright.schedule import BlockRV, LoopRV, Schedule, compose
from tilewright.schedule.trace.instruction import find_method
from tilewright.testing.schedule_fuzz_intrinsics import INTRINSICS, FuzzIntrinsic

FACTORS = (1, 2, 2, 3, 4, 4, 5, 8)
THREAD_AXES = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread.x")
MAX_UNROLLED = 16


class NothingToDo(Exception):
    """The program offers nothing that the step could be applied to."""


@dataclass
class Draw:
    """Random choices in a schedule."""

    rng: random.Random
    sch: Schedule

    def block(self) -> BlockRV:
        """Some block, but not the root."""
        names = [
            stmt.name_hint
            for stmt, sref in self.sch.state.srefs.items()
            if isinstance(stmt, Block) and sref.parent is not None
        ]
        if not names:
            raise NothingToDo
        return self.sch.get_block(self.rng.choice(sorted(names)))

    def loops(self, block: BlockRV | None = None) -> list[LoopRV]:
        """The loops of a block, at least one."""
        found = self.sch.get_loops(self.block() if block is None else block)
        if not found:
            raise NothingToDo
        return found

    def loop(self, block: BlockRV | None = None) -> LoopRV:
        return self.rng.choice(self.loops(block))

    def short_loop(self) -> LoopRV:
        """A loop, most often the innermost, that may be written out."""
        loops = self.loops()
        loop = loops[-1] if self.rng.random() < 0.7 else self.rng.choice(loops)
        extent = self.sch.get_sref(loop).loop.extent
        if not isinstance(extent, IntImm) or extent.value > MAX_UNROLLED:
            raise NothingToDo
        return loop

    def some(self, loops: list[LoopRV]) -> list[LoopRV]:
        """Loops next to each other, from the outside in."""
        start = self.rng.randrange(len(loops))
        return loops[start : start + self.rng.randint(1, 3)]

    def flag(self, likely: float = 0.5) -> bool:
        return self.rng.random() < likely

    def stmt(self, block: BlockRV) -> Block:
        return self.sch.get_sref(block).block

    def side(self, block: BlockRV) -> tuple[str, int]:
        """One of the buffers that a block reads or writes."""
        stmt = self.stmt(block)
        sides = [("read", n) for n in range(len(stmt.reads))]
        sides += [("write", n) for n in range(len(stmt.writes))]
        if not sides:
            raise NothingToDo
        return self.rng.choice(sides)

    def inner_buffer(self, block: BlockRV) -> tuple[tuple[str, int], Buffer]:
        """A buffer that a block uses and that is none of the parameters."""
        side, index = self.side(block)
        stmt = self.stmt(block)
        buffer = (stmt.reads if side == "read" else stmt.writes)[index].buffer
        parameters = self.sch.mod[self.sch.func_working_on or "main"].buffer_map.values()
        if any(buffer is known for known in parameters):
            raise NothingToDo  # callers rely on the layout of parameters
        return (side, index), buffer


Step = Callable[[Draw], Any]
STEPS: dict[str, tuple[Step, float]] = {}  # by method, with how often it is taken


def step(method: str, weight: float = 1.0) -> Callable[[Step], Step]:
    """Make a function the step of a primitive."""

    def register(function: Step) -> Step:
        STEPS[method] = (function, weight)
        return function

    return register


def available_steps() -> list[tuple[str, Step, float]]:
    """The steps whose primitives exist."""
    return [(name, run, weight) for name, (run, weight) in STEPS.items() if find_method(name)]


# --- loops ----------------------------------------------------------------------------------------


@step("split", 4)
def _split(draw: Draw) -> None:
    loop = draw.loop()
    factors: list[int | None] = [draw.rng.choice(FACTORS) for _ in range(draw.rng.randint(1, 2))]
    factors.insert(draw.rng.randint(0, len(factors)), None)
    draw.sch.split(loop, factors, preserve_unit_iters=draw.flag(0.8))


@step("sample_perfect_tile", 2)
def _sampled_split(draw: Draw) -> None:
    loop = draw.loop()
    factors = draw.sch.sample_perfect_tile(
        loop, draw.rng.randint(2, 4), draw.rng.choice([1, 4, 16])
    )
    draw.sch.split(loop, factors)


@step("fuse", 3)
def _fuse(draw: Draw) -> None:
    draw.sch.fuse(*draw.some(draw.loops()), preserve_unit_iters=draw.flag(0.8))


@step("reorder", 3)
def _reorder(draw: Draw) -> None:
    loops = draw.loops()
    draw.sch.reorder(*draw.rng.sample(loops, draw.rng.randint(1, len(loops))))


@step("merge")
def _merge(draw: Draw) -> None:
    draw.sch.merge(draw.loop(), draw.loop())


@step("loop_partition")
def _loop_partition(draw: Draw) -> None:
    factors: list[int | None] = [draw.rng.choice(FACTORS)]
    factors.insert(draw.rng.randint(0, 1), None)
    draw.sch.loop_partition(draw.loop(), factors, preserve_unit_iters=draw.flag())


@step("reorder_block_iter_var")
def _reorder_block_iter_var(draw: Draw) -> None:
    block = draw.block()
    order = list(range(len(draw.stmt(block).iter_vars)))
    draw.rng.shuffle(order)
    draw.sch.reorder_block_iter_var(block, order)


@step("add_unit_loop")
def _add_unit_loop(draw: Draw) -> None:
    block = draw.block()
    draw.sch.add_unit_loop(block if draw.flag() else draw.loop(block))


@step("parallel", 2)
def _parallel(draw: Draw) -> None:
    draw.sch.parallel(draw.loops()[0] if draw.flag(0.7) else draw.loop())


@step("vectorize", 2)
def _vectorize(draw: Draw) -> None:
    draw.sch.vectorize(draw.short_loop())


@step("unroll")
def _unroll(draw: Draw) -> None:
    draw.sch.unroll(draw.short_loop())


@step("bind")
def _bind(draw: Draw) -> None:
    draw.sch.bind(draw.loop(), draw.rng.choice(THREAD_AXES))


@step("annotate")
def _annotate(draw: Draw) -> None:
    block = draw.block()
    if draw.flag():
        draw.sch.annotate(block, "meta_schedule.note", draw.rng.choice([1, "SSR", [1, 2]]))
    else:
        draw.sch.annotate(draw.loop(block), "pragma_auto_unroll_max_step", draw.rng.choice([4, 16]))


@step("unannotate")
def _unannotate(draw: Draw) -> None:
    draw.sch.unannotate(draw.block(), "meta_schedule.note")


# --- stages ---------------------------------------------------------------------------------------


def _scope(draw: Draw) -> str:
    return draw.rng.choice(["global", "global", "local"])


@step("cache_read", 2)
def _cache_read(draw: Draw) -> None:
    block = draw.block()
    draw.sch.cache_read(block, draw.rng.randint(0, 1), _scope(draw))


@step("cache_write", 2)
def _cache_write(draw: Draw) -> None:
    draw.sch.cache_write(draw.block(), 0, _scope(draw))


@step("cache_inplace")
def _cache_inplace(draw: Draw) -> None:
    draw.sch.cache_inplace(draw.block(), draw.rng.randint(0, 1), _scope(draw))


@step("cache_index")
def _cache_index(draw: Draw) -> None:
    draw.sch.cache_index(draw.block(), _scope(draw), draw.rng.randint(0, 2))


@step("reindex")
def _reindex(draw: Draw) -> None:
    block = draw.block()
    draw.sch.reindex(block, draw.side(block))


@step("reindex_cache_read")
def _reindex_cache_read(draw: Draw) -> None:
    block = draw.block()
    order = _some_order(draw, len(draw.stmt(block).iter_vars))
    draw.sch.reindex_cache_read(block, 0, _scope(draw), order)


@step("reindex_cache_write")
def _reindex_cache_write(draw: Draw) -> None:
    block = draw.block()
    order = _some_order(draw, len(draw.stmt(block).iter_vars))
    draw.sch.reindex_cache_write(block, 0, _scope(draw), order)


def _some_order(draw: Draw, count: int) -> Callable[..., list[Any]]:
    chosen = draw.rng.sample(range(count), draw.rng.randint(min(1, count), count))
    return lambda *iters: [iters[position] for position in chosen]


@step("compute_at", 4)
def _compute_at(draw: Draw) -> None:
    block, loop = draw.block(), draw.loop()
    draw.sch.compute_at(block, loop, draw.flag(), draw.rng.choice([-1, -1, -2, 0]))


@step("reverse_compute_at", 3)
def _reverse_compute_at(draw: Draw) -> None:
    block, loop = draw.block(), draw.loop()
    draw.sch.reverse_compute_at(block, loop, draw.flag(), draw.rng.choice([-1, -1, -2, 0]))


@step("sample_compute_location", 2)
def _sample_compute_location(draw: Draw) -> None:
    block = draw.block()
    draw.sch.compute_at(block, draw.sch.sample_compute_location(block), draw.flag())


@step("compute_root")
def _compute_root(draw: Draw) -> None:
    compose.compute_root(draw.sch, draw.block())


@step("compute_inline", 2)
def _compute_inline(draw: Draw) -> None:
    draw.sch.compute_inline(draw.block())


@step("reverse_compute_inline", 2)
def _reverse_compute_inline(draw: Draw) -> None:
    draw.sch.reverse_compute_inline(draw.block())


@step("read_at")
def _read_at(draw: Draw) -> None:
    block = draw.block()
    draw.sch.read_at(draw.loop(block), block, draw.rng.randint(0, 1), _scope(draw))


@step("write_at")
def _write_at(draw: Draw) -> None:
    block = draw.block()
    draw.sch.write_at(draw.loop(block), block, 0, _scope(draw))


# --- reductions -----------------------------------------------------------------------------------


@step("decompose_reduction", 2)
def _decompose_reduction(draw: Draw) -> None:
    block = draw.block()
    draw.sch.decompose_reduction(block, draw.loop(block))


@step("rfactor", 3)
def _rfactor(draw: Draw) -> None:
    block = draw.block()
    draw.sch.rfactor(draw.loop(block), draw.rng.randint(-1, 2))


# --- buffers and blocks ---------------------------------------------------------------------------


@step("storage_align")
def _storage_align(draw: Draw) -> None:
    axis, factor = draw.rng.randint(-2, 1), draw.rng.choice([4, 8])
    draw.sch.storage_align(draw.block(), 0, axis, factor, draw.rng.randrange(factor))


@step("set_scope")
def _set_scope(draw: Draw) -> None:
    draw.sch.set_scope(draw.block(), 0, draw.rng.choice(["global", "local"]))


@step("rolling_buffer")
def _rolling_buffer(draw: Draw) -> None:
    draw.sch.rolling_buffer(draw.block(), 0)


@step("blockize", 2)
def _blockize(draw: Draw) -> None:
    draw.sch.blockize(draw.loop(), preserve_unit_iters=draw.flag())


@step("transform_layout", 2)
def _transform_layout(draw: Draw) -> None:
    block = draw.block()
    place, buffer = draw.inner_buffer(block)
    pad_value = draw.rng.choice([None, 0])
    draw.sch.transform_layout(block, place, _layout(draw, buffer.ndim), pad_value)


@step("set_axis_separator")
def _set_axis_separator(draw: Draw) -> None:
    block = draw.block()
    place, buffer = draw.inner_buffer(block)
    count = draw.rng.randint(0, max(buffer.ndim - 1, 0))
    draw.sch.set_axis_separator(block, place, sorted(draw.rng.sample(range(buffer.ndim), count)))


@step("transform_block_layout")
def _transform_block_layout(draw: Draw) -> None:
    block = draw.block()
    draw.sch.transform_block_layout(block, _layout(draw, len(draw.stmt(block).iter_vars)))


def _layout(draw: Draw, ndim: int) -> Callable[..., list[Any]]:
    """A permutation, or the last axis in tiles."""
    tile, order = draw.rng.choice([2, 3, 4]), draw.rng.sample(range(ndim), ndim)
    if ndim and draw.flag():
        return lambda *axes: [*axes[:-1], axes[-1] // tile, axes[-1] % tile]
    return lambda *axes: [axes[position] for position in order]


@step("decompose_padding")
def _decompose_padding(draw: Draw) -> None:
    block = draw.block()
    draw.sch.decompose_padding(block, draw.loop(block))


@step("pad_einsum")
def _pad_einsum(draw: Draw) -> None:
    block = draw.block()
    count = len(draw.stmt(block).iter_vars)
    draw.sch.pad_einsum(block, [draw.rng.choice([1, 2, 4]) for _ in range(count)])


@step("shift_operand", 4)
def _shift_operand(draw: Draw) -> None:
    block = draw.block()
    reads = draw.stmt(block).reads
    bytes_read = [n for n, region in enumerate(reads) if region.buffer.dtype.bits == 8]
    if not bytes_read:
        raise NothingToDo
    draw.sch.shift_operand(block, draw.rng.choice(bytes_read))


@step("tensorize", 3)
def _tensorize(draw: Draw) -> None:
    """Mostly an instruction on a tile that is cut out for it; now and then any on anything."""
    block = draw.block()
    if draw.flag(0.1):
        place = block if draw.flag() else draw.loop(block)
        draw.sch.tensorize(place, draw.rng.choice(INTRINSICS).name, draw.flag())
        return
    kinds = [iter_var.iter_type for iter_var in draw.stmt(block).iter_vars]
    if IterType.COMM_REDUCE in kinds:
        fitting = [made for made in INTRINSICS if made.is_reduction]
    else:
        cached = draw.sch.cache_read if draw.flag() else draw.sch.cache_write
        block = cached(block, 0, "global")
        fitting = [made for made in INTRINSICS if not made.is_reduction]
    loops = draw.loops(block)
    fitting = [made for made in fitting if _fits(draw, block, loops, made)]
    if not fitting:
        raise NothingToDo
    intrinsic = draw.rng.choice(fitting)
    draw.sch.tensorize(_tile(draw, block, loops, intrinsic), intrinsic.name, draw.flag(0.8))


def _fits(draw: Draw, block: BlockRV, loops: list[LoopRV], intrinsic: FuzzIntrinsic) -> bool:
    """True if the innermost loops of a block fall into tiles for an instruction."""
    count = len(intrinsic.extents)
    extents = [draw.sch.get_sref(loop).loop.extent for loop in loops[-count:]]
    return (
        len(extents) == count
        and all(region.buffer.dtype == intrinsic.dtype for region in draw.stmt(block).writes)
        and all(
            isinstance(extent, IntImm) and extent.value % wanted == 0
            for extent, wanted in zip(extents, intrinsic.extents, strict=True)
        )
    )


def _tile(draw: Draw, block: BlockRV, loops: list[LoopRV], intrinsic: FuzzIntrinsic) -> LoopRV:
    """Split the innermost loops, start the sum outside of the tile; the tile's first loop."""
    count = len(intrinsic.extents)
    pairs = [
        draw.sch.split(loop, [None, extent])
        for loop, extent in zip(loops[-count:], intrinsic.extents, strict=True)
    ]
    outer, inner = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    draw.sch.reorder(*outer, *inner)
    if intrinsic.is_reduction and draw.flag(0.95):
        draw.sch.decompose_reduction(block, outer[0])
    return inner[0]
