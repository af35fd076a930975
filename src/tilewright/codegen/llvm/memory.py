"""Loads and stores.

A contiguous vector access is one instruction; any other vector index is taken apart lane by lane.
Accesses to memory of our own carry its alignment, accesses to the user's only that of the element.
"""

from __future__ import annotations

import math
from functools import partial

from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.index import IndexBuilder
from tilewright.codegen.llvm.types import memory_type, value_type
from tilewright.codegen.llvm.values import zero_of
from tilewright.errors import CodegenError
from tilewright.ir import Broadcast, Buffer, BufferLoad, BufferStore, DType, IntImm, PrimExpr, Ramp

ALLOCATION_ALIGNMENT = 64


def load(builder: IndexBuilder, node: BufferLoad) -> Value:
    """The value of a load."""
    index, element = _flat_index(node.buffer, node.indices), node.buffer.dtype
    if index.dtype.lanes == 1:
        return _load_at(builder, node.buffer, index, element)
    lanes = index.dtype.lanes
    vector = element.with_lanes(element.lanes * lanes)
    if node.predicate is not None:
        return _masked_load(builder, node, index, vector)
    match index:
        case Ramp(base=base, stride=IntImm(value=1)) if base.dtype.lanes == 1:
            return _load_at(builder, node.buffer, base, vector)
        case Broadcast(value=scalar) if scalar.dtype.lanes == 1:
            return builder.splat(_load_at(builder, node.buffer, scalar, element), lanes)
    pointers = _lane_pointers(builder, node.buffer, index)
    return builder.lanes_to_vector([_load_from(builder, p, element) for p in pointers])


def store(builder: IndexBuilder, node: BufferStore) -> None:
    """Write a value."""
    index, element = _flat_index(node.buffer, node.indices), node.buffer.dtype
    value = builder.value(node.value)
    if index.dtype.lanes == 1:
        _store_at(builder, node.buffer, index, value, node.value.dtype)
        return
    if node.predicate is not None:
        _masked_store(builder, node, index, value)
        return
    match index:
        case Ramp(base=base, stride=IntImm(value=1)) if base.dtype.lanes == 1:
            _store_at(builder, node.buffer, base, value, node.value.dtype)
            return
    for lane, pointer in enumerate(_lane_pointers(builder, node.buffer, index)):
        _store_to(builder, pointer, builder.lane(value, lane), element)


class Pointer(tuple[Value, int]):
    """An address and the alignment that is known of it, in bytes."""

    __slots__ = ()


def _flat_index(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    if len(indices) != 1:
        raise CodegenError(
            f"buffer {buffer.name} is accessed with {len(indices)} indices; "
            "flatten_buffer must run before code generation"
        )
    return indices[0]


def address(builder: IndexBuilder, buffer: Buffer, index: PrimExpr) -> Pointer:
    """The address of an element; the constant part of the index comes last."""
    terms, constant = builder.linear(index)
    data = builder.value(buffer.data)
    element = buffer.dtype
    type_ = memory_type(element)
    if type_.startswith("<"):
        type_ = f"[{element.lanes} x {memory_type(element.element_of)}]"
    pointer, offset = data, builder.sum_of(terms)
    if offset is not None:
        pointer = builder.emitter.pure(
            "ptr", f"getelementptr inbounds {type_}, {data}, {offset}", (data, offset)
        )
    if constant:
        pointer = builder.emitter.pure(
            "ptr", f"getelementptr inbounds {type_}, {pointer}, i64 {constant}", (pointer,)
        )
    size = element.itemsize * element.lanes
    step = math.gcd(constant, *terms.values()) * size
    base = builder.alignments.get(buffer.data, element.itemsize)
    return Pointer((pointer, math.gcd(base, step) if step else base))


def _load_at(builder: IndexBuilder, buffer: Buffer, index: PrimExpr, dtype: DType) -> Value:
    return _load_from(builder, address(builder, buffer, index), dtype)


def _load_from(builder: IndexBuilder, pointer: Pointer, dtype: DType) -> Value:
    place, alignment = pointer
    stored = memory_type(dtype)
    raw = builder.emitter.here(stored, f"load {stored}, {place}, align {alignment}")
    wanted = value_type(dtype)
    if wanted == stored:
        return raw
    return builder.emitter.pure(wanted, f"trunc {raw} to {wanted}", (raw,))


def _store_at(
    builder: IndexBuilder, buffer: Buffer, index: PrimExpr, value: Value, dtype: DType
) -> None:
    _store_to(builder, address(builder, buffer, index), value, dtype)


def _store_to(builder: IndexBuilder, pointer: Pointer, value: Value, dtype: DType) -> None:
    place, alignment = pointer
    raw = _to_memory(builder, value, dtype)
    builder.emitter.line(f"store {raw}, {place}, align {alignment}")


def _to_memory(builder: IndexBuilder, value: Value, dtype: DType) -> Value:
    stored = memory_type(dtype)
    if value.type == stored:
        return value
    extend = "sext" if dtype.is_int else "zext"
    return builder.emitter.pure(stored, f"{extend} {value} to {stored}", (value,))


def _lane_pointers(builder: IndexBuilder, buffer: Buffer, index: PrimExpr) -> list[Pointer]:
    lanes = index.dtype.lanes
    if isinstance(index, Ramp) and index.base.dtype.lanes == 1:
        return [address(builder, buffer, index.base + index.stride * i) for i in range(lanes)]
    vector = builder.value(index)
    data, size = builder.value(buffer.data), buffer.dtype.itemsize
    type_ = memory_type(buffer.dtype)
    pointers = []
    for lane in range(lanes):
        offset = builder.lane(vector, lane)
        place = builder.emitter.pure(
            "ptr", f"getelementptr inbounds {type_}, {data}, {offset}", (data, offset)
        )
        pointers.append(Pointer((place, size)))
    return pointers


def _contiguous(index: PrimExpr) -> PrimExpr | None:
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1:
        return index.base if index.base.dtype.lanes == 1 else None
    return None


def _masked_load(builder: IndexBuilder, node: BufferLoad, index: PrimExpr, vector: DType) -> Value:
    mask = builder.value(_mask_of(node))
    element, stored = node.buffer.dtype, memory_type(vector)
    base = _contiguous(index)
    if base is None:
        return _load_lanes_where(builder, node.buffer, index, mask, element)
    place, alignment = address(builder, node.buffer, base)
    symbol = f"llvm.masked.load.{_memory_mangled(stored)}.p0"
    builder.context.declare(stored, symbol, f"ptr, {mask.type}, {stored}")
    raw = builder.emitter.here(
        stored,
        f"call {stored} @{symbol}(ptr align {alignment} {place.text}, {mask}, "
        f"{stored} {zero_of(stored)})",
    )
    wanted = value_type(vector)
    if wanted == stored:
        return raw
    return builder.emitter.pure(wanted, f"trunc {raw} to {wanted}", (raw,))


def _masked_store(builder: IndexBuilder, node: BufferStore, index: PrimExpr, value: Value) -> None:
    mask = builder.value(_mask_of(node))
    raw = _to_memory(builder, value, node.value.dtype)
    base = _contiguous(index)
    if base is None:
        _store_lanes_where(builder, node, index, mask, value)
        return
    place, alignment = address(builder, node.buffer, base)
    symbol = f"llvm.masked.store.{_memory_mangled(raw.type)}.p0"
    builder.context.declare("void", symbol, f"{raw.type}, ptr, {mask.type}")
    builder.emitter.line(f"call void @{symbol}({raw}, ptr align {alignment} {place.text}, {mask})")


def _mask_of(node: BufferLoad | BufferStore) -> PrimExpr:
    assert node.predicate is not None
    return node.predicate


def _load_lanes_where(
    builder: IndexBuilder, buffer: Buffer, index: PrimExpr, mask: Value, element: DType
) -> Value:
    zero = Value(value_type(element), "0.0" if element.is_float and element.bits > 8 else "0")
    lanes = []
    for lane, pointer in enumerate(_lane_pointers(builder, buffer, index)):
        load_lane = partial(_load_from, builder, pointer, element)
        lanes.append(builder.branch(builder.lane(mask, lane), load_lane, lambda: zero))
    return builder.lanes_to_vector(lanes)


def _store_lanes_where(
    builder: IndexBuilder, node: BufferStore, index: PrimExpr, mask: Value, value: Value
) -> None:
    for lane, pointer in enumerate(_lane_pointers(builder, node.buffer, index)):
        store_lane = partial(
            _store_to, builder, pointer, builder.lane(value, lane), node.buffer.dtype
        )
        builder.when(builder.lane(mask, lane), store_lane)


def _memory_mangled(stored: str) -> str:
    lanes, element = stored[1:-1].split(" x ")
    name = {"half": "f16", "float": "f32", "double": "f64", "bfloat": "bf16", "ptr": "p0"}
    return f"v{lanes}{name.get(element, element)}"
