"""Textual LLVM IR to machine code in this process, through llvmlite.

Three steps that can be used and timed apart: ``compile_ir`` (parse, verify, optimise, emit one
relocatable object), ``load_objects`` (link objects into memory) and the function addresses of the
``LoadedLibrary`` that comes back. The same object bytes go into an exported library.

llvmlite is imported on first use, since loading it takes longer than the rest of the package.
All functions may be called from several threads: llvmlite serialises its calls, and nothing here
shares a module or a context between two compilations.
"""

from __future__ import annotations

import importlib
import itertools
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import Any

from tilewright.codegen.llvm.optimizer import (
    DEFAULT_PIPELINE,
    DEFAULT_PIPELINES,
    PASS_METHODS,
    SIMPLIFY_PIPELINES,
    PassPipeline,
)
from tilewright.errors import CodegenError

# LLVM keeps about 11 kB of every library it ever loaded until its engine goes away.
LIBRARIES_PER_ENGINE = 256

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


@dataclass(frozen=True)
class CompileTimes:
    """Seconds spent in each step of one compilation."""

    parse: float
    optimise: float
    emit: float

    @property
    def total(self) -> float:
        """Seconds of the whole compilation."""
        return self.parse + self.optimise + self.emit


@dataclass(frozen=True)
class CompiledObject:
    """One relocatable object, with everything needed to show how it came about."""

    source: str = field(repr=False)
    machine: MachineOptions
    pipeline: PassPipeline
    object_bytes: bytes = field(repr=False)
    defined: tuple[str, ...]
    undefined: tuple[str, ...]
    times: CompileTimes

    def optimised_ir(self) -> str:
        """The IR after the pass pipeline; compiled again, since it is rarely asked for."""
        with _Unit(self.source, self.machine, self.pipeline) as unit:
            unit.optimise()
            return str(unit.module)

    def assembly(self) -> str:
        """The machine code as assembly text; compiled again, since it is rarely asked for."""
        with _Unit(self.source, self.machine, self.pipeline) as unit:
            unit.optimise()
            return str(unit.target_machine.emit_assembly(unit.module))


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
        cpu=_PLAIN_TUNING.get(triple.partition("-")[0]) or binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        triple=triple,
    )


def machine_options(cpu: str = "", features: str = "", triple: str = "") -> MachineOptions:
    """The machine that ``-mcpu``, ``-mattr`` and ``-mtriple`` name, the host for what is not given.

    A ``cpu`` other than the host's brings its own features and its own tuning.
    """
    host = host_machine()
    if cpu in ("", "native", llvm().get_host_cpu_name()) and triple in ("", host.triple):
        joined = ",".join(part for part in (host.features, features) if part)
        return MachineOptions(host.cpu, joined, host.triple)
    return MachineOptions(cpu, features, triple or host.triple)


@lru_cache(maxsize=32)
def target_machine(machine: MachineOptions, codegen_level: int) -> Any:
    """LLVM's target machine for position-independent code; made once and shared."""
    return _new_target_machine(machine, codegen_level)


def _new_target_machine(machine: MachineOptions, codegen_level: int) -> Any:
    binding = llvm()
    try:
        target = binding.Target.from_triple(machine.triple)
    except RuntimeError as error:
        raise CodegenError(
            f"LLVM here cannot compile for {machine.triple!r} ({error});"
            f" this process can compile for {binding.get_process_triple()!r}"
        ) from error
    return target.create_target_machine(
        cpu=machine.cpu,
        features=machine.features,
        opt=codegen_level,
        reloc="pic",
        codemodel="small",
    )


class _Unit:
    """One module in a context of its own, so that closing it frees every type it named."""

    def __init__(self, source: str, machine: MachineOptions, pipeline: PassPipeline) -> None:
        binding = llvm()
        self.pipeline = pipeline
        self.target_machine = target_machine(machine, pipeline.codegen_level)
        self.context: Any = binding.create_context()
        try:
            self.module: Any = binding.parse_assembly(source, self.context)
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
            if step in PASS_METHODS:
                getattr(manager, PASS_METHODS[step])()
                continue
            manager.run(self.module, builder)
            manager = binding.create_new_module_pass_manager()
            if step in SIMPLIFY_PIPELINES:
                self._run_simplify(SIMPLIFY_PIPELINES[step])
            else:
                self._run_default(*DEFAULT_PIPELINES[step])
        manager.run(self.module, builder)

    def _run_simplify(self, speed_level: int) -> None:
        builder = self._builder(speed_level, vectorise=False)
        for function in self.module.functions:
            if not function.is_declaration:
                builder.getFunctionPassManager().run(function, builder)

    def _run_default(self, speed_level: int, vectorise: bool) -> None:
        builder = self._builder(speed_level, vectorise)
        builder.getModulePassManager().run(self.module, builder)

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
    pipeline: PassPipeline = DEFAULT_PIPELINE,
) -> CompiledObject:
    """Compile textual LLVM IR into one position-independent relocatable object."""
    machine = machine or host_machine()
    start = time.perf_counter()
    with _Unit(source, machine, pipeline) as unit:
        parsed = time.perf_counter()
        unit.optimise()
        optimised = time.perf_counter()
        object_bytes = unit.target_machine.emit_object(unit.module)
        emitted = time.perf_counter()
        defined, undefined = _symbols(unit.module)
    times = CompileTimes(parsed - start, optimised - parsed, emitted - optimised)
    return CompiledObject(source, machine, pipeline, object_bytes, defined, undefined, times)


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
    for line in shown:
        if line.strip() in numbered:
            where = f", line {numbered[line.strip()]}"
            break
    else:
        where = ""
    details = "".join(f"\n  {line.strip()}" for line in shown)
    return CodegenError(f"LLVM rejects the generated IR{where}: {reason}{details}")


class _Engine:
    """One LLJIT that takes a bounded number of libraries."""

    def __init__(self) -> None:
        machine = _new_target_machine(host_machine(), codegen_level=2)
        self.lljit = llvm().create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)
        self.free_names = iter(range(LIBRARIES_PER_ENGINE))


class _EngineSlot:
    """Hands out the engine that still has room; a full one dies with its last library."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engine: _Engine | None = None

    def take(self) -> tuple[_Engine, str]:
        """An engine and a library name that is unused in it."""
        with self._lock:
            name = None if self._engine is None else next(self._engine.free_names, None)
            if self._engine is None or name is None:
                self._engine = _Engine()
                name = next(self._engine.free_names)
            return self._engine, f"library{name}"


_engines = _EngineSlot()


class LoadedLibrary:
    """Objects linked into this process; the addresses hold until ``close`` or collection."""

    def __init__(self, engine: _Engine, tracker: Any, addresses: Mapping[str, int]) -> None:
        self._tracker: Any = tracker
        self._engine: _Engine | None = engine
        self._addresses = dict(addresses)

    def __getitem__(self, name: str) -> int:
        if self._tracker is None:
            raise CodegenError(f"cannot look up {name!r}: the library has been unloaded")
        if name not in self._addresses:
            known = ", ".join(sorted(self._addresses)) or "nothing"
            raise CodegenError(f"the library does not define {name!r}; it defines {known}")
        return self._addresses[name]

    def __contains__(self, name: object) -> bool:
        return name in self._addresses

    @property
    def symbols(self) -> dict[str, int]:
        """Every exported name with its address."""
        return dict(self._addresses)

    def close(self) -> None:
        """Unload the code. Calling one of its functions afterwards is undefined."""
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            tracker.close()
        self._engine = None

    def keep_forever(self) -> LoadedLibrary:
        """Give up unloading: for code that other threads may still run while Python exits."""
        if self._tracker is not None and self._engine is not None:
            self._tracker.detach()
            self._engine.lljit.detach()
        return self

    def __del__(self, is_exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_tracker", None) is None:
            return
        if is_exiting():
            self.keep_forever()  # parts of llvmlite may be gone, and the system frees everything
        else:
            self.close()  # before the engine that holds the library goes


def load_objects(
    objects: Iterable[CompiledObject],
    imports: Mapping[str, int] | None = None,
) -> LoadedLibrary:
    """Link ``objects`` in memory. Names they lack come from ``imports``, then from this process."""
    engine, name = _engines.take()
    return _link(engine, name, tuple(objects), imports or {})


def load_permanently(
    objects: Iterable[CompiledObject],
    imports: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Link ``objects`` for the rest of the process's life and return their addresses."""
    return _link(_Engine(), "permanent", tuple(objects), imports or {}).keep_forever().symbols


def _link(
    engine: _Engine,
    name: str,
    objects: tuple[CompiledObject, ...],
    imports: Mapping[str, int],
) -> LoadedLibrary:
    defined = [symbol for unit in objects for symbol in unit.defined]
    builder = llvm().JITLibraryBuilder().add_current_process()
    for unit in objects:
        builder.add_object_img(unit.object_bytes)
    for symbol, address in _resolve(objects, set(defined), imports).items():
        builder.import_symbol(symbol, address)
    for symbol in defined:
        builder.export_symbol(symbol)
    try:
        tracker = builder.link(engine.lljit, name)
    except RuntimeError as error:
        raise CodegenError(f"LLVM cannot load the compiled code: {error}") from error
    return LoadedLibrary(engine, tracker, {symbol: tracker[symbol] for symbol in defined})


def _resolve(
    objects: tuple[CompiledObject, ...], defined: set[str], imports: Mapping[str, int]
) -> dict[str, int]:
    """Addresses of all undefined names; LLVM itself would not say which one is missing."""
    wanted = {symbol for unit in objects for symbol in unit.undefined} - defined
    resolved: dict[str, int] = {}
    missing: list[str] = []
    for symbol in sorted(wanted):
        address = imports.get(symbol) or llvm().address_of_symbol(symbol)
        if address:
            resolved[symbol] = address
        else:
            missing.append(symbol)
    if missing:
        raise CodegenError(
            f"the compiled code calls {', '.join(missing)}, which neither the runtime nor this"
            " process defines; pass its address in `imports` or load the library that has it"
        )
    return resolved
