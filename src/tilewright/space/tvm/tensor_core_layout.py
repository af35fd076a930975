"""Layouts in which a block becomes a plain matrix product of tiles, as tensor cores take them.

Iterators of the block that stand for the same iterator of the instruction are fused. Each buffer is
copied into the layout that follows from that; tiling later removes these copies again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.arith import IndexMap
from tilewright.ir import INT32, IntImm, PrimExpr, Var, floordiv, floormod
from tilewright.ir.access import inputs_of
from tilewright.ir.tensor_intrin import TensorIntrin, description_nest
from tilewright.schedule import BlockRV, Schedule
from tilewright.schedule.analysis import AutoTensorizeMappingInfo
from tilewright.space.tvm.multi_level_tiling import Factor


@dataclass(frozen=True)
class Reindexed:
    """The blocks that copy between the layouts of the program and those of the instruction."""

    reads: tuple[BlockRV, ...]
    write: BlockRV


def transform_for_tensorization(
    sch: Schedule, block: BlockRV, info: AutoTensorizeMappingInfo
) -> Reindexed:
    """Let a block read and write copies of its buffers in the layouts of the instruction."""
    stmt = sch.get_sref(block).block
    inputs = {("read", number): region for number, region in inputs_of(stmt).items()}
    output = ("write", 0)
    regions = {**inputs, output: stmt.writes[0]}
    wanted = {
        place: info.rhs_buffer_indices[info.lhs_buffer_map[region.buffer]]
        for place, region in regions.items()
    }
    write = sch.reindex(block, output)
    reads = [sch.reindex(block, place) for place in inputs]
    maps = {place: _map_of(sch, block, info, place, indices) for place, indices in wanted.items()}
    for place, index_map in maps.items():
        sch.transform_layout(block, place, index_map, assume_injective_transform=True)
    sch.transform_block_layout(write, maps[output])
    for place, copy in zip(inputs, reads, strict=True):
        sch.transform_block_layout(copy, maps[place])
    sch.transform_block_layout(block, info.mappings[0])
    return Reindexed(tuple(reads), write)


def _map_of(
    sch: Schedule,
    block: BlockRV,
    info: AutoTensorizeMappingInfo,
    place: tuple[str, int],
    wanted: Sequence[PrimExpr],
) -> IndexMap:
    """The part of the mapping of a block's iterators that concerns one of its buffers."""
    stmt = sch.get_sref(block).block
    region = (stmt.reads if place[0] == "read" else stmt.writes)[place[1]]
    mapping = info.mappings[0]
    renamed = dict(zip((iv.var for iv in stmt.iter_vars), mapping.initial_indices, strict=True))
    # After reindexing, buffers are indexed by iterators; axes of one element have none.
    sources = [renamed[axis.min] for axis in region.region if isinstance(axis.min, Var)]
    kept_count = len(mapping.final_indices) - len(info.rhs_iters)
    kept = {id(index) for index in mapping.final_indices[:kept_count]}
    fused = {
        iter_var.var: mapping.final_indices[kept_count + number]
        for number, iter_var in enumerate(info.rhs_iters)
    }
    targets = [source for source in sources if id(source) in kept]
    return IndexMap(
        tuple(sources), (*targets, *(fused[index] for index in wanted if isinstance(index, Var)))
    )


def accumulator_layout(
    ndim: int, init_intrin: str, rows: Sequence[Factor], columns: Sequence[Factor]
) -> IndexMap:
    """Results ordered by warp, then by fragment of that warp, then inside a fragment.

    `rows` and `columns` are the tile factors of what one warp computes, in fragments.
    """
    fragment_rows, fragment_columns = _fragment_shape(init_intrin)
    indices = [Var(f"i{axis}", INT32) for axis in range(ndim)]
    *outer, row, column = indices
    by_row = _three_levels(row, fragment_rows, _product(rows))
    by_column = _three_levels(column, fragment_columns, _product(columns))
    mixed = [part for pair in zip(by_row, by_column, strict=True) for part in pair]
    return IndexMap(tuple(indices), (*outer, *mixed))


def _three_levels(index: Var, fragment: int, warp: Factor) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    number = floordiv(index, fragment)
    return floordiv(number, warp), floormod(number, warp), floormod(index, fragment)


def _product(factors: Sequence[Factor]) -> Factor:
    return math.prod(factors[1:], start=factors[0])


def _fragment_shape(init_intrin: str) -> tuple[int, int]:
    """How many rows and columns of the result one instruction computes."""
    intrin = TensorIntrin.get(init_intrin)
    assert intrin is not None
    loops, _ = description_nest(intrin.desc)
    rows, columns = (loop.extent for loop in loops)
    assert isinstance(rows, IntImm)
    assert isinstance(columns, IntImm)
    return rows.value, columns.value
