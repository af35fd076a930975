"""Weights whose layout was rewritten: their packing becomes a function of its own.

`RewriteLayout` lets a kernel read a copy of a weight in a layout of its own. Weights do not change
between calls, so the copy need be made only once. Here the copying leaves the kernel `f`, which
takes the copy instead of the weight, and becomes `f.pack.N` for the argument at position N.
See docs/design/0011-packed-weights.md for who calls it, and when.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.ir.annotation_keys import LAYOUT_REWRITE_PREPROC
from tilewright.ir.tensor_intrin import root_block_of

_INFIX = ".pack."


@dataclass(frozen=True)
class _Packing:
    """A statement that copies a weight, which is the argument at a position, into its layout."""

    statement: ir.Stmt
    position: int
    source: ir.Buffer
    packed: ir.Buffer


def packing_of(name: str) -> tuple[str, int] | None:
    """The kernel and the argument that a function packs for, if that is what its name says."""
    kernel, infix, position = name.rpartition(_INFIX)
    return (kernel, int(position)) if infix and position.isdecimal() else None


def separate_packing(mod: ir.IRModule) -> ir.IRModule:
    """The module with the packing of its weights in functions of their own, if there is any."""
    kernels: dict[str, ir.PrimFunc] = {}
    packers: dict[str, ir.PrimFunc] = {}
    for name, func in mod.functions.items():
        packings = _packings(func)
        kernels[name] = _without(func, packings) if packings else func
        for packing in packings:
            own_name = f"{name}{_INFIX}{packing.position}"
            packers[own_name] = _packing_function(own_name, func, packing)
    return ir.IRModule({**kernels, **packers}, mod.attrs) if packers else mod


def packed_weights(func: ir.PrimFunc) -> list[str]:
    """The names of the arguments whose packing can be separated from a function."""
    return [packing.source.name for packing in _packings(func)]


def _packings(func: ir.PrimFunc) -> list[_Packing]:
    """In the order of the arguments."""
    return sorted(_found_packings(func), key=lambda packing: packing.position)


def _found_packings(func: ir.PrimFunc) -> Iterator[_Packing]:
    if not isinstance(func.body, ir.BlockRealize):
        return
    root = func.body.block
    statements = ir.statements_of(root.body)
    arguments = [func.buffer_map.get(param) for param in func.params]
    for statement in statements:
        blocks = ir.nodes_of(statement, ir.Block)
        block = next((each for each in blocks if LAYOUT_REWRITE_PREPROC in each.annotations), None)
        if block is None:
            continue
        source, packed = block.reads[0].buffer, block.writes[0].buffer
        own = any(buffer is packed for buffer in root.alloc_buffers)
        position = next((i for i, buffer in enumerate(arguments) if buffer is source), None)
        others = (node for each in statements if each is not statement for node in ir.walk(each))
        shared = any(getattr(node, "buffer", None) is source for node in others)
        if own and position is not None and not shared:
            yield _Packing(statement, position, source, packed)


def _without(func: ir.PrimFunc, packings: Sequence[_Packing]) -> ir.PrimFunc:
    """The kernel, which now takes packed weights."""
    root = root_block_of(func)
    gone = {id(packing.statement) for packing in packings}
    assert isinstance(root.body, ir.SeqStmt)
    rest = [statement for statement in root.body.seq if id(statement) not in gone]
    packed = [packing.packed for packing in packings]
    kept = tuple(b for b in root.alloc_buffers if not any(b is each for each in packed))
    buffer_map = dict(func.buffer_map)
    for packing in packings:
        buffer_map[func.params[packing.position]] = packing.packed
    body = _realize(func, ir.replace(root, body=ir.seq(rest), alloc_buffers=kept))
    return ir.replace(func, body=body, buffer_map=buffer_map)


def _packing_function(name: str, func: ir.PrimFunc, packing: _Packing) -> ir.PrimFunc:
    block = ir.replace(root_block_of(func), body=packing.statement, alloc_buffers=())
    source = func.params[packing.position]
    packed = ir.Var(packing.packed.name, source.dtype)
    return ir.PrimFunc(
        (source, packed),
        _realize(func, block),
        buffer_map={source: packing.source, packed: packing.packed},
        attrs={"global_symbol": name, "tir.noalias": True},
    )


def _realize(func: ir.PrimFunc, root: ir.Block) -> ir.BlockRealize:
    assert isinstance(func.body, ir.BlockRealize)
    return ir.replace(func.body, block=root)
