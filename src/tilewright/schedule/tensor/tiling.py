"""Tiling a block so that its inner loops are what a tensor instruction computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ir import IntImm
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule.analysis.tensorize_info import get_tensorize_loop_mapping
from tilewright.schedule.state import BlockRV, LoopRV

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule


def tile_with_tensor_intrin(
    sch: Schedule, block: BlockRV, intrin_name: str, allow_padding: bool = False
) -> LoopRV | None:
    """Split and reorder the loops of a block; the outermost loop of the tile, None if none fits.

    With `allow_padding`, iterators that do not divide are padded first.
    """
    intrin = TensorIntrin.get(intrin_name)
    assert intrin is not None
    info = get_tensorize_loop_mapping(sch, block, intrin.desc, allow_padding)
    if info is None:
        return None
    if info.block_iter_paddings is not None:
        sch.pad_einsum(block, info.block_iter_paddings)
    handles = {sch.get_sref(loop): loop for loop in sch.get_loops(block)}
    inner: dict[int, LoopRV] = {}
    for loop, desc_loop in info.loop_map.items():
        assert isinstance(desc_loop.extent, IntImm)
        # The outer factor stays open: the same trace then serves other extents.
        _, piece = sch.split(handles[loop], [None, desc_loop.extent.value])
        inner[info.desc_loop_indexer[desc_loop]] = piece
    pieces = [inner[position] for position in sorted(inner)]
    _reorder(sch, block, pieces)
    return pieces[0]


def _reorder(sch: Schedule, block: BlockRV, pieces: list[LoopRV]) -> None:
    """Bring the pieces inside all loops that come after the first of them."""
    wanted = {sch.get_sref(piece) for piece in pieces}
    outer: list[LoopRV] = []
    found = False
    for loop in sch.get_loops(block):
        is_piece = sch.get_sref(loop) in wanted
        found = found or is_piece
        if found and not is_piece:
            outer.append(loop)
    sch.reorder(*outer, *pieces)
