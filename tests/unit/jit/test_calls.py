"""`tw.compile`: calling what comes back, in all its forms."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.errors import ArgumentError, RuntimeFailure, TargetError
from tilewright.ir import IRModule, PrimFunc
from tilewright.jit import JitFunction, JitModule
from tilewright.script import from_source

MATMUL = """
@T.prim_func
def matmul(A: T.Buffer((16, 24)), B: T.Buffer((24, 8)), C: T.Buffer((16, 8))):
    for i, j, k in T.grid(16, 8, 24):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
UPDATE = """
@T.prim_func
def step(w: T.Buffer((8,)), g: T.Buffer((8,)), rate: T.float32, norm: T.Buffer((1,))):
    for i in T.serial(8):
        with T.block("w"):
            vi = T.axis.spatial(8, i)
            w[vi] = w[vi] - rate * g[vi]
    for i in T.serial(8):
        with T.block("norm"):
            vi = T.axis.reduce(8, i)
            with T.init():
                norm[0] = T.float32(0)
            norm[0] = norm[0] + w[vi] * w[vi]
"""
SPLIT = """
@T.prim_func
def split(low: T.Buffer((4,)), x: T.Buffer((8,)), high: T.Buffer((4,))):
    for i in T.serial(4):
        low[i] = x[i]
        high[i] = x[i + 4]
"""


def program(text: str) -> PrimFunc:
    made = from_source(text)
    assert isinstance(made, PrimFunc)
    return made


def floats(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random(shape, dtype="float32")


@pytest.fixture(scope="module")
def matmul() -> JitFunction:
    return tw.compile(program(MATMUL))


@pytest.fixture(scope="module")
def step() -> JitFunction:
    return tw.compile(program(UPDATE))


A, B = floats(16, 24), floats(24, 8, seed=1)


def test_inputs_go_in_and_results_come_out(matmul: JitFunction) -> None:
    for _ in range(2):  # the second call takes the short way
        c = matmul(A, B)
        assert type(c) is np.ndarray
        assert (c.shape, c.dtype) == ((16, 8), np.dtype("float32"))
        np.testing.assert_allclose(c, A @ B, rtol=1e-5)
    assert matmul(A, B) is not c


def test_arguments_have_names(matmul: JitFunction) -> None:
    expected = matmul(A, B)
    assert np.array_equal(matmul(B=B, A=A), expected)
    assert np.array_equal(matmul(A, B=B), expected)
    c = np.empty((16, 8), "float32")
    assert matmul(A, B, C=c) is c
    assert np.array_equal(c, expected)


def test_results_can_be_given(matmul: JitFunction) -> None:
    expected = matmul(A, B)
    c = np.full((16, 8), 7, "float32")
    ways: list[tuple[tuple[Any, ...], Any]] = [((A, B), c), ((A, B), (c,)), ((A, B, c), None)]
    for args, out in ways:
        c.fill(7)
        assert matmul(*args, out=out) is c
        assert np.array_equal(c, expected)


def test_a_result_may_overlap_inputs() -> None:
    a = te.placeholder((8, 8), name="A")
    square = tw.compile([a, topi.matmul(a, a)])
    x = floats(8, 8)
    expected = square(x)
    assert square(x, out=x) is x
    assert np.array_equal(x, expected)
    memory = floats(9, 8)
    expected = square(memory[1:])
    square(memory[1:], out=memory[:8])
    assert np.array_equal(memory[:8], expected)


def test_inputs_that_are_not_row_major_are_copied(matmul: JitFunction) -> None:
    expected = matmul(A, B)
    assert np.array_equal(matmul(np.asfortranarray(A), B), expected)
    assert np.array_equal(matmul(np.repeat(A, 2, axis=0)[::2], B), expected)
    assert np.array_equal(matmul(A[::-1][::-1], B), expected)
    misaligned = np.zeros(A.nbytes + 1, "uint8")[1:].view("float32").reshape(A.shape)
    misaligned[...] = A
    assert np.array_equal(matmul(misaligned, B), expected)
    frozen = A.copy()
    frozen.flags.writeable = False
    assert np.array_equal(matmul(frozen, B), expected)


def test_several_results_come_in_order() -> None:
    split = tw.compile(program(SPLIT))
    x = np.arange(8, dtype="float32")
    low, high = split(x)
    assert low.tolist() == [0, 1, 2, 3]
    assert high.tolist() == [4, 5, 6, 7]
    kept = np.empty(4, "float32")
    low, high = split(x, out=(None, kept))
    assert high is kept
    assert (low.tolist(), high.tolist()) == ([0, 1, 2, 3], [4, 5, 6, 7])
    low = np.empty(4, "float32")
    assert split(low, x, kept)[0] is low  # all arguments, in the order of the program
    assert low.tolist() == [0, 1, 2, 3]


# --- arguments that are read and written --------------------------------------------------------


def test_what_is_read_and_written_is_copied(step: JitFunction) -> None:
    w, g = floats(8), floats(8, seed=1)
    for _ in range(2):
        before = w.copy()
        changed, norm = step(w, g, 0.5)
        assert np.array_equal(w, before)
        np.testing.assert_allclose(changed, w - 0.5 * g, rtol=1e-6)
        np.testing.assert_allclose(norm, [(changed**2).sum()], rtol=1e-5)


def test_in_place_where_out_says_so(step: JitFunction) -> None:
    w, g = floats(8), floats(8, seed=1)
    expected = step(w, g, 0.5)[0]
    changed, norm = step(w, g, 0.5, out=(w, None))
    assert changed is w
    assert np.array_equal(w, expected)
    other = np.zeros(8, "float32")
    expected = step(w, g, 0.5)[0]
    before = w.copy()
    assert step(w, g, 0.5, out=(other, norm))[0] is other
    assert np.array_equal(other, expected)
    assert np.array_equal(w, before)


def test_in_place_for_all_calls() -> None:
    step = tw.compile(program(UPDATE), inplace=True)
    w, g = floats(8), floats(8, seed=1)
    expected = w - np.float32(0.5) * g
    changed, _ = step(w, g, 0.5)
    assert changed is w
    np.testing.assert_allclose(w, expected, rtol=1e-6)
    expected = w - np.float32(0.5) * w
    step(w, w, 0.5)  # the gradient is a copy of what is overwritten
    np.testing.assert_allclose(w, expected, rtol=1e-6)


def test_elements_that_are_not_written_are_zero() -> None:
    text = "@T.prim_func\ndef f(x: T.Buffer((4,)), y: T.Buffer((8,))):\n    for i in T.serial(4):\n"
    first = tw.compile(program(text + "        y[i] = x[i]\n"))
    for _ in range(3):
        assert first(np.ones(4, "float32")).tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    kept = np.full(8, 7, "float32")
    assert first(np.ones(4, "float32"), out=kept).tolist() == [1, 1, 1, 1, 7, 7, 7, 7]


def test_nothing_in_and_nothing_out() -> None:
    text = "@T.prim_func\ndef f(y: T.Buffer((4,), 'int32')):\n    for i in T.serial(4):\n"
    assert tw.compile(program(text + "        y[i] = i\n"))().tolist() == [0, 1, 2, 3]
    text = "@T.prim_func\ndef f(x: T.Buffer((4,))):\n    T.evaluate(0)\n"
    nothing = tw.compile(program(text))
    assert nothing(np.ones(4, "float32")) is None
    with pytest.raises(ArgumentError, match=r"^f\(\) returns nothing, so it takes no out=$"):
        nothing(np.ones(4, "float32"), out=np.ones(4))


# --- programs of all kinds ----------------------------------------------------------------------


def test_a_decorator() -> None:
    plain = tw.compile()(program(MATMUL))
    assert isinstance(plain, JitFunction)
    np.testing.assert_allclose(plain(A, B), A @ B, rtol=1e-5)
    with_options = tw.compile(specialize=False)(program(MATMUL))
    np.testing.assert_allclose(with_options(A, B), A @ B, rtol=1e-5)


def test_a_module_of_several_functions() -> None:
    text = "\n".join("    " + line for line in (MATMUL + SPLIT).splitlines())
    made = tw.compile(from_source("@I.ir_module\nclass M:\n" + text))
    assert isinstance(made, JitModule)
    assert (list(made), len(made)) == (["matmul", "split"], 2)
    np.testing.assert_allclose(made.matmul(A, B), A @ B, rtol=1e-5)
    assert made["split"](np.arange(8, dtype="float32"))[0].tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeFailure, match="the module has no function 'matmull'; did you mean"):
        made["matmull"]
    with pytest.raises(AttributeError, match="the module has no function 'matmull'; did you mean"):
        made.matmull
    assert repr(made).startswith("<2 functions: <matmul(A: float32[16, 24], B: float32[24, 8]) ->")


def test_a_schedule_is_kept() -> None:
    sch = tw.tir.Schedule(program(MATMUL))
    i, _, _ = sch.get_loops("C")
    sch.split(i, [None, 4])
    kept = tw.compile(sch)
    assert kept.script().count("for i_0") == 1
    np.testing.assert_allclose(kept(A, B), A @ B, rtol=1e-5)


def test_loops_that_somebody_made_parallel_stay_so() -> None:
    text = "@T.prim_func\ndef f(x: T.Buffer((64,)), y: T.Buffer((64,))):\n"
    text += "    for i in T.parallel(64):\n        with T.block('y'):\n"
    text += "            vi = T.axis.spatial(64, i)\n            y[vi] = x[vi] + T.float32(1)\n"
    assert "T.parallel(64)" in tw.compile(program(text)).script()
    plain = tw.compile(program(text.replace("parallel", "serial")))
    assert "T.vectorized" in plain.script()


def test_scalars_are_passed_on_and_do_not_hinder_the_schedule(step: JitFunction) -> None:
    text = "@T.prim_func\ndef f(x: T.Buffer((64,)), s: T.float32, y: T.Buffer((64,))):\n"
    text += "    for i in T.serial(64):\n        with T.block('y'):\n"
    text += "            vi = T.axis.spatial(64, i)\n            y[vi] = x[vi] * s\n"
    scale = tw.compile(program(text))
    x = floats(64)
    for factor in (2.0, np.float32(3), 4):
        np.testing.assert_allclose(scale(x, factor), x * np.float32(factor))
    assert "T.vectorized" in scale.script()


def test_bound_arguments(matmul: JitFunction) -> None:
    expected = matmul(A, B)
    bound = matmul.bind(B=np.asfortranarray(B))
    for _ in range(2):
        assert np.array_equal(bound(A), expected)
    c = np.empty((16, 8), "float32")
    assert bound(A, out=c) is c
    assert np.array_equal(c, expected)
    assert np.array_equal(bound.bind(A=A)(), expected)
    assert repr(bound) == "<matmul(A: float32[16, 24]) -> C: float32[16, 8], compiled>"
    with pytest.raises(
        ArgumentError, match=r"^bind\(\): matmul\(\) writes C, so it cannot be bound$"
    ):
        matmul.bind(C=c)
    with pytest.raises(ArgumentError, match=r"^matmul\(\) has no argument 'D'; known: A, B, C$"):
        matmul.bind(D=c)


def test_bound_weights_are_packed_once() -> None:
    attr = '    T.func_attr({"layout_free_buffers": [1]})\n    for'
    free = tw.compile(program(MATMUL.replace("    for", attr, 1)))
    np.testing.assert_allclose(free(A, B), A @ B, rtol=1e-5)
    np.testing.assert_allclose(free.bind(B=B)(A), A @ B, rtol=1e-5)


def test_looking_at_it(matmul: JitFunction, capsys: pytest.CaptureFixture[str]) -> None:
    fresh = tw.compile(program(MATMUL))
    text = "<matmul(A: float32[16, 24], B: float32[24, 8]) -> C: float32[16, 8], "
    assert repr(fresh) == f"{text}not compiled yet>"
    matmul(A, B)
    assert repr(matmul) == f"{text}compiled>"
    assert matmul.__name__ == "matmul"
    assert matmul.sizes() == [{}]
    matmul.show()
    assert capsys.readouterr().out.strip() == matmul.script().strip()
    assert isinstance(matmul.lower(), IRModule)
    assert "matmul" in matmul.module()
    assert str(matmul.program) == str(program(MATMUL))


# --- mistakes -----------------------------------------------------------------------------------

TAKES = "matmul() takes 2 arguments (A: float32[16, 24], B: float32[24, 8]), or 3 with what it "
TAKES += "returns (C: float32[16, 8]), got "
C = np.zeros((16, 8), "float32")
MISTAKES: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((A,), {}, f"{TAKES}1"),
    ((A, B, C, C), {}, f"{TAKES}4"),
    ((A,), {"out": C}, f"{TAKES}1"),
    ((), {"A": A}, "matmul() is missing the argument B: float32[24, 8]"),
    ((A, B), {"D": A}, "matmul() has no argument 'D'; known: A, B, C"),
    ((A, B), {"A": A}, "matmul() got two values for the argument 'A'"),
    ((A, B, C), {"out": C}, "matmul() got a result twice: as an argument and as out="),
    (
        (A, B),
        {"out": (C, C)},
        "matmul() returns 1 array (C: float32[16, 8]); out= takes one, got 2",
    ),
    (
        (A.astype("float64"), B),
        {},
        "matmul(): argument 0 (A): dtype is float64, expected float32",
    ),
    (
        (A.astype(">f4"), B),
        {},
        "matmul(): argument 0 (A): dtype is byte-swapped float32, expected float32",
    ),
    (
        (A[:4], B),
        {},
        "matmul(): argument 0 (A): shape is [4, 24], expected 16 on axis 0 as in A: "
        "float32[16, 24]",
    ),
    (
        ([1.0], B),
        {},
        "matmul(): argument 0 (A): expected A: float32[16, 24], got list; pass a NumPy array or "
        "any object with __dlpack__ on the CPU",
    ),
    (
        (A, 2.0),
        {},
        "matmul(): argument 1 (B): expected B: float32[24, 8], got float; pass a NumPy array or "
        "any object with __dlpack__ on the CPU",
    ),
    (
        (A, B),
        {"out": C.astype("float64")},
        "matmul(): argument 2 (C): dtype is float64, expected float32",
    ),
    (
        (A, B),
        {"out": np.empty((8, 16), "float32").T},
        "matmul(): argument 2 (C): strides are [1, 16] elements, expected a C-contiguous array; "
        "pass numpy.ascontiguousarray(x), or declare the buffer with strides",
    ),
]


@pytest.mark.parametrize(("args", "named", "message"), MISTAKES)
def test_mistakes(
    matmul: JitFunction, args: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    for warm in (False, True):
        function = tw.compile(program(MATMUL)) if not warm else matmul
        if warm:
            function(A, B)
        with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
            function(*args, **named)
        assert warm or function.sizes() == []  # nothing is compiled for arguments that do not fit


def test_mistakes_with_several_results(step: JitFunction) -> None:
    w, g = floats(8), floats(8)
    message = (
        "step() returns 2 arrays (w: float32[8], norm: float32[1]); out= takes a tuple of as many, "
        "None for those to be allocated, got 1"
    )
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        step(w, g, 0.5, out=w)
    before = w.copy()
    message = "the array for the result w overlaps that of norm; pass another one"
    with pytest.raises(ArgumentError, match=rf"^step\(\): {message}$"):
        step(w, g, 0.5, out=(w, w[:1]))
    with pytest.raises(ArgumentError, match=r"argument 3 \(w\): dtype is float64"):
        step(w, g, 0.5, out=(w.astype("float64"), None))
    assert np.array_equal(w, before)


def test_a_result_must_not_overlap_what_is_bound(matmul: JitFunction) -> None:
    memory = floats(24, 24)
    bound = matmul.bind(A=memory[:16])
    message = r"^matmul\(\): the array for the result C overlaps that of A; pass another one$"
    with pytest.raises(ArgumentError, match=message):
        bound(B, out=memory.reshape(-1)[:128].reshape(16, 8))


def test_what_cannot_be_compiled() -> None:
    def forgotten(x: Any) -> None: ...

    for wrong, message in (
        (
            forgotten,
            "compile() got the Python function 'forgotten', expected a program; write @T.prim_func "
            "between it and @tw.compile",
        ),
        (
            "llvm",
            "compile() takes a PrimFunc, an IRModule, a Schedule or a list of tensors, got str",
        ),
        (IRModule(), "compile(): the module has no functions"),
    ):
        with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
            tw.compile(wrong)  # type: ignore[arg-type]
    with pytest.raises(TargetError) as caught:
        tw.compile(program(MATMUL), "cuda")
    assert str(caught.value) == (
        "compile(): results are allocated on the CPU, but the target is 'cuda'; build() makes "
        "functions that take arrays of a GPU"
    )
    message = "specialize=-1: expected True, False, or the number of sizes that get a kernel of "
    with pytest.raises(ArgumentError, match=message):
        tw.compile(program(MATMUL), specialize=-1)
