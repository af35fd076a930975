"""Quantized operators in the layouts of the accelerator VTA: blocks of 16 channels lie together.

Results are shifted to the right, clipped to 0..127 and stored as int8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
class Conv2d:
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


# The layers of ResNet-18 whose channels fill blocks, by their numbers in the model.
RESNET18: dict[str, Conv2d] = {
    "C2": Conv2d(56, 64, 64),
    "C3": Conv2d(56, 64, 128, 3, 2),
    "C4": Conv2d(56, 64, 128, 1, 2, 0),
    "C5": Conv2d(28, 128, 128),
    "C6": Conv2d(28, 128, 256, 3, 2),
    "C7": Conv2d(28, 128, 256, 1, 2, 0),
    "C8": Conv2d(14, 256, 256),
    "C9": Conv2d(14, 256, 512, 3, 2),
    "C10": Conv2d(14, 256, 512, 1, 2, 0),
    "C11": Conv2d(7, 512, 512),
}


def conv2d(layer: Conv2d) -> PrimFunc:
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


def _wide(value: PrimExpr) -> PrimExpr:
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


# --- the same in NumPy --------------------------------------------------------------------------


def requantize(sums: npt.NDArray[np.int32]) -> npt.NDArray[np.int8]:
    """Sums as the operators above store them."""
    made: npt.NDArray[np.int8] = np.clip(sums >> SHIFT, 0, LARGEST).astype(np.int8)
    return made


def gemm_in_numpy(a: npt.NDArray[Any], w: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    """What `gemm` computes."""
    blocks = w.transpose(1, 3, 0, 2).astype(np.int32)  # ko, ki, no, ni
    sums = np.tensordot(a.astype(np.int32), blocks, axes=((1, 2), (0, 1)))
    return requantize(sums)


def conv2d_in_numpy(
    layer: Conv2d, d: npt.NDArray[Any], w: npt.NDArray[Any]
) -> npt.NDArray[np.int8]:
    """What `conv2d` computes."""
    pad, out = layer.padding, layer.out_size
    padded = np.pad(d.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    sums = np.zeros((w.shape[0], BLOCK, out, out), np.float64)
    for kh in range(layer.kernel):
        for kw in range(layer.kernel):
            last = (out - 1) * layer.stride + 1
            window = padded[:, kh : kh + last : layer.stride, kw : kw + last : layer.stride]
            blocks = w[:, :, kh, kw].astype(np.float64)  # o, c, lane, ki
            sums += np.einsum("ocjk,chwk->ojhw", blocks, window, optimize=True)
    return requantize(sums.transpose(0, 2, 3, 1).astype(np.int32))
