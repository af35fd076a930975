"""The imperative builder."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import IRError
from tilewright.ir import (
    IfThenElse,
    IterType,
    IterVar,
    PrimFunc,
    Var,
    builder,
    const,
    decl_buffer,
    verify_well_formed,
)
from tilewright.testing import oracle


def test_statements_read_like_a_program() -> None:
    ib = builder.create()
    n = Var("n")
    a, b = ib.pointer("float32", name="A"), ib.pointer("float32", name="B")
    ib.scope_attr("device", "pragma", 3)
    total = ib.allocate("float32", (1,), name="total", scope="local")
    total[0] = 0.0
    with ib.for_range(0, n, name="i", kind="parallel") as i:
        with ib.if_scope(ib.likely(i % 2 == 0)):
            total[0] = total[0] + a[i]
        with ib.else_scope():
            half = ib.let("half", a[i] * 0.5)
            b[i] = half
    assert str(ib.get()) == EXPECTED


def test_programs_run() -> None:
    ib = builder.create()
    n, a, b = Var("n"), ib.pointer("int32", name="A"), ib.pointer("int32", name="B")
    with ib.for_range(0, n) as i:
        with ib.if_scope(i % 2 == 0):
            b[i] = a[i] * 10
        with ib.else_scope():
            b[i] = a[i]
    func = PrimFunc((n, a.buffer.data, b.buffer.data), ib.get())
    assert verify_well_formed(func)
    x, y = np.arange(5, dtype="int32"), np.zeros(5, "int32")
    oracle.run(func, 5, x, y)
    assert list(y) == [0, 1, 20, 3, 40]


def test_vector_content_counts_whole_vectors() -> None:
    ib = builder.create()
    a = ib.pointer("float32x4", name="A")
    a[2] = a[1] + 1.0
    x = np.arange(12, dtype="float32")
    oracle.run(PrimFunc((a.buffer.data,), ib.get()), x)
    assert list(x[8:]) == [5, 6, 7, 8]


def test_buffers_of_several_dimensions() -> None:
    ib = builder.create()
    a = ib.buffer_ptr(decl_buffer((2, 3), "int32", "A"))
    a[1, 2] = 7
    with pytest.raises(IRError, match="A has 2 dimensions, got 1 indices"):
        a[1] = 7
    assert a.asobject() is a.buffer.data
    assert a.dtype == "int32"


def test_loop_variables_take_the_type_of_their_bounds() -> None:
    ib = builder.create()
    with ib.for_range(0, Var("n", const(0, "int64").dtype)) as i:
        assert i.dtype == "int64"
    with ib.for_range(0, 4, dtype="int8") as j:
        assert j.dtype == "int8"
    with ib.for_range(2, 10) as k:
        assert k.dtype == "int32"
    assert str(ib.get()).splitlines()[-2:] == ["for i in range(2, 10):", "    T.evaluate(0)"]


def test_thread_extent_keeps_the_iterator() -> None:
    ib = builder.create()
    thread = IterVar(None, Var("threadIdx.x"), IterType.THREAD_INDEX, "threadIdx.x")
    ib.scope_attr(thread, "thread_extent", 32)
    ib.emit(thread.var + 1)
    statement = ib.get()
    assert getattr(statement, "node", None) is thread


def test_mistakes() -> None:
    ib = builder.create()
    a = ib.pointer("float32", name="A")
    with pytest.raises(
        IRError, match=r"cannot store int32 into A of float32; use .astype\('float32'\)"
    ):
        a[0] = Var("i")
    with (
        pytest.raises(IRError, match="else_scope must come right after an if_scope"),
        ib.else_scope(),
    ):
        pass
    with (
        pytest.raises(IRError, match="unknown kind 'fast', expected one of serial, parallel"),
        ib.for_range(0, 4, kind="fast"),
    ):
        pass
    with pytest.raises(IRError, match="get\\(\\) inside an open scope"), ib.for_range(0, 4):
        ib.get()
    with ib.if_scope(Var("i") < 3):
        a[0] = 1.0
    assert isinstance(ib.get(), IfThenElse)  # the failed scopes left nothing behind


EXPECTED = """\
T.attr("device", "pragma", 3)
total = T.allocate([1], "float32", "local")
total_1 = T.Buffer((1,), data=total, scope="local")
total_1[0] = T.float32(0)
n = T.int32()
for i in T.parallel(n):
    A = T.Buffer((2147483647,))
    if T.likely(i % 2 == 0):
        total_1[0] = total_1[0] + A[i]
    else:
        half: T.float32 = A[i] * T.float32(0.5)
        B = T.Buffer((2147483647,))
        B[i] = half"""
