"""A compiled model as one file, which is loaded without a compiler.

The file begins with a head of 64 bytes: a marker (16 bytes), the number of the format (4), a
checksum of the description (4), the size of the description (8) and of the file (8). Then comes the
description as JSON: graph text, steps, memory plan, target, and where the blocks lie. The blocks
begin with a page each: the native runtime and the kernels as shared libraries, and the constants in
the layouts that the kernels want, each aligned to a cache line. Constants are mapped, not copied.

A model file holds machine code: load only files that you trust.
"""

from __future__ import annotations

import functools
import mmap
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec
import numpy as np

from tilewright.codegen.host import native
from tilewright.codegen.host.backend import IMPORT_TABLE, fill_import_table, import_table
from tilewright.codegen.host.shared_library import SharedLibrary
from tilewright.codegen.llvm.compiler import machine_of
from tilewright.codegen.module_info import ModuleInfo, why_unrunnable
from tilewright.errors import RuntimeFailure
from tilewright.graph.graph import Array, Graph
from tilewright.graph.parser import parse_graph
from tilewright.model.constants import KeptConstants
from tilewright.model.frame import LoadedCode
from tilewright.model.linking import check_writable, kernel_objects, machine_info
from tilewright.model.planning import Plan
from tilewright.model.program import ModelProgram, ValueInfo
from tilewright.model.runner import ModelRunner
from tilewright.native.elf import link_shared_object
from tilewright.runtime.cpu_device import ALIGNMENT
from tilewright.runtime.extern_symbols import runtime_symbols
from tilewright.support.decoding import decoding
from tilewright.support.files import replacing

FORMAT = 1
_MARKER = b"tilewright model"
_HEAD = struct.Struct("<16sIIQQ24x")
_PAGE = 4096


@dataclass(frozen=True)
class _Block:
    """Some bytes of the file, counted from the first page behind the description."""

    offset: int
    size: int
    checksum: int


@dataclass(frozen=True)
class _Code:
    """The kernels, and the native runtime that they call."""

    kernels: _Block
    entries: tuple[str, ...]
    messages: tuple[tuple[str, ...], ...]
    imports: tuple[str, ...]
    runtime: _Block
    runtime_names: tuple[str, ...]
    runtime_key: str


@dataclass(frozen=True)
class _Description:
    program: ModelProgram
    graph: str
    machine: ModuleInfo | None  # None: there is no machine code
    code: _Code | None
    constants: tuple[ValueInfo, ...]
    constants_at: tuple[int, ...]  # in the block of constants
    constants_block: _Block


@dataclass
class _Blocks:
    """What follows the description, put together."""

    parts: list[tuple[int, Sequence[memoryview]]] = field(default_factory=list)
    end: int = 0

    def add(self, arrays: Sequence[memoryview]) -> tuple[_Block, tuple[int, ...]]:
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
        block = _Block(self.end, at, checksum)
        self.parts.append((self.end, padded))
        self.end = _whole_pages(self.end + at)
        return block, tuple(places)

    def write(self, file: IO[bytes], start: int) -> None:
        """All blocks, the first one at `start`."""
        for offset, arrays in self.parts:
            file.write(bytes(start + offset - file.tell()))
            for array in arrays:
                file.write(array)


# --- writing ------------------------------------------------------------------------------------


def save(path: Path, plan: Plan, graph_text: str) -> Path:
    """Write a model; nothing is left behind if that fails."""
    check_writable(plan.program, plan.kernels, f"cannot save {path.name}")
    blocks = _Blocks()
    code = _code(plan, blocks) if plan.kernels else None
    arrays = [array.reshape(-1).view(np.uint8).data for array in plan.constants]
    block, places = blocks.add(arrays)
    infos = tuple(ValueInfo("", a.shape, str(a.dtype)) for a in plan.constants)
    description = _Description(
        plan.program, graph_text, machine_info(plan.kernels), code, infos, places, block
    )
    text = msgspec.json.encode(description)
    start = _whole_pages(_HEAD.size + len(text))
    last, parts = blocks.parts[-1]
    size = start + last + sum(part.nbytes for part in parts)
    try:
        with replacing(path) as file:
            file.write(_HEAD.pack(_MARKER, FORMAT, zlib.crc32(text), len(text), size))
            file.write(text)
            blocks.write(file, start)
    except OSError as error:
        raise RuntimeFailure(f"cannot save {path}: {error.strerror or error}") from error
    return path


def _code(plan: Plan, blocks: _Blocks) -> _Code:
    objects = kernel_objects(plan.kernels)
    artifact = plan.kernels[0].module.artifact
    assert artifact is not None
    machine = machine_of(artifact)
    exports = [*objects.entries, *([IMPORT_TABLE] if objects.imports else [])]
    table = [import_table(objects.imports, machine)] if objects.imports else []
    image = link_shared_object([*objects.units, *table], "tilewright_model.so", exports)
    runtime = native.process_object(machine)
    library = native.link_process_library(runtime, "tilewright_runtime.so")
    return _Code(
        blocks.add([memoryview(image)])[0],
        objects.entries,
        tuple(kernel.module.info.messages for kernel in plan.kernels),
        objects.imports,
        blocks.add([memoryview(library)])[0],
        runtime.defined,
        native.process_key(machine.triple),
    )


def _whole_pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


# --- reading ------------------------------------------------------------------------------------


class LoadedModel(ModelRunner):
    """A model from a file."""

    def __init__(self, description: _Description, code: LoadedCode, constants: list[Array]) -> None:
        self._text = description.graph
        super().__init__(description.program, code, constants)

    @functools.cached_property
    def graph(self) -> Graph:
        """What it computes; the file has its constants in packed form only."""
        parsed = parse_graph(self._text)
        constants = KeptConstants(parsed.constants, {})
        return Graph(parsed.name, parsed.inputs, parsed.outputs, parsed.nodes, constants)


def load(path: str | Path) -> LoadedModel:
    """The model in a file that `Executable.save` wrote; nothing is compiled, constants are mapped.

    Damaged and foreign files, and models for other processors, are refused before any code of them
    is loaded.
    """
    return _Reader(Path(path)).model()


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            raise self._refused(error.strerror or str(error)) from error
        except ValueError as error:  # no file of no bytes can be mapped
            raise self._refused("it is empty") from error

    def _refused(self, reason: str) -> RuntimeFailure:
        return RuntimeFailure(f"cannot load {self._path}: {reason}")

    def model(self) -> LoadedModel:
        description = self._description()
        machine, code = description.machine, description.code
        reason = "" if machine is None else why_unrunnable(machine)
        if reason:
            raise self._refused(f"{reason}; compile it for this machine")
        with decoding(f"cannot load {self._path}: its constants", RuntimeFailure):
            constants = self._constants(description)
        return LoadedModel(description, self._code(machine, code), constants)

    def _constants(self, description: _Description) -> list[Array]:
        block = self._block(description.constants_block)
        return [
            np.ndarray(info.shape, info.element_type, block, at)
            for info, at in zip(description.constants, description.constants_at, strict=True)
        ]

    def _description(self) -> _Description:
        if len(self._data) < _HEAD.size or self._data[: len(_MARKER)] != _MARKER:
            raise self._refused("it is not a model written by Executable.save")
        _, kind, checksum, length, size = _HEAD.unpack_from(self._data)
        if kind != FORMAT:
            raise self._refused(
                f"it has format {kind}, this version of Tilewright reads {FORMAT}; save it again"
            )
        if size != len(self._data):
            raise self._refused(
                f"it has {len(self._data)} bytes, expected {size}; the file was cut off or changed"
            )
        text = self._data[_HEAD.size : _HEAD.size + length]
        if zlib.crc32(text) != checksum:
            raise self._damaged()
        self._start = _whole_pages(_HEAD.size + length)
        with decoding(f"cannot load {self._path}: its description", RuntimeFailure):
            return msgspec.json.decode(text, type=_Description)

    def _damaged(self) -> RuntimeFailure:
        return self._refused("the file is damaged or was changed after it was saved; save it again")

    def _block(self, block: _Block) -> memoryview:
        begin = self._start + block.offset
        data = self._data[begin : begin + block.size]
        if len(data) != block.size or zlib.crc32(data) != block.checksum:
            raise self._damaged()
        return data

    def _code(self, machine: ModuleInfo | None, code: _Code | None) -> LoadedCode:
        if machine is None or code is None:
            return LoadedCode([], [], {}, None)
        kernels, runtime = self._block(code.kernels), self._block(code.runtime)
        if code.runtime_key == native.process_key(machine.triple):
            native.adopt(lambda: SharedLibrary.of_image(self._path, runtime), code.runtime_names)
        library = SharedLibrary.of_image(self._path, kernels)
        fill_import_table(library, code.imports, runtime_symbols())
        addresses = [library[name] for name in code.entries]
        return LoadedCode(addresses, code.messages, {}, library)
