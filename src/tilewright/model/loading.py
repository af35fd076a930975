"""Models from files: nothing is compiled, and constants are mapped, not read.

Little is imported here, so that a process that runs a model starts quickly.
"""

from __future__ import annotations

import functools
import mmap
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tilewright.codegen.host import native
from tilewright.codegen.host.backend import fill_import_table
from tilewright.codegen.host.shared_library import SharedLibrary
from tilewright.codegen.module_info import ModuleInfo, why_unrunnable
from tilewright.errors import RuntimeFailure
from tilewright.model.file_format import (
    FORMAT,
    HEAD,
    MARKER,
    DeviceCode,
    FileBlock,
    FileCode,
    ModelDescription,
    whole_pages,
)
from tilewright.model.frame import LoadedCode
from tilewright.model.program import (
    EXTERNAL,
    ArrayPlace,
    ExternalProgram,
    ModelStep,
    ValueInfo,
)
from tilewright.model.runner import ModelRunner
from tilewright.runtime.extern_symbols import runtime_symbols
from tilewright.runtime.tensor_view import Array
from tilewright.support.decoding import decoding

if TYPE_CHECKING:
    from tilewright.graph.graph import Graph
    from tilewright.model.compiled import RunnableModel
    from tilewright.model.external import ExternalFunction


class LoadedModel(ModelRunner):
    """A model from a file."""

    def __init__(
        self, description: ModelDescription, code: LoadedCode, constants: list[Array]
    ) -> None:
        self._text = description.graph
        super().__init__(description.program, code, constants)

    @functools.cached_property
    def graph(self) -> Graph:
        """What it computes; the file has its constants in packed form only."""
        return graph_without_constants(self._text)


def graph_without_constants(text: str) -> Graph:
    """The graph of a file, which has its constants elsewhere."""
    from tilewright.graph.graph import Graph
    from tilewright.graph.parser import parse_graph
    from tilewright.model.constants import KeptConstants

    parsed = parse_graph(text)
    constants = KeptConstants(parsed.constants, {})
    return Graph(parsed.name, parsed.inputs, parsed.outputs, parsed.nodes, constants)


def load(path: str | Path) -> RunnableModel:
    """The model in a file that `Executable.save` wrote; nothing is compiled, constants are mapped.

    Damaged and foreign files, and models for other processors or GPUs, are refused before any code
    of them is loaded.
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

    def model(self) -> RunnableModel:
        description = self._description()
        machine, code = description.machine, description.code
        reason = "" if machine is None else why_unrunnable(machine)
        if reason:
            raise self._refused(f"{reason}; compile it for this machine")
        if not _fits(description):
            raise self._refused("its steps reach outside of its memory; save it again")
        with decoding(f"cannot load {self._path}: its constants", RuntimeFailure):
            constants = self._constants(description)
        if description.device_code is not None:
            return self._gpu_model(description, description.device_code, constants)
        loaded = self._code(machine, code)
        externals = {
            number: _external_function(step.external, step, constants)
            for number, step in enumerate(description.program.steps)
            if step.external is not None
        }
        return LoadedModel(description, replace(loaded, externals=externals), constants)

    def _gpu_model(
        self, description: ModelDescription, code: DeviceCode, constants: list[Array]
    ) -> RunnableModel:
        from tilewright.model.gpu_loading import LoadedGpuModel, device_kernels, why_no_gpu

        reason = why_no_gpu(code.arch)
        if reason:
            raise self._refused(reason)
        with decoding(f"cannot load {self._path}: its kernels", RuntimeFailure):
            kernels = device_kernels(self._block(code.kernels)[: code.bytes], code.count)
        return LoadedGpuModel(description, kernels, constants)

    def _constants(self, description: ModelDescription) -> list[Array]:
        block = self._block(description.constants_block)
        return [
            np.ndarray(info.shape, info.element_type, block, at)
            for info, at in zip(description.constants, description.constants_at, strict=True)
        ]

    def _description(self) -> ModelDescription:
        if len(self._data) < HEAD.size or self._data[: len(MARKER)] != MARKER:
            raise self._refused("it is not a model written by Executable.save")
        _, kind, checksum, length, size = HEAD.unpack_from(self._data)
        if kind != FORMAT:
            raise self._refused(
                f"it has format {kind}, this version of Tilewright reads {FORMAT}; save it again"
            )
        if size != len(self._data):
            raise self._refused(
                f"it has {len(self._data)} bytes, expected {size}; the file was cut off or changed"
            )
        text = self._data[HEAD.size : HEAD.size + length]
        if zlib.crc32(text) != checksum:
            raise self._damaged()
        self._start = whole_pages(HEAD.size + length)
        with decoding(f"cannot load {self._path}: its description", RuntimeFailure):
            return msgspec.json.decode(text, type=ModelDescription)

    def _damaged(self) -> RuntimeFailure:
        return self._refused("the file is damaged or was changed after it was saved; save it again")

    def _block(self, block: FileBlock) -> memoryview:
        begin = self._start + block.offset
        data = self._data[begin : begin + block.size]
        if len(data) != block.size or zlib.crc32(data) != block.checksum:
            raise self._damaged()
        return data

    def _code(self, machine: ModuleInfo | None, code: FileCode | None) -> LoadedCode:
        if machine is None or code is None:
            return LoadedCode([], [], {}, None)
        kernels, runtime = self._block(code.kernels), self._block(code.runtime)
        if code.runtime_key == native.process_key(machine.triple):
            native.adopt(lambda: SharedLibrary.of_image(self._path, runtime), code.runtime_names)
        library = SharedLibrary.of_image(self._path, kernels)
        fill_import_table(library, code.imports, runtime_symbols())
        addresses = [library[name] for name in code.entries]
        return LoadedCode(addresses, code.messages, {}, library)


def _fits(description: ModelDescription) -> bool:
    """True if all steps name kernels, arrays and bytes that there are."""
    program, code = description.program, description.code
    counts = {
        "constant": len(description.constants),
        "packed": len(program.packings),
        "input": len(program.inputs),
        "output": len(program.outputs),
    }
    kernels = 0 if code is None else len(code.entries)
    if description.device_code is not None:
        kernels = description.device_code.count

    def is_there(place: ArrayPlace, info: ValueInfo) -> bool:
        if place.memory == "arena":
            return 0 <= place.index <= program.arena_bytes - info.bytes
        return 0 <= place.index < counts[place.memory]

    results = zip(program.results, program.outputs, strict=False)
    pairs = (pair for s in program.steps for pair in zip(s.arguments, s.values, strict=False))
    return (
        all(EXTERNAL <= step.kernel < kernels for step in program.steps)
        and all(len(step.arguments) == len(step.values) for step in program.steps)
        and len(program.results) == len(program.outputs)
        and all(
            0 <= each.kernel < kernels and 0 <= each.constant < counts["constant"]
            for each in program.packings
        )
        and (code is None or not program.packings)
        and all(is_there(place, info) for place, info in (*results, *pairs))
    )


def _external_function(
    external: ExternalProgram, step: ModelStep, constants: Sequence[Array]
) -> ExternalFunction:
    """A step that another library runs, handed to it."""
    from tilewright.byoc import ExternalPart, prepare_part
    from tilewright.graph.graph import TensorType

    def types(infos: Sequence[ValueInfo]) -> tuple[TensorType, ...]:
        return tuple(TensorType(info.shape, info.dtype) for info in infos)

    known = {position: constants[number].copy() for position, number in external.constants}
    outputs = types(step.values[step.inputs :])
    part = ExternalPart(external.name, external.program, types(external.inputs), outputs, known)
    return prepare_part(external.backend, part)[1]
