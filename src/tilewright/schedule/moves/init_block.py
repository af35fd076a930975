"""The initialization of a reduction as a block of its own, under loops of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright import arith, ir
from tilewright.arith.block_access import block_access_regions
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves import block_iterators
from tilewright.schedule.state import Values
from tilewright.schedule.state.scope import domains_of

_SPATIAL = ir.IterType.DATA_PAR


class GuardAcrossLoops(PrimitiveError):
    reason = (
        "the condition `{condition}` of block {block!r} does not say when its initialization runs"
    )
    remedy = "choose an outer loop"


def initialization(
    realize: ir.BlockRealize,
    loops: Sequence[ir.For],
    *,
    rename_loop: block_iterators.Rename,
    rename_iterator: block_iterators.Rename,
    annotations: Mapping[str, object],
) -> tuple[ir.Block, ir.Stmt]:
    """A block that runs the init statement, and the nest of those of `loops` that it needs."""
    block = realize.block
    spatial = [(iv, value) for iv, value in realize.bindings if iv.iter_type is _SPATIAL]
    used = {var for _, value in spatial for var in ir.nodes_of(value, ir.Var)}
    kept = [loop for loop in loops if loop.loop_var in used]
    dropped = {loop.loop_var for loop in loops} - used
    renamed = block_iterators.renamed_loops(kept, rename_loop)
    iter_vars, fresh = block_iterators.renamed_iterators(
        [iter_var for iter_var, _ in spatial], rename_iterator
    )
    assert block.init is not None
    body = ir.substitute(block.init, fresh)
    writes = tuple(ir.substitute(region, fresh) for region in block.writes)
    name = f"{block.name_hint}_init"
    notes = block_iterators.kept_annotations(annotations, fresh, block.iter_vars)
    init = ir.Block(iter_vars, (), writes, name, body, annotations=notes)
    if ir.has_load(body):
        init = ir.replace(init, reads=block_access_regions(init).reads)
    values = tuple(ir.substitute(value, renamed) for _, value in spatial)
    predicate = ir.substitute(_guard_of_any(realize, loops, dropped), renamed)
    return init, in_copies(kept, renamed, ir.BlockRealize(values, predicate, init))


def _guard_of_any(
    realize: ir.BlockRealize, loops: Sequence[ir.For], dropped: set[ir.Var]
) -> ir.PrimExpr:
    """What must hold for the block to run in any iteration of the dropped loops."""
    guards: list[ir.PrimExpr] = []
    first = {loop.loop_var: loop.min for loop in loops if loop.loop_var in dropped}
    for part in ir.conjuncts(realize.predicate):
        if not ir.uses_var(part, dropped.__contains__):
            guards.append(part)
        elif ir.uses_var(part, lambda var: var not in dropped):
            guards.append(_in_first_iteration(realize.block, part, loops, first))
    return ir.logical_and(*guards)


def _in_first_iteration(
    block: ir.Block, part: ir.PrimExpr, loops: Sequence[ir.For], first: Values
) -> ir.PrimExpr:
    """A condition that holds in some iteration only if it holds in the first."""
    if isinstance(part, ir.LT):
        analyzer = arith.Analyzer(domains_of(loops))
        smallest = ir.substitute(part.a, first)
        fixed = not ir.uses_var(part.b, first.__contains__)
        if fixed and analyzer.can_prove(smallest <= part.a):
            return analyzer.simplify(ir.less(smallest, part.b))
    raise GuardAcrossLoops(block, block=block.name_hint, condition=part)


def in_copies(loops: Sequence[ir.For], renamed: Values, body: ir.Stmt) -> ir.Stmt:
    """A statement in the same loops with other variables."""
    for loop in reversed(loops):
        variable = renamed[loop.loop_var]
        assert isinstance(variable, ir.Var)
        begin, extent = loop.min, loop.extent
        if type(extent) is not ir.IntImm or type(begin) is not ir.IntImm:
            begin, extent = ir.substitute(begin, renamed), ir.substitute(extent, renamed)
        notes = block_iterators.kept_annotations(loop.annotations, renamed)
        body = ir.For(variable, begin, extent, loop.kind, body, loop.thread_binding, notes)
    return body


def reads_with_writes(block: ir.Block) -> tuple[ir.BufferRegion, ...]:
    """What an update reads: what it accumulates into, and the reads that are declared."""
    read = {region.buffer for region in block.reads}
    missing = tuple(region for region in block.writes if region.buffer not in read)
    return (*missing, *block.reads)


def in_serial_copies(loops: Sequence[ir.For], renamed: Values, body: ir.Stmt) -> ir.Stmt:
    """A statement in serial loops like the given ones, with other variables."""
    bare = [ir.For(loop.loop_var, loop.min, loop.extent, ir.ForKind.SERIAL, body) for loop in loops]
    return in_copies(bare, renamed, body)
