"""Whole programs in the printed format, character by character.

The texts are the tensor programs of well-known operators as TVM prints them (in the names of its
0.14 release); reading and printing them must change nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.driver import lower
from tilewright.ir import Block, IRModule, PrimFunc, assert_structural_equal, pre_order_visit
from tilewright.script import from_source

PROGRAMS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_is_printed_as_it_is_written(path: Path) -> None:
    text = path.read_text().rstrip("\n")
    module = from_source(text)
    assert isinstance(module, IRModule)
    assert module.script() == text
    assert_structural_equal(from_source(module.script()), module)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_lowered_program_parses_back(path: Path) -> None:
    lowered = lower(from_source(path.read_text()))
    assert_structural_equal(from_source(lowered.script()), lowered)


def test_there_are_programs() -> None:
    assert len(PROGRAMS) == 8


DENSE = """
@T.prim_func
def main(placeholder: T.Buffer((1024, 1024), "uint8"), placeholder_1: T.Buffer((64, 256, 16, 4), "int8"), compute: T.Buffer((1024, 1024), "int32")) -> None:
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    with T.block("root"):
        T.reads()
        T.writes()
        for i0, i1, i2 in T.grid(1024, 1024, 1024):
            with T.block("compute"):
                i, j, k = T.axis.remap("SSR", [i0, i1, i2])
                T.reads(placeholder[i, k], placeholder_1[j//16, k//4, j % 16, k % 4])
                T.writes(compute[i, j])
                with T.init():
                    compute[i, j] = 0
                compute[i, j] = compute[i, j] + T.Cast("int32", placeholder[i, k])*T.Cast("int32", placeholder_1[j//16, k//4, j % 16, k % 4])
"""  # noqa: E501

# How `print(sch.get(block))` shows the block.
DENSE_BLOCK = """\
with T.block("compute", no_realize=True):
    i = T.axis.spatial(1024)
    j = T.axis.spatial(1024)
    k = T.axis.reduce(1024)
    placeholder = T.Buffer((1024, 1024), "uint8")
    placeholder_1 = T.Buffer((64, 256, 16, 4), "int8")
    T.reads(placeholder[i, k], placeholder_1[j // 16, k // 4, j % 16, k % 4])
    compute = T.Buffer((1024, 1024), "int32")
    T.writes(compute[i, j])
    with T.init():
        compute[i, j] = 0
    compute[i, j] = compute[i, j] + T.Cast("int32", placeholder[i, k]) * T.Cast("int32", placeholder_1[j // 16, k // 4, j % 16, k % 4])"""  # noqa: E501


def test_a_block_on_its_own() -> None:
    func = from_source(DENSE)
    assert isinstance(func, PrimFunc)
    blocks: dict[str, Block] = {}

    def note(node: object) -> bool:
        if isinstance(node, Block):
            blocks[node.name_hint] = node
        return True

    pre_order_visit(func.body, note)
    assert list(blocks) == ["root", "compute"]
    assert str(blocks["compute"]) == DENSE_BLOCK


# The description and the implementation of a tensor intrinsic, in the older forms of script.
VNNI = """
@T.prim_func
def dot_product_16x4_u8i8i32_vnni(A: T.Buffer((4,), "uint8", offset_factor=1), B: T.Buffer((16, 4), "int8", offset_factor=1), C: T.Buffer((16,), "int32", offset_factor=1),
) -> None:
    with T.block("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        A_u8x4 = A.vload([0], "uint8x4")
        A_i32 = T.reinterpret(A_u8x4, dtype="int32")
        B_i8x64 = B.vload([0, 0], dtype="int8x64")
        B_i32x16 = T.reinterpret(B_i8x64, dtype="int32x16")
        C_i32x16 = C.vload([0], dtype="int32x16")
        C[T.ramp(T.int32(0), 1, 16)] = T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id("llvm.x86.avx512.vpdpbusd.512"),
            T.uint32(3),
            C_i32x16,
            T.broadcast(A_i32, 16),
            B_i32x16,
            dtype="int32x16",
        )
        C[T.ramp(T.int32(0), 1, 16)] += T.int32x16(1)
        C[0] += T.call_pure_extern("__dp4a", A.vload([0], "uint8x4"), B[0, 0:4], T.int32(0), dtype="int32")
"""  # noqa: E501

VNNI_PRINTED = """\
# from tilewright.script import tir as T

@T.prim_func
def dot_product_16x4_u8i8i32_vnni(A_handle: T.handle, B_handle: T.handle, C_handle: T.handle):
    A = T.match_buffer(A_handle, (4,), "uint8", offset_factor=1)
    B = T.match_buffer(B_handle, (16, 4), "int8", offset_factor=1)
    C = T.match_buffer(C_handle, (16,), "int32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        A_u8x4: T.uint8x4 = A[0:4]
        A_i32: T.int32 = T.reinterpret("int32", A_u8x4)
        B_i8x64: T.int8x64 = B[0, 0:64]
        B_i32x16: T.int32x16 = T.reinterpret("int32x16", B_i8x64)
        C_i32x16: T.int32x16 = C[0:16]
        C[0:16] = T.call_llvm_pure_intrin("int32x16", "llvm.x86.avx512.vpdpbusd.512", C_i32x16, T.Broadcast(A_i32, 16), B_i32x16)
        C[0:16] = C[0:16] + T.Broadcast(1, 16)
        C[0] = C[0] + T.call_pure_extern("int32", "__dp4a", A[0:4], B[0, 0:4], 0)"""  # noqa: E501


def test_a_tensor_intrinsic_in_older_forms() -> None:
    func = from_source(VNNI)
    assert func.script() == VNNI_PRINTED
    assert_structural_equal(from_source(func.script()), func)
