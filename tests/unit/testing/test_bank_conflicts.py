"""What banks of shared memory are asked for, in cases that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.testing.simt import BankConflicts

LANES = np.arange(32, dtype=np.int64)
ALL = np.ones(32, np.bool_)


@pytest.mark.parametrize(
    ("addresses", "width", "served", "ways"),
    [
        (LANES * 4, 4, 1, 1),  # each bank once
        (LANES * 0, 4, 1, 1),  # one word for all
        (LANES * 2, 2, 1, 1),  # two threads to a word
        (LANES * 8, 4, 1, 2),  # every second bank
        (LANES * 128, 4, 1, 32),  # all in one bank
        (LANES * 132, 4, 1, 1),  # rows that are padded by a word
        (LANES * 16, 16, 4, 1),  # 8 threads at a time fill all banks
        (LANES * 128, 16, 4, 8),  # 8 rows of 128 bytes at the same column
        (LANES * 144, 16, 4, 1),  # the same, padded by 16 bytes
        (LANES * 8, 8, 2, 1),
        (LANES * 256, 8, 2, 16),
    ],
)
def test_one_access(
    addresses: np.ndarray[tuple[int], np.dtype[np.int64]], width: int, served: int, ways: int
) -> None:
    found = BankConflicts()
    found.note("load", addresses, width, ALL)
    assert found.served == {"load": served}
    assert found.ways == {"load": ways}
    assert found.turns == {"load": served * ways}


def test_threads_that_do_not_run_ask_for_nothing() -> None:
    found = BankConflicts()
    found.note("store", LANES * 128, 4, LANES < 3)
    found.note("store", LANES * 128, 16, LANES >= 32)
    assert (found.served, found.ways) == ({"store": 1}, {"store": 3})
