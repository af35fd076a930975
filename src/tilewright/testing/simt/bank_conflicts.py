"""Counts how often threads of a warp ask a bank of shared memory for several words at a time.

There are 32 banks of 4 bytes. A warp's accesses of 16 bytes are served 8 threads at a time, those
of 8 bytes 16 at a time; only threads that are served together are in each other's way, and not
where they ask for the same word. `ldmatrix` takes 8 rows of 16 bytes at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

BANKS = 32
WORD_BYTES = 4
WARP = 32


@dataclass
class BankConflicts:
    """For each kind of access ("load", "store", "copy", "ldmatrix") what it cost."""

    served: dict[str, int] = field(default_factory=dict)  # groups of threads
    turns: dict[str, int] = field(default_factory=dict)  # that these took; as many if there is none
    ways: dict[str, int] = field(default_factory=dict)  # the most turns of a group

    def note(
        self, kind: str, addresses: npt.NDArray[np.int64], width: int, active: npt.NDArray[np.bool_]
    ) -> None:
        """Threads access `width` bytes each; a warp is 32 threads in a row."""
        words = max(1, width // WORD_BYTES)
        together = WARP // words
        first = (addresses // WORD_BYTES).reshape(-1, together)
        runs = active.reshape(-1, together)
        asked = (first[:, :, None] + np.arange(words)).reshape(len(first), -1)
        asked = np.where(np.repeat(runs, words, axis=1), asked, -1)
        turns = _turns(asked[runs.any(axis=1)])
        if turns.size:
            self.served[kind] = self.served.get(kind, 0) + turns.size
            self.turns[kind] = self.turns.get(kind, 0) + int(turns.sum())
            self.ways[kind] = max(self.ways.get(kind, 1), int(turns.max()))


def _turns(asked: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many different words of one bank each row of words has at most; -1 is none."""
    ordered = np.sort(asked, axis=1)
    is_new = np.diff(ordered, axis=1, prepend=-1) != 0
    counts = np.zeros((len(asked), BANKS), np.int64)
    row, column = np.nonzero(is_new)
    np.add.at(counts, (row, ordered[row, column] % BANKS), 1)
    most: npt.NDArray[np.int64] = counts.max(axis=1, initial=0)
    return most
