"""Every operator of topi, scheduled without a search, on a real GPU."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tilewright.ir import PrimFunc
from tilewright.runtime import cuda, ndarray as nd
from tilewright.testing.operator_rows import ROWS
from tilewright.testing.operator_table import Row, check
from tilewright.tune import default_schedule

pytestmark = pytest.mark.cuda


def on_device(func: PrimFunc, arrays: list[Any]) -> None:
    module = tw.build(default_schedule(func, "cuda").mod, "cuda")
    given = [nd.array(array, cuda()) for array in arrays]
    module(*given)
    for array, result in zip(arrays, given, strict=True):
        array[...] = result.numpy()


@pytest.mark.parametrize("row", ROWS, ids=[f"{n}-{row.name}" for n, row in enumerate(ROWS)])
def test_operator(row: Row) -> None:
    common = [dtype for dtype in ("float16", "float32", "int32") if dtype in row.dtypes]
    for dtype in common or row.dtypes[:1]:
        check(row, dtype, on_device)
