"""The dot products of x86 on this machine: the numbers of the plain program, by instruction."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.intrin.x86 import AVX512_DOT_16x4_INTRIN, VNNI_DOT_16x4_INTRIN
from tilewright.ir import IterType, PrimFunc
from tilewright.schedule import Schedule
from tilewright.schedule.conditions.checks import loop_iter_type
from tilewright.schedule.tensor.tiling import tile_with_tensor_intrin
from tilewright.script import tir as T
from tilewright.target import Target
from tilewright.testing import oracle
from tilewright.testing.schedule_checks import random_arguments, verify_trace_roundtrip

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


@T.prim_func
def plain_dense(
    A: T.Buffer((6, 32), "uint8"),
    B: T.Buffer((3, 8, 16, 4), "int8"),
    C: T.Buffer((6, 48), "int32"),
) -> None:
    for i, j, k in T.grid(6, 48, 32):
        with T.block("dense"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast(
                "int32", B[vj // 16, vk // 4, vj % 16, vk % 4]
            )


@T.prim_func
def conv2d_nchwc(
    A: T.Buffer((1, 2, 5, 5, 16), "uint8"),
    B: T.Buffer((2, 2, 3, 3, 4, 16, 4), "int8"),
    C: T.Buffer((1, 2, 3, 3, 16), "int32"),
) -> None:
    for i0, i1, i2, i3, i4, i5, i6, i7, i8, i9 in T.grid(1, 2, 3, 3, 16, 3, 3, 2, 4, 4):
        with T.block("conv"):
            n, oc, oh, ow, ocb, kh, kw, ic, icf, ics = T.axis.remap(
                "SSSSSRRRRR", [i0, i1, i2, i3, i4, i5, i6, i7, i8, i9]
            )
            with T.init():
                C[n, oc, oh, ow, ocb] = 0
            C[n, oc, oh, ow, ocb] = C[n, oc, oh, ow, ocb] + T.Cast(
                "int32", A[n, ic, oh + kh, ow + kw, icf * 4 + ics]
            ) * T.Cast("int32", B[oc, ic, kh, kw, icf, ocb, ics])


def schedule_by_loops(func: PrimFunc, block_name: str) -> Schedule:
    """Tile the loops that the instruction covers, found by analysis, and tensorize them."""
    sch = Schedule(func, debug_mask="all")
    block = sch.get_block(block_name)
    loop = tile_with_tensor_intrin(sch, block, VNNI_DOT_16x4_INTRIN)
    assert loop is not None
    reduction = next(
        loop
        for loop in sch.get_loops(block)
        if loop_iter_type(sch.state, sch.get_sref(loop)) is IterType.COMM_REDUCE
    )
    sch.decompose_reduction(block, reduction)
    sch.tensorize(loop, VNNI_DOT_16x4_INTRIN)
    verify_trace_roundtrip(sch, func)
    return sch


@pytest.mark.parametrize(("func", "block"), [(plain_dense, "dense"), (conv2d_nchwc, "conv")])
def test_loops_found_by_analysis(func: PrimFunc, block: str) -> None:
    target = Target("llvm")
    if FEATURES[VNNI_DOT_16x4_INTRIN] not in target.features:
        pytest.skip("this CPU has no avx512vnni")
    module = tw.build(schedule_by_loops(func, block).mod, target)
    assert "vpdpbusd" in module.get_source("asm")
    expected = random_arguments(func, 3)
    actual = [array.copy() for array in expected]
    oracle.run(func, *expected)
    module(*actual)
    np.testing.assert_array_equal(actual[2], expected[2])


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
