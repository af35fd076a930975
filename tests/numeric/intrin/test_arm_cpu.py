"""The dot products of Arm CPUs: their code, and their numbers with all instructions spelled out."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

import tilewright as tw
from tilewright.driver import compile_only
from tilewright.errors import CodegenError
from tilewright.intrin import arm_cpu
from tilewright.intrin.agreement import disagreement, stand_alone
from tilewright.ir import Call, PrimExpr, Rewriter, Shuffle, StringImm, cast, const, map_children
from tilewright.ir.intrinsics import reinterpret
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.target import Target

PLAIN = "llvm -mtriple=aarch64-linux-gnu"
DOTPROD = "llvm -mtriple=aarch64-linux-gnu -mattr=+v8.2a,+dotprod"
# The CPU, and what must stand in the code, in that order.
CODE = {
    arm_cpu.ARM_DOT_4x4_i8_NEON_INTRIN: (PLAIN, r"smull.*smull.*(saddlp|sadalp|addp).*addp.*add\b"),
    arm_cpu.ARM_DOT_4x4_i8_SDOT_INTRIN: (DOTPROD, r"sdot\s+v\d+\.4s, v\d+\.16b, v\d+\.16b"),
    arm_cpu.ARM_DOT_4x4_u8_UDOT_INTRIN: (DOTPROD, r"udot\s+v\d+\.4s, v\d+\.16b, v\d+\.16b"),
    arm_cpu.ARM_DOT_4x4_u8_HDOT_INTRIN: (DOTPROD, r"udot\s+v\d+\.4s, v\d+\.16b, v\d+\.16b"),
}
NAMES = [name + suffix for name in CODE for suffix in ("", "_local")]


def get(name: str) -> TensorIntrin:
    found = TensorIntrin.get(name)
    assert found is not None
    return found


def test_names_are_those_of_tvm() -> None:
    assert list(CODE) == [
        "dot_4x4_i8i8s32_neon",
        "dot_4x4_i8i8s32_sdot",
        "dot_4x4_u8u8u32_udot",
        "dot_4x4_u8u8i32_hdot",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_instruction_is_in_the_machine_code(name: str) -> None:
    target, pattern = CODE[name.removesuffix("_local")]
    assert get(name).features <= Target(target).features
    assembly = compile_only(stand_alone(get(name).impl), target).get_source("asm")
    assert re.search(pattern, assembly, re.DOTALL)


@pytest.mark.parametrize("name", NAMES)
def test_cpus_without_it_run_the_description(name: str) -> None:
    needed = get(name).features
    assert needed in ({"neon"}, {"dotprod"})
    for target in (PLAIN, "llvm -mcpu=x86-64"):
        if needed <= Target(target).features:
            continue
        assembly = compile_only(stand_alone(get(name).impl), target).get_source("asm")
        assert not re.search(r"[su]dot", assembly)


def test_the_code_generator_knows_what_is_missing() -> None:
    func = stand_alone(get("dot_4x4_i8i8s32_sdot").impl)
    with (
        tw.PassContext(disabled_pass=["IntrinsicFallback"]),
        pytest.raises(CodegenError) as caught,
    ):
        compile_only(func, PLAIN)
    assert str(caught.value).startswith(
        "'llvm.aarch64.neon.sdot.v4i32.v16i8' needs the CPU feature 'dotprod', which generic does "
        "not have"
    )


# --- numbers, on any machine --------------------------------------------------------------------


def _every(vector: PrimExpr, step: int, first: int) -> PrimExpr:
    lanes = range(first, vector.dtype.lanes, step)
    return Shuffle((vector,), tuple(const(lane) for lane in lanes))


def _widened(vector: PrimExpr, element: str) -> PrimExpr:
    return cast(f"{element}x{vector.dtype.lanes}", vector)


def _smull(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return _widened(a, "int16") * _widened(b, "int16")


def _saddlp(a: PrimExpr) -> PrimExpr:
    wide = _widened(a, "int32")
    return _every(wide, 2, 0) + _every(wide, 2, 1)


def _addp(low: PrimExpr, high: PrimExpr) -> PrimExpr:
    both = Shuffle((low, high), tuple(const(lane) for lane in range(8)))
    return _every(both, 2, 0) + _every(both, 2, 1)


def _dot(acc: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    element = acc.dtype.element_of
    products = _widened(a, element) * _widened(b, element)
    for part in range(4):
        acc = acc + _every(products, 4, part)
    return acc


# What the manual of the architecture says of each instruction.
MEANING: dict[str, Any] = {
    "llvm.aarch64.neon.smull.v8i16": _smull,
    "llvm.aarch64.neon.saddlp.v4i32.v8i16": _saddlp,
    "llvm.aarch64.neon.addp.v4i32": _addp,
    "llvm.aarch64.neon.sdot.v4i32.v16i8": _dot,
    "llvm.aarch64.neon.udot.v4i32.v16i8": _dot,
}


class SpelledOut(Rewriter):
    """Replaces instructions by what they mean."""

    def visit_call(self, node: Call) -> PrimExpr:
        node = map_children(node, self.visit)
        name = node.args[0] if node.args else None
        if not isinstance(name, StringImm):
            return node
        return reinterpret(node.dtype, MEANING[name.value](*node.args[1:]))


@pytest.mark.parametrize("name", NAMES)
def test_same_numbers(name: str) -> None:
    intrin = get(name)
    spelled = intrin.impl.with_body(SpelledOut().rewrite(intrin.impl.body))
    assert "aarch64" in str(intrin.impl)
    assert "aarch64" not in str(spelled)
    runnable = dataclasses.replace(intrin, impl=spelled, features=frozenset())
    assert disagreement(runnable, tw.build) is None
