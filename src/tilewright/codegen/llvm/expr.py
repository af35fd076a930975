"""Expressions to LLVM values, one method an expression class."""

from __future__ import annotations

from typing import ClassVar

from tilewright import ir
from tilewright.codegen.llvm import calls, casts, memory, numeric_calls, packed_calls
from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.index import IndexBuilder, has_index_type
from tilewright.codegen.llvm.masking import LaneMask, can_speculate, under_mask
from tilewright.codegen.llvm.types import float_constant, value_type
from tilewright.codegen.llvm.values import zero_of
from tilewright.errors import CodegenError
from tilewright.target.intrin_rules import find_intrin_rule

CALL_EMITTERS = {**calls.CALLS, **numeric_calls.CALLS, **packed_calls.CALLS}
_FLOAT_OPS = {ir.Add: "fadd", ir.Sub: "fsub", ir.Mul: "fmul", ir.Div: "fdiv"}
_INT_OPS = {ir.Add: "add", ir.Sub: "sub", ir.Mul: "mul"}
_COMPARES = {ir.EQ: "eq", ir.NE: "ne", ir.LT: "lt", ir.LE: "le", ir.GT: "gt", ir.GE: "ge"}


class ExprGenerator(IndexBuilder, ir.Dispatcher):
    """Emits expressions into a function."""

    target_kind: ClassVar[str] = "llvm"

    def value(self, expr: ir.PrimExpr) -> Value:
        """The value of an expression."""
        result: Value = self.visit(expr)
        return result

    # --- leaves ---------------------------------------------------------------------------------

    def visit_var(self, node: ir.Var) -> Value:
        value = self.env.get(node)
        if value is None:
            raise CodegenError(f"variable {node.name} is used but not defined in the function")
        wanted = value_type(node.dtype)
        return value if value.type == wanted else self.in_type(value, node.dtype)

    def condition(self, expr: ir.PrimExpr) -> Value:
        """A scalar bool, as branches need it."""
        if expr.dtype is not ir.BOOL:
            raise CodegenError(f"expected a scalar bool as condition, got {expr.dtype!s}: `{expr}`")
        return self.value(expr)

    def visit_int_imm(self, node: ir.IntImm) -> Value:
        if node.dtype.is_bool:
            return Value("i1", "true" if node.value else "false")
        return Value(value_type(node.dtype), str(node.value))

    def visit_float_imm(self, node: ir.FloatImm) -> Value:
        return Value(value_type(node.dtype), float_constant(node.value, node.dtype))

    def visit_string_imm(self, node: ir.StringImm) -> Value:
        return Value("ptr", self.context.string(node.value))

    # --- arithmetic -----------------------------------------------------------------------------

    def visit_binary_op(self, node: ir.BinaryOp) -> Value:
        dtype = node.a.dtype
        if dtype.is_float:
            return self._float_op(node)
        if dtype.is_handle:
            raise CodegenError(f"arithmetic on pointers is not supported: `{node}`")
        opcode = _INT_OPS.get(type(node))
        if opcode is not None:
            return self.int_op(opcode, self.value(node.a), self.value(node.b))
        if has_index_type(dtype) and self.is_index(node):
            wide, type_ = self.index(node), value_type(dtype)
            return wide if wide.type == type_ else self.in_type(wide, dtype)
        a, b = self.value(node.a), self.value(node.b)
        return self.divide(node, a, b, a_natural=dtype.is_uint, b_natural=dtype.is_uint)

    def in_type(self, value: Value, dtype: ir.DType) -> Value:
        """A 64-bit value in the type of fewer bits that it really has."""
        if value.text.lstrip("-").isdigit():
            return Value(value_type(dtype), str(ir.wrap_int(int(value.text), dtype)))
        return self.convert("trunc", value, value_type(dtype))

    def _float_op(self, node: ir.BinaryOp) -> Value:
        opcode = _FLOAT_OPS.get(type(node))
        if opcode is None:
            raise CodegenError(f"{type(node).__name__} of floats is not supported in `{node}`")
        if isinstance(node, (ir.Add, ir.Sub)) and node.dtype.bits >= 32:
            fused = self._multiply_add(node)
            if fused is not None:
                return fused
        a, b = self.computed(node.a), self.computed(node.b)
        return self._rounded(
            self.emitter.pure(a.type, f"{opcode} {a}, {b.text}", (a, b)), node.dtype
        )

    def computed(self, expr: ir.PrimExpr) -> Value:
        """A float in a type that the machine computes with."""
        value = self.value(expr)
        if not casts.is_storage_only(expr.dtype):
            if expr.dtype.bits == 16:
                self.context.require_half(expr)
            return value
        return casts.cast(self, value, expr.dtype, ir.FLOAT32.with_lanes(expr.dtype.lanes))

    def _rounded(self, value: Value, dtype: ir.DType) -> Value:
        if not casts.is_storage_only(dtype):
            return value
        return casts.cast(self, value, ir.FLOAT32.with_lanes(dtype.lanes), dtype)

    def _multiply_add(self, node: ir.Add | ir.Sub) -> Value | None:
        """`x + a * b`, `a * b - x` and their like, as one fused instruction where there is one."""
        behind = isinstance(node.b, ir.Mul)
        product, addend = (node.b, node.a) if behind else (node.a, node.b)
        if not isinstance(product, ir.Mul):
            return None
        a, b, c = self.value(product.a), self.value(product.b), self.value(addend)
        if isinstance(node, ir.Sub):
            a, c = (self.negated(a), c) if behind else (a, self.negated(c))
        return self.intrinsic("fmuladd", node.dtype, a, b, c)

    def visit_min(self, node: ir.Min | ir.Max) -> Value:
        dtype, name = node.dtype, "min" if isinstance(node, ir.Min) else "max"
        if not dtype.is_float:
            letter = "s" if dtype.is_int else "u"
            return self.intrinsic(letter + name, dtype, self.value(node.a), self.value(node.b))
        kind = ir.FLOAT32.with_lanes(dtype.lanes) if casts.is_storage_only(dtype) else dtype
        a, b = self.computed(node.a), self.computed(node.b)
        # NaN where an operand is; which of -0.0 and 0.0 is chosen is left open, which is cheaper.
        return self._rounded(self.intrinsic(f"{name}imum", kind, a, b, flags="nsz "), dtype)

    visit_max = visit_min

    # --- logic ----------------------------------------------------------------------------------

    def visit_cmp_op(self, node: ir.CmpOp) -> Value:
        dtype, kind, test = node.a.dtype, type(node), _COMPARES[type(node)]
        if dtype.is_float:
            test = f"fcmp {'u' if kind is ir.NE else 'o'}{test}"  # NaN differs from everything
            return self.compare(test, self.computed(node.a), self.computed(node.b))
        if kind not in (ir.EQ, ir.NE):
            test = ("s" if dtype.is_int else "u") + test
        if self.is_index(node.a) and self.is_index(node.b):
            return self.compare(f"icmp {test}", self.index(node.a), self.index(node.b))
        return self.compare(f"icmp {test}", self.value(node.a), self.value(node.b))

    def visit_and(self, node: ir.And | ir.Or) -> Value:
        left, b, opcode = self.value(node.a), node.b, "and" if isinstance(node, ir.And) else "or"
        if can_speculate(b):
            return self.int_op(opcode, left, self.value(b))
        if left.type != "i1":
            wanted = left if opcode == "and" else self._inverted(left)
            return self.int_op(opcode, left, self.value_where(wanted, b))
        if opcode == "and":
            return self.branch(left, lambda: self.value(b), lambda: Value("i1", "false"))
        return self.branch(left, lambda: Value("i1", "true"), lambda: self.value(b))

    visit_or = visit_and

    def choose(
        self, condition: ir.PrimExpr, then_expr: ir.PrimExpr, else_expr: ir.PrimExpr
    ) -> Value:
        """One of two expressions; the other one is not evaluated."""
        chosen = self.value(condition)
        if can_speculate(then_expr) and can_speculate(else_expr):
            return self.select(chosen, self.value(then_expr), self.value(else_expr))
        if chosen.type != "i1":
            then_value = self.value_where(chosen, then_expr)
            return self.select(
                chosen, then_value, self.value_where(self._inverted(chosen), else_expr)
            )
        return self.branch(chosen, lambda: self.value(then_expr), lambda: self.value(else_expr))

    def value_where(self, mask: Value, expr: ir.PrimExpr) -> Value:
        """The value of an expression that is evaluated only in the lanes of a mask."""
        lanes = int(mask.type[1:].split(" x ")[0])
        bits = self.convert("bitcast", mask, f"i{lanes}")
        names = LaneMask(ir.Var("mask", ir.BOOL.with_lanes(lanes)), ir.Var("any_lane", ir.BOOL))
        self.env[names.lanes] = mask
        self.env[names.any_lane] = self.compare("icmp ne", bits, zero_of(bits.type))
        return self.value(under_mask(names, expr))

    def _inverted(self, mask: Value) -> Value:
        return self.int_op("xor", mask, self.splat_text("true", mask.type))

    def visit_not(self, node: ir.Not) -> Value:
        return self._inverted(self.value(node.a))

    def visit_select(self, node: ir.Select) -> Value:
        condition = self.value(node.condition)
        return self.select(condition, self.value(node.true_value), self.value(node.false_value))

    # --- vectors and the rest -------------------------------------------------------------------

    def visit_ramp(self, node: ir.Ramp) -> Value:
        """All of `base`, then all of `base + stride`, and so on."""
        dtype, width = node.dtype, node.base.dtype.lanes
        if not dtype.is_integral:
            raise CodegenError(f"a ramp counts in integers, not in {dtype!s}: `{node}`")
        element = value_type(dtype.element_of)
        numbers = (ir.wrap_int(lane // width, dtype.element_of) for lane in range(dtype.lanes))
        steps = ", ".join(f"{element} {number}" for number in numbers)
        base, stride = self._spread(node.base, node.lanes), self._spread(node.stride, node.lanes)
        offsets = self.int_op("mul", Value(value_type(dtype), f"<{steps}>"), stride)
        return self.int_op("add", base, offsets)

    def visit_broadcast(self, node: ir.Broadcast) -> Value:
        return self._spread(node.value, node.lanes)

    def _spread(self, expr: ir.PrimExpr, times: int) -> Value:
        value, count = self.value(expr), expr.dtype.lanes
        if count == 1:
            return self.splat(value, times)
        return self.shuffle(value, [lane % count for lane in range(count * times)])

    def visit_shuffle(self, node: ir.Shuffle) -> Value:
        total = sum(vector.dtype.lanes for vector in node.vectors)
        order = []
        for index in node.indices:
            if not isinstance(index, ir.IntImm):
                raise CodegenError(f"expected a constant lane number, got `{index}`")
            order.append(index.value)
        if not all(0 <= lane < total for lane in order):
            raise CodegenError(f"a shuffle of {total} lanes takes lanes 0 to {total - 1}: `{node}`")
        values = [self.value(vector) for vector in node.vectors]
        if len(values) == 1 and values[0].type.startswith("<") and len(order) > 1:
            return self.shuffle(values[0], order)
        lanes: list[tuple[Value, int]] = []
        for value, vector in zip(values, node.vectors, strict=True):
            lanes += [(value, lane) for lane in range(vector.dtype.lanes)]
        chosen = [
            self.lane(value, lane) if value.type.startswith("<") else value
            for value, lane in (lanes[position] for position in order)
        ]
        return chosen[0] if len(chosen) == 1 else self.lanes_to_vector(chosen)

    def visit_cast(self, node: ir.Cast) -> Value:
        if "float16" in (node.dtype.element_of, node.value.dtype.element_of):
            self.context.require_half(node)
        return casts.cast(self, self.value(node.value), node.value.dtype, node.dtype)

    def visit_let(self, node: ir.Let) -> Value:
        outer = self.env.get(node.var)
        self.bind(node.var, node.value)
        result = self.value(node.body)
        self.leave_scope(node.var, outer)
        return result

    def visit_buffer_load(self, node: ir.BufferLoad) -> Value:
        return memory.load(self, node)

    def visit_call(self, node: ir.Call) -> Value:
        if isinstance(node.op, ir.GlobalVar):
            raise CodegenError(f"call of {node.op.name!r}: calls between functions must be inlined")
        rule = find_intrin_rule(self.target_kind, node.op.name)
        if rule is not None:
            lowered = rule(node)
            if lowered is not None and lowered is not node:
                return self.value(lowered)
        emit = CALL_EMITTERS.get(node.op.name)
        if emit is None:
            raise CodegenError(
                f"the LLVM backend has no code for `{node}`; register_intrin_rule('llvm', "
                f"{node.op.name!r}, rule) can provide it"
            )
        result: Value = emit(self, node)
        return result

    def generic_visit(self, node: ir.Node) -> Value:
        raise CodegenError(f"the LLVM backend does not know {type(node).__name__}: `{node}`")
