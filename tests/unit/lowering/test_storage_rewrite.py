"""Memory planning: chains of temporaries keep their results and share memory where they can."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tilewright.arith.affine import is_dense, is_injective
from tilewright.ir import Allocate, IntImm, IRModule, PrimFunc, as_module, post_order_visit
from tilewright.lowering import get_pass
from tilewright.script import from_source
from tilewright.testing.oracle import run

PREPARE = (
    "LowerInitBlock",
    "ConvertBlocksToOpaque",
    "PlanBufferAllocation",
    "LowerOpaqueBlock",
    "FlattenBuffer",
    "Simplify",
)
SIZE = 1200  # more than the size below which nothing is shared


@dataclass(frozen=True)
class Step:
    """One stage of the chain: `name[i] = source[index] + other[i]`."""

    name: str
    source: str
    other: str
    index: str

    def lines(self) -> list[str]:
        return [
            f"for i in range({SIZE}):",
            f"    {self.name}[i] = {self.source}[{self.index}] * T.float32(2) + {self.other}[i]",
        ]


@st.composite
def chains(draw: st.DrawFn) -> list[Step]:
    steps: list[Step] = []
    for count in range(draw(st.integers(1, 6))):
        known = st.sampled_from(["A", *(step.name for step in steps)])
        index = draw(st.sampled_from(["i", "i", f"{SIZE - 1} - i", "i // 2", "0"]))
        steps.append(Step(f"X{count}", draw(known), draw(known), index))
    return steps


def program(steps: list[Step], looped: bool) -> IRModule:
    body = [line for step in steps for line in step.lines()]
    body += [f"for i in range({SIZE}):", f"    B[i] = B[i] + {steps[-1].name}[i]"]
    if looped:
        body = ["for again in range(2):", *(f"    {line}" for line in body)]
    allocations = [f'{step.name} = T.alloc_buffer(({SIZE},), "float32")' for step in steps]
    head = f'def main(A: T.Buffer(({SIZE},), "float32"), B: T.Buffer(({SIZE},), "float32")):'
    lines = [f"    {line}" for line in (*allocations, *body)]
    text = "\n".join(["from tilewright.script import tir as T", "@T.prim_func", head, *lines])
    func = from_source(text)
    assert isinstance(func, PrimFunc)
    return prepare(func)


def prepare(func: PrimFunc) -> IRModule:
    module = as_module(func)
    for name in PREPARE:
        module = get_pass(name)(module)
    return module


def allocations(module: IRModule) -> list[int]:
    sizes: list[int] = []

    def look(node: Any) -> None:
        if isinstance(node, Allocate):
            assert isinstance(node.extents[0], IntImm)
            sizes.append(node.extents[0].value)

    post_order_visit(module["main"].body, look)
    return sizes


def results(module: IRModule) -> Any:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 4, SIZE).astype("float32") for _ in range(2))
    run(module, a, b)
    return b


@settings(max_examples=40)
@given(steps=chains(), looped=st.booleans())
def test_chains_keep_their_results(steps: list[Step], looped: bool) -> None:
    before = program(steps, looped)
    after = get_pass("StorageRewrite")(before)
    np.testing.assert_array_equal(results(after), results(before))
    assert len(allocations(after)) <= len(allocations(before))


def test_a_chain_of_elementwise_steps_needs_one_buffer() -> None:
    names = ["A", "X0", "X1", "X2"]
    steps = [Step(b, a, "A", "i") for a, b in itertools.pairwise(names)]
    assert allocations(get_pass("StorageRewrite")(program(steps, False))) == [SIZE]


def test_a_step_that_reads_elsewhere_needs_two() -> None:
    steps = [Step("X0", "A", "A", "i"), Step("X1", "X0", "A", f"{SIZE - 1} - i")]
    assert allocations(get_pass("StorageRewrite")(program(steps, False))) == [SIZE, SIZE]


def test_without_reuse_buffers_only_move() -> None:
    steps = [Step("X0", "A", "A", "i"), Step("X1", "X0", "A", "i")]
    before = program(steps, True)
    after = get_pass("StorageRewrite", reuse=False)(before)
    assert allocations(after) == [SIZE, SIZE]
    outermost = after["main"].body
    assert isinstance(outermost, Allocate)


def test_small_buffers_are_not_shared(parse: Callable[[str], PrimFunc]) -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    X = T.alloc_buffer((64,), "float32")
    Y = T.alloc_buffer((64,), "float32")
    for i in range(64):
        X[i] = A[i]
    for i in range(64):
        Y[i] = X[i]
    for i in range(64):
        B[i] = Y[i]
""")
    assert allocations(get_pass("StorageRewrite")(prepare(func))) == [64, 64]


def test_memory_of_a_parallel_loop_stays_inside(parse: Callable[[str], PrimFunc]) -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8, 2000), "float32"), B: T.Buffer((8, 2000), "float32")):
    X = T.alloc_buffer((8, 2000), "float32")
    for p in T.parallel(8):
        for i in range(2000):
            X[p, i] = A[p, i]
        for i in range(2000):
            B[p, i] = X[p, 1999 - i]
""")
    module = prepare(func)
    assert get_pass("StorageRewrite")(module) is module


@pytest.mark.parametrize(
    ("coefficients", "extents", "injective", "dense"),
    [
        ([4, 1], [3, 4], True, True),
        ([4, 1], [3, 5], False, True),
        ([8, 1], [3, 4], True, False),
        ([1, 1], [2, 2], False, True),
        ([2], [5], True, False),
        ([], [], True, True),
        ([-4, 1], [3, 4], True, True),
    ],
)
def test_linear_forms(
    coefficients: list[int], extents: list[int], injective: bool, dense: bool
) -> None:
    points = [0]
    for coefficient, extent in zip(coefficients, extents, strict=True):
        points = [point + coefficient * step for point in points for step in range(extent)]
    assert is_injective(coefficients, extents) is injective is (len(set(points)) == len(points))
    reached = set(points) == set(range(min(points), max(points) + 1))
    assert is_dense(coefficients, extents) is dense is reached
