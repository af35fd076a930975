"""Hand-written schedules for the accelerator VTA, which tuned ones are compared with.

Tiles are given as a person would choose them: as large as two of each fit the scratchpads.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import PrimFunc
from tilewright.schedule import BlockRV, Schedule
from tilewright.vta.names import ACC, GEMM, INP, WGT

# (rows, blocks of columns, blocks of the sum) of tiles, by (m, n, k).
GEMM_TILES = {
    (64, 64, 64): (64, 4, 4),
    (256, 256, 256): (64, 16, 4),
    (1024, 256, 256): (64, 16, 4),
}
# (blocks of filters, rows, columns, blocks of channels) by layer of ResNet-18.
CONV_TILES = {
    "C2": (4, 8, 28, 1),
    "C3": (8, 7, 14, 1),
    "C4": (8, 7, 14, 1),
    "C5": (4, 7, 28, 1),
    "C6": (8, 7, 14, 1),
    "C7": (16, 7, 7, 2),
    "C8": (4, 14, 14, 1),
    "C9": (16, 7, 7, 1),
    "C10": (16, 7, 7, 2),
    "C11": (16, 7, 7, 1),
}


def schedule_gemm(func: PrimFunc, tile: Sequence[int]) -> Schedule:
    """A matrix product: results stay, operands pass by."""
    sch = Schedule(func)
    c, out = _with_epilogue(sch)
    operands = [sch.cache_read(c, 0, INP), sch.cache_read(c, 1, WGT)]
    sch.set_scope(c, 0, ACC)
    i, j, lanes = sch.get_loops(out)
    i_out, i_in = sch.split(i, [None, tile[0]], preserve_unit_iters=True)
    j_out, j_in = sch.split(j, [None, tile[1]], preserve_unit_iters=True)
    sch.reorder(i_out, j_out, i_in, j_in, lanes)
    sch.compute_at(c, j_out, preserve_unit_loops=True)
    _, _, i, j, lanes, k, inputs = sch.get_loops(c)
    k_out, k_in = sch.split(k, [None, tile[2]], preserve_unit_iters=True)
    sch.reorder(k_out, k_in, i, j, lanes, inputs)
    for operand in operands:
        sch.compute_at(operand, k_out, preserve_unit_loops=True)
    sch.decompose_reduction(c, k_out)
    sch.tensorize(lanes, GEMM)
    return sch


def schedule_conv2d(func: PrimFunc, tile: Sequence[int]) -> Schedule:
    """A convolution: a window of inputs with its halo, and the weights of a few channels."""
    sch = Schedule(func)
    c, out = _with_epilogue(sch)
    producers = sch.get_producers(c)  # one adds padding
    data = producers[0] if producers else sch.cache_read(c, 0, INP)
    sch.set_scope(data, 0, INP)
    weights = sch.cache_read(c, 1, WGT)
    sch.set_scope(c, 0, ACC)
    *axes, lanes = sch.get_loops(out)
    pairs = [
        sch.split(axis, [None, size], preserve_unit_iters=True)
        for axis, size in zip(axes, tile, strict=False)
    ]
    sch.reorder(*(pair[0] for pair in pairs), *(pair[1] for pair in pairs), lanes)
    sch.compute_at(c, pairs[-1][0], preserve_unit_loops=True)
    _, _, _, o, h, w, lanes, k, kh, kw, inputs = sch.get_loops(c)
    k_out, k_in = sch.split(k, [None, tile[3]], preserve_unit_iters=True)
    sch.reorder(k_out, k_in, kh, kw, o, h, w, lanes, inputs)
    for operand in (data, weights):
        sch.compute_at(operand, k_out, preserve_unit_loops=True)
    sch.decompose_reduction(c, k_out)
    sch.tensorize(lanes, GEMM)
    return sch


def _with_epilogue(sch: Schedule) -> tuple[BlockRV, BlockRV]:
    """The sum, and the block that shifts, clips and stores it."""
    for name in ("shifted", "above", "below"):
        sch.compute_inline(sch.get_block(name))
    return sch.get_block("C"), sch.get_block("O")
