"""Packed weights give back the original ones, whatever the type and the padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.driver import build
from tilewright.errors import GraphError
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.model.unpacking import unpacked
from tilewright.script import from_source

_PACKER = """
@T.prim_func
def main(w: T.Buffer((50, 70), "{dtype}"), packed: T.Buffer((5, 50, 16), "{dtype}")):
    for a, b, c in T.grid(5, 50, 16):
        with T.block("pack"):
            i, j, k = T.axis.remap("SSS", [a, b, c])
            if i * 16 + k < 70:
                packed[i, j, k] = {value}
"""


def _packer(dtype: str, value: str = "w[j, i * 16 + k]") -> Any:
    return build(from_source(_PACKER.format(dtype=dtype, value=value)))["main"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint8", "int32"])
def test_the_original_comes_back(dtype: str) -> None:
    """3500 elements take more than one digit in types of 8 bits."""
    w = np.random.default_rng(0).integers(-100, 100, (50, 70)).astype(to_numpy(dtype))
    packer, packed = _packer(dtype), np.zeros((5, 50, 16), to_numpy(dtype))
    packer(w, packed)
    np.testing.assert_array_equal(unpacked(packer, packed, (50, 70)), w)


def test_what_computes_is_told() -> None:
    packer = _packer("float32", "w[j, i * 16 + k] * T.float32(0.5)")
    packed = np.zeros((5, 50, 16), np.float32)
    packer(np.ones((50, 70), np.float32), packed)
    with pytest.raises(GraphError) as caught:
        unpacked(packer, packed, (50, 70))
    assert str(caught.value) == "main does more than move elements, so it cannot be undone"
