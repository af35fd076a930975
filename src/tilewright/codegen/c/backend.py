"""The backend for target kind `c`: C99, compiled by the C compiler of this machine."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.base import GeneratedSource, Texts
from tilewright.codegen.c.entries import THREADS, entries
from tilewright.codegen.c.module import module_text
from tilewright.codegen.c.statements import Unit
from tilewright.codegen.host import system_compiler
from tilewright.codegen.host.backend import HostBackend
from tilewright.codegen.llvm.compiler import host_machine
from tilewright.codegen.llvm.symbols import function_symbol
from tilewright.codegen.registry import register_backend
from tilewright.errors import CodegenError
from tilewright.ir import IRModule
from tilewright.lowering import Pass, PassContext
from tilewright.lowering.pipeline import cpu_passes
from tilewright.native.abi import PACKED_SUFFIX, PARALLEL_LAUNCH
from tilewright.target import Target
from tilewright.target.isa import host

# Products are fused with sums, as our LLVM IR allows, too.
_FLAGS = (
    "-std=gnu99 -O3 -fPIC -fwrapv -fno-strict-aliasing -ffp-contract=fast -fno-math-errno "
    "-fno-stack-protector -fno-asynchronous-unwind-tables -w"
)


@dataclass(frozen=True)
class CSource(GeneratedSource):
    """C text, with the names that it defines and wants."""

    defined: tuple[str, ...] = ()
    undefined: tuple[str, ...] = ()


@register_backend
class CBackend(HostBackend):
    """Prints C and runs the compiler that the system has."""

    kind: ClassVar[str] = "c"
    stages: ClassVar[tuple[str, ...]] = ("c", "asm")

    def passes(self, context: PassContext, target: Target | None) -> list[Pass]:
        """Those for CPUs; C has no names for tile registers."""
        return cpu_passes(context, tiles=False)

    def generate(self, lowered: IRModule, target: Target) -> CSource:
        """One C file."""
        unit = Unit()
        symbols = {name: function_symbol(name) for name in lowered.functions}
        text = module_text(lowered, unit, symbols)
        messages = tuple(unit.messages)
        text = f"{text}\n{entries(lowered, messages)}"
        undefined = tuple(unit.externs)
        if unit.outlined_count:
            text, undefined = f"{THREADS}\n{text}", (*undefined, PARALLEL_LAUNCH)
        packed = (name + PACKED_SUFFIX for name in lowered.functions)
        return CSource(text, messages, (*symbols.values(), *packed), undefined)

    def compile(
        self, source: GeneratedSource, target: Target, *, may_abort: bool = False
    ) -> Artifact:
        """One relocatable object."""
        assert isinstance(source, CSource)
        data = _compiled(source.text, target, "-c")
        return Artifact("c", data, source.defined, source.undefined, vars(host_machine()))

    def texts(self, lowered: IRModule, source: GeneratedSource, target: Target) -> Texts:
        """C, and the assembly that the compiler makes of it."""
        return {
            "c": lambda: source.text,
            "asm": lambda: _compiled(source.text, target, "-S").decode(),
        }

    def version(self) -> str:
        """The compiler's file."""
        path = Path(_compiler())
        status = path.stat()
        return f"{path} {status.st_size} {status.st_mtime_ns}"


def _compiled(text: str, target: Target, form: str) -> bytes:
    """What the compiler makes of C text: an object (`-c`) or assembly (`-S`)."""
    flags = [*_FLAGS.split(), *_machine_flags(target), form]
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        file, made = Path(folder) / "module.c", Path(folder) / "module.out"
        file.write_text(text)
        command = [_compiler(), *flags, str(file), "-o", str(made)]
        system_compiler.run(command, "cannot compile the generated C")
        return made.read_bytes()


def _compiler() -> str:
    found = system_compiler.find()
    if found is None:
        raise CodegenError(
            "target kind 'c' needs a C compiler, but none was found (looked for "
            f"{', '.join(system_compiler.NAMES)}); install one, or build for 'llvm', which needs "
            "none"
        )
    return found


def _machine_flags(target: Target) -> list[str]:
    """What the compiler has to know of the processor."""
    triple, here = str(target.attrs.get("mtriple", "")), host_machine().triple
    if triple not in ("", here):
        raise CodegenError(
            "target kind 'c' compiles with the C compiler of this machine, which makes code for "
            f"{here!r}, not for {triple!r}; build for 'llvm' with -mtriple instead"
        )
    processor = "native" if target.mcpu == host().cpu else target.mcpu
    features = [f"-m{'no-' if item[0] == '-' else ''}{item[1:]}" for item in target.mattr]
    return [f"-march={processor}", *features]
