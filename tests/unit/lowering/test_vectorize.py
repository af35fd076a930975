"""Vectorised loops compute what the serial loop computes, whatever their body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tilewright.driver import lower
from tilewright.ir import For, ForKind, PrimFunc, as_module, post_order_visit
from tilewright.lowering import get_pass
from tilewright.script import from_source
from tilewright.testing.oracle import run

LANES = 8
PREPARE = (
    "LowerInitBlock",
    "ConvertBlocksToOpaque",
    "LowerOpaqueBlock",
    "FlattenBuffer",
    "Simplify",
)

# Positions in buffers of 64 elements; i runs over 3, v over the lanes.
INDICES = ["v", "v + 1", "i * 8 + v", "7 - v", "v * 2", "v // 2", "v % 3", "i", "3", "I[v]"]
CONDITIONS = ["v < 5", "2 <= v", "i < 2", "i * 8 + v < 19", "2 <= v and v < 6", "v % 2 == 0"]


@st.composite
def values(draw: st.DrawFn, depth: int = 0) -> str:
    leaf = st.sampled_from(INDICES).map(lambda index: f"A[{index}]")
    other = st.sampled_from(INDICES).map(lambda index: f"B[{index}]")
    simple = draw(st.one_of(leaf, other, st.just("T.float32(3)"), st.just('T.Cast("float32", v)')))
    if depth == 2:
        return simple
    match draw(st.sampled_from(["leaf", "sum", "max", "choice", "abs"])):
        case "sum":
            return f"({simple} + {draw(values(depth + 1))})"
        case "max":
            return f"T.max({simple}, {draw(values(depth + 1))})"
        case "abs":
            return f"T.fabs({draw(values(depth + 1))})"
        case "choice":
            condition = draw(st.sampled_from(CONDITIONS))
            return f"T.if_then_else({condition}, {simple}, {draw(values(depth + 1))})"
    return simple


@st.composite
def statements(draw: st.DrawFn, depth: int = 0) -> list[str]:
    target = draw(st.sampled_from(["B", "C"]))
    store = [f"{target}[{draw(st.sampled_from(INDICES))}] = {draw(values())}"]
    if depth == 2:
        return store
    match draw(st.sampled_from(["store", "if", "else", "two", "loop"])):
        case "if":
            inner = draw(statements(depth + 1))
            return [f"if {draw(st.sampled_from(CONDITIONS))}:", *indented(inner)]
        case "else":
            inner, other = draw(statements(depth + 1)), draw(statements(depth + 1))
            condition = draw(st.sampled_from(CONDITIONS))
            return [f"if {condition}:", *indented(inner), "else:", *indented(other)]
        case "two":
            return store + draw(statements(depth + 1))
        case "loop":
            return [f"for k{depth} in range(2):", *indented(draw(statements(depth + 1)))]
    return store


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def function(body: list[str]) -> PrimFunc:
    buffers = ", ".join(f'{name}: T.Buffer((64,), "float32")' for name in "ABC")
    lines = [f"for i in range(3):\n        for v in T.vectorized({LANES}):"]
    text = "\n".join(
        [
            "from tilewright.script import tir as T",
            "@T.prim_func",
            f'def main({buffers}, I: T.Buffer(({LANES},), "int32")):',
            *indented(lines),
            *indented(indented(indented(body))),
        ]
    )
    func = from_source(text)
    assert isinstance(func, PrimFunc)
    return func


def arguments() -> list[Any]:
    rng = np.random.default_rng(5)
    buffers: list[Any] = [rng.integers(-9, 9, 64).astype("float32") for _ in range(3)]
    return [*buffers, rng.permutation(LANES).astype("int32")]


def check(func: PrimFunc) -> Any:
    module = as_module(func)
    for name in PREPARE:
        module = get_pass(name)(module)
    vectorized = get_pass("VectorizeLoop")(module)
    expected, got = arguments(), arguments()
    run(module, *expected)
    run(vectorized, *got)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    return vectorized


@settings(max_examples=120)
@given(body=statements())
def test_random_bodies(body: list[str]) -> None:
    check(function(body))


def loop_kinds(module: Any) -> set[ForKind]:
    kinds: set[ForKind] = set()

    def look(node: Any) -> None:
        if isinstance(node, For) and node.loop_var.name == "v":
            kinds.add(node.kind)

    post_order_visit(module["main"].body, look)
    return kinds


VECTOR = [
    "B[v] = B[v] + A[v]",
    "B[i * 8 + v] = B[i * 8 + v] * A[3]",
    "B[v] = A[v + 1]",
    "C[7 - v] = A[v // 2]",
    "B[v * 2] = B[v * 2 + 1]",
    "C[3] = A[3]",
]
SERIAL = [
    "B[v + 1] = B[v]",
    "B[v] = B[v + 1]",
    "B[v] = B[0] + A[v]",
    "B[v // 2] = B[v // 2] + A[v]",
    "B[3] = B[3] + A[v]",
    "B[I[v]] = B[I[v]] + A[v]",
]


@pytest.mark.parametrize("line", VECTOR)
def test_becomes_vector_code(line: str) -> None:
    assert loop_kinds(check(function([line]))) == set()


@pytest.mark.parametrize("line", SERIAL)
def test_stays_a_serial_loop(line: str) -> None:
    assert loop_kinds(check(function([line]))) == {ForKind.SERIAL}


@pytest.mark.parametrize("extent", ["n", "0"])
def test_extent_that_is_no_number_of_lanes(parse: Callable[[str], PrimFunc], extent: str) -> None:
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), n: T.int32):
    for v in T.vectorized({extent}):
        A[v] = T.float32(0)
""")
    module = as_module(func)
    for name in (*PREPARE[:4], "VectorizeLoop"):
        module = get_pass(name)(module)
    assert loop_kinds(module) == {ForKind.SERIAL}


NEVER = [
    "if v < n: B[v] = A[far]",
    "if v < n and n <= v: B[v] = A[far]",
    "if 3 < v: B[v] = T.if_then_else(v < 2, A[far], A[v])",
    "B[v] = T.if_then_else(v < n, A[far], T.float32(1))",
    "B[v] = T.if_then_else(v < n, A[far + v], A[v])",
]


@pytest.mark.parametrize("line", NEVER)
def test_a_load_that_no_lane_asks_for_does_not_happen(
    parse: Callable[[str], PrimFunc], line: str
) -> None:
    guard, _, store = line.rpartition(": ") if line.startswith("if") else ("", "", line)
    body = f"        {guard}:\n            {store}" if guard else f"        {store}"
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32, far: T.int32):
    for v in T.vectorized({LANES}):
{body}
""")
    module = as_module(func)
    for name in PREPARE:
        module = get_pass(name)(module)
    vectorized = get_pass("VectorizeLoop")(module)
    assert loop_kinds(vectorized) == set()
    expected, got = arguments()[:2], arguments()[:2]
    run(module, *expected, 0, 1 << 20)
    run(vectorized, *got, 0, 1 << 20)
    np.testing.assert_array_equal(got[1], expected[1])


def test_indices_of_64_bits_stay_a_run_of_neighbours() -> None:
    func = from_source(
        """
@T.prim_func
def rows(A: T.Buffer((9, 64)), index: T.Buffer((5,), "int64"), B: T.Buffer((5, 64))):
    for i in range(5):
        for j in T.vectorized(64):
            B[i, j] = A[index[i], j]
"""
    )
    assert isinstance(func, PrimFunc)
    (line,) = [line for line in str(lower(func)).splitlines() if "B_1[" in line]
    assert "Ramp" not in line
    assert line.count(":") == 2  # one run of elements on either side
