"""A schedule primitive of your own, in one file: `rotate` starts a loop somewhere in the middle.

Once registered it is a method of every schedule; traces record it, print it as Python, store it as
JSON and replay it from either, as they do with the built-in primitives.

    python examples/custom_primitive.py
"""

from __future__ import annotations

from tilewright import tir
from tilewright.ir import For, IntImm, IterType, Var, replace, substitute
from tilewright.schedule import LoopRV, Primitive, PrimitiveError, Trace, register_primitive
from tilewright.schedule.conditions.checks import loop_iter_type
from tilewright.schedule.state.sref import StmtSRef
from tilewright.schedule.state.state import ScheduleState
from tilewright.schedule.trace.instruction import given
from tilewright.testing.handwritten import matmul

# --- what can go wrong: one class a precondition --------------------------------------------------


class NotSpatial(PrimitiveError):
    reason = "loop {loop!r} is part of a reduction, which has to start at its first iteration"
    remedy = "rotate loops over the result only"


class UnknownExtent(PrimitiveError):
    reason = "loop {loop!r} runs from {begin} over {extent} iterations; both must be known numbers"


# --- the transformation: check everything, then replace one statement -----------------------------


def rotate(state: ScheduleState, loop: StmtSRef, by: int) -> None:
    """Let `loop` begin with iteration `by` and end with the one before it."""
    stmt = loop.loop
    begin, extent = stmt.min, stmt.extent
    if not (isinstance(extent, IntImm) and isinstance(begin, IntImm) and begin.value == 0):
        raise UnknownExtent(loop, loop=loop.name, begin=begin, extent=extent)
    if loop_iter_type(state, loop) is not IterType.DATA_PAR:
        raise NotSpatial(loop, loop=loop.name)
    variable = Var(f"{stmt.loop_var.name}_rotated", stmt.loop_var.dtype)
    body = substitute(stmt.body, {stmt.loop_var: (variable + by % extent.value) % extent})
    rotated: For = replace(stmt, loop_var=variable, body=body)
    state.replace(loop, rotated)


# --- the registration: how a schedule runs it and how a trace writes it ---------------------------


@register_primitive
class Rotate(Primitive[None]):
    """The step: its fields are the arguments of the method, those with handles are `given()`."""

    method = "rotate"
    loop: LoopRV = given()
    by: int

    def run(self, sch: tir.Schedule) -> None:
        rotate(sch.state, sch.get_sref(self.loop), self.by)


def main() -> None:
    """Use it beside other primitives and replay the trace."""
    func = matmul(8, 8, 4)
    sch = tir.Schedule(func)
    i, j, k = sch.get_loops("C")
    sch.rotate(i, by=3)
    sch.vectorize(j)
    print(sch.mod.script(), "\n")
    print(sch.trace, "\n")
    assert sch.trace is not None
    print(sch.trace.as_json(), "\n")
    again = tir.Schedule(func)
    Trace.apply_json_to_schedule(sch.trace.as_json(), again)
    print("replayed:", tir.structural_equal(again.mod, sch.mod))
    try:
        sch.rotate(k, by=1)
    except PrimitiveError as error:
        print(error)


if __name__ == "__main__":
    main()
