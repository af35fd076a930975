"""Custom rules for the transforms around a Winograd convolution, on GPUs."""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.ir import IntImm
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.space.gpu.thread_binding import bind_spatial_loop, sampled_factor
from tilewright.space.tvm.custom.winograd import inline_matrix, only_producer, tile_and_unroll
from tilewright.space.tvm.custom_rules import register_custom_rule

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
def inverse_nhwc(sch: Schedule, block: BlockRV) -> list[Schedule]:
    inline_matrix(sch, block)
    tile_and_unroll(sch, block, tiled=(2, 3), unrolled=(0, 1, 4, 5))
    _bind(sch, sch.fuse(*sch.get_loops(block)[:4]))
    return [sch]


@register_custom_rule("meta_schedule.cuda.conv2d_nchw_winograd_inverse")
def inverse_nchw(sch: Schedule, block: BlockRV) -> list[Schedule]:
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
