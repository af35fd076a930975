"""`NDArray`: an array in the memory of a device, shared with others through DLPack."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.errors import ArgumentError, DeviceError, IRError
from tilewright.ir.numpy_bridge import from_numpy as dtype_of, to_numpy
from tilewright.runtime import dlpack
from tilewright.runtime.devices import Device, cpu, device
from tilewright.runtime.tensor_view import Array, ElementType, address_of, borrowed

__all__ = ["NDArray", "array", "empty", "from_dlpack", "zeros"]


_CPU = cpu()


class NDArray:
    """An array on a device, row-major and compact.

    It can be passed to compiled functions, to NumPy (`numpy.asarray`) and without a copy to every
    library that takes DLPack (`torch.from_dlpack`), from the CPU and from GPUs.
    """

    __slots__ = ("__tilewright_array__", "__weakref__", "_device")

    def __init__(self, values: Any, device: Device | None = None) -> None:
        # The name is how other parts of the runtime find our memory: a NumPy array on the CPU.
        self.__tilewright_array__ = values
        self._device = device or _CPU

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return tuple(self.__tilewright_array__.shape)

    @property
    def dtype(self) -> str:
        """The type of the elements, e.g. "float32"."""
        return str(dtype_of(self.__tilewright_array__.dtype))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of the memory."""
        return self.size * int(self.__tilewright_array__.dtype.itemsize)

    @property
    def device(self) -> Device:
        """Where the array is."""
        return self._device

    def numpy(self) -> Array:
        """A copy as a NumPy array; `numpy.asarray(x)` shares the memory instead."""
        values: Array = self._device.api.copy_out(self.__tilewright_array__)
        return values

    asnumpy = numpy

    def copyfrom(self, source: object) -> NDArray:
        """Overwrite the elements with those of another array of the same shape."""
        values = source if isinstance(source, NDArray) else _values_of(source, "copyfrom")
        if values.shape != self.shape:
            raise ArgumentError(
                f"copyfrom: the source has shape {list(values.shape)}, expected {list(self.shape)}"
            )
        memory = self._writable("copyfrom")
        if not self._copies_within(memory, values):
            self._device.api.copy_in(memory, _values_of(values, "copyfrom"))
        return self

    def _copies_within(self, memory: Any, source: object) -> bool:
        """Copy without a way over the host, from an array on the same device and of this type."""
        if not isinstance(source, NDArray) or (source.device, source.dtype) != (
            self.device,
            self.dtype,
        ):
            return False
        return self._device.api.copy_within(memory, source.__tilewright_array__)

    def copyto(self, target: NDArray | Device) -> NDArray:
        """Copy into another array, or into a new one on a device."""
        if isinstance(target, NDArray):
            return target.copyfrom(self)
        return array(self, target)

    def __getitem__(self, index: Any) -> Any:
        """A copy of some elements, as NumPy gives them."""
        picked = self._on_host()[index]
        return picked.copy() if isinstance(picked, np.ndarray) else picked

    def __setitem__(self, index: Any, values: object) -> None:
        memory, given = self._writable("assignment"), _values_of(values, "assignment")
        changed = self._on_host()
        changed[index] = given
        if changed is not memory:
            self._device.api.copy_in(memory, changed)

    def _on_host(self) -> Array:
        """The elements: the memory itself on the CPU, else a copy."""
        values = self.__tilewright_array__
        return values if isinstance(values, np.ndarray) else self.numpy()

    def _writable(self, what: str) -> Any:
        values = self.__tilewright_array__
        is_numpy = isinstance(values, np.ndarray)
        if not values.flags.writeable if is_numpy else getattr(values, "is_readonly", False):
            raise ArgumentError(f"{what}: the array is read-only")
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        values = self._on_host()
        if dtype is not None and values.dtype != dtype:
            if copy is False:
                raise ValueError(f"cannot share {self.dtype} memory as {np.dtype(dtype).name}")
            return values.astype(dtype)
        return values.copy() if copy else values

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<NDArray shape={self.shape} dtype={self.dtype} {self.device}>\n{self.numpy()!r}"

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self._device.device_type, self._device.device_id)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A capsule that shares the memory (or owns a copy, if asked for)."""
        place = self.__dlpack_device__()
        if dl_device is not None and tuple(dl_device) != place:
            here = "the CPU" if self._device == _CPU else self._device
            raise BufferError(f"the array is on {here} and cannot be exported to {dl_device}")
        source = array(self, self._device) if copy else self
        tensor = source._lent(stream)
        versioned = max_version is not None and max_version[0] >= 1
        if tensor.readonly and not versioned:
            raise BufferError("a read-only array needs a consumer that speaks DLPack 1.0")
        return dlpack.lend(tensor, place, versioned)

    def _lent(self, stream: object) -> dlpack.TensorView:
        """The memory, for use on a stream of another library."""
        values = self.__tilewright_array__
        if not isinstance(values, np.ndarray):
            tensor = self._device.api.lend(values, stream)
            if tensor is None:
                raise BufferError(
                    f"the array is on {self._device}; only arrays on the CPU and on GPUs are lent"
                )
            return replace(tensor, owner=self)
        if stream is not None:
            raise BufferError("an array on the CPU has no stream; pass stream=None")
        readonly = not values.flags.writeable
        return dlpack.TensorView(
            address_of(values), values.shape, (), self.dtype, readonly=readonly, owner=self
        )


def empty(
    shape: int | Sequence[int], dtype: str = "float32", device: Device | None = None
) -> NDArray:
    """An array with undefined elements, aligned to a cache line."""
    place = _checked_device("empty", device)
    try:
        given = tuple(shape) if isinstance(shape, Iterable) else (shape,)
        extents = tuple(operator.index(extent) for extent in given)
    except TypeError as error:
        raise ArgumentError(f"empty: expected a shape of whole numbers, got {shape!r}") from error
    if any(extent < 0 for extent in extents):
        raise ArgumentError(f"empty: shape {list(extents)} has a negative extent")
    numpy_dtype = _numpy_dtype("empty", dtype)
    try:
        return NDArray(place.api.allocate(place.device_id, extents, numpy_dtype), place)
    except (MemoryError, ValueError, DeviceError) as error:
        raise ArgumentError(
            f"empty: there is no memory for {dtype}{list(extents)}: {error}"
        ) from error


def zeros(
    shape: int | Sequence[int], dtype: str = "float32", device: Device | None = None
) -> NDArray:
    """An array of zeros."""
    made = empty(shape, dtype, device)
    return made.copyfrom(np.zeros(made.shape, made.__tilewright_array__.dtype))


def array(source: object, device: Device | None = None, dtype: str | None = None) -> NDArray:
    """A copy of an array, a list or a number; never shares memory with its source."""
    place = _checked_device("array", device)
    if isinstance(source, NDArray) and source.device == place != _CPU and dtype is None:
        return empty(source.shape, source.dtype, place).copyfrom(source)
    values = _values_of(source, "array")
    wanted = values.dtype if dtype is None else _numpy_dtype("array", dtype)
    try:
        native = to_numpy(str(dtype_of(wanted.newbyteorder("="))))
    except IRError as error:
        raise ArgumentError(f"array: {error}") from error
    memory = place.api.allocate(place.device_id, values.shape, native)
    place.api.copy_in(memory, values)
    return NDArray(memory, place)


def from_dlpack(source: object) -> NDArray:
    """An array that shares the memory of another library's array."""
    if not hasattr(source, "__dlpack__"):
        raise ArgumentError(
            f"from_dlpack: expected an object with __dlpack__, got {type(source).__name__}"
        )
    tensor = borrowed(source)
    if tensor is None:
        where = dlpack.device_of(source)
        raise ArgumentError(f"from_dlpack: the array is on {where}, expected it on cpu")
    if not _is_compact(tensor):
        raise ArgumentError(
            f"from_dlpack: strides are {list(tensor.strides)} elements, expected a row-major "
            "array; pass a contiguous copy"
        )
    dtype = _numpy_dtype("from_dlpack", tensor.dtype)
    if tensor.device == "cpu":
        return NDArray(shared_in_numpy(tensor, dtype))
    place = device(tensor.device)
    return NDArray(place.api.adopt(tensor, dtype), place)


def shared_in_numpy(tensor: dlpack.TensorView, dtype: ElementType) -> Array:
    """A NumPy array over the memory of another library's array, whatever its strides."""
    if _is_compact(tensor):
        values = array_at(tensor.address, tensor.shape, dtype, tensor.owner)
    else:
        first = array_at(tensor.address, (1,), dtype, tensor.owner)
        steps = tuple(stride * dtype.itemsize for stride in tensor.strides)
        values = np.lib.stride_tricks.as_strided(first, tensor.shape, steps)
    if tensor.readonly:
        values.flags.writeable = False
    return values


def array_at(address: int, shape: tuple[int, ...], dtype: ElementType, owner: object) -> Array:
    """A NumPy array over memory that `owner` keeps alive."""
    if 0 in shape:
        return np.empty(shape, dtype)
    memory = _Memory(address, math.prod(shape) * dtype.itemsize, owner)
    return np.asarray(memory).view(dtype).reshape(shape)


class _Memory:
    """Bytes at an address, as NumPy asks for them; an array over them refers to this object."""

    def __init__(self, address: int, size: int, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }


def _is_compact(tensor: dlpack.TensorView) -> bool:
    """Whether the strides agree with row-major ones wherever an axis has more than one element."""
    wanted = dlpack.row_major_strides(tensor.shape)
    pairs = zip(tensor.shape, tensor.strides, wanted, strict=True)
    return 0 in tensor.shape or all(extent == 1 or a == b for extent, a, b in pairs)


def _numpy_dtype(where: str, dtype: Any) -> ElementType:
    """The NumPy dtype for ours, or for NumPy's own and its scalar types."""
    try:
        return to_numpy(dtype if isinstance(dtype, str) else np.dtype(dtype).name)
    except IRError as error:
        raise ArgumentError(f"{where}: {error}") from error


def _checked_device(where: str, device: object) -> Device:
    if device is None:
        return _CPU
    if not isinstance(device, Device):
        raise ArgumentError(f"{where}: cannot place an array on {device}; use cpu(0)")
    if not device.exist:
        reason = f": {device.why_missing}" if device.why_missing else "; use cpu(0)"
        raise ArgumentError(f"{where}: cannot place an array on {device}{reason}")
    return device


def _values_of(source: object, where: str) -> Array:
    if isinstance(source, NDArray):
        return source._on_host()
    if isinstance(source, np.ndarray):
        return source
    if hasattr(source, "__dlpack__") and not isinstance(source, np.generic):
        tensor = borrowed(source)
        if tensor is None:
            place = dlpack.device_of(source)
            raise ArgumentError(f"{where}: the source is on {place}, expected it on cpu")
        if tensor.device != "cpu":
            return from_dlpack(source)._on_host()
        return shared_in_numpy(tensor, _numpy_dtype(where, tensor.dtype))
    return np.asarray(source)
