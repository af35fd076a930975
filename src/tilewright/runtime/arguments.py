"""From the user's arguments to the 8-byte slots that compiled code reads.

Arrays are taken as they are, never copied: NumPy arrays, `NDArray`, and anything that speaks DLPack
on the CPU. Plain arrays take a short way that only compares; whatever it does not recognise, good
or bad, goes the careful way, where every check names the argument, what it is, and what it should
have been.
"""

from __future__ import annotations

import ctypes
import math
import operator
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.errors import ArgumentError, IRError, OverlapError
from tilewright.ir import DType
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.lowering.host_abi import ArgumentSpec, Extent, describe, evaluate_extent
from tilewright.runtime.dlpack import TensorView, row_major_strides
from tilewright.runtime.ndarray import NDArray
from tilewright.runtime.scalars import quick_converter, scalar_slot
from tilewright.runtime.tensor_view import (
    ALIGNED,
    C_CONTIGUOUS,
    WRITEABLE,
    DeviceMemory,
    ElementType,
    data_offset,
    memory_of_tensor,
    view_of,
)
from tilewright.support.text import counted

_NAME = re.compile(r"[A-Za-z_]\w*")
_pointer_at = ctypes.c_void_p.from_address

# Shapes that a function with symbolic extents was called with, kept for the short way.
_REMEMBERED_SHAPES = 64


# Slots ready to be handed to compiled code, and what keeps the memory behind them alive.
BoundArguments = tuple[bytes, tuple[object, ...]]


class _ShortForm(NamedTuple):
    """What a plain argument must show to go the short way: an array, or a number to convert."""

    dtype: ElementType | None
    flags: int
    convert: Callable[[object], int | None] | None
    names_extent: bool  # a number that shapes are checked against


class _Checked(NamedTuple):
    """What the careful way found out for one combination of shapes.

    An overlap is proven for arrays i and j if `-size_i < address_i - address_j < size_j`.
    """

    pack: Callable[..., bytes]
    exclusive: tuple[tuple[int, int, int, int], ...]  # i, j, -size of i, size of j
    numbers: tuple[int, ...]  # the extents that compiled code asks for
    arranged: Callable[[list[int]], Sequence[int]]  # arguments and then numbers, in their order


class ArgumentBinder:
    """Checks and lays out the arguments of one function."""

    def __init__(
        self,
        function: str,
        signature: Sequence[ArgumentSpec],
        no_alias: bool,
        device: str = "cpu",
        alignment: int = 1,
    ) -> None:
        self.function = function
        self.device = device
        self.alignment = alignment  # of all arrays, whatever their elements
        self.signature = tuple(signature)
        self.no_alias = no_alias
        self._known: dict[tuple[object, ...], _Checked] = {}
        self._offset = data_offset()
        is_plain = self._offset is not None or device != "cpu"
        self._short = _short_forms(self.signature) if is_plain else None

    def bind(self, args: Sequence[object]) -> BoundArguments:
        """Check `args` and lay them out."""
        if self._short is not None and len(args) == len(self._short):
            slots = self._bind_quickly(self._short, args)
            if slots is not None:
                return slots, ()  # the caller holds the arrays
        return self._bind_carefully(args)

    def _bind_quickly(self, short: tuple[_ShortForm, ...], args: Sequence[object]) -> bytes | None:
        offset, alignment = self._offset or 0, self.alignment
        key: list[object] = []
        values: list[int] = []
        for arg, (dtype, flags, convert, names_extent) in zip(args, short, strict=True):
            if convert is not None:
                number = convert(arg)
                if number is None:
                    return None
                values.append(number)
                key.append(number if names_extent else None)
                continue
            if type(arg) is NDArray:
                arg = arg.__tilewright_array__
            if type(arg) is np.ndarray:
                if arg.dtype is not dtype or arg.flags.num & flags != flags:
                    return None
                key.append(arg.shape)
                values.append(_pointer_at(id(arg) + offset).value or 0)
                continue
            found = _on_device(arg)
            if found is None or found[1] is not dtype or found[2] % alignment:
                return None
            key.append(found[0])  # names the device: no key of a function elsewhere
            values.append(found[2])
        return self._packed(tuple(key), values)

    def _packed(self, key: tuple[object, ...], values: list[int]) -> bytes | None:
        """The slots of arguments whose shapes were checked before; None if they were not."""
        checked = self._known.get(key)
        if checked is None:
            return None
        pack, exclusive, numbers, arranged = checked
        for i, j, low, high in exclusive:
            if low < values[i] - values[j] < high:
                return None
        if numbers:
            values += numbers
            return pack(*arranged(values))
        return pack(*values)

    def _bind_carefully(self, args: Sequence[object]) -> BoundArguments:
        if len(args) != len(self.signature):
            expected = ", ".join(describe(spec) for spec in self.signature)
            raise ArgumentError(
                f"{self.function}() takes {counted(len(self.signature), 'argument')} "
                f"({expected}), got {len(args)}"
            )
        views = [
            None if spec.kind == "scalar" else self._view(position, spec, arg)
            for position, (spec, arg) in enumerate(zip(self.signature, args, strict=True))
        ]
        self._check_devices(views)
        symbols = self._symbolic_values(args, views)
        parts: list[bytes] = []
        numbers: list[tuple[int, ...]] = []
        for position, (spec, arg, view) in enumerate(zip(self.signature, args, views, strict=True)):
            where = self._where(position)
            if view is None:
                parts.append(scalar_slot(where, spec.dtype, arg))
                numbers.append(())
                continue
            _check_array(where, spec, view, symbols)
            self._check_alignment(where, view)
            numbers.append(_derived_numbers(where, spec, view))
            parts.append(struct.pack(f"<Q{len(numbers[-1])}q", view.address, *numbers[-1]))
        self._check_overlaps(views)
        if self._short is not None:
            self._remember(self._short, parts, views, numbers)
        return b"".join(parts), tuple(view.owner for view in views if view)

    def _where(self, position: int) -> str:
        return f"{self.function}(): argument {position} ({self.signature[position].name})"

    def _view(self, position: int, spec: ArgumentSpec, arg: object) -> TensorView:
        try:
            view = view_of(arg)
        except ArgumentError as error:
            raise ArgumentError(f"{self._where(position)}: {error}") from error
        if view is None:
            kind = "None" if arg is None else type(arg).__name__
            raise ArgumentError(
                f"{self._where(position)}: expected {describe(spec)}, got {kind}; pass a NumPy "
                "array or any object with __dlpack__ on the CPU"
            )
        return view

    def _check_devices(self, views: Sequence[TensorView | None]) -> None:
        """All arrays are on one device, of the name that the function has."""
        first: str | None = None
        for position, view in enumerate(views):
            if view is None:
                continue
            if view.device.partition(":")[0] != self.device:
                copies = f"; tw.nd.array(x, tw.{self.device}(0)) copies it"
                raise ArgumentError(
                    f"{self._where(position)}: the array is on {view.device}, expected it on "
                    f"{self.device}{'' if self.device == 'cpu' else copies}"
                )
            first = first or view.device
            if view.device != first:
                raise ArgumentError(
                    f"{self._where(position)}: the array is on {view.device}, but another is on "
                    f"{first}; a call takes arrays of one device"
                )

    def _check_alignment(self, where: str, view: TensorView) -> None:
        if view.address % self.alignment and 0 not in view.shape:
            raise ArgumentError(
                f"{where}: the data pointer is not aligned to {self.alignment} bytes, which "
                f"functions on {self.device} need; pass a copy"
            )

    def _symbolic_values(
        self, args: Sequence[Any], views: Sequence[TensorView | None]
    ) -> dict[str, int]:
        values: dict[str, int] = {}
        for position, (spec, arg, view) in enumerate(zip(self.signature, args, views, strict=True)):
            if view is None and DType(spec.dtype).is_integral:
                scalar_slot(self._where(position), spec.dtype, arg)  # checks it
                values[spec.name] = int(arg)
            elif view is not None and len(view.shape) == len(spec.shape):
                for derived in spec.derived:
                    values[derived.name] = _derived(view, derived.source, derived.axis)
        return values

    def _check_overlaps(self, views: Sequence[TensorView | None]) -> None:
        """Compiled code may assume that what it writes is nowhere else."""
        if not self.no_alias:
            return
        for i, j in _exclusive_pairs(self.signature):
            first, second = views[i], views[j]
            if first is None or second is None:
                continue
            (low, high), (other_low, other_high) = _span(first), _span(second)
            if low < other_high and other_low < high:
                raise OverlapError(
                    f"{self._where(i)}: the function writes it, but its memory overlaps argument "
                    f"{j} ({self.signature[j].name}); pass a copy, or build the function without "
                    "tir.noalias"
                )

    def _remember(
        self,
        short: tuple[_ShortForm, ...],
        parts: list[bytes],
        views: Sequence[TensorView | None],
        numbers: list[tuple[int, ...]],
    ) -> None:
        if len(self._known) >= _REMEMBERED_SHAPES:
            self._known.clear()
        key: list[object] = []
        for form, part, view in zip(short, parts, views, strict=True):
            extent = int.from_bytes(part, "little") if form.names_extent else None
            key.append(_key_of(view) if view is not None else extent)
        sizes = [size_of(view) if view is not None else 0 for view in views]
        pairs = _exclusive_pairs(self.signature) if self.no_alias else []
        order: list[int] = []
        flat = [number for more in numbers for number in more]
        behind = len(short)
        for position, more in enumerate(numbers):
            order += [position, *range(behind, behind + len(more))]
            behind += len(more)
        self._known[tuple(key)] = _Checked(
            struct.Struct(f"<{len(order)}Q").pack,
            tuple((i, j, -sizes[i], sizes[j]) for i, j in pairs if sizes[i] and sizes[j]),
            tuple(flat),
            operator.itemgetter(*order) if flat else tuple,
        )


def _on_device(arg: object) -> tuple[object, ElementType | None, int] | None:
    """Key, type and address of an array that is not in the memory of the CPU, if it is plain."""
    if type(arg) is DeviceMemory:
        return None if arg.is_readonly else (arg.key, arg.dtype, arg.address)
    return memory_of_tensor(arg)


def _key_of(view: TensorView) -> object:
    return view.shape if view.device == "cpu" else (view.shape, view.device)


def _short_forms(signature: tuple[ArgumentSpec, ...]) -> tuple[_ShortForm, ...] | None:
    """How plain arguments look; None for functions that always need the careful way."""
    used = " ".join(str(extent) for spec in signature for extent in spec.shape)
    extents = set(_NAME.findall(used))
    forms = []
    for spec in signature:
        if spec.kind == "scalar":
            forms.append(_ShortForm(None, 0, quick_converter(spec.dtype), spec.name in extents))
            continue
        if spec.strides:
            return None
        try:
            dtype = to_numpy(spec.dtype)
        except IRError:  # a type that only DLPack has
            return None
        flags = C_CONTIGUOUS | ALIGNED | (WRITEABLE if "w" in spec.access else 0)
        forms.append(_ShortForm(dtype, flags, None, False))
    return tuple(forms)


def _exclusive_pairs(signature: Sequence[ArgumentSpec]) -> list[tuple[int, int]]:
    """Pairs of arrays that must not overlap: one of them is written."""
    arrays = [i for i, spec in enumerate(signature) if spec.kind == "buffer"]
    written = [i for i in arrays if "w" in signature[i].access]
    return [
        (i, j)
        for i in written
        for j in arrays
        if i != j and signature[j].access and (j not in written or i > j)
    ]


def _derived(view: TensorView, source: str, axis: int) -> int:
    if source == "shape":
        return view.shape[axis]
    return view.strides[axis] if source == "stride" else 0


def _derived_numbers(where: str, spec: ArgumentSpec, view: TensorView) -> tuple[int, ...]:
    numbers = []
    for derived in spec.derived:
        number = _derived(view, derived.source, derived.axis)
        bits = DType(derived.dtype).bits
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise ArgumentError(
                f"{where}: the {derived.source} {derived.name} is {number}, which does not fit its "
                f"dtype {derived.dtype}; declare {derived.name} as int64"
            )
        numbers.append(number)
    return tuple(numbers)


def size_of(view: TensorView) -> int:
    """The bytes of all elements."""
    dtype = DType(view.dtype)
    return math.prod(view.shape) * dtype.nbytes


def _span(view: TensorView) -> tuple[int, int]:
    """First and last byte address that an array may touch, the latter exclusive."""
    if 0 in view.shape:
        return view.address, view.address
    steps = [(n - 1) * stride for n, stride in zip(view.shape, view.strides, strict=True)]
    size = DType(view.dtype).nbytes
    low = sum(step for step in steps if step < 0)
    high = sum(step for step in steps if step > 0) + 1
    return view.address + low * size, view.address + high * size


def _check_array(where: str, spec: ArgumentSpec, view: TensorView, symbols: dict[str, int]) -> None:
    if view.dtype != spec.dtype:
        raise ArgumentError(f"{where}: dtype is {view.dtype}, expected {spec.dtype}")
    if len(view.shape) != len(spec.shape):
        raise ArgumentError(
            f"{where}: shape is {list(view.shape)}, expected {len(spec.shape)} dimensions as in "
            f"{describe(spec)}"
        )
    for axis, (actual, extent) in enumerate(zip(view.shape, spec.shape, strict=True)):
        expected = _value_of(where, extent, symbols)
        if actual != expected:
            meaning = "" if isinstance(extent, int) else f" ({extent})"
            raise ArgumentError(
                f"{where}: shape is {list(view.shape)}, expected {expected}{meaning} on axis "
                f"{axis} as in {describe(spec)}"
            )
    _check_layout(where, spec, view, symbols)
    size = DType(spec.dtype).itemsize
    if view.address % size and 0 not in view.shape:
        raise ArgumentError(
            f"{where}: the data pointer is not aligned to its {size}-byte elements; pass a copy "
            "(numpy.array(x))"
        )
    if view.address == 0 and 0 not in view.shape:
        raise ArgumentError(f"{where}: the data pointer is null")
    if view.readonly and "w" in spec.access:
        raise ArgumentError(f"{where}: the array is read-only but the function writes it")


def _value_of(where: str, extent: Extent, symbols: dict[str, int]) -> int:
    try:
        return evaluate_extent(extent, symbols)
    except ZeroDivisionError as error:
        raise ArgumentError(f"{where}: the extent `{extent}` divides by zero") from error


def _check_layout(
    where: str, spec: ArgumentSpec, view: TensorView, symbols: dict[str, int]
) -> None:
    if 0 in view.shape:
        return
    if spec.strides:
        expected = tuple(_value_of(where, stride, symbols) for stride in spec.strides)
        described = f"strides {list(expected)}"
    else:
        expected, described = row_major_strides(view.shape), "a C-contiguous array"
    for extent, stride, wanted in zip(view.shape, view.strides, expected, strict=True):
        if extent > 1 and stride != wanted:
            raise ArgumentError(
                f"{where}: strides are {list(view.strides)} elements, expected {described}; pass "
                "numpy.ascontiguousarray(x), or declare the buffer with strides"
            )
