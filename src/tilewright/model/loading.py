"""Models from files: nothing is compiled, and constants are mapped, not read.

Little is imported here, so that a process that runs a model starts quickly.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tilewright.codegen.host import native
from tilewright.codegen.host.backend import fill_import_table
from tilewright.codegen.host.shared_library import SharedLibrary
from tilewright.codegen.module_info import ModuleInfo, why_unrunnable
from tilewright.errors import RuntimeFailure
from tilewright.model.file_format import DeviceCode, FileCode, FileReader, ModelDescription
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
    return _loaded(FileReader(Path(path)))


def _loaded(file: FileReader) -> RunnableModel:
    description = file.description
    machine = description.machine
    reason = "" if machine is None else why_unrunnable(machine)
    if reason:
        raise file.refused(f"{reason}; compile it for this machine")
    if not _fits(description):
        raise file.refused("its steps reach outside of its memory; save it again")
    with decoding(f"cannot load {file.path}: its constants", RuntimeFailure):
        constants = _constants(file)
    if description.device_code is not None:
        return _gpu_model(file, description.device_code, constants)
    loaded = _code(file, machine, description.code)
    externals = {
        number: _external_function(step.external, step, constants)
        for number, step in enumerate(description.program.steps)
        if step.external is not None
    }
    return LoadedModel(description, replace(loaded, externals=externals), constants)


def _gpu_model(file: FileReader, code: DeviceCode, constants: list[Array]) -> RunnableModel:
    from tilewright.model.gpu_loading import LoadedGpuModel, device_kernels, why_no_gpu

    reason = why_no_gpu(code.arch)
    if reason:
        raise file.refused(reason)
    with decoding(f"cannot load {file.path}: its kernels", RuntimeFailure):
        kernels = device_kernels(file.block(code.kernels)[: code.bytes], code.count)
    return LoadedGpuModel(file.description, kernels, constants)


def _constants(file: FileReader) -> list[Array]:
    description = file.description
    block = file.block(description.constants_block)
    return [
        np.ndarray(info.shape, info.element_type, block, at)
        for info, at in zip(description.constants, description.constants_at, strict=True)
    ]


def _code(file: FileReader, machine: ModuleInfo | None, code: FileCode | None) -> LoadedCode:
    if machine is None or code is None:
        return LoadedCode([], [], {}, None)
    kernels, runtime = file.block(code.kernels), file.block(code.runtime)
    if code.runtime_key == native.process_key(machine.triple):
        native.adopt(lambda: SharedLibrary.of_image(file.path, runtime), code.runtime_names)
    library = SharedLibrary.of_image(file.path, kernels)
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
