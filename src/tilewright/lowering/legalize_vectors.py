"""Statements on vectors that LLVM is not known to compile become several on vectors that it is.

`VectorizeLoop` makes no other vectors; a program may write them (`T.Ramp(0, 1, 17)`, buffers of
float16x17). All lanes are computed before the first is stored, so that a statement may overwrite
what it reads. What cannot be taken apart, such as a call of an intrinsic, is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.ir import (
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    Div,
    DType,
    FloorDiv,
    FloorMod,
    Let,
    LetStmt,
    Mod,
    Node,
    PrimExpr,
    PrimFunc,
    Ramp,
    Rewriter,
    Shuffle,
    Stmt,
    Var,
    children,
    const,
    multiply,
    replace,
    seq,
    uses_var,
)
from tilewright.ir.op import Op
from tilewright.ir.patterns import nodes_of, walk
from tilewright.lowering.base import function_pass
from tilewright.lowering.remove_no_op import has_effect
from tilewright.lowering.rewriters import IF_THEN_ELSE, StmtRewriter, with_lets
from tilewright.target.vector_types import LONG, known_lanes

_WIDEST_ELEMENT = 8  # bytes; pieces are the same for all types, so that they fit together
# Code for these may use elements that are longer than those of the result.
_WIDENING = (Cast, Call, Div, Mod, FloorDiv, FloorMod)


class _CannotSplit(Exception):
    """A vector that has to stay in one piece."""


def _is_known(dtype: DType) -> bool:
    return known_lanes(dtype.lanes, max(1, dtype.bits // 8)) == dtype.lanes


def _has_unknown_vectors(node: Node) -> bool:
    """Is there a vector that LLVM is not known to compile?"""
    if isinstance(node, PrimExpr) and node.dtype.lanes > 1:
        is_long = node.dtype.lanes > LONG and isinstance(node, _WIDENING)
        if is_long or not _is_known(node.dtype):
            return True
    if not isinstance(node, (BufferLoad, BufferStore)):
        return any(map(_has_unknown_vectors, children(node))) if node.child_fields else False
    # A ramp is an address here, no vector.
    indices = [index.base if isinstance(index, Ramp) else index for index in node.indices]
    stored = [node.value] if isinstance(node, BufferStore) else []
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


class _Part(Rewriter):
    """The lanes of one piece of expressions; `parts` are those of variables."""

    def __init__(self, piece: _Piece, parts: Mapping[tuple[Var, _Piece], Var]) -> None:
        self._piece = piece
        self._parts = dict(parts)

    def visit(self, node: Any) -> Any:
        if node.dtype.lanes == 1:
            return node  # the same for all lanes
        if node.dtype.lanes != self._piece.lanes:
            raise _CannotSplit
        return super().visit(node)

    def visit_ramp(self, node: Ramp) -> PrimExpr:
        base = node.base + multiply(node.stride, const(self._piece.first, node.stride.dtype))
        if base.dtype.lanes > 1:
            raise _CannotSplit
        return base if self._piece.count == 1 else Ramp(base, node.stride, self._piece.count)

    def visit_broadcast(self, node: Broadcast) -> PrimExpr:
        if node.value.dtype.lanes > 1:
            raise _CannotSplit
        return node.value if self._piece.count == 1 else Broadcast(node.value, self._piece.count)

    def visit_cast(self, node: Cast) -> PrimExpr:
        return Cast(node.dtype.with_lanes(self._piece.count), self.visit(node.value))

    def visit_call(self, node: Call) -> PrimExpr:
        is_lanewise = isinstance(node.op, Op) and (node.op is IF_THEN_ELSE or node.op.vectorizable)
        if not is_lanewise:
            raise _CannotSplit
        args = tuple(map(self.visit, node.args))
        return Call(node.dtype.with_lanes(self._piece.count), node.op, args)

    def visit_shuffle(self, node: Shuffle) -> PrimExpr:
        raise _CannotSplit

    def visit_var(self, node: Var) -> PrimExpr:
        if (node, self._piece) not in self._parts:
            raise _CannotSplit
        return self._parts[node, self._piece]

    def visit_let(self, node: Let) -> PrimExpr:
        value = self.visit(node.value)
        var = Var(node.var.name, value.dtype)
        if node.var.dtype.lanes == 1:
            return Let(node.var, value, self.visit(node.body))
        self._parts[node.var, self._piece] = var
        return Let(var, value, self.visit(node.body))

    def visit_buffer_load(self, node: BufferLoad) -> PrimExpr:
        buffer, index = _elements(node.buffer, node.indices)
        predicate = None if node.predicate is None else self.visit(node.predicate)
        return BufferLoad(buffer, (self.visit(index),), predicate)


def _elements(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[Buffer, PrimExpr]:
    """An access of a vector as one of its elements."""
    lanes, index = buffer.dtype.lanes, indices[0]
    if lanes == 1:
        return buffer, index
    if index.dtype.lanes > 1:
        raise _CannotSplit
    shape = tuple(multiply(extent, lanes) for extent in buffer.shape)
    view = replace(buffer, dtype=buffer.dtype.element_of, shape=shape)
    return view, Ramp(multiply(index, lanes), const(1, index.dtype), lanes)


def _reads_memory(expr: PrimExpr) -> bool:
    return any(isinstance(part, BufferLoad | Call) for part in walk(expr))


def _parts_of(node: BufferStore) -> list[PrimExpr]:
    return [node.value, *node.indices, *([] if node.predicate is None else [node.predicate])]


class _Splitter(StmtRewriter):
    def __init__(self) -> None:
        self._parts: dict[tuple[Var, _Piece], Var] = {}

    def visit_buffer_store(self, node: BufferStore) -> Stmt:
        if not _has_unknown_vectors(node) or any(map(has_effect, _parts_of(node))):
            return node
        try:
            return self._split(node)
        except _CannotSplit:
            return node

    def _split(self, node: BufferStore) -> Stmt:
        buffer, index = _elements(node.buffer, node.indices)
        bindings: list[tuple[Var, PrimExpr]] = []

        def bound(value: PrimExpr) -> PrimExpr:
            if not _reads_memory(value):
                return value
            bindings.append((Var("part", value.dtype), value))
            return bindings[-1][0]

        stores: list[Stmt] = []
        for piece in _pieces(node.value.dtype.lanes):
            part = _Part(piece, self._parts)
            value, place = bound(part.visit(node.value)), bound(part.visit(index))
            mask = None if node.predicate is None else bound(part.visit(node.predicate))
            stores.append(BufferStore(buffer, value, (place,), mask))
        return with_lets(bindings, seq(stores))

    def visit_let_stmt(self, node: LetStmt) -> Stmt:
        bindings = self._bindings_of(node)
        body = self.visit(node.body)
        if bindings and uses_var(body, lambda var: var is node.var):
            body = replace(node, body=body)  # somebody needs all of it
        elif not bindings:
            return replace(node, body=body)
        return with_lets(bindings, body)

    def _bindings_of(self, node: LetStmt) -> list[tuple[Var, PrimExpr]]:
        """The parts of a vector that has a name."""
        if not _has_unknown_vectors(node.value) or has_effect(node.value):
            return []
        bindings = []
        try:
            for piece in _pieces(node.value.dtype.lanes):
                value = _Part(piece, self._parts).visit(node.value)
                bindings.append((piece, Var(node.var.name, value.dtype), value))
        except _CannotSplit:
            return []
        self._parts.update({(node.var, piece): var for piece, var, _ in bindings})
        return [(var, value) for _, var, value in bindings]


@function_pass
def LegalizeVectors(func: PrimFunc) -> PrimFunc:
    """Take vectors of unusual lengths apart."""
    exprs = nodes_of(func.body, PrimExpr)
    has_vectors = any(expr.dtype.lanes > 1 for expr in exprs)
    return func.with_body(_Splitter().rewrite(func.body)) if has_vectors else func
