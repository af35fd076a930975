"""Sums of packed bytes: the numbers and the instruction."""

from __future__ import annotations

import pytest

from tilewright.driver import build, compile_only
from tilewright.intrin.agreement import disagreement
from tilewright.intrin.stand_alone import stand_alone
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.target import Target


def test_numbers_and_instruction() -> None:
    intrin = TensorIntrin.get("sum_16x4_int8")
    assert intrin is not None
    made = compile_only(stand_alone(intrin.impl), Target("llvm -mcpu=cascadelake"))
    assert made.get_source("asm").count("vpdpbusd") == 1
    if not intrin.features <= Target("llvm").features:
        pytest.skip("this CPU has no VNNI")
    assert disagreement(intrin, build) is None
