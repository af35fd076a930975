"""`MutateTileSize`: move a factor from one tile of a loop to another."""

from __future__ import annotations

import functools
import math

from tilewright.ir import annotation_keys as keys
from tilewright.schedule import Instruction, Trace
from tilewright.schedule.primitives.sample_perfect_tile import SamplePerfectTile
from tilewright.schedule.trace.instruction import is_step
from tilewright.schedule.trace.random import RandomEngine
from tilewright.space.base import Mutator, mutators
from tilewright.space.mutators.decisions import draws_behind, main_part, with_another_category


@mutators.register("MutateTileSize")
class MutateTileSize(Mutator):
    """Change the tiling of a loop, or how many elements a GPU thread fetches at once."""

    def apply(self, trace: Trace, seed: int) -> Trace | None:
        engine = RandomEngine(seed)
        drawn = (inst for inst in main_part(trace) if is_step(inst, SamplePerfectTile))
        tiles = [inst for inst in drawn if _is_divisible(trace, inst)]
        fetches = draws_behind(trace, (keys.COOPERATIVE_FETCH,))
        if not tiles and not fetches:
            return None
        chosen = engine.integer(0, len(tiles) + len(fetches))
        if chosen >= len(tiles):
            return with_another_category(trace, engine, fetches[chosen - len(tiles)])
        inst = tiles[chosen]
        factors = moved_factor(
            engine, list(trace.get_decision(inst)), inst.step.max_innermost_factor
        )
        return None if factors is None else trace.with_decision(inst, factors, remove_postproc=True)


def _is_divisible(trace: Trace, inst: Instruction) -> bool:
    decision = trace.get_decision(inst)
    return decision is not None and len(decision) >= 2 and math.prod(decision) >= 2


def moved_factor(engine: RandomEngine, tiles: list[int], limit: int) -> list[int] | None:
    """A tiling that differs by a factor moved from one place to another; None: there is no room.

    The innermost tile never grows beyond `limit` (so never at all without a limit, -1).
    """
    last = len(tiles) - 1
    while True:
        source = engine.integer(0, len(tiles))
        if tiles[source] <= 1:
            continue
        target = engine.integer(0, last)
        target += target >= source
        factors = divisors(tiles[source])
        choices = len(factors)
        if target == last:
            choices = sum(factor * tiles[last] <= limit for factor in factors)
            if choices <= 1:
                if len(tiles) <= 2:
                    return None
                continue
        factor = factors[engine.integer(1, choices)]
        tiles[source] //= factor
        tiles[target] *= factor
        return tiles


@functools.lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """All divisors in ascending order."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))
