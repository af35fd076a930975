# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call"
"""Operators on bytes as printed functions, and the block of the blocked convolution itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tilewright import te, topi
from tilewright.ir.structure import assert_structural_equal
from tilewright.ir.verify import verify_well_formed
from tilewright.script import from_source, tir as T
from tilewright.testing.int8_workloads import create_int8_workload
from tilewright.topi.quantize import Requantization

GoldenCheck = Callable[[str, str], None]
Program = Callable[[], Sequence[te.Tensor]]


def _operands(data: tuple[int, ...], weight: tuple[int, ...]) -> tuple[te.Tensor, te.Tensor]:
    return te.placeholder(data, "uint8", "data"), te.placeholder(weight, "int8", "weight")


def _per_channel(*shape: int) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    multiplier, shift, bias = (
        te.placeholder(shape, "int32", name) for name in ("multiplier", "shift", "bias")
    )
    return multiplier, shift, bias


def _conv2d_nchwc() -> Sequence[te.Tensor]:
    data, weight = _operands((1, 4, 56, 56, 16), (16, 4, 1, 1, 4, 16, 4))
    return data, weight, topi.nn.conv2d_NCHWc_int8(data, weight)


def _strided_conv2d_nchwc() -> Sequence[te.Tensor]:
    data, weight = _operands((1, 4, 8, 8, 16), (2, 4, 3, 3, 4, 16, 4))
    return data, weight, topi.nn.conv2d_NCHWc_int8(data, weight, 2, 1, pad_value=128)


def _dense() -> Sequence[te.Tensor]:
    data, weight = _operands((2, 8), (16, 8))
    bias = te.placeholder((16,), "int32", "bias")
    return data, weight, bias, topi.nn.dense(data, weight, bias, "int32")


def _batch_matmul() -> Sequence[te.Tensor]:
    data, weight = _operands((2, 8, 4), (2, 16, 4))
    scale = Requantization(1 << 30, -5, 3, "uint8")
    return data, weight, topi.nn.quantized_batch_matmul(data, weight, scale, 9, 1)


def _depthwise() -> Sequence[te.Tensor]:
    data, weight = _operands((1, 8, 8, 4), (3, 3, 4, 1))
    multiplier, shift, bias = _per_channel(4)
    scale = Requantization(multiplier, shift, 0, "int8", enlarges=False)
    out = topi.nn.quantized_depthwise_conv2d_nhwc(data, weight, scale, bias, 9, 1, 1)
    return data, weight, multiplier, shift, bias, out


def _quantized_conv2d() -> Sequence[te.Tensor]:
    data, weight = _operands((1, 8, 8, 4), (3, 3, 4, 16))
    multiplier, shift, bias = _per_channel(16)
    scale = Requantization(multiplier, shift, 7, "uint8")
    out = topi.nn.quantized_conv2d_nhwc(data, weight, scale, bias, 128, 1, 1)
    return data, weight, multiplier, shift, bias, out


PROGRAMS: dict[str, Program] = {
    "int8_batch_matmul_quantized": _batch_matmul,
    "int8_conv2d_nchwc": _conv2d_nchwc,
    "int8_conv2d_nchwc_strided": _strided_conv2d_nchwc,
    "int8_conv2d_nhwc_quantized": _quantized_conv2d,
    "int8_dense_bias": _dense,
    "int8_depthwise_quantized": _depthwise,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_operators(golden: GoldenCheck, name: str) -> None:
    func = te.create_prim_func(PROGRAMS[name]())
    verify_well_formed(func)
    assert_structural_equal(from_source(str(func)), func)
    golden(f"{name}.txt", str(func) + "\n")


WORKLOADS: dict[str, dict[str, int | str | bool]] = {
    "int8_gemm": {"M": 32, "N": 1008, "K": 2048, "form": "s8s8", "layout_free": True},
    "int8_dense": {"M": 1024, "N": 1024, "K": 1024},
    "int8_conv": {
        "N": 1, "H": 56, "W": 56, "CI": 64, "CO": 64, "kernel_size": 3, "padding": 1
    },
    "Conv2dInt8": {},
}  # fmt: skip


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads(golden: GoldenCheck, name: str) -> None:
    golden(f"{name}.txt", str(create_int8_workload(name, **WORKLOADS[name])) + "\n")


@T.prim_func
def blocked_convolution(
    placeholder: T.Buffer((1, 4, 56, 56, 16), "uint8"),
    placeholder_1: T.Buffer((16, 4, 1, 1, 4, 16, 4), "int8"),
    conv2d_NCHWc_int8: T.Buffer((1, 16, 56, 56, 16), "int32"),
) -> None:
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    for i0, i1, i2, i3, i4, i5, i6, i7, i8, i9 in T.grid(1, 16, 56, 56, 16, 1, 1, 4, 4, 4):
        with T.block("conv2d_NCHWc_int8"):
            n, oc_chunk, oh, ow, oc_block, kh, kw, ic_outer, ic_f_inner, ic_s_inner = T.axis.remap(
                "SSSSSRRRRR", [i0, i1, i2, i3, i4, i5, i6, i7, i8, i9]
            )
            T.reads(
                placeholder[n, ic_outer, oh + kh, ow + kw, ic_f_inner * 4 + ic_s_inner],
                placeholder_1[oc_chunk, ic_outer, kh, kw, ic_f_inner, oc_block, ic_s_inner],
            )
            T.writes(conv2d_NCHWc_int8[n, oc_chunk, oh, ow, oc_block])
            with T.init():
                conv2d_NCHWc_int8[n, oc_chunk, oh, ow, oc_block] = 0
            conv2d_NCHWc_int8[n, oc_chunk, oh, ow, oc_block] = conv2d_NCHWc_int8[
                n, oc_chunk, oh, ow, oc_block
            ] + T.Cast(
                "int32", placeholder[n, ic_outer, oh + kh, ow + kw, ic_f_inner * 4 + ic_s_inner]
            ) * T.Cast(
                "int32",
                placeholder_1[oc_chunk, ic_outer, kh, kw, ic_f_inner, oc_block, ic_s_inner],
            )


def test_the_blocked_convolution_that_instructions_are_matched_with() -> None:
    assert_structural_equal(te.create_prim_func(_conv2d_nchwc()), blocked_convolution)
