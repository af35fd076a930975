"""Packing: the order of the elements, and vector instructions only."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.intrin.x86_pack import pack_name
from tilewright.ir import PrimExpr, convert
from tilewright.runtime.module import Module
from tilewright.schedule import Schedule

FORMS = [
    (4, 16, "int8"), (4, 16, "uint8"), (4, 8, "int8"), (4, 8, "uint8"), (2, 16, "bfloat16"),
]  # fmt: skip
ROWS, COLUMNS = 16, 64
# The oldest CPUs of the architecture, those with 32 bytes a register, and this machine.
TARGETS = ["llvm -mcpu=x86-64", "llvm -mcpu=haswell", "llvm"]


def packed(depth: int, lanes: int, dtype: str, target: str) -> Module:
    source = te.placeholder((ROWS, COLUMNS), dtype, name="B")

    def element(tile: PrimExpr, step: PrimExpr, i: PrimExpr, k: PrimExpr) -> PrimExpr:
        return convert(source[step * depth + k, tile * lanes + i])

    shape = (COLUMNS // lanes, ROWS // depth, lanes, depth)
    sch = Schedule(te.create_prim_func([source, te.compute(shape, element, name="P")]))
    sch.tensorize(sch.get_loops(sch.get_block("P"))[2], pack_name(depth, lanes, dtype))
    return tw.build(sch.mod, target)


def numbers(dtype: str) -> Any:
    """All different bit patterns that the type has, over and over."""
    bits = np.arange(ROWS * COLUMNS, dtype=np.uint16).reshape(ROWS, COLUMNS)
    if dtype == "bfloat16":
        return (bits * 63).view(ml_dtypes.bfloat16)
    return bits.astype(np.uint8).view(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("depth", "lanes", "dtype"), FORMS)
def test_every_element_at_its_place(depth: int, lanes: int, dtype: str, target: str) -> None:
    source = numbers(dtype)
    tiles = source.reshape(ROWS // depth, depth, COLUMNS // lanes, lanes)
    expected = np.ascontiguousarray(tiles.transpose(2, 0, 3, 1))
    actual = np.zeros_like(expected)
    packed(depth, lanes, dtype, target)(source, actual)
    assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("depth", "lanes", "dtype"), FORMS)
def test_no_element_is_moved_alone(depth: int, lanes: int, dtype: str, target: str) -> None:
    assembly = packed(depth, lanes, dtype, target).get_source("asm")
    assert re.search("punpck|vperm", assembly)
    assert not re.search(r"mov[sz][bw]|pinsr|pextr|mov[bw]\s", assembly)
