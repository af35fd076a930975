# mypy: disable-error-code="valid-type, no-untyped-def"
"""Iterators with a single value: where they add nothing to an index, they say nothing."""

from __future__ import annotations

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.ir import PrimFunc
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import Schedule
from tilewright.schedule.analysis import get_auto_tensorize_mapping_info
from tilewright.script import tir as T


def convolution(window: int) -> PrimFunc:
    @T.prim_func
    def main(
        A: T.Buffer((1, 63 + window, 64), "float16"),
        B: T.Buffer((window, 64, 64), "float16"),
        C: T.Buffer((1, 64, 64), "float32"),
    ):
        for n, h, j, r, k in T.grid(1, 64, 64, window, 64):
            with T.block("C"):
                vn, vh, vj, vr, vk = T.axis.remap("SSSRR", [n, h, j, r, k])
                with T.init():
                    C[vn, vh, vj] = T.float32(0)
                C[vn, vh, vj] = C[vn, vh, vj] + T.Cast("float32", A[vn, vh + vr, vk]) * T.Cast(
                    "float32", B[vr, vk, vj]
                )

    return main


@pytest.mark.parametrize(
    ("window", "outputs"),
    [
        (3, "(vn * 64 + vh, vj, vr * 64 + vk,)"),
        (1, "(vr, vn * 64 + vh, vj, vk,)"),  # vr adds nothing to vh, so it is no part of k
    ],
)
def test_unit_iterators(window: int, outputs: str) -> None:
    sch = Schedule(convolution(window))
    intrin = TensorIntrin.get("wmma_sync_16x16x16_f16f16f32")
    assert intrin is not None
    info = get_auto_tensorize_mapping_info(sch, sch.get_block("C"), intrin.desc)
    assert info is not None
    assert str(info.mappings[0]) == f"lambda vn, vh, vj, vr, vk: {outputs}"
