"""Quantized operators in the layouts of the accelerator VTA: blocks of 16 channels lie together.

Results are shifted to the right, clipped to 0..127 and stored as int8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright import te
from tilewright.errors import ArgumentError
from tilewright.ir import PrimExpr, PrimFunc

BLOCK = 16
SHIFT = 8
LARGEST = 127


def gemm(m: int, n: int, k: int) -> PrimFunc:
    """`A[m, k/16, 16]` times `W[n/16, k/16, 16, 16]` as `O[m, n/16, 16]`."""
    _check_sizes("gemm", m=m, n=n, k=k)
    _check_blocks("gemm", n=n, k=k)
    a = te.placeholder((m, k // BLOCK, BLOCK), "int8", "A")
    w = te.placeholder((n // BLOCK, k // BLOCK, BLOCK, BLOCK), "int8", "W")
    outer, inner = te.reduce_axis((0, k // BLOCK), "ko"), te.reduce_axis((0, BLOCK), "ki")

    def element(i: PrimExpr, j: PrimExpr, lane: PrimExpr) -> PrimExpr:
        product = _wide(a[i, outer, inner]) * _wide(w[j, outer, lane, inner])
        return te.sum(product, axis=[outer, inner])

    c = te.compute((m, n // BLOCK, BLOCK), element, "C")
    return te.create_prim_func([a, w, _requantized(c)])


@dataclass(frozen=True)
class QuantizedConv2d:
    """A convolution of one image with square kernels."""

    size: int  # of the input, on each side
    channels: int
    filters: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1

    @property
    def out_size(self) -> int:
        """Of the output, on each side."""
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def program(self) -> PrimFunc:
        """`D[c/16, h, w, 16]`, `W[o/16, c/16, kh, kw, 16, 16]`, `O[o/16, oh, ow, 16]`."""
        return conv2d(self)


def conv2d(layer: QuantizedConv2d) -> PrimFunc:
    """A convolution with padding, as a program."""
    _check_sizes("conv2d", **{**vars(layer), "padding": layer.padding + 1, "out": layer.out_size})
    _check_blocks("conv2d", channels=layer.channels, filters=layer.filters)
    blocks, outs = layer.channels // BLOCK, layer.filters // BLOCK
    kernel, stride, padding, size = layer.kernel, layer.stride, layer.padding, layer.size
    d = te.placeholder((blocks, size, size, BLOCK), "int8", "D")
    w = te.placeholder((outs, blocks, kernel, kernel, BLOCK, BLOCK), "int8", "W")
    whole = size + 2 * padding

    def inside(c: PrimExpr, h: PrimExpr, v: PrimExpr, lane: PrimExpr) -> PrimExpr:
        return te.if_then_else(
            te.all(h >= padding, h < size + padding, v >= padding, v < size + padding),
            d[c, h - padding, v - padding, lane],
            te.const(0, "int8"),
        )

    padded = te.compute((blocks, whole, whole, BLOCK), inside, "padded") if padding else d
    names = ("ko", blocks), ("kh", kernel), ("kw", kernel), ("ki", BLOCK)
    ko, kh, kw, ki = (te.reduce_axis((0, extent), name) for name, extent in names)

    def element(o: PrimExpr, h: PrimExpr, v: PrimExpr, lane: PrimExpr) -> PrimExpr:
        value = padded[ko, h * stride + kh, v * stride + kw, ki]
        return te.sum(_wide(value) * _wide(w[o, ko, kh, kw, lane, ki]), axis=[ko, kh, kw, ki])

    c = te.compute((outs, layer.out_size, layer.out_size, BLOCK), element, "C")
    return te.create_prim_func([d, w, _requantized(c)])


def _requantized(c: Any) -> Any:
    shifted = te.compute(c.shape, lambda *at: c[at] >> te.const(SHIFT, "int32"), "shifted")
    above = te.compute(c.shape, lambda *at: te.max(shifted[at], te.const(0, "int32")), "above")
    most = te.const(LARGEST, "int32")
    below = te.compute(c.shape, lambda *at: te.min(above[at], most), "below")
    return te.compute(c.shape, lambda *at: below[at].astype("int8"), "O")


def _wide(value: Any) -> PrimExpr:
    wide: PrimExpr = value.astype("int32")
    return wide


def _check_sizes(what: str, **sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ArgumentError(f"{what} for vta: {name} must be positive, got {value}")


def _check_blocks(what: str, **sizes: int) -> None:
    for name, value in sizes.items():
        if value % BLOCK:
            raise ArgumentError(
                f"{what} for vta: {name} must be a multiple of {BLOCK}, got {value}; pad it with "
                f"zeros to {-(-value // BLOCK) * BLOCK}"
            )
