"""Copies in row-major order, in one piece or by blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.runtime import compact
from tilewright.runtime.compact import COLUMNS, ROWS, compact_copy
from tilewright.runtime.cpu_device import ALIGNMENT
from tilewright.runtime.tensor_view import Array, address_of

NUMBERS = np.arange((2 * ROWS + 3) * (COLUMNS + 5), dtype="int32")


@pytest.mark.parametrize("least", [0, compact.LARGE], ids=["by blocks", "in one piece"])
@pytest.mark.parametrize(
    "array",
    [
        NUMBERS.reshape(COLUMNS + 5, -1).T,
        NUMBERS.reshape(2 * ROWS + 3, -1)[::-1, ::2],
        NUMBERS[:840].reshape(5, 7, 4, 6).transpose(2, 3, 1, 0),
        NUMBERS[::3],
        NUMBERS[1:],
        np.float32(3.0).reshape(()),
        np.zeros((0, 3))[:, ::2],
    ],
    ids=["transposed", "reversed", "filters", "vector", "unaligned", "scalar", "empty"],
)
def test_a_copy_has_the_same_elements(
    monkeypatch: pytest.MonkeyPatch, array: Array, least: int
) -> None:
    monkeypatch.setattr(compact, "LARGE", least)
    copy = compact_copy(array)
    np.testing.assert_array_equal(copy, array)
    assert copy.dtype == array.dtype
    assert copy.flags.c_contiguous
    assert address_of(copy) % ALIGNMENT == 0
