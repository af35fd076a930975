"""Programs tensorized for one CPU run right on others."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.intrin
from tilewright import te
from tilewright.errors import CodegenError
from tilewright.ir import Block, PrimExpr, PrimFunc, as_module, const
from tilewright.ir.tensor_intrin import TensorIntrin, _registry, all_tensor_intrins
from tilewright.lowering import get_pass
from tilewright.lowering.intrinsic_fallback import is_implementation
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.target import Target

OLD = "llvm -mcpu=x86-64"
ROWS, COLUMNS, DEPTH = 3, 32, 16
SIGNS = {"": ("uint8", "int8"), "_s8s8": ("int8", "int8"), "_u8u8": ("uint8", "uint8")}
TYPES = {
    "dot_16x4_vnni": SIGNS[""],
    "dot_16x4_vnni_local": SIGNS[""],
    "dot_16x4_vnni_s8s8": SIGNS["_s8s8"],
    "dot_8x4_avxvnni_u8u8_local": SIGNS["_u8u8"],
    "dot_16x4_avx512_exact_local": SIGNS[""],
    "dot_8x4_avx2_exact": SIGNS[""],
}


def matmul(left: str, right: str, lanes: int, index: str = "int32") -> PrimFunc:
    """A product with its right side packed for dot products of four."""

    def size(extent: int) -> PrimExpr:
        return const(extent, index)

    a = te.placeholder((size(ROWS), size(DEPTH)), left, name="A")
    shape = (COLUMNS // lanes, DEPTH // 4, lanes, 4)
    b = te.placeholder(tuple(map(size, shape)), right, name="B")
    k = te.reduce_axis((size(0), size(DEPTH)), name="k")

    def element(i: PrimExpr, j: PrimExpr) -> Any:
        packed = b[j // lanes, k // 4, j % lanes, k % 4]
        return te.sum(a[i, k].astype("int32") * packed.astype("int32"), axis=[k])

    c = te.compute((size(ROWS), size(COLUMNS)), element, name="C")
    return te.create_prim_func([a, b, c])


def tensorized(name: str, index: str = "int32") -> Schedule:
    lanes = 16 if "16x4" in name else 8
    sch = Schedule(matmul(*TYPES[name], lanes, index))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j, lane = sch.split(j, [None, lanes])
    k, part = sch.split(k, [None, 4])
    sch.reorder(i, j, k, lane, part)
    if name.endswith("_local"):
        sch.reverse_compute_at(sch.cache_write(block, 0, "local"), j)
    sch.decompose_reduction(block, k)
    sch.tensorize(lane, name)
    return sch


def check_numbers(sch: Schedule, target: str, name: str) -> None:
    lanes, (left, right) = 16 if "16x4" in name else 8, TYPES[name]
    rng = np.random.default_rng(2)
    a = rng.integers(*_range(left), (ROWS, DEPTH), endpoint=True).astype(left)
    b = rng.integers(*_range(right), (DEPTH, COLUMNS), endpoint=True).astype(right)
    a[0], b[:, 0] = _range(left)[1], _range(right)[0]
    packed = b.reshape(DEPTH // 4, 4, COLUMNS // lanes, lanes).transpose(2, 0, 3, 1).copy()
    actual = np.zeros((ROWS, COLUMNS), np.int32)
    tw.build(sch.mod, target)(a, packed, actual)
    np.testing.assert_array_equal(actual, a.astype(np.int32) @ b.astype(np.int32))


def _range(dtype: str) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


@pytest.mark.parametrize("target", [OLD, "llvm -mcpu=haswell", "llvm"])
@pytest.mark.parametrize("name", TYPES)
def test_right_numbers_everywhere(name: str, target: str) -> None:
    if not Target(target).features <= Target("llvm").features:
        pytest.skip("this CPU cannot run code for that one")
    check_numbers(tensorized(name), target, name)


@pytest.mark.parametrize("name", TYPES)
def test_old_cpus_get_no_new_instruction(name: str) -> None:
    assembly = tw.build(tensorized(name).mod, OLD).get_source("asm")
    assert not re.search(r"[yz]mm|\bvp?\w+", assembly.replace("\tvpad", ""))


def test_instructions_that_are_there_stay() -> None:
    mod = tensorized("dot_16x4_vnni").mod
    fallback = get_pass("IntrinsicFallback")
    assert fallback(mod, Target("llvm -mcpu=cascadelake")) is mod
    assert "vpdpbusd" not in str(fallback(mod, Target("llvm -mcpu=skylake-avx512")))


def test_one_of_two_extensions_will_do() -> None:
    mod = tensorized("dot_8x4_avxvnni_u8u8_local").mod
    fallback = get_pass("IntrinsicFallback")
    assert fallback(mod, Target("llvm -mcpu=alderlake")) is mod
    assert fallback(mod, Target("llvm -mcpu=cascadelake")) is mod
    assert fallback(mod, Target("llvm -mcpu=haswell")) is not mod


@pytest.mark.parametrize("target", [OLD, "llvm"])
def test_wide_indices(target: str) -> None:
    sch = tensorized("dot_16x4_vnni", index="int64")
    assert "T.int64" in str(sch.mod)
    check_numbers(sch, target, "dot_16x4_vnni")


def test_features_may_be_taken_away() -> None:
    mod = tensorized("dot_16x4_vnni").mod
    assembly = tw.build(mod, "llvm -mcpu=cascadelake -mattr=-avx512vnni").get_source("asm")
    assert "vpdpbusd" not in assembly


def test_c_code_uses_descriptions() -> None:
    source = tw.build(tensorized("dot_16x4_vnni").mod, "c").get_source("c")
    assert "vpdpbusd" not in source


def test_several_blocks_share_nothing() -> None:
    sch = tensorized("dot_16x4_vnni")
    sch.loop_partition(sch.get_loops(sch.get_block("C_update_o"))[2], [1, None])
    mod = get_pass("IntrinsicFallback")(sch.mod, Target(OLD))
    assert str(mod).count('T.block("update")') == 2
    check_numbers(sch, OLD, "dot_16x4_vnni")


def test_functions_without_instructions_are_left_alone() -> None:
    mod = as_module(matmul("uint8", "int8", 16))
    assert get_pass("IntrinsicFallback")(mod, Target(OLD)) is mod


def test_without_a_target_nothing_is_known_to_be_missing() -> None:
    mod = tensorized("dot_16x4_vnni").mod
    assert get_pass("IntrinsicFallback")(mod, None) is mod


# --- instructions of users ----------------------------------------------------------------------


@T.prim_func
def negate_desc(
    A: T.Buffer((4,), "float32", offset_factor=1), B: T.Buffer((4,), "float32", offset_factor=1)
) -> None:
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        for i in range(4):
            with T.block("negate"):
                vi = T.axis.spatial(4, i)
                B[vi] = T.float32(0) - A[vi]


@T.prim_func
def negate_impl(
    A: T.Buffer((4,), "float32", offset_factor=1), B: T.Buffer((4,), "float32", offset_factor=1)
) -> None:
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        T.evaluate(T.call_extern("int32", "negate_4", A.access_ptr("r"), B.access_ptr("w")))


@T.prim_func
def negated(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")) -> None:
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.float32(0) - A[vi, vj]


@pytest.fixture
def negate() -> Iterator[str]:
    foreign = "neon" if "neon" not in Target("llvm").features else "avx2"
    TensorIntrin.register("test_negate", negate_desc, negate_impl, features=[foreign])
    yield "test_negate"
    del _registry["test_negate"]


def test_an_instruction_of_a_user_falls_back(negate: str) -> None:
    sch = Schedule(negated)
    sch.tensorize(sch.get_loops(sch.get_block("B"))[1], negate)
    assert "negate_4" in str(sch.mod)
    source = np.arange(32, dtype=np.float32).reshape(8, 4)
    result = np.zeros_like(source)
    tw.build(sch.mod)(source, result)
    np.testing.assert_array_equal(result, -source)


def test_an_instruction_written_by_hand_is_an_error() -> None:
    # What is no known implementation cannot be replaced: the code generator says what is missing.
    script = str(tensorized("dot_16x4_vnni").mod["main"])
    changed = script.replace("T.Broadcast(A_i32, 16), B_i32x16", "B_i32x16, T.Broadcast(A_i32, 16)")
    assert changed != script
    func = tw.script.from_source("from tilewright.script import tir as T\n\n" + changed)
    with pytest.raises(CodegenError, match="needs the CPU feature 'avx512vnni'"):
        tw.build(func, OLD)


def test_no_implementation_is_taken_for_another() -> None:
    sch = tensorized("dot_16x4_vnni")
    block = sch.get(sch.get_block("C_update_o"))
    assert isinstance(block, Block)
    found = []
    for name in all_tensor_intrins():
        intrin = TensorIntrin.get(name)
        assert intrin is not None
        if is_implementation(block, intrin):
            found.append(name)
    assert found == ["dot_16x4_vnni"]
