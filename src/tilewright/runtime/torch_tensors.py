"""Tensors of PyTorch on a GPU, read without DLPack: capsules take longer than small kernels run."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from tilewright.errors import IRError
from tilewright.ir.numpy_bridge import to_numpy


def memory_of_tensor(tensor: Any) -> tuple[object, np.dtype[Any] | None, int] | None:
    """Key (shape and place), type and address of a plain tensor; None for all other arrays.

    Nobody has to wait: our work goes to the current stream of PyTorch.
    """
    torch = sys.modules.get("torch")
    if torch is None or type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
        return None
    if not tensor.is_cuda or tensor.requires_grad or not tensor.is_contiguous():
        return None
    key = (tensor.shape, _place(tensor.get_device()))
    return key, _numpy_dtype(str(tensor.dtype)), tensor.data_ptr()


@functools.cache
def _place(device_id: int) -> str:
    return f"cuda:{device_id}"


@functools.cache
def _numpy_dtype(name: str) -> np.dtype[Any] | None:
    try:
        return to_numpy(name.removeprefix("torch."))
    except IRError:
        return None
