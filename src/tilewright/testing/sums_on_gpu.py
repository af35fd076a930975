"""A small model whose kernels can be Python's: three sums, for a driver that is none."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tilewright.graph import Graph, GraphBuilder, TensorType
from tilewright.runtime import cuda, ndarray as nd
from tilewright.testing.fake_gpu import FakeDriver

COUNT = 64


def sums() -> Graph:
    """`a = x + c`, `p = a + d`, `q = a + c`: three launches of one kernel.

    Outputs are two values, a view of one, an input and a constant.
    """
    builder = GraphBuilder()
    x = builder.input("x", TensorType((COUNT,), "float32"))
    c, d = (builder.constant(np.arange(COUNT, dtype="float32") * n) for n in (1, 100))
    a = builder.call("add", x, c)
    p, q = (builder.call("add", a, other) for other in (d, c))
    seen = builder.call("reshape", q, newshape=[8, 8])
    return builder.graph([p, q, seen, x, c])


def expected(x: Any) -> list[Any]:
    """Its outputs."""
    c = np.arange(COUNT, dtype="float32")
    return [x + 101 * c, x + 2 * c, (x + 2 * c).reshape(8, 8), x, c]


def random(seed: int) -> Any:
    """An input, on the GPU."""
    values = np.random.default_rng(seed).integers(-99, 99, COUNT).astype("float32")
    return nd.array(values, cuda(0))


def floats(pointer: int) -> Any:
    """The array behind an argument of a kernel."""
    address = ctypes.c_uint64.from_address(pointer).value
    return np.ctypeslib.as_array((ctypes.c_float * COUNT).from_address(address))


def add(shape: tuple[int, ...], arguments: list[int]) -> None:
    """What its kernel computes."""
    left, right, result = map(floats, arguments)
    result[:] = left + right


def driver_of_sums() -> FakeDriver:
    """A driver that runs the model."""
    fake = FakeDriver(parameter_count=3, keeps_arguments=True)
    fake.kernels = {"main_kernel": add}
    return fake
