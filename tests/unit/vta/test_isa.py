"""Instructions of VTA as bits and as text."""

from __future__ import annotations

import random

import pytest

from tilewright.errors import CodegenError
from tilewright.vta.isa import (
    Alu,
    AluOp,
    Engine,
    Finish,
    Gemm,
    Instruction,
    LoadRows,
    MemoryKind,
    StoreRows,
    Uop,
    decode,
    encode,
    encode_uop,
    from_text,
    module_of,
    to_text,
)


def random_instruction(rng: random.Random) -> Instruction:
    made = rng.choice((LoadRows, StoreRows, Gemm, Alu, Finish))
    head = {name: rng.getrandbits(1) for name in ("pop_prev", "pop_next", "push_prev", "push_next")}
    body = {name: rng.getrandbits(bits) for name, bits in made.layout if name}
    if made is Alu:
        body["imm"] -= 1 << 15
    return made(**head, **body)


@pytest.mark.parametrize("seed", range(50))
def test_bits_and_text_keep_everything(seed: int) -> None:
    instruction = random_instruction(random.Random(seed))
    assert len(encode(instruction)) == 16
    assert decode(encode(instruction)) == instruction
    assert from_text(to_text(instruction)) == instruction


def test_fields_lie_where_the_hardware_looks() -> None:
    load = LoadRows(memory=MemoryKind.INP, sram_base=5, dram_base=7, y_size=3, x_size=2, x_stride=9)
    number = int.from_bytes(encode(load), "little")
    assert number & 7 == 0
    assert number >> 7 & 7 == MemoryKind.INP
    assert number >> 10 & 0xFFFF == 5
    assert number >> 26 & 0xFFFFFFFF == 7
    assert [number >> at & 0xFFFF for at in (64, 80, 96)] == [3, 2, 9]
    gemm = int.from_bytes(encode(Gemm(push_next=1, reset=1, uop_end=3, dst_in=4)), "little")
    assert gemm & 7 == 2
    assert gemm >> 6 & 1 == 1
    assert gemm >> 7 & 1 == 1
    assert gemm >> 21 & 0x3FFF == 3
    assert gemm >> 75 & 0x7FF == 4


def test_micro_operations() -> None:
    word = encode_uop(Uop(3, 5, 9))
    assert word == 3 | 5 << 11 | 9 << 22


def test_modules() -> None:
    assert module_of(LoadRows(memory=MemoryKind.INP)) is Engine.LOAD
    assert module_of(LoadRows(memory=MemoryKind.WGT)) is Engine.LOAD
    assert module_of(LoadRows(memory=MemoryKind.ACC)) is Engine.COMPUTE
    assert module_of(LoadRows(memory=MemoryKind.UOP)) is Engine.COMPUTE
    assert module_of(Gemm()) is Engine.COMPUTE
    assert module_of(StoreRows()) is Engine.STORE


def test_text() -> None:
    assert to_text(Alu(alu_op=AluOp.SHR, use_imm=1, imm=-2)) == "alu alu_op=3 use_imm=1 imm=-2"


def test_what_does_not_fit() -> None:
    with pytest.raises(
        CodegenError, match=r"^vta: the field y_pad_0 of load has 4 bits, 16 does not fit$"
    ):
        encode(LoadRows(y_pad_0=16))
    with pytest.raises(CodegenError, match=r"^vta: the field imm of alu has 16 bits, 32768 does"):
        encode(Alu(imm=1 << 15))
    with pytest.raises(CodegenError, match=r"^vta: no instruction has the opcode 7$"):
        decode(bytes([7] + [0] * 15))
    with pytest.raises(CodegenError, match=r"^vta: an instruction has 16 bytes, got 3$"):
        decode(b"abc")
    with pytest.raises(CodegenError, match=r"^vta: unknown instruction 'jump' in 'jump x=1'$"):
        from_text("jump x=1")
    with pytest.raises(CodegenError, match=r"^vta: cannot read 'z=1' in 'load z=1'$"):
        from_text("load z=1")
