"""Expressions as C text, with only the parentheses that C needs.

A vector expression is printed for one lane: `lane` names the loop variable (or gives the number) of
the lane. `vectors.py` prints those that the compiler's vector extension expresses directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NoReturn, TypeAlias

from tilewright import ir
from tilewright.codegen.c import types
from tilewright.codegen.c.calls import POSTFIX, TERNARY, UNARY, print_call
from tilewright.codegen.c.prelude import Prelude
from tilewright.errors import CodegenError
from tilewright.support.names import NameSupply

Printed: TypeAlias = tuple[str, int]  # the text and the precedence of its outermost operator
_MULTIPLICATIVE, _ADDITIVE = 13, 12
_INFIX: dict[type[ir.BinaryOp], tuple[str, int]] = {
    ir.Mul: ("*", _MULTIPLICATIVE),
    ir.Div: ("/", _MULTIPLICATIVE),
    ir.Mod: ("%", _MULTIPLICATIVE),
    ir.Add: ("+", _ADDITIVE),
    ir.Sub: ("-", _ADDITIVE),
    ir.LT: ("<", 10),
    ir.LE: ("<=", 10),
    ir.GT: (">", 10),
    ir.GE: (">=", 10),
    ir.EQ: ("==", 9),
    ir.NE: ("!=", 9),
    ir.And: ("&&", 5),
    ir.Or: ("||", 4),
}
# Operands of these get more parentheses than C needs, because few know its rules for them.
_CLEARER = {"&": UNARY, "|": UNARY, "^": UNARY, "<<": UNARY, ">>": UNARY, "||": 6}
_NAMED: dict[type[ir.BinaryOp], str] = {
    ir.FloorDiv: "floordiv",
    ir.FloorMod: "floormod",
    ir.Min: "min",
    ir.Max: "max",
}


class ExpressionPrinter(ir.Visitor):
    """Prints the expressions of one function; a dialect of C spells some things in its own way."""

    language: ClassVar[str] = "C"  # as messages name it
    target_kind: ClassVar[str] = "c"  # whose intrinsic rules apply

    def __init__(self, prelude: Prelude, externs: dict[str, str]) -> None:
        self.prelude = prelude
        self.names: dict[ir.Var, str] = {}
        self.supply = NameSupply()
        self.externs = externs  # declarations of C functions by name
        self._lane: str | None = None

    # --- spelling ---

    def type_name(self, dtype: ir.DType) -> str:
        """The type of one lane."""
        return types.c_type(dtype)

    def pointer_type(self, dtype: ir.DType) -> str:
        return f"{self.type_name(dtype)} *"

    def integer(self, value: int, dtype: ir.DType) -> str:
        return types.integer_literal(value, dtype)

    def fresh_name(self, name: str) -> str:
        """A name that nothing else has here."""
        return self.supply.fresh(types.identifier(name))

    # --- what statements ask for ---

    def text(self, expr: ir.PrimExpr) -> str:
        return self.write(expr)[0]

    def at_lane(self, expr: ir.PrimExpr, lane: str) -> str:
        """A vector expression for one lane; a scalar as it is."""
        return self.operand_at_lane(expr, lane, 0)

    def operand_at_lane(self, expr: ir.PrimExpr, lane: str, at_least: int) -> str:
        outer, self._lane = self._lane, lane if expr.dtype.lanes > 1 else self._lane
        text = self.operand(expr, at_least)
        self._lane = outer
        return text

    def write(self, expr: ir.PrimExpr) -> Printed:
        if expr.dtype.lanes > 1 and self._lane is None:
            raise CodegenError(f"a vector is used where C needs a scalar: `{expr}`")
        printed: Printed = self.visit(expr)
        return printed

    def operand(self, expr: ir.PrimExpr, at_least: int) -> str:
        """`expr` in parentheses unless it binds at least that tightly."""
        text, precedence = self.write(expr)
        return text if precedence >= at_least else f"({text})"

    def define(self, var: ir.Var) -> str:
        """A name for a variable from here on."""
        name = self.names[var] = self.fresh_name(var.name)
        return name

    # --- numbers that C does not compute with directly ---

    def as_float(self, expr: ir.PrimExpr) -> str:
        """An operand as C computes with it: small floats as float."""
        text = self.text(expr)
        is_small = types.is_small_float(expr.dtype)
        return f"{self.prelude.decode(expr.dtype)}({text})" if is_small else text

    def from_float(self, text: str, dtype: ir.DType) -> Printed:
        if types.is_small_float(dtype):
            return f"{self.prelude.encode(dtype)}({text})", POSTFIX
        return text, POSTFIX

    def cut(self, text: str, precedence: int, dtype: ir.DType) -> Printed:
        """A result that C computed in `int`, in its own type again."""
        if dtype.is_integral and dtype.bits < 8:
            return f"{self.prelude.helper('wrap', dtype)}({text})", POSTFIX
        if types.is_promoted(dtype):
            return f"({self.type_name(dtype)})({text})", UNARY
        return text, precedence

    def infix(
        self, sign: str, precedence: int, a: ir.PrimExpr, b: ir.PrimExpr, result: ir.DType
    ) -> Printed:
        """A binary operator; the right operand of the same level needs parentheses."""
        least = _CLEARER.get(sign, precedence)
        chained = isinstance(a, ir.Or) and sign == "||"
        left = self.operand(a, precedence if chained else least)
        right = self.operand(b, max(least, precedence + 1))
        return self.cut(f"{left} {sign} {right}", precedence, result)

    def choice(self, condition: ir.PrimExpr, yes: ir.PrimExpr, no: ir.PrimExpr) -> Printed:
        parts = [self.operand(part, TERNARY + 1) for part in (condition, yes, no)]
        return f"{parts[0]} ? {parts[1]} : {parts[2]}", TERNARY

    # --- scalars ---

    def generic_visit(self, node: ir.Node) -> NoReturn:
        raise CodegenError(
            f"the {self.language} backend cannot express {type(node).__name__}: `{node}`"
        )

    def visit_var(self, node: ir.Var) -> Printed:
        name = self.names.get(node)
        if name is None:
            raise CodegenError(f"variable {node.name!r} is used but nothing defines it")
        return (f"{name}[{self._lane}]" if node.dtype.lanes > 1 else name), POSTFIX

    def visit_int_imm(self, node: ir.IntImm) -> Printed:
        text = self.integer(node.value, node.dtype)
        return text, UNARY if text.startswith("-") else POSTFIX

    def visit_float_imm(self, node: ir.FloatImm) -> Printed:
        text = types.float_literal(node.value, node.dtype)
        small = types.is_small_float(node.dtype)
        return self.from_float(text, node.dtype) if small else (text, UNARY)

    def visit_string_imm(self, node: ir.StringImm) -> Printed:
        return types.string_literal(node.value), POSTFIX

    def visit_binary_op(self, node: ir.BinaryOp) -> Printed:
        if types.is_small_float(node.a.dtype):
            return self.small_float_binary(node)
        named = _NAMED.get(type(node))
        if named is not None:
            helper = self.prelude.helper(named, node.dtype)
            return f"{helper}({self.text(node.a)}, {self.text(node.b)})", POSTFIX
        if isinstance(node, ir.Mod) and node.dtype.is_float:
            suffix = "" if node.dtype.bits == 64 else "f"
            return f"fmod{suffix}({self.text(node.a)}, {self.text(node.b)})", POSTFIX
        return self.plain_infix(node)

    def plain_infix(self, node: ir.BinaryOp) -> Printed:
        """An operator that the language has."""
        sign, precedence = _INFIX[type(node)]
        return self.infix(sign, precedence, node.a, node.b, node.dtype)

    def small_float_binary(self, node: ir.BinaryOp) -> Printed:
        a, b = self.as_float(node.a), self.as_float(node.b)
        named = _NAMED.get(type(node))
        if named is not None:
            return self.from_float(
                f"{self.prelude.helper(named, ir.DType('float32'))}({a}, {b})", node.dtype
            )
        sign, precedence = _INFIX[type(node)]
        if isinstance(node, ir.CmpOp):
            return f"{a} {sign} {b}", precedence
        return self.from_float(f"{a} {sign} {b}", node.dtype)

    def visit_not(self, node: ir.Not) -> Printed:
        return f"!{self.operand(node.a, UNARY)}", UNARY

    def visit_select(self, node: ir.Select) -> Printed:
        return self.choice(node.condition, node.true_value, node.false_value)

    def visit_cast(self, node: ir.Cast) -> Printed:
        source, target = node.value.dtype, node.dtype
        if target.is_bool:
            zero = f"{self.as_float(node.value)} != 0" if source.is_float else None
            return zero or f"{self.operand(node.value, 9)} != 0", 9
        if types.is_small_float(target):
            value = self.as_float(node.value)
            return self.from_float(f"(float)({value})" if source.bits != 32 else value, target)
        if target.is_integral and target.bits < 8:
            return self.cut(f"(int32_t)({self.as_float(node.value)})", UNARY, target)
        if types.is_small_float(source):
            return f"({self.type_name(target)}){self.as_float(node.value)}", UNARY
        return f"({self.type_name(target)}){self.operand(node.value, UNARY)}", UNARY

    def visit_let(self, node: ir.Let) -> Printed:
        if node.var.dtype.lanes > 1:
            raise CodegenError(f"the C backend has no vectors in let expressions: `{node}`")
        value = self.text(node.value)
        name = self.define(node.var)
        body = self.text(node.body)
        return f"({{ const {types.c_type(node.var.dtype)} {name} = {value}; {body}; }})", POSTFIX

    def visit_call(self, node: ir.Call) -> Printed:
        lanes = _LANE_CALLS.get(getattr(node.op, "name", ""))
        return lanes(self, node) if lanes is not None else print_call(self, node)

    # --- memory ---

    def element(self, buffer: ir.Buffer, index: ir.PrimExpr) -> str:
        """An element of a flat buffer."""
        return f"{self.pointer_to(buffer)}[{self.text(index)}]"

    def pointer_to(self, buffer: ir.Buffer) -> str:
        """The start of a flat buffer, as a pointer of its type."""
        pointer = self.names.get(buffer.data)
        if pointer is None:
            raise CodegenError(f"the memory of buffer {buffer.name} is not defined here")
        annotation = buffer.data.type_annotation
        if annotation is None or annotation.element_type.element_of is not buffer.dtype.element_of:
            return f"(({self.pointer_type(buffer.dtype)}){pointer})"
        return pointer

    def visit_buffer_load(self, node: ir.BufferLoad) -> Printed:
        if node.buffer.dtype.lanes > 1 or len(node.indices) != 1:
            raise CodegenError(f"buffer {node.buffer.name} is not flat: `{node}`")
        element = self.element(node.buffer, node.indices[0])
        if node.predicate is None:
            return element, POSTFIX
        return f"{self.operand(node.predicate, TERNARY + 1)} ? {element} : 0", TERNARY

    # --- vectors, one lane of them ---

    def _lane_below(self, lanes: int, part: str) -> str:
        """The lane of an inner vector of `lanes` lanes, repeated in an outer one."""
        lane = str(self._lane)
        if lane.isdigit():
            return str(int(lane) % lanes if part == "%" else int(lane) // lanes)
        return f"({lane} {part} {lanes})"

    def visit_broadcast(self, node: ir.Broadcast) -> Printed:
        if node.value.dtype.lanes == 1:
            return self.write(node.value)
        inner = self._lane_below(node.value.dtype.lanes, "%")
        return self.operand_at_lane(node.value, inner, UNARY), UNARY

    def visit_ramp(self, node: ir.Ramp) -> Printed:
        lanes = node.base.dtype.lanes
        inner, step = self._lane, str(self._lane)
        if lanes > 1:
            inner, step = self._lane_below(lanes, "%"), self._lane_below(lanes, "/")
        base = self.operand_at_lane(node.base, str(inner), _ADDITIVE)
        if ir.is_one(node.stride):
            return f"{base} + {step}", _ADDITIVE
        stride = self.operand_at_lane(node.stride, str(inner), _MULTIPLICATIVE)
        return f"{base} + {stride} * {step}", _ADDITIVE

    def visit_shuffle(self, node: ir.Shuffle) -> Printed:
        lanes = [(vector, lane) for vector in node.vectors for lane in range(vector.dtype.lanes)]
        chosen = []
        for index in node.indices:
            if not isinstance(index, ir.IntImm):
                raise CodegenError(f"the lanes of a shuffle must be constants: `{node}`")
            vector, lane = lanes[index.value]
            chosen.append(self.at_lane(vector, str(lane)))
        if len(chosen) == 1:
            return f"({chosen[0]})", POSTFIX
        return f"(({types.c_type(node.dtype)}[]){{{', '.join(chosen)}}})[{self._lane}]", POSTFIX

    def vector_half(self, node: ir.Call) -> Printed:
        half = node.args[0].dtype.lanes // 2
        offset = half if node.op.name == "tir.vectorhigh" else 0
        lane = f"({self._lane} + {offset})" if offset else str(self._lane or 0)
        return self.operand_at_lane(node.args[0], lane, UNARY), UNARY

    def vector_combine(self, node: ir.Call) -> Printed:
        low, high = node.args
        half, lane = low.dtype.lanes, self._lane
        first = self.operand_at_lane(low, str(lane), TERNARY + 1)
        second = self.operand_at_lane(high, f"({lane} - {half})", TERNARY + 1)
        return f"{lane} < {half} ? {first} : {second}", TERNARY


_LANE_CALLS: dict[str, Callable[[ExpressionPrinter, ir.Call], Printed]] = {
    "tir.vectorlow": ExpressionPrinter.vector_half,
    "tir.vectorhigh": ExpressionPrinter.vector_half,
    "tir.vectorcombine": ExpressionPrinter.vector_combine,
}
