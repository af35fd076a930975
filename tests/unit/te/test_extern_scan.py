"""extern and scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import Buffer, Stmt, builder
from tilewright.ir.intrinsics import call_extern, call_packed
from tilewright.testing import oracle

Evaluate = Callable[..., Any]
rng = np.random.default_rng(6)
A = te.placeholder((4, 8), name="A")
X = rng.normal(size=(4, 8)).astype("float32")


def add_one(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
    ib = builder.create()
    source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, 4, name="i") as i, ib.for_range(0, 8, name="j") as j:
        target[i, j] = source[i, j] + 1.0
    return ib.get()


def test_extern_with_the_builder(evaluate: Evaluate) -> None:
    c = te.extern((4, 8), [A], add_one, name="C")
    d = te.compute((4, 8), lambda i, j: c[i, j] * 2.0, name="D")
    np.testing.assert_allclose(evaluate(d, [A], X), (X + 1) * 2, rtol=1e-6)
    func = te.create_prim_func([A, d])
    assert "T.reads(A[0:4, 0:8])" in str(func)


def test_extern_with_several_outputs(evaluate: Evaluate) -> None:
    def both(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = builder.create()
        source, low, high = map(ib.buffer_ptr, (ins[0], *outs))
        with ib.for_range(0, 4, name="i") as i:
            low[i] = source[i, 0]
            high[i] = source[i, 7].astype("float64")
        return ib.get()

    outputs = te.extern([(4,), (4,)], [A], both, name="ends", dtype=["float32", "float64"])
    assert [tensor.name for tensor in outputs] == ["ends_v0", "ends_v1"]
    first, last = evaluate(outputs, [A], X)
    np.testing.assert_array_equal(first, X[:, 0])
    np.testing.assert_array_equal(last, X[:, 7].astype("float64"))


def test_extern_call_of_a_c_function(evaluate: Evaluate) -> None:
    def negate(source: Any, target: Any) -> int:
        target[:] = -source
        return 0

    oracle.register_extern("test_te_negate", negate)
    c = te.extern(
        (4, 8),
        [A],
        lambda ins, outs: call_extern("int32", "test_te_negate", ins[0], outs[0]),
        name="C",
    )
    np.testing.assert_array_equal(evaluate(c, [A], X), -X)


def test_extern_call_of_a_registered_function() -> None:
    c = te.extern((4, 8), [A], lambda ins, outs: call_packed("f", ins[0], outs[0]), name="C")
    text = str(te.create_prim_func([A, c]))
    assert 'T.call_packed("f", T.tvm_stack_make_array(A.data' in text
    assert "T.tvm_stack_make_array(C.data" in text


def test_extern_primfunc(evaluate: Evaluate) -> None:
    b = te.compute((4, 8), lambda i, j: A[i, j] * 3.0, name="B")
    c = te.compute((4, 8), lambda i, j: b[i, j] + 1.0, name="C")
    func = te.create_prim_func([A, c])
    other = te.placeholder((4, 8), name="other")
    result = te.extern_primfunc([other], func, name="inner")
    np.testing.assert_allclose(evaluate(result, [other], X), X * 3 + 1, rtol=1e-6)
    with pytest.raises(TensorExpressionError) as error:
        te.extern_primfunc([te.placeholder((4,), name="v")], func)
    assert str(error.value) == (
        "extern_primfunc main: Tensor(shape=[4], dtype=float32, op.name=v) does not fit the "
        "parameter A: float32, shape (4, 8)"
    )


def test_scan_with_one_state(evaluate: Evaluate) -> None:
    state = te.placeholder((4, 8), name="S")
    init = te.compute((1, 8), lambda _, i: A[0, i], name="init")
    update = te.compute((4, 8), lambda t, i: state[t - 1, i] + A[t, i], name="update")
    total = te.scan(init, update, state, inputs=[A], name="total")
    np.testing.assert_allclose(evaluate(total, [A], X), X.cumsum(0), rtol=1e-5)
    assert "v_t = T.axis.scan((1, 4), t)" in str(te.create_prim_func([A, total]))


def test_scan_with_stages_and_reduction(evaluate: Evaluate) -> None:
    """A tiny recurrent cell: h[t] = relu(sum_k h[t-1, k] * w[k, i]) + x[t, i]."""
    weight = te.placeholder((8, 8), name="W")
    state = te.placeholder((4, 8), name="H")
    k = te.reduce_axis((0, 8), "k")
    init = te.compute((1, 8), lambda _, i: A[0, i], name="init")
    product = te.compute(
        (4, 8), lambda t, i: te.sum(state[t - 1, k] * weight[k, i], axis=k), name="product"
    )
    update = te.compute(
        (4, 8),
        lambda t, i: te.if_then_else(product[t, i] > 0.0, product[t, i], 0.0) + A[t, i],
        name="update",
    )
    hidden = te.scan(init, update, state, name="hidden")
    w = rng.normal(size=(8, 8)).astype("float32")
    expected = np.zeros((4, 8))
    expected[0] = X[0]
    for t in range(1, 4):
        expected[t] = np.maximum(expected[t - 1] @ w, 0) + X[t]
    result = evaluate(hidden, [A, weight], X, w)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_scan_with_two_states(evaluate: Evaluate) -> None:
    n = 8
    a, b = te.placeholder((n,), "int32", "a"), te.placeholder((n,), "int32", "b")
    one = te.compute((1,), lambda _: te.const(1), name="one")
    zero = te.compute((1,), lambda _: te.const(0), name="zero")
    next_a = te.compute((n,), lambda t: a[t - 1] + b[t - 1], name="next_a")
    next_b = te.compute((n,), lambda t: a[t - 1], name="next_b")
    pair = te.scan([one, zero], [next_a, next_b], [a, b], name="fibonacci")
    first, second = evaluate(pair, [])
    assert first.tolist() == [1, 1, 2, 3, 5, 8, 13, 21]
    assert second.tolist() == [0, 1, 1, 2, 3, 5, 8, 13]


STATE = te.placeholder((4, 8), name="S")
INIT = te.compute((1, 8), lambda t, i: A[0, i], name="init")
UPDATE = te.compute((4, 8), lambda t, i: STATE[t - 1, i], name="update")
OTHER = te.placeholder((3, 8), name="Z")
ERRORS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: te.scan([INIT], [UPDATE, UPDATE], [STATE], name="s"),
        "scan s: 1 states, 1 inits and 2 updates",
    ),
    (
        lambda: te.scan(INIT, UPDATE, UPDATE, name="s"),
        "scan s: state update must be a placeholder",
    ),
    (
        lambda: te.scan(INIT, te.compute((4, 8), lambda t, i: t), STATE, name="s"),
        "scan s: update compute is int32, state S is float32",
    ),
    (
        lambda: te.scan(INIT, OTHER, STATE, name="s"),
        "scan s: the shape of update Z does not fit state S",
    ),
    (
        lambda: te.extern((4,), [], lambda ins, outs: call_packed("f"), name="e"),
        "extern e: the dtype of the output cannot be guessed from the inputs; pass dtype=",
    ),
    (
        lambda: te.extern((4,), [A], lambda ins, outs: None, name="e"),  # type: ignore[arg-type, return-value]
        "extern e: the function must return a statement or an expression, got NoneType",
    ),
    (
        lambda: te.extern([(4,), (4,)], [A], add_one, "e", ["int8"]),
        "extern e: 2 outputs, but 1 dtypes",
    ),
]


@pytest.mark.parametrize(("build", "message"), ERRORS)
def test_errors(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        build()
    assert str(error.value) == message
