"""Spelling of calls of builtin operators in C: tables by operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tilewright.codegen.c.types import c_type, function_name, identifier, is_small_float
from tilewright.errors import CodegenError
from tilewright.ir import BufferLoad, Call, DType, GlobalVar, StringImm, convert
from tilewright.lowering.lower_intrin import fixed_point_product
from tilewright.target.intrin_rules import find_intrin_rule

if TYPE_CHECKING:
    from tilewright.codegen.c.expressions import ExpressionPrinter, Printed

Spell: TypeAlias = Callable[["ExpressionPrinter", Call], "Printed"]

POSTFIX, UNARY, TERNARY = 15, 14, 3
# Functions of <math.h>, which end in `f` for float.
MATH_H = frozenset(
    """exp exp2 expm1 erf log log2 log10 log1p tanh sqrt sin cos tan asin acos atan sinh cosh asinh
    acosh atanh floor ceil trunc round nearbyint fabs pow fmod atan2 copysign nextafter ldexp hypot
    fma""".split()  # noqa: SIM905
)
_BINARY: dict[str, tuple[str, int]] = {
    "bitwise_and": ("&", 8),
    "bitwise_xor": ("^", 7),
    "bitwise_or": ("|", 6),
    "shift_left": ("<<", 11),
    "shift_right": (">>", 11),
}
_FLOAT_TESTS = ("isnan", "isinf", "isfinite")
_HELPERS = ("clz", "popcount")


def print_call(printer: ExpressionPrinter, node: Call) -> Printed:
    """A call of a builtin operator or of another function of the module."""
    if isinstance(node.op, GlobalVar):
        args = ", ".join(printer.text(arg) for arg in node.args)
        return f"{function_name(node.op.name)}({args})", POSTFIX
    rule = find_intrin_rule(printer.target_kind, node.op.name)
    replacement = node if rule is None else rule(node)
    if replacement is not None and replacement is not node:
        return printer.write(convert(replacement))
    return _print_builtin(printer, node, node.op.name.removeprefix("tir."))


def _print_builtin(printer: ExpressionPrinter, node: Call, name: str) -> Printed:
    if name in MATH_H:
        suffix = "" if node.dtype.bits == 64 else "f"
        args = ", ".join(printer.as_float(arg) for arg in node.args)
        return printer.from_float(f"{name}{suffix}({args})", node.dtype)
    if name in _BINARY:
        sign, precedence = _BINARY[name]
        left, right = node.args
        return printer.infix(sign, precedence, left, right, node.dtype)
    if name in _FLOAT_TESTS:
        return f"({name}({printer.as_float(node.args[0])}) != 0)", POSTFIX
    if name in _HELPERS:
        helper = printer.prelude.helper(name, node.args[0].dtype)
        return f"{helper}({', '.join(printer.text(arg) for arg in node.args)})", POSTFIX
    spell = _SPECIAL.get(name)
    if spell is None:
        raise CodegenError(f"the {printer.language} backend cannot express tir.{name}: `{node}`")
    return spell(printer, node)


def _rsqrt(printer: ExpressionPrinter, node: Call) -> Printed:
    one, root = ("1.0", "sqrt") if node.dtype.bits == 64 else ("1.0f", "sqrtf")
    return printer.from_float(f"({one} / {root}({printer.as_float(node.args[0])}))", node.dtype)


def _sigmoid(printer: ExpressionPrinter, node: Call) -> Printed:
    wide = DType("float32") if is_small_float(node.dtype) else node.dtype
    helper = printer.prelude.helper("sigmoid", wide)
    return printer.from_float(f"{helper}({printer.as_float(node.args[0])})", node.dtype)


def _exp10(printer: ExpressionPrinter, node: Call) -> Printed:
    power = "pow(10.0, " if node.dtype.bits == 64 else "powf(10.0f, "
    return printer.from_float(f"{power}{printer.as_float(node.args[0])})", node.dtype)


def _bitwise_not(printer: ExpressionPrinter, node: Call) -> Printed:
    return printer.cut(f"~{printer.operand(node.args[0], UNARY)}", UNARY, node.dtype)


def _reinterpret(printer: ExpressionPrinter, node: Call) -> Printed:
    source = node.args[0].dtype
    if source.lanes != node.dtype.lanes:
        raise CodegenError(f"the C backend cannot change lanes in `{node}`")
    function = printer.prelude.bits(source, node.dtype)
    return f"{function}({printer.text(node.args[0])})", POSTFIX


def _address_of(printer: ExpressionPrinter, node: Call) -> Printed:
    load = node.args[0]
    if not isinstance(load, BufferLoad):
        raise CodegenError(f"address_of needs a buffer element, got `{load}`")
    element = printer.element(load.buffer, load.indices[0])
    return f"(void *)&{element}", UNARY


def _access_pointer(printer: ExpressionPrinter, node: Call) -> Printed:
    kind, data, offset = node.args[0].dtype, node.args[1], node.args[2]
    pointer = f"({c_type(kind)} *){printer.operand(data, UNARY)}"
    return f"(void *)({pointer} + {printer.operand(offset, 12)})", UNARY


def _large_uint(printer: ExpressionPrinter, node: Call) -> Printed:
    low, high = (printer.operand(arg, UNARY) for arg in node.args)
    return f"((uint64_t){high} << 32 | (uint64_t){low})", POSTFIX


def _extern(printer: ExpressionPrinter, node: Call) -> Printed:
    name, args = node.args[0], node.args[1:]
    if not isinstance(name, StringImm):
        raise CodegenError(f"`{node}` must name the function as a string")
    # The types of the call are those of the function.
    symbol, returned = (
        identifier(name.value),
        "void" if node.dtype == "void" else c_type(node.dtype),
    )
    types = ["const char *" if isinstance(arg, StringImm) else c_type(arg.dtype) for arg in args]
    prototype = f"extern {returned} {symbol}({', '.join(types) or 'void'});"
    printer.externs.setdefault(name.value, prototype)
    return f"{symbol}({', '.join(map(printer.text, args))})", POSTFIX


_SPECIAL: dict[str, Spell] = {
    "if_then_else": lambda printer, node: printer.choice(*node.args),
    "rsqrt": _rsqrt,
    "sigmoid": _sigmoid,
    "exp10": _exp10,
    "likely": lambda printer, node: printer.write(node.args[0]),
    "q_multiply_shift": lambda printer, node: printer.write(fixed_point_product(node)),
    "q_multiply_shift_per_axis": lambda printer, node: printer.write(fixed_point_product(node)),
    "bitwise_not": _bitwise_not,
    "undef": lambda printer, node: ("0", POSTFIX),
    "assume": lambda printer, node: (f"((void)({printer.text(node.args[0])}))", POSTFIX),
    "reinterpret": _reinterpret,
    "address_of": _address_of,
    "tvm_access_ptr": _access_pointer,
    "isnullptr": lambda printer, node: (f"({printer.operand(node.args[0], 9)} == NULL)", POSTFIX),
    "large_uint_imm": _large_uint,
    "call_extern": _extern,
    "call_pure_extern": _extern,
}
