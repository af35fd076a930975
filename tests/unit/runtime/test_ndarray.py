"""`NDArray`: its memory, its copies, and how it is shared."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import ArgumentError
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.runtime import ndarray as nd
from tilewright.runtime.cpu_device import ALIGNMENT
from tilewright.runtime.devices import Device, cpu, device


def address(values: nd.NDArray) -> int:
    return int(np.asarray(values).ctypes.data)


def test_an_array_is_a_copy_of_its_source() -> None:
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = nd.array(source)
    source[0, 0] = 9
    assert made.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (made.shape, made.dtype, made.ndim, made.size, made.nbytes) == (
        (2, 3),
        "float32",
        2,
        6,
        24,
    )
    assert made.device == cpu(0)
    assert len(made) == 2


def test_numpy_gives_a_copy_and_asarray_shares() -> None:
    made = nd.array([1.0, 2.0])
    made.numpy()[0] = 9
    made.asnumpy()[0] = 9
    assert made[0] == 1.0
    np.asarray(made)[0] = 7
    assert made[0] == 7.0
    assert np.asarray(made, dtype=np.int32).tolist() == [7, 2]
    with pytest.raises(ValueError, match="cannot share float64 memory as int32"):
        made.__array__(np.int32, copy=False)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (5, 7), (1, 2, 3, 4)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16", "bool", "int4", "float8_e5m2"])
def test_memory_is_aligned(shape: tuple[int, ...], dtype: str) -> None:
    made = nd.empty(shape, dtype)
    assert made.size == 0 or address(made) % ALIGNMENT == 0
    assert (made.shape, made.dtype) == (shape, dtype)
    assert np.asarray(made).flags.c_contiguous
    assert not np.asarray(nd.zeros(shape, dtype)).astype(np.float32).any()


def test_shapes_and_types_as_users_write_them() -> None:
    assert nd.empty(3).shape == (3,)
    assert nd.empty(np.int64(3)).shape == (3,)
    assert nd.empty([2, 3], np.float64).dtype == "float64"  # type: ignore[arg-type]
    assert nd.array([1, 2], dtype="float16").dtype == "float16"
    assert nd.array(np.zeros(2, ">f4")).dtype == "float32"
    assert nd.array(3.5).shape == ()


def test_copies_and_assignment() -> None:
    made = nd.zeros((2, 2))
    made[:] = 3
    made[0, 1] = 4
    other = nd.empty((2, 2))
    assert made.copyto(other) is other
    assert other.numpy().tolist() == [[3, 4], [3, 3]]
    assert made.copyto(cpu(0)).numpy().tolist() == [[3, 4], [3, 3]]
    part = made[0]
    part[0] = 100
    assert made[0, 0] == 3
    assert made.copyfrom(np.ones((2, 2))).numpy().sum() == 4


def refused(action: Any, *args: Any) -> tuple[Any, ...]:
    return (action, args)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (refused(nd.empty, (2, -1)), "empty: shape [2, -1] has a negative extent"),
        (refused(nd.empty, 1.5), "empty: expected a shape of whole numbers, got 1.5"),
        (refused(nd.empty, "ab"), "empty: expected a shape of whole numbers, got 'ab'"),
        (
            refused(nd.empty, (3,), "float32", Device("metal")),
            "empty: cannot place an array on metal:0; use cpu(0)",
        ),
        (
            refused(nd.empty, (3,), "float32x4"),
            "empty: NumPy has no vector type float32x4; use float32 per lane",
        ),
        (
            refused(nd.array, np.zeros(2, object)),
            "array: NumPy dtype 'object' has no counterpart in TensorIR",
        ),
        (
            refused(nd.zeros(3).copyfrom, np.zeros(4)),
            "copyfrom: the source has shape [4], expected [3]",
        ),
        (
            refused(nd.from_dlpack, [1]),
            "from_dlpack: expected an object with __dlpack__, got list",
        ),
        (
            refused(nd.from_dlpack, np.zeros((3, 3)).T),
            "from_dlpack: strides are [1, 3] elements, expected a row-major array; pass a "
            "contiguous copy",
        ),
        (refused(cpu, 1), "cpu(1): there is one CPU device, cpu(0)"),
        (refused(device, "cupa"), "device('cupa'): no such device; did you mean 'cuda'?"),
    ],
)
def test_mistakes(made: tuple[Any, ...], expected: str) -> None:
    action, args = made
    with pytest.raises(ArgumentError) as caught:
        action(*args)
    assert str(caught.value) == expected


def test_more_memory_than_there_is() -> None:
    for shape in ((1 << 60,), (1 << 62, 1 << 62)):
        with pytest.raises(ArgumentError, match="empty: there is no memory for float32"):
            nd.empty(shape)


def test_devices() -> None:
    assert str(cpu()) == "cpu:0"
    assert (cpu().device_type, cpu().device_id, cpu().exist) == (1, 0, True)
    assert device("cpu:0") == device("llvm") == cpu()
    assert not Device("metal").exist
    cpu().sync()


# --- DLPack -------------------------------------------------------------------------------------


def test_numpy_takes_our_memory_without_a_copy() -> None:
    made = nd.array(np.arange(6, dtype=np.int32).reshape(2, 3))
    taken = np.from_dlpack(made)  # type: ignore[arg-type]
    assert taken.ctypes.data == address(made)
    assert taken.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_we_take_the_memory_of_numpy_without_a_copy() -> None:
    source = np.arange(6, dtype=np.int16)
    made = nd.from_dlpack(source)
    assert address(made) == source.ctypes.data
    made[:] = 1
    assert source.tolist() == [1] * 6


def test_read_only_memory_stays_read_only() -> None:
    source = np.arange(3)
    source.flags.writeable = False
    made = nd.from_dlpack(source)
    with pytest.raises(ArgumentError, match="assignment: the array is read-only"):
        made[:] = 1
    with pytest.raises(BufferError, match=r"a read-only array needs a consumer.*DLPack 1\.0"):
        made.__dlpack__()
    again = nd.from_dlpack(made)
    assert not np.asarray(again).flags.writeable


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "bool"])
def test_types_that_numpy_cannot_exchange(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    source = nd.array(np.array([0, 1, 1], kind))
    taken = nd.from_dlpack(source)
    assert (taken.dtype, address(taken)) == (dtype, address(source))
    assert taken.numpy().astype(int).tolist() == [0, 1, 1]


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 3)])
def test_capsules_of_both_kinds(version: tuple[int, int] | None) -> None:
    capsule = nd.zeros(3).__dlpack__(max_version=version)
    assert ("versioned" in repr(capsule)) == (version is not None and version[0] >= 1)


def test_an_empty_array_and_a_single_number() -> None:
    assert np.from_dlpack(nd.empty((0, 3))).shape == (0, 3)  # type: ignore[arg-type]
    assert nd.from_dlpack(np.zeros((0, 3))).shape == (0, 3)
    assert np.from_dlpack(nd.array(np.float32(2))).item() == 2  # type: ignore[arg-type]


def test_a_copy_on_request_and_requests_we_refuse() -> None:
    made = nd.zeros(3)
    assert made.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(made, copy=True).ctypes.data != address(made)  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="cannot be exported to"):
        made.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="has no stream"):
        made.__dlpack__(stream=1)


def test_the_memory_lives_as_long_as_anyone_holds_it() -> None:
    made = nd.array(np.arange(1000))
    alive = weakref.ref(made)
    taken = np.from_dlpack(made)  # type: ignore[arg-type]
    del made
    gc.collect()
    assert alive() is not None
    assert taken[999] == 999
    del taken
    gc.collect()
    assert alive() is None


def test_an_unused_capsule_gives_its_memory_back() -> None:
    for version in (None, (1, 0)):
        made = nd.array(np.arange(1000))
        alive = weakref.ref(made)
        capsule = made.__dlpack__(max_version=version)
        del made
        gc.collect()
        assert alive() is not None
        del capsule
        gc.collect()
        assert alive() is None


def test_a_numpy_view_of_borrowed_memory_keeps_the_lender_alive() -> None:
    lender = nd.array(np.arange(1000))
    alive = weakref.ref(lender)
    view = np.asarray(nd.from_dlpack(lender))
    del lender
    gc.collect()
    assert alive() is not None
    assert view[999] == 999


def test_a_strided_array_of_another_library_is_copied_by_array() -> None:
    class Wrapped:
        def __init__(self, inner: np.ndarray[Any, Any]) -> None:
            self.inner = inner

        def __dlpack__(self, **options: Any) -> Any:
            return self.inner.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.inner.__dlpack_device__()

    source = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert nd.array(Wrapped(source.T)).numpy().tolist() == source.T.tolist()
    assert nd.array(Wrapped(source[::-1])).numpy().tolist() == source[::-1].tolist()
    assert nd.array(Wrapped(source[:0])).shape == (0, 4)


def test_exit_while_another_library_holds_our_memory() -> None:
    code = (
        "import numpy as np, builtins\n"
        "from tilewright.runtime import ndarray as nd\n"
        "builtins.kept = [np.from_dlpack(nd.zeros(1000)), nd.zeros(3).__dlpack__()]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_torch_shares_memory_both_ways() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        theirs = torch.ones(2, 3).to(dtype)
        ours = nd.from_dlpack(theirs)
        assert address(ours) == theirs.data_ptr()
        back = torch.from_dlpack(ours)
        assert (back.data_ptr(), back.dtype) == (theirs.data_ptr(), dtype)
    with pytest.raises(ArgumentError, match="does not share its memory"):
        nd.from_dlpack(torch.ones(2, requires_grad=True))


@pytest.mark.parametrize("given", ["<f4", ">f4", "=f4"])
def test_elements_have_the_dtype_that_functions_compare_with(given: str) -> None:
    made = nd.array(np.ones(3, given))
    assert made.__tilewright_array__.dtype is to_numpy("float32")
