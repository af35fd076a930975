"""Programs of VTA as values, as text and as bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from tilewright.errors import CodegenError
from tilewright.vta import isa
from tilewright.vta.configuration import Configuration


@dataclass(frozen=True)
class PlacedTensor:
    """An array in main memory; `argument` is its position among those of a call, or -1.

    Only bytes can be stored: results of four bytes lie in four planes, the low bytes first, which
    are joined when a call ends.
    """

    name: str
    address: int
    size: int
    argument: int = -1
    written: bool = False
    planes: int = 1


@dataclass(frozen=True)
class ProgramHeader:
    """A function but for its code: its arrays, and where its micro-operations lie."""

    name: str
    configuration: Configuration
    tensors: tuple[PlacedTensor, ...]
    uop_address: int


@dataclass(frozen=True)
class VtaProgram(ProgramHeader):
    """One function, with its micro-operations and its instructions."""

    uops: tuple[int, ...]
    instructions: tuple[isa.Instruction, ...]

    @property
    def memory_bytes(self) -> int:
        """Bytes of main memory that it takes."""
        return self.uop_address + 4 * len(self.uops)

    @property
    def header(self) -> ProgramHeader:
        """All but micro-operations and instructions."""
        return ProgramHeader(self.name, self.configuration, self.tensors, self.uop_address)


def to_assembly(programs: Iterable[VtaProgram]) -> str:
    """Programs as text: a line a header, a micro-operation or an instruction."""
    lines: list[str] = []
    for program in programs:
        lines.append(f"program {json.dumps(msgspec.to_builtins(program.header))}")
        lines += [f"uop {word}" for word in program.uops]
        lines += map(isa.to_text, program.instructions)
    return "\n".join([*lines, ""])


def from_assembly(text: str) -> Iterator[VtaProgram]:
    """Programs from their text."""
    for part in text.split("program ")[1:]:
        head, *lines = part.splitlines()
        header = msgspec.json.decode(head, type=ProgramHeader)
        uops = tuple(int(line.removeprefix("uop ")) for line in lines if line.startswith("uop "))
        code = tuple(isa.from_text(line) for line in lines if not line.startswith("uop "))
        yield VtaProgram(**vars(header), uops=uops, instructions=code)


class _Stored(msgspec.Struct):
    header: ProgramHeader
    uops: tuple[int, ...]
    code: bytes


def to_bytes(programs: Iterable[VtaProgram]) -> bytes:
    """Programs with encoded instructions."""
    made = [
        _Stored(each.header, each.uops, b"".join(map(isa.encode, each.instructions)))
        for each in programs
    ]
    return msgspec.json.encode(made)


def from_bytes(data: bytes) -> Iterator[VtaProgram]:
    """Programs from what `to_bytes` made."""
    for each in msgspec.json.decode(data, type=list[_Stored]):
        size, step = len(each.code), isa.INSTRUCTION_BYTES
        if size % step:
            raise CodegenError(f"vta: {size} bytes are no whole number of instructions")
        code = tuple(isa.decode(each.code[at : at + step]) for at in range(0, size, step))
        yield VtaProgram(**vars(each.header), uops=each.uops, instructions=code)
