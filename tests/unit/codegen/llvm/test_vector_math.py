"""Vector math: every function against references, in ulp, over random and special inputs."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import mpmath
import numpy as np
import numpy.typing as npt
import pytest

from tilewright.codegen.llvm.vector_math import (
    MATH_FUNCTIONS,
    definition,
    function_name,
)
from tilewright.errors import CodegenError
from tilewright.testing.ulp import FloatArray, max_ulp_error, ulp_errors

Array = npt.NDArray[Any]
DTYPES: dict[str, npt.DTypeLike] = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
}
LLVM_TYPES = {"float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double"}
LANES = (1, 8, 16)


def module_text(requests: Iterable[tuple[str, str, int]]) -> str:
    """Everything the requested (op, elem, lanes) need, each definition and declaration once."""
    declarations: set[str] = set()
    functions: dict[str, str] = {}
    for request in requests:
        wanted = definition(*request)
        declarations |= wanted.declarations
        for helper in wanted.helpers:
            functions[helper.name] = helper.text
            declarations |= helper.declarations
        functions[wanted.name] = wanted.text
    return "\n\n".join([*functions.values(), "\n".join(sorted(declarations))]) + "\n"


def _round_half_away(x: FloatArray) -> FloatArray:
    whole = np.trunc(x)
    away = whole + np.copysign(1.0, x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, away, whole), x)


def _fused(x: FloatArray, y: FloatArray, z: FloatArray) -> FloatArray:
    """x y + z; exact in float64 up to the sum where the factors are float32."""
    return x * y + z


def _precise_power(x: Any, y: Any) -> Any:
    """mpmath's power without its detour through complex numbers for a negative base."""
    size = mpmath.power(abs(x), y)
    return -size if x < 0 and mpmath.fmod(y, 2) != 0 else size


@dataclass(frozen=True)
class Case:
    """A function's references, the intervals worth dense sampling, and its bounds in ulp."""

    double: Callable[..., Any]
    precise: Callable[..., Any] | None
    intervals: Sequence[tuple[float, float]]
    bound_f32: float
    bound_f64: float
    # minnum and maxnum may return either of two zeros.
    signed_zeros: bool = True


EXACT = 0.5

CASES: dict[str, Case] = {
    "exp": Case(np.exp, mpmath.exp, [(-104, 89)], 1.0, 1.0),
    "exp2": Case(np.exp2, lambda x: mpmath.power(2, x), [(-150, 128)], 1.0, 1.0),
    "exp10": Case(
        lambda x: np.power(10.0, x), lambda x: mpmath.power(10, x), [(-45, 38)], 1.5, 1.5
    ),
    "expm1": Case(np.expm1, mpmath.expm1, [(-3, 3), (-20, 89)], 2.0, 2.0),
    "sigmoid": Case(
        lambda x: 1.0 / (1.0 + np.exp(-x)),
        lambda x: 1 / (1 + mpmath.exp(-x)),
        [(-104, 20)],
        2.5,
        2.5,
    ),
    "tanh": Case(np.tanh, mpmath.tanh, [(-1, 1), (-10, 10)], 2.5, 3.0),
    "sinh": Case(np.sinh, mpmath.sinh, [(-1, 1), (-89.5, 89.5)], 2.5, 2.5),
    "cosh": Case(np.cosh, mpmath.cosh, [(-1, 1), (-89.5, 89.5)], 2.0, 2.0),
    "log": Case(np.log, mpmath.log, [(0.5, 2), (0, 1e4)], 1.0, 1.0),
    "log2": Case(np.log2, lambda x: mpmath.log(x, 2), [(0.5, 2), (0, 1e4)], 2.0, 2.0),
    "log10": Case(np.log10, mpmath.log10, [(0.5, 2), (0, 1e4)], 2.0, 2.0),
    "log1p": Case(np.log1p, mpmath.log1p, [(-0.9, 1), (-1, 1e4)], 1.5, 1.0),
    "asinh": Case(np.arcsinh, mpmath.asinh, [(-2, 2), (-1e3, 1e3)], 3.0, 3.0),
    "acosh": Case(np.arccosh, mpmath.acosh, [(1, 2), (1, 1e4)], 3.0, 3.0),
    "atanh": Case(np.arctanh, mpmath.atanh, [(-0.5, 0.5), (-1, 1)], 3.0, 3.0),
    "rsqrt": Case(lambda x: 1.0 / np.sqrt(x), lambda x: 1 / mpmath.sqrt(x), [(0, 10)], 1.5, 1.5),
    "sin": Case(np.sin, mpmath.sin, [(-7, 7), (-1e5, 1e5)], 2.0, 2.5),
    "cos": Case(np.cos, mpmath.cos, [(-7, 7), (-1e5, 1e5)], 2.0, 2.5),
    "tan": Case(np.tan, mpmath.tan, [(-7, 7), (-1e5, 1e5)], 4.0, 4.0),
    "atan": Case(np.arctan, mpmath.atan, [(-5, 5)], 2.0, 2.0),
    "asin": Case(np.arcsin, mpmath.asin, [(-1, 1)], 2.0, 2.0),
    "acos": Case(np.arccos, mpmath.acos, [(-1, 1)], 2.0, 2.0),
    "erf": Case(np.vectorize(math.erf), mpmath.erf, [(-1.1, 1.1), (-6, 6)], 2.0, 2.0),
    "pow": Case(np.power, _precise_power, [(-3, 3), (0, 40)], 0.51, 1.0),
    "atan2": Case(np.arctan2, mpmath.atan2, [(-3, 3)], 2.0, 2.0),
    "hypot": Case(np.hypot, mpmath.hypot, [(-3, 3)], 1.0, 1.5),
    "fmod": Case(np.fmod, None, [(-9, 9)], 0.0, 0.0),
    "sqrt": Case(np.sqrt, mpmath.sqrt, [(0, 10)], EXACT, EXACT),
    "floor": Case(np.floor, None, [(-9, 9)], 0.0, 0.0),
    "ceil": Case(np.ceil, None, [(-9, 9)], 0.0, 0.0),
    "trunc": Case(np.trunc, None, [(-9, 9)], 0.0, 0.0),
    "round": Case(_round_half_away, None, [(-9, 9)], 0.0, 0.0),
    "rint": Case(np.rint, None, [(-9, 9)], 0.0, 0.0),
    "nearbyint": Case(np.rint, None, [(-9, 9)], 0.0, 0.0),
    "fabs": Case(np.fabs, None, [(-9, 9)], 0.0, 0.0),
    "copysign": Case(np.copysign, None, [(-9, 9)], 0.0, 0.0),
    "minnum": Case(np.fmin, None, [(-9, 9)], 0.0, 0.0, signed_zeros=False),
    "maxnum": Case(np.fmax, None, [(-9, 9)], 0.0, 0.0, signed_zeros=False),
    "fma": Case(_fused, lambda x, y, z: x * y + z, [(-3, 3)], EXACT, EXACT),
}

SPECIALS = (
    *(0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5),
    *(1.5, 2.5, -2.5, 1e-40, -1e-40, 1.2e-38, 3e38, -3e38, 88.72, -88.0, 89.41, -103.9, 1e30),
    *(16777216.0, 16777215.0, -7.0, math.pi, math.pi / 2, -math.pi, 0.3, 0.9999999, 1.0000001),
)


def _inputs(
    elem: str, arity: int, intervals: Sequence[tuple[float, float]], count: int
) -> list[Array]:
    """Random numbers of the intervals, random bit patterns, and the special values crossed."""
    rng = np.random.default_rng(7)
    dtype = np.dtype(DTYPES[elem])
    integers = np.dtype(f"uint{8 * dtype.itemsize}")
    columns: list[Array] = []
    for position in range(arity):
        parts = [rng.uniform(low, high, count).astype(dtype) for low, high in intervals]
        top = np.iinfo(integers).max
        parts.append(rng.integers(0, top, count, integers, endpoint=True).view(dtype))
        crossed = np.array(SPECIALS)
        inner, outer = len(SPECIALS) ** (arity - 1 - position), len(SPECIALS) ** position
        if arity < 3:
            with np.errstate(over="ignore"):
                parts.append(np.tile(np.repeat(crossed, inner), outer).astype(dtype))
        columns.append(np.concatenate(parts))
    padding = -len(columns[0]) % 16
    return [np.concatenate([column, column[:padding]]) for column in columns]


def _driver(op: str, elem: str, lanes: int) -> str:
    """A loop that applies a function to whole arrays."""
    scalar = LLVM_TYPES[elem]
    vector = scalar if lanes == 1 else f"<{lanes} x {scalar}>"
    arity = range(MATH_FUNCTIONS[op].arity)
    loads = "\n".join(
        f"  %p{i} = getelementptr {scalar}, ptr %a{i}, i64 %i\n  %v{i} = load {vector}, ptr %p{i},"
        " align 2"
        for i in arity
    )
    arguments = ", ".join(f"{vector} %v{i}" for i in arity)
    return f"""
define void @run.{op}({", ".join(f"ptr %a{i}" for i in arity)}, ptr %out, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{loads}
  %r = call {vector} @{function_name(op, elem, lanes)}({arguments})
  %q = getelementptr {scalar}, ptr %out, i64 %i
  store {vector} %r, ptr %q, align 2
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
    )


@cache
def _engine(elem: str, lanes: int) -> Any:
    """All functions of one type and lane count, compiled."""
    text = module_text((op, elem, lanes) for op in MATH_FUNCTIONS)
    module = llvm.parse_assembly(text + "".join(_driver(op, elem, lanes) for op in MATH_FUNCTIONS))
    module.verify()
    machine = _machine()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def _evaluate(op: str, elem: str, lanes: int, inputs: Sequence[Array]) -> Array:
    address = _engine(elem, lanes).get_function_address(f"run.{op}")
    out = np.empty_like(inputs[0])
    pointers = [array.ctypes.data for array in (*inputs, out)]
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers), ctypes.c_int64)
    prototype(address)(*pointers, len(out))
    with np.errstate(invalid="ignore"):
        return out if CASES[op].signed_zeros else out + np.zeros_like(out)


def _double_reference(op: str, inputs: Sequence[Array]) -> FloatArray:
    with np.errstate(all="ignore"):
        result: FloatArray = CASES[op].double(*(array.astype(np.float64) for array in inputs))
        return result if CASES[op].signed_zeros else result + 0.0


def _precise_reference(op: str, inputs: Sequence[Array]) -> tuple[FloatArray, FloatArray]:
    """float64 references and what they lost, from 100-bit arithmetic where the value is finite."""
    reference = _double_reference(op, inputs)
    correction = np.zeros_like(reference)
    precise = CASES[op].precise
    if precise is None:
        return reference, correction
    # Special values are float64's own: numpy follows C there, mpmath has no signed zeros.
    ordinary = np.isfinite(reference) & (reference != 0)
    for array in inputs:
        ordinary &= np.isfinite(array) & (array != 0)
    with mpmath.workprec(120):
        for i in np.flatnonzero(ordinary):
            value = precise(*(mpmath.mpf(float(array[i])) for array in inputs))
            reference[i] = float(value)
            if np.isfinite(reference[i]):
                correction[i] = float(value - mpmath.mpf(float(reference[i])))
    return reference, correction


def _worst(op: str, inputs: Sequence[Array], actual: Array, errors: FloatArray) -> str:
    i = int(errors.argmax())
    return f"{op}{tuple(float(array[i]) for array in inputs)} = {float(actual[i])!r}"


@pytest.mark.parametrize("op", MATH_FUNCTIONS)
def test_float32_is_accurate(op: str) -> None:
    case = CASES[op]
    inputs = _inputs("float32", MATH_FUNCTIONS[op].arity, case.intervals, 20_000)
    reference = _double_reference(op, inputs)
    for lanes in LANES:
        actual = _evaluate(op, "float32", lanes, inputs)
        errors = ulp_errors(actual, reference)
        assert errors.max() <= case.bound_f32, _worst(op, inputs, actual, errors)


@cache
def _float64_data(op: str) -> tuple[list[Array], FloatArray, FloatArray]:
    inputs = _inputs("float64", MATH_FUNCTIONS[op].arity, CASES[op].intervals, 300)
    return inputs, *_precise_reference(op, inputs)


@pytest.mark.parametrize("op", MATH_FUNCTIONS)
def test_float64_is_accurate(op: str) -> None:
    inputs, reference, correction = _float64_data(op)
    for lanes in LANES:
        actual = _evaluate(op, "float64", lanes, inputs)
        errors = ulp_errors(actual, reference, correction)
        assert errors.max() <= CASES[op].bound_f64, _worst(op, inputs, actual, errors)


@pytest.mark.parametrize("elem", ["float16", "bfloat16"])
def test_narrow_types_are_nearly_correctly_rounded(elem: str) -> None:
    """All 65536 inputs of a unary function; random pairs and triples for the others."""
    everything = np.arange(65536, dtype=np.uint16).view(DTYPES[elem])
    for op, function in MATH_FUNCTIONS.items():
        inputs = [everything]
        if function.arity > 1:
            inputs = _inputs(elem, function.arity, CASES[op].intervals, 2_000)
        reference = _double_reference(op, inputs)
        for lanes in (1, 16):
            actual = _evaluate(op, elem, lanes, inputs)
            errors = ulp_errors(actual, reference, dtype=elem)
            assert errors.max() <= 0.51, (lanes, _worst(op, inputs, actual, errors))


@pytest.mark.parametrize("lanes", [2, 3, 4, 32])
def test_other_lane_counts_agree_with_sixteen(lanes: int) -> None:
    inputs = _inputs("float32", 1, [(-5, 5)], 1_000)
    inputs = [array[: len(array) // 96 * 96] for array in inputs]
    for op in ("exp", "log", "sin", "erf", "tanh"):
        expected = _evaluate(op, "float32", 16, inputs)
        np.testing.assert_array_equal(_evaluate(op, "float32", lanes, inputs), expected)


def _called_symbols(assembly: str) -> set[str]:
    calls = re.findall(r"^\s+(?:callq?|jmp|bl|b)\s+\"?([\w.$@]+)", assembly, re.MULTILINE)
    return {name for name in calls if not name.startswith((".L", "tw."))}


# What SSE2 alone has no instructions for.
NEEDS_MORE_THAN_SSE2 = {"floor", "ceil", "trunc", "round", "rint", "nearbyint", "fma"}
MACHINES = [
    ("x86_64-unknown-linux-gnu", "x86-64", set(MATH_FUNCTIONS) - NEEDS_MORE_THAN_SSE2),
    ("x86_64-unknown-linux-gnu", "x86-64-v3", set(MATH_FUNCTIONS)),
    ("x86_64-unknown-linux-gnu", "x86-64-v4", set(MATH_FUNCTIONS)),
    ("aarch64-unknown-linux-gnu", "generic", set(MATH_FUNCTIONS)),
]


def _library_calls(triple: str, cpu: str, elem: str, ops: set[str]) -> set[str]:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    requests = [(op, elem, 4) for op in sorted(ops)]
    text = module_text(requests) + "".join(_driver(*request) for request in requests)
    # The default code model calls through registers, which would hide the names.
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(cpu=cpu, opt=1, codemodel="small")
    return _called_symbols(machine.emit_assembly(llvm.parse_assembly(text)))


@pytest.mark.parametrize(("triple", "cpu", "ops"), MACHINES)
@pytest.mark.parametrize("elem", ["float32", "float64"])
def test_no_library_is_called(triple: str, cpu: str, ops: set[str], elem: str) -> None:
    assert _library_calls(triple, cpu, elem, ops) == set()


def test_a_library_call_would_be_seen() -> None:
    calls = _library_calls("x86_64-unknown-linux-gnu", "x86-64", "float32", {"floor"})
    assert {name.split("@")[0] for name in calls} == {"floorf"}


@pytest.mark.parametrize("elem", DTYPES)
@pytest.mark.parametrize("lanes", [1, 4, 32])
def test_each_definition_stands_alone(elem: str, lanes: int) -> None:
    for op in MATH_FUNCTIONS:
        module = llvm.parse_assembly(module_text([(op, elem, lanes)]))
        module.verify()
        assert module.get_function(function_name(op, elem, lanes)).name


def test_shared_helpers_appear_once() -> None:
    text = module_text([("sin", "float32", 8), ("cos", "float32", 8), ("sin", "float64", 8)])
    assert text.count("define internal { double, i64 } @tw.reduce_large_angle.f64") == 1
    assert text.count("define internal { <8 x float>, <8 x i32> } @tw.reduce_large_angles") == 1
    llvm.parse_assembly(text).verify()


def test_names_and_signature() -> None:
    assert function_name("exp", "float32", 16) == "tw.exp.v16f32"
    assert function_name("pow", "bfloat16", 1) == "tw.pow.bf16"
    found = definition("exp", "float32", 16)
    assert found.text.startswith("define internal <16 x float> @tw.exp.v16f32(<16 x float> %x) ")
    assert found.declarations == {
        "declare <16 x float> @llvm.fmuladd.v16f32(<16 x float>, <16 x float>, <16 x float>)"
    }
    assert found.helpers == ()


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (("gamma", "float32", 4), "vector math has no function 'gamma'; expected one of acos, "),
        (("exp", "int32", 4), "vector math has no element type 'int32'; expected one of float16, "),
        (("exp", "float32", 0), "vector math needs at least one lane, got 0 for 'exp'"),
    ],
)
def test_bad_requests_are_named(request_: tuple[str, str, int], message: str) -> None:
    with pytest.raises(CodegenError, match=re.escape(message)):
        definition(*request_)


def test_every_function_has_a_case() -> None:
    assert set(CASES) == set(MATH_FUNCTIONS)


def test_ulp_errors_count_units_and_catch_special_values() -> None:
    above = np.nextafter(np.float32(1.0), np.float32(2.0))
    got = np.array([above, np.nan, -0.0, np.inf, 3.4e38, 1.0], dtype=np.float32)
    wanted = np.array([1.0, np.nan, 0.0, np.inf, np.inf, np.nan])
    errors = ulp_errors(got, wanted)
    np.testing.assert_array_equal(errors[:4], [1.0, 0.0, np.inf, 0.0])
    assert errors[4] > 1000
    assert errors[5] == np.inf
    assert max_ulp_error(got[:1], wanted[:1], np.array([2.0**-23])) == 0.0
