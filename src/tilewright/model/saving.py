"""Writing a compiled model to one file, whose form is in `file_format.py`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from tilewright.codegen.host import native
from tilewright.codegen.host.backend import IMPORT_TABLE, import_table
from tilewright.codegen.llvm.compiler import machine_of
from tilewright.errors import RuntimeFailure
from tilewright.model.file_format import (
    DeviceCode,
    DeviceKernel,
    FileCode,
    FileWriter,
    ModelDescription,
)
from tilewright.model.linking import (
    artifact_of,
    check_machine,
    kernel_objects,
    machine_info,
    refuse_external,
)
from tilewright.model.planning import CPU, Plan
from tilewright.model.program import ValueInfo
from tilewright.native.elf import link_shared_object
from tilewright.support.files import replacing


def save(path: Path, plan: Plan, graph_text: str) -> Path:
    """Write a model; nothing is left behind if that fails."""
    what = f"cannot save {path.name}"
    refuse_external((step for step in plan.program.steps if step.external is None), what)
    blocks, code, device_code = FileWriter(), None, None
    if any(kernel.module.info.device != CPU for kernel in plan.kernels):
        device_code = _device_code(plan, blocks)
    elif plan.kernels:
        check_machine(plan.kernels, what)
        code = _code(plan, blocks)
    arrays = [array.reshape(-1).view(np.uint8).data for array in plan.constants]
    block, places = blocks.add(arrays)
    infos = tuple(ValueInfo("", a.shape, str(a.dtype)) for a in plan.constants)
    description = ModelDescription(
        plan.program,
        graph_text,
        machine_info(plan.kernels),
        code,
        infos,
        places,
        block,
        device_code,
    )
    try:
        with replacing(path) as file:
            blocks.write(file, description)
    except OSError as error:
        raise RuntimeFailure(f"cannot save {path}: {error.strerror or error}") from error
    return path


def _device_code(plan: Plan, blocks: FileWriter) -> DeviceCode:
    """Kernels of a GPU, which the driver takes as they are."""
    kernels = [DeviceKernel(k.module.info, artifact_of(k)) for k in plan.kernels]
    data = msgspec.msgpack.encode(kernels)
    block, _ = blocks.add([memoryview(data)])
    return DeviceCode(kernels[0].artifact.meta["arch"], block, len(data), len(kernels))


def _code(plan: Plan, blocks: FileWriter) -> FileCode:
    objects = kernel_objects(plan.kernels)
    artifact = plan.kernels[0].module.artifact
    assert artifact is not None
    machine = machine_of(artifact)
    exports = [*objects.entries, *([IMPORT_TABLE] if objects.imports else [])]
    table = [import_table(objects.imports, machine)] if objects.imports else []
    image = link_shared_object([*objects.units, *table], "tilewright_model.so", exports)
    runtime = native.process_object(machine)
    library = native.link_process_library(runtime, "tilewright_runtime.so")
    return FileCode(
        blocks.add([memoryview(image)])[0],
        objects.entries,
        tuple(kernel.module.info.messages for kernel in plan.kernels),
        objects.imports,
        blocks.add([memoryview(library)])[0],
        runtime.defined,
        native.process_key(machine.triple),
    )
