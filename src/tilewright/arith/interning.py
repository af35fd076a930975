"""Hash-consing of expressions: structurally equal expressions become one object.

Inside an analyzer every simplified expression is the representative of its structure, so a rule
such as `x - x` compares operands with `is`, and memo tables are keyed by identity. Calls with side
effects are never merged.
"""

from __future__ import annotations

from tilewright import ir


def is_pure_call(call: ir.Call) -> bool:
    """True when two evaluations of `call` give one value and change nothing."""
    return isinstance(call.op, ir.Op) and call.op.effect <= ir.CallEffect.READ_STATE


class Interner:
    """The representatives of all structures seen so far."""

    def __init__(self) -> None:
        self._representative: dict[ir.PrimExpr, ir.PrimExpr] = {}
        self._by_key: dict[tuple[object, ...], ir.PrimExpr] = {}
        self._products: dict[tuple[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr] = {}

    def intern(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """The one object that stands for the structure of `expr`."""
        known = self._representative.get(expr)
        if known is not None:
            return known
        result = self.shallow(ir.map_children(expr, self._intern_child))
        self._representative[expr] = result
        self._representative[result] = result
        return result

    def binary(self, kind: type[ir.BinaryOp], a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr:
        """The representative of `kind(a, b)`; both operands are representatives."""
        key = (kind, a, b)
        known = self._by_key.get(key)
        if known is None:
            known = self._by_key[key] = kind(a, b)
            self._representative[known] = known
        return known

    def product(self, a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr:
        """One representative for `a * b` and `b * a`; whichever was asked for first."""
        known = self._products.get((a, b))
        if known is None:
            known = self._products[a, b] = self._products[b, a] = self.binary(ir.Mul, a, b)
        return known

    def shallow(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """The representative of a node whose children are representatives already."""
        known = self._representative.get(expr)
        if known is None:
            key = _key_of(expr)
            known = expr if key is None else self._by_key.setdefault(key, expr)
            self._representative[expr] = known
        return known

    def _intern_child(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.PrimExpr):
            return self.intern(node)
        return node  # Ranges, reducers and iterators keep their identity


def _key_of(expr: ir.PrimExpr) -> tuple[object, ...] | None:
    """What equal expressions have in common, given equal children; None: only identity counts."""
    match expr:
        case ir.BinaryOp():
            return (type(expr), expr.a, expr.b)
        case ir.IntImm():
            return (ir.IntImm, expr.dtype, expr.value)
        case ir.FloatImm():  # hex keeps -0.0 apart from 0.0
            return (ir.FloatImm, expr.dtype, expr.value.hex())
        case ir.Var() | ir.Let() | ir.Reduce():
            return None
        case ir.StringImm():
            return (ir.StringImm, expr.value)
        case ir.Call():
            return (ir.Call, expr.dtype, expr.op, *expr.args) if is_pure_call(expr) else None
        case ir.BufferLoad():
            return (ir.BufferLoad, expr.buffer, expr.predicate, *expr.indices)
    return (type(expr), *(getattr(expr, name) for name in expr.__struct_fields__))


def has_side_effect(expr: ir.Node) -> bool:
    """True when evaluating `expr` does more than yield a value."""
    if isinstance(expr, (ir.Var, ir.IntImm, ir.FloatImm)):
        return False
    if isinstance(expr, ir.Call) and not is_pure_call(expr):
        return True
    return any(has_side_effect(child) for child in ir.children(expr))
