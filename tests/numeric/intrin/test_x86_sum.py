"""Sums of bytes: the numbers and the instruction."""

from __future__ import annotations

import pytest

from tilewright.driver import build, compile_only
from tilewright.intrin.agreement import disagreement, stand_alone
from tilewright.intrin.x86_pack import ROW_LANES, sum_name
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.target import Target

NAMES = [
    *(sum_name(16, dtype, row=False) for dtype in ("int8", "uint8")),
    *(sum_name(lanes, dtype, row=True) for lanes in ROW_LANES for dtype in ("int8", "uint8")),
]


@pytest.mark.parametrize("name", NAMES)
def test_numbers_and_instruction(name: str) -> None:
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    made = compile_only(stand_alone(intrin.impl), Target("llvm -mcpu=cascadelake"))
    assert made.get_source("asm").count("vpdpbusd") == 1
    if not intrin.features <= Target("llvm").features:
        pytest.skip("this CPU has no VNNI")
    assert disagreement(intrin, build) is None
