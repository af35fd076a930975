"""The text of expressions: what is fused, hoisted, widened and branched over."""

from __future__ import annotations

import re

import pytest

from tilewright.errors import CodegenError
from tilewright.ir import (
    Add,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Div,
    DType,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    GlobalVar,
    Max,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Shuffle,
    SizeVar,
    Sub,
    Var,
    const,
)
from tilewright.ir.intrinsics import if_then_else
from tilewright.testing.kernels import flat, kernel, llvm_source

X, Y = Var("x", DType("float32")), Var("y", DType("float32"))


def body_of(value: PrimExpr, *arguments: Buffer | Var) -> list[str]:
    """The instructions that compute and store one value."""
    out = flat("out", 64, value.dtype.element_of)
    lanes = value.dtype.lanes
    index: PrimExpr = const(0) if lanes == 1 else Ramp(const(0), const(1), lanes)
    text = llvm_source(kernel([*arguments, out], BufferStore(out, value, (index,))))
    start = text.index("entry:")
    return [line.strip() for line in text[start : text.index("}", start)].splitlines()[1:]]


def text_of(value: PrimExpr, *arguments: Buffer | Var) -> str:
    return "\n".join(body_of(value, *arguments))


def error_of(value: PrimExpr, *arguments: Buffer | Var) -> str:
    with pytest.raises(CodegenError) as caught:
        body_of(value, *arguments)
    return str(caught.value)


def test_products_in_sums_are_fused() -> None:
    for value in (Add(X, Mul(X, Y)), Add(Mul(X, Y), X), Sub(X, Mul(X, Y)), Sub(Mul(X, Y), X)):
        text = text_of(value, X, Y)
        assert "call float @llvm.fmuladd.f32" in text
        assert "fmul" not in text.replace("fmuladd", "")
    assert text_of(Sub(X, Mul(X, Y)), X, Y).count("fneg") == 1


def test_small_floats_are_rounded_after_every_operation() -> None:
    h = Var("h", DType("float16"))
    text = text_of(Add(h, Mul(h, h)), h)
    assert "fmul half" in text
    assert "fadd half" in text


def test_unsigned_and_signed_comparisons() -> None:
    s, u = Var("s", DType("int16")), Var("u", DType("uint16"))
    assert "icmp slt i16" in text_of(s < 3, s)
    assert "icmp ult i16" in text_of(u < 3, u)
    assert "icmp eq i16" in text_of(u.equal(3), u)
    assert "fcmp olt float" in text_of(X < 3.0, X)


def test_division_by_constants_is_plain() -> None:
    s, u = Var("s", DType("int16")), Var("u", DType("uint16"))
    assert "ashr i16 %arg0, 3" in text_of(FloorDiv(s, const(8, "int16")), s)
    assert "and i16 %arg0, 7" in text_of(FloorMod(s, const(8, "int16")), s)
    assert "sdiv i16 %arg0, 8" in text_of(Div(s, const(8, "int16")), s)
    assert "urem i16 %arg0, 8" in text_of(Mod(u, const(8, "uint16")), u)
    assert "br" not in text_of(FloorDiv(s, const(-3, "int16")), s)


def test_division_by_a_variable_checks_it_once() -> None:
    a, b = Var("a", DType("int16")), Var("b", DType("int16"))
    text = text_of(FloorDiv(a, b) + FloorMod(a, b), a, b)
    assert len(re.findall(r"^br i1", text, re.M)) == 1
    assert "ret i32 1" in text


def test_natural_numbers_take_the_short_division() -> None:
    n, out, i = SizeVar("n"), flat("out", 64, "int32"), Var("i")
    body = BufferStore(out, FloorDiv(i, const(7)) + FloorMod(i + 3, n), (i,))
    text = llvm_source(kernel([n, out], For(i, const(0), const(64), ForKind.SERIAL, body)))
    assert "udiv i64" in text
    assert "urem i64" in text
    below = llvm_source(kernel([n, out], For(i, const(-3), const(9), ForKind.SERIAL, body)))
    assert "udiv i64" not in below


def test_safe_choices_need_no_branch() -> None:
    n = Var("n")
    assert "br" not in text_of(if_then_else(n > 3, n + 1, n * 2), n)
    assert "phi" in text_of(if_then_else(n > 3, const(12) // n, n), n)


def test_loop_variables_are_wide_and_narrow_on_demand() -> None:
    out, i = flat("out", 64, "int8"), Var("i")
    body = BufferStore(out, i.astype("int8"), (i,))
    text = llvm_source(kernel([out], For(i, const(0), const(64), ForKind.SERIAL, body)))
    assert re.search(r"%i\d+ = phi i64 \[ 0, %entry \]", text)
    assert "sext" not in text


def test_invariant_values_are_computed_outside_the_loop() -> None:
    n, m, out, i = Var("n"), Var("m"), flat("out", 4096, "float32"), Var("i")
    value = Max(X * Y, const(0.0))
    body = BufferStore(out, value, (n * 64 + m * 8 + i,))
    text = llvm_source(kernel([X, Y, n, m, out], For(i, const(0), const(8), ForKind.SERIAL, body)))
    loop = text[text.index("loop") :][: text.index("done")]
    inside = loop[loop.index(":") : loop.index("br i1")]
    assert "fmul" not in inside
    assert "mul nsw" not in inside


def test_errors_name_the_expression() -> None:
    p = Var("p", DType("handle"))
    assert error_of(Add(p, p), p) == "arithmetic on pointers is not supported: `p + p`"
    assert error_of(FloorDiv(X, Y), X, Y) == (
        "FloorDiv of floats is not supported in `T.FloorDiv(x, y)`"
    )
    assert "a ramp counts in integers, not in float32x4" in error_of(Ramp(X, Y, 4), X, Y)
    vector = Ramp(const(0), const(1), 4)
    assert "a shuffle of 4 lanes takes lanes 0 to 3" in error_of(Shuffle((vector,), (const(4),)))
    n = Var("n")
    assert "expected a constant lane number, got `n`" in error_of(Shuffle((vector,), (n,)), n)
    call = Call(DType("int32"), GlobalVar("other"), ())
    assert "call of 'other': calls between functions must be inlined" in error_of(call)


def test_memory_that_nobody_defines() -> None:
    load = BufferLoad(flat("a", 4), (const(0),))
    assert "variable a is used but not defined in the function" in error_of(load)
