"""The dot products of x86 on this machine: the numbers of the plain program, by instruction."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.intrin.x86 import AVX512_DOT_16x4_INTRIN, VNNI_DOT_16x4_INTRIN
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.target import Target
from tilewright.testing import oracle
from tilewright.testing.schedule_checks import verify_trace_roundtrip

FEATURES = {VNNI_DOT_16x4_INTRIN: "avx512vnni", AVX512_DOT_16x4_INTRIN: "avx512bw"}
MNEMONICS = {VNNI_DOT_16x4_INTRIN: "vpdpbusd", AVX512_DOT_16x4_INTRIN: "vpmaddubsw"}


@T.prim_func
def dense(
    A: T.Buffer((6, 32), "uint8"),
    B: T.Buffer((3, 8, 16, 4), "int8"),
    C: T.Buffer((6, 48), "int32"),
) -> None:
    for i, j_0 in T.grid(6, 3):
        for j_1 in range(16):
            with T.block("dense_init"):
                vi = T.axis.spatial(6, i)
                vj = T.axis.spatial(48, j_0 * 16 + j_1)
                C[vi, vj] = 0
        for k_0 in range(8):
            with T.block("dense_o"):
                vi_o, vj_o, vk_o = T.axis.remap("SSR", [i, j_0, k_0])
                T.reads(
                    C[vi_o, vj_o * 16 : vj_o * 16 + 16],
                    A[vi_o, vk_o * 4 : vk_o * 4 + 4],
                    B[vj_o, vk_o, 0:16, 0:4],
                )
                T.writes(C[vi_o, vj_o * 16 : vj_o * 16 + 16])
                for j_1, k_1 in T.grid(16, 4):
                    with T.block("dense"):
                        vj, vk = T.axis.remap("SR", [j_1, k_1])
                        C[vi_o, vj_o * 16 + vj] = C[vi_o, vj_o * 16 + vj] + T.Cast(
                            "int32", A[vi_o, vk_o * 4 + vk]
                        ) * T.Cast("int32", B[vj_o, vk_o, vj, vk])


def data(largest: int) -> list[Any]:
    rng = np.random.default_rng(1)
    return [
        rng.integers(0, largest + 1, (6, 32)).astype(np.uint8),
        rng.integers(-128, 128, (3, 8, 16, 4)).astype(np.int8),
        np.zeros((6, 48), np.int32),
    ]


def built(intrin: str) -> Any:
    target = Target("llvm")
    if FEATURES[intrin] not in target.features:
        pytest.skip(f"this CPU has no {FEATURES[intrin]}")
    sch = Schedule(dense, debug_mask="all")
    sch.tensorize(sch.get_block("dense_o"), intrin)
    verify_trace_roundtrip(sch, dense)
    return tw.build(sch.mod, target)


# pmaddubs adds two products in 16 bits and saturates, so that form is exact for 7-bit inputs only.
@pytest.mark.parametrize(
    ("intrin", "largest"), [(VNNI_DOT_16x4_INTRIN, 255), (AVX512_DOT_16x4_INTRIN, 127)]
)
def test_dense_equals_the_plain_program(intrin: str, largest: int) -> None:
    module = built(intrin)
    expected, actual = data(largest), data(largest)
    oracle.run(dense, *expected)
    module(*actual)
    np.testing.assert_array_equal(actual[2], expected[2])
    packed = expected[1].transpose(1, 3, 0, 2).reshape(32, 48).astype(np.int32)
    np.testing.assert_array_equal(actual[2], expected[0].astype(np.int32) @ packed)


@pytest.mark.parametrize("intrin", sorted(MNEMONICS))
def test_the_instruction_is_in_the_machine_code(intrin: str) -> None:
    assert MNEMONICS[intrin] in built(intrin).get_source("asm")
