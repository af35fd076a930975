"""A small builder of LLVM IR text whose values are combined with Python operators.

`Real`, `Int` and `Mask` stand for SSA values (or constants) of one lane count; `a * b + 1.0` emits
the instructions and returns the value, so that the math files read like the formulas they encode.
No fast-math flag is ever emitted: the roundings the formulas rely on must survive optimisation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, overload

from tilewright.codegen.llvm.vector_math.formats import FloatFormat, vector_of


@dataclass(frozen=True)
class Helper:
    """A function that generated functions call, with the intrinsics it declares."""

    name: str
    text: str
    declarations: frozenset[str]


@dataclass
class FunctionBody:
    """What has been emitted so far for one function."""

    lines: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)
    helpers: dict[str, Helper] = field(default_factory=dict)
    counter: int = 0

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def assign(self, instruction: str) -> str:
        name = self.fresh("%t")
        self.lines.append(f"  {name} = {instruction}")
        return name

    def statement(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def declare(self, result: str, name: str, parameters: Sequence[str]) -> None:
        self.declarations.add(f"declare {result} @{name}({', '.join(parameters)})")


@dataclass(frozen=True)
class Emitter:
    """Emits code for `lanes` values of one float format into a function body."""

    body: FunctionBody
    fmt: FloatFormat
    lanes: int
    has_scalef: bool = False  # AVX-512 has one instruction for `x * 2^n`

    @property
    def real_type(self) -> str:
        return vector_of(self.fmt.llvm, self.lanes)

    @property
    def int_type(self) -> str:
        return vector_of(f"i{self.fmt.bits}", self.lanes)

    @property
    def mask_type(self) -> str:
        return vector_of("i1", self.lanes)

    @property
    def type_suffix(self) -> str:
        scalar = f"f{self.fmt.bits}"
        return scalar if self.lanes == 1 else f"v{self.lanes}{scalar}"

    def real(self, value: float) -> Real:
        """A constant, rounded to the format."""
        (pattern,) = struct.unpack("<Q", struct.pack("<d", self.fmt.round(value)))
        return Real(self, self._splat(self.fmt.llvm, f"0x{pattern:016X}"))

    def int(self, value: int) -> Int:
        """An integer constant as wide as the float format."""
        return Int(self, self._splat(f"i{self.fmt.bits}", str(value)))

    def _splat(self, scalar: str, constant: str) -> str:
        return constant if self.lanes == 1 else f"splat ({scalar} {constant})"

    def intrinsic(self, name: str, *arguments: Real) -> Real:
        """A call of an overloaded LLVM intrinsic from reals to a real."""
        symbol = f"llvm.{name}.{self.type_suffix}"
        self.body.declare(self.real_type, symbol, [self.real_type] * len(arguments))
        passed = ", ".join(f"{self.real_type} {value.text}" for value in arguments)
        return Real(self, self.body.assign(f"call {self.real_type} @{symbol}({passed})"))

    def any_lane(self, mask: Mask) -> str:
        """An i1: true if the mask holds in some lane."""
        if self.lanes == 1:
            return mask.text
        symbol = f"llvm.vector.reduce.or.v{self.lanes}i1"
        self.body.declare("i1", symbol, [self.mask_type])
        return self.body.assign(f"call i1 @{symbol}({self.mask_type} {mask.text})")


@dataclass(frozen=True, eq=False)
class _Value:
    """An SSA value or a constant."""

    emitter: Emitter
    text: str

    def _assigned(self, kind: type[ValueT], instruction: str) -> ValueT:
        return kind(self.emitter, self.emitter.body.assign(instruction))


ValueT = TypeVar("ValueT", bound=_Value)


def _real_operator(opcode: str, reflected: bool = False) -> Callable[[Real, Real | float], Real]:
    def emit(self: Real, other: Real | float) -> Real:
        left, right = self.text, self.coerce(other).text
        left, right = (right, left) if reflected else (left, right)
        return self._assigned(Real, f"{opcode} {self.emitter.real_type} {left}, {right}")

    return emit


def _comparison(predicate: str) -> Callable[[Real, Real | float], Mask]:
    return lambda self, other: self.compare(predicate, other)


class Real(_Value):
    """A float value: scalar or vector, as its emitter says."""

    def coerce(self, other: Real | float) -> Real:
        return other if isinstance(other, Real) else self.emitter.real(other)

    __add__, __radd__ = _real_operator("fadd"), _real_operator("fadd", reflected=True)
    __sub__, __rsub__ = _real_operator("fsub"), _real_operator("fsub", reflected=True)
    __mul__, __rmul__ = _real_operator("fmul"), _real_operator("fmul", reflected=True)
    __truediv__, __rtruediv__ = _real_operator("fdiv"), _real_operator("fdiv", reflected=True)
    __lt__, __le__ = _comparison("olt"), _comparison("ole")
    __gt__, __ge__ = _comparison("ogt"), _comparison("oge")
    equals = _comparison("oeq")

    def __neg__(self) -> Real:
        return self._assigned(Real, f"fneg {self.emitter.real_type} {self.text}")

    def __abs__(self) -> Real:
        return self.emitter.intrinsic("fabs", self)

    def times_plus(self, factor: Real | float, addend: Real | float) -> Real:
        """`self * factor + addend`, fused wherever the machine can.

        `fmuladd` rather than `fma`: a machine without the instruction then rounds twice instead of
        calling into a math library that is not linked.
        """
        return self.emitter.intrinsic("fmuladd", self, self.coerce(factor), self.coerce(addend))

    def sqrt(self) -> Real:
        return self.emitter.intrinsic("sqrt", self)

    def with_sign_of(self, other: Real) -> Real:
        return self.emitter.intrinsic("copysign", self, other)

    def compare(self, predicate: str, other: Real | float) -> Mask:
        right = self.coerce(other).text
        kind = self.emitter.real_type
        return self._assigned(Mask, f"fcmp {predicate} {kind} {self.text}, {right}")

    def is_nan(self) -> Mask:
        return self.compare("uno", self)

    def bits(self) -> Int:
        emitter = self.emitter
        return self._assigned(Int, f"bitcast {emitter.real_type} {self.text} to {emitter.int_type}")

    def converted(self, fmt: FloatFormat) -> Real:
        """The same value in a wider format, or rounded to a narrower one."""
        target = Emitter(self.emitter.body, fmt, self.emitter.lanes)
        opcode = "fpext" if fmt.bits > self.emitter.fmt.bits else "fptrunc"
        instruction = f"{opcode} {self.emitter.real_type} {self.text} to {target.real_type}"
        return Real(target, self.emitter.body.assign(instruction))


def _int_operator(opcode: str, reflected: bool = False) -> Callable[[Int, Int | int], Int]:
    def emit(self: Int, other: Int | int) -> Int:
        left, right = self.text, self._coerce(other).text
        left, right = (right, left) if reflected else (left, right)
        return self._assigned(Int, f"{opcode} {self.emitter.int_type} {left}, {right}")

    return emit


class Int(_Value):
    """An integer value as wide as the float format of its emitter; `>>` keeps the sign."""

    def _coerce(self, other: Int | int) -> Int:
        return other if isinstance(other, Int) else self.emitter.int(other)

    __add__, __and__, __or__, __xor__ = map(_int_operator, ("add", "and", "or", "xor"))
    __sub__, __rsub__ = _int_operator("sub"), _int_operator("sub", reflected=True)
    __lshift__, __rshift__ = _int_operator("shl"), _int_operator("ashr")
    upper_bits = _int_operator("lshr")  # a shift that brings in zeros

    def compare(self, predicate: str, other: Int | int) -> Mask:
        right = self._coerce(other).text
        return self._assigned(
            Mask, f"icmp {predicate} {self.emitter.int_type} {self.text}, {right}"
        )

    def as_real(self) -> Real:
        """The float with these bits."""
        emitter = self.emitter
        return self._assigned(
            Real, f"bitcast {emitter.int_type} {self.text} to {emitter.real_type}"
        )


class Mask(_Value):
    """One truth value a lane."""

    def _binary(self, opcode: str, right: str) -> Mask:
        return self._assigned(Mask, f"{opcode} {self.emitter.mask_type} {self.text}, {right}")

    def __and__(self, other: Mask) -> Mask:
        return self._binary("and", other.text)

    def __or__(self, other: Mask) -> Mask:
        return self._binary("or", other.text)

    def __invert__(self) -> Mask:
        return self._binary("xor", "true" if self.emitter.lanes == 1 else "splat (i1 true)")


@overload
def where(mask: Mask, chosen: Real | float, otherwise: Real) -> Real: ...
@overload
def where(mask: Mask, chosen: Real, otherwise: Real | float) -> Real: ...
@overload
def where(mask: Mask, chosen: Int, otherwise: Int) -> Int: ...
def where(mask: Mask, chosen: Real | Int | float, otherwise: Real | Int | float) -> Real | Int:
    """`chosen` in the lanes where the mask holds, else `otherwise`."""
    if isinstance(chosen, Int) and isinstance(otherwise, Int):
        emitter = chosen.emitter
        return Int(emitter, _select(mask, emitter.int_type, chosen.text, otherwise.text))
    like = chosen if isinstance(chosen, Real) else otherwise
    if not isinstance(like, Real) or isinstance(chosen, Int) or isinstance(otherwise, Int):
        raise TypeError("where() needs two reals or two ints")
    left, right = like.coerce(chosen), like.coerce(otherwise)
    return Real(like.emitter, _select(mask, like.emitter.real_type, left.text, right.text))


def _select(mask: Mask, kind: str, chosen: str, otherwise: str) -> str:
    condition = f"{mask.emitter.mask_type} {mask.text}"
    return mask.emitter.body.assign(f"select {condition}, {kind} {chosen}, {kind} {otherwise}")


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """`c[0] + c[1] x + c[2] x^2 + ...` by Horner's rule."""
    *rest, last = coefficients
    result = x.emitter.real(last)
    for coefficient in reversed(rest):
        result = result.times_plus(x, coefficient)
    return result


def at_most(x: Real, bound: float) -> Real:
    """`min(x, bound)` that lets NaN through."""
    return where(x > bound, bound, x)


def at_least(x: Real, bound: float) -> Real:
    """`max(x, bound)` that lets NaN through."""
    return where(x < bound, bound, x)


def nearest_integer(x: Real, factor: float) -> tuple[Real, Int]:
    """`x * factor` rounded to the nearest integer, as a float and as an integer.

    Valid while the result stays below 2^(mantissa_bits - 1); needs no rounding instruction.
    """
    fmt = x.emitter.fmt
    shifted = x.times_plus(factor, fmt.rounding_magic)
    return shifted - fmt.rounding_magic, shifted.bits() - fmt.bit_pattern(fmt.rounding_magic)


def integer_as_real(n: Int) -> Real:
    """The float equal to a small integer; AVX2 has no instruction for the 64-bit conversion."""
    fmt = n.emitter.fmt
    return (n + fmt.bit_pattern(fmt.rounding_magic)).as_real() - fmt.rounding_magic


def power_of_two(n: Int) -> Real:
    """2^n for an n in the normal exponent range."""
    fmt = n.emitter.fmt
    return ((n + fmt.exponent_bias) << fmt.mantissa_bits).as_real()


def scaled(x: Real, n: Int) -> Real:
    """`x * 2^n` with overflow and gradual underflow; by products, not by additions to the exponent
    of x, since a NaN has to stay one. Two of them, so that 2^n itself cannot overflow.
    """
    emitter = x.emitter
    if emitter.has_scalef and emitter.lanes * emitter.fmt.bits % VECTOR_BITS == 0:
        return _scaled_by_instruction(x, n)
    half = n >> 1
    return x * power_of_two(half) * power_of_two(n - half)


VECTOR_BITS = 512
_CURRENT_ROUNDING = 4


def _scaled_by_instruction(x: Real, n: Int) -> Real:
    emitter, assign = x.emitter, x.emitter.body.assign
    exponent = assign(f"sitofp {emitter.int_type} {n.text} to {emitter.real_type}")
    width = VECTOR_BITS // emitter.fmt.bits
    piece_type = vector_of(emitter.fmt.llvm, width)
    symbol = f"llvm.x86.avx512.mask.scalef.{'ps' if emitter.fmt.bits == 32 else 'pd'}.512"
    mask = f"i{width}"
    emitter.body.declare(piece_type, symbol, [piece_type, piece_type, piece_type, mask, "i32"])
    pieces = []
    for start in range(0, emitter.lanes, width):
        value, power = (_lanes_of(emitter, text, start, width) for text in (x.text, exponent))
        pieces.append(
            assign(
                f"call {piece_type} @{symbol}({piece_type} {value}, {piece_type} {power}, "
                f"{piece_type} zeroinitializer, {mask} -1, i32 {_CURRENT_ROUNDING})"
            )
        )
    return Real(emitter, _joined(emitter, pieces, width))


def _lanes_of(emitter: Emitter, text: str, start: int, width: int) -> str:
    if width == emitter.lanes:
        return text
    chosen = ", ".join(f"i32 {lane}" for lane in range(start, start + width))
    whole = emitter.real_type
    return emitter.body.assign(
        f"shufflevector {whole} {text}, {whole} poison, <{width} x i32> <{chosen}>"
    )


def _joined(emitter: Emitter, pieces: list[str], width: int) -> str:
    """Pieces in order as one vector, by joining neighbours until one is left."""
    while len(pieces) > 1:
        kind = vector_of(emitter.fmt.llvm, width)
        chosen = ", ".join(f"i32 {lane}" for lane in range(2 * width))
        pieces = [
            emitter.body.assign(
                f"shufflevector {kind} {low}, {kind} {high}, <{2 * width} x i32> <{chosen}>"
            )
            for low, high in zip(pieces[::2], pieces[1::2], strict=True)
        ]
        width *= 2
    return pieces[0]
