"""Plans: host functions as data, and the meaning of their expressions."""

# The annotations of a kernel are script, not types.
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import json
from typing import Any

import pytest

from tilewright import ir
from tilewright.codegen.cuda.launch_plan import Expression, evaluator, plan_of
from tilewright.errors import CodegenError
from tilewright.script import tir as T
from tilewright.testing.launched_modules import lowered_module, reverse, scale


def plan(func: ir.PrimFunc) -> Any:
    made, _ = plan_of(lowered_module(func))
    assert json.loads(json.dumps(made)) == made
    return made["functions"][func.name]


def test_a_launch() -> None:
    made, messages = plan_of(lowered_module(scale))
    blocks = ["//", ["+", "n", 255], 256]
    assert made["functions"]["scale"] == {
        "params": [["A", "handle"], ["n", "int32"], ["B", "handle"], ["factor", "float32"]],
        "steps": [
            ["assert", ["<", "n", 1000000], 1],
            ["launch", "scale_kernel", ["A", "B", "factor", "n"], [blocks, 256]],
        ],
    }
    assert messages == ("at most a million elements",)
    assert made["kernels"]["scale_kernel"] == {
        "symbol": "scale_kernel",
        "params": ["handle", "handle", "float32", "int32"],
        "tags": ["blockIdx.x", "threadIdx.x"],
        "early": False,
    }
    assert made["kernels"]["dependent_kernel"]["early"]


def test_steps_in_steps() -> None:
    launch = ["launch", "reverse_kernel", ["A", "W"], [8, 512, 98304]]
    other = ["launch", "reverse_kernel", ["B", "W"], [8, 512, 98304]]
    copy = ["launch", "copy_kernel", ["W", "B"], [16, 256]]
    choice = ["if", ["==", "i", 0], [launch], [other]]
    body = [["allocate", "W", ["*", 4, 4096], [choice, copy]]]
    assert plan(reverse)["steps"] == [["loop", "i", 0, "times", body]]


def test_values() -> None:
    @T.prim_func
    def values(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), n: T.int32):
        m: T.int64 = T.Cast("int64", n)
        T.evaluate(
            T.call_packed(
                "scale_kernel",
                A.data,
                B.data,
                T.float32(1.0),
                T.if_then_else((n > 3 and n < 9) or T.Not(n == 20), n, T.min(n, 2)),
                T.Select(n > 1, n, 1) << 1,
                T.Cast("int32", T.truncmod(m, T.int64(7))),
            )
        )

    (step,) = plan(values)["steps"]
    assert step[:3] == ["let", "m", ["cast", "int64", "n"]]
    (launch,) = step[3]
    either = ["if", ["if", [">", "n", 3], ["<", "n", 9], 0], 1, ["==", ["==", "n", 20], 0]]
    assert launch[2] == ["A", "B", 0x3F800000, ["if", either, "n", ["min", "n", 2]]]
    assert launch[3] == [
        ["<<", ["if", [">", "n", 1], "n", 1], 1],
        ["cast", "int32", ["truncmod", "m", 7]],
    ]


def test_variables_of_one_name_are_told_apart() -> None:
    @T.prim_func
    def twice(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(2):
            for j in range(3):
                T.evaluate(T.call_packed("copy_kernel", A.data, B.data, i + 1, j + 1))

    inner = ir.Var("i", ir.DType("int32"))
    loop = twice.body
    assert isinstance(loop, ir.For)
    nested = loop.body
    assert isinstance(nested, ir.For)
    renamed = ir.replace(
        nested, loop_var=inner, body=ir.substitute(nested.body, {nested.loop_var: inner})
    )
    steps = plan(ir.replace(twice, body=ir.replace(loop, body=renamed)))["steps"]
    (outer,) = steps
    (within,) = outer[4]
    assert outer[1] != within[1]
    assert within[4][0][3] == [["+", outer[1], 1], ["+", within[1], 1]]


def test_what_cannot_be_planned() -> None:
    @T.prim_func
    def stores(A: T.Buffer((4,), "float32")):
        A[0] = T.float32(1)

    @T.prim_func
    def calls(A: T.Buffer((4,), "float32")):
        T.evaluate(T.call_packed("my.function", A.data))

    @T.prim_func
    def reads(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        T.evaluate(T.call_packed("copy_kernel", A.data, B.data, A[0], 1))

    for func, what in (
        (stores, "BufferStore"),
        (calls, 'a call of the packed function "my.function"'),
        (reads, "the value `A[0]`"),
    ):
        with pytest.raises(CodegenError) as caught:
            plan(func)
        assert str(caught.value) == (
            f"function {func.name!r}: {what} outside of all kernels; bind its loops to threads"
        )


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (["+", "a", "b"], 4),
        (["-", "a", "b"], -10),
        (["*", "a", "b"], -21),
        (["//", "a", "b"], -1),
        (["%", "a", "b"], 4),
        (["truncdiv", "b", "a"], -2),
        (["truncmod", "b", "a"], 1),
        (["truncdiv", -6, 3], -2),
        (["min", "a", "b"], -3),
        (["max", "a", "b"], 7),
        (["==", "a", -3], 1),
        (["!=", "a", -3], 0),
        (["<", "a", "b"], 1),
        (["<=", "b", 7], 1),
        ([">", "a", "b"], 0),
        ([">=", "b", 8], 0),
        (["<<", "b", 2], 28),
        ([">>", "b", 1], 3),
        (["&", "b", 5], 5),
        (["|", "b", 8], 15),
        (["^", "b", 1], 6),
        (["if", ["<", "a", 0], "b", ["//", 1, ["+", "a", 3]]], 7),
        (["cast", "uint8", "a"], 253),
        (["cast", "int8", ["+", "b", 250]], 1),
        (["cast", "int8", 200], -56),
        (["+", ["*", 2, 3], 4], 10),
    ],
)
def test_what_expressions_mean(expr: Expression, expected: int) -> None:
    assert evaluator(expr)({"a": -3, "b": 7}) == expected
