"""Tensors, placeholders and compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright import te
from tilewright.errors import IRError, TensorExpressionError
from tilewright.ir import IntImm, Var


def test_placeholder() -> None:
    a = te.placeholder((4, te.var("n")), "int8", "A")
    assert (a.op.name, a.name, a.dtype, a.ndim) == ("A", "A", "int8", 2)
    assert isinstance(a.shape[0], IntImm)
    assert isinstance(a.shape[1], Var)
    assert repr(a) == "Tensor(shape=[4, n], dtype=int8, op.name=A)"
    assert te.placeholder(7).ndim == 1
    assert te.placeholder((2,)).op.name == "placeholder"


def test_tensors_are_compared_by_operation_and_output() -> None:
    a, b = te.placeholder((4,), name="A"), te.placeholder((4,), name="A")
    assert a == a.op.output(0)
    assert hash(a) == hash(a.op.output(0))
    assert a != b
    first, second = te.compute((4,), lambda i: (a[i], a[i] + 1.0))
    assert first != second
    assert first.op is second.op


def test_indexing_in_steps_and_at_once() -> None:
    a = te.placeholder((4, 8), name="A")
    i, j = te.var("i"), te.var("j")
    assert str(a[i][j].asobject()) == str(a[i, j].asobject()) == str(a(i, j)) == "A[i, j]"
    assert str(a[i, j] + a[j][i] * 2.0) == "A[i, j] + A[j, i] * T.float32(2)"
    assert str(a[i, j].astype("int32")) == 'T.Cast("int32", A[i, j])'


def test_axis_names_come_from_the_function() -> None:
    def names(*args: Any, **options: Any) -> list[str]:
        op = te.compute(*args, **options).op
        assert isinstance(op, te.ComputeOp)
        return [axis.var.name for axis in op.axis]

    assert names((4, 8), lambda n, c: n + c) == ["n", "c"]
    assert names((4, 8), lambda *i: i[0]) == ["i0", "i1"]
    assert names((4, 8, 2), lambda n, *i: n) == ["n", "i0", "i1"]
    assert names((4, 8), lambda *i: i[0], varargs_names=["x", "y"]) == ["x", "y"]


def test_compute_of_several_outputs() -> None:
    a = te.placeholder((4,), name="A")
    first, second = te.compute((4,), lambda i: (a[i], a[i].astype("int32")), name="B")
    assert (first.name, second.name) == ("B_v0", "B_v1")
    assert (first.dtype, second.dtype) == ("float32", "int32")
    assert first.op.num_outputs == 2
    with pytest.raises(TensorExpressionError) as error:
        first.op.output(2)
    assert str(error.value) == "operation B has 2 outputs, there is no output 2"


def test_inputs_are_listed_once_in_order_of_use() -> None:
    a, b = te.placeholder((4,), name="A"), te.placeholder((4,), name="B")
    c = te.compute((4,), lambda i: b[i] + a[i] * b[i])
    assert [tensor.name for tensor in c.op.input_tensors] == ["B", "A"]


def test_index_dtype_follows_the_extent() -> None:
    op = te.compute((2**33,), lambda i: i).op
    assert isinstance(op, te.ComputeOp)
    assert op.axis[0].var.dtype == "int64"


A = te.placeholder((4, 8), name="A")
K = te.reduce_axis((0, 8), name="k")
I = te.var("i")
ERRORS: list[tuple[Callable[[], Any], str]] = [
    (lambda: A[I, I, I], "tensor A has 2 dimensions, got 3 indices"),
    (lambda: A[I] + 1.0, "tensor A has 2 dimensions, got 1 indices"),
    (lambda: A(I), "tensor A has 2 dimensions, got 1 indices"),
    (
        lambda: A[0:2, 1],  # type: ignore[index]
        "tensor A cannot be sliced with `:` or `...`; index single elements inside te.compute, "
        "or use topi.strided_slice",
    ),
    (
        lambda: A[1.5, 0],
        "index `T.float32(1.5)` of tensor A is float32, expected an integer",
    ),
    (
        lambda: te.compute((4, 8), lambda i: A[i, i]),
        "compute compute: the shape has 2 dimensions, but the function takes 1 indices",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: A, name="B"),  # type: ignore[arg-type, return-value]
        "compute B: the function returned the whole tensor A; index it, e.g. `A(i, j)`",
    ),
    (
        lambda: te.compute((4,), lambda i: (), name="B"),
        "compute B: the function returned no value",
    ),
    (
        lambda: te.compute((4,), lambda i: te.sum(A[i, K], axis=K) + 1.0, name="B"),
        "compute B: a reduction must be the whole value; compute it into a tensor of its own and "
        "use that tensor here",
    ),
    (
        lambda: te.compute((4,), lambda i: (te.sum(A[i, K], axis=K), A[i, 0]), name="B"),
        "compute B: several outputs with a reduction must be the results of one comm_reducer, "
        "in order",
    ),
    (lambda: te.placeholder((-1,), name="B"), "placeholder B: extent -1 is negative"),
    (
        lambda: te.placeholder((2.5,), name="B"),
        "placeholder B: extent `T.float32(2.5)` is float32, not an integer",
    ),
    (
        lambda: te.sum(A[0, I], axis=I),  # type: ignore[call-overload]
        "sum: axis must be made by te.reduce_axis, got i",
    ),
    (lambda: te.sum(A[0, K], axis=[]), "sum: at least one reduction axis is needed"),
    (lambda: te.sum(A[0, K], axis=K, where=I), "sum: `where` must be a bool, got int32"),
    (
        lambda: te.reduce_axis((0, 1, 2), name="r"),
        "reduce_axis r: the domain must be (begin, end), got (0, 1, 2)",
    ),
    (
        lambda: te.reduce_axis((0, 1.5), name="r"),
        "reduce_axis r: the domain must be of integers, got float32",
    ),
    (lambda: te.thread_axis(), "thread_axis needs a tag such as 'threadIdx.x'"),
    (
        lambda: te.comm_reducer(lambda x, y: x < y, lambda t: te.const(0, t), "less")(
            A[0, K], axis=K
        ),
        "less: the combiner gives bool for a value of float32",
    ),
    (
        lambda: te.comm_reducer(lambda x, y: (x[0],), lambda s, t: (0, 0), "pair")(
            (A[0, K], A[0, K]), axis=K
        ),
        "pair: reduces 2 values, but its combiner gives 1",
    ),
]


@pytest.mark.parametrize(("build", "message"), ERRORS)
def test_errors(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        build()
    assert str(error.value) == message


def test_a_whole_tensor_is_not_an_expression() -> None:
    with pytest.raises(IRError, match="cannot use Tensor"):
        A[I, I] + A


def test_thread_axis() -> None:
    axis = te.thread_axis("threadIdx.x")
    assert (axis.thread_tag, axis.var.name, axis.dom) == ("threadIdx.x", "threadIdx.x", None)
    bounded = te.thread_axis((0, 32), "threadIdx.y", "ty")
    assert bounded.var.name == "ty"
    assert bounded.dom is not None
    assert str(bounded.dom.extent) == "32"
