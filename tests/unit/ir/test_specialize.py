# mypy: disable-error-code="valid-type, no-untyped-def"
"""Functions for certain sizes."""

from __future__ import annotations

import pytest

from tilewright.errors import IRError
from tilewright.ir import Var, const, decl_buffer, structural_equal, symbols_of
from tilewright.script import tir as T


@T.prim_func
def scale(a: T.handle, b: T.handle, n: T.int32):
    m = T.int32()
    A = T.match_buffer(a, (n, m))
    B = T.match_buffer(b, (n, m))
    for i, j in T.grid(n, m):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


@T.prim_func
def scale_8_4(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (8, 4))
    B = T.match_buffer(b, (8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


def test_symbols_in_the_order_of_the_arguments() -> None:
    assert [var.name for var in symbols_of(scale)] == ["n", "m"]
    assert symbols_of(scale_8_4) == []


def test_symbols_and_parameters_become_numbers() -> None:
    n, m = symbols_of(scale)
    special = scale.specialize({n: 8, m: const(4)})
    assert structural_equal(special, scale_8_4.with_attr("global_symbol", "scale"))


def test_a_buffer_gives_the_sizes() -> None:
    special = scale.specialize({scale.params[0]: decl_buffer((8, 4)), scale.params[2]: 8})
    assert structural_equal(special, scale_8_4.with_attr("global_symbol", "scale"))


def test_some_symbols_may_stay() -> None:
    n, m = symbols_of(scale)
    special = scale.specialize({n: 8})
    assert symbols_of(special) == [m]
    assert len(special.params) == 2


def test_sizes_that_are_calculated_become_numbers() -> None:
    @T.prim_func
    def halves(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,))
        B = T.match_buffer(b, (n // 2 - 1,))
        for i in T.serial(n // 2 - 1):
            B[i] = A[2 * i]

    (n,) = symbols_of(halves)
    special = halves.specialize({n: 8})
    assert [str(buffer.shape) for buffer in special.buffer_map.values()] == ["(8,)", "(3,)"]
    assert symbols_of(special) == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (lambda: Var("k"), 3, "specialize: 'k' is neither a parameter of 'scale' nor a symbol in"),
        (lambda: scale.params[0], 3, "specialize: 'a' is a buffer; give a buffer with the sizes"),
        (
            lambda: scale.params[2],
            decl_buffer((3,)),
            "specialize: 'n' is not a buffer parameter of 'scale'",
        ),
        (
            lambda: scale.params[0],
            decl_buffer((3,)),
            "specialize: 'A' is float32 with 2 dimensions, it is given float32 with 1",
        ),
    ],
)
def test_what_does_not_fit_is_refused(key, value, message: str) -> None:
    with pytest.raises(IRError, match=message):
        scale.specialize({key(): value})


def test_extents_that_are_known_must_agree() -> None:
    with pytest.raises(IRError, match="'A' has 8 elements on axis 0, it is given 9"):
        scale_8_4.specialize({scale_8_4.params[0]: decl_buffer((9, 4))})
