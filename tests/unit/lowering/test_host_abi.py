"""The calling convention and the signature that the runtime and the C header are made from."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tilewright.driver import lower
from tilewright.errors import LowerError
from tilewright.ir import HANDLE, BufferStore, PrimFunc, Var, as_module, const, decl_buffer
from tilewright.lowering import ArgumentSpec, DerivedParameter, signature_of
from tilewright.lowering.host_abi import HostABI, evaluate_extent

Parse = Callable[[str], PrimFunc]

SYMBOLIC = """
@T.prim_func
def main(a: T.handle, x: T.float32, b: T.handle):
    n = T.int32()
    s = T.int32()
    A = T.match_buffer(a, (n, 4), "float32", strides=[s, 1], align=16)
    B = T.match_buffer(b, (n * 2 + 1, n), "int8")
    for i, j in T.grid(n, 4):
        A[i, j] = A[i, j] * x
"""


def test_symbolic_sizes_follow_the_buffer_they_come_from(parse: Parse) -> None:
    func = lower(parse(SYMBOLIC))["main"]
    assert [param.name for param in func.params] == ["A", "n", "s", "x", "B"]
    assert not func.buffer_map
    a, x, b = signature_of(func)
    assert a == ArgumentSpec(
        name="A",
        kind="buffer",
        dtype="float32",
        shape=("n", 4),
        strides=("s", 1),
        alignment=16,
        access="rw",
        derived=(
            DerivedParameter("n", "int32", "shape", 0),
            DerivedParameter("s", "int32", "stride", 0),
        ),
    )
    assert x == ArgumentSpec(name="x", kind="scalar", dtype="float32")
    assert (b.shape, b.access, b.derived) == (("n * 2 + 1", "n"), "", ())


def test_extents_can_be_evaluated(parse: Parse) -> None:
    _, _, b = signature_of(lower(parse(SYMBOLIC))["main"])
    assert [evaluate_extent(extent, {"n": 5}) for extent in b.shape] == [11, 5]
    with pytest.raises(LowerError, match=re.escape("cannot evaluate the extent `n` from ['m']")):
        evaluate_extent("n", {"m": 1})


def test_accesses(parse: Parse) -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32"),
         D: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i]
        C[i] = C[i] + B[i]
    T.evaluate(T.call_extern("int32", "f", D.data))
""")
    assert [spec.access for spec in signature_of(lower(func)["main"])] == ["r", "rw", "rw", "rw"]


def test_size_that_no_argument_tells() -> None:
    buffer = decl_buffer((Var("n") * 2,), name="A")
    param = Var("a", HANDLE)
    body = BufferStore(buffer, const(0.0), (const(0),))
    module = as_module(PrimFunc((param,), body, {param: buffer}))
    message = (
        "function 'main': the symbolic size 'n' in the shape `n * 2` of A cannot be inferred from "
        "the arguments; make it an extent of its own in some buffer, or a scalar parameter"
    )
    with pytest.raises(LowerError, match=re.escape(message)):
        HostABI()(module)


def test_lowering_twice_changes_nothing(parse: Parse) -> None:
    once = lower(parse(SYMBOLIC))
    again = lower(once)
    assert str(again["main"]) == str(once["main"])
    assert signature_of(again["main"]) == signature_of(once["main"])


def test_signature_of_a_function_that_is_not_lowered(parse: Parse) -> None:
    with pytest.raises(LowerError, match="function 'main' has no signature; lower it first"):
        signature_of(parse(SYMBOLIC))
