"""Sizes that stand in for symbolic ones: large, and prime, so that no tile divides them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilewright import ir

ELEMENTS = 1 << 20  # of an argument: enough to be worth tiles, threads and vectors
SMALLEST = 31
ROWS = 1021  # of a matrix of which the other extent is known: large results want other stores


def stand_in_sizes(func: ir.PrimFunc) -> dict[ir.Var, int]:
    """For each symbol of a shape a prime: no tile divides it, so no schedule relies on one."""
    sizes: dict[ir.Var, int] = {}
    used: set[int] = set()
    for symbol in ir.symbols_of(func):
        buffers = [
            buffer
            for buffer in func.buffer_map.values()
            if any(var is symbol for var in _symbols(buffer))
        ]
        if not buffers:
            continue  # a stride may be any number
        size = min(_size(buffer) for buffer in buffers)
        sizes[symbol] = next(prime for prime in _primes_below(size) if prime not in used)
        used.add(sizes[symbol])
    return sizes


def _symbols(buffer: ir.Buffer) -> list[ir.Var]:
    return [var for extent in buffer.shape for var in ir.free_vars(extent)]


def _size(buffer: ir.Buffer) -> int:
    """What each symbol of a buffer may be for all of it to have `ELEMENTS` elements."""
    known = math.prod(extent.value for extent in buffer.shape if isinstance(extent, ir.IntImm))
    count = max(1, len(_symbols(buffer)))
    size: int = round((ELEMENTS / max(1, known)) ** (1 / count))
    least = ROWS if count == 1 else SMALLEST
    return max(least, size)


def _primes_below(limit: int) -> Iterator[int]:
    """Primes, the largest that is at most `limit` first; upwards from there when they run out."""
    yield from (n for n in range(limit, 1, -1) if _is_prime(n))
    yield from (n for n in range(limit + 1, 2 * limit + 64) if _is_prime(n))


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % divisor for divisor in range(2, math.isqrt(n) + 1))
