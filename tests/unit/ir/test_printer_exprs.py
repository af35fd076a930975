"""How expressions are written: precedence, constants, sugar only where it means the same."""

from __future__ import annotations

import pytest

from tilewright.ir import (
    EQ,
    TRUE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CommReducer,
    Div,
    FloatImm,
    FloorMod,
    GlobalVar,
    IntImm,
    IterType,
    IterVar,
    Let,
    Min,
    Mod,
    Node,
    Not,
    Op,
    Or,
    PointerType,
    PrimExpr,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
    const,
    decl_buffer,
    intrinsics,
    register_expr_printer,
    script,
)
from tilewright.ir.dtype import DType

i, j, k = Var("i"), Var("j"), Var("k")
x, y = Var("x", DType("float32")), Var("y", DType("float32"))
p, q = Var("p", DType("bool")), Var("q", DType("bool"))
A = decl_buffer((16, 16), "float32", name="A")
INT32 = DType("int32")
F32 = DType("float32")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (i * j + k, "i * j + k"),
        (i * (j + k), "i * (j + k)"),
        (i + j + k, "i + j + k"),
        (i + (j + k), "i + (j + k)"),
        (i - (j - k), "i - (j - k)"),
        (i // j * k, "i // j * k"),
        (i * (j // k), "i * (j // k)"),
        (i % (j % k), "i % (j % k)"),
        ((i + j) * (j - k), "(i + j) * (j - k)"),
        (x / (y * x), "x / (y * x)"),
        (i * -1, "i * -1"),
        (-5 * i, "-5 * i"),
        (0 - i, "0 - i"),
        (i + j < k * 2, "i + j < k * 2"),
        (And(p, Or(q, p)), "p and (q or p)"),
        (Or(And(p, q), p), "p and q or p"),
        (And(p, And(q, p)), "p and (q and p)"),
        (And(Not(p), q), "not p and q"),
        (Not(And(p, q)), "not (p and q)"),
        (Not(i < j), "not i < j"),
        (EQ(i < j, j < k), "(i < j) == (j < k)"),
        (i & j, "T.bitwise_and(i, j)"),
        (i << j, "T.shift_left(i, j)"),
        (~i, "T.bitwise_not(i)"),
    ],
)
def test_operators(expr: PrimExpr, text: str) -> None:
    assert str(expr) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (const(3), "3"),
        (const(-3), "-3"),
        (const(3, "int64"), "T.int64(3)"),
        (const(3, "uint8"), "T.uint8(3)"),
        (const(True), "T.bool(True)"),
        (const(0.0), "T.float32(0)"),
        (const(16.0), "T.float32(16)"),
        (const(0.1), "T.float32(0.10000000000000001)"),
        (const(1e-5), "T.float32(1.0000000000000001e-05)"),
        (const(0.5, "float64"), "T.float64(0.5)"),
        (const(1.0, "bfloat16"), "T.bfloat16(1)"),
        (intrinsics.min_value("float32"), "T.float32(-3.4028234663852886e+38)"),
        (FloatImm(F32, float("inf")), 'T.float32("inf")'),
        (FloatImm(F32, float("-inf")), 'T.float32("-inf")'),
        (FloatImm(F32, float("nan")), 'T.float32("nan")'),
        (StringImm('a"b\n'), r'"a\"b\n"'),
    ],
)
def test_constants(expr: PrimExpr, text: str) -> None:
    assert str(expr) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Add(i, IntImm(INT32, 0)), "T.Add(i, 0)"),
        (Add(IntImm(INT32, 3), IntImm(INT32, 4)), "T.Add(3, 4)"),
        (Not(Not(p)), "T.Not(not p)"),
        (And(TRUE, p), "T.And(T.bool(True), p)"),
        (Min(i, i), "T.Min(i, i)"),
        (Div(i, j), "T.Div(i, j)"),
        (Mod(i, j), "T.truncmod(i, j)"),
        (FloorMod(i, IntImm(INT32, 1)), "T.FloorMod(i, 1)"),
        (Sub(i, IntImm(INT32, -3)), "i - -3"),
        (Call(DType("int8"), Op.get("tir.exp"), (x,)), 'T.call_intrin("int8", "tir.exp", x)'),
        (Ramp(i, const(1), 1), "T.Ramp(i, 1, 1)"),
    ],
)
def test_sugar_is_used_only_where_it_parses_back(expr: PrimExpr, text: str) -> None:
    assert str(expr) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Cast(F32, i), 'T.Cast("float32", i)'),
        (Select(p, x, y), "T.Select(p, x, y)"),
        (Ramp(i, const(1), 4), "T.Ramp(i, 1, 4)"),
        (Broadcast(x, 4), "T.Broadcast(x, 4)"),
        (Shuffle((x, y), (const(1), const(0))), "T.Shuffle([x, y], [1, 0])"),
        (Let(i, j + 1, i * 2), "T.Let(i * 2, where={i: j + 1})"),
        (Call(DType("void"), GlobalVar("g"), (i,)), "Module.g(i)"),
        (intrinsics.exp(x), "T.exp(x)"),
        (intrinsics.if_then_else(p, x, y), "T.if_then_else(p, x, y)"),
        (intrinsics.call_extern("int32", "f", x, i), 'T.call_extern("int32", "f", x, i)'),
        (intrinsics.reinterpret("int32", x), 'T.reinterpret("int32", x)'),
        (intrinsics.undef("float32"), 'T.undef("float32")'),
        (intrinsics.ret(i), "T.ret(i)"),
        (i.astype("float32") * x, 'T.Cast("float32", i) * x'),
    ],
)
def test_calls_and_vectors(expr: PrimExpr, text: str) -> None:
    assert str(expr) == text


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (A[i, j], "A[i, j]"),
        (A[i, Ramp(j * 4, const(1), 4)], "A[i, j * 4:j * 4 + 4]"),
        (A[i, Ramp(j, const(2), 4)], "A[i, j:j + 8:2]"),
        (A[i, Ramp(const(0), const(1), 16)], "A[i, 0:16]"),
        (A[i, Ramp(j, k, 4)], "A[i, T.Ramp(j, k, 4)]"),
        (A[i, Ramp(j, const(-1), 4)], "A[i, T.Ramp(j, -1, 4)]"),
        (A[0:4, i], "A[0:4, i]"),
        (decl_buffer((), name="S")[()], "S[()]"),
        (
            BufferLoad(A, (i, Ramp(j, const(1), 4)), Broadcast(p, 4)),
            "A.vload([i, T.Ramp(j, 1, 4)], predicate=T.Broadcast(p, 4))",
        ),
    ],
)
def test_buffer_accesses(node: Node, text: str) -> None:
    assert str(node) == text


def test_tensor_expression_nodes_print_as_in_tensor_expression_logs() -> None:
    lhs, rhs, axis = (
        Var("x"),
        Var("y"),
        IterVar(Range(const(0), const(64)), k, IterType.COMM_REDUCE),
    )
    combiner = CommReducer((lhs,), (rhs,), (lhs + rhs,), (const(0.0, "float16"),))
    reduction = Reduce(combiner, (x,), (axis,), TRUE, 0)
    assert str(axis) == 'T.iter_var(k, T.Range(0, 64), "CommReduce", "")'
    assert str(reduction) == (
        "T.reduce(T.comm_reducer(lambda x, y: x + y, [T.float16(0)]), source=[x], init=[], "
        'axis=[T.iter_var(k, T.Range(0, 64), "CommReduce", "")], condition=T.bool(True), '
        "value_index=0)"
    )
    assert str(PointerType(F32, "shared")) == 'T.handle("float32", "shared")'


def test_two_variables_of_one_name_are_told_apart() -> None:
    assert str(Var("n") + Var("n") * Var("for")) == "n + n_1 * for_1"
    assert str(Var("threadIdx.x") + 1) == "threadIdx_x + 1"


def test_other_layers_can_register_their_expressions() -> None:
    class Opaque(PrimExpr, frozen=True):
        value: PrimExpr

    assert str(Opaque(i + 1)) == "Opaque(i + 1)"
    register_expr_printer(Opaque, lambda node, text: f"<{text(node.value)}>")
    assert script(Opaque(i + 1)) == "<i + 1>"
