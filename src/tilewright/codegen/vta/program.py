"""Programs of VTA as values, as text and as bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from tilewright.errors import CodegenError
from tilewright.vta.configuration import Configuration
from tilewright.vta.isa import (
    INSTRUCTION_BYTES,
    Instruction,
    decode,
    encode,
    from_text,
    to_text,
)


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
class VtaProgram:
    """One function: its arrays, its micro-operations, its instructions."""

    name: str
    configuration: Configuration
    tensors: tuple[PlacedTensor, ...]
    uop_address: int
    uops: tuple[int, ...]
    instructions: tuple[Instruction, ...]

    @property
    def memory_bytes(self) -> int:
        """Bytes of main memory that it takes."""
        return self.uop_address + 4 * len(self.uops)

    def header(self) -> dict[str, object]:
        """All but micro-operations and instructions, as plain data."""
        return {
            "name": self.name,
            "configuration": asdict(self.configuration),
            "tensors": [asdict(tensor) for tensor in self.tensors],
            "uop_address": self.uop_address,
        }


def to_assembly(programs: Iterable[VtaProgram]) -> str:
    """Programs as text: a line a header, a micro-operation or an instruction."""
    lines: list[str] = []
    for program in programs:
        lines.append(f"program {json.dumps(program.header())}")
        lines += [f"uop {word}" for word in program.uops]
        lines += map(to_text, program.instructions)
    return "\n".join([*lines, ""])


def from_assembly(text: str) -> Iterator[VtaProgram]:
    """Programs from their text."""
    for part in text.split("program ")[1:]:
        head, *lines = part.splitlines()
        uops = [int(line.removeprefix("uop ")) for line in lines if line.startswith("uop ")]
        instructions = [from_text(line) for line in lines if not line.startswith("uop ")]
        yield _program(json.loads(head), uops, instructions)


def to_bytes(programs: Iterable[VtaProgram]) -> bytes:
    """Programs with encoded instructions."""
    made = [
        {
            **program.header(),
            "uops": list(program.uops),
            "code": base64.b64encode(b"".join(map(encode, program.instructions))).decode(),
        }
        for program in programs
    ]
    return json.dumps(made).encode()


def from_bytes(data: bytes) -> Iterator[VtaProgram]:
    """Programs from what `to_bytes` made."""
    for each in json.loads(data):
        code = base64.b64decode(each["code"])
        if len(code) % INSTRUCTION_BYTES:
            raise CodegenError(f"vta: {len(code)} bytes are no whole number of instructions")
        starts = range(0, len(code), INSTRUCTION_BYTES)
        yield _program(
            each, each["uops"], [decode(code[at : at + INSTRUCTION_BYTES]) for at in starts]
        )


def _program(head: dict[str, object], uops: list[int], code: list[Instruction]) -> VtaProgram:
    tensors = head["tensors"]
    configuration = head["configuration"]
    assert isinstance(tensors, list)
    assert isinstance(configuration, dict)
    return VtaProgram(
        str(head["name"]),
        Configuration(**configuration),
        tuple(PlacedTensor(**each) for each in tensors),
        int(str(head["uop_address"])),
        tuple(uops),
        tuple(code),
    )
