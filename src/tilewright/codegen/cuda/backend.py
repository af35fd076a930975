"""The backend for target kind `cuda`: CUDA C++, compiled by NVIDIA's run-time compiler."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import msgspec

from tilewright.codegen.artifact import Artifact, Library
from tilewright.codegen.base import Backend, Exporter, GeneratedSource, Texts
from tilewright.codegen.cuda import compiler, launch_plan, pipeline
from tilewright.codegen.cuda.loading import CudaLibrary
from tilewright.codegen.cuda.module import generate_source
from tilewright.codegen.host import library_file
from tilewright.codegen.host.code_store import CodeStore
from tilewright.codegen.module_info import ModuleInfo
from tilewright.codegen.registry import register_backend
from tilewright.errors import RuntimeFailure
from tilewright.ir import IRModule
from tilewright.lowering import Pass, PassContext
from tilewright.support.files import write_whole
from tilewright.target import Target
from tilewright.target.gpu import full_arch


@dataclass(frozen=True)
class CudaSource(GeneratedSource):
    """CUDA C++ with all kernels, and the plan of their launches."""

    plan: launch_plan.Plan = field(default_factory=dict)


class _Kept(msgspec.Struct, frozen=True):
    """A module in the store of code."""

    info: ModuleInfo
    artifact: Artifact


def _export(
    path: Path, info: ModuleInfo, artifact: Artifact, symbols: Mapping[str, str]
) -> tuple[Path, ...]:
    """Machine code, which NVIDIA's tools can read, with a description behind it."""
    if symbols:
        raise RuntimeFailure(f"cannot export {path.name}: GPU functions cannot be renamed")
    described = library_file.LibraryDescription(
        info, False, False, artifact.kind, dict(artifact.meta)
    )
    write_whole(path, library_file.seal(artifact.data + library_file.encode(described)))
    return (path,)


@register_backend
class CudaBackend(Backend):
    """Prints CUDA C++ and runs NVIDIA's run-time compiler."""

    kind: ClassVar[str] = "cuda"
    device: ClassVar[str] = "cuda"
    stages: ClassVar[tuple[str, ...]] = ("cuda", "ptx")
    text_files: ClassVar[Mapping[str, str]] = MappingProxyType(
        {".cu": "cuda", ".ptx": "ptx", ".sass": "sass"}
    )

    def exporters(self) -> Mapping[str, Exporter]:
        """Machine code of the device alone."""
        return {".cubin": _export}

    def passes(self, context: PassContext, target: Target | None) -> list[Pass]:
        """The pipeline of `pipeline.py`."""
        return pipeline.passes_of(context, target)

    def generate(self, lowered: IRModule, target: Target) -> CudaSource:
        """One file of kernels, and the plan of their launches."""
        plan, messages = launch_plan.plan_of(lowered)
        return CudaSource(generate_source(lowered, target), messages, plan)

    def compile(
        self, source: GeneratedSource, target: Target, *, may_abort: bool = False
    ) -> Artifact:
        """Machine code for the architecture of the target."""
        assert isinstance(source, CudaSource)
        arch = full_arch(target.arch)
        compiled = compiler.compile_kernels(source.text, arch)
        meta = {
            "arch": arch,
            "compiler": compiler.compiler_version(),
            "plan": json.dumps(source.plan),
            "resources": json.dumps({k: asdict(v) for k, v in compiled.resources.items()}),
            "warnings": "\n".join(compiled.warnings),
        }
        return Artifact("cuda", compiled.cubin, tuple(source.plan["functions"]), (), meta)

    def load(self, artifact: Artifact, imports: Mapping[str, int]) -> Library:
        """Functions that load their kernels when they are first asked for."""
        return CudaLibrary(artifact)

    def texts(self, lowered: IRModule, source: GeneratedSource, target: Target) -> Texts:
        """CUDA C++, and the assembly and the machine code that are made of it."""
        arch = full_arch(target.arch)
        compiled = functools.cache(lambda: compiler.compile_kernels(source.text, arch))
        return {
            "cuda": lambda: source.text,
            "ptx": lambda: compiled().ptx,
            "sass": lambda: compiler.disassembled(compiled().cubin),
        }

    def resources(self, artifact: Artifact) -> Mapping[str, Mapping[str, int]]:
        """The fields of `KernelResources`, by kernel; launches may ask for more shared memory."""
        asked = launch_plan.dynamic_shared_bytes(json.loads(artifact.meta["plan"]))
        return {
            name: {**own, "shared_bytes": own["shared_bytes"] + asked.get(name, 0)}
            for name, own in json.loads(artifact.meta["resources"]).items()
        }

    def warm_up(self) -> None:
        """Load NVIDIA's compiler."""
        compiler.compiler_version()

    def recall(
        self, store: CodeStore, key: str, symbols: Callable[[], Mapping[str, int]]
    ) -> tuple[ModuleInfo, Library] | None:
        """A stored module."""
        stored = store.description(key)
        if stored is None:
            return None
        try:
            kept = msgspec.msgpack.decode(stored, type=_Kept)
        except msgspec.MsgspecError:
            return None
        return kept.info, CudaLibrary(kept.artifact)

    def keep(self, store: CodeStore, key: str, info: ModuleInfo, artifact: Artifact) -> None:
        """Store machine code and plan."""
        store.put(key, b"", msgspec.msgpack.encode(_Kept(info, artifact)))

    def version(self) -> str:
        """The version of NVIDIA's compiler."""
        return compiler.compiler_version()
