"""GPUs as devices, on a driver that is none: memory, calls, timing, and what is missing."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ArgumentError, DeviceError, KernelAssertError
from tilewright.native.cuda_driver import CudaDriver, cuda_driver
from tilewright.native.cuda_memory import memory_pool
from tilewright.runtime import cpu, cuda, ndarray as nd
from tilewright.runtime.module import Module
from tilewright.runtime.tensor_view import DeviceMemory
from tilewright.testing import fake_gpu
from tilewright.testing.fake_gpu import FakeDriver, FakeStatus
from tilewright.testing.faults import double
from tilewright.testing.launched_modules import reverse, scale, scale_twice, uncompiled


def floats(address: int, count: int) -> Any:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def value(pointer: int, kind: Any = ctypes.c_uint64) -> Any:
    return kind.from_address(pointer).value


def scale_kernel(shape: tuple[int, ...], arguments: list[int]) -> None:
    a, b, factor, n = arguments
    count = value(n, ctypes.c_int32)
    assert shape[0] * shape[3] >= count
    floats(value(b), count)[:] = floats(value(a), count) * value(factor, ctypes.c_float)


def reverse_kernel(shape: tuple[int, ...], arguments: list[int]) -> None:
    source, target = (np.asarray(floats(value(item), 4096)) for item in arguments[:2])
    target[:] = source.reshape(8, 512)[:, ::-1].reshape(-1)


def copy_kernel(shape: tuple[int, ...], arguments: list[int]) -> None:
    ctypes.memmove(value(arguments[1]), value(arguments[0]), 4096 * 4)


@pytest.fixture
def gpu() -> Iterator[FakeDriver]:
    fake = FakeDriver(parameter_count=4)
    fake.kernels = {
        "scale_kernel": scale_kernel,
        "reverse_kernel": reverse_kernel,
        "copy_kernel": copy_kernel,
    }
    with fake_gpu.installed(fake):
        yield fake


def on_gpu(values: Any) -> tw.nd.NDArray:
    return nd.array(values, cuda())


def names_called(gpu: FakeDriver) -> list[str]:
    return [name for name, *_ in gpu.calls]


# --- arrays --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("gpu")
def test_arrays() -> None:
    made = on_gpu(np.arange(6, dtype="int32").reshape(2, 3))
    assert (made.device, made.shape, made.dtype, len(made)) == (cuda(), (2, 3), "int32", 2)
    assert str(made.device) == "cuda:0"
    assert made.device.exist
    made[1, 2] = 9
    assert made.numpy().tolist() == [[0, 1, 2], [3, 4, 9]]
    assert made.copyto(cpu()).numpy().tolist() == [[0, 1, 2], [3, 4, 9]]
    assert nd.zeros((0, 3), "float16", cuda()).numpy().shape == (0, 3)
    assert on_gpu(np.float32(3)).numpy() == 3
    assert "cuda:0" in repr(made)
    for dtype in ("bfloat16", "float8_e4m3fn", "bool", "int64"):
        assert nd.empty((3,), dtype, cuda()).dtype == dtype


def test_copies_on_the_gpu(gpu: FakeDriver) -> None:
    values = np.arange(5, dtype="float32")
    first, second = on_gpu(values), nd.zeros((5,), "float32", cuda())
    gpu.calls.clear()
    second.copyfrom(first)
    third = nd.array(first, cuda())
    assert names_called(gpu).count("cuMemcpyDtoDAsync") == 2
    assert "cuMemcpyDtoHAsync" not in names_called(gpu)
    first[0] = 9
    for copy in (second, third, nd.zeros((5,), "float64", cuda()).copyfrom(second)):
        assert copy.numpy().tolist() == values.tolist()
    with pytest.raises(ArgumentError, match=r"the source has shape \[5\], expected \[4\]"):
        nd.zeros((4,), "float32", cuda()).copyfrom(first)


def test_memory_comes_from_a_pool(gpu: FakeDriver) -> None:
    first = memory_pool(0).allocate(1000)
    address = first.address
    del first
    assert memory_pool(0).allocate(700).address == address
    kept = [memory_pool(0).allocate(700) for _ in range(2)]
    assert len({block.address for block in kept}) == 2
    assert names_called(gpu).count("cuMemAlloc") == 2
    assert "cuMemFree" not in names_called(gpu)


def test_memory_of_another_stream_waits_for_it(gpu: FakeDriver) -> None:
    memory_pool(0).allocate(512)
    with cuda_driver().using(5):
        memory_pool(0).allocate(512)
        assert names_called(gpu).count("cuCtxSynchronize") == 1
        memory_pool(0).allocate(512)
        assert names_called(gpu).count("cuCtxSynchronize") == 1


def test_the_pool_does_not_keep_everything(gpu: FakeDriver) -> None:
    memory_pool(0).allocate(gpu.memory_bytes // 4)
    assert names_called(gpu).count("cuMemFree") == 1


def test_too_little_memory(gpu: FakeDriver) -> None:
    memory_pool(0).allocate(512)
    gpu.failures["cuMemAlloc"] = FakeStatus.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(ArgumentError) as caught:
        nd.empty((1 << 40,), "float32", cuda())
    assert str(caught.value) == (
        "empty: there is no memory for float32[1099511627776]: cuda:0 has 1.07 GB of its 1.07 GB "
        "free, expected 4.4e+03 GB"
    )
    assert names_called(gpu).count("cuMemAlloc") == 3
    assert names_called(gpu).count("cuMemFree") == 1


class Theirs:
    """An array of another library on the GPU."""

    def __init__(self, array: tw.nd.NDArray) -> None:
        self.array = array
        self.streams: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> object:
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, max_version=max_version)


def test_memory_is_shared_with_other_libraries(gpu: FakeDriver) -> None:
    ours = on_gpu(np.arange(4, dtype="float32"))
    theirs = Theirs(ours)
    shared = nd.from_dlpack(theirs)
    assert theirs.streams == [1]
    assert shared.device == cuda()
    shared[0] = 7
    assert ours.numpy().tolist() == [7, 1, 2, 3]
    assert nd.array(theirs).numpy().tolist() == [7, 1, 2, 3]
    assert "cuStreamWaitEvent" not in names_called(gpu)
    address = ours.__tilewright_array__.address
    del ours, theirs
    gc.collect()
    assert shared.numpy().tolist() == [7, 1, 2, 3]
    assert shared.__tilewright_array__.address == address


def test_streams_of_consumers_wait_for_ours(gpu: FakeDriver) -> None:
    array = nd.zeros((4,), "float32", cuda())
    for stream in (-1, None, 1):
        array.__dlpack__(stream=stream)
    assert "cuStreamWaitEvent" not in names_called(gpu)
    array.__dlpack__(stream=1234)
    assert [call[1] for call in gpu.calls if call[0] == "cuStreamWaitEvent"] == [1234]
    with pytest.raises(BufferError, match=r"the array is on cuda:0 and cannot be exported to \(1,"):
        array.__dlpack__(dl_device=(1, 0))
    with pytest.raises(ArgumentError, match=r"strides are \[1, 2\] elements, expected a row-major"):
        nd.from_dlpack(Turned(array))


class Turned(Theirs):
    """A transposed array."""

    def __dlpack__(self, **options: Any) -> object:
        capsule = self.array.__dlpack__(**options)
        managed = tw.runtime.dlpack.DLManagedTensorVersioned.from_address(
            tw.runtime.dlpack._get_pointer(capsule, b"dltensor_versioned")
        )
        managed.tensor.ndim = 2
        sizes = (ctypes.c_int64 * 4)(2, 2, 1, 2)
        self.sizes = sizes
        managed.tensor.shape = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
        strides = ctypes.addressof(sizes) + 16
        managed.tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
        return capsule


# --- functions -----------------------------------------------------------------------------------


@pytest.fixture
def module(gpu: FakeDriver) -> Module:
    return uncompiled(scale, reverse)


def test_a_call(module: Module) -> None:
    a, b = on_gpu(np.arange(600, dtype="float32")), nd.zeros((600,), "float32", cuda())
    module["scale"](a, b, -1.5)
    assert b.numpy().tolist() == (np.arange(600) * -1.5).tolist()
    module["scale"](Theirs(b), Theirs(a), 2.0)
    assert a.numpy().tolist() == (np.arange(600) * -3.0).tolist()


def test_launches(gpu: FakeDriver, module: Module) -> None:
    a = nd.zeros((600,), "float32", cuda())
    module["scale"](a, nd.zeros((600,), "float32", cuda()), 1.0)
    (launch,) = (call for call in gpu.calls if call[0] == "cuLaunchKernel")
    assert launch[1:9] == ("scale_kernel", 3, 1, 1, 256, 1, 1, 0)
    empty = nd.empty((0,), "float32", cuda())
    module["scale"](empty, nd.empty((0,), "float32", cuda()), 1.0)
    assert names_called(gpu).count("cuLaunchKernel") == 1


def test_loops_memory_and_choices(gpu: FakeDriver, module: Module) -> None:
    values = np.arange(4096, dtype="int32")
    turned = values.reshape(8, 512)[:, ::-1].reshape(-1)
    for times, expected in ((1, turned), (2, values), (3, turned)):
        a, b = on_gpu(values), nd.zeros((4096,), "int32", cuda())
        module["reverse"](a, b, times)
        np.testing.assert_array_equal(b.numpy(), expected)
    raised = [call for call in gpu.calls if call[0] == "cuKernelSetAttribute"]
    name = "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
    assert [call[1:] for call in raised] == [(name, 98304, "reverse_kernel", 0)]


def test_kernels_that_wait_by_themselves(gpu: FakeDriver) -> None:
    gpu.kernels["dependent_kernel"] = scale_kernel
    values = np.arange(512, dtype="float32")
    b = nd.zeros((512,), "float32", cuda())
    function = uncompiled(scale_twice)["scale_twice"]
    for _ in range(2):
        function(on_gpu(values), b)
        np.testing.assert_array_equal(b.numpy(), values * 6)
    config, again = (call[1] for call in gpu.calls if call[0] == "cuLaunchKernelEx")
    assert again is config  # it takes longer to make than to launch
    (allowed,) = config.attrs
    assert allowed.id == "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
    assert allowed.value.programmaticStreamSerializationAllowed == 1


def test_an_assertion(module: Module) -> None:
    big = [nd.empty((1000000,), "float32", cuda()) for _ in range(2)]
    with pytest.raises(KernelAssertError, match=r"^scale\(\): at most a million elements$"):
        module["scale"](*big, 1.0)
    with pytest.raises(KernelAssertError, match=r"^scale\(\): at most a million elements$"):
        module.time_evaluator("scale", number=5)(*big, 1.0)


def test_timing(gpu: FakeDriver, module: Module) -> None:
    a, b = (nd.zeros((4,), "float32", cuda()) for _ in range(2))
    assert module.time_evaluator("scale", number=1, repeat=2)(a, b, 1.0).results == (5e-4, 5e-4)
    assert "cuGraphLaunch" not in names_called(gpu)
    assert module.time_evaluator("scale", number=50)(a, b, 1.0).results == (5e-4,)
    assert names_called(gpu).count("cuGraphLaunch") == 2
    gpu.calls.clear()
    assert module.time_evaluator("scale", number=500)(a, b, 1.0).mean == pytest.approx(5e-4)
    assert names_called(gpu).count("cuGraphLaunch") == 4
    assert names_called(gpu).count("cuStreamCreate") == names_called(gpu).count("cuStreamDestroy")
    times = module["reverse"].time_evaluator(number=3)
    arrays = [nd.zeros((4096,), "int32", cuda()) for _ in range(2)]
    assert times(*arrays, 2).mean == pytest.approx(4 * 5e-4)


def test_a_cold_cache(gpu: FakeDriver, module: Module) -> None:
    a, b = (nd.zeros((4,), "float32", cuda()) for _ in range(2))
    module.time_evaluator("scale", number=1, flush=True)(a, b, 1.0)
    (flush,) = (call for call in gpu.calls if call[0] == "cuMemsetD32Async")
    assert 4 * flush[3] >= 2 * gpu.attributes["L2_CACHE_SIZE"]


def test_waiting(gpu: FakeDriver) -> None:
    cuda().sync()
    assert names_called(gpu)[-1] == "cuCtxSynchronize"
    gpu.failures["cuCtxSynchronize"] = FakeStatus.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(DeviceError) as caught:
        cuda().sync()
    assert str(caught.value) == (
        "CUDA_ERROR_ILLEGAL_ADDRESS (illegal address); this process cannot use the GPU any more, "
        "start it again"
    )
    assert caught.value.is_lost


# --- arguments -----------------------------------------------------------------------------------


def test_wrong_arrays(module: Module) -> None:
    a = nd.zeros((8,), "float32", cuda())
    memory = a.__tilewright_array__
    shifted = DeviceMemory(cuda(), (7,), memory.dtype, memory.address + 4, memory)
    elsewhere = DeviceMemory(cuda(1), (8,), memory.dtype, memory.address, memory)
    for wrong, reason in (
        (
            np.zeros(8, "float32"),
            "the array is on cpu, expected it on cuda; tw.nd.array(x, tw.cuda(0)) copies it",
        ),
        (
            nd.NDArray(shifted, cuda()),
            "the data pointer is not aligned to 16 bytes, which functions on cuda need; pass a "
            "copy",
        ),
        (
            nd.NDArray(elsewhere, cuda(1)),
            "the array is on cuda:1, but another is on cuda:0; a call takes arrays of one device",
        ),
    ):
        first = nd.zeros((7,), "float32", cuda()) if "aligned" in reason else a
        with pytest.raises(ArgumentError) as caught:
            module["scale"](first, wrong, 1.0)
        assert str(caught.value) == f"scale(): argument 1 (B): {reason}"


@pytest.mark.usefixtures("gpu")
def test_arrays_of_the_gpu_for_functions_of_the_cpu() -> None:
    add = tw.build(double, "llvm")
    with pytest.raises(ArgumentError) as caught:
        add(nd.zeros((64,), "float32", cuda()), np.zeros(64, "float32"))
    assert str(caught.value) == (
        "double(): argument 0 (A): the array is on cuda:0, expected it on cpu"
    )


# --- processes and other libraries ------------------------------------------------------------


@pytest.mark.usefixtures("gpu")
def test_forks(module: Module) -> None:
    arrays = [nd.zeros((8,), "float32", cuda()) for _ in range(2)]
    module["scale"](*arrays, 1.0)
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # other threads run; ours is all we need
        child = os.fork()
    if child == 0:
        try:
            module["scale"](*arrays, 1.0)
        except DeviceError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1000).decode() == (
        "this process is a fork of one that used a GPU; start it anew instead (spawn)"
    )
    module["scale"](*arrays, 1.0)


def test_modules_that_nobody_holds_are_unloaded(gpu: FakeDriver) -> None:
    module = uncompiled(scale)
    module["scale"]
    del module
    gc.collect()
    assert "cuLibraryUnload" not in names_called(gpu)
    uncompiled(scale)["scale"]
    assert names_called(gpu).count("cuLibraryUnload") == 1


class Tensor(Theirs):
    """A tensor of PyTorch, as far as the short way looks at it."""

    layout, is_cuda, requires_grad, dtype = "strided", True, False, "torch.float32"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def is_contiguous(self) -> bool:
        return True

    def get_device(self) -> int:
        return 0

    def data_ptr(self) -> int:
        return int(self.array.__tilewright_array__.address)


class Stream:
    cuda_stream = 4321


class Torch:
    """The module `torch`."""

    Tensor, strided = Tensor, "strided"

    class cuda:
        @staticmethod
        def is_initialized() -> bool:
            return True

        @staticmethod
        def current_stream(device_id: int) -> Stream:
            return Stream()


def test_the_stream_of_pytorch(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    module = uncompiled(scale)
    a, b = (nd.zeros((8,), "float32", cuda()) for _ in range(2))
    monkeypatch.setitem(sys.modules, "torch", Torch)
    module["scale"](a, b, 1.0)
    (launch,) = (call for call in gpu.calls if call[0] == "cuLaunchKernel")
    assert launch[9] == 4321


def test_what_graphs_of_others_use_stays(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph may be run when its module is gone, and nobody says when the graph is gone."""
    gpu.kernels["dependent_kernel"] = scale_kernel
    monkeypatch.setattr(CudaDriver, "stream", lambda self, device_id: 55)
    arrays = [nd.zeros((512,), "float32", cuda()) for _ in range(2)]
    for is_recorded in (True, False):
        module = uncompiled(scale_twice)
        module(*arrays)  # fills the pool
        gpu.is_recorded = is_recorded
        gpu.calls.clear()
        module(*arrays)
        assert names_called(gpu).count("cuMemAlloc") == int(is_recorded)
        gpu.is_recorded = False
        del module
        gc.collect()
        uncompiled(scale)["scale"]
        assert names_called(gpu).count("cuLibraryUnload") == int(not is_recorded)


@pytest.mark.usefixtures("gpu")
def test_tensors_of_pytorch_take_a_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    module = uncompiled(scale)
    monkeypatch.setitem(sys.modules, "torch", Torch)
    a, b = Tensor(on_gpu(np.arange(8, dtype="float32"))), Tensor(nd.zeros((8,), "float32", cuda()))
    for factor in (2.0, 3.0):
        module["scale"](a, b, factor)
        assert b.array.numpy().tolist() == (np.arange(8) * factor).tolist()
    assert a.streams == [4321]  # one capsule, for the first call
    b.dtype = "torch.float64"
    module["scale"](a, b, 4.0)
    assert a.streams == [4321, 4321]
    shifted = Tensor(a.array)
    monkeypatch.setattr(shifted, "data_ptr", lambda: a.data_ptr() + 4)
    module["scale"](shifted, Tensor(b.array), 4.0)
    assert shifted.streams == [4321]


@pytest.mark.usefixtures("gpu")
def test_arrays_that_must_not_be_written() -> None:
    module, a = uncompiled(scale), nd.zeros((8,), "float32", cuda())
    b = nd.zeros((8,), "float32", cuda())
    module["scale"](a, b, 1.0)
    b.__tilewright_array__.is_readonly = True
    with pytest.raises(ArgumentError, match="the array is read-only but the function writes it"):
        module["scale"](a, b, 1.0)
    with pytest.raises(ArgumentError, match="copyfrom: the array is read-only"):
        b.copyfrom(a)
