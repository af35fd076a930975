"""Kernels of a model for a GPU: each different program is scheduled and compiled once.

Finding a schedule takes a second or two of Python for each, so they are made by several processes
where there are cores for that.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tilewright import driver, ir
from tilewright.codegen.artifact import Artifact
from tilewright.codegen.module_info import ModuleInfo
from tilewright.database import Database
from tilewright.errors import GraphError, RuntimeFailure
from tilewright.graph.external import is_external
from tilewright.graph.fusion import FusedGroup
from tilewright.graph.graph import Graph
from tilewright.graph.passes.split_attention import attention_shape
from tilewright.ir.json import load_json, save_json
from tilewright.lowering.prepacking import separate_packing
from tilewright.measure.pool import PoolOptions, Task, WorkerPool
from tilewright.model.kernels import (
    KernelCall,
    ModelKernel,
    SamePrograms,
    groups_of,
    program_of,
)
from tilewright.model.schedules import (
    CALCULATED,
    FromDatabase,
    KernelOrigin,
    ScheduledKernel,
    calculating,
)
from tilewright.runtime.module import Module, ModuleSources, Unrunnable
from tilewright.runtime.threads import available_cores
from tilewright.space.gpu.attention_kernel import attention_kernel
from tilewright.target import Target
from tilewright.tune.context import normalize_mod
from tilewright.tune.fallback import default_schedule

PERFORM = "tilewright.model.gpu_kernels:perform"
_SECONDS = 300.0  # for one kernel, on a busy machine
_WORTH_A_POOL = 4  # kernels: workers start for half a second
_ENOUGH_CORES = 3


class _Request(msgspec.Struct, frozen=True, array_like=True):
    """A program to compile; one that has its schedule already stays as it is."""

    module: str
    target: dict[str, object]
    is_scheduled: bool


class _Made(msgspec.Struct, frozen=True, array_like=True):
    """A compiled module on its way between processes."""

    info: ModuleInfo
    artifact: Artifact
    source: str


def compile_gpu_calls(
    graph: Graph, target: Target, database: Database | None = None
) -> list[KernelCall]:
    """All kernels of a graph; those that compute the same are one."""
    _refuse_external(graph)
    groups = groups_of(graph)
    programs = [program_of(group, graph) for group in groups]
    known: SamePrograms[int] = SamePrograms()
    different: list[ir.PrimFunc] = []
    places = [_place_of(func, different, known) for func in programs]
    written = {place: written_kernel(group) for group, place in zip(groups, places, strict=True)}
    known_to = None if database is None else FromDatabase(database, calculating(database))
    found = [
        _known_schedule(func, written[place], target, known_to)
        for place, func in enumerate(different)
    ]
    requests = [_request(*pair, target) for pair in zip(different, found, strict=True)]
    modules = _compiled(different, requests)
    origins = [CALCULATED if known is None else known.origin for known in found]
    kernels = [ModelKernel(*parts) for parts in zip(different, modules, origins, strict=True)]
    return [
        KernelCall(kernels[place], group, (*group.inputs, *group.outputs))
        for group, place in zip(groups, places, strict=True)
    ]


def _place_of(func: ir.PrimFunc, different: list[ir.PrimFunc], known: SamePrograms[int]) -> int:
    """Where among different programs this one stands; a new one is added."""
    place = known.find(func)
    if place is None:
        place = len(different)
        different.append(func)
        known.add(func, place)
    return place


def _compiled(programs: Sequence[ir.PrimFunc], requests: Sequence[bytes]) -> list[Module]:
    workers = min(available_cores(), len(requests))
    if len(requests) < _WORTH_A_POOL or workers < _ENOUGH_CORES:
        return [_loaded(perform(request)) for request in requests]
    pool = WorkerPool(PoolOptions(workers))
    try:
        outcomes = pool.run([Task(PERFORM, request, _SECONDS) for request in requests])
    finally:
        pool.close()
    for func, outcome in zip(programs, outcomes, strict=True):
        if outcome.failure is not None:
            name = func.attrs["global_symbol"]
            raise RuntimeFailure(outcome.complaint(f"compiling {name}", _SECONDS))
    return [_loaded(outcome.payload) for outcome in outcomes]


def _known_schedule(
    func: ir.PrimFunc, written: ir.PrimFunc | None, target: Target, records: FromDatabase | None
) -> ScheduledKernel | None:
    """What needs no calculation: a kernel that is written out, or one of a database."""
    if written is not None:
        return ScheduledKernel(normalize_mod(written), KernelOrigin(note="written out"))
    return None if records is None else records.known(func, target)


def _request(func: ir.PrimFunc, known: ScheduledKernel | None, target: Target) -> bytes:
    text = save_json(normalize_mod(func) if known is None else known.mod)
    return msgspec.msgpack.encode(_Request(text, target.export(), known is not None))


def _refuse_external(graph: Graph) -> None:
    external = [node for node in graph.nodes if is_external(node)]
    if external:
        names = ", ".join(dict.fromkeys(node.source or node.op for node in external))
        raise GraphError(
            f"{graph.name} has no kernels for {names}, which run on the CPU; a model for a GPU "
            "needs kernels for all of its operators"
        )


def written_kernel(group: FusedGroup) -> ir.PrimFunc | None:
    """The kernel of a group for which one is written out, thread by thread."""
    (node, *others) = group.nodes
    if node.op != "nn.head_attention" or others:
        return None
    shape = attention_shape(node)
    return None if shape is None else attention_kernel(shape)


def perform(payload: bytes) -> bytes:
    """The task of a worker: a schedule for a program, and its machine code."""
    request = msgspec.msgpack.decode(payload, type=_Request)
    module, target = load_json(request.module), Target(request.target)
    assert isinstance(module, ir.IRModule)
    scheduled = module if request.is_scheduled else default_schedule(module, target).mod
    made = driver.compile_only(_without_overlaps(separate_packing(scheduled)), target)
    assert made.artifact is not None
    return msgspec.msgpack.encode(_Made(made.info, made.artifact, made.get_source()))


def _without_overlaps(module: ir.IRModule) -> ir.IRModule:
    """Values of a model never overlap what is written."""
    for name, func in module.functions.items():
        module = module.with_function(name, func.with_attr(driver.NO_ALIAS, True))
    return module


def _loaded(payload: bytes) -> Module:
    made = msgspec.msgpack.decode(payload, type=_Made)
    sources = ModuleSources(lambda: {"cuda": lambda: made.source})
    return driver.load(Module(made.info, Unrunnable("it is not loaded"), sources, made.artifact))
