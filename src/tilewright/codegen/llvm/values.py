"""Building blocks for LLVM values: arithmetic, selection, vectors, branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tilewright.codegen.llvm.context import ModuleContext
from tilewright.codegen.llvm.emitter import FunctionEmitter, Value
from tilewright.codegen.llvm.types import value_type
from tilewright.ir import BinaryOp, Div, DType, FloorDiv, FloorMod, PrimExpr, Var

Thunk: TypeAlias = Callable[[], Value]


class ValueBuilder:
    """Emits single operations into a function."""

    def __init__(self, context: ModuleContext, emitter: FunctionEmitter) -> None:
        self.context = context
        self.emitter = emitter
        self.env: dict[Var, Value] = {}  # loop variables are i64 whatever their dtype
        self.alignments: dict[Var, int] = {}  # of pointers to memory of our own, in bytes
        self.heap: list[Value] = []  # allocated and not yet freed

    def value(self, expr: PrimExpr) -> Value:
        """The value of an expression."""
        raise NotImplementedError

    def fail_unless_zero(self, code: Value) -> None:
        """Leave the function with `code` if it is not zero."""
        raise NotImplementedError

    def int_op(self, opcode: str, a: Value, b: Value) -> Value:
        return self.emitter.pure(a.type, f"{opcode} {a}, {b.text}", (a, b))

    def negated(self, value: Value) -> Value:
        return self.emitter.pure(value.type, f"fneg {value}", (value,))

    def intrinsic(self, name: str, dtype: DType, *args: Value) -> Value:
        """A pure LLVM intrinsic overloaded on one type."""
        type_ = value_type(dtype)
        symbol = f"llvm.{name}.{mangled(dtype)}"
        self.context.declare(type_, symbol, ", ".join(arg.type for arg in args))
        arguments = ", ".join(map(str, args))
        return self.emitter.pure(type_, f"call {type_} @{symbol}({arguments})", args)

    def int_division(self, kind: type[BinaryOp], a: Value, b: Value, signed: bool) -> Value:
        letter = "s" if signed else "u"
        if kind in (FloorDiv, FloorMod) and signed:
            return self._floor_division(kind, a, b)
        opcode = f"{letter}div" if kind in (Div, FloorDiv) else f"{letter}rem"
        return self._trapping(opcode, a, b)

    def _trapping(self, opcode: str, a: Value, b: Value) -> Value:
        """A division: it may be moved only when its divisor is a constant other than zero."""
        if constant_of(b) not in (None, 0, -1):
            return self.int_op(opcode, a, b)
        return self.emitter.here(a.type, f"{opcode} {a}, {b.text}")

    def _floor_division(self, kind: type[BinaryOp], a: Value, b: Value) -> Value:
        divisor = constant_of(b)
        if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
            if kind is FloorMod:
                return self.int_op("and", a, self.splat_text(str(divisor - 1), b.type))
            return self.int_op("ashr", a, self.splat_text(str(divisor.bit_length() - 1), b.type))
        zero = Value(a.type, zero_of(a.type))
        remainder = self._trapping("srem", a, b)
        nonzero = self.emitter.pure(
            mask_type(a.type), f"icmp ne {remainder}, {zero.text}", (remainder,)
        )
        signs = self.int_op("xor", remainder, b)
        differ = self.emitter.pure(mask_type(a.type), f"icmp slt {signs}, {zero.text}", (signs,))
        adjust = self.int_op("and", nonzero, differ)
        if kind is FloorMod:
            moved = self.int_op("add", remainder, b)
            return self.select(adjust, moved, remainder)
        quotient = self._trapping("sdiv", a, b)
        step = self.emitter.pure(a.type, f"sext {adjust} to {a.type}", (adjust,))
        return self.int_op("add", quotient, step)

    def splat_text(self, scalar: str, type_: str) -> Value:
        """A constant in every lane."""
        if not type_.startswith("<"):
            return Value(type_, scalar)
        return Value(type_, f"splat ({type_.split(' x ')[1][:-1]} {scalar})")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """One of two values, lane by lane."""
        return self.emitter.pure(a.type, f"select {condition}, {a}, {b}", (condition, a, b))

    def branch(self, condition: Value, on_true: Thunk, on_false: Thunk) -> Value:
        """One of two values, of which only the chosen one is computed."""
        emitter = self.emitter
        then_label, else_label, join = (emitter.fresh(stem) for stem in ("then", "else", "join"))
        emitter.open_region(then_label)
        then_value = on_true()
        then_region = emitter.close_region()
        emitter.open_region(else_label)
        else_value = on_false()
        else_region = emitter.close_region()
        emitter.line(f"br {condition}, label %{then_label}, label %{else_label}")
        emitter.place(then_region, then_label)
        then_end = emitter.current.label
        emitter.line(f"br label %{join}")
        emitter.place(else_region, else_label)
        else_end = emitter.current.label
        emitter.line(f"br label %{join}")
        emitter.start_block(join)
        incoming = f"[ {then_value.text}, %{then_end} ], [ {else_value.text}, %{else_end} ]"
        return emitter.here(then_value.type, f"phi {then_value.type} {incoming}")

    def when(self, condition: Value, action: Callable[[], None]) -> None:
        """Emit what `action` emits, to be run only where `condition` holds."""
        emitter = self.emitter
        then_label, join = emitter.fresh("then"), emitter.fresh("join")
        emitter.open_region(then_label)
        action()
        region = emitter.close_region()
        emitter.line(f"br {condition}, label %{then_label}, label %{join}")
        emitter.place(region, then_label)
        emitter.line(f"br label %{join}")
        emitter.start_block(join)

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar in every lane of a vector."""
        type_ = f"<{lanes} x {value.type}>"
        if not value.text.startswith("%"):
            return Value(type_, f"splat ({value})")
        single = self.emitter.pure(type_, f"insertelement {type_} poison, {value}, i32 0", (value,))
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.emitter.pure(
            type_, f"shufflevector {single}, {type_} poison, {zeros}", (single,)
        )

    def shuffle(self, value: Value, order: list[int]) -> Value:
        """The chosen lanes of a vector."""
        element = value.type.split(" x ")[1][:-1]
        mask = ", ".join(f"i32 {lane}" for lane in order)
        type_ = f"<{len(order)} x {element}>"
        return self.emitter.pure(
            type_,
            f"shufflevector {value}, {value.type} poison, <{len(order)} x i32> <{mask}>",
            (value,),
        )

    def lane(self, vector: Value, position: int) -> Value:
        """One lane of a vector."""
        element = vector.type.split(" x ")[1][:-1]
        return self.emitter.pure(element, f"extractelement {vector}, i32 {position}", (vector,))

    def lanes_to_vector(self, scalars: list[Value]) -> Value:
        """A vector made of scalars."""
        type_ = f"<{len(scalars)} x {scalars[0].type}>"
        vector = Value(type_, "poison")
        for position, scalar in enumerate(scalars):
            vector = self.emitter.pure(
                type_, f"insertelement {vector}, {scalar}, i32 {position}", (vector, scalar)
            )
        return vector


def mask_type(type_: str) -> str:
    """The type of a comparison of values of a type."""
    return f"{type_.split(' x ')[0]} x i1>" if type_.startswith("<") else "i1"


def constant_of(value: Value) -> int | None:
    """The number behind an integer constant, scalar or the same in all lanes."""
    text = value.text
    if text.startswith("splat ("):
        text = text[7:-1].split()[1]
    return int(text) if text.lstrip("-").isdigit() else None


def zero_of(type_: str) -> str:
    """Zero of any type."""
    return "zeroinitializer" if type_.startswith("<") else "0"


def mangled(dtype: DType) -> str:
    """A type as LLVM's intrinsic names spell it."""
    element = dtype.element_of
    letter = {"bfloat16": "bf16", "bool": "i1"}.get(element)
    if letter is None:
        letter = ("f" if element.is_float else "i") + str(element.bits)
    return letter if dtype.lanes == 1 else f"v{dtype.lanes}{letter}"
