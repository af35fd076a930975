"""Layers of ResNet-18 in the layouts of the accelerator VTA, and operators for it in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.workloads.vta import BLOCK, LARGEST, SHIFT, QuantizedConv2d

# The layers of ResNet-18 whose channels fill blocks, by their numbers in the model.
RESNET18: dict[str, QuantizedConv2d] = {
    "C2": QuantizedConv2d(56, 64, 64),
    "C3": QuantizedConv2d(56, 64, 128, 3, 2),
    "C4": QuantizedConv2d(56, 64, 128, 1, 2, 0),
    "C5": QuantizedConv2d(28, 128, 128),
    "C6": QuantizedConv2d(28, 128, 256, 3, 2),
    "C7": QuantizedConv2d(28, 128, 256, 1, 2, 0),
    "C8": QuantizedConv2d(14, 256, 256),
    "C9": QuantizedConv2d(14, 256, 512, 3, 2),
    "C10": QuantizedConv2d(14, 256, 512, 1, 2, 0),
    "C11": QuantizedConv2d(7, 512, 512),
}


def _requantized(sums: npt.NDArray[np.int32]) -> npt.NDArray[np.int8]:
    """Sums as the operators above store them."""
    made: npt.NDArray[np.int8] = np.clip(sums >> SHIFT, 0, LARGEST).astype(np.int8)
    return made


def gemm_in_numpy(a: npt.NDArray[Any], w: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    """What `gemm` computes."""
    blocks = w.transpose(1, 3, 0, 2).astype(np.int32)  # ko, ki, no, ni
    sums = np.tensordot(a.astype(np.int32), blocks, axes=((1, 2), (0, 1)))
    return _requantized(sums)


def conv2d_in_numpy(
    layer: QuantizedConv2d, d: npt.NDArray[Any], w: npt.NDArray[Any]
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
    return _requantized(sums.transpose(0, 2, 3, 1).astype(np.int32))
