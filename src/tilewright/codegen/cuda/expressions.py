"""Expressions as CUDA C++, where they are spelled differently from C."""

from __future__ import annotations

from typing import ClassVar

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.codegen.c.calls import POSTFIX, TERNARY, UNARY
from tilewright.codegen.c.expressions import ExpressionPrinter, Printed
from tilewright.codegen.c.types import is_small_float
from tilewright.codegen.cuda.prelude import CudaPrelude
from tilewright.codegen.cuda.types import cuda_identifier, integer_literal
from tilewright.errors import CodegenError

_SHIFT, _BITWISE_AND = 11, 8
_NATIVE_HALF = (ir.Add, ir.Sub, ir.Mul)


class CudaExpressionPrinter(ExpressionPrinter):
    """Prints the expressions of one kernel."""

    language: ClassVar[str] = "CUDA"
    target_kind: ClassVar[str] = "cuda"
    prelude: CudaPrelude
    analyzer: Analyzer  # of thread and loop variables

    # --- spelling ---

    def type_name(self, dtype: ir.DType) -> str:
        return self.prelude.type(dtype)

    def pointer_type(self, dtype: ir.DType) -> str:
        return f"{self.type_name(dtype)}*"

    def integer(self, value: int, dtype: ir.DType) -> str:
        return integer_literal(value, dtype)

    def fresh_name(self, name: str) -> str:
        return self.supply.fresh(cuda_identifier(name))

    @property
    def in_lane(self) -> bool:
        """True while vectors are printed for one lane."""
        return self._lane is not None

    # --- floats ---

    def visit_float_imm(self, node: ir.FloatImm) -> Printed:
        text, precedence = super().visit_float_imm(node)
        for name in ("INFINITY", "NAN"):
            if name in text:
                self.prelude.part(name)
        return text, precedence

    def as_float(self, expr: ir.PrimExpr) -> str:
        if is_small_float(expr.dtype):
            return f"(float){self.operand(expr, UNARY)}"
        return self.text(expr)

    def from_float(self, text: str, dtype: ir.DType) -> Printed:
        if is_small_float(dtype):
            return f"{self.type_name(dtype)}({text})", POSTFIX
        return text, POSTFIX

    def small_float_binary(self, node: ir.BinaryOp) -> Printed:
        if node.dtype.element_of == "float16" and isinstance(node, _NATIVE_HALF):
            self.prelude.half_arithmetic()
            return self.plain_infix(node)
        return super().small_float_binary(node)

    def visit_cast(self, node: ir.Cast) -> Printed:
        if is_small_float(node.value.dtype) and node.dtype.element_of == "float32":
            return self.as_float(node.value), UNARY
        return super().visit_cast(node)

    # --- integers ---

    def visit_floor_div(self, node: ir.FloorDiv) -> Printed:
        return self._floored(node, ir.Div, ">>")

    def visit_floor_mod(self, node: ir.FloorMod) -> Printed:
        return self._floored(node, ir.Mod, "&")

    def _floored(
        self, node: ir.FloorDiv | ir.FloorMod, truncating: type[ir.BinaryOp], sign: str
    ) -> Printed:
        """By a power of two a shift or mask; the truncating operator where nothing is negative."""
        divisor = node.b.value if isinstance(node.b, ir.Broadcast) else node.b
        if isinstance(divisor, ir.IntImm) and divisor.value.bit_count() == 1 and divisor.value > 0:
            size = divisor.value
            number = size.bit_length() - 1 if sign == ">>" else size - 1
            second = ir.const(number, node.b.dtype)
            return self.infix(
                sign, _SHIFT if sign == ">>" else _BITWISE_AND, node.a, second, node.dtype
            )
        if node.dtype.is_float or not self._never_negative(node.a, divisor):
            return self.visit_binary_op(node)
        return self.visit_binary_op(truncating(node.a, node.b))

    def _never_negative(self, *operands: ir.PrimExpr) -> bool:
        return all(
            operand.dtype.is_uint
            or (operand.dtype.lanes == 1 and self.analyzer.const_int_bound(operand).min_value >= 0)
            for operand in operands
        )

    # --- memory ---

    def pointer_to(self, buffer: ir.Buffer) -> str:
        annotation = buffer.data.type_annotation
        if annotation is not None and annotation.storage_scope.startswith("wmma."):
            raise CodegenError(
                f"elements of fragment {buffer.name!r} have no known place; "
                "store it into shared memory first"
            )
        return super().pointer_to(buffer)

    def visit_buffer_load(self, node: ir.BufferLoad) -> Printed:
        if node.predicate is None:
            return super().visit_buffer_load(node)
        element, _ = super().visit_buffer_load(ir.replace(node, predicate=None))
        zero = self.operand(ir.const(0, node.dtype.element_of), TERNARY + 1)
        return f"{self.operand(node.predicate, TERNARY + 1)} ? {element} : {zero}", TERNARY

    # --- vectors and calls ---

    def visit_let(self, node: ir.Let) -> Printed:
        if node.var.dtype.lanes > 1:
            raise CodegenError(f"the CUDA backend has no vectors in let expressions: `{node}`")
        value = self.text(node.value)
        name = self.define(node.var)
        kind = self.type_name(node.var.dtype)
        return f"[&] {{ const {kind} {name} = {value}; return {self.text(node.body)}; }}()", POSTFIX

    def visit_shuffle(self, node: ir.Shuffle) -> Printed:
        lanes = [(vector, lane) for vector in node.vectors for lane in range(vector.dtype.lanes)]
        which = node.indices[0 if node.dtype.lanes == 1 else int(self._lane or 0)]
        if not isinstance(which, ir.IntImm):
            raise CodegenError(f"the lanes of a shuffle must be constants: `{node}`")
        vector, lane = lanes[which.value]
        return self.operand_at_lane(vector, str(lane), UNARY), UNARY

    def vector_combine(self, node: ir.Call) -> Printed:
        low, high = node.args
        lane = int(self._lane or 0)
        half = low.dtype.lanes
        part, at = (low, lane) if lane < half else (high, lane - half)
        return self.operand_at_lane(part, str(at), UNARY), UNARY
