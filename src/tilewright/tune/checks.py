"""Whether a program can be tuned at all; asked before any time is spent."""

from __future__ import annotations

from tilewright.errors import IRError, TuneError
from tilewright.ir import (
    Block,
    Buffer,
    For,
    IntImm,
    IRModule,
    IterType,
    Node,
    PrimFunc,
    Stmt,
    children,
)
from tilewright.ir.numpy_bridge import to_numpy

_SCHEDULABLE = {IterType.DATA_PAR, IterType.COMM_REDUCE}


def check_can_be_tuned(mod: IRModule) -> None:
    """Raise with a reason if there is nothing to tune, or no way to do it."""
    if not mod.functions:
        raise TuneError("the module has no functions, so there is nothing to tune")
    for name, func in mod.functions.items():
        _check_parameters(name, func)
        blocks = [(block, loops) for block, loops in _blocks(func) if block.name_hint != "root"]
        if not blocks:
            raise TuneError(
                f"function {name!r} has no blocks, so there is nothing to schedule; write its "
                "statements inside `with T.block(...)`, or make it with te.create_prim_func"
            )
        opaque = [block.name_hint for block, in_loops in blocks if _is_opaque(block, in_loops)]
        if len(opaque) == len(blocks):
            names = ", ".join(hint or "one without a name" for hint in opaque[:3])
            raise TuneError(
                f"all blocks of function {name!r} are opaque ({names}): none of their iterators is "
                "spatial or reduce; use T.axis.spatial / T.axis.reduce"
            )


def _check_parameters(name: str, func: PrimFunc) -> None:
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            raise TuneError(
                f"parameter {param.name!r} of function {name!r} is a scalar; only functions of "
                "buffers with constant shapes can be tuned"
            )
        for extent in buffer.shape:
            if not isinstance(extent, IntImm):
                raise TuneError(
                    f"the shape of {buffer.name!r} in function {name!r} is symbolic ({extent}); "
                    "tune it for a certain size: replace the symbol by a number"
                )
        _check_type(name, buffer)


def _check_type(name: str, buffer: Buffer) -> None:
    """Arguments are made with NumPy, and filled with random numbers."""
    kind = buffer.dtype
    try:
        if not kind.is_handle:
            to_numpy(kind)
            return
    except IRError:
        pass
    raise TuneError(
        f"buffer {buffer.name!r} of function {name!r} holds {kind} values, which cannot be filled "
        "with random numbers to measure with; use a number type"
    )


def _blocks(func: PrimFunc) -> list[tuple[Block, bool]]:
    """All blocks, and whether loops run each of them several times."""
    found: list[tuple[Block, bool]] = []

    def visit(node: Node, in_loops: bool) -> None:
        if isinstance(node, Block):
            found.append((node, in_loops))
        inner = isinstance(node, For) or (in_loops and not isinstance(node, Block))
        for child in children(node):
            if isinstance(child, Stmt):
                visit(child, inner)

    visit(func.body, False)
    return found


def _is_opaque(block: Block, in_loops: bool) -> bool:
    """A block that runs once needs no iterators."""
    kinds = {iter_var.iter_type for iter_var in block.iter_vars}
    return not kinds & _SCHEDULABLE if kinds else in_loops
