"""`cache_index`: compute index expressions of a block ahead, into buffers of their own."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import ir
from tilewright.schedule.caches.copy_block import iterators_over, realize_over, store_block
from tilewright.schedule.caches.place import CachePlace
from tilewright.schedule.caches.stage import ScopeEdit, check_storage_scope, mark_copy_block
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import BlockRV, leaf_realizes
from tilewright.schedule.state.scope import holds_leaf
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class NegativeThreshold(PrimitiveError):
    reason = "cse_thresh is {threshold}, expected at least 0"
    remedy = "it says how often an expression must occur to be computed ahead"


class NestedBlocks(PrimitiveError):
    reason = "block {block!r} holds other blocks"
    remedy = "cache the indices of the blocks inside it"


@register_primitive
class CacheIndex(Primitive[list[BlockRV]]):
    """Compute ahead what depends on iterators alone, if it occurs `cse_thresh` times or more."""

    block: BlockRV = given()
    storage_scope: str
    cse_thresh: int

    def run(self, sch: ScheduleCore) -> list[BlockRV]:
        state, block, threshold = sch.state, sch.get_sref(self.block), sch.int_of(self.cse_thresh)
        check_storage_scope(self.storage_scope)
        if threshold < 0:
            raise NegativeThreshold(block, threshold=threshold)
        top, stmt = block.scope_root, block.block
        if next(leaf_realizes(stmt.body), None) is not None:
            raise NestedBlocks(block=block)
        tables, body = _choose(stmt, self.storage_scope, max(threshold, 1))
        if not tables:
            return []
        reads = tuple(ir.BufferRegion.from_point(table.buffer, table.indices) for table in tables)
        changed = ir.replace(stmt, body=body, reads=(*stmt.reads, *reads))
        nests = [table.nest() for table in tables]
        edit = ScopeEdit(top, reuse={stmt: changed}, buffers=[table.buffer for table in tables])
        items = top.body.seq if isinstance(top.body, ir.SeqStmt) else ()
        anchor = next((item for item in items if holds_leaf(item, stmt)), top.body)
        for nest, _ in nests:
            edit.insert(CachePlace(top, anchor), nest)
        edit.apply(state)
        return [sch.block_rv(mark_copy_block(state, made, complete=True)) for _, made in nests]


@dataclass(frozen=True)
class _Table:
    """An expression over iterators, the buffer that holds its values, and where they lie."""

    number: int
    expr: ir.PrimExpr
    iterators: tuple[ir.IterVar, ...]
    buffer: ir.Buffer

    @property
    def indices(self) -> tuple[ir.PrimExpr, ...]:
        return tuple(iter_var.var for iter_var in self.iterators)

    def nest(self) -> tuple[ir.Stmt, ir.Block]:
        """Loops with a block that fill the buffer."""
        iterators = iterators_over(self.buffer.shape)
        pairs = zip(self.iterators, iterators, strict=True)
        renamed: dict[ir.Var, ir.PrimExpr] = {old.var: new.var for old, new in pairs}
        at = tuple(renamed.values())
        store = ir.BufferStore(self.buffer, ir.substitute(self.expr, renamed), at)
        block = store_block(f"index_{self.number}", iterators, store)
        return realize_over(self.buffer.shape, block), block


def _choose(block: ir.Block, scope: str, threshold: int) -> tuple[list[_Table], ir.Stmt]:
    """The tables for a block, largest expressions first, and its body with them."""
    finder = _Candidates(block)
    finder.visit(block.body)
    tables: list[_Table] = []
    body = block.body
    for expr, _ in sorted(finder.found, key=lambda found: -found[1]):
        table = _table(block, len(tables), expr, scope)
        changed, count = _with_lookups(body, expr, ir.BufferLoad(table.buffer, table.indices))
        if count >= threshold:
            tables.append(table)
            body = changed
    return tables, body


def _table(block: ir.Block, number: int, expr: ir.PrimExpr, scope: str) -> _Table:
    by_var = {iter_var.var: iter_var for iter_var in block.iter_vars}
    iterators = tuple(by_var[var] for var in ir.free_vars(expr) if var in by_var)
    shape = tuple(iter_var.dom.extent for iter_var in iterators if iter_var.dom is not None)
    name = f"index_var_{number}"
    data = ir.Var(name, ir.HANDLE, ir.PointerType(expr.dtype, scope))
    return _Table(number, expr, iterators, ir.Buffer(data, expr.dtype, shape, name=name))


class _Candidates(ir.Visitor):
    """Finds the expressions in stored values that use nothing but iterators from 0."""

    def __init__(self, block: ir.Block) -> None:
        self._iterators = {
            iter_var.var
            for iter_var in block.iter_vars
            if iter_var.dom is not None and ir.is_zero(iter_var.dom.min)
        }
        self._bound: set[ir.Var] = {iter_var.var for iter_var in block.iter_vars} - self._iterators
        self._seen: dict[int, list[ir.PrimExpr]] = {}
        self.found: list[tuple[ir.PrimExpr, int]] = []  # with their sizes

    def visit_for(self, node: ir.For) -> None:
        self._bound.add(node.loop_var)
        self.visit(node.body)

    def visit_let_stmt(self, node: ir.LetStmt) -> None:
        self._bound.add(node.var)
        self._measure(node.value)
        self.visit(node.body)

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        self._measure(node.value)

    def _measure(self, expr: ir.PrimExpr) -> int | None:
        """How many nodes an expression has; None if it cannot be computed ahead."""
        if isinstance(expr, ir.Let):
            self._bound.add(expr.var)
        sizes = [
            self._measure(child) for child in ir.children(expr) if isinstance(child, ir.PrimExpr)
        ]
        if not self._is_plain(expr) or None in sizes:
            return None
        total = 1 + sum(size for size in sizes if size is not None)
        if total > 1 and any(var in self._iterators for var in ir.free_vars(expr)):
            self._record(expr, total)
        return total

    def _is_plain(self, expr: ir.PrimExpr) -> bool:
        match expr:
            case ir.BufferLoad() | ir.Let():
                return False
            case ir.Var():
                return expr not in self._bound and not expr.dtype.is_handle
            case ir.Call():
                return isinstance(expr.op, ir.Op) and expr.op.effect is ir.CallEffect.PURE
            case (
                ir.Div() | ir.Mod() | ir.FloorDiv() | ir.FloorMod()
            ):  # never divide by 0 ahead of a check
                return isinstance(expr.b, ir.IntImm) or expr.dtype.is_float
        return expr.dtype.lanes == 1

    def _record(self, expr: ir.PrimExpr, size: int) -> None:
        alike = self._seen.setdefault(ir.structural_hash(expr), [])
        if not any(ir.expr_deep_equal(expr, other) for other in alike):
            alike.append(expr)
            self.found.append((expr, size))


def _with_lookups(body: ir.Stmt, expr: ir.PrimExpr, lookup: ir.BufferLoad) -> tuple[ir.Stmt, int]:
    """A look-up in place of an expression in stored values, and how often."""
    found: list[ir.PrimExpr] = []

    def look(node: ir.PrimExpr) -> ir.PrimExpr | None:
        if not ir.expr_deep_equal(node, expr):
            return None
        found.append(node)
        return lookup

    def store(node: ir.BufferStore) -> ir.Stmt:
        return ir.updated(node, value=ir.rewrite(node.value, before={type(expr): look}))

    return ir.rewrite(body, before={type(expr): look, ir.BufferStore: store}), len(found)
