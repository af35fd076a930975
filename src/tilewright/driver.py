"""`build`: from TensorIR to a module that runs."""

from __future__ import annotations

from typing import Any

from tilewright.codegen import llvm as llvm_codegen
from tilewright.errors import TargetError
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.lower import lower
from tilewright.lower.host_abi import signature_of
from tilewright.runtime.jit import MachineOptions, compile_ir, host_machine
from tilewright.runtime.module import Module, ModuleSources
from tilewright.target import Target


def build(
    program: PrimFunc | IRModule,
    target: str | dict[str, Any] | Target | None = None,
) -> Module:
    """Compile a function or a module; without a target for this machine."""
    machine_target = _target_of(target)
    module = as_module(program)
    lowered = lower(module, machine_target)
    source = llvm_codegen.generate(lowered, machine_target)
    compiled = compile_ir(source.text, _machine_of(machine_target))
    signatures = {name: signature_of(func) for name, func in lowered.functions.items()}
    sources = ModuleSources(
        {
            "ll": compiled.optimised_ir,
            "asm": compiled.assembly,
            "script": lambda: str(lowered),
            "generated-ll": lambda: source.text,
        }
    )
    return Module(compiled, signatures, source.messages, sources)


def _target_of(target: str | dict[str, Any] | Target | None) -> Target:
    if target is None:
        found = Target.current() or Target("llvm")
    else:
        found = target if isinstance(target, Target) else Target(target)
    if found.kind.name not in ("llvm", "c"):
        raise TargetError(f"build() compiles for llvm targets so far, not for {found.kind.name!r}")
    return found


def _machine_of(target: Target) -> MachineOptions:
    host = host_machine()
    if not {"mcpu", "mattr", "mtriple"} & target.attrs.keys():
        return host
    features = ",".join(target.mattr)
    return MachineOptions(target.mcpu, features, str(target.attrs.get("mtriple", host.triple)))
