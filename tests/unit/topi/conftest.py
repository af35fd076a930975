"""Running operators as users do: printed, parsed back, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.ir import IntImm, PrimFunc
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.ir.structure import structural_equal
from tilewright.ir.verify import verify_well_formed
from tilewright.script import from_source

Compiled = Callable[..., Any]


def _shape(tensor: te.Tensor) -> list[int]:
    extents = [extent for extent in tensor.shape if isinstance(extent, IntImm)]
    assert len(extents) == tensor.ndim
    return [extent.value for extent in extents]


def _compiled(build: Callable[..., te.Tensor | Sequence[te.Tensor]], *arrays: Any) -> Any:
    inputs = [
        te.placeholder(array.shape, str(array.dtype), f"a{k}") for k, array in enumerate(arrays)
    ]
    outputs = build(*inputs)
    results = [outputs] if isinstance(outputs, te.Tensor) else list(outputs)
    func = te.create_prim_func([*inputs, *results])
    again = from_source(str(func))
    assert isinstance(again, PrimFunc)
    assert structural_equal(func, again)
    verify_well_formed(again)
    buffers = [np.full(_shape(tensor), 77, to_numpy(tensor.dtype)) for tensor in results]
    tw.build(again)(*[np.asarray(array, order="C") for array in arrays], *buffers)
    return buffers[0] if isinstance(outputs, te.Tensor) else buffers


@pytest.fixture(scope="session")
def compiled() -> Compiled:
    """`compiled(operator, *arrays)`: what the operator gives for arrays, as machine code."""
    return _compiled
