"""Every operator of topi, compiled, against NumPy: data types, odd shapes, special values."""

from __future__ import annotations

import pytest

from tilewright import topi
from tilewright.testing.operator_rows import ROWS
from tilewright.testing.operator_table import Row, check

# Public, but nothing that computes a tensor.
NOT_OPERATORS = {"Requantization", "fixed_point_scales", "nn.HeadOptions"}
CASES = [(row, dtype) for row in ROWS for dtype in row.dtypes]


@pytest.mark.parametrize(
    ("row", "dtype"), CASES, ids=[f"{n}-{row.name}-{dtype}" for n, (row, dtype) in enumerate(CASES)]
)
def test_operator(row: Row, dtype: str) -> None:
    check(row, dtype)


def test_no_operator_is_missing() -> None:
    public = {name for name, value in vars(topi).items() if callable(value) and name[0] != "_"}
    public |= {f"nn.{name}" for name, value in vars(topi.nn).items() if callable(value)}
    public |= {f"image.{name}" for name in vars(topi.image) if name.startswith("resize")}
    assert {row.name for row in ROWS} == public - NOT_OPERATORS
