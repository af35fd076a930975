"""Expressions over the lanes of a vectorised loop.

`ExprWidener` turns an expression in the loop variable into one that yields all iterations at once:
values that differ between iterations become vectors (a `Ramp` as long as they are linear), values
that do not stay scalars. What has no lane-wise form raises `NotVectorizable`.
"""

from __future__ import annotations

from typing import Any

from tilewright.arith.canonical import widens_index
from tilewright.ir import (
    Add,
    And,
    BinaryOp,
    Broadcast,
    Buffer,
    BufferLoad,
    Call,
    CallEffect,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Mul,
    Not,
    PrimExpr,
    Ramp,
    Rewriter,
    Select,
    Shuffle,
    Sub,
    Var,
    add,
    cast,
    const,
    floordiv,
    floormod,
    logical_and,
    logical_not,
    map_tuple,
    multiply,
    replace,
    subtract,
)
from tilewright.ir.arithmetic import is_zero
from tilewright.ir.folding import fold_binary
from tilewright.ir.op import Op
from tilewright.lowering.divisibility import is_multiple
from tilewright.lowering.rewriters import IF_THEN_ELSE, LIKELY

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


class NotVectorizable(Exception):
    """Raised inside the pass when a statement has no vector form; never reaches the user."""


def broadcast(value: PrimExpr, lanes: int) -> PrimExpr:
    """`value` in every lane, unless it is a vector already."""
    if value.dtype.lanes == lanes:
        return value
    if value.dtype.lanes != 1:
        raise NotVectorizable(f"{value.dtype!s} inside a loop of {lanes} lanes")
    return Broadcast(value, lanes)


def conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    """The parts of a conjunction, `likely` marks removed."""
    if isinstance(condition, Call) and condition.op is LIKELY:
        return conjuncts(condition.args[0])
    if isinstance(condition, And):
        return conjuncts(condition.a) + conjuncts(condition.b)
    return [condition]


def is_inside(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> bool:
    """True when constant indices lie inside a buffer of constant shape."""
    return all(
        isinstance(index, IntImm) and isinstance(extent, IntImm) and 0 <= index.value < extent.value
        for index, extent in zip(indices, buffer.shape, strict=True)
    )


def _scalar_of(value: PrimExpr) -> PrimExpr | None:
    """What all lanes share, or None."""
    if isinstance(value, Broadcast):
        return value.value
    return value if value.dtype.lanes == 1 else None


class ExprWidener(Rewriter):
    """Widens expressions of one vectorised loop; `mask` says which lanes are on, if not all are."""

    def __init__(self, loop_var: Var, start: PrimExpr, lanes: int) -> None:
        self.lanes = lanes
        self.mask: PrimExpr | None = None
        self.guarded = False  # does a test around the mask make sure that some lane is on?
        self.needs_guard = False  # does a load rely on that test?
        self.vars: dict[Var, PrimExpr] = {
            loop_var: Ramp(start, const(1, loop_var.dtype), lanes),
        }
        self.private: dict[Var, Var] = {}  # allocations with one copy for each lane
        self._private_buffers: dict[Buffer, Buffer] = {}

    def visit_var(self, node: Var) -> PrimExpr:
        if node in self.private:
            raise NotVectorizable(f"the address of {node.name} is taken")
        return self.vars.get(node, node)

    def visit_add(self, node: Add | Sub) -> PrimExpr:
        combine = add if isinstance(node, Add) else subtract
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        zero = const(0, node.a.dtype.element_of)
        ramp_a, ramp_b = _as_ramp(a, zero, self.lanes), _as_ramp(b, zero, self.lanes)
        if ramp_a is None or ramp_b is None or not (a.dtype.is_integral):
            return self._lanewise(node, a, b)
        stride = combine(ramp_a.stride, ramp_b.stride)
        base = combine(ramp_a.base, ramp_b.base)
        if is_zero(stride):
            return base
        return Ramp(base, stride, self.lanes)

    visit_sub = visit_add

    def visit_mul(self, node: Mul) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        if isinstance(b, Ramp):
            a, b = b, a
        factor = _scalar_of(b)
        if isinstance(a, Ramp) and factor is not None:
            return Ramp(multiply(a.base, factor), multiply(a.stride, factor), a.lanes)
        return self._lanewise(node, a, b)

    def visit_floor_div(self, node: FloorDiv | FloorMod) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        if not self._stays_in_one_block(a, b):
            return self._lanewise(node, a, b)
        if isinstance(node, FloorDiv):
            return floordiv(a.base, b)
        return Ramp(floormod(a.base, b), a.stride, a.lanes)

    visit_floor_mod = visit_floor_div

    def _stays_in_one_block(self, a: Any, b: PrimExpr) -> bool:
        """True when all lanes of ramp `a` lie in one aligned block of `b` numbers."""
        if not isinstance(a, Ramp) or not isinstance(b, IntImm) or not isinstance(a.stride, IntImm):
            return False
        stride, span = a.stride.value, a.stride.value * (a.lanes - 1)
        if stride <= 0 or b.value <= span:
            return False
        # With base a multiple of `step`, and step dividing b, no lane crosses into the next block.
        step = next((s for s in range(span + 1, b.value + 1) if b.value % s == 0), b.value)
        return is_multiple(a.base, step)

    def visit_binary_op(self, node: BinaryOp) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        return node if a is node.a and b is node.b else self._lanewise(node, a, b)

    def _lanewise(self, node: BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if a.dtype.lanes == 1 and b.dtype.lanes == 1:
            return fold_binary(type(node), a, b)
        if isinstance(node, _DIVISIONS) and a.dtype.is_integral and self.mask is not None:
            divisor = _scalar_of(b)
            if not isinstance(divisor, IntImm) or divisor.value == 0:
                raise NotVectorizable("a division that a mask must protect from zero")
        return type(node)(broadcast(a, self.lanes), broadcast(b, self.lanes))

    def visit_not(self, node: Not) -> PrimExpr:
        a = self.visit(node.a)
        return node if a is node.a else logical_not(a)

    def visit_cast(self, node: Cast) -> PrimExpr:
        value = self.visit(node.value)
        if value is node.value:
            return node
        if isinstance(value, Ramp) and widens_index(node):
            return Ramp(cast(node.dtype, value.base), cast(node.dtype, value.stride), value.lanes)
        return Cast(node.dtype.with_lanes(value.dtype.lanes), value)

    def visit_select(self, node: Select) -> PrimExpr:
        parts = [self.visit(part) for part in (node.condition, node.true_value, node.false_value)]
        if parts[0] is node.condition and all(part.dtype.lanes == 1 for part in parts):
            return Select(*parts)
        return Select(*(broadcast(part, self.lanes) for part in parts))

    def visit_ramp(self, node: Ramp | Broadcast | Shuffle) -> PrimExpr:
        raise NotVectorizable(f"{node.dtype!s} inside a vectorised loop")

    visit_broadcast = visit_shuffle = visit_ramp

    def visit_let(self, node: Let) -> PrimExpr:
        value = self.visit(node.value)
        var = self.bind_let(node.var, value)
        body = self.visit(node.body)
        if value is node.value and body is node.body:
            return node
        return Let(var, value, body)

    def bind_let(self, var: Var, value: PrimExpr) -> Var:
        """The variable that stands for `var` inside the body of a let."""
        if value.dtype is var.dtype:
            return var
        wide = Var(var.name, value.dtype)
        self.vars[var] = wide
        return wide

    def visit_call(self, node: Call) -> PrimExpr:
        if node.op is IF_THEN_ELSE:
            return self._widen_choice(node)
        if not isinstance(node.op, Op) or node.op.effect > CallEffect.READ_STATE:
            raise NotVectorizable("a call with an effect")
        args = map_tuple(node.args, self.visit)
        if all(arg.dtype.lanes == 1 for arg in args):
            return node if args is node.args else replace(node, args=args)
        if node.op is LIKELY:
            widened: PrimExpr = args[0]
            return widened
        if not node.op.vectorizable:
            raise NotVectorizable(f"{node.op.name} on vectors")
        wide = tuple(broadcast(arg, self.lanes) for arg in args)
        return Call(node.dtype.with_lanes(self.lanes), node.op, wide)

    def _widen_choice(self, node: Call) -> PrimExpr:
        uniform, varying = self.split_condition(node.args[0])
        if varying is None:
            then_value, else_value = self.visit(node.args[1]), self.visit(node.args[2])
            lanes = max(then_value.dtype.lanes, else_value.dtype.lanes)
            args = (uniform, broadcast(then_value, lanes), broadcast(else_value, lanes))
            return Call(node.dtype.with_lanes(lanes), IF_THEN_ELSE, args)
        simple_else = isinstance(node.args[2], (IntImm, FloatImm))
        if not simple_else and not isinstance(uniform, IntImm):
            varying, uniform = logical_and(broadcast(uniform, self.lanes), varying), const(True)
        then_value = self.under_mask(varying, node.args[1])
        else_value = self.under_mask(logical_not(varying), node.args[2])
        chosen = Select(
            varying, broadcast(then_value, self.lanes), broadcast(else_value, self.lanes)
        )
        if isinstance(uniform, IntImm):
            return chosen
        args = (uniform, chosen, broadcast(else_value, self.lanes))
        return Call(chosen.dtype, IF_THEN_ELSE, args)

    def split_condition(self, condition: PrimExpr) -> tuple[PrimExpr, PrimExpr | None]:
        """The part of a condition that all lanes share, and the vector that differs (or None)."""
        widened = [self.visit(part) for part in conjuncts(condition)]
        uniform = logical_and(*(part for part in widened if part.dtype.lanes == 1))
        varying = [part for part in widened if part.dtype.lanes > 1]
        return uniform, logical_and(*varying) if varying else None

    def under_mask(self, mask: PrimExpr, node: Any, guarded: bool = False) -> Any:
        """Widen `node` with only the lanes of `mask` switched on, within the present ones."""
        outer = self.mask, self.guarded
        self.mask = mask if self.mask is None else logical_and(self.mask, mask)
        self.guarded = guarded
        try:
            return self.visit(node)
        finally:
            self.mask, self.guarded = outer

    def visit_buffer_load(self, node: BufferLoad) -> PrimExpr:
        if node.predicate is not None:
            raise NotVectorizable("a masked load inside a vectorised loop")
        buffer, index = self.access(node.buffer, node.indices)
        if index.dtype.lanes > 1:
            return BufferLoad(buffer, (index,), self.mask)
        if self.mask is not None and not is_inside(node.buffer, (index,)):
            # All lanes share this load, and it may only happen if some lane is on.
            if not self.guarded:
                return BufferLoad(buffer, (Broadcast(index, self.lanes),), self.mask)
            self.needs_guard = True
        return node if index is node.indices[0] else replace(node, indices=(index,))

    def access(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[Buffer, PrimExpr]:
        """The buffer and the widened index of a one-dimensional access."""
        if len(indices) != 1 or buffer.dtype.lanes != 1:
            raise NotVectorizable(f"{buffer.name} has not been flattened")
        index = self.visit(indices[0])
        copies = self.private.get(buffer.data)
        if copies is None:
            return buffer, index
        private, kind = self._private_buffer(buffer, copies), index.dtype.element_of
        if index.dtype.lanes == 1:
            return private, Ramp(multiply(index, self.lanes), const(1, kind), self.lanes)
        wide = Mul(index, broadcast(const(self.lanes, kind), self.lanes))
        return private, Add(wide, Ramp(const(0, kind), const(1, kind), self.lanes))

    def _private_buffer(self, buffer: Buffer, data: Var) -> Buffer:
        known = self._private_buffers.get(buffer)
        if known is None:
            shape = (multiply(buffer.shape[0], self.lanes),)
            known = self._private_buffers[buffer] = replace(buffer, data=data, shape=shape)
        return known


def _as_ramp(value: PrimExpr, zero: PrimExpr, lanes: int) -> Ramp | None:
    if isinstance(value, Ramp):
        return value
    scalar = _scalar_of(value)
    return None if scalar is None else Ramp(scalar, zero, lanes)
