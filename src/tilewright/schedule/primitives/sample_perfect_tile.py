"""`sample_perfect_tile` and `sample_partitioned_tile`: factors whose product is a loop's extent."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from tilewright.ir import IntImm
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import ExprRV, LoopRV
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive
from tilewright.schedule.trace.random import RandomEngine

_LARGE_PRIME = 65536


class BadTileRequest(PrimitiveError):
    reason = "cannot factor an extent of {extent} into {n} parts"
    remedy = "extents and the number of parts are at least 1"


class LimitNeedsTwoParts(PrimitiveError):
    reason = "max_innermost_factor={limit} needs at least 2 parts, got {n}"


class BadLimit(PrimitiveError):
    reason = "max_innermost_factor={limit} leaves no factor"
    remedy = "it is at least 1, or -1 for no limit"


class DecisionOfWrongLength(PrimitiveError):
    reason = "the decision {decision!r} is not a list of {n} positive factors"


class BadPartition(PrimitiveError):
    reason = "partition_pos={position} and innerpart_factor={factor} do not fit {n} parts"
    remedy = "0 < partition_pos < n and innerpart_factor > 0"


@functools.lru_cache(maxsize=4096)
def factorize(number: int) -> tuple[tuple[int, int], ...]:
    """Prime factors in ascending order with how often each occurs."""
    factors = []
    prime = 2
    while prime * prime <= number and prime < _LARGE_PRIME:
        count = 0
        while number % prime == 0:
            number //= prime
            count += 1
        if count:
            factors.append((prime, count))
        prime += 1 if prime == 2 else 2
    if number > 1:
        factors.append((number, 1))
    return tuple(factors)


def draw_tile(random: RandomEngine, extent: int, n: int) -> list[int]:
    """A random factorisation, by the draws that TVM makes."""
    tile = [1] * n
    if n == 1:
        return [extent]
    for prime, count in factorize(extent):
        if n == 2:
            _draw_pair(random, tile, prime, count)
        elif count == 1:
            tile[random.integer(0, n)] *= prime
        else:
            _draw_stars_and_bars(random, tile, prime, count)
    return tile


def _draw_pair(random: RandomEngine, tile: list[int], prime: int, count: int) -> None:
    if prime >= _LARGE_PRIME:
        tile[1 if random.integer(0, 2) else 0] *= prime
        return
    first = random.integer(0, count + 1)
    tile[0] *= prime**first
    tile[1] *= prime ** (count - first)


def _draw_stars_and_bars(random: RandomEngine, tile: list[int], prime: int, count: int) -> None:
    bars = len(tile) - 1
    positions = [*sorted(random.without_replacement(count + bars, bars)), count + bars]
    previous = -1
    for slot, position in enumerate(positions):
        tile[slot] *= prime ** (position - previous - 1)
        previous = position


def repair_tile(decision: Sequence[int], extent: int) -> list[int]:
    """A decision taken for another extent, made to fit this one from the innermost factor on."""
    tile, rest = list(decision), extent
    for slot in range(len(tile) - 1, 0, -1):
        if rest % tile[slot]:
            tile[slot] = rest
        rest //= tile[slot]
    tile[0] = rest
    return tile


def _checked_decision(decision: object, n: int) -> list[int]:
    if (
        not isinstance(decision, (list, tuple))
        or len(decision) != n
        or not all(type(factor) is int and (factor > 0 or factor == -1) for factor in decision)
    ):
        raise DecisionOfWrongLength(decision=decision, n=n)
    return list(decision)


def _loop_extent(sch: ScheduleCore, loop: LoopRV) -> int | None:
    extent = sch.get_sref(loop).loop.extent
    return extent.value if isinstance(extent, IntImm) else None


@register_primitive
class SamplePerfectTile(Primitive[list[ExprRV]]):
    is_pure = True
    moves_blocks = False
    loop: LoopRV = given()
    n: int
    max_innermost_factor: int

    def decide(self, sch: ScheduleCore, decision: object) -> tuple[list[ExprRV], list[int]]:
        n, extent = self.n, _loop_extent(sch, self.loop)
        if n < 1 or (extent is not None and extent < 1):
            raise BadTileRequest(sch.get_sref(self.loop), extent=extent, n=n)
        if extent is None:
            tile = [-1] + [1] * (n - 1)
        elif decision is not None:
            tile = repair_tile(_checked_decision(decision, n), extent)
        else:
            tile = self._drawn(sch, extent)
        return [sch.expr_rv(factor) for factor in tile], tile

    def _drawn(self, sch: ScheduleCore, extent: int) -> list[int]:
        n, limit = self.n, self.max_innermost_factor
        if limit < 1 and limit != -1:
            raise BadLimit(sch.get_sref(self.loop), limit=limit)
        if limit != -1 and n < 2:
            raise LimitNeedsTwoParts(sch.get_sref(self.loop), limit=limit, n=n)
        tile = draw_tile(sch.random, extent, n)
        while limit != -1 and tile[-1] > limit:
            tile = draw_tile(sch.random, extent, n)
        return tile


@register_primitive
class SamplePartitionedTile(Primitive[list[ExprRV]]):
    is_pure = True
    loop: LoopRV = given()
    n: int
    partition_pos: int
    innerpart_factor: int

    def decide(self, sch: ScheduleCore, decision: object) -> tuple[list[ExprRV], list[int]]:
        n, position, factor = self.n, self.partition_pos, self.innerpart_factor
        extent = _loop_extent(sch, self.loop)
        if n < 1 or not 0 < position < n or factor <= 0:
            raise BadPartition(sch.get_sref(self.loop), position=position, factor=factor, n=n)
        if extent is None or extent % factor:
            tile = [-1 if extent is None else extent] + [1] * (n - 1)
        elif decision is not None:
            tile = repair_tile(_checked_decision(decision, n), extent)
            if math.prod(tile[position:]) % factor:
                tile = [extent // factor] + [1] * (n - 1)
                tile[position] = factor
        else:
            tile = draw_tile(sch.random, extent, n)
            while math.prod(tile[position:]) % factor:
                tile = draw_tile(sch.random, extent, n)
        return [sch.expr_rv(part) for part in tile], tile
