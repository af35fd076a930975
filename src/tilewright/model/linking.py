"""The kernels of a model as one piece of machine code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.module_info import ModuleInfo
from tilewright.errors import RuntimeFailure
from tilewright.model.kernels import ModelKernel
from tilewright.model.program import EXTERNAL, ModelStep
from tilewright.native.abi import PACKED_SUFFIX, RUNTIME_PREFIX
from tilewright.native.elf_object import ObjectFile, read_object, with_prefix
from tilewright.native.platform import is_linux_x86_64


@dataclass(frozen=True)
class KernelObjects:
    """Objects that can be linked together: each kernel's names have a prefix of their own."""

    units: tuple[ObjectFile, ...]
    entries: tuple[str, ...]  # the function of each kernel that takes its arguments from slots
    imports: tuple[str, ...]  # what they take from the runtime


def refuse_external(steps: Iterable[ModelStep], what: str) -> None:
    """Refuse steps that functions of Python run; `what` begins the message."""
    external = sorted({step.name for step in steps if step.kernel == EXTERNAL})
    if external:
        raise RuntimeFailure(
            f"{what}: Python functions run {', '.join(external)}; only kernels can be saved"
        )


def check_machine(kernels: Sequence[ModelKernel], what: str) -> None:
    """Refuse code for machines that files cannot hold code for."""
    for kernel in kernels:
        triple = kernel.module.info.triple
        if kernel.module.info.device != "cpu" or not is_linux_x86_64(triple):
            place = triple or kernel.module.info.target
            raise RuntimeFailure(f"{what}: its code is for {place}, expected x86-64 Linux")


def kernel_objects(kernels: Sequence[ModelKernel]) -> KernelObjects:
    """The machine code of kernels."""
    artifacts = [artifact_of(kernel) for kernel in kernels]
    units = [
        with_prefix(read_object(artifact.data), f"kernel{number}.")
        for number, artifact in enumerate(artifacts)
    ]
    entries = [
        f"kernel{number}.{kernel.module.entry_name}{PACKED_SUFFIX}"
        for number, kernel in enumerate(kernels)
    ]
    imports = {n for a in artifacts for n in a.undefined if n.startswith(RUNTIME_PREFIX)}
    return KernelObjects(tuple(units), tuple(entries), tuple(sorted(imports)))


def machine_info(kernels: Sequence[ModelKernel]) -> ModuleInfo | None:
    """Target and processor of kernels, with all features that any of them uses."""
    if not kernels:
        return None
    features = {name for kernel in kernels for name in kernel.module.info.features}
    first = kernels[0].module.info
    return replace(first, functions=(), messages=(), features=tuple(sorted(features)))


def artifact_of(kernel: ModelKernel) -> Artifact:
    """What was compiled for a kernel."""
    artifact = kernel.module.artifact
    if artifact is None:
        raise RuntimeFailure(
            f"{kernel.module.entry_name} was loaded from a library; compile the model again"
        )
    return artifact
