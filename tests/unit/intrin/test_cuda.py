"""Tensor instructions of GPUs: all there, used by tensorize, and what they lower to."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.errors import RegistryError
from tilewright.intrin import cuda
from tilewright.intrin.cuda_mma import (
    shared_16x16_to_ldmatrix_32x8_layout,
    shared_16x32_to_ldmatrix_32x16_layout,
    shared_32x16_to_ldmatrix_32x16_layout,
)
from tilewright.ir import PrimFunc, verify_well_formed
from tilewright.ir.tensor_intrin import TensorIntrin, all_tensor_intrins
from tilewright.lowering.lower_match_buffer import LowerMatchBuffer
from tilewright.schedule import Schedule
from tilewright.script import from_source, tir as T
from tilewright.testing.schedule_checks import verify_trace_roundtrip

NAMES = [value for key, value in vars(cuda).items() if key.endswith("_INTRIN")]


def test_every_name_is_registered_once() -> None:
    assert len(set(NAMES)) == len(NAMES) == 64
    assert set(NAMES) <= set(all_tensor_intrins())


@pytest.mark.parametrize("name", NAMES)
def test_both_functions_are_well_formed_and_printable(name: str) -> None:
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    for func in (intrin.desc, intrin.impl):
        verify_well_formed(func)
        again = from_source(func.script())
        assert isinstance(again, PrimFunc)
        assert again.script() == func.script()


@pytest.mark.parametrize(
    ("layout", "rows", "columns", "registers"),
    [
        (shared_16x16_to_ldmatrix_32x8_layout, 16, 16, 8),
        (shared_16x32_to_ldmatrix_32x16_layout, 16, 32, 16),
        (shared_32x16_to_ldmatrix_32x16_layout, 32, 16, 16),
    ],
)
def test_warp_layouts_are_bijections(layout, rows: int, columns: int, registers: int) -> None:
    places = {layout(i, j) for i in range(rows) for j in range(columns)}
    assert places == {(lane, local) for lane in range(32) for local in range(registers)}


def test_group_of_a_matrix_product() -> None:
    assert cuda.get_wmma_intrin_group("shared.dyn", "global", "float16", "float32", True) == {
        "init": "wmma_fill_16x16x16_f32",
        "load_a": "wmma_load_16x16x16_f16_a_shared_dyn",
        "load_b": "wmma_load_16x16x16_f16_b_trans_shared_dyn",
        "compute": "wmma_sync_16x16x16_f16f16f32_trans",
        "store": "wmma_store_16x16x16_f32_global",
    }
    with pytest.raises(RegistryError) as caught:
        cuda.get_wmma_intrin_group("shared", "global", "int8", "float32", False)
    assert str(caught.value) == (
        "get_wmma_intrin_group: out_dtype for int8 is one of 'int32', not 'float32'"
    )


@T.prim_func
def matmul(
    A: T.Buffer((32, 32), "float16"),
    B: T.Buffer((32, 32), "float16"),
    C: T.Buffer((32, 32), "float32"),
) -> None:
    A_shared = T.alloc_buffer((32, 32), "float16", scope="shared")
    A_frag = T.alloc_buffer((32, 32), "float16", scope="wmma.matrix_a")
    B_frag = T.alloc_buffer((32, 32), "float16", scope="wmma.matrix_b")
    C_frag = T.alloc_buffer((32, 32), "float32", scope="wmma.accumulator")
    for i_0, j_0 in T.grid(2, 2):
        with T.block("load_o"):
            vi_o, vj_o = T.axis.remap("SS", [i_0, j_0])
            T.reads(A_shared[vi_o * 16 : vi_o * 16 + 16, vj_o * 16 : vj_o * 16 + 16])
            T.writes(A_frag[vi_o * 16 : vi_o * 16 + 16, vj_o * 16 : vj_o * 16 + 16])
            for i_1, j_1 in T.grid(16, 16):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i_1, j_1])
                    A_frag[vi_o * 16 + vi, vj_o * 16 + vj] = A_shared[
                        vi_o * 16 + vi, vj_o * 16 + vj
                    ]
    for i_0, j_0 in T.grid(2, 2):
        with T.block("fill_o"):
            vi_o, vj_o = T.axis.remap("SS", [i_0, j_0])
            T.reads()
            T.writes(C_frag[vi_o * 16 : vi_o * 16 + 16, vj_o * 16 : vj_o * 16 + 16])
            for i_1, j_1 in T.grid(16, 16):
                with T.block("fill"):
                    vi, vj = T.axis.remap("SS", [i_1, j_1])
                    C_frag[vi_o * 16 + vi, vj_o * 16 + vj] = T.float32(0)
    for i_0, j_0, k_0 in T.grid(2, 2, 2):
        with T.block("mma_o"):
            vi_o, vj_o, vk_o = T.axis.remap("SSR", [i_0, j_0, k_0])
            T.reads(
                C_frag[vi_o * 16 : vi_o * 16 + 16, vj_o * 16 : vj_o * 16 + 16],
                A_frag[vi_o * 16 : vi_o * 16 + 16, vk_o * 16 : vk_o * 16 + 16],
                B_frag[vk_o * 16 : vk_o * 16 + 16, vj_o * 16 : vj_o * 16 + 16],
            )
            T.writes(C_frag[vi_o * 16 : vi_o * 16 + 16, vj_o * 16 : vj_o * 16 + 16])
            for i_1, j_1, k_1 in T.grid(16, 16, 16):
                with T.block("mma"):
                    vi, vj, vk = T.axis.remap("SSR", [i_1, j_1, k_1])
                    C_frag[vi_o * 16 + vi, vj_o * 16 + vj] = C_frag[
                        vi_o * 16 + vi, vj_o * 16 + vj
                    ] + T.Cast("float32", A_frag[vi_o * 16 + vi, vk_o * 16 + vk]) * T.Cast(
                        "float32", B_frag[vk_o * 16 + vk, vj_o * 16 + vj]
                    )
    for i_0, j_0 in T.grid(2, 2):
        with T.block("store_o"):
            vi_o, vj_o = T.axis.remap("SS", [i_0, j_0])
            T.reads(C_frag[vi_o * 16 : vi_o * 16 + 16, vj_o * 16 : vj_o * 16 + 16])
            T.writes(C[vi_o * 16 : vi_o * 16 + 16, vj_o * 16 : vj_o * 16 + 16])
            for i_1, j_1 in T.grid(16, 16):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i_1, j_1])
                    C[vi_o * 16 + vi, vj_o * 16 + vj] = C_frag[vi_o * 16 + vi, vj_o * 16 + vj]


def lines_of(sch: Schedule, word: str) -> list[str]:
    return [line.strip() for line in sch.mod.script().splitlines() if word in line]


def test_matrix_product_by_fragments() -> None:
    sch = Schedule(matmul, debug_mask="all")
    sch.tensorize(sch.get_block("load_o"), cuda.WMMA_LOAD_16x16x16_F16_A_INTRIN)
    sch.tensorize(sch.get_block("fill_o"), cuda.WMMA_FILL_16x16x16_F32_INTRIN)
    sch.tensorize(sch.get_block("mma_o"), cuda.WMMA_SYNC_16x16x16_f16f16f32_INTRIN)
    sch.tensorize(sch.get_block("store_o"), cuda.WMMA_STORE_16x16x16_F32_GLOBAL_INTRIN)
    verify_trace_roundtrip(sch, matmul)
    index = (
        "C_1.elem_offset // C_1.strides[0] // 16 * (C_1.strides[0] // 16) "
        "+ C_1.elem_offset % C_1.strides[0] // 16"
    )
    assert lines_of(sch, "tvm_fill_fragment") == [
        f"T.tvm_fill_fragment(C_1.data, 16, 16, 16, {index}, T.float32(0))"
    ]
    lowered = Schedule(LowerMatchBuffer()(sch.mod))
    row_column = (
        "(vi_o * 16 * 32 + vj_o * 16) // 32 // 16 * 2 + (vi_o * 16 * 32 + vj_o * 16) % 32 // 16"
    )
    row_k = row_column.replace("vj_o", "vk_o")
    k_column = row_column.replace("vi_o", "vk_o")
    assert lines_of(lowered, "tvm_load") == [
        f"T.tvm_load_matrix_sync(A_frag.data, 16, 16, 16, {row_column}, "
        'T.tvm_access_ptr(T.type_annotation("float16"), A_shared.data, '
        'vi_o * 16 * 32 + vj_o * 16, 512, 1), 32, "row_major")'
    ]
    assert lines_of(lowered, "tvm_mma") == [
        f"T.tvm_mma_sync(C_frag.data, {row_column}, A_frag.data, {row_k}, B_frag.data, "
        f"{k_column}, C_frag.data, {row_column})"
    ]
    assert lines_of(lowered, "tvm_store") == [
        f"T.tvm_store_matrix_sync(C_frag.data, 16, 16, 16, {row_column}, "
        'T.tvm_access_ptr(T.type_annotation("float32"), C.data, '
        'vi_o * 16 * 32 + vj_o * 16, 512, 2), 32, "row_major")'
    ]


def test_dot_product_of_four_bytes() -> None:
    @T.prim_func
    def dense(C: T.Buffer((8, 8), "int32")) -> None:
        A = T.alloc_buffer((8, 32), "int8", scope="shared")
        B = T.alloc_buffer((8, 32), "int8", scope="shared")
        C_local = T.alloc_buffer((8, 8), "int32", scope="local")
        for i, j, k_0 in T.grid(8, 8, 8):
            with T.block("dense_o"):
                vi, vj, vk_o = T.axis.remap("SSR", [i, j, k_0])
                T.reads(
                    C_local[vi, vj], A[vi, vk_o * 4 : vk_o * 4 + 4], B[vj, vk_o * 4 : vk_o * 4 + 4]
                )
                T.writes(C_local[vi, vj])
                for k_1 in range(4):
                    with T.block("dense"):
                        vk = T.axis.reduce(4, k_1)
                        C_local[vi, vj] = C_local[vi, vj] + T.Cast(
                            "int32", A[vi, vk_o * 4 + vk]
                        ) * T.Cast("int32", B[vj, vk_o * 4 + vk])

    sch = Schedule(dense, debug_mask="all")
    sch.tensorize(sch.get_block("dense_o"), cuda.DP4A_INTRIN)
    verify_trace_roundtrip(sch, dense)
    assert lines_of(sch, "__dp4a") == [
        'C_1[0] = C_1[0] + T.call_pure_extern("int32", "__dp4a", A_1[0:4], B_1[0:4], 0)'
    ]
    lowered = Schedule(LowerMatchBuffer()(sch.mod))
    assert lines_of(lowered, "__dp4a") == [
        'C_local[vi, vj] = C_local[vi, vj] + T.call_pure_extern("int32", "__dp4a", '
        "A[vi, vk_o * 4:vk_o * 4 + 4], B[vj, vk_o * 4:vk_o * 4 + 4], 0)"
    ]
