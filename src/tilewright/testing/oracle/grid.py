"""Computes many iterations of a loop nest at once where that provably changes nothing.

Take a nest whose body writes every buffer at one index only, reads it back only at that index, and
let V be the loops that the index uses. If the index is different for every point of V, no point
sees what another one writes, so all of them may advance in step while the other loops run in order:
each element goes through the same operations in the same order as in the plain program. That the
indices differ is not proven but checked, on the numbers, before each run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright import ir

# Calls by name run code of the user that need not understand arrays of iterations.
_SCALAR_ONLY = frozenset(
    {
        "tir.address_of",
        "tir.assume",
        "tir.call_extern",
        "tir.call_llvm_intrin",
        "tir.call_llvm_pure_intrin",
        "tir.call_packed",
        "tir.call_pure_extern",
        "tir.isnullptr",
        "tir.ret",
        "tir.tvm_access_ptr",
    }
)


@dataclass(frozen=True)
class GridPlan:
    """A nest that can be computed at once over its `parallel` loops."""

    parallel: tuple[ir.For, ...]
    sequential: tuple[ir.For, ...]
    body: ir.Stmt
    writes: tuple[tuple[ir.Buffer, tuple[ir.PrimExpr, ...]], ...]
    other_data: tuple[ir.Var, ...]  # pointers that are read and must not overlap what is written


def plan_grid(loop: ir.For) -> GridPlan | None:
    """How to compute the nest that starts at `loop` at once, or None if nothing shows it may be."""
    chain, body = _perfect_nest(loop)
    accesses = _Accesses({each.loop_var for each in chain})
    accesses.visit(body)
    if accesses.rejected or not accesses.stores:
        return None
    writes: dict[ir.Var, tuple[ir.Buffer, tuple[ir.PrimExpr, ...]]] = {}
    for buffer, indices in accesses.stores:
        if not _agrees(writes.setdefault(buffer.data, (buffer, indices)), buffer, indices):
            return None
    for buffer, indices in accesses.loads:
        known = writes.get(buffer.data)
        if known is not None and not _agrees(known, buffer, indices):
            return None
    used = [accesses.loops_in(indices) for _, indices in writes.values()]
    if not used[0] or any(other != used[0] for other in used):
        return None
    if accesses.uniform_exprs_use(used[0]) or any(map(accesses.is_varying, writes.values())):
        return None
    return GridPlan(
        tuple(each for each in chain if each.loop_var in used[0]),
        tuple(each for each in chain if each.loop_var not in used[0]),
        body,
        tuple(writes.values()),
        tuple({b.data: None for b, _ in accesses.loads if b.data not in writes}),
    )


def _perfect_nest(loop: ir.For) -> tuple[list[ir.For], ir.Stmt]:
    """Loops right inside each other with independent bounds, and what they run."""
    chain, body = [loop], loop.body
    outer = {loop.loop_var}
    while isinstance(body, ir.For) and not any(
        ir.uses_var(bound, outer.__contains__) or ir.has_load(bound)
        for bound in (body.min, body.extent)
    ):
        chain.append(body)
        outer.add(body.loop_var)
        body = body.body
    return chain, body


def _agrees(
    known: tuple[ir.Buffer, tuple[ir.PrimExpr, ...]],
    buffer: ir.Buffer,
    indices: tuple[ir.PrimExpr, ...],
) -> bool:
    return known[0] is buffer and ir.expr_deep_equal(known[1], indices)


class _Accesses(ir.Visitor):
    """All accesses of a body, their indices written in terms of loop variables alone."""

    _ALLOWED = (
        ir.BufferStore,
        ir.SeqStmt,
        ir.IfThenElse,
        ir.LetStmt,
        ir.For,
        ir.BlockRealize,
        ir.AttrStmt,
        ir.Evaluate,
    )

    def __init__(self, chain_vars: set[ir.Var]) -> None:
        self.rejected = False
        self.stores: list[tuple[ir.Buffer, tuple[ir.PrimExpr, ...]]] = []
        self.loads: list[tuple[ir.Buffer, tuple[ir.PrimExpr, ...]]] = []
        self._chain_vars = chain_vars
        self._inner_vars: set[ir.Var] = set()
        self._uniform: list[ir.PrimExpr] = []
        self._meaning: dict[ir.Var, ir.PrimExpr] = {}

    # --- questions about what was found ---

    def loops_in(self, indices: tuple[ir.PrimExpr, ...]) -> set[ir.Var]:
        found: set[ir.Var] = set()
        for index in indices:
            ir.pre_order_visit(index, lambda node: _note(node, self._chain_vars, found))
        return found

    def is_varying(self, write: tuple[ir.Buffer, tuple[ir.PrimExpr, ...]]) -> bool:
        """True if an index depends on inner loops or on memory."""
        return any(
            ir.uses_var(i, self._inner_vars.__contains__) or ir.has_load(i) for i in write[1]
        )

    def uniform_exprs_use(self, parallel: set[ir.Var]) -> bool:
        """True if the bounds of an inner loop are not the same for all parallel iterations."""
        return any(ir.uses_var(e, parallel.__contains__) or ir.has_load(e) for e in self._uniform)

    # --- the walk ---

    def _resolved(self, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
        meaning: Mapping[ir.Var, ir.PrimExpr] = self._meaning
        return tuple(ir.substitute(index, meaning) for index in indices)

    def visit_stmt(self, node: ir.Stmt) -> None:
        if isinstance(node, self._ALLOWED):
            self.generic_visit(node)
        else:
            self.rejected = True

    def visit_evaluate(self, node: ir.Evaluate) -> None:
        self.rejected = self.rejected or not ir.is_no_op(node)

    def visit_attr_stmt(self, node: ir.AttrStmt) -> None:
        self.rejected = self.rejected or node.attr_key in ("thread_extent", "virtual_thread")
        self.generic_visit(node)

    def visit_for(self, node: ir.For) -> None:
        self._inner_vars.add(node.loop_var)
        self._uniform += self._resolved((node.min, node.extent))
        self.generic_visit(node)

    def visit_let_stmt(self, node: ir.LetStmt) -> None:
        self._define(node)

    def visit_let(self, node: ir.Let) -> None:
        self._define(node)

    def _define(self, node: ir.Let | ir.LetStmt) -> None:
        self.visit(node.value)
        self._meaning[node.var] = self._resolved((node.value,))[0]
        self.visit(node.body)

    def visit_block_realize(self, node: ir.BlockRealize) -> None:
        block = node.block
        if block.alloc_buffers or block.match_buffers:
            self.rejected = True
            return
        for iter_var, value in zip(block.iter_vars, node.iter_values, strict=True):
            self.visit(value)
            self._meaning[iter_var.var] = self._resolved((value,))[0]
        self.visit(node.predicate)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        self.stores.append((node.buffer, self._resolved(node.indices)))
        self.generic_visit(node)

    def visit_buffer_load(self, node: ir.BufferLoad) -> None:
        self.loads.append((node.buffer, self._resolved(node.indices)))
        self.generic_visit(node)

    def visit_call(self, node: ir.Call) -> None:
        op = node.op
        if isinstance(op, ir.GlobalVar) or _has_effect(op) or op.name in _SCALAR_ONLY:
            self.rejected = True
        self.generic_visit(node)


def _has_effect(op: ir.Op) -> bool:
    return op.effect > ir.CallEffect.READ_STATE


def _note(node: Any, wanted: set[ir.Var], found: set[ir.Var]) -> bool:
    if isinstance(node, ir.Var) and node in wanted:
        found.add(node)
    return True
