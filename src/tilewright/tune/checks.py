"""Checks that a program can be tuned, and tells which of its parts no schedule changes.

Both happen before any time is spent on a search.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import ir
from tilewright.errors import IRError, TuneError
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.ir.patterns import nodes_of
from tilewright.schedule import Schedule
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.schedule.conditions.checks import why_not_compact
from tilewright.schedule.conditions.slices import free_positions
from tilewright.schedule.state.sref import StmtSRef
from tilewright.schedule.state.state import ScheduleState

_SCHEDULABLE = {ir.IterType.DATA_PAR, ir.IterType.COMM_REDUCE}


@dataclass(frozen=True)
class TuningRefusal:
    """Why a function is not tuned."""

    reason: str
    is_symbolic: bool = False  # it has a schedule all the same: the one without a search


def check_can_be_tuned(mod: ir.IRModule) -> None:
    """Raise with a reason if no function can be tuned, and that is not for its shapes alone."""
    if not mod.functions:
        raise TuneError("the module has no functions, so there is nothing to tune")
    refusals = [why_not_tuned(name, func) for name, func in mod.functions.items()]
    if None not in refusals:
        for refusal in refusals:
            if refusal is not None and not refusal.is_symbolic:
                raise TuneError(refusal.reason)


def why_not_tuned(name: str, func: ir.PrimFunc) -> TuningRefusal | None:
    """Why a function has nothing to tune, or there is no way to do it; None if it can be tuned."""
    return _about_parameters(name, func) or _about_blocks(name, func)


def _about_blocks(name: str, func: ir.PrimFunc) -> TuningRefusal | None:
    blocks = [(block, loops) for block, loops in _blocks(func) if block.name_hint != "root"]
    if not blocks:
        return TuningRefusal(
            f"function {name!r} has no blocks, so there is nothing to schedule; write its "
            "statements inside `with T.block(...)`, or make it with te.create_prim_func"
        )
    opaque = [block.name_hint for block, in_loops in blocks if _is_opaque(block, in_loops)]
    if len(opaque) < len(blocks):
        return None
    names = ", ".join(hint or "one without a name" for hint in opaque[:3])
    return TuningRefusal(
        f"all blocks of function {name!r} are opaque ({names}): none of their iterators is "
        "spatial or reduce; use T.axis.spatial / T.axis.reduce"
    )


def _about_parameters(name: str, func: ir.PrimFunc) -> TuningRefusal | None:
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            return TuningRefusal(
                f"parameter {param.name!r} of function {name!r} is a scalar; only functions of "
                "buffers with constant shapes can be tuned"
            )
        if not _has_number_type(buffer):
            return TuningRefusal(
                f"buffer {buffer.name!r} of function {name!r} holds {buffer.dtype} values, which "
                "cannot be filled with random numbers to measure with; use a number type"
            )
    for buffer in func.buffer_map.values():
        for extent in buffer.shape:
            if not isinstance(extent, ir.IntImm):
                return TuningRefusal(
                    f"the shape of {buffer.name!r} in function {name!r} is symbolic ({extent}), so "
                    "it keeps the schedule that is chosen without a search; to tune it for a "
                    "certain size, replace the symbol by a number",
                    is_symbolic=True,
                )
    return None


def _has_number_type(buffer: ir.Buffer) -> bool:
    """Arguments are made with NumPy, and filled with random numbers."""
    try:
        to_numpy(buffer.dtype)
    except IRError:
        return False
    return not buffer.dtype.is_handle


def _blocks(func: ir.PrimFunc) -> list[tuple[ir.Block, bool]]:
    """All blocks, and whether loops run each of them several times."""
    found: list[tuple[ir.Block, bool]] = []

    def visit(node: ir.Node, in_loops: bool) -> None:
        if isinstance(node, ir.Block):
            found.append((node, in_loops))
        inner = isinstance(node, ir.For) or (in_loops and not isinstance(node, ir.Block))
        for child in ir.statements_in(node):
            visit(child, inner)

    visit(func.body, False)
    return found


def _is_opaque(block: ir.Block, in_loops: bool) -> bool:
    """A block that runs once needs no iterators."""
    kinds = {iter_var.iter_type for iter_var in block.iter_vars}
    return not kinds & _SCHEDULABLE if kinds else in_loops


_OTHER_ITERATORS = {ir.IterType.ORDERED: "ordered", ir.IterType.OPAQUE: "opaque"}


def left_alone(mod: ir.IRModule) -> list[str]:
    """A sentence for each block whose loops stay as they are written, and each loop that does."""
    state = Schedule(mod).state
    sentences: list[str] = []
    for root in state.roots.values():
        blocks = state.child_blocks(root)
        reasons = {block: _reason(block, state) for block in blocks}
        tuned = sum(not reason for reason in reasons.values())
        sentences += [
            f"block {block.name!r} {reason}, so its loops stay as written; {_rest(tuned)}"
            for block, reason in reasons.items()
            if reason
        ]
        assert root.stmt is not None
        sentences += [
            f"loop {loop.loop_var.name!r} runs as often as data say (`{loop.extent}`), so it "
            "stays as written; the loops around it are tuned"
            for loop in nodes_of(root.stmt, ir.For)
            if not isinstance(loop.extent, ir.IntImm)
        ]
    return sentences


def _reason(block: StmtSRef, state: ScheduleState) -> str:
    """What keeps a block from being scheduled; empty: nothing does."""
    loops = block.loops
    if has_trivial_binding(block) and free_positions(block.block):
        return ""  # along some of its axes
    why = why_not_compact(state, loops[0], block) if loops else ""
    for iterator in block.block.iter_vars if why else ():
        if iterator.iter_type in _OTHER_ITERATORS:
            return f"has the {_OTHER_ITERATORS[iterator.iter_type]} iterator {iterator.var.name!r}"
    return why.removeprefix("it ")


def _rest(tuned: int) -> str:
    if not tuned:
        return (
            "to have it tuned, write into another buffer than it reads, or move the loop that "
            "carries values on into the block"
        )
    return "the other block is tuned" if tuned == 1 else f"the other {tuned} blocks are tuned"
