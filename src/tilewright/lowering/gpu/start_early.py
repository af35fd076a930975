"""Kernels that may be launched while the one before them still runs.

GPUs since sm_90 can start the blocks of a kernel while the last blocks of the one before it run, so
that launching costs next to nothing. Such a kernel waits for the other one itself, before it
touches memory, and then lets the next one start. (To let it start before the wait was seen to be
slower: blocks that only wait take room.) Kernels that say so already are left as they are.
"""

from __future__ import annotations

import re

from tilewright import ir
from tilewright.ir.intrinsics import call_extern
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.gpu.split_host_device import DEVICE_KERNEL
from tilewright.lowering.gpu.threads import launched_tag
from tilewright.target import Target

WAIT = "tw_wait_for_previous_grid"
_FIRST_ARCH = 90


@register_pass
class StartEarly(FunctionPass):
    """Let kernels start early, where the target can."""

    def run_function(self, func: ir.PrimFunc, target: Target | None = None) -> ir.PrimFunc:
        is_kernel = func.attrs.get("calling_conv") == DEVICE_KERNEL
        if not is_kernel or not _can_start_early(target) or _waits(func.body):
            return func
        return func.with_body(_after_waiting(func.body))


def _can_start_early(target: Target | None) -> bool:
    number = re.match(r"sm_(\d+)", "" if target is None else str(target.attrs.get("arch", "")))
    return number is not None and int(number[1]) >= _FIRST_ARCH


def _waits(body: ir.Stmt) -> bool:
    names = (node.value for node in ir.nodes_of(body, ir.StringImm))
    return WAIT in names


def _after_waiting(stmt: ir.Stmt) -> ir.Stmt:
    """Inside of all launches of threads, so that each thread waits."""
    if isinstance(stmt, ir.AttrStmt) and launched_tag(stmt):
        return ir.replace(stmt, body=_after_waiting(stmt.body))
    calls = (call_extern("void", name) for name in (WAIT, "tw_launch_next_grid"))
    return ir.seq([*map(ir.Evaluate, calls), stmt])
