"""Runs lowered GPU programs on NumPy arrays and notices threads that race.

Kernels that only use barriers of all threads run in step (`in_step`); those whose warps have roles
run as warps that take turns in a random order (`warps`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright import ir
from tilewright.testing.simt.bank_conflicts import BankConflicts
from tilewright.testing.simt.host import HostProgram
from tilewright.testing.simt.in_step import KernelInStep
from tilewright.testing.simt.threads import Array, RaceError, function_name
from tilewright.testing.simt.warps import run_warps

__all__ = ["BankConflicts", "RaceError", "run"]


def run(
    module: ir.IRModule,
    arrays: Sequence[Array],
    scalars: Sequence[int] = (),
    seed: int = 0,
    conflicts: BankConflicts | None = None,
) -> None:
    """Call the one function of a lowered module that is no kernel; it writes to its arrays.

    `seed` gives the order in which warps take turns. `conflicts` counts what threads that run in
    step ask of banks of shared memory.
    """
    (host,) = (func for func in module.functions.values() if "calling_conv" not in func.attrs)
    values: dict[ir.Var, Any] = {}
    pending, numbers = list(arrays), list(scalars)
    for param in host.params:
        values[param] = pending.pop(0) if param.dtype.is_handle else numbers.pop(0)

    def launch(kernel: ir.PrimFunc, sizes: Mapping[str, int], params: Mapping[ir.Var, Any]) -> None:
        if _has_roles(kernel):
            run_warps(kernel, sizes, params, seed)
        else:
            KernelInStep(sizes, params, conflicts).execute(kernel.body)

    HostProgram(module, launch, values).execute(host.body)


def _has_roles(kernel: ir.PrimFunc) -> bool:
    """Whether warps wait for each other one by one, with `mbarrier` objects."""
    calls = (call for call in ir.nodes_of(kernel.body, ir.Call) if isinstance(call.op, ir.Op))
    return any(function_name(call) == "tw_barrier_wait" for call in calls)
