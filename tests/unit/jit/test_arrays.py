"""Arrays of all kinds go into compiled functions, and come out as what went in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.errors import ArgumentError
from tilewright.jit import JitFunction
from tilewright.runtime import NDArray


def doubled(dtype: str) -> JitFunction:
    x = te.placeholder((4, 3), dtype, name="x")
    return tw.compile([x, te.compute((4, 3), lambda i, j: x[i, j] + x[i, j], name="y")])


class Foreign:
    """An array of some library that speaks DLPack and follows the array standard."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(from_dlpack=lambda other: Foreign(np.from_dlpack(other)))


class Elsewhere(Foreign):
    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 1)


VALUES = np.arange(12, dtype="float32").reshape(4, 3)


def test_ours() -> None:
    result = doubled("float32")(tw.nd.array(VALUES))
    assert type(result) is NDArray
    assert np.array_equal(result.numpy(), VALUES * 2)


def test_of_another_library() -> None:
    double = doubled("float32")
    for values in (VALUES, np.asfortranarray(VALUES)):
        result = double(Foreign(values))
        assert type(result) is Foreign
        assert np.array_equal(result.values, VALUES * 2)
    target = Foreign(np.zeros((4, 3), "float32"))
    assert double(VALUES, out=target) is target
    assert np.array_equal(target.values, VALUES * 2)


def test_of_a_library_that_takes_nothing() -> None:
    class Lender:  # its module has no from_dlpack
        __dlpack__ = Foreign.__dlpack__
        __dlpack_device__ = Foreign.__dlpack_device__
        values = VALUES

    result = doubled("float32")(Lender())
    assert type(result) is NDArray
    assert np.array_equal(result.numpy(), VALUES * 2)


def test_the_first_array_decides() -> None:
    x, y = te.placeholder((3,), name="x"), te.placeholder((3,), name="y")
    add = tw.compile([x, y, te.compute((3,), lambda i: x[i] + y[i], name="z")])
    ones = np.ones(3, "float32")
    assert type(add(ones, tw.nd.array(ones))) is np.ndarray
    assert type(add(tw.nd.array(ones), ones)) is NDArray


def test_elsewhere() -> None:
    message = r"^main\(\): argument 0 \(x\): the array is on cuda:1, expected it on cpu$"
    with pytest.raises(ArgumentError, match=message):
        doubled("float32")(Elsewhere(VALUES))


def test_subclasses_of_numpy() -> None:
    double = doubled("float32")
    assert type(double(VALUES.view(np.matrix))) is np.ndarray


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int8", "uint64"])
def test_every_dtype(dtype: str) -> None:
    values = tw.nd.array(VALUES, dtype=dtype)
    result = doubled(dtype)(values)
    assert result.dtype == dtype
    assert np.array_equal(result.numpy().astype("float32"), VALUES * 2)


def test_results_are_aligned_to_cache_lines() -> None:
    double = doubled("float32")
    for _ in range(20):
        assert double(VALUES).ctypes.data % 64 == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "int64"])
def test_pytorch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    double = doubled(dtype)
    x = torch.from_numpy(VALUES).to(getattr(torch, dtype))
    for values in (x, x.T.contiguous().T):
        result = double(values)
        assert type(result) is torch.Tensor
        assert result.dtype == x.dtype
        assert torch.equal(result, x + x)
    target = torch.zeros_like(x)
    assert double(x, out=target) is target
    assert torch.equal(target, x + x)
    expected = x + x
    assert double(x, out=x) is x
    assert torch.equal(x, expected)


def test_pytorch_keeps_what_it_gets() -> None:
    torch = pytest.importorskip("torch")
    result = doubled("float32")(torch.from_numpy(VALUES))
    result += 1  # the memory is its own, and writable
    assert np.array_equal(result.numpy(), VALUES * 2 + 1)
    grown = torch.ones(4, 3, requires_grad=True)
    with pytest.raises(ArgumentError, match=r"^main\(\): argument 0 \(x\): Tensor does not give"):
        doubled("float32")(grown)
