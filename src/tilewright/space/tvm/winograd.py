"""Custom rules for the transforms around a Winograd convolution, on CPUs and on GPUs.

The transforms multiply tiny constant matrices with tiles of the image. Their loops over the tile
are unrolled, so that the zeros and ones of the matrices disappear; the other two are tiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.errors import ScheduleError
from tilewright.ir import IntImm
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.space.gpu.thread_binding import bind_spatial_loop, sampled_factor
from tilewright.space.tvm.apply_custom_rule import register_custom_rule

MAX_INNERMOST_FACTOR = 64


def inline_matrix(sch: Schedule, block: BlockRV) -> BlockRV:
    """Inline the constant matrix that a transform reads; the producer of its other operand."""
    producers = sch.get_producers(block)
    matrices = [other for other in producers if not sch.get_sref(other).block.reads]
    operands = [other for other in producers if sch.get_sref(other).block.reads]
    if len(matrices) != 1 or len(operands) != 1:
        raise ScheduleError(
            f"block {sch.get_sref(block).name!r} is not a Winograd transform: it reads "
            f"{len(operands)} operands and {len(matrices)} constant matrices, not one of each"
        )
    sch.compute_inline(matrices[0])
    return operands[0]


def only_producer(sch: Schedule, block: BlockRV) -> BlockRV:
    """The one block that makes what a block reads."""
    producers = sch.get_producers(block)
    if len(producers) != 1:
        raise ScheduleError(
            f"block {sch.get_sref(block).name!r} of a Winograd convolution has {len(producers)} "
            "producers, expected one"
        )
    return producers[0]


def tile_and_unroll(
    sch: Schedule, block: BlockRV, tiled: Sequence[int], unrolled: Sequence[int]
) -> LoopRV:
    """Tile two of the loops, unroll the others inside of them; the innermost tiled loop."""
    loops = sch.get_loops(block)
    outer: list[LoopRV] = []
    inner: list[LoopRV] = []
    for position in tiled:
        factors = sch.sample_perfect_tile(loops[position], 2, MAX_INNERMOST_FACTOR)
        first, second = sch.split(loops[position], factors)
        outer.append(first)
        inner.append(second)
    for position in unrolled:
        sch.unroll(loops[position])
    sch.reorder(*outer, *inner, *(loops[position] for position in unrolled))
    return inner[-1]


@register_custom_rule("meta_schedule.cpu.conv2d_nhwc_winograd_data_pack")
@register_custom_rule("meta_schedule.cpu.conv2d_nchw_winograd_data_pack")
def data_pack(sch: Schedule, block: BlockRV) -> list[Schedule]:
    """The transform of the image; its tiles and the padding before them find their own place."""
    input_tile = inline_matrix(sch, block)
    data_pad = only_producer(sch, input_tile)
    tile_and_unroll(sch, block, tiled=(2, 3), unrolled=(0, 1, 4, 5))
    for producer in (input_tile, data_pad):
        location = sch.sample_compute_location(producer)
        sch.compute_at(producer, location, preserve_unit_loops=True)
    return [sch]


def _inverse(
    tiled: Sequence[int], unrolled: Sequence[int]
) -> Callable[[Schedule, BlockRV], list[Schedule]]:
    def inverse(sch: Schedule, block: BlockRV) -> list[Schedule]:
        inline_matrix(sch, block)
        tile_and_unroll(sch, block, tiled, unrolled)
        return [sch]

    return inverse


# The transform of the result; layouts differ in where the loops over the image stand.
inverse_nhwc = register_custom_rule("meta_schedule.cpu.conv2d_nhwc_winograd_inverse")(
    _inverse(tiled=(2, 3), unrolled=(0, 1, 4, 5))
)
inverse_nchw = register_custom_rule("meta_schedule.cpu.conv2d_nchw_winograd_inverse")(
    _inverse(tiled=(0, 1), unrolled=(2, 3, 4, 5))
)


MAX_THREADBLOCKS = 256
MAX_THREADS_PER_BLOCK = 1024
THREAD_EXTENTS = (32, 64, 128, 256, 512, 1024)


def _bind(sch: Schedule, loop: LoopRV) -> LoopRV:
    """Share a loop among threads; the innermost loop that is left of it."""
    choose = sampled_factor(sch, THREAD_EXTENTS)
    return bind_spatial_loop(sch, loop, MAX_THREADBLOCKS, MAX_THREADS_PER_BLOCK, choose)[-1]


def _keep_local(sch: Schedule, block: BlockRV, input_tile: BlockRV, loop: LoopRV) -> None:
    """Let each thread transform its tiles in registers."""
    cache = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(cache, loop, preserve_unit_loops=True)
    sch.compute_at(input_tile, loop, preserve_unit_loops=True)
    sch.set_scope(input_tile, 0, "local")


@register_custom_rule("meta_schedule.cuda.conv2d_nhwc_winograd_data_pack")
def data_pack_nhwc(sch: Schedule, block: BlockRV) -> list[Schedule]:
    input_tile = inline_matrix(sch, block)
    data_pad = only_producer(sch, input_tile)
    innermost = tile_and_unroll(sch, block, tiled=(2, 3), unrolled=(0, 1, 4, 5))
    _keep_local(sch, block, input_tile, innermost)
    sch.compute_inline(data_pad)
    _bind(sch, sch.fuse(*sch.get_loops(block)[:4]))
    return [sch]


@register_custom_rule("meta_schedule.cuda.conv2d_nchw_winograd_data_pack")
def data_pack_nchw(sch: Schedule, block: BlockRV) -> list[Schedule]:
    input_tile = inline_matrix(sch, block)
    data_pad = only_producer(sch, input_tile)
    loops = sch.get_loops(block)
    sch.reorder(*(loops[position] for position in (2, 3, 0, 1, 4, 5)))
    for position in (0, 1, 4, 5):
        sch.unroll(loops[position])
    innermost = _bind(sch, sch.fuse(loops[2], loops[3]))
    _keep_local(sch, block, input_tile, innermost)
    sch.compute_inline(data_pad)
    return [sch]


@register_custom_rule("meta_schedule.cuda.conv2d_nhwc_winograd_inverse")
def threads_inverse_nhwc(sch: Schedule, block: BlockRV) -> list[Schedule]:
    inline_matrix(sch, block)
    tile_and_unroll(sch, block, tiled=(2, 3), unrolled=(0, 1, 4, 5))
    _bind(sch, sch.fuse(*sch.get_loops(block)[:4]))
    return [sch]


@register_custom_rule("meta_schedule.cuda.conv2d_nchw_winograd_inverse")
def threads_inverse_nchw(sch: Schedule, block: BlockRV) -> list[Schedule]:
    """The result is transformed tile by tile right where the output is written."""
    inline_matrix(sch, block)
    consumers = sch.get_consumers(block)
    if len(consumers) != 1:
        raise ScheduleError(
            f"the result of {sch.get_sref(block).name!r} is read by {len(consumers)} blocks, "
            "expected one"
        )
    height, width = sch.get_loops(consumers[0])[2:4]
    tile_h, tile_w = _tile_shape(sch, block)
    outer_h, inner_h = sch.split(height, [None, tile_h])
    outer_w, inner_w = sch.split(width, [None, tile_w])
    sch.reorder(outer_h, outer_w, inner_h, inner_w)
    sch.compute_at(block, outer_w, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    for loop in sch.get_loops(block)[6:10]:
        sch.unroll(loop)
    return [sch]


def _tile_shape(sch: Schedule, block: BlockRV) -> list[int]:
    """Height and width of a tile of the result: the last two dimensions of what is written."""
    shape = sch.get_sref(block).block.writes[0].buffer.shape[-2:]
    sizes = [extent.value for extent in shape if isinstance(extent, IntImm)]
    if len(sizes) != 2:
        raise ScheduleError(f"block {sch.get_sref(block).name!r} has tiles of unknown size")
    return sizes
