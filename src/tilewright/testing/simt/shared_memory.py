"""Shared memory of a block: its bytes, who still uses them, and the barriers that lie in it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.testing.simt.threads import Array, RaceError

_MOST_BYTES = 2**20 - 1  # that a barrier can expect


@dataclass
class Barrier:
    """An `mbarrier`: a phase ends when all have arrived and all expected bytes have."""

    arrivals: int
    starter: str
    pending: int = field(init=False)
    bytes: int = 0  # expected, and not there yet
    phase: int = 0
    is_visible: bool = False  # to bulk copies

    def __post_init__(self) -> None:
        self.pending = self.arrivals

    def arrive(self, expected: int = 0) -> None:
        """One arrival, which may announce bytes."""
        if not self.pending:
            raise RaceError("more threads arrive at a barrier than it was started for")
        self.pending -= 1
        self.bytes += expected
        if self.bytes > _MOST_BYTES:
            raise RaceError(f"a barrier expects {self.bytes} bytes, at most {_MOST_BYTES}")
        self._advance()

    def complete(self, count: int, phase: int) -> None:
        """Bytes of a copy that was started in a phase have landed."""
        if self.phase != phase:
            raise RaceError("a bulk copy lands after the phase of its barrier, which expects less")
        self.bytes -= count
        if not self.pending and self.bytes < 0:
            raise RaceError(f"{-self.bytes} bytes more land than their barrier expects")
        self._advance()

    def __str__(self) -> str:
        return f"{self.pending} arrivals and {self.bytes} bytes are missing"

    def has_ended(self, parity: int) -> bool:
        """Whether the phase of that parity is over."""
        return self.phase % 2 != parity

    def _advance(self) -> None:
        if not self.pending and not self.bytes:
            self.phase, self.pending = self.phase + 1, self.arrivals


class SharedMemory:
    """Bytes, by their addresses."""

    def __init__(self, size: int, start: int) -> None:
        self._bytes = np.zeros(size, np.uint8)
        self._is_visible = np.zeros(size, np.bool_)  # to bulk copies and `wgmma`
        self._is_unread = np.zeros(size, np.bool_)  # landed, but nobody has begun to read it
        self._readers = np.zeros(size, np.int64)  # that have begun and not ended
        self._written = np.full(size, -1)  # by threads: the interval between barriers
        self.start = start
        self._phases: dict[tuple[int, int], int] = {}  # of barriers that copies have landed for
        self._phase_of = np.full(size, -1)
        self.barriers: dict[int, Barrier] = {}

    def place(self, address: int) -> int:
        """How far an address is from the next multiple of 1024, where kernels begin to use it."""
        return address - -(-self.start // 1024) * 1024

    def check_end(self) -> None:
        """Nothing may be under way when a block ends."""
        if any(barrier.bytes for barrier in self.barriers.values()):
            raise RaceError("a block ends before its bulk copies have landed")

    def barrier(self, address: int) -> Barrier:
        """The barrier at an address."""
        if address not in self.barriers:
            raise RaceError(f"there is no barrier yet at byte {self.place(address)}")
        return self.barriers[address]

    def start_barrier(self, address: int, barrier: Barrier) -> None:
        """Begin to use a barrier."""
        self._offsets(address + np.arange(8))
        if address % 8 or address in self.barriers:
            raise RaceError(f"no barrier can start at byte {self.place(address)}")
        self.barriers[address] = barrier

    def begin_read(self, addresses: Array, reader: str) -> None:
        """An asynchronous read is under way."""
        at = self._offsets(addresses)
        self._check(at, reader)
        np.add.at(self._readers, at, 1)
        self._is_unread[at] = False

    def end_read(self, addresses: Array, reader: str) -> Array:
        """What an asynchronous read finds, as late as it can be."""
        at = self._offsets(addresses)
        self._check(at, reader)
        np.subtract.at(self._readers, at, 1)
        return self._bytes[at]

    def begin_copy(self, addresses: Array) -> None:
        """A bulk copy will put bytes there some time."""
        at = self._offsets(addresses)
        self._check_unused(at, "a bulk copy")
        if np.any(self._is_unread[at]):
            raise RaceError("a bulk copy overwrites a tile that nobody has read yet")
        self._is_visible[at] = False

    def end_copy(self, addresses: Array, data: Array, phase: tuple[int, int]) -> None:
        """A bulk copy lands; `phase` is the address of its barrier, and which phase it is in."""
        at = self._offsets(addresses)
        self._bytes[at] = data
        self._is_visible[at] = self._is_unread[at] = True
        self._phase_of[at] = self._phases.setdefault(phase, len(self._phases))

    def read_landed(self, addresses: Array, reader: str) -> Array:
        """What threads find; they may need only a part of what has landed for a barrier."""
        at = self._offsets(addresses)
        self._check(at, reader)
        self._is_unread[np.isin(self._phase_of, np.unique(self._phase_of[at]))] = False
        return self._bytes[at]

    def write(self, addresses: Array, data: Array, interval: int) -> None:
        """Threads write; bulk copies see it after a fence, other threads after a barrier."""
        at = self._offsets(addresses)
        self._check_unused(at, "a thread")
        self._bytes[at] = data
        self._is_visible[at] = False
        self._written[at] = interval

    def read(self, addresses: Array, interval: int) -> Array:
        """What threads wrote before they met."""
        at = self._offsets(addresses)
        written = self._written[at]
        if np.any(written < 0) or np.any(written == interval):
            raise RaceError("a thread reads shared memory that no thread wrote before a barrier")
        return self._bytes[at]

    def fence(self, addresses: Array) -> None:
        """Bulk copies see what a thread wrote."""
        self._is_visible[self._offsets(addresses)] = True

    def _check(self, at: Array, reader: str) -> None:
        if not np.all(self._is_visible[at]):
            raise RaceError(
                f"{reader} reads shared memory whose bytes have not landed, or that was written "
                "without a fence since"
            )

    def _check_unused(self, at: Array, writer: str) -> None:
        if np.any(self._readers[at]):
            raise RaceError(f"{writer} writes to shared memory that is still being read")

    def _offsets(self, addresses: Array) -> Array:
        at = addresses - self.start
        if at.size and (at.min() < 0 or at.max() >= len(self._bytes)):
            raise RaceError("an access is outside of shared memory")
        return at
