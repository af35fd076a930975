"""Every operator of topi, scheduled for a GPU without a search and run in the emulator."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.ir import PrimFunc
from tilewright.target import Target
from tilewright.testing.gpu_lowering import lower_for_gpu
from tilewright.testing.operator_rows import ROWS
from tilewright.testing.operator_table import Row, check
from tilewright.testing.simt import run
from tilewright.tune import default_schedule

TARGET = Target("nvidia/nvidia-h200")
# One row of each kind of kernel; all others take a minute or two.
QUICK = {
    "exp", "add", "sum", "any", "argmax", "transpose", "concatenate", "take", "cumsum", "topk",
    "scatter_nd", "nn.softmax", "nn.pad", "nn.pool2d", "nn.adaptive_pool", "matmul",
}  # fmt: skip


def emulated(func: PrimFunc, arrays: list[Any]) -> None:
    run(lower_for_gpu(default_schedule(func, TARGET).mod, "nvidia/nvidia-h200"), arrays)


def cases() -> list[Any]:
    """Each operator for one data type; rows that differ in more are rows of the same name."""
    seen: set[str] = set()
    made = []
    for number, row in enumerate(ROWS):
        is_quick = row.name in QUICK - seen
        seen.add(row.name)
        marks = [] if is_quick else [pytest.mark.slow]
        made.append(pytest.param(row, marks=marks, id=f"{number}-{row.name}"))
    return made


@pytest.mark.parametrize("row", cases())
def test_operator(row: Row) -> None:
    common = [dtype for dtype in ("float32", "int32") if dtype in row.dtypes]
    check(row, (common or row.dtypes)[0], emulated)
