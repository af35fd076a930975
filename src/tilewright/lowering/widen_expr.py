"""Expressions over the lanes of a vectorised loop.

`ExprWidener` turns an expression in the loop variable into one that yields all iterations at once:
values that differ between iterations become vectors (a `Ramp` as long as they are linear), values
that do not stay scalars. What has no lane-wise form raises `NotVectorizable`.
"""

from __future__ import annotations

from tilewright import ir
from tilewright.arith.canonical import widens_index
from tilewright.ir.arithmetic import fold_binary
from tilewright.ir.node import NodeT
from tilewright.lowering.rewriters import IF_THEN_ELSE, LIKELY, is_multiple

_DIVISIONS = (ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod)


class NotVectorizable(Exception):
    """Raised inside the pass when a statement has no vector form; never reaches the user."""


def broadcast(value: ir.PrimExpr, lanes: int) -> ir.PrimExpr:
    """`value` in every lane, unless it is a vector already."""
    if value.dtype.lanes == lanes:
        return value
    if value.dtype.lanes != 1:
        raise NotVectorizable(f"{value.dtype!s} inside a loop of {lanes} lanes")
    return ir.Broadcast(value, lanes)


def conjuncts(condition: ir.PrimExpr) -> list[ir.PrimExpr]:
    """The parts of a conjunction, `likely` marks removed."""
    if isinstance(condition, ir.Call) and condition.op is LIKELY:
        return conjuncts(condition.args[0])
    if isinstance(condition, ir.And):
        return conjuncts(condition.a) + conjuncts(condition.b)
    return [condition]


def is_inside(buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> bool:
    """True when constant indices lie inside a buffer of constant shape."""
    return all(
        isinstance(index, ir.IntImm)
        and isinstance(extent, ir.IntImm)
        and 0 <= index.value < extent.value
        for index, extent in zip(indices, buffer.shape, strict=True)
    )


def _scalar_of(value: ir.PrimExpr) -> ir.PrimExpr | None:
    """What all lanes share, or None."""
    if isinstance(value, ir.Broadcast):
        return value.value
    return value if value.dtype.lanes == 1 else None


class ExprWidener(ir.Rewriter):
    """Widens expressions of one vectorised loop; `mask` says which lanes are on, if not all are."""

    def __init__(self, loop_var: ir.Var, start: ir.PrimExpr, lanes: int) -> None:
        self.lanes = lanes
        self.mask: ir.PrimExpr | None = None
        self.guarded = False  # does a test around the mask make sure that some lane is on?
        self.needs_guard = False  # does a load rely on that test?
        self.vars: dict[ir.Var, ir.PrimExpr] = {
            loop_var: ir.Ramp(start, ir.const(1, loop_var.dtype), lanes),
        }
        self.private: dict[ir.Var, ir.Var] = {}  # allocations with one copy for each lane
        self._private_buffers: dict[ir.Buffer, ir.Buffer] = {}

    def visit_var(self, node: ir.Var) -> ir.PrimExpr:
        if node in self.private:
            raise NotVectorizable(f"the address of {node.name} is taken")
        return self.vars.get(node, node)

    def visit_binary_op(self, node: ir.BinaryOp) -> ir.PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        if isinstance(node, ir.Mul) and isinstance(b, ir.Ramp):
            a, b = b, a
        linear = self._linear(node, a, b)
        return self._lanewise(node, a, b) if linear is None else linear

    def _linear(self, node: ir.BinaryOp, a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr | None:
        """An operator on ramps and scalars where it gives such again."""
        match node:
            case ir.Add() | ir.Sub():
                zero = ir.const(0, node.a.dtype.element_of)
                ramp_a, ramp_b = _as_ramp(a, zero, self.lanes), _as_ramp(b, zero, self.lanes)
                if ramp_a is None or ramp_b is None or not a.dtype.is_integral:
                    return None
                combine = ir.add if isinstance(node, ir.Add) else ir.subtract
                stride = combine(ramp_a.stride, ramp_b.stride)
                base = combine(ramp_a.base, ramp_b.base)
                return base if ir.is_zero(stride) else ir.Ramp(base, stride, self.lanes)
            case ir.Mul() if isinstance(a, ir.Ramp) and (factor := _scalar_of(b)) is not None:
                return ir.Ramp(ir.multiply(a.base, factor), ir.multiply(a.stride, factor), a.lanes)
            case ir.FloorDiv() if isinstance(a, ir.Ramp) and self._stays_in_one_block(a, b):
                return ir.floordiv(a.base, b)
            case ir.FloorMod() if isinstance(a, ir.Ramp) and self._stays_in_one_block(a, b):
                return ir.Ramp(ir.floormod(a.base, b), a.stride, a.lanes)
        return None

    def _stays_in_one_block(self, a: ir.Ramp, b: ir.PrimExpr) -> bool:
        """True when all lanes of ramp `a` lie in one aligned block of `b` numbers."""
        if not isinstance(b, ir.IntImm) or not isinstance(a.stride, ir.IntImm):
            return False
        stride, span = a.stride.value, a.stride.value * (a.lanes - 1)
        if stride <= 0 or b.value <= span:
            return False
        # With base a multiple of `step`, and step dividing b, no lane crosses into the next block.
        step = next((s for s in range(span + 1, b.value + 1) if b.value % s == 0), b.value)
        return is_multiple(a.base, step)

    def _lanewise(self, node: ir.BinaryOp, a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr:
        if a.dtype.lanes == 1 and b.dtype.lanes == 1:
            return fold_binary(type(node), a, b)
        if isinstance(node, _DIVISIONS) and a.dtype.is_integral and self.mask is not None:
            divisor = _scalar_of(b)
            if not isinstance(divisor, ir.IntImm) or divisor.value == 0:
                raise NotVectorizable("a division that a mask must protect from zero")
        return type(node)(broadcast(a, self.lanes), broadcast(b, self.lanes))

    def visit_not(self, node: ir.Not) -> ir.PrimExpr:
        a = self.visit(node.a)
        return node if a is node.a else ir.logical_not(a)

    def visit_cast(self, node: ir.Cast) -> ir.PrimExpr:
        value = self.visit(node.value)
        if value is node.value:
            return node
        if isinstance(value, ir.Ramp) and widens_index(node):
            return ir.Ramp(
                ir.cast(node.dtype, value.base), ir.cast(node.dtype, value.stride), value.lanes
            )
        return ir.Cast(node.dtype.with_lanes(value.dtype.lanes), value)

    def visit_select(self, node: ir.Select) -> ir.PrimExpr:
        parts = [self.visit(part) for part in (node.condition, node.true_value, node.false_value)]
        if parts[0] is node.condition and all(part.dtype.lanes == 1 for part in parts):
            return ir.Select(*parts)
        return ir.Select(*(broadcast(part, self.lanes) for part in parts))

    def visit_ramp(self, node: ir.Ramp | ir.Broadcast | ir.Shuffle) -> ir.PrimExpr:
        raise NotVectorizable(f"{node.dtype!s} inside a vectorised loop")

    visit_broadcast = visit_shuffle = visit_ramp

    def visit_let(self, node: ir.Let) -> ir.PrimExpr:
        value = self.visit(node.value)
        var = self.bind_let(node.var, value)
        return ir.updated(node, var=var, value=value, body=self.visit(node.body))

    def bind_let(self, var: ir.Var, value: ir.PrimExpr) -> ir.Var:
        """The variable that stands for `var` inside the body of a let."""
        if value.dtype is var.dtype:
            return var
        wide = ir.Var(var.name, value.dtype)
        self.vars[var] = wide
        return wide

    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        if node.op is IF_THEN_ELSE:
            return self._widen_choice(node)
        if not isinstance(node.op, ir.Op) or node.op.effect > ir.CallEffect.READ_STATE:
            raise NotVectorizable("a call with an effect")
        args = ir.map_tuple(node.args, self.visit)
        if all(arg.dtype.lanes == 1 for arg in args):
            return node if args is node.args else ir.replace(node, args=args)
        if node.op is LIKELY:
            widened: ir.PrimExpr = args[0]
            return widened
        if not node.op.vectorizable:
            raise NotVectorizable(f"{node.op.name} on vectors")
        wide = tuple(broadcast(arg, self.lanes) for arg in args)
        return ir.Call(node.dtype.with_lanes(self.lanes), node.op, wide)

    def _widen_choice(self, node: ir.Call) -> ir.PrimExpr:
        uniform, varying = self.split_condition(node.args[0])
        if varying is None:
            then_value, else_value = self.visit(node.args[1]), self.visit(node.args[2])
            lanes = max(then_value.dtype.lanes, else_value.dtype.lanes)
            args = (uniform, broadcast(then_value, lanes), broadcast(else_value, lanes))
            return ir.Call(node.dtype.with_lanes(lanes), IF_THEN_ELSE, args)
        simple_else = isinstance(node.args[2], (ir.IntImm, ir.FloatImm))
        if not simple_else and not isinstance(uniform, ir.IntImm):
            varying, uniform = (
                ir.logical_and(broadcast(uniform, self.lanes), varying),
                ir.const(True),
            )
        then_value = self.under_mask(varying, node.args[1])
        else_value = self.under_mask(ir.logical_not(varying), node.args[2])
        chosen = ir.Select(
            varying, broadcast(then_value, self.lanes), broadcast(else_value, self.lanes)
        )
        if isinstance(uniform, ir.IntImm):
            return chosen
        args = (uniform, chosen, broadcast(else_value, self.lanes))
        return ir.Call(chosen.dtype, IF_THEN_ELSE, args)

    def split_condition(self, condition: ir.PrimExpr) -> tuple[ir.PrimExpr, ir.PrimExpr | None]:
        """The part of a condition that all lanes share, and the vector that differs (or None)."""
        widened = [self.visit(part) for part in conjuncts(condition)]
        uniform = ir.logical_and(*(part for part in widened if part.dtype.lanes == 1))
        varying = [part for part in widened if part.dtype.lanes > 1]
        return uniform, ir.logical_and(*varying) if varying else None

    def under_mask(self, mask: ir.PrimExpr, node: NodeT, guarded: bool = False) -> NodeT:
        """Widen `node` with only the lanes of `mask` switched on, within the present ones."""
        outer = self.mask, self.guarded
        self.mask = mask if self.mask is None else ir.logical_and(self.mask, mask)
        self.guarded = guarded
        try:
            return self.rewrite(node)
        finally:
            self.mask, self.guarded = outer

    def visit_buffer_load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        if node.predicate is not None:
            raise NotVectorizable("a masked load inside a vectorised loop")
        buffer, index = self.access(node.buffer, node.indices)
        if index.dtype.lanes > 1:
            return ir.BufferLoad(buffer, (index,), self.mask)
        if self.mask is not None and not is_inside(node.buffer, (index,)):
            # All lanes share this load, and it may only happen if some lane is on.
            if not self.guarded:
                return ir.BufferLoad(buffer, (ir.Broadcast(index, self.lanes),), self.mask)
            self.needs_guard = True
        return node if index is node.indices[0] else ir.replace(node, indices=(index,))

    def access(
        self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]
    ) -> tuple[ir.Buffer, ir.PrimExpr]:
        """The buffer and the widened index of a one-dimensional access."""
        if len(indices) != 1 or buffer.dtype.lanes != 1:
            raise NotVectorizable(f"{buffer.name} has not been flattened")
        index = self.visit(indices[0])
        copies = self.private.get(buffer.data)
        if copies is None:
            return buffer, index
        private, kind = self._private_buffer(buffer, copies), index.dtype.element_of
        if index.dtype.lanes == 1:
            return private, ir.Ramp(ir.multiply(index, self.lanes), ir.const(1, kind), self.lanes)
        wide = ir.Mul(index, broadcast(ir.const(self.lanes, kind), self.lanes))
        return private, ir.Add(wide, ir.Ramp(ir.const(0, kind), ir.const(1, kind), self.lanes))

    def _private_buffer(self, buffer: ir.Buffer, data: ir.Var) -> ir.Buffer:
        known = self._private_buffers.get(buffer)
        if known is None:
            shape = (ir.multiply(buffer.shape[0], self.lanes),)
            known = self._private_buffers[buffer] = ir.replace(buffer, data=data, shape=shape)
        return known


def _as_ramp(value: ir.PrimExpr, zero: ir.PrimExpr, lanes: int) -> ir.Ramp | None:
    if isinstance(value, ir.Ramp):
        return value
    scalar = _scalar_of(value)
    return None if scalar is None else ir.Ramp(scalar, zero, lanes)
