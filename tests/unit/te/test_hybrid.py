"""Hybrid scripts: as operations and as plain Python."""

# The names that scripts use (output_tensor, parallel, ...) exist only inside scripts.
# mypy: disable-error-code="name-defined, no-untyped-def, no-untyped-call"
# ruff: noqa: F821

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.errors import TensorExpressionError

Evaluate = Callable[..., Any]
rng = np.random.default_rng(7)
STEPS = 3
A = te.placeholder((4,), name="A")
B = te.placeholder((6,), name="B")
X, Y = rng.uniform(-1, 1, 4).astype("float32"), rng.uniform(-1, 1, 6).astype("float32")


@te.hybrid.script
def outer(a, b):
    """The outer product."""
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i] * b[j]
    return c


@te.hybrid.script
def everything(a, b, scale):
    n, m = a.shape[0], b.shape[0]
    c = output_tensor((n, m), "float32")
    tmp = allocate((m,), "float32")
    for i in parallel(n):
        total = 0.0
        for j in unroll(m):
            tmp[j] = exp(b[j]) * scale
        for j in range(0, m, 2):
            total += tmp[j]
        for j in serial(1, m):
            c[i, j] = a[i] * tmp[j] + total if i < 2 and not (j >= 3) else -a[i]
        c[i, 0] = 1.0
        for u in const_range(STEPS):
            if i == u:
                c[i, u] = float32(u)
            elif 1 <= i < 3:
                c[i, u] += max(a[i], 0.0, 0.25)
            else:
                c[i, u] -= min(a[i], 0.5)
    return c


@te.hybrid.script
def two_results(a):
    low = output_tensor((4,), "float32")
    high = output_tensor((4,), "int32")
    for i in vectorize(4):
        low[i] = sqrt(abs(a[i]))
        high[i] = int32(a[i] * 10.0) // 3 % 2
    return low, high


def test_a_simple_script(evaluate: Evaluate) -> None:
    result = evaluate(outer(A, B), [A, B], X, Y)
    np.testing.assert_array_equal(result, np.outer(X, Y))
    np.testing.assert_array_equal(outer(X, Y), np.outer(X, Y))


def test_all_constructs_agree_with_python(evaluate: Evaluate) -> None:
    result = evaluate(everything(A, B, 2.0), [A, B], X, Y)
    np.testing.assert_allclose(result, everything(X, Y, 2.0), rtol=1e-5, atol=1e-6)


def test_loop_kinds_are_kept() -> None:
    text = str(te.create_prim_func([A, B, everything(A, B, 2.0)]))
    assert "for i in T.parallel(4):" in text
    assert "for j in T.unroll(6):" in text
    assert "c[i, 0] = T.float32(1)" not in text  # the output has the name of the script
    assert "everything[i, 0] = T.float32(1)" in text


def test_several_results(evaluate: Evaluate) -> None:
    low, high = evaluate(two_results(A), [A], X)
    np.testing.assert_allclose(low, np.sqrt(np.abs(X)), rtol=1e-6)
    np.testing.assert_array_equal(high, (X * 10).astype("int32") // 3 % 2)


def test_results_feed_other_operations(evaluate: Evaluate) -> None:
    product = outer(A, B)
    k = te.reduce_axis((0, 6), "k")
    total = te.compute((4,), lambda i: te.sum(product[i, k], axis=k))
    np.testing.assert_allclose(
        evaluate(total, [A, B], X, Y), np.outer(X, Y).sum(1), rtol=1e-5, atol=1e-6
    )


def test_scalar_expressions_as_arguments() -> None:
    n = te.var("n")

    @te.hybrid.script
    def shifted(a, k):
        c = output_tensor(a.shape, a.dtype)
        for i in range(len(a.shape) * 4):
            c[i] = a[i] + k
        return c

    assert 'A[i] + T.Cast("float32", n)' in str(te.create_prim_func([n, A, shifted(A, n)]))


def test_assertions() -> None:
    @te.hybrid.script
    def checked(a):
        c = output_tensor(a.shape, a.dtype)
        for i in range(4):
            assert a[i] > 0.0, "positive"
            c[i] = a[i]
        return c

    assert 'assert A[i] > T.float32(0), "positive"' in str(te.create_prim_func([A, checked(A)]))


def _no_return(a):
    c = output_tensor((4,), "float32")
    c[0] = a[0]


def _unknown_name(a):
    c = output_tensor((4,), "float32")
    c[0] = a[0] + missing
    return c


def _while(a):
    c = output_tensor((4,), "float32")
    while a[0] > 0.0:
        pass
    return c


def _wrong_indices(a):
    c = output_tensor((4,), "float32")
    c[0, 1] = a[0]
    return c


def _unknown_loop(a):
    c = output_tensor((4,), "float32")
    for i in zigzag(4):
        c[i] = a[i]
    return c


def _assign_loop_variable(a):
    c = output_tensor((4,), "float32")
    for i in range(4):
        i += 1
        c[i] = a[i]
    return c


def _returns_input(a):
    return a


def _attribute(a):
    c = output_tensor(a.size, "float32")
    return c


def _dynamic_const_range(a):
    c = output_tensor((4,), "float32")
    for i in const_range(a[0]):
        c[i] = a[i]
    return c


ERRORS: list[tuple[Callable[..., Any], str]] = [
    (_no_return, "line 1: the script must return its output tensors"),
    (_unknown_name, "line 3: name 'missing' is not defined"),
    (_while, "line 3: While is not part of hybrid script"),
    (_wrong_indices, "line 3: c has 1 dimensions, got 2 indices"),
    (
        _unknown_loop,
        "line 3: unknown loop 'zigzag', expected one of range, serial, unroll, parallel, "
        "vectorize, const_range, bind",
    ),
    (_assign_loop_variable, "line 4: i is not a variable, it cannot be assigned to"),
    (_returns_input, "line 2: a is not an output_tensor"),
    (_attribute, "line 2: attribute 'size' is not supported, only shape and dtype"),
    (_dynamic_const_range, "line 3: a bound of const_range must be a constant integer"),
]


@pytest.mark.parametrize(("function", "message"), ERRORS)
def test_errors_name_the_line(function: Callable[..., Any], message: str) -> None:
    script = te.hybrid.script(function)
    with pytest.raises(TensorExpressionError) as error:
        script(A)
    assert str(error.value) == f"hybrid script {function.__name__}, {message}"


def test_wrong_number_of_arguments() -> None:
    with pytest.raises(TensorExpressionError) as error:
        outer(A)
    assert str(error.value) == "hybrid script outer takes 2 arguments, got 1"
