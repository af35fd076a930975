"""Programs as they are written, with their loops shared among the threads of a GPU."""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.ir import AttrStmt, For, ForKind, IRModule, PrimFunc, replace, updated
from tilewright.ir.patterns import nodes_of, rewrite
from tilewright.lowering.gpu.threads import THREAD_EXTENT, bound_tag
from tilewright.schedule import Schedule
from tilewright.space.gpu.gpu_limits import MAX_THREADS, required_gpu_number
from tilewright.space.postprocs.rewrite_reduction_block import RewriteReductionBlock
from tilewright.space.postprocs.rewrite_unbound_block import bind_unbound_blocks
from tilewright.target import Target


def plain_schedule(mod: IRModule, target: Target) -> Schedule:
    """The program as it is; on a GPU, its loops shared among threads, without which none runs."""
    if "gpu" not in target.keys:
        return Schedule(mod)
    functions = {name: _with_serial_loops(func) for name, func in mod.functions.items()}
    sch = Schedule(replace(mod, functions=functions))
    bind_unbound_blocks(sch, required_gpu_number(target, MAX_THREADS, "a plain schedule"))
    RewriteReductionBlock().apply(sch)
    return sch


def _with_serial_loops(func: PrimFunc) -> PrimFunc:
    """The function without what it says of the cores and vectors of a CPU."""

    def serial(loop: For) -> For:
        kept = loop.kind in (ForKind.SERIAL, ForKind.THREAD_BINDING)
        return loop if kept else updated(loop, kind=ForKind.SERIAL)

    return rewrite(func, {For: serial})


def with_threads(mod: IRModule, target: Target) -> IRModule:
    """A module for a GPU, where functions without threads share their loops among threads."""
    plain = {name: func for name, func in mod.functions.items() if not _binds_threads(func)}
    changed = {name: _on_threads(func, target) for name, func in plain.items()}
    return replace(mod, functions={**mod.functions, **changed}) if changed else mod


def _binds_threads(func: PrimFunc) -> bool:
    launches = (node.attr_key == THREAD_EXTENT for node in nodes_of(func.body, AttrStmt))
    return any(map(bound_tag, nodes_of(func.body, For))) or any(launches)


def _on_threads(func: PrimFunc, target: Target) -> PrimFunc:
    try:
        return plain_schedule(IRModule({"main": func}), target).mod["main"]
    except ScheduleError:
        return func  # lowering says what cannot run
