"""A made-up backend in one file: its code is a lowered program as JSON, which is interpreted."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tilewright.codegen.artifact import Artifact, Kernel, Library
from tilewright.codegen.base import Backend, GeneratedSource
from tilewright.ir import IRModule, PrimFunc
from tilewright.ir.json import load_json, save_json
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.lowering import Pass, PassContext, signature_of
from tilewright.lowering.host_abi import ArgumentSpec, HostABI, evaluate_extent
from tilewright.lowering.pipeline import blocks_to_buffers, buffers_to_memory
from tilewright.runtime.ndarray import array_at
from tilewright.target import Target, TargetKind
from tilewright.target.kinds import cpu_kind
from tilewright.testing import oracle

KIND = "interpreted"


def make_kind() -> TargetKind:
    """The target kind, for the entry point in the group `tilewright.target_kind`."""
    return cpu_kind(KIND)


class InterpretedLibrary:
    """Functions of a program that are interpreted when they are called."""

    def __init__(self, program: IRModule) -> None:
        self._program = program

    def kernel(self, name: str) -> Kernel:
        """A function on slots."""
        func = self._program[name]

        def run(slots: bytes) -> int:
            oracle.run(func, *_arguments(func, slots))
            return 0

        return run


class InterpretingBackend(Backend):
    """The backend, for the entry point in the group `tilewright.backend`."""

    kind: ClassVar[str] = KIND

    def passes(self, context: PassContext, target: Target | None) -> list[Pass]:
        """Only what makes memory flat: the interpreter needs no vectors."""
        return [*blocks_to_buffers(context), *buffers_to_memory(context), HostABI()]

    def generate(self, lowered: IRModule, target: Target) -> GeneratedSource:
        """The program as JSON."""
        return GeneratedSource(save_json(lowered))

    def compile(
        self, source: GeneratedSource, target: Target, *, may_abort: bool = False
    ) -> Artifact:
        """The same, in bytes."""
        return Artifact(KIND, source.text.encode())

    def load(self, artifact: Artifact, imports: Mapping[str, int]) -> Library:
        """The program again."""
        program = load_json(artifact.data.decode())
        assert isinstance(program, IRModule)
        return InterpretedLibrary(program)


def _arguments(func: PrimFunc, slots: bytes) -> list[Any]:
    """Arrays over the memory that slots point to, and numbers."""
    numbers = struct.unpack(f"<{len(slots) // 8}q", slots)
    sizes, position = {}, 0
    for spec in signature_of(func):
        if spec.kind == "scalar" and "int" in spec.dtype:
            sizes[spec.name] = numbers[position]
        for offset, derived in enumerate(spec.derived):
            sizes[derived.name] = numbers[position + 1 + offset]
        position += 1 + len(spec.derived)
    made: list[Any] = []
    for spec in signature_of(func):
        at = len(made)
        made.append(_argument(spec, slots[8 * at : 8 * at + 8], sizes))
        made += [numbers[at + 1 + offset] for offset in range(len(spec.derived))]
    return made


def _argument(spec: ArgumentSpec, slot: bytes, sizes: Mapping[str, int]) -> Any:
    dtype = to_numpy(spec.dtype)
    if spec.kind == "scalar":
        return np.frombuffer(slot, dtype, 1)[0].item()
    count = math.prod(evaluate_extent(extent, sizes) for extent in spec.shape)
    return array_at(int.from_bytes(slot, "little"), (count,), dtype, None)
