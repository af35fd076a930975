"""Building blocks for LLVM values: arithmetic, selection, vectors, branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, TypeAlias, TypeVar

from tilewright.codegen.llvm.context import ModuleContext
from tilewright.codegen.llvm.emitter import FunctionEmitter, Value
from tilewright.codegen.llvm.forwarding import Forwarding
from tilewright.codegen.llvm.types import value_type
from tilewright.ir import INT64, DType, PrimExpr, Var, wrap_int

Thunk: TypeAlias = Callable[[], Value]
T = TypeVar("T")

_FOLDS: Final[dict[str, Callable[[int, int], int]]] = {
    "add": lambda p, q: p + q,
    "add nsw": lambda p, q: p + q,
    "sub": lambda p, q: p - q,
    "mul": lambda p, q: p * q,
    "mul nsw": lambda p, q: p * q,
}


class ValueBuilder:
    """Emits single operations into a function."""

    def __init__(self, context: ModuleContext, emitter: FunctionEmitter) -> None:
        self.context = context
        self.emitter = emitter
        self.env: dict[Var, Value] = {}  # index variables are i64 whatever their dtype
        self.alignments: dict[Var, int] = {}  # of pointers to memory of our own, in bytes
        self.heap: list[Value] = []  # allocated and not yet freed
        self.in_parallel = False  # this is the body of a parallel loop
        self.holds_tiles = False  # the tile registers are configured
        self.nonnegative: set[Var] = set()
        self.read_only: set[Var] = set()  # pointers through which this function never writes
        self.private: set[Var] = set()  # own memory that only plain loads and stores touch
        self.streamed: set[Var] = set()  # pointers whose stores go past the caches
        self.needs_fence = False
        self.forwarding = Forwarding(emitter)

    def value(self, expr: PrimExpr) -> Value:
        """The value of an expression."""
        raise NotImplementedError

    def condition(self, expr: PrimExpr) -> Value:
        """A scalar bool, as branches need it."""
        raise NotImplementedError

    def choose(self, condition: PrimExpr, then_expr: PrimExpr, else_expr: PrimExpr) -> Value:
        """One of two expressions; the other one is not evaluated."""
        raise NotImplementedError

    def computed(self, expr: PrimExpr) -> Value:
        """A float in a type that the machine computes with."""
        raise NotImplementedError

    def fail_unless_zero(self, code: Value) -> None:
        """Leave the function with `code` if it is not zero."""
        raise NotImplementedError

    def fail_if(self, failed: Value, message: str) -> None:
        """Leave the function with an error if the bool `failed` holds."""
        raise NotImplementedError

    def int_op(self, opcode: str, a: Value, b: Value) -> Value:
        """An integer operation; on 64-bit constants it is carried out here."""
        if a.type == "i64" and not a.text.startswith("%") and not b.text.startswith("%"):
            fold = _FOLDS.get(opcode)
            if fold is not None:
                return Value("i64", str(wrap_int(fold(int(a.text), int(b.text)), INT64)))
        return self.emitter.pure(a.type, f"{opcode} {a.type} {a.text}, {b.text}", (a, b))

    def compare(self, test: str, a: Value, b: Value) -> Value:
        """`icmp` or `fcmp` with its condition, e.g. "icmp slt"."""
        return self.emitter.pure(mask_type(a.type), f"{test} {a.type} {a.text}, {b.text}", (a, b))

    def convert(self, opcode: str, value: Value, type_: str) -> Value:
        """A conversion instruction."""
        return self.emitter.pure(type_, f"{opcode} {value} to {type_}", (value,))

    def negated(self, value: Value) -> Value:
        return self.emitter.pure(value.type, f"fneg {value}", (value,))

    def intrinsic(self, name: str, dtype: DType, *args: Value, flags: str = "") -> Value:
        """A pure LLVM intrinsic overloaded on one type; `flags` end in a blank."""
        type_ = value_type(dtype)
        symbol = f"llvm.{name}.{mangled(dtype)}"
        if symbol not in self.context.declarations:
            self.context.declare(type_, symbol, ", ".join(arg.type for arg in args))
        arguments = ", ".join(map(str, args))
        return self.emitter.pure(type_, f"call {flags}{type_} @{symbol}({arguments})", args)

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
        results = self.either(condition, on_true, on_false)
        incoming = ", ".join(f"[ {value.text}, %{end} ]" for value, end in results)
        type_ = results[0][0].type
        return self.emitter.here(type_, f"phi {type_} {incoming}")

    def either(
        self, condition: Value, on_true: Callable[[], T], on_false: Callable[[], T]
    ) -> list[tuple[T, str]]:
        """Two parts of code, of which one runs; for each what `on_...` gave, and its last block."""
        emitter = self.emitter
        then_label, else_label, join = (emitter.fresh(stem) for stem in ("then", "else", "join"))
        parts = []
        for label, emit in ((then_label, on_true), (else_label, on_false)):
            emitter.open_region(label)
            result = emit()
            parts.append((label, result, emitter.close_region()))
        emitter.line(f"br {condition}, label %{then_label}, label %{else_label}")
        results = []
        for label, result, region in parts:
            emitter.place(region, label)
            results.append((result, emitter.current.label))
            emitter.line(f"br label %{join}")
        emitter.start_block(join)
        return results

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

    def struct(self, type_: str, fields: Sequence[Value], align: int) -> Value:
        """A structure on the stack."""
        memory = self.emitter.alloca(f"alloca {type_}, align {align}")
        for position, value in enumerate(fields):
            place = self.emitter.pure(
                "ptr", f"getelementptr inbounds {type_}, {memory}, i32 0, i32 {position}", (memory,)
            )
            self.emitter.line(f"store {value}, {place}")
        return memory

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

    def shuffle(self, value: Value, order: Sequence[int]) -> Value:
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
    if text.startswith("%"):
        return None
    if text.startswith("splat ("):
        text = text[7:-1].split()[1]
    if text == "zeroinitializer":
        return 0
    return int(text) if text.lstrip("-").isdigit() else None


def zero_of(type_: str) -> Value:
    """Zero of any type."""
    if type_.startswith("<"):
        return Value(type_, "zeroinitializer")
    if type_ == "ptr":
        return Value(type_, "null")
    return Value(type_, "0" if type_.startswith("i") else "0.0")


@cache
def mangled(dtype: DType) -> str:
    """A type as LLVM's intrinsic names spell it."""
    element = dtype.element_of
    letter = "i1" if element.is_bool else f"{'f' if element.is_float else 'i'}{element.bits}"
    return letter if dtype.lanes == 1 else f"v{dtype.lanes}{letter}"
