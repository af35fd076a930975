"""Textual LLVM IR to relocatable objects, through llvmlite: parse, verify, optimise, emit.

`codegen/host/loading.py` links such objects into this process, `linker.py` into libraries.

llvmlite is imported on first use, since loading it takes longer than the rest of the package.
All functions may be called from several threads: llvmlite serialises its calls, and nothing here
shares a module or a context between two compilations.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import re
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.llvm import optimizer
from tilewright.codegen.llvm.optimizer import DEFAULT_PIPELINE, OptimizerPipeline
from tilewright.errors import CodegenError
from tilewright.target import isa

# LLVM tunes by the name of the processor, and tunes some of them badly: its model of Zen 4 hoists
# loads until wide register tiles spill. The features say what the processor can do; the plain name
# says not to be clever about it. See docs/design/0002-llvm-pass-pipeline.md.
_PLAIN_TUNING = {"x86_64": "x86-64"}

_ERROR_POSITION = re.compile(r"<string>:(\d+):(\d+): error: (.*)")


@dataclass(frozen=True)
class MachineOptions:
    """What LLVM has to know of a machine. ``features`` is LLVM's own "+avx2,-sse4a" list."""

    cpu: str
    features: str
    triple: str


@lru_cache(maxsize=1)
def llvm() -> ModuleType:
    """llvmlite's binding module, with the machine's own target ready for use."""
    binding = importlib.import_module("llvmlite.binding")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()
    return binding


@lru_cache(maxsize=1)
def host_machine() -> MachineOptions:
    """The machine this process runs on: all its instructions, but LLVM's plain tuning."""
    binding = llvm()
    triple = binding.get_process_triple()
    return MachineOptions(
        cpu=_PLAIN_TUNING.get(triple.partition("-")[0]) or isa.host().cpu,
        features=binding.get_host_cpu_features().flatten(),
        triple=triple,
    )


def machine_of(artifact: Artifact) -> MachineOptions:
    """The machine that an object was compiled for."""
    return MachineOptions(**artifact.meta)


def machine_options(cpu: str = "", features: str = "", triple: str = "") -> MachineOptions:
    """The machine that ``-mcpu``, ``-mattr`` and ``-mtriple`` name, the host for what is not given.

    A ``cpu`` other than the host's brings its own features and its own tuning.
    """
    host = host_machine()
    if cpu in ("", "native", isa.host().cpu) and triple in ("", host.triple):
        joined = ",".join(part for part in (host.features, features) if part)
        return MachineOptions(host.cpu, joined, host.triple)
    return MachineOptions(cpu, features, triple or host.triple)


@lru_cache(maxsize=32)
def target_machine(machine: MachineOptions, codegen_level: int) -> Any:
    """LLVM's target machine for position-independent code; made once and shared."""
    return new_target_machine(machine, codegen_level)


def _target_of(triple: str) -> Any:
    """What LLVM has for a triple; that of other machines is made ready when one is asked for."""
    binding = llvm()
    with contextlib.suppress(RuntimeError):
        return binding.Target.from_triple(triple)
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    try:
        return binding.Target.from_triple(triple)
    except RuntimeError as error:
        raise CodegenError(
            f"this LLVM cannot compile for {triple!r} ({error});"
            f" this process can compile for {binding.get_process_triple()!r}"
        ) from error


def new_target_machine(machine: MachineOptions, codegen_level: int) -> Any:
    target = _target_of(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu,
        features=machine.features,
        opt=codegen_level,
        reloc="pic",
        codemodel="small",
    )


class _Unit:
    """One module in a context of its own, so that closing it frees every type it named."""

    def __init__(self, source: str, machine: MachineOptions, pipeline: OptimizerPipeline) -> None:
        binding = llvm()
        self.pipeline = pipeline
        self.target_machine = target_machine(machine, pipeline.codegen_level)
        self.context = binding.create_context()
        try:
            self.module = binding.parse_assembly(source, self.context)
        except RuntimeError as error:
            self.context.close()
            raise _parse_error(str(error), source) from error
        try:
            self.module.verify()
        except RuntimeError as error:
            self.__exit__()
            raise _verify_error(str(error), source) from error
        self.module.triple = machine.triple
        self.module.data_layout = str(self.target_machine.target_data)

    def __enter__(self) -> _Unit:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.module.close()
        self.context.close()

    def optimise(self) -> None:
        """Run the pipeline. A llvmlite pass manager is spent after one run, so make it anew."""
        binding = llvm()
        builder = binding.create_pass_builder(
            self.target_machine, binding.create_pipeline_tuning_options()
        )
        manager = binding.create_new_module_pass_manager()
        for step in self.pipeline.steps:
            if step in optimizer.PASS_METHODS:
                getattr(manager, optimizer.PASS_METHODS[step])()
                continue
            manager.run(self.module, builder)
            manager = binding.create_new_module_pass_manager()
            if step in optimizer.DEFAULT_PIPELINES:
                ready = self._builder(*optimizer.DEFAULT_PIPELINES[step])
                ready.getModulePassManager().run(self.module, ready)
                continue
            ready = self._builder(optimizer.SIMPLIFY_PIPELINES[step], vectorise=False)
            for function in self.module.functions:
                if not function.is_declaration:
                    ready.getFunctionPassManager().run(function, ready)
        manager.run(self.module, builder)

    def _builder(self, speed_level: int, vectorise: bool) -> Any:
        binding = llvm()
        tuning = binding.create_pipeline_tuning_options(speed_level)
        tuning.loop_vectorization = vectorise
        tuning.slp_vectorization = vectorise
        tuning.loop_interleaving = vectorise
        tuning.loop_unrolling = vectorise
        return binding.create_pass_builder(self.target_machine, tuning)


def compile_ir(
    source: str,
    machine: MachineOptions | None = None,
    pipeline: OptimizerPipeline = DEFAULT_PIPELINE,
) -> Artifact:
    """Compile textual LLVM IR into one position-independent relocatable object."""
    machine = machine or host_machine()
    with _Unit(source, machine, pipeline) as unit:
        unit.optimise()
        data = unit.target_machine.emit_object(unit.module)
        defined, undefined = _symbols(unit.module)
    return Artifact("llvm", data, defined, undefined, vars(machine))


def optimised_ir(
    source: str, machine: MachineOptions, pipeline: OptimizerPipeline = DEFAULT_PIPELINE
) -> str:
    """The IR after the optimiser; compiled again, since it is rarely asked for."""
    with _Unit(source, machine, pipeline) as unit:
        unit.optimise()
        return str(unit.module)


def assembly(
    source: str, machine: MachineOptions, pipeline: OptimizerPipeline = DEFAULT_PIPELINE
) -> str:
    """The machine code as assembly text; compiled again, since it is rarely asked for."""
    with _Unit(source, machine, pipeline) as unit:
        unit.optimise()
        return str(unit.target_machine.emit_assembly(unit.module))


def _symbols(module: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names this module offers to others, and names it wants from others."""
    local = (llvm().Linkage.internal, llvm().Linkage.private)
    defined: list[str] = []
    undefined: list[str] = []
    for value in itertools.chain(module.functions, module.global_variables):
        if value.is_declaration:
            if not value.name.startswith("llvm."):
                undefined.append(value.name)
        elif value.linkage not in local:
            defined.append(value.name)
    return tuple(defined), tuple(undefined)


def _parse_error(message: str, source: str) -> CodegenError:
    """LLVM's message with the line of the IR it speaks of."""
    match = _ERROR_POSITION.search(message)
    if match is None:
        return CodegenError(f"LLVM cannot parse the generated IR: {message}")
    line, column, reason = int(match[1]), int(match[2]), match[3]
    lines = source.splitlines()
    excerpt = lines[line - 1] if line <= len(lines) else ""
    return CodegenError(
        f"LLVM cannot parse the generated IR, line {line} column {column}: {reason}\n"
        f"  {excerpt}\n  {' ' * (column - 1)}^"
    )


def _verify_error(message: str, source: str) -> CodegenError:
    """The verifier prints instructions, not positions: find the first of them in the source."""
    reason, *shown = message.strip().splitlines()
    numbered = {line.strip(): number for number, line in enumerate(source.splitlines(), start=1)}
    found = [numbered[line.strip()] for line in shown if line.strip() in numbered]
    where = f", line {found[0]}" if found else ""
    details = "".join(f"\n  {line.strip()}" for line in shown)
    return CodegenError(f"LLVM rejects the generated IR{where}: {reason}{details}")
