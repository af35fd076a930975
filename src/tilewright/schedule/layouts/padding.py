"""Elements that a padded layout adds to a buffer: assumed, filled or computed.

An input is assumed to hold the padding value there. Otherwise somebody has to write it: the block
that computes the buffer, if it can run over the new layout as a whole, or a nest of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import arith, ir
from tilewright.ir import intrinsics
from tilewright.ir.node import NodeT
from tilewright.schedule.caches.copy_block import iterators_over, store_block
from tilewright.schedule.layouts.layout import axes_of
from tilewright.schedule.moves.block_iterators import IteratorSubstitution
from tilewright.schedule.regions.buffer_access import AccessChanger
from tilewright.schedule.state import leaf_realizes
from tilewright.schedule.state.scope import domain_of
from tilewright.schedule.state.splice import loop_nest


@dataclass(frozen=True)
class LayoutPadding:
    """The elements a layout adds, and what they hold."""

    old: ir.Buffer
    new: ir.Buffer
    inverse: arith.IndexMap  # new indices -> old indices
    is_padding: ir.PrimExpr  # over the inputs of `inverse`
    value: arith.IndexMap  # new indices -> the value there

    def at(self, variables: Sequence[ir.Var]) -> tuple[ir.PrimExpr, ir.PrimExpr]:
        """Whether an element is padding, and what it holds then."""
        inverse = self.inverse.with_dtype(variables[0].dtype) if variables else self.inverse
        condition = ir.substitute(
            _retyped(self.is_padding, self.inverse, inverse),
            dict(zip(inverse.initial_indices, variables, strict=True)),
        )
        value = self.value.with_dtype(variables[0].dtype) if variables else self.value
        mapping = dict(zip(value.initial_indices, variables, strict=True))
        return condition, ir.substitute(value.final_indices[0], mapping)


def _retyped(condition: ir.PrimExpr, old: arith.IndexMap, new: arith.IndexMap) -> ir.PrimExpr:
    """A condition over the inputs of one map as one over those of another."""
    if old is new:
        return condition
    carrier = arith.IndexMap(old.initial_indices, (condition,)).with_dtype(
        new.initial_indices[0].dtype
    )
    mapping = dict(zip(carrier.initial_indices, new.initial_indices, strict=True))
    return ir.substitute(carrier.final_indices[0], mapping)


# --- statements of their own --------------------------------------------------------------------


def assumption(padding: LayoutPadding) -> ir.Stmt:
    """A nest that promises the padding of an input."""
    variables, iters = _iterators(padding.new)
    condition, value = padding.at(variables)
    load = ir.BufferLoad(padding.new, tuple(variables))
    promise = ir.Evaluate(
        intrinsics.assume(ir.logical_or(ir.logical_not(condition), load == value))
    )
    block = ir.Block(
        tuple(iters),
        (ir.BufferRegion.from_point(padding.new, variables),),
        (),
        f"buffer_{padding.new.name}_assumptions",
        promise,
    )
    return _nest(padding.new, block, None)


def fill(padding: LayoutPadding) -> ir.Stmt:
    """A nest that writes the padding."""
    variables, iters = _iterators(padding.new)
    store = ir.BufferStore(padding.new, padding.at(variables)[1], tuple(variables))
    block = store_block(f"buffer_{padding.new.name}_padding", iters, store)
    return _nest(padding.new, block, padding)


def _iterators(buffer: ir.Buffer) -> tuple[list[ir.Var], tuple[ir.IterVar, ...]]:
    iters = iterators_over(buffer.shape, "v_axis")
    return [iter_var.var for iter_var in iters], iters


def _nest(buffer: ir.Buffer, block: ir.Block, guard: LayoutPadding | None) -> ir.Stmt:
    loops = axes_of(buffer.shape)
    predicate = ir.TRUE if guard is None else guard.at(loops)[0]
    realize = ir.BlockRealize(tuple(loops), predicate, block)
    return loop_nest(list(zip(loops, buffer.shape, strict=True)), realize)


def with_fill(body: ir.Stmt, padding: LayoutPadding) -> ir.Stmt:
    """A scope body with the padding written right after the last statement that writes there."""
    items = ir.statements_of(body)
    last = max(index for index, item in enumerate(items) if is_written(item, padding.new))
    return ir.seq([*items[: last + 1], fill(padding), *items[last + 1 :]])


def is_written(stmt: ir.Stmt, buffer: ir.Buffer) -> bool:
    """True when a block directly under a statement writes a buffer."""
    return any(
        region.buffer is buffer for leaf in leaf_realizes(stmt) for region in leaf.block.writes
    )


# --- the block that computes the buffer -----------------------------------------------------------


@dataclass(frozen=True)
class _Writer:
    """A nest that computes all of a buffer: its loops, its block, the loops over the buffer."""

    loops: list[ir.For]
    realize: ir.BlockRealize
    first: int  # position of the first loop over the buffer; they are consecutive
    iters: list[ir.Var]  # the iterators that index the buffer, in the order of its dimensions


def padded_writer(
    body: ir.Stmt, padding: LayoutPadding
) -> tuple[ir.For, ir.Stmt, dict[ir.Block, ir.Block]] | None:
    """The nest that computes the old buffer, and its successor that also writes the padding.

    None where the buffer is not computed by one plain nest; `body` is that of the scope.
    """
    writers = [
        leaf
        for leaf in leaf_realizes(body)
        if any(region.buffer is padding.old for region in leaf.block.writes)
    ]
    if len(writers) != 1:
        return None
    for item in ir.statements_of(body):
        if isinstance(item, ir.For) and any(leaf is writers[0] for leaf in leaf_realizes(item)):
            writer = _plain_writer(item, writers[0], padding.old)
            if writer is not None:
                nest, block = _rewritten(writer, padding)
                return item, nest, {writer.realize.block: block}
    return None


def _plain_writer(top: ir.For, realize: ir.BlockRealize, buffer: ir.Buffer) -> _Writer | None:
    loops: list[ir.For] = []
    node: ir.Stmt = top
    while isinstance(node, ir.For):
        if not is_plain_loop(node):
            return None
        loops.append(node)
        node = node.body
    block = realize.block
    if node is not realize or not ir.is_true(realize.predicate) or len(block.writes) != 1:
        return None
    if (iters := _index_iters(block, buffer)) is None:
        return None
    position = {loop.loop_var: index for index, loop in enumerate(loops)}
    bound = realize.values
    if not all(isinstance(value, ir.Var) and value in position for value in bound.values()):
        return None
    if len({id(value) for value in bound.values()}) != len(loops):
        return None
    places = sorted(position[bound[var]] for var in iters)  # type: ignore[index]
    if places != list(range(places[0], places[0] + len(places))):
        return None
    return _Writer(loops, realize, places[0], iters)


def is_plain_loop(loop: ir.For) -> bool:
    """A serial loop from 0 without annotations."""
    return loop.kind is ir.ForKind.SERIAL and not loop.annotations and ir.is_zero(loop.min)


def _index_iters(block: ir.Block, buffer: ir.Buffer) -> list[ir.Var] | None:
    """The spatial iterators that index a buffer, if every access uses just them and all of it."""
    indices = only_indices(block, buffer)
    if indices is None or next(ir.nodes_of(block, ir.BlockRealize), None) is not None:
        return None
    domains = {iv.var: iv for iv in block.iter_vars}
    result: list[ir.Var] = []
    for index, extent in zip(indices, buffer.shape, strict=True):
        iter_var = domains.get(index) if isinstance(index, ir.Var) else None
        if iter_var is None or iter_var.iter_type is not ir.IterType.DATA_PAR:
            return None
        if not ir.expr_deep_equal(domain_of(iter_var).extent, extent):
            return None
        result.append(iter_var.var)
    return result if len(set(result)) == len(result) else None


def only_indices(node: ir.Node, buffer: ir.Buffer) -> tuple[ir.PrimExpr, ...] | None:
    """The indices of a buffer, if all its accesses have the same and no view can have others."""
    indices: tuple[ir.PrimExpr, ...] | None = None
    for each in ir.walk(node):
        if isinstance(each, ir.MatchBufferRegion):
            return None
        if isinstance(each, ir.BufferLoad | ir.BufferStore) and each.buffer is buffer:
            indices = each.indices if indices is None else indices
            if not all(map(operator.is_, indices, each.indices)):
                return None
    return indices


def _rewritten(writer: _Writer, padding: LayoutPadding) -> tuple[ir.Stmt, ir.Block]:
    old = writer.realize.block
    variables, iters = _iterators(padding.new)
    changed: ir.Block = AccessChanger(padding.old, padding.new, tuple(variables)).visit(old)
    inverse = padding.inverse.map_indices(variables)
    replaced = dict(zip(writer.iters, inverse, strict=True))
    kept = [iv for iv in old.iter_vars if iv.var not in replaced]
    changed = IteratorSubstitution(replaced, (*iters, *kept)).block(changed)
    condition, value = padding.at(variables)
    changed = with_padded_stores(changed, padding.new, condition, value)
    loops = axes_of(padding.new.shape)
    bindings: list[ir.PrimExpr] = []
    iter_vars: list[ir.IterVar] = []
    for iv, binding in zip(old.iter_vars, writer.realize.iter_values, strict=True):
        if iv.var not in replaced:
            iter_vars.append(iv)
            bindings.append(binding)
        elif iv.var is next(old_iv.var for old_iv in old.iter_vars if old_iv.var in replaced):
            iter_vars.extend(iters)
            bindings.extend(loops)
    block = ir.replace(changed, iter_vars=tuple(iter_vars))
    body: ir.Stmt = ir.BlockRealize(tuple(bindings), ir.TRUE, block)
    for index, loop in reversed(list(enumerate(writer.loops))):
        if not writer.first <= index < writer.first + len(writer.iters):
            body = ir.replace(loop, body=body)
        elif index == writer.first:
            body = loop_nest(list(zip(loops, padding.new.shape, strict=True)), body)
    return body, block


def with_padded_stores(
    node: NodeT, buffer: ir.Buffer, condition: ir.PrimExpr, padding: ir.PrimExpr
) -> NodeT:
    """Store the padding value where an element is padding."""

    def padded(store: ir.BufferStore) -> ir.BufferStore:
        if store.buffer is not buffer:
            return store
        value = intrinsics.if_then_else(condition, padding, store.value)
        return ir.replace(store, value=value)

    return ir.rewrite(node, {ir.BufferStore: padded})
