"""The form of model files.

The file begins with a head of 64 bytes: a marker (16 bytes), the number of the format (4), a
checksum of the description (4), the size of the description (8) and of the file (8). Then comes the
description as JSON: graph text, steps, memory plan, target, and where the blocks lie. The blocks
follow, each aligned to a page: the native runtime and the kernels as shared libraries, and the
constants in the layouts that the kernels want, each aligned to a cache line. A model for a GPU has
its kernels in one block instead, and constants that the GPU packs.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.module_info import ModuleInfo
from tilewright.errors import RuntimeFailure
from tilewright.model.program import ModelProgram, ValueInfo
from tilewright.runtime.cpu_device import ALIGNMENT
from tilewright.support.decoding import decoding

_FORMAT = 1
_MARKER = b"tilewright model"
_HEAD = struct.Struct("<16sIIQQ24x")
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


def _whole_pages(size: int) -> int:
    """The next multiple of a page."""
    return -(-size // _PAGE) * _PAGE


# --- writing ------------------------------------------------------------------------------------


@dataclass
class FileWriter:
    """Puts blocks together, and writes them behind their description."""

    parts: list[tuple[int, Sequence[memoryview]]] = field(default_factory=list)
    end: int = 0

    def add(self, arrays: Sequence[memoryview]) -> tuple[FileBlock, tuple[int, ...]]:
        """Append a block of arrays; where it is, and where each of them is in it."""
        places, at, checksum = [], 0, 0
        padded: list[memoryview] = []
        for array in arrays:
            places.append(at)
            padding = bytes(-array.nbytes % ALIGNMENT)
            padded += [array, memoryview(padding)]
            at += array.nbytes + len(padding)
        for part in padded:
            checksum = zlib.crc32(part, checksum)
        block = FileBlock(self.end, at, checksum)
        self.parts.append((self.end, padded))
        self.end = _whole_pages(self.end + at)
        return block, tuple(places)

    def write(self, file: IO[bytes], description: ModelDescription) -> None:
        """Head, description and all blocks."""
        text = msgspec.json.encode(description)
        start = _whole_pages(_HEAD.size + len(text))
        last, arrays = self.parts[-1]
        size = start + last + sum(array.nbytes for array in arrays)
        file.write(_HEAD.pack(_MARKER, _FORMAT, zlib.crc32(text), len(text), size))
        file.write(text)
        for offset, arrays in self.parts:
            file.write(bytes(start + offset - file.tell()))
            for array in arrays:
                file.write(array)


# --- reading ------------------------------------------------------------------------------------


class FileReader:
    """A model file, mapped into memory; what is damaged or foreign is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            raise self.refused(error.strerror or str(error)) from error
        except ValueError as error:  # no file of no bytes can be mapped
            raise self.refused("it is empty") from error
        self.description = self._description()

    def refused(self, reason: str) -> RuntimeFailure:
        """The error that says why the file is not loaded."""
        return RuntimeFailure(f"cannot load {self.path}: {reason}")

    def block(self, block: FileBlock) -> memoryview:
        """The bytes of a block, which are those that were written."""
        begin = self._start + block.offset
        data = self._data[begin : begin + block.size]
        if len(data) != block.size or zlib.crc32(data) != block.checksum:
            raise self._damaged()
        return data

    def _description(self) -> ModelDescription:
        if len(self._data) < _HEAD.size or self._data[: len(_MARKER)] != _MARKER:
            raise self.refused("it is not a model written by Executable.save")
        _, kind, checksum, length, size = _HEAD.unpack_from(self._data)
        if kind != _FORMAT:
            raise self.refused(
                f"it has format {kind}, this version of Tilewright reads {_FORMAT}; save it again"
            )
        if size != len(self._data):
            raise self.refused(
                f"it has {len(self._data)} bytes, expected {size}; the file was cut off or changed"
            )
        text = self._data[_HEAD.size : _HEAD.size + length]
        if zlib.crc32(text) != checksum:
            raise self._damaged()
        self._start = _whole_pages(_HEAD.size + length)
        with decoding(f"cannot load {self.path}: its description", RuntimeFailure):
            return msgspec.json.decode(text, type=ModelDescription)

    def _damaged(self) -> RuntimeFailure:
        return self.refused("the file is damaged or was changed after it was saved; save it again")
