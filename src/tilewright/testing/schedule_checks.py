"""Checks for every test of a schedule: its trace repeats it, and results stay the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import ir, tir
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.schedule import Schedule, Trace
from tilewright.script import tir as T
from tilewright.testing import oracle

DEFAULT_SIZE = 7  # of symbolic extents
# How far reordered sums may drift apart, relative to the largest number of the result.
_TOLERANCES = {"float16": 2e-2, "bfloat16": 6e-2, "float32": 2e-5, "float64": 1e-12}


def verify_trace_roundtrip(
    sch: Schedule,
    mod: ir.PrimFunc | ir.IRModule,
    *,
    debug_mask: str | int = "all",
    text_format: str | Sequence[str] = ("python", "json"),
) -> Schedule:
    """Replay the trace of `sch` on `mod` from its texts; the last schedule made so.

    Program and trace must come out the same as in `sch`.
    """
    formats = [text_format] if isinstance(text_format, str) else list(text_format)
    if not formats or not set(formats) <= {"python", "json"}:
        raise AssertionError(f"text_format is 'python', 'json' or both, got {text_format!r}")
    assert sch.trace is not None, "the schedule records no trace"
    again = sch
    for form in formats:
        again = Schedule(mod, debug_mask=debug_mask)
        if form == "json":
            document = sch.trace.as_json()
            read = Trace.from_json(document)
            assert read.as_json() == document
            assert read.as_python() == sch.trace.as_python()
            Trace.apply_json_to_schedule(document, again)
        else:
            source = "\n".join(sch.trace.as_python())
            exec(
                compile(source, "<trace>", "exec"),
                {**vars(tir), "T": T, "tir": tir, "sch": again},  # one space: for lambdas
            )
        ir.assert_structural_equal(again.mod, sch.mod)
        assert again.trace is not None
        expected, actual = sch.trace.as_python(), again.trace.as_python()
        assert actual == expected, f"the trace replayed from {form} differs:\n{again.trace}"
    return again


def assert_structural_equal_ignore_global_symbol(
    actual: ir.PrimFunc | ir.IRModule,
    expected: ir.PrimFunc | ir.IRModule,
    map_free_vars: bool = False,
) -> None:
    """Both programs are the same but for the names of their functions."""
    ir.assert_structural_equal(_anonymous(actual), _anonymous(expected), map_free_vars)


def _anonymous(program: ir.PrimFunc | ir.IRModule) -> ir.PrimFunc | ir.IRModule:
    if isinstance(program, ir.PrimFunc):
        return program.without_attr("global_symbol")
    functions = {
        name: func.without_attr("global_symbol") for name, func in program.functions.items()
    }
    return ir.IRModule(functions, program.attrs)


def assert_same_result(
    before: ir.PrimFunc | ir.IRModule,
    after: ir.PrimFunc | ir.IRModule,
    seed: int = 0,
    *,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Both programs write the same numbers; floats may differ by the order of their sums."""
    function = entry_function(before)
    expected = random_arguments(function, seed, sizes)
    actual = [value.copy() if isinstance(value, np.ndarray) else value for value in expected]
    oracle.run(function, *expected)
    oracle.run(entry_function(after), *actual)
    assert_same_arrays(function, expected, actual)


def assert_same_arrays(func: ir.PrimFunc, expected: Sequence[Any], actual: Sequence[Any]) -> None:
    """The arguments after two runs agree."""
    for param, wanted, got in zip(func.params, expected, actual, strict=True):
        if not isinstance(wanted, np.ndarray):
            continue
        name = func.buffer_map[param].name
        tolerance = _TOLERANCES.get(wanted.dtype.name)
        if tolerance is None:
            np.testing.assert_array_equal(got, wanted, err_msg=f"buffer {name}")
        else:
            wide, seen = wanted.astype(np.float64), got.astype(np.float64)
            finite = np.abs(wide[np.isfinite(wide)])
            limit = tolerance * max(1.0, float(finite.max(initial=0.0)))
            np.testing.assert_allclose(
                seen, wide, rtol=tolerance, atol=limit, err_msg=f"buffer {name}"
            )


def entry_function(mod: ir.PrimFunc | ir.IRModule) -> ir.PrimFunc:
    """The function that a test means: `main`, or the only one."""
    if isinstance(mod, ir.PrimFunc):
        return mod
    return mod["main"] if "main" in mod else next(iter(mod.functions.values()))


def random_arguments(
    func: ir.PrimFunc, seed: int = 0, sizes: Mapping[str, int] | None = None
) -> list[Any]:
    """An argument for every parameter: small random numbers that most sums keep exact."""
    rng = np.random.default_rng(seed)
    known = dict(sizes or {})
    arguments: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            shape = tuple(_concrete_extent(extent, known) for extent in buffer.shape)
            arguments.append(_random_array(rng, buffer, shape))
        else:
            arguments.append(known.setdefault(param.name, DEFAULT_SIZE))
    return arguments


def _concrete_extent(extent: ir.PrimExpr, known: dict[str, int]) -> int:
    def size_of(var: ir.Var) -> ir.PrimExpr:
        return tir.IntImm(var.dtype, known.setdefault(var.name, DEFAULT_SIZE))

    value = ir.constant_value(ir.substitute(extent, size_of))
    assert value is not None, f"the extent {extent} is no number"
    return int(value)


def _random_array(rng: np.random.Generator, buffer: ir.Buffer, shape: tuple[int, ...]) -> Any:
    kind = buffer.dtype
    if kind.is_float:
        numbers = rng.integers(-8, 9, shape) / 4.0
        return np.asarray(numbers).astype(to_numpy(kind))
    low, high = (0, 2) if kind.is_bool else (0, 8) if kind.is_uint else (-8, 9)
    return rng.integers(low, high, shape).astype(to_numpy(kind))
