"""Expressions to LLVM values, one method an expression class."""

from __future__ import annotations

from typing import ClassVar

from tilewright.codegen.llvm import casts, memory
from tilewright.codegen.llvm.calls import CALL_EMITTERS
from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.index import IndexBuilder, is_index
from tilewright.codegen.llvm.speculation import can_speculate
from tilewright.codegen.llvm.types import float_constant, value_type
from tilewright.codegen.llvm.values import mask_type
from tilewright.errors import CodegenError
from tilewright.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CmpOp,
    Dispatcher,
    Div,
    DType,
    FloatImm,
    GlobalVar,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Node,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)
from tilewright.target.intrin_rules import find_intrin_rule

_FLOAT_OPS = {Add: "fadd", Sub: "fsub", Mul: "fmul", Div: "fdiv"}
_INT_OPS = {Add: "add", Sub: "sub", Mul: "mul"}
_FLOAT_COMPARES = {EQ: "oeq", NE: "une", LT: "olt", LE: "ole", GT: "ogt", GE: "oge"}
_INT_COMPARES = {EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge"}


class ExprGenerator(IndexBuilder, Dispatcher):
    """Emits expressions into a function."""

    target_kind: ClassVar[str] = "llvm"

    def value(self, expr: PrimExpr) -> Value:
        """The value of an expression."""
        result: Value = self.visit(expr)
        return result

    # --- leaves ---------------------------------------------------------------------------------

    def visit_var(self, node: Var) -> Value:
        value = self.env.get(node)
        if value is None:
            raise CodegenError(f"variable {node.name} is used but not defined in the function")
        wanted = value_type(node.dtype)
        if value.type == wanted:
            return value
        return self.emitter.pure(wanted, f"trunc {value} to {wanted}", (value,))

    def visit_int_imm(self, node: IntImm) -> Value:
        if node.dtype.is_bool:
            return Value("i1", "true" if node.value else "false")
        return Value(value_type(node.dtype), str(node.value))

    def visit_float_imm(self, node: FloatImm) -> Value:
        if node.dtype.bits == 8:
            return casts.cast(
                self,
                Value("float", float_constant(node.value, DType("float32"))),
                DType("float32"),
                node.dtype,
            )
        return Value(value_type(node.dtype), float_constant(node.value, node.dtype))

    def visit_string_imm(self, node: StringImm) -> Value:
        return Value("ptr", self.context.string(node.value))

    # --- arithmetic -----------------------------------------------------------------------------

    def visit_binary_op(self, node: BinaryOp) -> Value:
        dtype, kind = node.a.dtype, type(node)
        if dtype.is_float:
            return self._float_op(node)
        a, b = self.value(node.a), self.value(node.b)
        opcode = _INT_OPS.get(kind)
        if opcode is not None:
            return self.int_op(opcode, a, b)
        return self.int_division(kind, a, b, signed=not dtype.is_uint)

    def _float_op(self, node: BinaryOp) -> Value:
        opcode = _FLOAT_OPS.get(type(node))
        if opcode is None:
            raise CodegenError(f"{type(node).__name__} of floats is not supported in `{node}`")
        fused = self._multiply_add(node) if isinstance(node, (Add, Sub)) else None
        if fused is not None:
            return fused
        a, b = self.value(node.a), self.value(node.b)
        return self.emitter.pure(a.type, f"{opcode} {a}, {b.text}", (a, b))

    def _multiply_add(self, node: Add | Sub) -> Value | None:
        """`x + a * b`, `a * b - x` and their like, as one fused instruction where there is one."""
        negative = isinstance(node, Sub)
        if isinstance(node.b, Mul):
            product, addend = node.b, node.a
            a, b, c = self.value(product.a), self.value(product.b), self.value(addend)
            a = self.negated(a) if negative else a
        elif isinstance(node.a, Mul):
            product, addend = node.a, node.b
            a, b, c = self.value(product.a), self.value(product.b), self.value(addend)
            c = self.negated(c) if negative else c
        else:
            return None
        return self.intrinsic("fmuladd", node.dtype, a, b, c)

    def visit_min(self, node: Min) -> Value:
        return self._extremum(node, "min", "olt", "lt")

    def visit_max(self, node: Max) -> Value:
        return self._extremum(node, "max", "ogt", "gt")

    def _extremum(self, node: BinaryOp, name: str, float_test: str, int_test: str) -> Value:
        a, b = self.value(node.a), self.value(node.b)
        dtype = node.dtype
        if dtype.is_float:
            test = self.emitter.pure(mask_type(a.type), f"fcmp {float_test} {a}, {b.text}", (a, b))
            return self.select(test, a, b)
        letter = "s" if dtype.is_int else "u"
        return self.intrinsic(letter + name, dtype, a, b)

    # --- logic ----------------------------------------------------------------------------------

    def visit_cmp_op(self, node: CmpOp) -> Value:
        dtype, kind = node.a.dtype, type(node)
        result = value_type(node.dtype)
        if dtype.is_float:
            a, b = self.value(node.a), self.value(node.b)
            return self.emitter.pure(result, f"fcmp {_FLOAT_COMPARES[kind]} {a}, {b.text}", (a, b))
        wide = dtype.is_int and dtype.lanes == 1 and is_index(node.a) and is_index(node.b)
        a, b = (
            (self.index(node.a), self.index(node.b))
            if wide
            else (self.value(node.a), self.value(node.b))
        )
        test = _INT_COMPARES[kind]
        if kind not in (EQ, NE):
            test = ("s" if dtype.is_int else "u") + test
        return self.emitter.pure(result, f"icmp {test} {a}, {b.text}", (a, b))

    def visit_and(self, node: And) -> Value:
        return self._lazy_logic(node.a, node.b, "and")

    def visit_or(self, node: Or) -> Value:
        return self._lazy_logic(node.a, node.b, "or")

    def _lazy_logic(self, a: PrimExpr, b: PrimExpr, opcode: str) -> Value:
        left = self.value(a)
        if can_speculate(b) or left.type != "i1":
            return self.int_op(opcode, left, self.value(b))
        if opcode == "and":
            return self.branch(left, lambda: self.value(b), lambda: Value("i1", "false"))
        return self.branch(left, lambda: Value("i1", "true"), lambda: self.value(b))

    def visit_not(self, node: Not) -> Value:
        value = self.value(node.a)
        return self.int_op("xor", value, self.splat_text("true", value.type))

    def visit_select(self, node: Select) -> Value:
        condition = self.value(node.condition)
        return self.select(condition, self.value(node.true_value), self.value(node.false_value))

    # --- vectors and the rest -------------------------------------------------------------------

    def visit_ramp(self, node: Ramp) -> Value:
        dtype = node.dtype
        if node.base.dtype.lanes != 1:
            raise CodegenError(f"a ramp of vectors is not supported: `{node}`")
        base, stride = self.value(node.base), self.value(node.stride)
        type_, element = value_type(dtype), value_type(dtype.element_of)
        steps = ", ".join(f"{element} {lane}" for lane in range(node.lanes))
        offsets = self.int_op("mul", Value(type_, f"<{steps}>"), self.splat(stride, node.lanes))
        return self.int_op("add", self.splat(base, node.lanes), offsets)

    def visit_broadcast(self, node: Broadcast) -> Value:
        value = self.value(node.value)
        if node.value.dtype.lanes == 1:
            return self.splat(value, node.lanes)
        count = node.value.dtype.lanes
        order = [lane % count for lane in range(count * node.lanes)]
        return self.shuffle(value, order)

    def visit_shuffle(self, node: Shuffle) -> Value:
        lanes: list[Value] = []
        for vector in node.vectors:
            value = self.value(vector)
            count = vector.dtype.lanes
            lanes += [value] if count == 1 else [self.lane(value, i) for i in range(count)]
        chosen = [lanes[_constant(index)] for index in node.indices]
        return chosen[0] if len(chosen) == 1 else self.lanes_to_vector(chosen)

    def visit_cast(self, node: Cast) -> Value:
        return casts.cast(self, self.value(node.value), node.value.dtype, node.dtype)

    def visit_let(self, node: Let) -> Value:
        self.env[node.var] = self.value(node.value)
        return self.value(node.body)

    def visit_buffer_load(self, node: BufferLoad) -> Value:
        return memory.load(self, node)

    def visit_call(self, node: Call) -> Value:
        if isinstance(node.op, GlobalVar):
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

    def generic_visit(self, node: Node) -> Value:
        raise CodegenError(f"the LLVM backend does not know {type(node).__name__}: `{node}`")


def _constant(expr: PrimExpr) -> int:
    if not isinstance(expr, IntImm):
        raise CodegenError(f"expected a constant lane number, got `{expr}`")
    return expr.value
