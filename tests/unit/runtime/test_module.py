"""Compiled modules, their functions and their sources."""

# The annotations of a kernel are script, not types.
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import runtime
from tilewright.driver import build
from tilewright.errors import ArgumentError, KernelAssertError, RuntimeFailure
from tilewright.runtime import ndarray as nd, threads
from tilewright.runtime.module import Module
from tilewright.script import from_source, ir as I, tir as T


@I.ir_module
class Pair:
    @T.prim_func
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in range(4):
            B[i] = A[i] * T.float32(2)

    @T.prim_func
    def triple(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in range(4):
            B[i] = A[i] * T.float32(3)


PAIR: Any = Pair  # a module by now, whatever the keyword says


@pytest.fixture(scope="module")
def pair() -> Module:
    return build(PAIR)


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def test_functions_by_name(pair: Module) -> None:
    a, b = ones(4), ones(4)
    pair["double"](a, b)
    assert b.tolist() == [2] * 4
    pair.get_function("triple")(a, b)
    assert b.tolist() == [3] * 4
    assert (list(pair), len(pair), "double" in pair, "main" in pair) == (
        ["double", "triple"], 2, True, False,
    )  # fmt: skip
    assert pair["double"] is pair["double"]
    assert repr(pair["double"]) == "<compiled double(A: float32[4], B: float32[4])>"
    assert repr(pair).startswith("<module of double, triple for ")
    assert [spec.name for spec in pair.signature("triple")] == ["A", "B"]


def test_the_entry(pair: Module) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        pair(ones(4), ones(4))
    assert str(caught.value) == "the module has no function 'main'; known: double, triple"
    with pytest.raises(RuntimeFailure, match=r"no function 'duble'; did you mean 'double'\?"):
        pair["duble"]


def test_a_module_of_one_function_is_that_function() -> None:
    @T.prim_func
    def only(A: T.Buffer((2,), "int32")):
        for i in range(2):
            A[i] = i

    values = np.zeros(2, np.int32)
    module = build(only)
    module(values)
    assert (values.tolist(), module.entry_name) == ([0, 1], "only")


def test_a_function_outlives_its_module() -> None:
    function = build(PAIR)["double"]
    gc.collect()
    b = ones(4)
    function(ones(4), b)
    assert b.tolist() == [2] * 4


def test_arrays_of_every_kind(pair: Module) -> None:
    double = pair["double"]
    for make in (np.asarray, nd.array, nd.from_dlpack):
        a, b = make(ones(4)), make(ones(4))
        double(a, b)
        assert np.asarray(b).tolist() == [2] * 4


def test_torch_tensors_are_used_in_place(pair: Module) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.ones(4), torch.zeros(4)
    pair["double"](a, b)
    assert b.tolist() == [2] * 4


def test_an_output_that_is_also_an_input(pair: Module) -> None:
    both = ones(4)
    with pytest.raises(ArgumentError, match="its memory overlaps argument 0"):
        pair["double"](both, both)


def test_assertions_carry_their_message() -> None:
    @T.prim_func
    def main(n: T.int32, A: T.Buffer((1,), "int32")):
        assert n > 0, "n must be positive"
        assert n < 10, "n must be small"
        A[0] = n

    module, out = build(main), np.zeros(1, np.int32)
    module(3, out)
    assert out[0] == 3
    for n, expected in ((0, "n must be positive"), (10, "n must be small")):
        with pytest.raises(KernelAssertError) as caught:
            module(n, out)
        assert str(caught.value) == f"main(): {expected}"


def test_sizes_that_are_only_known_when_called() -> None:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n = T.int32()
        m = T.int32()
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = T.float32(0)
            for j in range(m):
                B[i] = B[i] + A[i, j]

    module = build(main)
    for n, m in ((3, 5), (1, 1), (0, 4), (4, 0), (3, 5)):
        a, b = np.arange(n * m, dtype=np.float32).reshape(n, m), ones(n)
        module(a, b)
        assert b.tolist() == a.sum(axis=1).tolist()
    with pytest.raises(ArgumentError) as caught:
        module(ones(3, 5), ones(4))
    assert str(caught.value) == (
        "main(): argument 1 (B): shape is [4], expected 3 (n) on axis 0 as in B: float32[n]"
    )


def test_a_single_number_and_an_empty_array() -> None:
    @T.prim_func
    def main(A: T.Buffer((), "float32"), E: T.Buffer((0,), "float32"), B: T.Buffer((), "float32")):
        B[()] = A[()] + T.float32(1)

    a, b = np.array(2, np.float32), np.array(0, np.float32)
    build(main)(a, ones(0), b)
    assert b == 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_as_arguments(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    module = build(from_source(SCALE.format(dtype)))
    a, b = np.array([1, 2, 3], kind), np.zeros(3, kind)
    module(a, 1.5, b)
    assert b.astype(float).tolist() == [1.5, 3.0, 4.5]
    module(a, kind.type(0.5), b)
    assert b.astype(float).tolist() == [0.5, 1.0, 1.5]


SCALE = """
@T.prim_func
def main(A: T.Buffer((3,), "{0}"), s: T.{0}, B: T.Buffer((3,), "{0}")):
    for i in range(3):
        B[i] = A[i] * s
"""


# --- sources ------------------------------------------------------------------------------------


def test_sources(pair: Module) -> None:
    assert "define i32 @double" in pair.get_source()
    assert pair.get_source("ll") == pair.get_source()
    assert "double.packed" in pair.get_source("asm")
    assert "def double" in pair.get_source("script")
    assert "double(" in pair.get_source("c")
    with pytest.raises(RuntimeFailure, match="no source in format 'wasm'; there are 'll', 'asm'"):
        pair.get_source("wasm")


def test_every_public_name_is_there() -> None:
    for name in runtime.__all__:
        assert getattr(runtime, name) is not None
    assert dir(runtime) == sorted(runtime.__all__)
    with pytest.raises(AttributeError, match=r"'tilewright\.runtime' has no attribute 'nothing'"):
        runtime.nothing


# --- threads ------------------------------------------------------------------------------------


def test_the_number_of_threads() -> None:
    before = threads.num_threads()
    with threads.use_threads(3):
        assert threads.num_threads() == 3
        with threads.use_threads(1):
            assert threads.num_threads() == 1
        assert threads.num_threads() == 3
    assert threads.num_threads() == before
    with pytest.raises(ZeroDivisionError), threads.use_threads(2):
        1 / 0
    assert threads.num_threads() == before


@pytest.mark.parametrize("count", [0, -1, 100_000, 1.5, "two", None])
def test_impossible_numbers_of_threads(count: Any) -> None:
    with pytest.raises(ArgumentError, match=r"set_num_threads: expected a .*number of threads"):
        threads.set_num_threads(count)


def test_runs_in_a_row() -> None:
    values, tripled = np.ones(4, "float32"), np.zeros(4, "float32")
    function = build(PAIR)["triple"]
    assert function.run_in_a_row((values, tripled), 3) > 0
    np.testing.assert_array_equal(tripled, [3, 3, 3, 3])
    with pytest.raises(ArgumentError, match="takes 2 arguments"):
        function.run_in_a_row((values,))


@T.prim_func
def shifted(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        B[i] = A[i] + T.float32(1)


def test_arguments_that_overlap_get_code_that_reads_what_was_written() -> None:
    module = build(shifted)
    apart, memory = np.zeros(64, "float32"), np.zeros(65, "float32")
    module(memory[:64], apart)
    np.testing.assert_array_equal(apart, np.ones(64, "float32"))
    module(memory[:64], memory[1:])  # each element is made of the one before
    np.testing.assert_array_equal(memory, np.arange(65, dtype="float32"))
    module["shifted"].time_evaluator(number=1)(memory[:64], memory[1:])


def test_a_function_that_says_so_is_compiled_for_overlaps_at_once() -> None:
    module = build(shifted.with_attr("tir.noalias", False))
    memory = np.zeros(65, "float32")
    module(memory[:64], memory[1:])
    np.testing.assert_array_equal(memory, np.arange(65, dtype="float32"))
    assert not module.info.functions[0].no_alias
