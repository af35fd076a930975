"""Estimates of how long a schedule for the accelerator VTA takes, without its instructions."""

from __future__ import annotations

import math

from tilewright.ir import PrimFunc
from tilewright.space.vta.tile_use import ScratchpadTile, tile_use
from tilewright.target import Target
from tilewright.vta.configuration import Configuration
from tilewright.vta.cycles import PIPELINE_FILL
from tilewright.vta.names import ACC, INP

_BYTES = {INP: 16, ACC: 16}  # of an element, as it is moved; blocks of weights have 256
_ALU_STEPS = 3  # that shift and clip results
_UNKNOWN = 1.0  # seconds: a program that is no schedule for VTA does not run there


def estimate_on_vta(func: PrimFunc, target: Target) -> float:
    """Seconds of a run: the busier of computing and moving, and what cannot overlap."""
    configuration, use = Configuration.of(target.attrs), tile_use(func)
    if use is None:
        return _UNKNOWN
    if use.why_illegal(configuration):
        return _UNKNOWN
    computing = use.operations + (_ALU_STEPS + 1) * use.acc.visits * use.acc.elements
    computing += PIPELINE_FILL * (use.inp.visits + (_ALU_STEPS + 1) * use.acc.visits)
    moving = sum(tile.visits * _cycles(tile, configuration) for tile in use.tiles)
    ends = sum(_cycles(tile, configuration) for tile in use.tiles)  # first loads, last store
    if use.overlaps(configuration):
        cycles = ends + max(computing, moving - ends)
    else:
        cycles = computing + moving
    return configuration.nanoseconds(math.ceil(cycles)) * 1e-9


def _cycles(tile: ScratchpadTile, configuration: Configuration) -> int:
    """Cycles of one transfer of a tile."""
    size = tile.elements * _BYTES.get(tile.scope, 256)
    return tile.rows * configuration.row_latency_cycles + -(-size // configuration.bus_bytes)
