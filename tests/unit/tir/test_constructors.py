"""Nodes made as in TVM: numbers, lists, TVM's parameters; the same classes for isinstance."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import ir, tir as typed_tir
from tilewright.errors import IRError

tir: Any = typed_tir  # whose constructors take more than the classes that mypy sees
I, A = ir.Var("i"), ir.decl_buffer((16, 16), name="A")
STORE = ir.BufferStore(A, ir.const(1.0), (I, ir.const(0)))
POINTER = ir.Var("p", ir.HANDLE)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (tir.Range(2, 10), "T.Range(2, 10)"),
        (tir.Range(5), "T.Range(0, 5)"),
        (tir.Range.from_min_extent(2, 10), "T.Range(2, 12)"),
        (tir.IterVar((0, 8), "x", tir.IterVar.CommReduce), 'T.iter_var(x, T.Range(0, 8), "CommR'),
        (tir.BufferLoad(A, [0, I]), "A[0, i]"),
        (tir.BufferStore(A, 2, [I, 0]), "T.float32(2)"),
        (tir.For(I, 0, 4, tir.ForKind.PARALLEL, STORE), "for i in T.parallel(4):"),
        (tir.For(I, min_val=1, extent=4, kind=0, body=STORE), "for i in range(1, 5):"),
        (tir.For(I, 0, 4, 0, STORE, annotations={"a": 1}), 'annotations={"a": 1}'),
        (tir.BlockRealize([], True, tir.Block([], [], [], "b", STORE)), 'with T.block("b"):'),
        (tir.Select(I < 3, 1, 2), "T.Select(i < 3, 1, 2)"),
        (tir.Ramp(0, 1, 8), "T.Ramp(0, 1, 8)"),
        (tir.Broadcast(1, 4), "T.Broadcast(1, 4)"),
        (tir.Add(I, 1), "i + 1"),
        (tir.Max(1, I), "T.max(1, i)"),
        (tir.Not(True), "T.Not(T.bool(True))"),
        (tir.Call("float32", "tir.exp", [1.5]), "T.exp(T.float32(1.5))"),
        (tir.Cast("float32", I), 'T.Cast("float32", i)'),
        (tir.Let(I, 1, I + 1), "T.Let(i + 1, where={i: 1})"),
        (tir.Evaluate(0), "T.evaluate(0)"),
        (tir.AssertStmt(True, tir.StringImm("no"), STORE), '"no"'),
        (tir.Allocate(POINTER, "float32", [4], True, STORE), 'T.allocate([4], "float32"'),
        (tir.BufferRegion(A, [tir.Range(0, 4), (2, 8)]), "A[0:4, 2:8]"),
        (tir.Var("p", tir.PointerType("float32", "shared")).type_annotation, "shared"),
    ],
)
def test_what_is_made(made: ir.Node, text: str) -> None:
    assert text in str(made)


def test_sequences() -> None:
    sequence = tir.SeqStmt([STORE, STORE])
    assert len(sequence) == 2
    assert sequence[1] is STORE
    assert list(sequence) == [STORE, STORE]
    with pytest.raises(IndexError):
        sequence[2]
    with pytest.raises(IRError, match="SeqStmt takes statements, got"):
        tir.SeqStmt([1, 2])


def test_functions_take_parameters_in_tvms_order() -> None:
    func = tir.PrimFunc([POINTER], STORE, None, {POINTER: A}, {"global_symbol": "f"})
    assert func.buffer_map == {POINTER: A}
    assert (func.name, func.ret_type) == ("f", "void")
    assert tir.PrimFunc([], STORE, attrs=None).attrs == {}


def test_one_class_for_isinstance() -> None:
    loop = ir.For(I, ir.const(0), ir.const(4), ir.ForKind.SERIAL, STORE)
    assert isinstance(loop, tir.For)
    assert not isinstance(STORE, tir.For)
    assert issubclass(ir.For, tir.For)
    assert issubclass(tir.For, tir.For)
    assert tir.For.child_fields == ir.For.child_fields
    match loop:
        case tir.For(body=body):
            assert body is STORE
        case _:
            pytest.fail("a pattern did not match")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((I, 0, 4, 0, STORE, None, {}, 1), {}, "annotations, got 8 arguments"),
        ((I, 0), {"extend": 4}, "'extend' is not known"),
        ((I, 0), {"loop_var": I}, "'loop_var' is given twice"),
    ],
)
def test_mistakes(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        tir.For(*arguments, **options)
    assert str(caught.value).startswith("For takes loop_var, min_val, extent, kind, body, ")
    assert str(caught.value).endswith(message)
