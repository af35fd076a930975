"""Buffers: multi-dimensional views of memory, and the expressions that read them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import ClassVar, TypeAlias, overload

from tilewright.errors import IRError
from tilewright.ir.arithmetic import const, convert, multiply, subtract
from tilewright.ir.dtype import FLOAT32, HANDLE, INT32, DType
from tilewright.ir.expr import Call, IntImm, PointerType, PrimExpr, Ramp, Range, Var
from tilewright.ir.node import Node, replace
from tilewright.ir.op import Op
from tilewright.ir.operators import ExprLike

Index: TypeAlias = ExprLike | slice


class ScopeName(str):
    """The name of a storage scope, which may also be called."""

    __slots__ = ()

    def __call__(self) -> ScopeName:
        return self


@functools.cache
def scope_name(text: str) -> ScopeName:
    """The one object for a name."""
    return ScopeName(text)


class Buffer(Node, frozen=True):
    """A typed, shaped view of the memory behind `data`.

    Empty `strides` mean a compact row-major layout. Two buffers are the same only if they are the
    same object.
    """

    data: Var
    dtype: DType
    shape: tuple[PrimExpr, ...]
    strides: tuple[PrimExpr, ...] = ()
    elem_offset: PrimExpr | None = None  # None: zero
    name: str = "buffer"
    data_alignment: int = 64
    offset_factor: int = 0
    axis_separators: tuple[int, ...] = ()

    @property
    def scope(self) -> ScopeName:
        """The storage scope, e.g. "global", "shared" or "local"; TVM writes `buffer.scope()`."""
        annotation = self.data.type_annotation
        return scope_name(annotation.storage_scope if annotation is not None else "global")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def layout(self) -> tuple[PrimExpr, ...]:
        """All that says where elements are: shape, strides, and the offset if it has one."""
        offset = () if self.elem_offset is None else (self.elem_offset,)
        return (*self.shape, *self.strides, *offset)

    @overload
    def __getitem__(self, index: ExprLike | tuple[ExprLike, ...]) -> BufferLoad: ...

    @overload
    def __getitem__(self, index: slice | tuple[Index, ...]) -> BufferLoad | BufferRegion: ...

    def __getitem__(self, index: Index | tuple[Index, ...]) -> BufferLoad | BufferRegion:
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != len(self.shape):
            raise IRError(
                f"buffer {self.name} has {len(self.shape)} dimensions, got {len(indices)} indices"
            )
        if any(isinstance(i, slice) and i.step is None for i in indices):
            return BufferRegion(self, tuple(_range_of(self, d, i) for d, i in enumerate(indices)))
        return BufferLoad(self, tuple(_index_of(self, d, i) for d, i in enumerate(indices)))

    def vload(self, begin: Sequence[ExprLike], dtype: str | None = None) -> BufferLoad:
        """A load of consecutive elements along the last axis."""
        indices = [convert(i) for i in begin]
        lanes = DType(dtype).lanes // self.dtype.lanes if dtype is not None else 1
        if lanes > 1:
            indices[-1] = Ramp(indices[-1], const(1, indices[-1].dtype), lanes)
        return BufferLoad(self, tuple(indices))

    def access_ptr(
        self, access_mask: int | str, offset: ExprLike = 0, extent: ExprLike | None = None
    ) -> PrimExpr:
        """A pointer into the buffer, with a note of how it is used ("r", "w" or "rw")."""
        mask = access_mask
        if isinstance(mask, str):
            mask = ("r" in mask) * 1 + ("w" in mask) * 2
        start = convert(offset) + (self.elem_offset if self.elem_offset is not None else 0)
        size = convert(extent) if extent is not None else subtract(self.size(), offset)
        kind = Call(self.dtype, Op.get("tir.type_annotation"), ())
        args = (kind, self.data, start, size, const(mask))
        return Call(HANDLE, Op.get("tir.tvm_access_ptr"), args)

    def size(self) -> PrimExpr:
        """The number of elements."""
        return functools.reduce(multiply, self.shape, const(1))

    def get_flattened_buffer(self) -> Buffer:
        """The same memory with one dimension for each group that the axis separators make."""
        ends = [int(end) for end in (*self.axis_separators, len(self.shape))]
        if not self.strides and len(self.shape) == len(ends):
            return self
        groups = zip([0, *ends], ends, strict=False)
        shape = tuple(self._elements(start, end) for start, end in groups)
        separators = tuple(range(1, len(ends)))
        return replace(self, shape=shape, strides=(), axis_separators=separators)

    def _elements(self, start: int, end: int) -> PrimExpr:
        """How many elements some consecutive dimensions span."""
        if self.strides:
            return multiply(self.shape[start], self.strides[start])
        return functools.reduce(multiply, self.shape[start:end], const(1))

    def offset_of(self, indices: Sequence[ExprLike]) -> PrimExpr:
        """The position of an element, counted in elements from `data`."""
        offset: PrimExpr = self.elem_offset if self.elem_offset is not None else const(0)
        if self.strides:
            for index, stride in zip(indices, self.strides, strict=True):
                offset = offset + convert(index) * stride
            return offset
        inner: PrimExpr | None = None
        for index, extent in zip(indices, self.shape, strict=True):
            inner = convert(index) if inner is None else inner * extent + index
        return offset if inner is None else offset + inner


class BufferLoad(PrimExpr, frozen=True):
    """The element(s) of `buffer` at `indices`; a vector if the last index is one.

    Lanes that an optional `predicate` switches off are not touched and yield zero.
    """

    child_fields: ClassVar[tuple[str, ...]] = ("indices", "predicate")
    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None

    @property
    def dtype(self) -> DType:
        element = self.buffer.dtype
        if not self.indices:
            return element
        lanes = self.indices[-1].dtype.lanes
        return element if lanes == 1 else element.with_lanes(element.lanes * lanes)


class BufferRegion(Node, frozen=True):
    """A box of a buffer."""

    child_fields: ClassVar[tuple[str, ...]] = ("region",)
    buffer: Buffer
    region: tuple[Range, ...]

    @staticmethod
    def full(buffer: Buffer) -> BufferRegion:
        """The whole buffer."""
        zero_based = (Range(const(0, extent.dtype), extent) for extent in buffer.shape)
        return BufferRegion(buffer, tuple(zero_based))

    @staticmethod
    def from_point(buffer: Buffer, indices: Sequence[PrimExpr]) -> BufferRegion:
        """One element of a buffer."""
        return BufferRegion(buffer, tuple(Range(i, const(1, i.dtype)) for i in indices))


def _range_of(buffer: Buffer, axis: int, index: Index) -> Range:
    if isinstance(index, slice):
        begin = convert(0 if index.start is None else index.start)
        end = convert(buffer.shape[axis] if index.stop is None else index.stop)
        return Range(begin, subtract(end, begin))
    point = convert(index)
    return Range(point, const(1, point.dtype))


def _index_of(buffer: Buffer, axis: int, index: Index) -> PrimExpr:
    if not isinstance(index, slice):
        return convert(index)
    begin, step = convert(0 if index.start is None else index.start), convert(index.step)
    end = convert(buffer.shape[axis] if index.stop is None else index.stop)
    length = subtract(end, begin)
    if not isinstance(length, IntImm) or not isinstance(step, IntImm):
        raise IRError(f"a strided slice of {buffer.name} needs constant length and step")
    return Ramp(begin, step, -(-length.value // step.value))


def decl_buffer(
    shape: Sequence[ExprLike] | ExprLike,
    dtype: str = FLOAT32,
    name: str = "buffer",
    data: Var | None = None,
    strides: Sequence[ExprLike] | None = None,
    elem_offset: ExprLike | None = None,
    scope: str = "global",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] = (),
) -> Buffer:
    """Declare a buffer; a data pointer is made unless one is given."""
    extents = shape if isinstance(shape, Sequence) else (shape,)
    kind = DType(dtype)
    if data is None:
        data = Var(name, HANDLE, PointerType(kind, scope or "global"))
    if buffer_type not in ("", "default"):
        raise IRError(f"buffer {name}: unknown buffer_type {buffer_type!r}, expected 'default'")
    if offset_factor and elem_offset is None:
        elem_offset = Var(f"{name}_elem_offset", INT32)
    return Buffer(
        data,
        kind,
        tuple(convert(extent) for extent in extents),
        tuple(convert(stride) for stride in strides or ()),
        None if elem_offset is None else convert(elem_offset),
        name,
        data_alignment if data_alignment > 0 else 64,
        offset_factor,
        tuple(int(separator) for separator in axis_separators),
    )
