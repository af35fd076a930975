"""Sums that blocks of threads hand to each other by way of memory, with flags.

What is stored can be read by another block once a thread that met the storing ones since has put a
flag, and a thread of that block has found it and met the reading ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilewright import ir
from tilewright.testing.simt.products import WarpGroup
from tilewright.testing.simt.threads import Array, RaceError, Wait, address_taken

if TYPE_CHECKING:
    from tilewright.testing.simt.warp import Arguments, Warp

_WIDTH = 4


@dataclass
class _Flag:
    """The groups of warps that put a flag and found it, each with its interval of barriers."""

    put: tuple[WarpGroup, int]
    found: tuple[WarpGroup, int] | None = None


@dataclass
class GivenSums:
    """All that the blocks of a launch have handed over."""

    flags: dict[int, _Flag] = field(default_factory=dict)
    # Who stored sums, by the first element of each vector.
    stored: dict[int, tuple[WarpGroup, int]] = field(default_factory=dict)

    def check_end(self) -> None:
        """The next launch must find no flags."""
        left = sorted(number for number, flag in self.flags.items() if flag.found is None)
        if left:
            raise RaceError(f"nobody took flag {left[0]}")

    def check_read(self, vectors: Array, warp: Warp) -> None:
        """Refuse to read what may not be there yet."""
        owners = {self.stored.get(first): first for first in vectors.tolist()}
        for owner, element in owners.items():
            if owner is None:
                raise RaceError(f"sum {element} is read before it is stored")
            self._check_owner(owner, element, warp)

    def _check_owner(self, owner: tuple[WarpGroup, int], element: int, warp: Warp) -> None:
        giver, stored = owner
        group, now = warp.group, warp.block.interval
        flags = [flag for flag in self.flags.values() if flag.put[0] is giver]
        if not any(stored < flag.put[1] for flag in flags):
            raise RaceError(f"sum {element} is read, but no flag was put after it was stored")
        found = [flag.found for flag in flags if flag.found is not None]
        if not any(by is group and when < now for by, when in found):
            raise RaceError(
                f"sum {element} is read by a thread that has not met who found its flag"
            )


def _elements(warp: Warp, source: ir.BufferLoad) -> Array:
    """The elements that lanes access, each some neighbours."""
    first = warp.lanes(source.indices[0]).astype(np.int64)
    if np.any(first % _WIDTH):
        raise RaceError("sums are not at a multiple of 16 bytes")
    return first[:, None] + np.arange(_WIDTH)


def give(warp: Warp, args: Arguments) -> None:
    """Store sums."""
    target = address_taken(args[0])
    places = _elements(warp, target)
    values = np.stack([warp.lanes(arg) for arg in args[1:]], axis=1)
    warp.write(target.buffer.data, target.buffer.dtype, places, values)
    owner = warp.group, warp.block.interval
    warp.block.given.stored.update(dict.fromkeys(places[:, 0].tolist(), owner))


def take(warp: Warp, args: Arguments) -> None:
    """Add sums to registers."""
    registers, source = map(address_taken, args)
    places = _elements(warp, source)
    warp.block.given.check_read(places[:, 0], warp)
    own = _elements(warp, registers)
    dtype = registers.buffer.dtype
    given = warp.read(source.buffer.data, dtype, places)
    total = warp.read(registers.buffer.data, dtype, own) + given
    warp.write(registers.buffer.data, dtype, own, total)


def put_flag(warp: Warp, args: Arguments) -> None:
    """Say that sums are there."""
    warp.need(1, "tw_put_flag")
    number = _number_of(warp, args)
    warp.block.given.flags[number] = _Flag((warp.group, warp.block.interval))


def take_flag(warp: Warp, args: Arguments) -> Iterator[Wait]:
    """Wait for a flag and take it down."""
    warp.need(1, "tw_take_flag")
    number, given = _number_of(warp, args), warp.block.given

    def is_there() -> bool:
        flag = given.flags.get(number)
        return flag is not None and flag.found is None

    yield Wait(is_there, lambda: f"flag {number}")
    given.flags[number].found = (warp.group, warp.block.interval)


def _number_of(warp: Warp, args: Arguments) -> int:
    flag = address_taken(args[0])
    (index,) = flag.indices
    number = warp.number(index)
    if not 0 <= number < warp.memory(flag.buffer).view(flag.buffer.dtype).shape[1]:
        raise RaceError(f"there is no flag {number}")
    return number
