"""`build`: from TensorIR to a module that runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeAlias

from tilewright.codegen import c as c_codegen
from tilewright.codegen.build_key import build_key
from tilewright.codegen.host.kept_code import keep_module, recall_module
from tilewright.codegen.host.kept_runtime import code_store
from tilewright.codegen.llvm import module as llvm_codegen
from tilewright.codegen.llvm.compiler import (
    CompiledObject,
    LoadedLibrary,
    MachineOptions,
    compile_ir,
    host_machine,
    load_objects,
    machine_options,
)
from tilewright.codegen.llvm.trial import compile_in_child
from tilewright.codegen.module_info import FunctionInfo, ModuleInfo, why_unrunnable
from tilewright.errors import ArgumentError, TargetError
from tilewright.intrin.agreement import disagreement
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.ir.tensor_intrin import TensorIntrin, install_numeric_check
from tilewright.lowering import lower
from tilewright.lowering.host_abi import signature_of
from tilewright.lowering.prepacking import separate_packing
from tilewright.runtime import extern_symbols as externs, packed_call, thread_pool
from tilewright.runtime.module import Library, Module, ModuleSources, Unrunnable
from tilewright.space.layout_free import with_bound_weights
from tilewright.target import Target

# Gives a program the schedule that is known for a target, or returns it as it is.
ScheduleSource: TypeAlias = Callable[[IRModule, Target], IRModule]

NO_ALIAS = "tir.noalias"
SOURCE_FORMATS = ("ll", "asm", "c", "script", "generated-ll")

_sources: ContextVar[tuple[ScheduleSource, ...]] = ContextVar("tilewright_schedules", default=())


@contextmanager
def schedules_from(source: ScheduleSource) -> Iterator[None]:
    """Let `build` ask for the schedule of every program that it is given meanwhile."""
    token = _sources.set((*_sources.get(), source))
    try:
        yield
    finally:
        _sources.reset(token)


def build(
    program: PrimFunc | IRModule,
    target: str | dict[str, Any] | Target | None = None,
    *,
    name: str | None = None,
    extern_symbols: Mapping[str, int] | None = None,
    prepacked: bool = False,
) -> Module:
    """Compile a function or a module; without a target for this machine.

    `name` is what a function is to be called in the module, instead of its own name.

    `extern_symbols` gives the addresses of C functions that the program calls by name; others are
    looked for in the libraries loaded with `runtime.load_library`, and in this process. Inside
    `with database:` a program gets the best schedule that the database knows for it.

    Code is compiled for arrays that do not overlap what it writes. Where arguments of a call do,
    the same is compiled again without that assumption, unless the function says `tir.noalias`:
    then such arguments are refused.

    A schedule may store weights in a layout of its own. Functions then pack them at each call;
    `Module.bind` packs once. With `prepacked` they take packed weights instead, and the module has
    a function `<name>.pack.<position>` for each of these: for callers in C, say.
    """
    if not isinstance(program, PrimFunc | IRModule):
        raise ArgumentError(
            f"build() takes a PrimFunc or an IRModule, got {type(program).__name__}"
        )
    if name is not None and isinstance(program, PrimFunc):
        program = program.with_attr("global_symbol", name)
    chosen = resolve_target(target)
    source = _sources.get()[-1] if _sources.get() else _as_it_is
    given = as_module(program)

    def compiled(module: IRModule) -> Module:
        return _compiled(module, chosen, extern_symbols)

    def made(module: IRModule) -> Module:
        distinct = _with_distinct_arguments(module)
        fast = compiled(distinct)
        return fast if distinct is module else fast.with_overlaps(lambda: compiled(module))

    def for_packed_weights() -> Module | None:
        bound = source(with_bound_weights(given), chosen)
        separated = separate_packing(bound)
        return None if separated is bound and not prepacked else made(separated)

    if prepacked:
        module = for_packed_weights()
        assert module is not None
        return module
    return made(source(given, chosen)).with_prepacked(for_packed_weights)


def _compiled(module: IRModule, target: Target, extern_symbols: Mapping[str, int] | None) -> Module:
    """A module that runs: compiled now, or kept since an earlier run."""

    def compile_now() -> Module:
        return build_lowered(lower(module, target), target, extern_symbols=extern_symbols)

    store = code_store()
    key = None if store is None or extern_symbols else build_key(module, target)
    if store is None or key is None:
        return compile_now()
    kept = recall_module(store, key, _runtime_symbols())
    if kept is not None:
        return _recalled(*kept, functools.cache(compile_now))
    made = compile_now()
    if made.compiled is not None and not why_unrunnable(made.info):
        keep_module(store, key, made.info, made.compiled)
    return made


def _recalled(info: ModuleInfo, library: Library, compile_now: Callable[[], Module]) -> Module:
    """Kept code as a module; what was not kept is compiled again when it is asked for."""
    texts = {fmt: partial(_source_of, compile_now, fmt) for fmt in SOURCE_FORMATS}
    module = Module(info, library, ModuleSources(texts))
    return module.with_compiled(lambda: compile_now().compiled)


def _source_of(make: Callable[[], Module], fmt: str) -> str:
    return make().get_source(fmt)


def _as_it_is(module: IRModule, target: Target) -> IRModule:
    """Where nobody knows a schedule."""
    return module


def _with_distinct_arguments(module: IRModule) -> IRModule:
    """Functions that do not say whether their arguments overlap are compiled as if they did not."""
    for name, func in module.functions.items():
        if NO_ALIAS not in func.attrs:
            module = module.with_function(name, func.with_attr(NO_ALIAS, True))
    return module


def build_lowered(
    lowered: IRModule, target: Target, *, extern_symbols: Mapping[str, int] | None = None
) -> Module:
    """Compile a module that has been lowered already."""
    return load(compile_lowered(lowered, target), extern_symbols)


def compile_only(
    program: PrimFunc | IRModule,
    target: str | dict[str, Any] | Target | None = None,
    *,
    may_abort: bool = False,
) -> Module:
    """Compile without loading: for code that another process, or another machine, will run.

    `may_abort` says that LLVM may end this process: that it is a worker which will be replaced.
    """
    chosen = resolve_target(target)
    return compile_lowered(lower(as_module(program), chosen), chosen, may_abort=may_abort)


def compile_lowered(lowered: IRModule, target: Target, *, may_abort: bool = False) -> Module:
    """Compile a lowered module without loading it."""
    source = llvm_codegen.generate(lowered, target)
    doubts = source.doubts(vectors=not may_abort)
    machine = _machine_of(target)
    compiled = (
        compile_in_child(source.text, machine, doubts)
        if doubts
        else compile_ir(source.text, machine)
    )
    info = _describe(lowered, source.messages, target, compiled.machine)
    makers = (
        compiled.optimised_ir,
        compiled.assembly,
        lambda: c_codegen.generate(lowered, target),
        lambda: str(lowered),
        lambda: source.text,
    )
    sources = ModuleSources(dict(zip(SOURCE_FORMATS, makers, strict=True)))
    return Module(info, Unrunnable("it was compiled, but not loaded"), sources, compiled)


def load(module: Module, extern_symbols: Mapping[str, int] | None = None) -> Module:
    """A compiled module in this process; one for another machine still says why it cannot run."""
    if module.compiled is None:
        return module
    reason = why_unrunnable(module.info)
    library = Unrunnable(reason) if reason else _load(module.compiled, extern_symbols or {})
    return Module(module.info, library, module.sources, module.compiled)


def _describe(
    lowered: IRModule, messages: tuple[str, ...], target: Target, machine: MachineOptions
) -> ModuleInfo:
    functions = tuple(
        FunctionInfo(name, signature_of(func), bool(func.attrs.get(NO_ALIAS, False)))
        for name, func in lowered.functions.items()
    )
    features = tuple(sorted(target.features))
    return ModuleInfo(functions, messages, str(target), machine.triple, target.mcpu, features)


def _runtime_symbols() -> dict[str, int]:
    return {**thread_pool.symbols(), packed_call.SYMBOL: packed_call.handler_address()}


def _load(compiled: CompiledObject, extern_symbols: Mapping[str, int]) -> LoadedLibrary:
    runtime = _runtime_symbols()
    wanted = [symbol for symbol in compiled.undefined if symbol not in runtime]
    return load_objects([compiled], {**runtime, **externs.resolve(wanted, extern_symbols)})


def resolve_target(target: str | dict[str, Any] | Target | None) -> Target:
    """The target that a caller names: without one that of the scope, or this machine."""
    if target is None:
        found = Target.current() or Target("llvm")
    else:
        found = target if isinstance(target, Target) else Target(target)
    if found.kind.name not in ("llvm", "c"):
        raise TargetError(f"build() compiles for llvm targets so far, not for {found.kind.name!r}")
    return found


def _machine_of(target: Target) -> MachineOptions:
    if not {"mcpu", "mattr", "mtriple"} & target.attrs.keys():
        return host_machine()
    triple = str(target.attrs.get("mtriple", ""))
    return machine_options(target.mcpu, ",".join(target.mattr), triple)


def _numeric_difference(intrin: TensorIntrin) -> str | None:
    return disagreement(intrin, lambda func, target: build_lowered(lower(func, target), target))


install_numeric_check(_numeric_difference)
