"""Vector loads and stores of every shape, with and without masks, and lazy evaluation."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

from tilewright.errors import CodegenError, KernelAssertError
from tilewright.ir import (
    EQ,
    LT,
    NE,
    TRUE,
    Allocate,
    And,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    DType,
    Evaluate,
    FloorDiv,
    For,
    ForKind,
    LetStmt,
    Not,
    Op,
    Or,
    PointerType,
    PrimExpr,
    PrimFunc,
    Ramp,
    Select,
    Stmt,
    Var,
    const,
    decl_buffer,
    seq,
)
from tilewright.ir.intrinsics import address_of, if_then_else
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.kernels import (
    Array,
    assert_same,
    compile_lowered,
    flat,
    kernel,
    llvm_source,
    sample,
)

I = Var("i")


def ramp(base: PrimExpr | int, stride: int, lanes: int) -> Ramp:
    start = const(base) if isinstance(base, int) else base
    return Ramp(start, const(stride), lanes)


def loop(extent: int, body: Stmt) -> Stmt:
    return For(I, const(0), const(extent), ForKind.SERIAL, body)


@pytest.mark.parametrize(
    "dtype", ["float32", "int8", "bool", "float16", "bfloat16", "int4", "int64"]
)
@pytest.mark.parametrize("lanes", [3, 8])
def test_shapes_of_vector_access(dtype: str, lanes: int) -> None:
    size = 4 * lanes
    a, indices = flat("a", size, dtype), flat("indices", lanes, "int32")
    gathered = BufferLoad(indices, (ramp(0, 1, lanes),))
    loads = [
        ramp(2, 1, lanes),
        ramp(0, 3, lanes),
        ramp(size - 1, -1, lanes),
        ramp(size - 1, -2, lanes),
        Broadcast(const(5), lanes),
        gathered,
    ]
    stores: list[Stmt] = []
    buffers = []
    for number, index in enumerate(loads):
        out = flat(f"load{number}", lanes, dtype)
        buffers.append(out)
        stores.append(BufferStore(out, BufferLoad(a, (index,)), (ramp(0, 1, lanes),)))
    for number, index in enumerate(loads):
        if not isinstance(index, Broadcast):
            out = flat(f"store{number}", size, dtype)
            buffers.append(out)
            stores.append(BufferStore(out, BufferLoad(a, (ramp(1, 1, lanes),)), (index,)))
    order = np.random.default_rng(0).permutation(size)[:lanes].astype(np.int32)
    empty = [np.zeros(int(str(b.shape[0])), to_numpy(dtype)) for b in buffers]
    assert_same(kernel([a, indices, *buffers], seq(stores)), sample(dtype, size), order, *empty)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float16", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("lanes", [1, 2, 7, 16])
def test_masks(dtype: str, lanes: int) -> None:
    """Lanes that are off are not touched: their indices lie far outside."""
    a, n = flat("a", 8 * lanes, dtype), Var("n")
    outs = [flat(f"out{number}", 8 * lanes, dtype) for number in range(3)]
    stores: list[Stmt] = []
    for out, stride in zip(outs, (1, 2, -1), strict=True):
        if lanes == 1:
            index: PrimExpr = n * 1000000
            mask: PrimExpr = EQ(n, const(0))
        else:
            index = ramp(0 if stride > 0 else lanes, stride, lanes)
            mask = LT(Ramp(const(0), const(1), lanes), Broadcast(n, lanes))
        value = BufferLoad(a, (index,), mask)
        stores.append(BufferStore(out, value, (index,), mask))
    func = kernel([a, n, *outs], seq(stores))
    empty = [sample(dtype, 8 * lanes, seed=2) for _ in outs]
    module = compile_lowered(func)
    for count in range(lanes + 1):
        expected = [array.copy() for array in empty]
        data = sample(dtype, 8 * lanes)
        for out, stride in zip(expected, (1, 2, -1), strict=True):
            start = 0 if stride > 0 or lanes == 1 else lanes
            places = start + stride * np.arange(count if lanes > 1 else int(count == 0))
            out[places] = data[places]
        actual = [array.copy() for array in empty]
        module(data, count, *actual)
        for got, want in zip(actual, expected, strict=True):
            assert got.tobytes() == want.tobytes()


def test_masked_tail_touches_nothing_behind_the_buffer() -> None:
    """The page behind the array cannot be read: a load of it would end the process."""
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(start + page), page, 0) == 0
    data = np.frombuffer(area, np.float32, page // 4)[-5:]
    data[:] = np.arange(5)
    a, out = flat("a", 5), flat("out", 5)
    index = ramp(0, 1, 8)
    mask = LT(index, Broadcast(const(5), 8))
    other = Not(LT(index, Broadcast(const(0), 8)))
    value = BufferLoad(a, (index,), And(mask, other))
    func = kernel([a, out], BufferStore(out, value * const(2.0, "float32x8"), (index,), mask))
    result = np.zeros(5, np.float32)
    compile_lowered(func)(data, result)
    assert result.tolist() == [0, 2, 4, 6, 8]


def test_vector_choice_is_lazy() -> None:
    """Neither side may touch what its lanes do not choose."""
    a, b, out = flat("a", 8, "int32"), flat("b", 8, "int32"), flat("out", 8, "int32")
    far = Var("far")
    index = ramp(0, 1, 8)
    first = LT(index, Broadcast(const(4), 8))
    near_or_far = Select(first, index, Broadcast(far, 8))
    load = BufferLoad(a, (near_or_far,))
    divided = FloorDiv(BufferLoad(a, (index,)), BufferLoad(b, (index,)))
    safe = NE(BufferLoad(b, (index,)), Broadcast(const(0), 8))
    body = seq(
        [
            BufferStore(out, if_then_else(first, load, Broadcast(const(-1), 8)), (index,)),
            BufferStore(b, if_then_else(safe, divided, Broadcast(const(7), 8)), (index,)),
        ]
    )
    divisors = np.array([1, 0, 2, 0, 3, 0, -1, 0], np.int32)
    result = assert_same(
        kernel([a, b, out, far], body), sample("int32", 8), divisors, np.zeros(8, np.int32), 10**9
    )
    assert result[2][4:].tolist() == [-1, -1, -1, -1]


def test_scalars_inside_a_vector_choice_are_read_only_if_wanted() -> None:
    a, out, n = flat("a", 4, "int32"), flat("out", 4, "int32"), Var("n")
    index = ramp(0, 1, 4)
    wanted = LT(index, Broadcast(n, 4))
    value = if_then_else(
        wanted, Broadcast(BufferLoad(a, ((1 - n) * 10**9,)), 4), Broadcast(const(5), 4)
    )
    func = kernel([a, out, n], BufferStore(out, value, (index,)))
    module, data = compile_lowered(func), np.arange(10, 14, dtype=np.int32)
    for count, expected in ((0, [5, 5, 5, 5]), (1, [10, 5, 5, 5])):
        result = np.zeros(4, np.int32)
        module(data, result, count)
        assert result.tolist() == expected


def test_scalar_choices_and_logic_are_lazy() -> None:
    a, out, n = flat("a", 4, "int32"), flat("out", 4, "int32"), Var("n")
    outside = BufferLoad(a, (n * 10**9,))
    inside = EQ(n, const(0))
    stores = [
        if_then_else(inside, outside, const(1)),
        Cast(DType("int32"), And(inside, outside > 3)),
        Cast(DType("int32"), Or(Not(inside), outside > 3)),
        if_then_else(NE(n, const(0)), FloorDiv(const(12), n), const(9)),
    ]
    body = seq([BufferStore(out, value, (const(i),)) for i, value in enumerate(stores)])
    func = kernel([a, out, n], body)
    module = compile_lowered(func)
    for count, expected in ((0, [4, 1, 1, 9]), (5, [1, 0, 1, 2])):
        result = np.zeros(4, np.int32)
        module(np.array([4, 0, 0, 0], np.int32), result, count)
        assert result.tolist() == expected


def test_division_by_zero_is_an_error_not_a_signal() -> None:
    a, out = flat("a", 8, "int32"), flat("out", 8, "int32")
    n = Var("n")
    scalar = kernel([a, out, n], loop(8, BufferStore(out, FloorDiv(BufferLoad(a, (I,)), n), (I,))))
    with pytest.raises(KernelAssertError, match=r"division by zero in `a\[i\] // n`"):
        compile_lowered(scalar)(np.ones(8, np.int32), np.ones(8, np.int32), 0)
    index = ramp(0, 1, 8)
    divided = FloorDiv(BufferLoad(a, (index,)), BufferLoad(out, (index,)))
    vector = kernel([a, out], BufferStore(out, divided, (index,)))
    with pytest.raises(KernelAssertError, match="division by zero"):
        compile_lowered(vector)(np.ones(8, np.int32), np.array([1] * 7 + [0], np.int32))


def test_loads_are_not_kept_across_stores() -> None:
    a, out = flat("a", 4, "int32"), flat("out", 4, "int32")
    first = BufferLoad(a, (const(0),))
    body = loop(
        4,
        seq(
            [
                BufferStore(out, first * 3 + 1, (I,)),
                BufferStore(a, first + 1, (const(0),)),
                BufferStore(out, BufferLoad(out, (I,)) + first * 3, (I,)),
            ]
        ),
    )
    assert_same(kernel([a, out], body), np.arange(4, dtype=np.int32), np.zeros(4, np.int32))


def test_buffers_that_may_alias() -> None:
    """Without the promise of `tir.noalias` the same array may come twice."""
    a, b = flat("a", 64, "int32"), flat("b", 64, "int32")
    for kind in (ForKind.SERIAL, ForKind.PARALLEL):
        update = seq(
            [
                BufferStore(b, BufferLoad(a, (I,)) + 1, (I,)),
                BufferStore(b, BufferLoad(a, (I,)) * 2, (I,)),
            ]
        )
        func = kernel([a, b], For(I, const(0), const(64), kind, update), no_alias=False)
        data = np.arange(64, dtype=np.int32)
        compile_lowered(func)(data, data)
        assert data.tolist() == [2 * (i + 1) for i in range(64)]
        assert "noalias" not in llvm_source(func)


def test_pointers_into_a_captured_buffer_may_alias_it() -> None:
    a = flat("a", 64, "int32")
    inside = Var("inside", DType("handle"), a.data.type_annotation)
    half = decl_buffer((32,), "int32", "half", data=inside)
    body = LetStmt(
        inside,
        address_of(BufferLoad(a, (const(32),))),
        For(
            I,
            const(0),
            const(32),
            ForKind.PARALLEL,
            seq(
                [
                    BufferStore(half, BufferLoad(a, (I + 32,)) + 1, (I,)),
                    BufferStore(half, BufferLoad(a, (I + 32,)) * 2, (I,)),
                ]
            ),
        ),
    )
    func = kernel([a], body)
    data = np.arange(64, dtype=np.int32)
    compile_lowered(func)(data)
    assert data[32:].tolist() == [2 * (i + 1) for i in range(32, 64)]


def test_small_integers_wrap_in_indices() -> None:
    """Arithmetic of 8 bits and of unsigned types wraps, also inside an index."""
    a, out, lookup = flat("a", 256, "int32"), flat("out", 300, "int32"), flat("l", 300, "uint8")
    byte = BufferLoad(lookup, (I,))
    index = Cast(DType("int32"), byte + const(200, "uint8"))
    signed = Cast(DType("int32"), Cast(DType("int8"), I)) + 128
    body = loop(
        300,
        BufferStore(out, BufferLoad(a, (index,)) + BufferLoad(a, (signed,)) * 1000, (I,)),
    )
    arguments: list[Array] = [np.arange(256, dtype=np.int32), np.zeros(300, np.int32)]
    assert_same(kernel([a, out, lookup], body), *arguments, sample("uint8", 300))


def test_vector_typed_buffers() -> None:
    a, out = decl_buffer((6,), "float32x3", "a"), decl_buffer((6,), "float32x3", "out")
    body = loop(6, BufferStore(out, BufferLoad(a, (5 - I,)), (I,)))
    func = PrimFunc((a.data, out.data), body, {}, {"global_symbol": "main", "tir.noalias": True})
    data, result = np.arange(18, dtype=np.float32), np.zeros(18, np.float32)
    compile_lowered(func)(data.ctypes.data, result.ctypes.data)
    assert result.reshape(6, 3).tolist() == data.reshape(6, 3)[::-1].tolist()


def _error(statement: Stmt, *buffers: Buffer) -> str:
    with pytest.raises(CodegenError) as caught:
        llvm_source(kernel(buffers, statement))
    return str(caught.value)


def test_errors_name_the_place() -> None:
    a, wide = flat("a", 8), decl_buffer((4,), "float32x2", "wide")
    index = ramp(0, 1, 4)
    assert _error(BufferStore(a, const(1, "int32"), (const(0),)), a) == (
        "a value of dtype int32 is stored where buffer a takes float32: `a[0] = 1`"
    )
    mask = Broadcast(const(True), 3)
    assert "an access of 4 lanes needs a mask of 4 bools, got boolx3" in _error(
        BufferStore(a, const(1.0, "float32x4"), (index,), mask), a
    )
    assert "expected integers" in _error(BufferStore(a, const(1.0), (const(1.0),)), a)
    strided = BufferStore(wide, const(1.0, "float32x4"), (ramp(0, 2, 2),))
    assert "can be accessed one by one or contiguously" in _error(strided, wide)
    two = decl_buffer((4, 4), "float32", "two")
    assert "flatten_buffer must run before code generation" in _error(
        BufferStore(two, const(1.0), (const(0), const(0))), two
    )
    undefined = Var("nowhere")
    assert _error(BufferStore(a, const(1.0), (undefined,)), a) == (
        "variable nowhere is used but not defined in the function"
    )
    pointer = Call(DType("handle"), Op.get("tir.address_of"), (const(3),))
    assert "address_of needs a buffer element" in _error(Evaluate(pointer), a)


def test_one_piece_of_memory_under_two_types() -> None:
    """A value written as one type is read as another, byte by byte."""
    pointer = Var("memory", DType("handle"), PointerType(DType("int32")))
    out = flat("out", 4, "int32")
    words = decl_buffer((4,), "int32", "words", data=pointer)
    parts = decl_buffer((16,), "int8", "parts", data=pointer)

    def read(place: int) -> PrimExpr:
        return Cast(DType("int32"), BufferLoad(parts, (const(place),)))

    body = seq(
        [
            BufferStore(words, const(0x01020304), (const(1),)),
            BufferStore(out, read(4), (const(0),)),
            BufferStore(words, const(0x05060708), (const(1),)),
            BufferStore(out, read(5), (const(1),)),
            BufferStore(parts, const(9, "int8"), (const(1 + 4),)),
            BufferStore(out, BufferLoad(words, (const(1),)), (const(2),)),
        ]
    )
    func = kernel([out], Allocate(pointer, DType("int32"), (const(4),), TRUE, body))
    result = np.zeros(4, np.int32)
    compile_lowered(func)(result)
    assert result.tolist() == [4, 7, 0x05060908, 0]
