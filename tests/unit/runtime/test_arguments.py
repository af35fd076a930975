"""What a compiled function accepts, and what it says about everything else."""

from __future__ import annotations

import contextlib
import math
import struct
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from tilewright.errors import ArgumentError
from tilewright.lowering.host_abi import ArgumentSpec, DerivedParameter
from tilewright.runtime.arguments import ArgumentBinder
from tilewright.runtime.ndarray import array
from tilewright.runtime.scalars import quick_converter, scalar_slot

Array = npt.NDArray[Any]

INPUT = ArgumentSpec("A", "buffer", "float32", (4, 3), access="r")
OUTPUT = ArgumentSpec("C", "buffer", "float32", (4, 3), access="w")
N_INPUT = ArgumentSpec(
    "X",
    "buffer",
    "float32",
    ("n", 2),
    access="r",
    derived=(DerivedParameter("n", "int32", "shape"),),
)
N_OUTPUT = ArgumentSpec("Y", "buffer", "float32", ("n * 2",), access="w")


def binder(*signature: ArgumentSpec, no_alias: bool = True) -> ArgumentBinder:
    return ArgumentBinder("f", signature, no_alias)


def words(slots: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(slots) // 8}Q", slots)


def address(values: Array) -> int:
    return int(values.ctypes.data)


def message(bind: ArgumentBinder, *args: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        bind.bind(args)
    return str(caught.value)


def floats(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def test_arrays_become_their_addresses_on_both_ways() -> None:
    a, c, bind = floats(4, 3), floats(4, 3), binder(INPUT, OUTPUT)
    careful, keep = bind.bind((a, c))
    quick, nothing = bind.bind((a, c))
    assert words(careful) == words(quick) == (address(a), address(c))
    assert (len(keep), nothing) == (2, ())


def test_symbolic_extents_follow_their_array() -> None:
    bind = binder(N_INPUT, N_OUTPUT)
    for n in (5, 7, 5, 0):
        x, y = floats(n, 2), floats(2 * n)
        for _ in range(2):
            assert words(bind.bind((x, y))[0]) == (address(x), n, address(y))


def test_symbolic_extents_that_disagree() -> None:
    assert message(binder(N_INPUT, N_OUTPUT), floats(5, 2), floats(9)) == (
        "f(): argument 1 (Y): shape is [9], expected 10 (n * 2) on axis 0 as in Y: float32[n * 2]"
    )


def test_an_extent_that_is_a_scalar_argument() -> None:
    count = ArgumentSpec("n", "scalar", "int32")
    data = ArgumentSpec("A", "buffer", "float32", ("n",), access="rw")
    bind, values = binder(count, data), floats(5)
    for _ in range(2):
        assert words(bind.bind((5, values))[0]) == (5, address(values))
        assert message(bind, 6, values) == (
            "f(): argument 1 (A): shape is [5], expected 6 (n) on axis 0 as in A: float32[n]"
        )


def test_an_extent_too_large_for_its_dtype() -> None:
    small = ArgumentSpec(
        "A", "buffer", "int8", ("n",), access="r", derived=(DerivedParameter("n", "int8", "shape"),)
    )
    assert message(binder(small), np.zeros(128, np.int8)) == (
        "f(): argument 0 (A): the shape n is 128, which does not fit its dtype int8; declare n as "
        "int64"
    )


def test_more_shapes_than_are_remembered() -> None:
    bind = binder(N_INPUT, N_OUTPUT)
    for n in range(200):
        x, y = floats(n, 2), floats(2 * n)
        assert words(bind.bind((x, y))[0])[1] == n


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), "f() takes 2 arguments (A: float32[4, 3], C: float32[4, 3]), got 0"),
        (
            (floats(4, 3), floats(3, 4)),
            "f(): argument 1 (C): shape is [3, 4], expected 4 on axis 0 as in C: float32[4, 3]",
        ),
        (
            (floats(12), floats(4, 3)),
            "f(): argument 0 (A): shape is [12], expected 2 dimensions as in A: float32[4, 3]",
        ),
        (
            (np.zeros((4, 3)), floats(4, 3)),
            "f(): argument 0 (A): dtype is float64, expected float32",
        ),
        (
            (np.zeros((4, 3), ">f4"), floats(4, 3)),
            "f(): argument 0 (A): dtype is byte-swapped float32, expected float32",
        ),
        (
            (np.zeros((4, 3), object), floats(4, 3)),
            "f(): argument 0 (A): dtype is object, expected float32",
        ),
        (
            (floats(3, 4).T, floats(4, 3)),
            "f(): argument 0 (A): strides are [1, 4] elements, expected a C-contiguous array; pass "
            "numpy.ascontiguousarray(x), or declare the buffer with strides",
        ),
        (
            ([1, 2, 3], floats(4, 3)),
            "f(): argument 0 (A): expected A: float32[4, 3], got list; pass a NumPy array or any "
            "object with __dlpack__ on the CPU",
        ),
        (
            (None, floats(4, 3)),
            "f(): argument 0 (A): expected A: float32[4, 3], got None; pass a NumPy array or any "
            "object with __dlpack__ on the CPU",
        ),
        (
            (np.float32(1), floats(4, 3)),
            "f(): argument 0 (A): expected A: float32[4, 3], got float32; pass a NumPy array or "
            "any object with __dlpack__ on the CPU",
        ),
    ],
)
def test_wrong_arrays(args: tuple[Any, ...], expected: str) -> None:
    assert message(binder(INPUT, OUTPUT), *args) == expected


def test_one_argument_is_singular() -> None:
    text = message(binder(INPUT), floats(4, 3), 1)
    assert text == "f() takes 1 argument (A: float32[4, 3]), got 2"


def test_read_only_arrays_are_fine_to_read() -> None:
    bind, frozen, free = binder(INPUT, OUTPUT), floats(4, 3), floats(4, 3)
    frozen.flags.writeable = False
    for _ in range(2):
        assert words(bind.bind((frozen, free))[0]) == (address(frozen), address(free))
        assert message(bind, free, frozen) == (
            "f(): argument 1 (C): the array is read-only but the function writes it"
        )


def test_unaligned_elements() -> None:
    raw = np.zeros(4 * 3 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(4, 3)
    assert message(binder(INPUT), raw) == (
        "f(): argument 0 (A): the data pointer is not aligned to its 4-byte elements; pass a copy "
        "(numpy.array(x))"
    )


def test_strides_that_are_no_whole_elements() -> None:
    record = np.zeros(4, np.dtype([("x", np.float32), ("pad", np.uint8)]))
    spec = ArgumentSpec("A", "buffer", "float32", (4,), access="r")
    assert message(binder(spec), record["x"]).startswith("f(): argument 0 (A): strides are [-1]")


def test_declared_strides() -> None:
    row = DerivedParameter("s", "int64", "stride", 0)
    spec = ArgumentSpec("A", "buffer", "float32", (4, 2), ("s", 1), access="r", derived=(row,))
    wide = floats(4, 6)
    assert words(binder(spec).bind((wide[:, :2],))[0]) == (address(wide), 6)
    assert message(binder(spec), floats(4, 4)[:, ::2]) == (
        "f(): argument 0 (A): strides are [4, 2] elements, expected strides [4, 1]; pass "
        "numpy.ascontiguousarray(x), or declare the buffer with strides"
    )


def test_empty_and_single_arrays() -> None:
    none = ArgumentSpec("E", "buffer", "float32", (0, 3), access="w")
    one = ArgumentSpec("S", "buffer", "float32", (), access="w")
    empty, single = floats(0, 3), floats()
    bind = binder(none, one)
    for _ in range(2):
        assert words(bind.bind((empty, single))[0])[1] == address(single)


# --- aliasing -----------------------------------------------------------------------------------


def test_a_proven_overlap_is_refused() -> None:
    bind, memory = binder(INPUT, OUTPUT), floats(30)
    first, second = memory[:12].reshape(4, 3), memory[12:24].reshape(4, 3)
    shifted = memory[11:23].reshape(4, 3)
    for _ in range(2):
        bind.bind((first, second))
        bind.bind((second, first))
        for a, c in ((first, first), (first, shifted), (shifted, first)):
            assert message(bind, a, c) == (
                "f(): argument 1 (C): the function writes it, but its memory overlaps argument 0 "
                "(A); pass a copy, or build the function without tir.noalias"
            )


def test_overlaps_are_fine_where_nothing_is_promised() -> None:
    values = floats(4, 3)
    assert words(binder(INPUT, OUTPUT, no_alias=False).bind((values, values))[0])
    assert words(binder(INPUT, INPUT).bind((values, values))[0])


@given(start=st.integers(0, 24), other=st.integers(0, 24), n=st.integers(0, 8), m=st.integers(0, 8))
def test_overlap_is_exactly_a_shared_byte(start: int, other: int, n: int, m: int) -> None:
    memory = floats(40)
    specs = [
        ArgumentSpec("A", "buffer", "float32", (n,), access="w"),
        ArgumentSpec("B", "buffer", "float32", (m,), access="rw"),
    ]
    shares = bool({*range(start, start + n)} & {*range(other, other + m)})
    bind = binder(*specs)
    bind.bind((floats(n), floats(m)))  # from here on the short way knows the shapes
    args = (memory[start : start + n], memory[other : other + m])
    if shares:
        message(bind, *args)
    else:
        bind.bind(args)


# --- element types ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "float16", "bool"]
)
def test_types_from_ml_dtypes(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    spec, values = ArgumentSpec("A", "buffer", dtype, (3,), access="rw"), np.zeros(3, kind)
    for given_array in (values, array(values)):
        assert binder(spec).bind((given_array,))[0]
    assert message(binder(spec), floats(3)) == (
        f"f(): argument 0 (A): dtype is float32, expected {dtype}"
    )


# --- scalars ------------------------------------------------------------------------------------

SCALARS: list[tuple[str, Any, bytes]] = [
    ("int32", -2, b"\xfe\xff\xff\xff"),
    ("int32", np.int64(7), b"\x07"),
    ("int32", True, b"\x01"),
    ("int8", np.int8(-1), b"\xff"),
    ("int4", -3, b"\x0d"),
    ("uint64", 2**64 - 1, b"\xff" * 8),
    ("bool", True, b"\x01"),
    ("bool", np.bool_(False), b""),
    ("float32", 1.5, struct.pack("<f", 1.5)),
    ("float32", 2, struct.pack("<f", 2)),
    ("float32", np.float64(0.1), struct.pack("<f", 0.1)),
    ("float32", -math.inf, struct.pack("<f", -math.inf)),
    ("float64", 0.1, struct.pack("<d", 0.1)),
    ("float16", 1.5, struct.pack("<e", 1.5)),
    ("bfloat16", 1.5, b"\xc0\x3f"),
    ("bfloat16", ml_dtypes.bfloat16(1.5), b"\xc0\x3f"),
    ("float8_e5m2", 2.0, b"\x40"),
    ("handle", 0x1234, b"\x34\x12"),
    ("handle", None, b""),
    ("float32", np.array(1.5), struct.pack("<f", 1.5)),
]


@pytest.mark.parametrize(("dtype", "value", "expected"), SCALARS)
def test_scalars(dtype: str, value: Any, expected: bytes) -> None:
    slot = scalar_slot("x", dtype, value)
    assert slot == expected.ljust(8, b"\0")
    quick = quick_converter(dtype)(value)
    assert quick is None or quick.to_bytes(8, "little") == slot


@given(st.integers(-(2**70), 2**70), st.sampled_from(["int8", "int32", "uint16", "int64", "bool"]))
def test_the_quick_way_agrees_for_integers(value: int, dtype: str) -> None:
    quick = quick_converter(dtype)(value)
    if quick is None:
        with pytest.raises(ArgumentError):
            scalar_slot("x", dtype, value)
    else:
        assert quick.to_bytes(8, "little") == scalar_slot("x", dtype, value)


@given(st.floats(allow_nan=False), st.sampled_from(["float16", "float32", "float64"]))
def test_the_quick_way_agrees_for_floats(value: float, dtype: str) -> None:
    quick = quick_converter(dtype)(value)
    if quick is None:
        with pytest.raises(ArgumentError):
            scalar_slot("x", dtype, value)
    else:
        assert quick.to_bytes(8, "little") == scalar_slot("x", dtype, value)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("int32", 2**31, "n: 2147483648 does not fit int32 (-2147483648 to 2147483647)"),
        ("uint8", -1, "n: -1 does not fit uint8 (0 to 255)"),
        ("bool", 2, "n: 2 does not fit bool (0 to 1)"),
        ("int32", 1.0, "n: expected an integer of dtype int32, got float 1.0"),
        ("int32", "3", "n: expected an integer of dtype int32, got str '3'"),
        ("int32", None, "n: expected an integer of dtype int32, got None"),
        ("float32", "3", "n: expected a number of dtype float32, got str '3'"),
        ("float32", 1e300, "n: 1e+300 does not fit float32 (at most 3.4028234663852886e+38)"),
        ("float16", 7e4, "n: 70000.0 does not fit float16 (at most 65504.0)"),
        ("float8_e4m3fn", math.inf, "n: float8_e4m3fn has no infinity"),
        (
            "float32",
            floats(1),
            "n: expected a number of dtype float32, got an array of shape [1]",
        ),
        ("float32", [1.0], "n: expected a number of dtype float32, got list"),
        ("float32", 1j, "n: expected a number of dtype float32, got complex"),
        ("handle", -1, "n: -1 is not an address"),
        ("handle", "x", "n: expected an address (an integer, or None), got str"),
        ("float32x4", 1.0, "n: vectors (float32x4) cannot be passed as arguments"),
        (
            "float64",
            10**400,
            "n: expected a number of dtype float64, got int: int too large to convert to float",
        ),
    ],
)
def test_wrong_scalars(dtype: str, value: Any, expected: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        scalar_slot("n", dtype, value)
    assert str(caught.value) == expected


def test_scalars_and_arrays_share_the_slots() -> None:
    n, s = ArgumentSpec("n", "scalar", "int32"), ArgumentSpec("s", "scalar", "float32")
    bind, values = binder(n, INPUT, s), floats(4, 3)
    for _ in range(2):
        assert words(bind.bind((-1, values, 1.0))[0]) == (0xFFFFFFFF, address(values), 0x3F800000)
    assert message(bind, 2**31, values, 1.0) == (
        "f(): argument 0 (n): 2147483648 does not fit int32 (-2147483648 to 2147483647)"
    )


# --- anything at all ----------------------------------------------------------------------------


class _Hostile:
    """Raises whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __float__(self) -> float:
        raise KeyError("float")

    def __index__(self) -> int:
        raise KeyError("index")

    def __dlpack__(self, **options: Any) -> object:
        raise OSError("dlpack")

    def __dlpack_device__(self) -> tuple[int, int]:
        raise LookupError("device")


ANYTHING: list[Any] = [
    None, "text", b"bytes", [1], {}, 3, -1, 2.5, 1j, 10**30, math.nan, True, type, _Hostile(),
    np.float32(1), np.array(5), floats(4, 3), floats(4), floats(0), floats(4, 3).T,
    np.broadcast_to(np.float32(1), (4, 3)), np.zeros((4, 3), ml_dtypes.bfloat16),
    np.zeros(2, "U3"), np.zeros(4, "M8[s]"), np.zeros(4, [("a", "f4")]), memoryview(b"abc"),
    np.ma.zeros((4, 3)), array(floats(4, 3)), np.dtype("float32"),
]  # fmt: skip


@given(st.lists(st.sampled_from(range(len(ANYTHING))), min_size=4, max_size=4))
def test_only_argument_errors_come_out(chosen: list[int]) -> None:
    n, s = ArgumentSpec("n", "scalar", "int32"), ArgumentSpec("s", "scalar", "float32")
    data = ArgumentSpec("B", "buffer", "float32", ("n",), access="w")
    with contextlib.suppress(ArgumentError):
        binder(INPUT, n, s, data).bind([ANYTHING[i] for i in chosen])
