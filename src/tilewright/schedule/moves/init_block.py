"""The initialization of a reduction as a block of its own, under loops of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import (
    LT,
    TRUE,
    Block,
    BlockRealize,
    BufferRegion,
    For,
    ForKind,
    IntImm,
    IterType,
    PrimExpr,
    Stmt,
    Var,
    conjuncts,
    has_load,
    less,
    logical_and,
    nodes_of,
    substitute,
    uses_var,
)
from tilewright.ir.access import block_access_regions
from tilewright.ir.node import replace
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves.block_iterators import kept_annotations

Rename = Callable[[str], str]


class GuardAcrossLoops(PrimitiveError):
    reason = (
        "the condition `{condition}` of block {block!r} does not say when its initialization runs"
    )
    remedy = "choose an outer loop"


def initialization(
    realize: BlockRealize,
    loops: Sequence[For],
    *,
    rename_loop: Rename,
    rename_iterator: Rename,
    annotations: Mapping[str, Any],
) -> tuple[Block, Stmt]:
    """A block that runs the init statement, and the nest of those of `loops` that it needs."""
    block = realize.block
    spatial = [
        (iter_var, value)
        for iter_var, value in zip(block.iter_vars, realize.iter_values, strict=True)
        if iter_var.iter_type is IterType.DATA_PAR
    ]
    used = {var for _, value in spatial for var in nodes_of(value, Var)}
    kept = [loop for loop in loops if loop.loop_var in used]
    dropped = {loop.loop_var for loop in loops} - used
    renamed: dict[Var, PrimExpr] = {
        loop.loop_var: Var(rename_loop(loop.loop_var.name), loop.loop_var.dtype) for loop in kept
    }
    fresh: dict[Var, PrimExpr] = {}
    iter_vars = []
    for iter_var, _ in spatial:
        variable = Var(rename_iterator(iter_var.var.name), iter_var.var.dtype)
        fresh[iter_var.var] = variable
        iter_vars.append(replace(iter_var, var=variable))
    assert block.init is not None
    body = substitute(block.init, fresh)
    writes = tuple(substitute(region, fresh) for region in block.writes)
    name = f"{block.name_hint}_init"
    notes = kept_annotations(annotations, fresh, block.iter_vars)
    init = Block(tuple(iter_vars), (), writes, name, body, annotations=notes)
    if has_load(body):
        init = replace(init, reads=block_access_regions(init).reads)
    values = tuple(substitute(value, renamed) for _, value in spatial)
    predicate = substitute(_guard_of_any(realize, loops, dropped), renamed)
    nest: Stmt = BlockRealize(values, predicate, init)
    for loop in reversed(kept):
        nest = copied_loop(loop, renamed, nest)
    return init, nest


def _guard_of_any(realize: BlockRealize, loops: Sequence[For], dropped: set[Var]) -> PrimExpr:
    """What must hold for the block to run in any iteration of the dropped loops."""
    guard: PrimExpr = TRUE
    first = {loop.loop_var: loop.min for loop in loops if loop.loop_var in dropped}
    for part in conjuncts(realize.predicate):
        if not uses_var(part, dropped.__contains__):
            guard = logical_and(guard, part)
        elif uses_var(part, lambda var: var not in dropped):
            guard = logical_and(guard, _in_first_iteration(realize.block, part, loops, first))
    return guard


def _in_first_iteration(
    block: Block, part: PrimExpr, loops: Sequence[For], first: Mapping[Var, PrimExpr]
) -> PrimExpr:
    """A condition that holds in some iteration only if it holds in the first."""
    if isinstance(part, LT):
        analyzer = Analyzer()
        analyzer.bind_all({loop.loop_var: loop.domain for loop in loops})
        smallest = substitute(part.a, first)
        fixed = not uses_var(part.b, first.__contains__)
        if fixed and analyzer.can_prove(smallest <= part.a):
            return analyzer.simplify(less(smallest, part.b))
    raise GuardAcrossLoops(block, block=block.name_hint, condition=part)


def copied_loop(loop: For, renamed: Mapping[Var, PrimExpr], body: Stmt) -> For:
    """The same loop with another variable and body."""
    variable = renamed[loop.loop_var]
    assert isinstance(variable, Var)
    begin, extent = loop.min, loop.extent
    if type(extent) is not IntImm or type(begin) is not IntImm:
        begin, extent = substitute(begin, renamed), substitute(extent, renamed)
    notes = kept_annotations(loop.annotations, renamed)
    return For(variable, begin, extent, loop.kind, body, loop.thread_binding, notes)


def reads_with_writes(block: Block) -> tuple[BufferRegion, ...]:
    """What an update reads: what it accumulates into, and the reads that are declared."""
    read = {region.buffer for region in block.reads}
    missing = tuple(region for region in block.writes if region.buffer not in read)
    return (*missing, *block.reads)


def in_serial_copies(loops: Sequence[For], renamed: Mapping[Var, PrimExpr], body: Stmt) -> Stmt:
    """A statement in serial loops like the given ones, with other variables."""
    for loop in reversed(loops):
        body = For(
            renamed[loop.loop_var],  # type: ignore[arg-type]
            substitute(loop.min, renamed),
            substitute(loop.extent, renamed),
            ForKind.SERIAL,
            body,
        )
    return body
