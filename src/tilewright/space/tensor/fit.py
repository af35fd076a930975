"""The fit of a tensor instruction to a contraction: what its operands lack for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.ir import Block, PrimFunc
from tilewright.space.cpu.contraction import Contraction, is_plain_term
from tilewright.space.layout_free import is_layout_free
from tilewright.space.tensor.instruction import TensorTile

_SIGNED = {"uint8": "int8", "int8": "uint8"}


@dataclass(frozen=True)
class TensorFit:
    """How an instruction fits a contraction; numbers are positions of iterators or of reads."""

    tile: TensorTile
    found: Contraction
    depth: int  # the reduction that the instruction does some steps of
    units: Mapping[int, int]  # how many iterations of each iterator the instruction does
    shifted: int | None  # the read that has the wrong sign
    paddings: tuple[int, ...] | None  # what iterators lack to units
    is_packed: bool  # the right operand is in the order of the instruction

    @property
    def work(self) -> float:
        """The products that one instruction contributes, those with padding left out."""
        tile, extents = self.tile, self.found.extents
        lacking = self.paddings or (0,) * len(extents)
        share = math.prod(e / (e + n) for e, n in zip(extents, lacking, strict=True))
        return tile.rows * tile.lanes * tile.depth * share

    @property
    def order(self) -> list[int]:
        """The iterators that the instruction does some iterations of, as its loops are nested."""
        tile = self.tile
        position = dict(zip((tile.lane, tile.depth_iter, tile.row), self.units, strict=False))
        return [position[v.var] for v in tile.iters if v.var in position]

    def effort(self, func: PrimFunc, block: Block) -> tuple[bool, bool, bool]:
        """What has to be done to the operands first: shifting costs more than padding.

        The right operand is shifted while it is packed, unless that was done ahead. What results
        start from then is a sum over the left one, which windows would compute again and again.
        """
        is_right = self.shifted is not None and self.shifted == self.found.right
        is_expensive = is_right and (self.is_constant(func, block) or len(self.found.depth) > 1)
        return self.shifted is not None, self.paddings is not None, is_expensive

    def is_constant(self, func: PrimFunc, block: Block) -> bool:
        """Is the right operand packed once, ahead of all calls?"""
        assert self.found.right is not None
        return is_layout_free(func, block.reads[self.found.right].buffer)

    @staticmethod
    def of(block: Block, found: Contraction, tile: TensorTile) -> TensorFit | None:
        """How the instruction fits a block, None if it does not."""
        assert found.right is not None
        (left,) = found.left
        if block.writes[0].buffer.dtype != tile.out.dtype:
            return None
        wrong = [
            number
            for number, wanted in ((left, tile.left), (found.right, tile.right))
            if block.reads[number].buffer.dtype != wanted.dtype
        ]
        if len(wrong) > 1 or any(not _differs_in_sign(block, n, found, tile) for n in wrong):
            return None
        depth = _contiguous_depth(block, found, left)
        row = next((n for n in reversed(found.rows) if found.extents[n] > 1), None)
        if depth is None or (tile.rows > 1 and row is None):
            return None
        units = {found.vector: tile.lanes, depth: tile.depth}
        if tile.rows > 1 and row is not None:
            units[row] = tile.rows
        lacking = tuple(-e % units.get(n, 1) for n, e in enumerate(found.extents))
        return TensorFit(
            tile,
            found,
            depth,
            units,
            wrong[0] if wrong else None,
            lacking if any(lacking) else None,
            _is_packed(block, found, tile, depth),
        )


def _differs_in_sign(block: Block, number: int, found: Contraction, tile: TensorTile) -> bool:
    wanted = tile.right if number == found.right else tile.left
    return _SIGNED.get(str(block.reads[number].buffer.dtype)) == str(wanted.dtype)


def _contiguous_depth(block: Block, found: Contraction, left: int) -> int | None:
    """The reduction along which the left operand is contiguous and the right one has an axis."""
    assert found.right is not None
    last = block.reads[left].region[-1].min
    axes = [axis.min for axis in block.reads[found.right].region]
    for n in found.depth:
        var = block.iter_vars[n].var
        if is_plain_term(last, var) and any(axis is var for axis in axes):
            return n
    return None


def _is_packed(block: Block, found: Contraction, tile: TensorTile, depth: int) -> bool:
    assert found.right is not None
    if found.extents[found.vector] != tile.lanes or found.extents[depth] != tile.depth:
        return False
    lane, step = block.iter_vars[found.vector].var, block.iter_vars[depth].var
    wanted = tile.right_indices(lane, step)
    axes = [axis.min for axis in block.reads[found.right].region][-len(wanted) :]
    return len(axes) == len(wanted) and all(a is b for a, b in zip(axes, wanted, strict=True))
