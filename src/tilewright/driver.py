"""`build`: from TensorIR to a module that runs, with the backend that the target's kind names."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias, overload

from tilewright.codegen.artifact import Library
from tilewright.codegen.base import Backend, Texts
from tilewright.codegen.host.code_key import key_of
from tilewright.codegen.host.code_store import code_store
from tilewright.codegen.module_info import FunctionInfo, ModuleInfo, why_unrunnable
from tilewright.codegen.registry import DEFAULT_KIND, find_backend, has_backend
from tilewright.codegen.stages import MACHINE_CODE, BuildStages, CodeStage
from tilewright.errors import ArgumentError
from tilewright.intrin.agreement import disagreement
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.ir.json import save_json
from tilewright.ir.tensor_intrin import TensorIntrin, install_numeric_check
from tilewright.lowering.context import PassContext
from tilewright.lowering.host_abi import is_kernel, signature_of
from tilewright.lowering.pipeline import Stage, Stages, Watcher, run_pipeline
from tilewright.lowering.prepacking import separate_packing
from tilewright.runtime import extern_symbols as externs
from tilewright.runtime.module import Module, ModuleSources, Unrunnable
from tilewright.space.layout_free import with_bound_weights
from tilewright.target import Target
from tilewright.target.intrin_rules import rules_from_outside

# Gives a program the schedule that is known for a target, or returns it as it is.
ScheduleSource: TypeAlias = Callable[[IRModule, Target], IRModule]
TargetLike: TypeAlias = str | dict[str, Any] | Target

NO_ALIAS = "tir.noalias"

_sources: ContextVar[tuple[ScheduleSource, ...]] = ContextVar("tilewright_schedules", default=())


@contextmanager
def schedules_from(source: ScheduleSource) -> Iterator[None]:
    """Let `build` ask for the schedule of every program that it is given meanwhile."""
    token = _sources.set((*_sources.get(), source))
    try:
        yield
    finally:
        _sources.reset(token)


@overload
def lower(
    program: PrimFunc | IRModule,
    target: Target | str | None = None,
    *,
    stages: Literal[False] | Watcher = False,
) -> IRModule: ...
@overload
def lower(
    program: PrimFunc | IRModule, target: Target | str | None = None, *, stages: Literal[True]
) -> Stages: ...


def lower(
    program: PrimFunc | IRModule,
    target: Target | str | None = None,
    *,
    stages: bool | Watcher = False,
) -> IRModule | Stages:
    """Lower a function or module to the form that the code generator for the target consumes.

    `stages=True` gives every intermediate module instead of the last one; a callable is called with
    the name of each pass and the module after it.
    """
    chosen = Target(target) if isinstance(target, str) else target or Target.current()
    if stages is True:
        return _lowering_stages(program, chosen)
    watch = stages if callable(stages) else None
    return run_pipeline(program, chosen, _pipeline_backend(chosen).passes, watch)


def _lowering_stages(program: PrimFunc | IRModule, target: Target | None) -> Stages:
    kept: list[Stage] = []
    passes = _pipeline_backend(target).passes
    run_pipeline(program, target, passes, lambda name, module: kept.append(Stage(name, module)))
    return Stages((Stage("input", as_module(program)), *kept))


def _pipeline_backend(target: Target | None) -> Backend:
    """The backend whose passes run; programs for kinds without one can still be looked at."""
    kind = DEFAULT_KIND if target is None else target.kind.name
    return find_backend(kind if has_backend(kind) else DEFAULT_KIND)


@overload
def build(
    program: PrimFunc | IRModule,
    target: TargetLike | None = None,
    *,
    name: str | None = None,
    extern_symbols: Mapping[str, int] | None = None,
    prepacked: bool = False,
    stages: Literal[False] = False,
) -> Module: ...
@overload
def build(
    program: PrimFunc | IRModule,
    target: TargetLike | None = None,
    *,
    name: str | None = None,
    prepacked: bool = False,
    stages: Literal[True],
) -> BuildStages: ...


def build(
    program: PrimFunc | IRModule,
    target: TargetLike | None = None,
    *,
    name: str | None = None,
    extern_symbols: Mapping[str, int] | None = None,
    prepacked: bool = False,
    stages: bool = False,
) -> Module | BuildStages:
    """Compile a function or a module; without a target for this machine.

    `name` is what a function is to be called in the module, instead of its own name.

    `extern_symbols` gives the addresses of C functions that the program calls by name; others are
    looked for in the libraries loaded with `runtime.load_library`, and in this process. Inside
    `with database:` a program gets the best schedule that the database knows for it. Others keep
    the loops they have; on a GPU, those of a function without threads are shared among threads.

    Code is compiled for arrays that do not overlap what it writes. Where arguments of a call do,
    the same is compiled again without that assumption, unless the function says `tir.noalias`:
    then such arguments are refused.

    A schedule may store weights in a layout of its own. Functions then pack them at each call;
    `Module.bind` packs once. With `prepacked` they take packed weights instead, and the module has
    a function `<name>.pack.<position>` for each of these: for callers in C, say.

    With `stages` nothing is loaded: the module after every pass comes back, and the texts and the
    machine code that were made of it.
    """
    if not isinstance(program, PrimFunc | IRModule):
        raise ArgumentError(
            f"build() takes a PrimFunc or an IRModule, got {type(program).__name__}"
        )
    if name is not None and isinstance(program, PrimFunc):
        program = program.with_attr("global_symbol", name)
    chosen = resolve_target(target)
    given = as_module(program)

    def scheduled(module: IRModule) -> IRModule:
        sources = _sources.get()
        known = sources[-1](module, chosen) if sources else module
        return _with_threads(known, chosen) if "gpu" in chosen.keys else known

    def with_packing_apart() -> tuple[IRModule, bool]:
        bound = scheduled(with_bound_weights(given))
        separated = separate_packing(bound)
        return separated, separated is not bound

    if stages:
        module = with_packing_apart()[0] if prepacked else scheduled(given)
        return _build_stages(_with_distinct_arguments(module), chosen)

    def made(module: IRModule) -> Module:
        distinct = _with_distinct_arguments(module)
        fast = _compiled(distinct, chosen, extern_symbols, lambda: lower_for_build(module, chosen))
        if distinct is module:
            return fast
        plainly = functools.partial(lower, module, chosen)
        return fast.with_overlaps(lambda: _compiled(module, chosen, extern_symbols, plainly))

    def for_packed_weights() -> Module | None:
        separated, packs = with_packing_apart()
        return made(separated) if packs else None

    if prepacked:
        return made(with_packing_apart()[0])
    return made(scheduled(given)).with_prepacked(for_packed_weights)


def _with_threads(module: IRModule, target: Target) -> IRModule:
    from tilewright.space.gpu.plain_loops import with_threads  # slow to import

    return with_threads(module, target)


def _build_stages(module: IRModule, target: Target) -> BuildStages:
    lowered = lower(module, target, stages=True)
    compiled, backend = compile_lowered(lowered.module, target), _backend_of(target)
    assert compiled.artifact is not None
    formats = backend.stages or (target.kind.name,)
    texts = [CodeStage(format_, compiled.get_source(format_)) for format_ in formats]
    code = (*texts, CodeStage(MACHINE_CODE, compiled.artifact.data))
    return BuildStages(lowered.items, code, compiled.artifact)


def lower_for_build(module: IRModule, target: Target) -> IRModule:
    """What `build` lowers a module to.

    The last ones are remembered: whoever tries whether a schedule can be built pays for it once.
    """
    if PassContext.is_active():
        return lower(_with_distinct_arguments(module), target)
    return _lowered_by_default(module, target)


@functools.lru_cache(maxsize=2)
def _lowered_by_default(module: IRModule, target: Target) -> IRModule:
    return lower(_with_distinct_arguments(module), target)


def build_key(module: IRModule, target: Target, compiler: str = "") -> str | None:
    """A key of all that the code of a program depends on: equal keys mean equal code.

    None if something is in play that has no text.
    """
    context = PassContext.current()
    if context.instruments or context.option("tir.add_lower_pass") or rules_from_outside():
        return None
    options = [context.opt_level, dict(context.config), sorted(context.disabled_pass)]
    text = json.dumps([target.export(), options], sort_keys=True, default=str)
    return key_of(text, compiler, save_json(module))


def _compiled(
    module: IRModule,
    target: Target,
    extern_symbols: Mapping[str, int] | None,
    lowered: Callable[[], IRModule],
) -> Module:
    """A module that runs: compiled now, or kept since an earlier run."""

    def compile_now() -> Module:
        return build_lowered(lowered(), target, extern_symbols=extern_symbols)

    store, backend = code_store(), _backend_of(target)
    key = None if store is None or extern_symbols else build_key(module, target, backend.version())
    if store is None or key is None:
        return compile_now()
    kept = backend.recall(store, key, externs.runtime_symbols)
    if kept is not None:
        return _recalled(*kept, functools.cache(compile_now))
    made = compile_now()
    if made.artifact is not None and not why_unrunnable(made.info):
        backend.keep(store, key, made.info, made.artifact)
    return made


def _recalled(info: ModuleInfo, library: Library, compile_now: Callable[[], Module]) -> Module:
    """Kept code as a module; what was not kept is compiled again when it is asked for."""
    sources = ModuleSources(lambda: compile_now().sources.make())
    return Module(info, library, sources).with_artifact(lambda: compile_now().artifact)


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
    program: PrimFunc | IRModule, target: TargetLike | None = None, *, may_abort: bool = False
) -> Module:
    """Compile without loading: for code that another process, or another machine, will run.

    `may_abort` says that a compiler may end this process: that it is a worker which is replaced.
    """
    chosen = resolve_target(target)
    return compile_lowered(lower(as_module(program), chosen), chosen, may_abort=may_abort)


def compile_lowered(lowered: IRModule, target: Target, *, may_abort: bool = False) -> Module:
    """Compile a lowered module without loading it."""
    backend = _backend_of(target)
    source = backend.generate(lowered, target)
    artifact = backend.compile(source, target, may_abort=may_abort)
    functions = tuple(
        FunctionInfo(name, signature_of(func), bool(func.attrs.get(NO_ALIAS, False)))
        for name, func in lowered.functions.items()
        if not is_kernel(func)
    )
    info = ModuleInfo(
        functions,
        source.messages,
        str(target),
        artifact.meta.get("triple", ""),
        target.mcpu if target.is_cpu else "",
        tuple(sorted(target.features)) if target.is_cpu else (),
        device=backend.device,
    )

    def texts() -> Texts:
        return {**backend.texts(lowered, source, target), "script": lambda: str(lowered)}

    return Module(
        info, Unrunnable("it was compiled, but not loaded"), ModuleSources(texts), artifact
    )


def load(module: Module, extern_symbols: Mapping[str, int] | None = None) -> Module:
    """A compiled module in this process; one for another machine still says why it cannot run."""
    artifact = module.artifact
    if artifact is None:
        return module
    reason, library = why_unrunnable(module.info), None
    if not reason:
        imports = externs.imports_of(artifact.undefined, extern_symbols or {})
        library = find_backend(artifact.kind).load(artifact, imports)
    return Module(module.info, library or Unrunnable(reason), module.sources, artifact)


def warm_up() -> None:
    """Load what compiling for this machine takes, before the first program comes."""
    find_backend(DEFAULT_KIND).warm_up()


def resolve_target(target: TargetLike | None) -> Target:
    """The target that a caller names: without one that of the scope, or this machine."""
    if target is None:
        found = Target.current() or Target(DEFAULT_KIND)
    else:
        found = target if isinstance(target, Target) else Target(target)
    _backend_of(found)
    return found


def _backend_of(target: Target) -> Backend:
    return find_backend(target.kind.name)


def _numeric_difference(intrin: TensorIntrin) -> str | None:
    return disagreement(intrin, lambda func, target: build_lowered(lower(func, target), target))


install_numeric_check(_numeric_difference)
