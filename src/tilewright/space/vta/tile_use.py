"""Tiles that a schedule for VTA keeps in scratchpads, and moves: read off its loops."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.vta.configuration import Configuration
from tilewright.vta.machine import LEAST_DISTANCE
from tilewright.vta.names import ACC, BLOCK, INP, SCOPES, WGT

_LANES = {INP: BLOCK, WGT: BLOCK * BLOCK, ACC: BLOCK}


@dataclass(frozen=True)
class ScratchpadTile:
    """A part of a tensor that a scratchpad holds at a time."""

    scope: str
    elements: int
    rows: int  # pieces in one piece of main memory
    visits: int  # how often it is loaded or stored


@dataclass(frozen=True)
class TileUse:
    """The tiles of both operands and of the results, and the operations on them."""

    inp: ScratchpadTile
    wgt: ScratchpadTile
    acc: ScratchpadTile
    operations: int
    in_a_row: int  # operations of a step on one result

    @property
    def tiles(self) -> tuple[ScratchpadTile, ScratchpadTile, ScratchpadTile]:
        """All tiles."""
        return self.inp, self.wgt, self.acc

    def why_illegal(self, configuration: Configuration) -> str:
        """What the machine cannot do; empty if it can do all."""
        for tile in self.tiles:
            memory = SCOPES[tile.scope]
            if tile.elements > configuration.depth(memory):
                size = configuration.element_bytes[memory]
                return (
                    f"a tile takes {tile.elements * size} bytes of the {memory.name} scratchpad, "
                    f"which has {configuration.buffer_bytes(memory)}"
                )
        if self.in_a_row > 1 and self.acc.elements < LEAST_DISTANCE:
            return (
                f"a tile of {self.acc.elements} results is added to again too soon, the pipeline "
                f"takes {LEAST_DISTANCE} operations"
            )
        return ""

    def overlaps(self, configuration: Configuration) -> bool:
        """Whether two of each tile fit, so that one is moved while the other is computed on."""
        return all(
            2 * tile.elements <= configuration.depth(SCOPES[tile.scope]) for tile in self.tiles
        )


_Loops = tuple[ir.For, ...]


def tile_use(func: ir.PrimFunc) -> TileUse | None:
    """The tiles of a scheduled function; None if it is no schedule of `ScratchpadTiling`."""
    found: dict[str, tuple[ir.Block, _Loops]] = {}
    for block, loops in _leaves(func.body, ()):
        scope = str(block.writes[0].buffer.scope) if block.writes else ""
        name = "gemm" if block.match_buffers else scope
        found["out" if name == "global" else name] = block, loops
    if not found.keys() >= {"gemm", INP, WGT, "out"}:
        return None
    _, around = found["gemm"]
    out = _tile(ACC, *found["out"], around)
    steps = math.prod(map(_iterations, around)) * BLOCK // _lanes_left(found["gemm"][0])
    inner = math.prod(_iterations(loop) for loop in around[_common(found[INP][1], around) :])
    return TileUse(
        _tile(INP, *found[INP], around),
        _tile(WGT, *found[WGT], around),
        out,
        steps,
        inner // max(1, out.elements),
    )


def _lanes_left(block: ir.Block) -> int:
    """Loops around the instruction run over whole blocks."""
    return BLOCK if block.match_buffers else 1


def _leaves(stmt: ir.Stmt, loops: _Loops) -> Iterator[tuple[ir.Block, _Loops]]:
    match stmt:
        case ir.For():
            yield from _leaves(stmt.body, (*loops, stmt))
        case ir.SeqStmt():
            for each in stmt.seq:
                yield from _leaves(each, loops)
        case ir.BlockRealize(block=block) if block.iter_vars or block.match_buffers:
            yield block, loops
        case ir.BlockRealize(block=block):
            yield from _leaves(block.body, loops)


def _iterations(loop: ir.For) -> int:
    return loop.extent.value if isinstance(loop.extent, ir.IntImm) else 1


def _common(loops: Sequence[ir.For], others: Sequence[ir.For]) -> int:
    """How many loops two blocks share."""
    pairs = zip(loops, others, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a is not b), min(len(loops), len(others)))


def _tile(scope: str, block: ir.Block, loops: _Loops, around: _Loops) -> ScratchpadTile:
    shared = _common(loops, around)
    extents = [_iterations(loop) for loop in loops[shared:]]
    elements = math.prod(extents) // _LANES[scope]
    region = block.writes[0] if scope == ACC else block.reads[0]
    row = _row(extents, region.buffer.shape) // _LANES[scope]
    visits = math.prod(_iterations(loop) for loop in loops[:shared])
    return ScratchpadTile(scope, max(1, elements), max(1, elements // max(1, row)), visits)


def _row(extents: Sequence[int], shape: Sequence[ir.PrimExpr]) -> int:
    """Numbers that lie together: the last axis, and those before it while whole ones are taken."""
    total = 1
    for extent, whole in zip(reversed(extents), reversed(shape), strict=False):
        total *= extent
        if not isinstance(whole, ir.IntImm) or extent < whole.value:
            break
    return total
