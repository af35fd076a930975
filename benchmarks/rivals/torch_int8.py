"""Products of bytes and of bfloat16 in PyTorch: each of its paths that could be the quickest.

Every function returns the calls to time, by name; `as_array` makes an array in our layout of what
one of them returned. Weights are packed outside the calls where PyTorch has a way to do it.
Scales are those of the sums: a result is `sum * scale + zero_point`, rounded and saturated.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Calls = dict[str, Callable[[], Any]]
ENGINES = ("onednn", "x86", "fbgemm")


def prepare(threads: int) -> str:
    """Use so many threads; say what there is."""
    torch.set_num_threads(threads)
    warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")  # deprecated, not gone
    engines = ", ".join(engines_here())
    return f"default quantized engine {torch.backends.quantized.engine}, timed: {engines}"


def engines_here() -> list[str]:
    return [name for name in ENGINES if name in torch.backends.quantized.supported_engines]


def gemm(a: Any, b: Any) -> Calls:
    """s8 * s8 -> s32; nothing is packed ahead."""
    x, w = torch.from_numpy(a), torch.from_numpy(b)
    return {"_int_mm": lambda: torch._int_mm(x, w)}


def bf16_gemm(a: Any, b: Any) -> Calls:
    """bf16 * bf16 -> bf16."""
    x, w = (torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) for array in (a, b))
    return {"mm": lambda: torch.mm(x, w)}


def linear(x: Any, w: Any, scale: float, zero_point: int) -> Calls:
    """u8[M, K] * constant s8[K, N] -> u8[M, N], on each engine and by the newer operator."""
    data, weight = torch.from_numpy(x), torch.from_numpy(np.ascontiguousarray(w.T))
    quantized, quantized_weight = _quantized(data), _quantized(weight)
    ops = torch.ops.quantized

    def on(engine: str) -> Callable[[], Any]:
        torch.backends.quantized.engine = engine
        packed = ops.linear_prepack(quantized_weight, None)
        return lambda: ops.linear(quantized, packed, 1 / scale, zero_point)

    packed = torch.ops.onednn.qlinear_prepack(weight, list(x.shape))
    ones, zeros = _channels(weight.shape[0])

    def newer() -> Any:
        return torch.ops.onednn.qlinear_pointwise(
            data, 1.0, 0, packed, ones, zeros, None, 1 / scale, zero_point, torch.uint8,
            "none", [], "",
        )  # fmt: skip

    return _on_engines(on) | {"onednn::qlinear": newer}


def conv(x: Any, w: Any, stride: int, padding: int, scale: float, zero_point: int) -> Calls:
    """u8 NHWC * constant s8 HWIO -> u8, channels last, on each engine and by the newer operator."""
    data = torch.from_numpy(x).permute(0, 3, 1, 2)  # channels last
    weight = torch.from_numpy(w).permute(3, 2, 0, 1)
    weight = weight.contiguous(memory_format=torch.channels_last)
    quantized, quantized_weight = _quantized(data), _quantized(weight)
    window = ([stride] * 2, [padding] * 2, [1, 1], 1)  # and dilation, groups
    ops = torch.ops.quantized

    def on(engine: str) -> Callable[[], Any]:
        torch.backends.quantized.engine = engine
        packed = ops.conv2d_prepack(quantized_weight, None, *window)
        return lambda: ops.conv2d(quantized, packed, 1 / scale, zero_point)

    ones, zeros = _channels(weight.shape[0])
    packed = torch.ops.onednn.qconv_prepack(weight, ones, 1.0, 0, *window, list(data.shape))

    def newer() -> Any:
        return torch.ops.onednn.qconv2d_pointwise(
            data, 1.0, 0, packed, ones, zeros, None, *window, 1 / scale, zero_point, torch.uint8,
            "none", [], "",
        )  # fmt: skip

    return _on_engines(on) | {"onednn::qconv2d": newer}


def _quantized(tensor: Any) -> Any:
    return torch._make_per_tensor_quantized_tensor(tensor, 1.0, 0)


def _channels(count: int) -> tuple[Any, Any]:
    """Scales and zero points of the weights."""
    return torch.ones(count), torch.zeros(count, dtype=torch.int8)


def _on_engines(on: Callable[[str], Callable[[], Any]]) -> Calls:
    return {engine: on(engine) for engine in engines_here()}


def as_array(result: Any) -> Any:
    """What a call returned, as an array in our layout."""
    plain = result.int_repr() if result.is_quantized else result
    plain = plain.float() if plain.dtype is torch.bfloat16 else plain
    return np.asarray(plain.permute(0, 2, 3, 1) if plain.dim() == 4 else plain)
