"""Control flow, allocation, assertions and parallel loops in compiled code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilewright.errors import CodegenError, KernelAssertError
from tilewright.ir import (
    EQ,
    LT,
    NE,
    TRUE,
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    DType,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Let,
    LetStmt,
    PointerType,
    PrimExpr,
    SizeVar,
    Stmt,
    Var,
    While,
    const,
    decl_buffer,
    no_op,
    seq,
)
from tilewright.ir.intrinsics import call_extern, ret
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.runtime import use_threads
from tilewright.testing.kernels import (
    assert_same,
    compile_lowered,
    flat,
    kernel,
    llvm_source,
    sample,
)


def load(buffer: Buffer, index: PrimExpr | int) -> BufferLoad:
    return BufferLoad(buffer, (const(index) if isinstance(index, int) else index,))


def store(buffer: Buffer, value: PrimExpr, index: PrimExpr | int) -> Stmt:
    return BufferStore(buffer, value, (const(index) if isinstance(index, int) else index,))


def loop(
    extent: PrimExpr | int,
    body: Callable[[Var], Stmt],
    *,
    begin: PrimExpr | int = 0,
    kind: ForKind = ForKind.SERIAL,
    dtype: str = "int32",
) -> For:
    var = Var("i", DType(dtype))
    first = const(begin, dtype) if isinstance(begin, int) else begin
    size = const(extent, dtype) if isinstance(extent, int) else extent
    return For(var, first, size, kind, body(var))


def allocate(size: PrimExpr | int, dtype: str, body: Callable[[Buffer], Stmt]) -> Stmt:
    pointer = Var("memory", DType("handle"), PointerType(DType(dtype)))
    extent = const(size) if isinstance(size, int) else size
    buffer = decl_buffer((extent,), dtype, "memory", data=pointer)
    return Allocate(pointer, DType(dtype), (extent,), TRUE, body(buffer))


A, OUT = flat("a", 64, "int32"), flat("out", 64, "int32")
ZEROS = np.zeros(64, np.int32)


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.PARALLEL, ForKind.UNROLLED])
@pytest.mark.parametrize(("begin", "extent"), [(0, 5), (3, 4), (-3, 7), (0, 0), (5, -2), (-9, 1)])
def test_loops_with_constant_bounds(kind: ForKind, begin: int, extent: int) -> None:
    body = loop(extent, lambda i: store(OUT, i * 3, i + 10), begin=begin, kind=kind)
    out = np.zeros(64, np.int32)
    compile_lowered(kernel([OUT], body))(out)
    expected = np.zeros(64, np.int32)
    for i in range(begin, begin + extent):
        expected[i + 10] = 3 * i
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.PARALLEL, ForKind.UNROLLED])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_loops_with_symbolic_bounds(kind: ForKind, dtype: str) -> None:
    begin, extent = Var("begin", DType(dtype)), Var("extent", DType(dtype))
    body = loop(
        extent,
        lambda i: store(OUT, (i * 3).astype("int32"), i + 10),
        begin=begin,
        kind=kind,
        dtype=dtype,
    )
    module = compile_lowered(kernel([OUT, begin, extent], body))
    for first, count in ((0, 5), (-3, 7), (2, 0), (4, -5), (-10, 64)):
        out, expected = np.zeros(64, np.int32), np.zeros(64, np.int32)
        module(out, first, count)
        for i in range(first, first + count):
            expected[i + 10] = 3 * i
        assert out.tolist() == expected.tolist()


def test_small_and_unsigned_loop_variables() -> None:
    for dtype in ("uint8", "int16", "uint32"):
        body = loop(
            20, lambda i: store(OUT, (i * const(7, i.dtype)).astype("int32"), i), dtype=dtype
        )
        assert_same(kernel([OUT], body), ZEROS)


def test_division_of_loop_variables_below_zero() -> None:
    """The bounds of a loop decide whether its divisions may take the short way."""

    def divide(i: Var) -> Stmt:
        parts = i // 7 + (i % 7) * 10 + ((i + 3) // 4) * 100 + (i * 2 - 1) % 6 * 10000
        return store(OUT, parts, i + 20)

    assert_same(kernel([OUT], loop(40, divide, begin=-20)), ZEROS)
    n = SizeVar("n")

    def divide_by(i: Var) -> Stmt:
        return store(OUT, i // n + i % n * 100 + (i - 30) // n * 10000, i)

    assert_same(kernel([OUT, n], loop(40, divide_by)), ZEROS, 7)


def test_conditions_with_hoisted_values() -> None:
    n = Var("n")

    def body(i: Var) -> Stmt:
        under = IfThenElse(
            NE(n, const(0)), store(OUT, const(100) // n + i, i), store(OUT, const(-1), i)
        )
        return IfThenElse(LT(i, n + 3), under, None)

    module = compile_lowered(kernel([OUT, n], loop(10, body)))
    for count in (0, 3, -2, 7):
        out = np.zeros(64, np.int32)
        module(out, count)
        expected = [(100 // count + i if count else -1) if i < count + 3 else 0 for i in range(10)]
        assert out[:10].tolist() == expected


def test_nested_branches_and_lets() -> None:
    x, y = Var("x"), Var("y")

    def body(i: Var) -> Stmt:
        inner = IfThenElse(
            LT(x, const(0)),
            IfThenElse(EQ(i % 2, const(0)), store(OUT, x - 1, i), store(OUT, x + y, i)),
            IfThenElse(LT(y, const(5)), store(OUT, Let(y, x * 2, y + i), i), no_op()),
        )
        return LetStmt(x, load(A, i), LetStmt(y, i * 2 + 1, inner))

    assert_same(kernel([A, OUT], loop(64, body)), sample("int32", 64), ZEROS)


def test_while_sees_every_store() -> None:
    counter, total = load(OUT, 0), load(OUT, 1)
    body = While(
        LT(counter, const(10)),
        seq(
            [
                store(OUT, total + counter * counter, 1),
                IfThenElse(EQ(counter % 3, const(0)), store(OUT, load(OUT, 2) + 1, 2)),
                store(OUT, counter + 1, 0),
            ]
        ),
    )
    result = assert_same(kernel([OUT], body), ZEROS)
    assert result[0][:3].tolist() == [10, 285, 4]


def test_while_inside_loops_with_conditions_on_memory() -> None:
    """Collatz: how many steps to 1."""

    def steps(i: Var) -> Stmt:
        def run(memory: Buffer) -> Stmt:
            number = load(memory, 0)
            half, more = store(memory, number // 2, 0), store(memory, number * 3 + 1, 0)
            body = seq(
                [
                    IfThenElse(EQ(number % 2, const(0)), half, more),
                    store(OUT, load(OUT, i) + 1, i),
                ]
            )
            return seq([store(memory, i + 1, 0), While(NE(number, const(1)), body)])

        return allocate(1, "int32", run)

    for kind in (ForKind.SERIAL, ForKind.PARALLEL):
        result = assert_same(kernel([OUT], loop(20, steps, kind=kind)), ZEROS)
        assert result[0][:7].tolist() == [0, 1, 7, 2, 5, 8, 16]


@pytest.mark.parametrize("size", [16, 100_000])
@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.PARALLEL])
def test_allocation_on_stack_and_heap(size: int, kind: ForKind) -> None:
    def outer(shared: Buffer) -> Stmt:
        def work(i: Var) -> Stmt:
            def inner(own: Buffer) -> Stmt:
                fill = loop(16, lambda j: store(own, load(shared, j) * i, j))
                add = loop(16, lambda j: store(OUT, load(OUT, i) + load(own, j), i))
                return seq([fill, add])

            return allocate(size, "int32", inner)

        prepare = loop(16, lambda j: store(shared, load(A, j) + 1, j))
        return seq([prepare, loop(64, work, kind=kind)])

    data = np.arange(64, dtype=np.int32)
    result = assert_same(kernel([A, OUT], allocate(size, "int32", outer)), data, ZEROS)
    assert result[1].tolist() == [136 * i for i in range(64)]


def test_symbolic_allocation() -> None:
    n = Var("n")
    body = allocate(
        n * 2,
        "float64",
        lambda memory: seq(
            [
                loop(n * 2, lambda i: store(memory, i.astype("float64"), i)),
                loop(n, lambda i: store(OUT, load(memory, i * 2).astype("int32"), i)),
            ]
        ),
    )
    module = compile_lowered(kernel([OUT, n], body))
    for count in (0, 1, 30):
        out = np.zeros(64, np.int32)
        module(out, count)
        assert out[:count].tolist() == [2 * i for i in range(count)]


def test_much_stack_memory_goes_to_the_heap() -> None:
    body: Stmt = store(OUT, const(1), 0)
    for _ in range(40):
        inner = body
        body = allocate(
            8000,
            "int32",
            lambda memory, inner=inner: seq([store(memory, const(1), 0), inner]),  # type: ignore[misc]
        )
    func = kernel([OUT], body)
    text = llvm_source(func)
    assert text.count("alloca [8000 x i32]") == 8
    assert text.count("= call noalias ptr @tw_workspace_alloc") == 32
    out = np.zeros(64, np.int32)
    compile_lowered(func)(out)
    assert out[0] == 1


@pytest.mark.parametrize(
    "dtype", ["int32", "uint8", "bool", "int4", "float32", "float16", "bfloat16", "float8_e4m3fn"]
)
def test_constants_in_memory(dtype: str) -> None:
    values: tuple[int | float, ...] = (0, 1, 3, 7, 1, 0)
    if "float" in dtype:
        values = (0.0, 1.5, -3.25, 448.0, 0.001953125, 2.5)
    pointer = Var("table", DType("handle"), PointerType(DType(dtype)))
    table, out = decl_buffer((6,), dtype, "table", data=pointer), flat("out", 6, dtype)
    body = AllocateConst(
        pointer,
        DType(dtype),
        (const(6),),
        values,
        loop(6, lambda i: store(out, load(table, 5 - i), i)),
    )
    func = kernel([out], body)
    result = np.zeros(6, to_numpy(dtype))
    compile_lowered(func)(result)
    assert (
        result.astype(np.float32).tolist()
        == np.array(values[::-1]).astype(to_numpy(dtype)).astype(np.float32).tolist()
    )


def test_failed_assertions_free_memory() -> None:
    n = Var("n")

    def check(memory: Buffer) -> Stmt:
        def inner(second: Buffer) -> Stmt:
            then = store(OUT, load(memory, 0) + load(second, 1), 0)
            return seq(
                [
                    store(memory, n, 0),
                    store(second, n, 1),
                    AssertStmt(LT(n, const(10)), "n must be small", then),
                ]
            )

        return allocate(1_000_000, "int32", inner)

    func = kernel([OUT, n], allocate(1_000_000, "int32", check))
    module, out = compile_lowered(func), np.zeros(64, np.int32)
    module(out, 4)
    assert out[0] == 8
    for _ in range(300):  # 2.4 GB if nothing was freed
        with pytest.raises(KernelAssertError, match=r"^main\(\): n must be small$"):
            module(out, 10)


def test_failing_assertion_inside_a_worker() -> None:
    n = Var("n")

    def work(i: Var) -> Stmt:
        def inner(memory: Buffer) -> Stmt:
            then = seq([store(memory, i, 0), store(OUT, load(memory, 0), i)])
            return AssertStmt(NE(i, n), "worker met n", then)

        return allocate(100_000, "int32", inner)

    module = compile_lowered(kernel([OUT, n], loop(64, work, kind=ForKind.PARALLEL)))
    out = np.zeros(64, np.int32)
    for bad in (0, 31, 32, 63):
        with pytest.raises(KernelAssertError, match="worker met n"):
            module(out, bad)
    module(out, 64)
    assert out.tolist() == list(range(64))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_parallel_loops_capture_everything(threads: int) -> None:
    """Scalars of all types, pointers, loop variables of outer loops, lets; nested and in a row."""
    f, flag, small, n = (
        Var("f", DType("float32")),
        Var("flag", DType("bool")),
        Var("s", DType("int8")),
        Var("n"),
    )
    total = Var("total")
    floats = flat("floats", 64)

    def outer(j: Var) -> Stmt:
        def work(i: Var) -> Stmt:
            value = load(A, i) * n + total + small.astype("int32") + j
            scaled = store(floats, i.astype("float32") * f, i)
            nested = loop(
                2, lambda k: store(OUT, load(OUT, i) + value + k, i), kind=ForKind.PARALLEL
            )
            return seq([IfThenElse(flag, nested, None), scaled])

        return loop(60, work, kind=ForKind.PARALLEL, begin=2)

    body = LetStmt(total, n * 3, seq([loop(3, outer), loop(2, outer, kind=ForKind.UNROLLED)]))
    func = kernel([A, OUT, floats, f, flag, small, n], body)
    with use_threads(threads):
        assert_same(
            func,
            sample("int8", 64).astype(np.int32),
            ZEROS,
            np.zeros(64, np.float32),
            1.5,
            True,
            -7,
            11,
        )


def test_return_leaves_the_function() -> None:
    n = Var("n")
    early = IfThenElse(LT(n, const(0)), Evaluate(ret(const(0))))
    body = allocate(
        100_000,
        "int32",
        lambda memory: seq([early, store(memory, n, 0), store(OUT, load(memory, 0), 0)]),
    )
    module = compile_lowered(kernel([OUT, n], body))
    for count, expected in ((-1, 0), (5, 5)):
        out = np.zeros(64, np.int32)
        module(out, count)
        assert out[0] == expected


def test_code_behind_a_return_is_dead() -> None:
    body = seq(
        [store(OUT, const(1), 0), Evaluate(ret(const(0))), loop(4, lambda i: store(OUT, i, i))]
    )
    out = np.zeros(64, np.int32)
    compile_lowered(kernel([OUT], body))(out)
    assert out[:4].tolist() == [1, 0, 0, 0]


def test_attributes_are_transparent() -> None:
    body = AttrStmt(None, "pragma_something", const(1), store(OUT, const(3), 0))
    assert_same(kernel([OUT], body), ZEROS)


def test_expressions_are_evaluated_for_their_effects() -> None:
    body = seq([Evaluate(call_extern("int32", "rand") + 1), store(OUT, const(1), 0)])
    assert "call i32 @rand()" in llvm_source(kernel([OUT], body))


def test_errors_name_the_place() -> None:
    def error(body: Stmt) -> str:
        with pytest.raises(CodegenError) as caught:
            llvm_source(kernel([OUT], body))
        return str(caught.value)

    assert error(Evaluate(ret(const(3)))) == (
        "`T.ret(3)`: a kernel has no result but its buffers; it can only return 0"
    )
    assert error(loop(4, lambda i: Evaluate(ret(const(0))), kind=ForKind.PARALLEL)) == (
        "`T.ret` inside a parallel loop cannot leave the function"
    )
    assert error(IfThenElse(load(OUT, 0), no_op())) == (
        "expected a scalar bool as condition, got int32: `out[0]`"
    )
    assert error(loop(4, lambda i: store(OUT, i, i), kind=ForKind.VECTORIZED)) == (
        "loop i is vectorized: the LLVM backend takes serial, parallel and unrolled loops"
    )
