"""Which instruction a conversion becomes."""

from __future__ import annotations

import re

import pytest

from tilewright.ir import BufferStore, Cast, DType, Var, const
from tilewright.testing.kernels import flat, kernel, llvm_source


def instructions(source: str, target: str) -> str:
    x, out = Var("x", DType(source)), flat("out", 1, target)
    text = llvm_source(kernel([x, out], BufferStore(out, Cast(DType(target), x), (const(0),))))
    return text[: text.index("}")]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("int8", "int16", "sext i8 %arg0 to i16"),
        ("uint8", "int16", "zext i8 %arg0 to i16"),
        ("int16", "uint8", "trunc i16 %arg0 to i8"),
        ("int64", "float32", "sitofp i64 %arg0 to float"),
        ("uint16", "float64", "uitofp i16 %arg0 to double"),
        ("bool", "float32", "uitofp i1 %arg0 to float"),
        ("float32", "int16", "fptosi float %arg0 to i16"),
        ("float64", "uint8", "fptoui double %arg0 to i8"),
        ("float16", "float64", "fpext half %arg0 to double"),
        ("float32", "bool", "fcmp une float %arg0, 0.0"),
        ("float16", "bool", "fcmp une half %arg0, 0.0"),
        ("int16", "bool", "icmp ne i16 %arg0, 0"),
        ("handle", "int64", "ptrtoint ptr %arg0 to i64"),
    ],
)
def test_single_instructions(source: str, target: str, expected: str) -> None:
    assert expected in instructions(source, target)


def test_types_of_the_same_bits_need_nothing() -> None:
    text = instructions("int16", "uint16")
    assert "store i16 %arg0" in text


@pytest.mark.parametrize("target", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_no_support_library_is_called(target: str) -> None:
    """LLVM's own conversion of these would call functions that nobody links."""
    for source in ("float32", "float64", "int64", "float16"):
        text = instructions(source, target) + instructions(target, source)
        assert not re.search(r"(fptrunc|sitofp) .* to bfloat|fpext bfloat", text)
