"""Which loops an instruction would take over, and how iterators fold onto it; as TVM answers."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import pytest

import tilewright.intrin  # noqa: F401
from tilewright import te
from tilewright.intrin.x86 import dot_product_16x4_u8i8i32_desc
from tilewright.ir import PrimFunc
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import Schedule
from tilewright.schedule.analysis import (
    get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping,
    is_auto_tensorize_applicable,
)
from tilewright.script import tir as T
from tilewright.testing import te_workload

Answer = tuple[list[tuple[int, int]], list[int] | None]


def desc_of(name: str) -> PrimFunc:
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    return intrin.desc


def mapping(
    func: PrimFunc, block: str, desc: PrimFunc, allow_padding: bool = False
) -> Answer | None:
    """(position of the block's loop, position of the description's loop) in order, and paddings."""
    sch = Schedule(func, debug_mask="all")
    handle = sch.get_block(block)
    info = get_tensorize_loop_mapping(sch, handle, desc, allow_padding)
    if info is None:
        return None
    positions = {sch.get_sref(loop): index for index, loop in enumerate(sch.get_loops(handle))}
    pairs = [
        (positions[loop], info.desc_loop_indexer[desc_loop])
        for loop, desc_loop in info.loop_map.items()
    ]
    return pairs, info.block_iter_paddings


@T.prim_func
def dense(
    placeholder: T.Buffer((1024, 1024), "uint8"),
    placeholder_1: T.Buffer((64, 256, 16, 4), "int8"),
    compute: T.Buffer((1024, 1024), "int32"),
) -> None:
    for i0, i1, i2 in T.grid(1024, 1024, 1024):
        with T.block("compute"):
            i, j, k = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(placeholder[i, k], placeholder_1[j // 16, k // 4, j % 16, k % 4])
            T.writes(compute[i, j])
            with T.init():
                compute[i, j] = 0
            compute[i, j] = compute[i, j] + T.Cast("int32", placeholder[i, k]) * T.Cast(
                "int32", placeholder_1[j // 16, k // 4, j % 16, k % 4]
            )


@T.prim_func
def conv2d_nchwc(
    placeholder: T.Buffer((1, 4, 56, 56, 16), "uint8"),
    placeholder_1: T.Buffer((16, 4, 1, 1, 4, 16, 4), "int8"),
    conv: T.Buffer((1, 16, 56, 56, 16), "int32"),
) -> None:
    for i0, i1, i2, i3, i4, i5, i6, i7, i8, i9 in T.grid(1, 16, 56, 56, 16, 1, 1, 4, 4, 4):
        with T.block("conv2d_NCHWc_int8"):
            n, oc_chunk, oh, ow, oc_block, kh, kw, ic_outer, ic_f_inner, ic_s_inner = T.axis.remap(
                "SSSSSRRRRR", [i0, i1, i2, i3, i4, i5, i6, i7, i8, i9]
            )
            T.reads(
                placeholder[n, ic_outer, oh + kh, ow + kw, ic_f_inner * 4 + ic_s_inner],
                placeholder_1[oc_chunk, ic_outer, kh, kw, ic_f_inner, oc_block, ic_s_inner],
            )
            T.writes(conv[n, oc_chunk, oh, ow, oc_block])
            with T.init():
                conv[n, oc_chunk, oh, ow, oc_block] = 0
            conv[n, oc_chunk, oh, ow, oc_block] = conv[n, oc_chunk, oh, ow, oc_block] + T.Cast(
                "int32", placeholder[n, ic_outer, oh + kh, ow + kw, ic_f_inner * 4 + ic_s_inner]
            ) * T.Cast(
                "int32",
                placeholder_1[oc_chunk, ic_outer, kh, kw, ic_f_inner, oc_block, ic_s_inner],
            )


def test_dense_onto_a_dot_product() -> None:
    assert mapping(dense, "compute", dot_product_16x4_u8i8i32_desc) == ([(2, 1), (1, 0)], None)


def test_convolution_with_blocked_channels_onto_a_dot_product() -> None:
    found = mapping(conv2d_nchwc, "conv2d_NCHWc_int8", dot_product_16x4_u8i8i32_desc)
    assert found == ([(9, 1), (4, 0)], None)


def matmul(n: int, m: int, k: int) -> PrimFunc:
    tensors = te_workload.matmul(n, m, k, in_dtype="float16", out_dtype="float32")
    return te.create_prim_func(list(tensors))


@pytest.mark.parametrize(
    ("shape", "plain", "padded"),
    [
        ((128, 128, 128), True, None),
        ((127, 128, 65), False, [1, 0, 15]),
        ((1, 16, 16), False, [15, 0, 0]),
    ],
)
def test_matmul_onto_a_tile_of_16(
    shape: tuple[int, int, int], plain: bool, padded: list[int] | None
) -> None:
    desc = desc_of("wmma_sync_16x16x16_f16f16f32")
    pairs = [(2, 2), (1, 1), (0, 0)]
    func = matmul(*shape)
    assert mapping(func, "C", desc) == ((pairs, None) if plain else None)
    assert mapping(func, "C", desc, allow_padding=True) == (pairs, padded)


def test_loops_may_be_in_any_order_and_split() -> None:
    desc = desc_of("wmma_sync_16x16x16_f16f16f32")
    sch = Schedule(matmul(128, 128, 128), debug_mask="all")
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    sch.reorder(k, j, i)
    info = get_tensorize_loop_mapping(sch, block, desc)
    assert info is not None
    assert [info.desc_loop_indexer[info.loop_map[sch.get_sref(loop)]] for loop in (i, j, k)] == [
        0,
        1,
        2,
    ]
    sch.split(i, [None, 16])
    assert get_tensorize_loop_mapping(sch, block, desc) is None


def test_nothing_fits_an_elementwise_block() -> None:
    @T.prim_func
    def add(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")) -> None:
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    assert mapping(add, "B", desc_of("wmma_sync_16x16x16_f16f16f32")) is None
    assert mapping(add, "B", dot_product_16x4_u8i8i32_desc) is None


HALF = {"in_dtype": "float16", "out_dtype": "float32"}


@pytest.mark.parametrize(
    ("tensors", "block", "expected"),
    [
        (
            te_workload.conv2d_nhwc(1, 16, 16, 64, 64, 3, 1, 1, **HALF),  # type: ignore[arg-type]
            "conv2d_nhwc",
            "lambda v_n, v_h, v_w, v_co, v_rh, v_rw, v_rc: "
            "(v_n * 256 + v_h * 16 + v_w, v_co, v_rh * 192 + v_rw * 64 + v_rc,)",
        ),
        (
            te_workload.conv3d_ndhwc(1, 8, 8, 8, 16, 16, 3, 1, 1, **HALF),  # type: ignore[arg-type]
            "conv3d_ndhwc",
            "lambda v_n, v_d, v_h, v_w, v_co, v_rd, v_rh, v_rw, v_rc: "
            "(v_n * 512 + v_d * 64 + v_h * 8 + v_w, v_co, "
            "v_rd * 144 + v_rh * 48 + v_rw * 16 + v_rc,)",
        ),
        (
            te_workload.batch_matmul_nkkm(2, 32, 32, 32, **HALF),
            "Z",
            "lambda v_b, v_i, v_j, v_k: (v_b, v_i, v_j, v_k,)",
        ),
    ],
)
def test_iterators_fold_onto_a_matrix_product(
    tensors: tuple[te.Tensor, ...], block: str, expected: str
) -> None:
    sch = Schedule(te.create_prim_func(list(tensors)))
    desc = desc_of("wmma_sync_16x16x16_f16f16f32")
    info = get_auto_tensorize_mapping_info(sch, sch.get_block(block), desc)
    assert info is not None
    (found,) = info.mappings
    assert str(found) == expected
    assert [buffer.name for buffer in info.lhs_buffer_map.values()] == ["C", "A", "B"]
    indices = {b.name: [str(i) for i in found] for b, found in info.rhs_buffer_indices.items()}
    assert indices == {"C": ["vi", "vj"], "A": ["vi", "vk"], "B": ["vk", "vj"]}
    assert [iv.var.name for iv in info.rhs_iters] == ["vi", "vj", "vk"]
    assert len(info.lhs_iters) == len(found.initial_indices)


def test_what_is_no_matrix_product_has_no_mapping() -> None:
    desc = desc_of("wmma_sync_16x16x16_f16f16f32")
    float32 = Schedule(te.create_prim_func(list(te_workload.matmul(32, 32, 32))))
    block = float32.get_block("C")
    assert not is_auto_tensorize_applicable(float32, block, desc)
    assert get_auto_tensorize_mapping_info(float32, block, desc) is None
    depthwise = te_workload.depthwise_conv2d_nhwc(1, 16, 16, 64, 3, 1, 1, **HALF)  # type: ignore[arg-type]
    sch = Schedule(te.create_prim_func(list(depthwise)))
    block = sch.get_block("depth_conv2d_nhwc")
    assert is_auto_tensorize_applicable(sch, block, desc)
    assert get_auto_tensorize_mapping_info(sch, block, desc) is None
