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
from tilewright.ir import PrimExpr, const, convert
from tilewright.runtime.module import Module
from tilewright.schedule import Schedule

FORMS = [
    (4, 8, "int8", 1), (4, 8, "uint8", 1),
    *((4, 16, kind, units) for kind in ("int8", "uint8") for units in range(1, 5)),
    *((4, 16, kind, units) for kind in ("int8_shifted", "uint8_shifted") for units in range(1, 5)),
    *((2, 16, "bfloat16", units) for units in range(1, 5)),
]  # fmt: skip
ROWS, COLUMNS = 16, 192
# The oldest CPUs of the architecture, those with 32 bytes a register, and this machine.
TARGETS = ["llvm -mcpu=x86-64", "llvm -mcpu=haswell", "llvm"]


def packed(depth: int, lanes: int, kind: str, units: int, target: str) -> Module:
    dtype = kind.removesuffix("_shifted")
    sign_bit, shifted = {"uint8": (128, "int8")}.get(dtype, (-128, "uint8"))
    source = te.placeholder((ROWS, COLUMNS), dtype, name="B")

    def element(tile: PrimExpr, step: PrimExpr, u: PrimExpr, i: PrimExpr, k: PrimExpr) -> PrimExpr:
        value = convert(source[step * depth + k, tile * (lanes * units) + u * lanes + i])
        return (value ^ const(sign_bit, dtype)).astype(shifted) if kind != dtype else value

    shape = (COLUMNS // lanes // units, ROWS // depth, units, lanes, depth)
    sch = Schedule(te.create_prim_func([source, te.compute(shape, element, name="P")]))
    name = pack_name(depth, lanes, kind, units)
    sch.tensorize(sch.get_loops("P")[2 if units > 1 else 3], name)
    return tw.build(sch.mod, target)


def numbers(kind: str) -> Any:
    """All different bit patterns that the type has, over and over."""
    bits = np.arange(ROWS * COLUMNS, dtype=np.uint16).reshape(ROWS, COLUMNS)
    if kind == "bfloat16":
        return (bits * 63).view(ml_dtypes.bfloat16)
    return bits.astype(np.uint8).view(kind.removesuffix("_shifted"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("depth", "lanes", "kind", "units"), FORMS)
def test_every_element_at_its_place(
    depth: int, lanes: int, kind: str, units: int, target: str
) -> None:
    source = numbers(kind)
    tiles = source.reshape(ROWS // depth, depth, COLUMNS // lanes // units, units, lanes)
    expected = np.ascontiguousarray(tiles.transpose(2, 0, 3, 4, 1))
    if kind.endswith("_shifted"):
        flipped = expected.view("uint8") ^ np.uint8(128)
        expected = flipped.view("int8" if kind == "uint8_shifted" else "uint8")
    actual = np.zeros_like(expected)
    packed(depth, lanes, kind, units, target)(source, actual)
    assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("depth", "lanes", "kind", "units"), FORMS)
def test_no_element_is_moved_alone(
    depth: int, lanes: int, kind: str, units: int, target: str
) -> None:
    assembly = packed(depth, lanes, kind, units, target).get_source("asm")
    assert re.search("punpck|vperm", assembly)
    assert not re.search(r"mov[sz][bw]|pinsr|pextr|mov[bw]\s", assembly)
