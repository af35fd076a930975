"""Running tensor expressions on arrays, for the tests of te and topi; a server of databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.ir import IntImm
from tilewright.testing import oracle
from tilewright.testing.postgres_server import PostgresServer, postgres_server, why_missing

Evaluate = Callable[..., Any]


def _array_for(tensor: te.Tensor) -> Any:
    shape = []
    for extent in tensor.shape:
        assert isinstance(extent, IntImm)
        shape.append(extent.value)
    return np.zeros(shape, dtype=str(tensor.dtype))


def _evaluate(
    outputs: te.Tensor | Sequence[te.Tensor], inputs: Sequence[te.Tensor], *arrays: Any
) -> Any:
    several = not isinstance(outputs, te.Tensor)
    results = list(outputs) if not isinstance(outputs, te.Tensor) else [outputs]
    func = te.create_prim_func([*inputs, *results])
    buffers = [_array_for(tensor) for tensor in results]
    oracle.run(func, *[np.ascontiguousarray(array) for array in arrays], *buffers)
    return buffers if several else buffers[0]


@pytest.fixture(scope="session")
def evaluate() -> Evaluate:
    """`evaluate(output(s), inputs, *arrays)`: the outputs for given input arrays."""
    return _evaluate


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that these tests have to themselves."""
    if why_missing():
        pytest.skip(why_missing())
    with postgres_server() as server:
        yield server
