"""The oracle on whole programs: blocks, lowered forms, calls, errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.errors import KernelAssertError
from tilewright.ir import (
    HANDLE,
    INT32,
    TRUE,
    Allocate,
    AllocateConst,
    AssertStmt,
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    DType,
    Evaluate,
    For,
    ForKind,
    GlobalVar,
    IRModule,
    IterType,
    IterVar,
    MatchBufferRegion,
    PointerType,
    PrimExpr,
    PrimFunc,
    Ramp,
    Range,
    Select,
    Shuffle,
    SizeVar,
    Stmt,
    Var,
    builder,
    const,
    decl_buffer,
    intrinsics,
    logical_and,
    root_realize,
    seq,
)
from tilewright.testing import oracle
from tilewright.testing.oracle import OracleOptions

PLAIN = OracleOptions(plain=True)
BOTH_MODES = pytest.mark.parametrize("options", [OracleOptions(), PLAIN], ids=["grid", "plain"])


def function(buffers: Sequence[Buffer], body: Stmt, name: str = "main") -> PrimFunc:
    """A TensorIR function over some buffers, with a root block."""
    params = tuple(Var(buffer.name.lower(), HANDLE) for buffer in buffers)
    root = body if isinstance(body, BlockRealize) else root_realize(Block((), (), (), "root", body))
    return PrimFunc(params, root, dict(zip(params, buffers, strict=True)), {"global_symbol": name})


def loops(names: str, extents: Sequence[int | PrimExpr], body: Callable[..., Stmt]) -> Stmt:
    variables = [Var(name) for name in names]
    stmt = body(*variables)
    for var, extent in reversed(list(zip(variables, extents, strict=True))):
        bound = const(extent) if isinstance(extent, int) else extent
        stmt = For(var, const(0), bound, ForKind.SERIAL, stmt)
    return stmt


def iterator(name: str, extent: int, kind: IterType = IterType.DATA_PAR) -> IterVar:
    return IterVar(Range(const(0), const(extent)), Var(name), kind)


def matmul(n: int, m: int, k: int, dtype: str = "float32") -> PrimFunc:
    a = decl_buffer((n, k), dtype, "A")
    b = decl_buffer((k, m), dtype, "B")
    c = decl_buffer((n, m), dtype, "C")
    vi, vj = iterator("vi", n), iterator("vj", m)
    vk = iterator("vk", k, IterType.COMM_REDUCE)
    i, j, r = vi.var, vj.var, vk.var
    update = BufferStore(c, c[i, j] + a[i, r] * b[r, j], (i, j))
    init = BufferStore(c, const(0, dtype), (i, j))
    block = Block((vi, vj, vk), (), (), "C", update, init)
    nest = loops("ijk", (n, m, k), lambda *axes: BlockRealize(axes, TRUE, block))
    return function((a, b, c), nest)


@BOTH_MODES
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
def test_matmul_of_blocks(dtype: str, options: OracleOptions) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((5, 7), (7, 6)))
    c = np.full((5, 6), 99, dtype)
    oracle.run(matmul(5, 6, 7, dtype), a, b, c, options=options)
    np.testing.assert_array_equal(c, (a.astype("int64") @ b.astype("int64")).astype(dtype))


def test_each_step_of_a_reduction_is_rounded() -> None:
    steps = np.full((1, 3000), 1.0, "float16")
    total = np.zeros((1, 1), "float16")
    oracle.run(matmul(1, 1, 3000, "float16"), steps, steps.reshape(-1, 1).copy(), total)
    assert total[0, 0] == 2048.0  # 2048 + 1 is not a float16


@BOTH_MODES
def test_predicate_and_domain_of_a_block(options: OracleOptions) -> None:
    a, b = decl_buffer((10,), "int32", "A"), decl_buffer((10,), "int32", "B")
    vi = iterator("vi", 10)
    block = Block((vi,), (), (), "B", BufferStore(b, a[vi.var] * 2, (vi.var,)))

    def body(i: Var, j: Var) -> Stmt:
        return BlockRealize((i * 4 + j,), i * 4 + j < 10, block)

    x, y = np.arange(10, dtype="int32"), np.zeros(10, "int32")
    oracle.run(function((a, b), loops("ij", (3, 4), body)), x, y, options=options)
    np.testing.assert_array_equal(y, x * 2)

    unguarded = loops("ij", (3, 4), lambda i, j: BlockRealize((i * 4 + j,), TRUE, block))
    with pytest.raises(oracle.OracleError, match=r"block 'B': iterator vi .* domain \[0, 10\)"):
        oracle.run(function((a, b), unguarded), x, y, options=options)


@BOTH_MODES
def test_symbolic_shape_and_strides(options: OracleOptions) -> None:
    n, step = SizeVar("n", INT32), Var("step")
    a = decl_buffer((n, n), "float32", "A", strides=(step, 1))
    b = decl_buffer((n,), "float32", "B")
    body = loops("i", (n,), lambda i: BufferStore(b, a[i, i], (i,)))
    array = np.arange(40, dtype="float32").reshape(5, 8)[:, :5]
    result = np.zeros(5, "float32")
    oracle.run(function((a, b), body), array, result, options=options)
    np.testing.assert_array_equal(result, np.diagonal(array))
    with pytest.raises(
        oracle.OracleArgumentError, match=r"buffer B has shape \(5,\), got .*\(6,\)"
    ):
        oracle.run(function((a, b), body), array, np.zeros(6, "float32"))


def test_match_buffer_binds_its_strides_and_offset() -> None:
    a, out = decl_buffer((8, 8), "int32", "A"), decl_buffer((2,), "int32", "Out")
    s0, offset = Var("s0"), Var("offset")
    view = decl_buffer((2, 2), "int32", "V", strides=(s0, 1), elem_offset=offset)
    region = BufferRegion(a, (Range(const(4), const(2)), Range(const(2), const(2))))
    writes = [BufferStore(out, s0, (const(0),)), BufferStore(out, offset, (const(1),))]
    double = loops("ij", (2, 2), lambda i, j: BufferStore(view, view[i, j] * 2, (i, j)))
    block = Block(
        (), (), (), "m", seq([*writes, double]), None, (), (MatchBufferRegion(view, region),)
    )
    array, result = np.arange(64, dtype="int32").reshape(8, 8), np.zeros(2, "int32")
    expected = array.copy()
    expected[4:6, 2:4] *= 2
    oracle.run(function((a, out), root_realize(block)), array, result)
    np.testing.assert_array_equal(array, expected)
    assert list(result) == [8, 34]


def test_two_blocks_share_an_allocated_buffer() -> None:
    a, b = decl_buffer((6,), "float32", "A"), decl_buffer((6,), "float32", "B")
    middle = decl_buffer((6,), "float32", "M")
    first = loops("i", (6,), lambda i: BufferStore(middle, a[i] + 1.0, (i,)))
    second = loops("i", (6,), lambda i: BufferStore(b, middle[5 - i], (i,)))
    root = Block((), (), (), "root", seq([first, second]), None, (middle,))
    x, y = np.arange(6, dtype="float32"), np.zeros(6, "float32")
    oracle.run(function((a, b), root_realize(root)), x, y)
    np.testing.assert_array_equal(y, (x + 1)[::-1])

    alone = Block((), (), (), "root", second, None, (middle,))
    with pytest.raises(oracle.UninitializedReadError, match="read of M"):
        oracle.run(function((a, b), root_realize(alone)), x, y)
    oracle.run(function((a, b), root_realize(alone)), x, y, options=OracleOptions(False, False))


# --- lowered programs ---


def lowered(ib: builder.IRBuilder, *pointers: builder.BufferVar | Var) -> PrimFunc:
    params = tuple(p if isinstance(p, Var) else p.buffer.data for p in pointers)
    return PrimFunc(params, ib.get(), {}, {"global_symbol": "main"})


def test_vector_statements_with_masks() -> None:
    ib = builder.create()
    a, b = ib.pointer("float32", "A"), ib.pointer("float32", "B")
    lanes = Ramp(const(4), const(1), 4)
    mask = lanes < Broadcast(const(6), 4)
    loaded = BufferLoad(a.buffer, (lanes,), mask)
    ib.emit(BufferStore(b.buffer, loaded + Broadcast(const(1.0), 4), (lanes,), mask))
    x, y = np.arange(6, dtype="float32"), np.zeros(8, "float32")
    oracle.run(lowered(ib, a, b), x, y)
    np.testing.assert_array_equal(y, [0, 0, 0, 0, 5, 6, 0, 0])


def test_masked_off_lanes_may_lie_outside_but_others_may_not() -> None:
    ib = builder.create()
    a = ib.pointer("float32", "A")
    lanes = Ramp(const(4), const(1), 4)
    ib.emit(BufferStore(a.buffer, Broadcast(const(1.0), 4), (lanes,)))
    with pytest.raises(oracle.OutOfBoundsError, match=r"access to A at element 6 .* 6 elements"):
        oracle.run(lowered(ib, a), np.zeros(6, "float32"))


@BOTH_MODES
def test_vectors_inside_a_loop_nest(options: OracleOptions) -> None:
    ib = builder.create()
    a, b = ib.pointer("int32", "A"), ib.pointer("int32", "B")
    with ib.for_range(0, 6, "i") as i:
        lanes = Ramp(i * 4, const(1), 4)
        reverse = Ramp(i * 4 + 3, const(-1), 4)
        value = BufferLoad(a.buffer, (reverse,)) * Broadcast(i, 4)
        chosen = Select(lanes % Broadcast(const(3), 4) < Broadcast(const(1), 4), value, -value)
        ib.emit(BufferStore(b.buffer, chosen, (lanes,)))
    x, y = np.arange(24, dtype="int32") + 1, np.zeros(24, "int32")
    oracle.run(lowered(ib, a, b), x, y, options=options)
    position = np.arange(24)
    scaled = x.reshape(6, 4)[:, ::-1].reshape(-1) * (position // 4)
    np.testing.assert_array_equal(y, np.where(position % 3 < 1, scaled, -scaled))


def test_shuffle_broadcast_and_nested_ramp() -> None:
    ib = builder.create()
    out = ib.pointer("int32", "O")
    pair = Ramp(const(10), const(1), 2)
    grid = Ramp(pair, Broadcast(const(100), 2), 3)
    picked = Shuffle((pair, Broadcast(const(7), 2)), (const(3), const(0), const(1)))
    ib.emit(BufferStore(out.buffer, grid, (Ramp(const(0), const(1), 6),)))
    ib.emit(BufferStore(out.buffer, picked, (Ramp(const(6), const(1), 3),)))
    result = np.zeros(9, "int32")
    oracle.run(lowered(ib, out), result)
    assert list(result) == [10, 11, 110, 111, 210, 211, 7, 10, 11]


def test_while_let_if_and_allocate() -> None:
    ib = builder.create()
    n, out = Var("n"), ib.pointer("int32", "O")
    count = ib.allocate("int32", 1, "count")
    value = ib.allocate("int32", 1, "value")
    count[0] = 0
    value[0] = n
    with ib.while_loop(value[0] != 1):
        half = ib.let("half", value[0] // 2)
        with ib.if_scope(value[0] % 2 == 0):
            value[0] = half
        with ib.else_scope():
            value[0] = value[0] * 3 + 1
        count[0] = count[0] + 1
    out[0] = count[0]
    result = np.zeros(1, "int32")
    oracle.run(lowered(ib, n, out), 27, result)
    assert result[0] == 111  # the length of the Collatz sequence of 27


def test_if_then_else_is_lazy_and_select_is_not() -> None:
    def program(choose: Callable[[Any, Any, Any], PrimExpr]) -> PrimFunc:
        a, b = decl_buffer((4,), "float32", "A"), decl_buffer((6,), "float32", "B")

        def body(i: Var) -> Stmt:
            inside = logical_and(i >= 1, i < 5)
            return BufferStore(b, choose(inside, a[i - 1], const(0.0)), (i,))

        return function((a, b), loops("i", (6,), body))

    x, y = np.arange(4, dtype="float32") + 1, np.zeros(6, "float32")
    for options in (OracleOptions(), PLAIN):
        y[:] = 9
        oracle.run(program(intrinsics.if_then_else), x, y, options=options)
        np.testing.assert_array_equal(y, [0, 1, 2, 3, 4, 0])
        with pytest.raises(
            oracle.OutOfBoundsError, match=r"access A\[-1\] is outside its shape \(4\)"
        ):
            oracle.run(program(Select), x, y, options=options)


def test_views_of_other_types_share_memory() -> None:
    data = Var("arena", HANDLE, PointerType(DType("int8")))
    ints = decl_buffer((2,), "int32", "I", data)
    floats = decl_buffer((2,), "float32", "F", data)
    ib = builder.create()
    out = ib.pointer("int32", "O")
    ib.emit(lambda body: Allocate(data, DType("int8"), (const(8),), TRUE, body))
    ib.emit(BufferStore(floats, const(1.0), (const(1),)))
    out[0] = ints[1]
    result = np.zeros(1, "int32")
    oracle.run(lowered(ib, out), result)
    assert result[0] == 0x3F800000


def test_constants_in_memory() -> None:
    data = Var("table", HANDLE, PointerType(DType("int16")))
    table = decl_buffer((3,), "int16", "table", data)
    ib = builder.create()
    out = ib.pointer("int16", "O")
    ib.emit(lambda body: AllocateConst(data, DType("int16"), (const(3),), (5, -6, 7), body))
    with ib.for_range(0, 3) as i:
        out[i] = BufferLoad(table, (2 - i,))
    result = np.zeros(3, "int16")
    oracle.run(lowered(ib, out), result)
    assert list(result) == [7, -6, 5]


def test_calls_between_functions_and_return() -> None:
    x = Var("x")
    square = PrimFunc(
        (x,), Evaluate(intrinsics.ret(x * x)), {}, {"global_symbol": "square"}, "int32"
    )
    ib = builder.create()
    out = ib.pointer("int32", "O")
    with ib.for_range(0, 4) as i:
        out[i] = Call(INT32, GlobalVar("square"), (i + 1,))
    module = IRModule({"square": square, "main": lowered(ib, out)})
    result = np.zeros(4, "int32")
    oracle.run(module, result)
    assert list(result) == [1, 4, 9, 16]
    assert oracle.run(module, 7, name="square") == 49


def test_extern_functions_are_hooks() -> None:
    a = decl_buffer((4,), "float32", "A")
    pointer = intrinsics.address_of(BufferLoad(a, (const(1),)))
    body = Evaluate(intrinsics.call_extern("int32", "fill_with", pointer, const(3.0), const(2)))
    array = np.zeros(4, "float32")
    with pytest.raises(oracle.OracleUnsupportedError, match="register_extern\\('fill_with'"):
        oracle.run(function((a,), body), array)

    def fill(memory: Any, value: Any, count: Any) -> Any:
        memory[:count] = value
        return np.int32(0)

    oracle.register_extern("fill_with", fill)
    oracle.run(function((a,), body), array)
    assert list(array) == [0, 3, 3, 0]


def test_assertions_and_division_by_zero() -> None:
    n = Var("n")
    check = AssertStmt(n > 3, "n must be above 3", Evaluate(const(0)))
    func = PrimFunc((n,), check, {}, {"global_symbol": "main"})
    oracle.run(func, 4)
    with pytest.raises(KernelAssertError, match="n must be above 3"):
        oracle.run(func, 3)
    divide = PrimFunc((n,), Evaluate(intrinsics.ret(const(7) // n)), {}, {"global_symbol": "main"})
    assert oracle.run(divide, -2) == -4
    with pytest.raises(oracle.OracleError, match="division by zero in FloorDiv"):
        oracle.run(divide, 0)


def test_undefined_variables_and_memory() -> None:
    a = decl_buffer((4,), "int32", "A")
    body = BufferStore(a, Var("lost"), (const(0),))
    with pytest.raises(oracle.OracleError, match="variable lost is used but has no value"):
        oracle.run(function((a,), body), np.zeros(4, "int32"))
    stray = BufferStore(decl_buffer((4,), "int32", "S"), const(1), (const(0),))
    with pytest.raises(oracle.OracleError, match="buffer S is used but nothing defines its memory"):
        oracle.run(function((a,), stray), np.zeros(4, "int32"))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (3, "main: buffer A needs a NumPy array, got int"),
        (np.zeros(4, "float64"), "main: buffer A is int32, got an array of float64"),
        (np.zeros((2, 2), "int32"), "main: buffer A has 1 dimensions, got an array with 2"),
        (np.zeros(5, "int32"), "main: buffer A has shape (4,), got an array of shape (5,)"),
        (np.zeros(8, "int32")[::2], "main: buffer A needs a contiguous array; pass"),
    ],
)
def test_wrong_arguments(argument: Any, message: str) -> None:
    a = decl_buffer((4,), "int32", "A")
    func = function((a,), BufferStore(a, const(1), (const(0),)))
    with pytest.raises(oracle.OracleArgumentError) as caught:
        oracle.run(func, argument)
    assert str(caught.value).startswith(message)


def test_wrong_number_of_arguments() -> None:
    with pytest.raises(oracle.OracleArgumentError) as caught:
        oracle.run(matmul(2, 2, 2), np.zeros((2, 2), "float32"))
    assert str(caught.value) == "main takes 3 arguments (a, b, c), got 1"
