"""Instructions of VTA: five of them, 128 bits each, and micro-operations of 32 bits.

Three modules take instructions from queues of their own: LOAD, COMPUTE and STORE. Neighbours pass
tokens to each other; "prev" and "next" are the neighbours of a module in this order. An instruction
waits for the tokens that it pops, and gives those that it pushes when it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import ClassVar, TypeAlias

from tilewright.errors import CodegenError

INSTRUCTION_BYTES = 16


class Opcode(IntEnum):
    """What an instruction does."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4


class MemoryKind(IntEnum):
    """The memories that are loaded and stored; ACC8 widens int8 on the way to the accumulator."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC8 = 5


class AluOp(IntEnum):
    """Operations of the vector unit."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4


class Engine(IntEnum):
    """The modules that run instructions, in the order of the pipeline."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


# Names and bits of fields from the lowest bit on; a nameless one is unused.
_Layout: TypeAlias = tuple[tuple[str, int], ...]
_HEAD: _Layout = (
    ("opcode", 3),
    ("pop_prev", 1),
    ("pop_next", 1),
    ("push_prev", 1),
    ("push_next", 1),
)
_TRANSFER: _Layout = (
    ("memory", 3),
    ("sram_base", 16),
    ("dram_base", 32),
    ("", 6),
    ("y_size", 16),
    ("x_size", 16),
    ("x_stride", 16),
    ("y_pad_0", 4),
    ("y_pad_1", 4),
    ("x_pad_0", 4),
    ("x_pad_1", 4),
)
_LOOPS: _Layout = (
    ("reset", 1),
    ("uop_begin", 13),
    ("uop_end", 14),
    ("iter_out", 14),
    ("iter_in", 14),
    ("", 1),
    ("dst_out", 11),
    ("dst_in", 11),
    ("src_out", 11),
    ("src_in", 11),
)
_GEMM: _Layout = (*_LOOPS, ("wgt_out", 10), ("wgt_in", 10))
_ALU: _Layout = (*_LOOPS, ("alu_op", 3), ("use_imm", 1), ("imm", 16))
_SIGNED = frozenset({"imm"})


@dataclass(frozen=True)
class _Base:
    opcode: ClassVar[Opcode]
    layout: ClassVar[_Layout] = ()


@dataclass(frozen=True)
class Tokens(_Base):
    """The four bits of an instruction that synchronise modules."""

    pop_prev: int = 0
    pop_next: int = 0
    push_prev: int = 0
    push_next: int = 0


@dataclass(frozen=True)
class Transfer(Tokens):
    """Rows of elements between main memory and a scratchpad; bases and strides in elements."""

    layout: ClassVar[_Layout] = _TRANSFER
    memory: int = 0
    sram_base: int = 0
    dram_base: int = 0
    y_size: int = 1
    x_size: int = 1
    x_stride: int = 1
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0

    @property
    def width(self) -> int:
        """Elements of a row in the scratchpad."""
        return self.x_pad_0 + self.x_size + self.x_pad_1

    @property
    def elements(self) -> int:
        """Elements in the scratchpad, padding included."""
        return self.width * (self.y_pad_0 + self.y_size + self.y_pad_1)


@dataclass(frozen=True)
class LoadRows(Transfer):
    """From main memory to a scratchpad, with zeros around."""

    opcode: ClassVar[Opcode] = Opcode.LOAD


@dataclass(frozen=True)
class StoreRows(Transfer):
    """From the low bytes of the accumulator to main memory."""

    opcode: ClassVar[Opcode] = Opcode.STORE
    memory: int = MemoryKind.OUT


@dataclass(frozen=True)
class _Looped(Tokens):
    """Micro-operations in two loops; each loop moves their indices by its factors."""

    reset: int = 0
    uop_begin: int = 0
    uop_end: int = 1
    iter_out: int = 1
    iter_in: int = 1
    dst_out: int = 0
    dst_in: int = 0
    src_out: int = 0
    src_in: int = 0

    @property
    def operations(self) -> int:
        """How many micro-operations run."""
        return self.iter_out * self.iter_in * (self.uop_end - self.uop_begin)


@dataclass(frozen=True)
class Gemm(_Looped):
    """`acc[dst] += inp[src] * wgt[wgt]` for all micro-operations; `reset` stores zeros instead."""

    opcode: ClassVar[Opcode] = Opcode.GEMM
    layout: ClassVar[_Layout] = _GEMM
    wgt_out: int = 0
    wgt_in: int = 0


@dataclass(frozen=True)
class Alu(_Looped):
    """`acc[dst] = op(acc[dst], imm)`, or with `acc[src]` in place of the number."""

    opcode: ClassVar[Opcode] = Opcode.ALU
    layout: ClassVar[_Layout] = _ALU
    alu_op: int = AluOp.ADD
    use_imm: int = 0
    imm: int = 0


@dataclass(frozen=True)
class Finish(Tokens):
    """The end of a program; it is the compute module's."""

    opcode: ClassVar[Opcode] = Opcode.FINISH


Instruction: TypeAlias = LoadRows | StoreRows | Gemm | Alu | Finish
_CLASSES: Mapping[int, type[Instruction]] = {
    each.opcode: each for each in (LoadRows, StoreRows, Gemm, Alu, Finish)
}
_BY_NAME = {each.opcode.name.lower(): each for each in _CLASSES.values()}


@dataclass(frozen=True)
class Uop:
    """A micro-operation: a row of results, a row of an operand, a block of weights."""

    layout: ClassVar[_Layout] = (("dst", 11), ("src", 11), ("wgt", 10))
    dst: int
    src: int
    wgt: int = 0


def module_of(instruction: Instruction) -> Engine:
    """The module that runs an instruction."""
    match instruction:
        case LoadRows(memory=MemoryKind.INP | MemoryKind.WGT):
            return Engine.LOAD
        case StoreRows():
            return Engine.STORE
    return Engine.COMPUTE


def encode(instruction: Instruction) -> bytes:
    """The 128 bits of an instruction, the lowest byte first."""
    values = {**vars(instruction), "opcode": int(instruction.opcode)}
    name = instruction.opcode.name.lower()
    packed = _pack(name, (*_HEAD, *instruction.layout), values)
    return packed.to_bytes(INSTRUCTION_BYTES, "little")


def decode(data: bytes) -> Instruction:
    """The instruction behind 128 bits."""
    if len(data) != INSTRUCTION_BYTES:
        raise CodegenError(f"vta: an instruction has {INSTRUCTION_BYTES} bytes, got {len(data)}")
    number = int.from_bytes(data, "little")
    made = _CLASSES.get(number & 7)
    if made is None:
        raise CodegenError(f"vta: no instruction has the opcode {number & 7}")
    values = _unpack((*_HEAD, *made.layout), number)
    del values["opcode"]
    return made(**values)


def encode_uop(uop: Uop) -> int:
    """The 32 bits of a micro-operation."""
    return _pack("uop", Uop.layout, vars(uop))


def _pack(name: str, layout: _Layout, values: Mapping[str, int]) -> int:
    packed, position = 0, 0
    for field, bits in layout:
        value = int(values[field]) if field else 0
        low = -(1 << bits - 1) if field in _SIGNED else 0
        if not low <= value < low + (1 << bits):
            raise CodegenError(
                f"vta: the field {field} of {name} has {bits} bits, {value} does not fit"
            )
        packed |= (value & (1 << bits) - 1) << position
        position += bits
    return packed


def _unpack(layout: _Layout, number: int) -> dict[str, int]:
    values: dict[str, int] = {}
    for field, bits in layout:
        value, number = number & (1 << bits) - 1, number >> bits
        if field in _SIGNED and value >> bits - 1:
            value -= 1 << bits
        if field:
            values[field] = value
    return values


def to_text(instruction: Instruction) -> str:
    """An instruction in one line: its name, and the fields that are not what they are mostly."""
    name = instruction.opcode.name.lower()
    given = [
        f"{field.name}={int(getattr(instruction, field.name))}"
        for field in fields(instruction)
        if getattr(instruction, field.name) != field.default
    ]
    return " ".join([name, *given])


def from_text(line: str) -> Instruction:
    """The instruction that a line describes."""
    name, *given = line.split()
    made = _BY_NAME.get(name)
    if made is None:
        raise CodegenError(f"vta: unknown instruction {name!r} in {line!r}")
    return made(**{key: int(value) for key, value in _pairs(line, given, made)})


def _pairs(line: str, given: Iterable[str], of: type[Instruction]) -> Iterable[tuple[str, str]]:
    known = {field.name for field in fields(of)}
    for each in given:
        key, _, value = each.partition("=")
        if key not in known or not value.lstrip("-").isdigit():
            raise CodegenError(f"vta: cannot read {each!r} in {line!r}")
        yield key, value
