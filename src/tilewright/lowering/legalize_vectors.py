"""Statements on vectors that LLVM is not known to compile become several on vectors that it is.

`VectorizeLoop` makes no other vectors; a program may write them (`T.Ramp(0, 1, 17)`, buffers of
float16x17). All lanes are computed before the first is stored, so that a statement may overwrite
what it reads. What cannot be taken apart, such as a call of an intrinsic, is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright import ir
from tilewright.lowering.base import function_pass
from tilewright.lowering.remove_no_op import has_effect
from tilewright.lowering.rewriters import IF_THEN_ELSE, StmtRewriter, with_lets
from tilewright.target.vector_types import LONG, known_lanes

_WIDEST_ELEMENT = 8  # bytes; pieces are the same for all types, so that they fit together
# Code for these may use elements that are longer than those of the result.
_WIDENING = (ir.Cast, ir.Call, ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod)


class _CannotSplit(Exception):
    """A vector that has to stay in one piece."""


def _has_unknown_vectors(node: ir.Node) -> bool:
    """True if there is a vector that LLVM is not known to compile."""
    if isinstance(node, ir.PrimExpr):
        lanes, element_bytes = node.dtype.lanes, max(1, node.dtype.bits // 8)
        if lanes > LONG and isinstance(node, _WIDENING):
            return True
        if lanes > 1 and known_lanes(lanes, element_bytes) != lanes:
            return True
        if not node.child_fields:
            return False
    if not isinstance(node, (ir.BufferLoad, ir.BufferStore)):
        return any([_has_unknown_vectors(child) for child in ir.children(node)])
    # A ramp is an address here, no vector.
    indices = [index.base if isinstance(index, ir.Ramp) else index for index in node.indices]
    stored = [node.value] if isinstance(node, ir.BufferStore) else []
    mask = [] if node.predicate is None else [node.predicate]
    return any(map(_has_unknown_vectors, (*stored, *indices, *mask)))


@dataclass(frozen=True)
class _Piece:
    """Neighbouring lanes of a vector."""

    lanes: int  # of the vector
    first: int
    count: int


def _pieces(lanes: int) -> list[_Piece]:
    pieces, first = [], 0
    while first < lanes:
        count = known_lanes(lanes - first, _WIDEST_ELEMENT)
        pieces.append(_Piece(lanes, first, count))
        first += count
    return pieces


class _PieceRewriter(ir.Rewriter):
    """The lanes of one piece of expressions; `parts` are those of variables."""

    def __init__(self, piece: _Piece, parts: Mapping[tuple[ir.Var, _Piece], ir.Var]) -> None:
        self._piece = piece
        self._parts = dict(parts)

    def visit(self, node: ir.PrimExpr) -> ir.PrimExpr:
        if node.dtype.lanes == 1:
            return node  # the same for all lanes
        if node.dtype.lanes != self._piece.lanes:
            raise _CannotSplit
        part: ir.PrimExpr = super().visit(node)
        return part

    def visit_ramp(self, node: ir.Ramp) -> ir.PrimExpr:
        base = node.base + ir.multiply(node.stride, ir.const(self._piece.first, node.stride.dtype))
        if base.dtype.lanes > 1:
            raise _CannotSplit
        return base if self._piece.count == 1 else ir.Ramp(base, node.stride, self._piece.count)

    def visit_broadcast(self, node: ir.Broadcast) -> ir.PrimExpr:
        if node.value.dtype.lanes > 1:
            raise _CannotSplit
        return node.value if self._piece.count == 1 else ir.Broadcast(node.value, self._piece.count)

    def visit_cast(self, node: ir.Cast) -> ir.PrimExpr:
        return ir.Cast(node.dtype.with_lanes(self._piece.count), self.visit(node.value))

    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        is_lanewise = isinstance(node.op, ir.Op) and (
            node.op is IF_THEN_ELSE or node.op.vectorizable
        )
        if not is_lanewise:
            raise _CannotSplit
        args = tuple(map(self.visit, node.args))
        return ir.Call(node.dtype.with_lanes(self._piece.count), node.op, args)

    def visit_shuffle(self, node: ir.Shuffle) -> ir.PrimExpr:
        raise _CannotSplit

    def visit_var(self, node: ir.Var) -> ir.PrimExpr:
        if (node, self._piece) not in self._parts:
            raise _CannotSplit
        return self._parts[node, self._piece]

    def visit_let(self, node: ir.Let) -> ir.PrimExpr:
        value, var = self.visit(node.value), node.var
        if var.dtype.lanes > 1:
            var = self._parts[node.var, self._piece] = ir.Var(var.name, value.dtype)
        return ir.Let(var, value, self.visit(node.body))

    def visit_buffer_load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        buffer, index = _elements(node.buffer, node.indices)
        predicate = None if node.predicate is None else self.visit(node.predicate)
        return ir.BufferLoad(buffer, (self.visit(index),), predicate)


def _elements(buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.Buffer, ir.PrimExpr]:
    """An access of a vector as one of its elements."""
    lanes, index = buffer.dtype.lanes, indices[0]
    if lanes == 1:
        return buffer, index
    if index.dtype.lanes > 1:
        raise _CannotSplit
    shape = tuple(ir.multiply(extent, lanes) for extent in buffer.shape)
    view = ir.replace(buffer, dtype=buffer.dtype.element_of, shape=shape)
    return view, ir.Ramp(ir.multiply(index, lanes), ir.const(1, index.dtype), lanes)


class _Splitter(StmtRewriter):
    def __init__(self) -> None:
        self._parts: dict[tuple[ir.Var, _Piece], ir.Var] = {}

    def visit_buffer_store(self, node: ir.BufferStore) -> ir.Stmt:
        mask = () if node.predicate is None else (node.predicate,)
        parts = (node.value, *node.indices, *mask)
        if not _has_unknown_vectors(node) or any(map(has_effect, parts)):
            return node
        try:
            return self._split(node)
        except _CannotSplit:
            return node

    def _split(self, node: ir.BufferStore) -> ir.Stmt:
        buffer, index = _elements(node.buffer, node.indices)
        bindings: list[tuple[ir.Var, ir.PrimExpr]] = []

        def bound(value: ir.PrimExpr) -> ir.PrimExpr:
            if not any(isinstance(part, ir.BufferLoad | ir.Call) for part in ir.walk(value)):
                return value
            bindings.append((ir.Var("part", value.dtype), value))
            return bindings[-1][0]

        stores: list[ir.Stmt] = []
        for piece in _pieces(node.value.dtype.lanes):
            part = _PieceRewriter(piece, self._parts)
            value, place = bound(part.visit(node.value)), bound(part.visit(index))
            mask = None if node.predicate is None else bound(part.visit(node.predicate))
            stores.append(ir.BufferStore(buffer, value, (place,), mask))
        return with_lets(bindings, ir.seq(stores))

    def visit_let_stmt(self, node: ir.LetStmt) -> ir.Stmt:
        bindings = self._bindings_of(node)
        body = self.visit(node.body)
        if bindings and ir.uses_var(body, lambda var: var is node.var):
            body = ir.replace(node, body=body)  # somebody needs all of it
        elif not bindings:
            return ir.replace(node, body=body)
        return with_lets(bindings, body)

    def _bindings_of(self, node: ir.LetStmt) -> list[tuple[ir.Var, ir.PrimExpr]]:
        """The parts of a vector that has a name."""
        if not _has_unknown_vectors(node.value) or has_effect(node.value):
            return []
        bindings = []
        try:
            for piece in _pieces(node.value.dtype.lanes):
                value = _PieceRewriter(piece, self._parts).visit(node.value)
                bindings.append((piece, ir.Var(node.var.name, value.dtype), value))
        except _CannotSplit:
            return []
        self._parts.update({(node.var, piece): var for piece, var, _ in bindings})
        return [(var, value) for _, var, value in bindings]


@function_pass
def LegalizeVectors(func: ir.PrimFunc) -> ir.PrimFunc:
    """Take vectors of unusual lengths apart."""
    exprs = ir.nodes_of(func.body, ir.PrimExpr)
    has_vectors = any(expr.dtype.lanes > 1 for expr in exprs)
    return func.with_body(_Splitter().rewrite(func.body)) if has_vectors else func
