"""Every instruction of a CPU does what its description says, by the numbers and in machine code."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest

import tilewright as tw
from tilewright.driver import compile_only
from tilewright.errors import RegistryError
from tilewright.intrin.agreement import disagreement, stand_alone
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.ir.tensor_intrin import (
    TensorIntrin,
    _registry,
    all_tensor_intrins,
    features_of_intrin,
)
from tilewright.script import tir as T
from tilewright.target import Target

# What each is compiled to, on a CPU that has it: a pattern for the assembly.
DOT_PRODUCTS = {
    "dot_16x4_vnni": ("cascadelake", r"vpdpbusd.*%zmm"),
    "dot_16x4_vnni_s8s8": ("cascadelake", r"vpdpbusd.*%zmm"),
    "dot_16x4_vnni_u8u8": ("cascadelake", r"vpdpbusd.*%zmm"),
    "dot_16x4_vnni_s8u8": ("cascadelake", r"vpdpbusd.*%zmm"),
    "dot_16x4_avx512": ("skylake-avx512", r"(?s)vpmaddubsw[^\n]*%zmm.*vpmaddwd[^\n]*%zmm"),
    "dot_16x4_avx512_exact": ("skylake-avx512", r"vpmaddwd.*%zmm"),
    "dot_16x4_avx512_exact_s8s8": ("skylake-avx512", r"vpmaddwd.*%zmm"),
    "dot_16x4_avx512_exact_u8u8": ("skylake-avx512", r"vpmaddwd.*%zmm"),
    "dot_8x4_vnni": ("cascadelake", r"vpdpbusd.*%ymm"),
    "dot_8x4_vnni_s8s8": ("cascadelake", r"vpdpbusd.*%ymm"),
    "dot_8x4_vnni_u8u8": ("cascadelake", r"vpdpbusd.*%ymm"),
    "dot_8x4_avxvnni": ("alderlake", r"\{vex\}\s+vpdpbusd.*%ymm"),
    "dot_8x4_avxvnni_s8s8": ("alderlake", r"\{vex\}\s+vpdpbusd.*%ymm"),
    "dot_8x4_avxvnni_u8u8": ("alderlake", r"\{vex\}\s+vpdpbusd.*%ymm"),
    "dot_8x4_avx2": ("haswell", r"(?s)vpmaddubsw[^\n]*%ymm.*vpmaddwd[^\n]*%ymm"),
    "dot_8x4_avx2_exact": ("haswell", r"vpmaddwd.*%ymm"),
    "dot_8x4_avx2_exact_s8s8": ("haswell", r"vpmaddwd.*%ymm"),
    "dot_8x4_avx2_exact_u8u8": ("haswell", r"vpmaddwd.*%ymm"),
    "dot_16x2_bf16": ("cooperlake", r"vdpbf16ps.*%zmm"),
}
ALL_DOT_PRODUCTS = [name + suffix for name in DOT_PRODUCTS for suffix in ("", "_local")]
PACKING = [name for name in all_tensor_intrins() if name.startswith("pack_")]


def get(name: str) -> TensorIntrin:
    found = TensorIntrin.get(name)
    assert found is not None
    return found


def test_no_dot_product_of_x86_is_left_out() -> None:
    extensions = ("avx", "amx")
    known = {
        name
        for name in all_tensor_intrins()
        if any(need.startswith(extensions) for need in features_of_intrin(name))
    }
    assert {name for name in known if name.startswith("dot_")} == set(ALL_DOT_PRODUCTS)


@pytest.mark.parametrize("name", [*ALL_DOT_PRODUCTS, *PACKING])
def test_same_numbers(name: str) -> None:
    intrin = get(name)
    missing = intrin.features - Target("llvm").features
    if missing:
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")
    assert disagreement(intrin, tw.build) is None


@pytest.mark.parametrize("name", ALL_DOT_PRODUCTS)
def test_the_instruction_is_in_the_machine_code(name: str) -> None:
    cpu, pattern = DOT_PRODUCTS[name.removesuffix("_local")]
    target = Target(f"llvm -mcpu={cpu}")
    assert get(name).features <= target.features
    assembly = compile_only(stand_alone(get(name).impl), target).get_source("asm")
    assert re.search(pattern, assembly)


@pytest.mark.parametrize("name", [name for name in ALL_DOT_PRODUCTS if "8x4_avxvnni" in name])
def test_both_extensions_for_half_registers_have_one_implementation(name: str) -> None:
    # The numbers of one can be checked on machines that have the other.
    assert_structural_equal(get(name).impl, get(name.replace("avxvnni", "vnni")).impl)


@pytest.mark.parametrize("name", ["dot_16x4_avx512", "dot_8x4_avx2"])
def test_the_range_of_a_saturating_form_is_as_large_as_can_be(name: str) -> None:
    intrin = get(name)
    if not intrin.features <= Target("llvm").features:
        pytest.skip("this CPU lacks the instruction")
    assert intrin.value_ranges == {"A": (0, 128)}
    wider = dataclasses.replace(intrin, value_ranges={"A": (0, 129)})
    found = disagreement(wider, tw.build)
    assert found is not None
    assert found.endswith("for A all 129 and B all -128")


# --- instructions that users register -----------------------------------------------------------


@T.prim_func
def double_desc(
    A: T.Buffer((8,), "int16", offset_factor=1), B: T.Buffer((8,), "int16", offset_factor=1)
) -> None:
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        for i in range(8):
            with T.block("double"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * T.int16(2)


@T.prim_func
def shift_impl(
    A: T.Buffer((8,), "int16", offset_factor=1), B: T.Buffer((8,), "int16", offset_factor=1)
) -> None:
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        B[T.ramp(0, 1, 8)] = T.shift_left(A[T.ramp(0, 1, 8)], T.int16x8(1))


@T.prim_func
def saturating_impl(
    A: T.Buffer((8,), "int16", offset_factor=1), B: T.Buffer((8,), "int16", offset_factor=1)
) -> None:
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        B[T.ramp(0, 1, 8)] = T.call_llvm_pure_intrin(
            "int16x8", "llvm.sadd.sat.v8i16", A[T.ramp(0, 1, 8)], A[T.ramp(0, 1, 8)]
        )


@T.prim_func
def wrong_impl(
    A: T.Buffer((8,), "int16", offset_factor=1), B: T.Buffer((8,), "int16", offset_factor=1)
) -> None:
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        B[T.ramp(0, 1, 8)] = A[T.ramp(0, 1, 8)] * T.int16x8(3)


@T.prim_func
def extern_impl(
    A: T.Buffer((8,), "int16", offset_factor=1), B: T.Buffer((8,), "int16", offset_factor=1)
) -> None:
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        T.evaluate(
            T.call_extern("int32", "of_a_library_to_come", A.access_ptr("r"), B.access_ptr("w"))
        )


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    _registry.pop("test_double", None)


def refused(impl: PrimFunc, **options: object) -> str:
    with pytest.raises(RegistryError) as caught:
        TensorIntrin.register("test_double", double_desc, impl, **options)  # type: ignore[arg-type]
    assert TensorIntrin.get("test_double", allow_missing=True) is None
    return str(caught.value)


def test_an_implementation_that_agrees_is_taken() -> None:
    made = TensorIntrin.register("test_double", double_desc, shift_impl)
    assert TensorIntrin.get("test_double") is made


def test_an_implementation_that_computes_something_else_is_refused() -> None:
    assert refused(wrong_impl) == (
        "tensor intrinsic 'test_double' does not compute what its description says: B[0] is "
        "1690 in the implementation and 22972 in the description, for random numbers; one that "
        "is exact for some values only says so with value_ranges={parameter: (lowest, highest)}"
    )


def test_saturation_is_found_at_the_ends_of_the_range() -> None:
    assert "for random numbers" in refused(saturating_impl)
    message = refused(saturating_impl, value_ranges={"A": (-16384, 16384)})
    assert "B[0] is 32767 in the implementation and -32768 in the description, for A all 16384" in (
        message
    )
    TensorIntrin.register(
        "test_double", double_desc, saturating_impl, value_ranges={"A": (-16384, 16383)}
    )


def test_a_range_of_a_parameter_that_does_not_exist_is_refused() -> None:
    assert refused(saturating_impl, value_ranges={"a": (0, 1)}) == (
        "tensor intrinsic 'test_double': value_ranges names 'a', which is not a parameter of the "
        "description; did you mean 'A'?"
    )


@pytest.mark.parametrize("bounds", [(3, 2), (-40000, 0), (0, 32768)])
def test_a_range_outside_of_the_type_is_refused(bounds: tuple[int, int]) -> None:
    assert refused(saturating_impl, value_ranges={"A": bounds}) == (
        f"tensor intrinsic 'test_double': value_ranges says 'A' is from {bounds[0]} to "
        f"{bounds[1]}, which is not a range of int16"
    )


def test_features_are_a_collection() -> None:
    assert refused(shift_impl, features="avx2") == (
        "tensor intrinsic 'test_double': features is a collection of names; write features=['avx2']"
    )


def test_what_cannot_run_here_is_not_tried() -> None:
    TensorIntrin.register("test_double", double_desc, extern_impl)
    foreign = "neon" if "neon" not in Target("llvm").features else "avx2"
    TensorIntrin.register("test_double", double_desc, wrong_impl, override=True, features=[foreign])


def test_an_implementation_that_forgets_offsets_is_refused() -> None:
    @T.prim_func
    def first_elements(
        A: T.Buffer((8,), "int16", offset_factor=1), B: T.Buffer((8,), "int16", offset_factor=1)
    ) -> None:
        with T.block("root"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            whole = T.Buffer((8,), "int16", data=A.data)
            B[T.ramp(0, 1, 8)] = whole[T.ramp(0, 1, 8)] * T.int16x8(2)

    assert "in the description, for random numbers" in refused(first_elements)
