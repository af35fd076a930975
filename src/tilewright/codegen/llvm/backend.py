"""The backend for target kind `llvm`: LLVM IR, compiled in this process.

The generators are imported by what needs them: loading kept code does not, and starts faster so.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.base import GeneratedSource, Texts
from tilewright.codegen.host.backend import HostBackend
from tilewright.codegen.llvm import compiler
from tilewright.codegen.llvm.trial import compile_in_child
from tilewright.codegen.registry import register_backend
from tilewright.ir import IRModule
from tilewright.lowering import Pass, PassContext
from tilewright.lowering.pipeline import cpu_passes
from tilewright.target import Target

if TYPE_CHECKING:
    from tilewright.codegen.llvm.module import LLVMSource


@register_backend
class LLVMBackend(HostBackend):
    """Compiles through llvmlite."""

    kind: ClassVar[str] = "llvm"
    stages: ClassVar[tuple[str, ...]] = ("generated-ll", "ll", "asm")

    def passes(self, context: PassContext, target: Target | None) -> list[Pass]:
        """Those for CPUs."""
        return cpu_passes(context, tiles=True)

    def generate(self, lowered: IRModule, target: Target) -> LLVMSource:
        """LLVM IR before any optimisation."""
        from tilewright.codegen.llvm.module import generate

        return generate(lowered, target)

    def compile(
        self, source: GeneratedSource, target: Target, *, may_abort: bool = False
    ) -> Artifact:
        """One relocatable object."""
        from tilewright.codegen.llvm.module import LLVMSource

        assert isinstance(source, LLVMSource)
        machine, doubts = machine_for(target), source.doubts(vectors=not may_abort)
        if doubts:
            return compile_in_child(source.text, machine, doubts)
        return compiler.compile_ir(source.text, machine)

    def texts(self, lowered: IRModule, source: GeneratedSource, target: Target) -> Texts:
        """LLVM IR after and before optimisation, assembly, and the same program in C."""
        from tilewright.codegen.c.module import generate as generate_c

        machine = machine_for(target)
        return {
            "ll": partial(compiler.optimised_ir, source.text, machine),
            "asm": partial(compiler.assembly, source.text, machine),
            "c": partial(generate_c, lowered, target),
            "generated-ll": lambda: source.text,
        }

    def warm_up(self) -> None:
        """Load LLVM."""
        compiler.host_machine()


def machine_for(target: Target) -> compiler.MachineOptions:
    """What LLVM has to know of a target."""
    if not {"mcpu", "mattr", "mtriple"} & target.attrs.keys():
        return compiler.host_machine()
    triple = str(target.attrs.get("mtriple", ""))
    return compiler.machine_options(target.mcpu, ",".join(target.mattr), triple)
