"""Custom rules for the transforms around a Winograd convolution, on CPUs.

The transforms multiply tiny constant matrices with tiles of the image. Their loops over the tile
are unrolled, so that the zeros and ones of the matrices disappear; the other two are tiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.errors import ScheduleError
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.space.tvm.custom_rules import register_custom_rule

MAX_INNERMOST_FACTOR = 64


def inline_matrix(sch: Schedule, block: BlockRV) -> BlockRV:
    """Inline the constant matrix that a transform reads; the producer of its other operand."""
    producers = sch.get_producers(block)
    matrices = [other for other in producers if not sch.get_sref(other).block.reads]
    operands = [other for other in producers if sch.get_sref(other).block.reads]
    if len(matrices) != 1 or len(operands) != 1:
        raise ScheduleError(
            f"block {sch.get_sref(block).name!r} is no Winograd transform: it reads "
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
