"""A matrix product by `ldmatrix` and `mma`, as an expert would schedule it by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tilewright.intrin  # noqa: F401
from tilewright import ir, te
from tilewright.intrin.cuda import shared_16x16_to_ldmatrix_32x8_layout
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.testing.te_workload import matmul

TILE = 16


@dataclass(frozen=True)
class WarpTiling:
    """What a block of threads and each of its warps compute, and how operands lie."""

    rows: int = 128
    columns: int = 128
    depth: int = 32
    warp_rows: int = 64
    warp_columns: int = 64
    stages: int = 3  # steps of the sum that are in shared memory at a time
    layout: str = "permuted"  # or "padded", or "plain"
    vector: int = 8
    copies_first: bool = False  # within a step of the pipeline

    @property
    def warps(self) -> tuple[int, int]:
        return self.rows // self.warp_rows, self.columns // self.warp_columns


def warp_matmul(m: int, n: int, k: int, tiling: WarpTiling) -> ir.PrimFunc:
    """float16 [m, k] times float16 [k, n], summed up in float32."""
    sch = Schedule(te.create_prim_func(matmul(m, n, k, "float16", "float32")))
    block = sch.get_block("C")
    i, j, depth = sch.get_loops(block)
    row_warps, column_warps = tiling.warps
    block_i, warp_i, tile_i, i = sch.split(i, [None, row_warps, tiling.warp_rows // TILE, TILE])
    block_j, warp_j, tile_j, j = sch.split(
        j, [None, column_warps, tiling.warp_columns // TILE, TILE]
    )
    step, inner, d = sch.split(depth, [None, tiling.depth // TILE, TILE])
    sch.reorder(block_i, block_j, warp_i, warp_j, step, inner, tile_i, tile_j, i, j, d)
    sch.bind(block_i, "blockIdx.y")
    sch.bind(block_j, "blockIdx.x")
    warp = sch.fuse(warp_i, warp_j)
    sch.bind(warp, "threadIdx.y")
    operands = [_fetch(sch, block, operand, step, tiling) for operand in (0, 1)]
    for operand in operands:
        sch.compute_at(operand, inner)
    result = sch.cache_write(block, 0, "warp")
    sch.reverse_compute_at(result, warp)
    init = sch.decompose_reduction(block, step)
    _tensorize(sch, block, init, operands, result)
    if tiling.stages > 1:
        sch.annotate(step, "software_pipeline_stage", [0, 0, tiling.stages - 1])
        order = [0, 1, 2] if tiling.copies_first else [1, 2, 0]
        sch.annotate(step, "software_pipeline_order", order)
        sch.annotate(step, "software_pipeline_async_stages", [0])
    return sch.mod["main"]


def _fetch(
    sch: Schedule, block: BlockRV, operand: int, step: LoopRV, tiling: WarpTiling
) -> BlockRV:
    """Copy an operand to shared memory; gives the copy from there to registers."""
    shared = sch.cache_read(block, operand, "shared.dyn")
    sch.compute_at(shared, step)
    row_warps, column_warps = tiling.warps
    fused = sch.fuse(*sch.get_loops(shared)[-2:])
    _, warp, lane, vector = sch.split(fused, [None, row_warps * column_warps, 32, tiling.vector])
    sch.bind(warp, "threadIdx.y")
    sch.bind(lane, "threadIdx.x")
    sch.vectorize(vector)
    if tiling.layout == "permuted":
        sch.annotate(shared, "permuted_layout", 1)
    elif tiling.layout == "padded":
        sch.storage_align(shared, 0, -2, 32, 8)
    return sch.cache_read(block, operand, "warp")


def _tensorize(
    sch: Schedule, block: BlockRV, init: BlockRV, operands: list[BlockRV], result: BlockRV
) -> None:
    def in_registers(i: Any, j: Any) -> list[Any]:
        inside = shared_16x16_to_ldmatrix_32x8_layout(i % TILE, j % TILE)
        return [i // TILE, j // TILE, *inside]

    for cached, name in zip(operands, "ab", strict=True):
        rows, columns = sch.get_loops(cached)[-2:]
        _tile(sch, rows, columns)
        sch.transform_layout(cached, ("write", 0), in_registers)
        sch.tensorize(sch.get_loops(cached)[-2], f"mma.ldmatrix_16x16_{name}_dyn")
    _tile(sch, *sch.get_loops(result)[-2:])
    sch.transform_layout(result, ("read", 0), in_registers)
    sch.tensorize(sch.get_loops(init)[-2], "mma_fill_16x16_f32")
    sch.tensorize(sch.get_loops(block)[-3], "mma_f16f16f32")
    sch.tensorize(sch.get_loops(result)[-2], "mma_store_16x16_f32_global_")


def _tile(sch: Schedule, rows: LoopRV, columns: LoopRV) -> None:
    """Loops over tiles outside of loops over one tile."""
    outer, row = sch.split(rows, [None, TILE])
    outer_column, column = sch.split(columns, [None, TILE])
    sch.reorder(outer, outer_column, row, column)
