"""The form of model files.

The file begins with a head of 64 bytes: a marker (16 bytes), the number of the format (4), a
checksum of the description (4), the size of the description (8) and of the file (8). Then comes the
description as JSON: graph text, steps, memory plan, target, and where the blocks lie. The blocks
begin with a page each: the native runtime and the kernels as shared libraries, and the constants in
the layouts that the kernels want, each aligned to a cache line. A model for a GPU has its kernels
in one block instead, and constants that the GPU packs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.module_info import ModuleInfo
from tilewright.model.program import ModelProgram, ValueInfo

FORMAT = 1
MARKER = b"tilewright model"
HEAD = struct.Struct("<16sIIQQ24x")
_PAGE = 4096


@dataclass(frozen=True)
class FileBlock:
    """Some bytes of the file, counted from the first page behind the description."""

    offset: int
    size: int
    checksum: int


@dataclass(frozen=True)
class FileCode:
    """The kernels, and the native runtime that they call."""

    kernels: FileBlock
    entries: tuple[str, ...]
    messages: tuple[tuple[str, ...], ...]
    imports: tuple[str, ...]
    runtime: FileBlock
    runtime_names: tuple[str, ...]
    runtime_key: str


@dataclass(frozen=True)
class DeviceKernel:
    """The machine code of a kernel for a GPU, and how it is called."""

    info: ModuleInfo
    artifact: Artifact


@dataclass(frozen=True)
class DeviceCode:
    """The kernels of a model for a GPU: a list of `DeviceKernel`, as MessagePack."""

    arch: str
    kernels: FileBlock
    bytes: int  # of the list, which the block may be longer than
    count: int


@dataclass(frozen=True)
class ModelDescription:
    """Everything but machine code and numbers."""

    program: ModelProgram
    graph: str
    machine: ModuleInfo | None  # None: there is no machine code
    code: FileCode | None
    constants: tuple[ValueInfo, ...]
    constants_at: tuple[int, ...]  # in the block of constants
    constants_block: FileBlock
    device_code: DeviceCode | None = None  # instead of `code`, of a model for a GPU


def whole_pages(size: int) -> int:
    """The next multiple of a page."""
    return -(-size // _PAGE) * _PAGE
