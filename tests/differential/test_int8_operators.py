"""Operators on bytes and fixed-point products are those of TVM: programs and numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.ir.structure import assert_structural_equal
from tilewright.script import from_source
from tilewright.testing.tvm_process import answers_of

pytestmark = pytest.mark.tvm

MULTIPLIERS = [(1395864371, 2), (1395864371, -5), (2**31 - 1, 0), (2**31 - 1, 1), (1098990753, 1)]
VALUES = [0, 1, -1, 2, -2, 3, 5, -5, 7, 100, -100, 12345678, -12345678, 2**30, -(2**30), 2**31 - 1]
SHIFTS = [(0, 0), (3, 0), (0, 7), (2, 5)]
_ASK = """
import json, sys
import numpy as np
import tvm
from tvm import te, topi
asked = json.load(sys.stdin)

def tensor(shape, dtype, name):
    return te.placeholder(shape, dtype, name)

def program(*tensors):
    return te.create_prim_func(list(tensors))

def per_axis():
    x = tensor((2, 8), "int32", "x")
    y, l, r = (tensor((8,), "int32", name) for name in "ylr")
    return x, y, l, r, topi.fixed_point_multiply_per_axis(x, y, l, r, True, True, [1])

def run(function, *arrays):
    result = tvm.runtime.tensor(np.zeros(arrays[0].shape, "int32"))
    tvm.compile(function, target="llvm")["main"](*map(tvm.runtime.tensor, arrays), result)
    return result.numpy().tolist()

d, w = tensor((2, 8), "uint8", "d"), tensor((16, 8), "int8", "w")
a, b = tensor((2, 8, 4), "uint8", "a"), tensor((2, 16, 4), "int8", "b")
i, k = tensor((1, 8, 8, 4), "uint8", "i"), tensor((3, 3, 4, 6), "int8", "k")
o = tensor((3, 3, 4, 1), "int8", "o")
c, v = tensor((1, 4, 8, 8, 16), "uint8", "c"), tensor((2, 4, 3, 3, 4, 16, 4), "int8", "v")
p, q = tensor((1, 4, 56, 56, 16), "uint8", "p"), tensor((16, 4, 1, 1, 4, 16, 4), "int8", "q")
x = tensor((2, 8), "int32", "x")
layout = ("NCHW16c", "NCHW16c", "int32")
programs = {
    "dense": program(d, w, topi.nn.dense(d, w, out_dtype="int32")),
    "batch_matmul": program(a, b, topi.nn.batch_matmul(a, b, out_dtype="int32")),
    "conv2d_nhwc": program(i, k, topi.nn.conv2d_nhwc(i, k, 1, 1, 1, "int32")),
    "depthwise": program(i, o, topi.nn.depthwise_conv2d_nhwc(i, o, 1, 1, 1, out_dtype="int32")),
    "nchwc": program(c, v, topi.nn.conv2d_NCHWc_int8(c, v, 2, 1, 1, *layout)),
    "nchwc_1x1": program(p, q, topi.nn.conv2d_NCHWc_int8(p, q, 1, 0, 1, *layout)),
    "fixed_point_multiply": program(x, topi.fixed_point_multiply(x, 1395864371, 2)),
    "fixed_point_multiply_per_axis": program(*per_axis()),
}
values = np.array(asked["values"], "int32")
n = len(values)
t = tensor((n,), "int32", "t")
scaled = [
    run(program(t, topi.fixed_point_multiply(t, multiplier, shift)), values)
    for multiplier, shift in asked["multipliers"]
]
y, l, r = (tensor((n,), "int32", name) for name in "ylr")
by_axis = program(t, y, l, r, topi.fixed_point_multiply_per_axis(t, y, l, r, True, True, [0]))
shifted = [
    run(by_axis, values, *(np.full(n, number, "int32") for number in (1395864371, left, right)))
    for left, right in asked["shifts"]
]
texts = {name: function.script() for name, function in programs.items()}
print(json.dumps({"programs": texts, "scaled": scaled, "shifted": shifted}))
"""
# How TVM 0.25 spells what this project spells as TVM 0.14 did.
_SPELLING = [
    (r"\A.*?(?=@T\.prim_func)", ""),
    (r"\(s_tir=True\)", ""),
    (r"T\.sblock_", "T."),
    (r"T\.sblock\(", "T.block("),
    (r'"tirx\.noalias": True', '"tir.noalias": T.bool(True)'),
    # TVM leaves the schedule of this one to a rule of its own, which we do not need.
    (r'\n *T\.attr\(\{"schedule_rule": "conv2d_NCHWc_int8"\}\)', ""),
]


@pytest.fixture(scope="module")
def answer(tvm_python: Path) -> dict[str, Any]:
    asked = {"values": VALUES, "multipliers": MULTIPLIERS, "shifts": SHIFTS}
    result: dict[str, Any]
    (result,) = answers_of(tvm_python, "-c", _ASK, asked=asked)
    return result


def tensors(*shapes: tuple[int, ...]) -> tuple[te.Tensor, te.Tensor]:
    return te.placeholder(shapes[0], "uint8", "a"), te.placeholder(shapes[1], "int8", "b")


def applied(
    operator: Callable[..., te.Tensor], *shapes: tuple[int, ...], **options: Any
) -> Sequence[te.Tensor]:
    data, weight = tensors(*shapes)
    return data, weight, operator(data, weight, **options)


def multiplied() -> Sequence[te.Tensor]:
    x = te.placeholder((2, 8), "int32", "x")
    return x, topi.fixed_point_multiply(x, 1395864371, 2)


def multiplied_per_axis(count: int = 8, axes: tuple[int, ...] = (1,)) -> Sequence[te.Tensor]:
    x = te.placeholder((2, 8) if axes == (1,) else (count,), "int32", "x")
    y, left, right = (te.placeholder((count,), "int32", name) for name in "ylr")
    out = topi.fixed_point_multiply_per_axis(x, y, left, right, True, True, axes)
    return x, y, left, right, out


BLOCKED = topi.nn.conv2d_NCHWc_int8
PROGRAMS: dict[str, Callable[[], Sequence[te.Tensor]]] = {
    "dense": lambda: applied(topi.nn.dense, (2, 8), (16, 8), out_dtype="int32"),
    "batch_matmul": lambda: applied(topi.nn.batch_matmul, (2, 8, 4), (2, 16, 4), out_dtype="int32"),
    "conv2d_nhwc": lambda: applied(
        topi.nn.conv2d_nhwc, (1, 8, 8, 4), (3, 3, 4, 6), padding=1, out_dtype="int32"
    ),
    "depthwise": lambda: applied(
        topi.nn.depthwise_conv2d_nhwc, (1, 8, 8, 4), (3, 3, 4, 1), padding=1, out_dtype="int32"
    ),
    "nchwc": lambda: applied(
        BLOCKED, (1, 4, 8, 8, 16), (2, 4, 3, 3, 4, 16, 4), stride=2, padding=1
    ),
    "nchwc_1x1": lambda: applied(BLOCKED, (1, 4, 56, 56, 16), (16, 4, 1, 1, 4, 16, 4)),
    "fixed_point_multiply": multiplied,
    "fixed_point_multiply_per_axis": multiplied_per_axis,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(answer: dict[str, Any], name: str) -> None:
    text = answer["programs"][name]
    for pattern, replacement in _SPELLING:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    ours = te.create_prim_func(PROGRAMS[name]())
    assert_structural_equal(ours, from_source(text).with_attr("global_symbol", "main"))


def run(arguments: Sequence[te.Tensor], *arrays: Any) -> list[int]:
    result = np.zeros(arrays[0].shape, "int32")
    tw.build(te.create_prim_func(list(arguments)), "llvm")["main"](*arrays, result)
    numbers: list[int] = result.tolist()
    return numbers


def test_fixed_point_products(answer: dict[str, Any]) -> None:
    values = np.array(VALUES, "int32")
    x = te.placeholder(values.shape, "int32", "x")
    for (multiplier, shift), expected in zip(MULTIPLIERS, answer["scaled"], strict=True):
        assert run([x, topi.fixed_point_multiply(x, multiplier, shift)], values) == expected


def test_fixed_point_products_per_axis(answer: dict[str, Any]) -> None:
    values = np.array(VALUES, "int32")
    program = multiplied_per_axis(len(VALUES), (0,))
    for shifts, expected in zip(SHIFTS, answer["shifted"], strict=True):
        parameters = [np.full(len(VALUES), n, "int32") for n in (1395864371, *shifts)]
        assert run(program, values, *parameters) == expected
