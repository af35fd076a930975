"""Programs as they are written, with their loops shared among the threads of a GPU."""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.ir import AttrStmt, For, ForKind, IRModule, Node, PrimFunc, replace, updated
from tilewright.ir.patterns import rewrite, walk
from tilewright.schedule import Schedule
from tilewright.space.gpu.gpu_limits import MAX_THREADS, required_gpu_number
from tilewright.space.postprocs.rewrite_reduction_block import RewriteReductionBlock
from tilewright.space.postprocs.rewrite_unbound_block import RewriteUnboundBlock
from tilewright.target import Target


def plain_schedule(mod: IRModule, target: Target) -> Schedule:
    """The program as it is; on a GPU, its loops shared among threads, without which none runs."""
    if "gpu" not in target.keys:
        return Schedule(mod)
    functions = {name: _with_serial_loops(func) for name, func in mod.functions.items()}
    sch = Schedule(replace(mod, functions=functions))
    binding = RewriteUnboundBlock()
    binding.max_threads_per_block = required_gpu_number(target, MAX_THREADS, "a plain schedule")
    binding.apply(sch)
    RewriteReductionBlock().apply(sch)
    return sch


def _with_serial_loops(func: PrimFunc) -> PrimFunc:
    """The function without what it says of the cores and vectors of a CPU."""

    def serial(loop: For) -> For:
        kept = loop.kind in (ForKind.SERIAL, ForKind.THREAD_BINDING)
        return loop if kept else updated(loop, kind=ForKind.SERIAL)

    return func.with_body(rewrite(func.body, {For: serial}))


def with_threads(mod: IRModule, target: Target) -> IRModule:
    """A module for a GPU, where functions without threads share their loops among threads."""
    plain = {name: func for name, func in mod.functions.items() if not _has_threads(func)}
    changed = {name: _on_threads(func, target) for name, func in plain.items()}
    return replace(mod, functions={**mod.functions, **changed}) if changed else mod


def _has_threads(func: PrimFunc) -> bool:
    return any(map(_binds_a_thread, walk(func.body)))


def _on_threads(func: PrimFunc, target: Target) -> PrimFunc:
    try:
        return plain_schedule(IRModule({"main": func}), target).mod["main"]
    except ScheduleError:
        return func  # lowering says what cannot run


def _binds_a_thread(node: Node) -> bool:
    match node:
        case For():
            return node.thread_binding is not None
        case AttrStmt():
            return node.attr_key == "thread_extent"
    return False
