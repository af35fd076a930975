"""The table of math functions and the text of their definitions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType, ModuleType

from tilewright.codegen.llvm.vector_math import (
    error_function,
    exponential,
    inverse_trigonometric,
    logarithm,
    power,
    remainder,
    trigonometric,
)
from tilewright.codegen.llvm.vector_math.emitter import (
    Emitter,
    FunctionBody,
    Helper,
    Int,
    Real,
    where,
)
from tilewright.codegen.llvm.vector_math.formats import ElementType, element_type, vector_of
from tilewright.errors import CodegenError

__all__ = ["MathFunction", "MathDefinition", "MATH_FUNCTIONS", "function_name", "definition"]

PARAMETERS = ("%x", "%y", "%z")
ATTRIBUTES = "alwaysinline nounwind willreturn memory(none)"


@dataclass(frozen=True)
class MathFunction:
    """A function of reals: how many it takes and how its value is emitted."""

    name: str
    arity: int
    emit: Callable[..., Real]


@dataclass(frozen=True)
class MathDefinition(Helper):
    """The LLVM text of one function and what has to stand beside it in the module."""

    helpers: tuple[Helper, ...]


def _native(intrinsic: str) -> Callable[..., Real]:
    """A function that the supported machines have instructions for."""
    return lambda *arguments: arguments[0].emitter.intrinsic(intrinsic, *arguments)


_UNARY = ("sqrt", "floor", "ceil", "trunc", "round", "rint", "nearbyint", "fabs")
_BINARY = ("copysign", "minnum", "maxnum")
_NATIVE = {**dict.fromkeys(_UNARY, 1), **dict.fromkeys(_BINARY, 2), "fma": 3}

# The functions that are computed, by the module that they are in.
_COMPUTED: Mapping[ModuleType, str] = {
    exponential: "exp exp2 exp10 expm1 sigmoid tanh sinh cosh",
    logarithm: "log log2 log10 log1p asinh acosh atanh",
    trigonometric: "sin cos tan",
    inverse_trigonometric: "atan atan2 asin acos",
    error_function: "erf",
    remainder: "fmod hypot",
}


def _computed(module: ModuleType, name: str) -> MathFunction:
    emit = getattr(module, name)
    return MathFunction(name, len(inspect.signature(emit).parameters), emit)


MATH_FUNCTIONS: Mapping[str, MathFunction] = MappingProxyType(
    {name: MathFunction(name, arity, _native(name)) for name, arity in _NATIVE.items()}
    | {n: _computed(module, n) for module, names in _COMPUTED.items() for n in names.split()}
    | {"pow": MathFunction("pow", 2, power.power)}
    | {"rsqrt": MathFunction("rsqrt", 1, lambda x: 1.0 / x.sqrt())}
)


def math_function(op: str) -> MathFunction:
    """The function called `op`."""
    found = MATH_FUNCTIONS.get(op)
    if found is None:
        raise CodegenError(
            f"vector math has no function {op!r}; expected one of "
            f"{', '.join(sorted(MATH_FUNCTIONS))}"
        )
    return found


def function_name(op: str, elem: str, lanes: int) -> str:
    """The symbol of a function, e.g. `tw.exp.v16f32`; without the `@`."""
    if lanes < 1:
        raise CodegenError(f"vector math needs at least one lane, got {lanes} for {op!r}")
    mangled = element_type(elem).mangled
    suffix = mangled if lanes == 1 else f"v{lanes}{mangled}"
    return f"tw.{math_function(op).name}.{suffix}"


@cache
def definition(op: str, elem: str, lanes: int, has_scalef: bool = False) -> MathDefinition:
    """The definition of `op` on `lanes` elements of type `elem` (a dtype such as "float32").

    `has_scalef` says that the target has AVX-512, whose instruction for `x * 2^n` saves several.
    """
    function, element, name = math_function(op), element_type(elem), function_name(op, elem, lanes)
    body = FunctionBody()
    emitter = Emitter(body, element.compute, lanes, has_scalef and lanes & (lanes - 1) == 0)
    parameters = PARAMETERS[: function.arity]
    kind = vector_of(element.llvm, lanes)
    result = function.emit(*(_loaded(emitter, element, text) for text in parameters))
    returned = _stored(result, element)
    signature = ", ".join(f"{kind} {text}" for text in parameters)
    lines = "\n".join(["entry:", *body.lines, f"  ret {kind} {returned}"])
    text = f"define internal {kind} @{name}({signature}) {ATTRIBUTES} {{\n{lines}\n}}"
    helpers = tuple(body.helpers.values())
    return MathDefinition(name, text, frozenset(body.declarations), helpers)


def _loaded(emitter: Emitter, element: ElementType, parameter: str) -> Real:
    """A parameter in the format the function computes in."""
    if element.llvm == element.compute.llvm:
        return Real(emitter, parameter)
    source = vector_of(element.llvm, emitter.lanes)
    assign = emitter.body.assign
    if element.llvm == "half":
        return Real(emitter, assign(f"fpext {source} {parameter} to {emitter.real_type}"))
    wide = Int(emitter, assign(f"zext {source} {parameter} to {emitter.int_type}"))
    return (wide << 16).as_real()


def _stored(result: Real, element: ElementType) -> str:
    """The result rounded to the element type.

    bfloat16 is rounded with integer instructions: most machines have no conversion to it, and the
    instruction would become a call into a support library that is not linked.
    """
    if element.llvm == element.compute.llvm:
        return result.text
    emitter, assign = result.emitter, result.emitter.body.assign
    target = vector_of(element.llvm, emitter.lanes)
    if element.llvm == "half":
        return assign(f"fptrunc {emitter.real_type} {result.text} to {target}")
    return assign(f"trunc {emitter.int_type} {_bfloat16_bits(result).text} to {target}")


def _bfloat16_bits(value: Real) -> Int:
    """The upper half of a float32, rounded to nearest even; a NaN stays a (quiet) NaN."""
    bits = value.bits()
    upper = bits.upper_bits(16)
    rounded = (bits + ((upper & 1) + 0x7FFF)).upper_bits(16)
    return where(value.is_nan(), upper | 0x40, rounded)
