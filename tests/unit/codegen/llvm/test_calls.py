"""Which intrinsics may be called, and how calls are declared."""

from __future__ import annotations

import pytest

from tilewright.codegen.llvm.context import ModuleContext, quoted
from tilewright.codegen.llvm.intrinsic_check import check_intrinsic
from tilewright.errors import CodegenError
from tilewright.target import Target

OLD, NEW = Target("llvm -mcpu=x86-64"), Target("llvm -mcpu=sapphirerapids")


@pytest.mark.parametrize(
    ("symbol", "declaration"),
    [
        ("llvm.fma", "declare float @llvm.fma(float, float, float)"),
        (
            "llvm.fma.v4f32",
            "declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)",
        ),
        ("llvm.x86.sse.rcp.ps", "declare <4 x float> @llvm.x86.sse.rcp.ps(<4 x float>)"),
    ],
)
def test_known_intrinsics(symbol: str, declaration: str) -> None:
    check_intrinsic(symbol, declaration, OLD)


@pytest.mark.parametrize(
    ("symbol", "feature"),
    [
        ("llvm.x86.avx512.vpdpbusd.512", "avx512vnni"),
        ("llvm.x86.avx512.pmaddubs.w.512", "avx512bw"),
        ("llvm.x86.avx512.max.ps.512", "avx512f"),
        ("llvm.x86.avx2.pmadd.ub.sw", "avx2"),
        ("llvm.x86.avx.rcp.ps.256", "avx"),
    ],
)
def test_intrinsics_need_their_cpu(symbol: str, feature: str) -> None:
    with pytest.raises(CodegenError, match=f"needs the CPU feature '{feature}'"):
        check_intrinsic(symbol, "", OLD)
    with pytest.raises(CodegenError, match="LLVM has no intrinsic"):
        check_intrinsic(symbol, "declare void @f()", NEW)  # the feature is there, the type is wrong


def test_one_of_several_extensions_is_enough() -> None:
    symbol = "llvm.x86.avx512.vpdpbusd.256"
    lanes = "<8 x i32>"
    declaration = f"declare {lanes} @{symbol}({lanes}, {lanes}, {lanes})"
    for cpu in ("cascadelake", "alderlake"):  # AVX-512 VNNI with narrow registers, and AVX-VNNI
        check_intrinsic(symbol, declaration, Target(f"llvm -mcpu={cpu}"))
    with pytest.raises(CodegenError) as caught:
        check_intrinsic(symbol, declaration, Target("llvm -mcpu=haswell"))
    assert str(caught.value) == (
        "'llvm.x86.avx512.vpdpbusd.256' needs the CPU feature 'avxvnni or avx512vnni+avx512vl', "
        "which haswell does not have"
    )


def test_intrinsics_that_cannot_work() -> None:
    with pytest.raises(CodegenError, match="belongs to another architecture than that of x86-64"):
        check_intrinsic("llvm.nvvm.barrier0", "declare void @llvm.nvvm.barrier0()", OLD)
    with pytest.raises(CodegenError, match="it is not known which CPU feature"):
        check_intrinsic("llvm.x86.xbegin", "declare i32 @llvm.x86.xbegin()", OLD)


def test_declarations_are_shared_and_checked() -> None:
    context = ModuleContext(OLD, frozenset({"main"}))
    assert context.declare("i32", "f", "i32") == "@f"
    assert context.declare("i32", "f", "i32") == "@f"
    with pytest.raises(CodegenError, match="is called with two signatures"):
        context.declare("i32", "f", "i64")
    with pytest.raises(CodegenError, match="has the name of a function of this module"):
        context.declare("i32", "main", "")


def test_overloads_of_an_intrinsic_get_names_of_their_own() -> None:
    context = ModuleContext(OLD)
    names = [context.declare_intrinsic(t, "llvm.fabs", t) for t in ("float", "double", "float")]
    assert names == ["@llvm.fabs", "@llvm.fabs.1", "@llvm.fabs"]


def test_strings_and_odd_names() -> None:
    context = ModuleContext(OLD)
    assert context.string('a"b\n') == "@const.0"
    assert context.string('a"b\n') == "@const.0"
    assert context.globals == [
        '@const.0 = private unnamed_addr constant [5 x i8] c"a\\22b\\0A\\00", align 1'
    ]
    assert quoted("plain.name_1") == "@plain.name_1"
    assert quoted("a b") == '@"a b"'
    assert quoted("1st") == '@"1st"'
