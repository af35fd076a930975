"""Whether a program can be tuned at all; asked before any time is spent."""

from __future__ import annotations

from tilewright.errors import TuneError
from tilewright.ir import (
    Block,
    BlockRealize,
    IntImm,
    IRModule,
    IterType,
    Node,
    PrimFunc,
    children,
)


def check_can_be_tuned(mod: IRModule) -> None:
    """Raise with a reason if there is nothing to tune, or no way to do it."""
    for name, func in mod.functions.items():
        _check_shapes(name, func)
        blocks = [block for block in _blocks(func.body) if block.name_hint != "root"]
        if not blocks:
            raise TuneError(
                f"function {name!r} has no blocks, so there is nothing to schedule; write its "
                "statements inside `with T.block(...)`, or make it with te.create_prim_func"
            )
        opaque = [block.name_hint for block in blocks if _is_opaque(block)]
        if len(opaque) == len(blocks):
            raise TuneError(
                f"all blocks of function {name!r} are opaque ({', '.join(opaque[:3])}): their "
                "iterators say neither spatial nor reduce; use T.axis.spatial / T.axis.reduce"
            )


def _check_shapes(name: str, func: PrimFunc) -> None:
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
        kind = buffer.dtype
        if kind.is_handle or kind.lanes > 1:
            raise TuneError(
                f"buffer {buffer.name!r} of function {name!r} holds {kind} values, which cannot "
                "be filled with random numbers to measure with; use a number type"
            )


def _blocks(node: Node) -> list[Block]:
    found = [node.block] if isinstance(node, BlockRealize) else []
    for child in children(node):
        found += _blocks(child)
    return found


def _is_opaque(block: Block) -> bool:
    kinds = {IterType.DATA_PAR, IterType.COMM_REDUCE}
    return bool(block.iter_vars) and not any(v.iter_type in kinds for v in block.iter_vars)
