"""Loads and stores.

A contiguous vector access is one instruction; any other vector index is taken apart lane by lane.
Accesses to memory of our own carry its alignment, accesses to the user's only that of the element.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

from tilewright.codegen.llvm import streaming
from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.index import IndexBuilder
from tilewright.codegen.llvm.types import memory_type, stride_type, value_type
from tilewright.codegen.llvm.values import zero_of
from tilewright.codegen.program_facts import first_of_run
from tilewright.errors import CodegenError
from tilewright.ir import Broadcast, Buffer, BufferLoad, BufferStore, DType, IntImm, PrimExpr, Ramp

ALLOCATION_ALIGNMENT = 64


class Pointer(NamedTuple):
    """An address, the alignment that is known of it in bytes, and what it is made of."""

    place: Value
    alignment: int
    variable: str = ""
    constant: int = 0  # in elements


def load(builder: IndexBuilder, node: BufferLoad) -> Value:
    """The value of a load."""
    buffer, index, dtype = node.buffer, _flat_index(node), node.dtype
    if index.dtype.lanes == 1:
        load_it = partial(_load_at, builder, buffer, index, dtype)
        if node.predicate is None:
            return load_it()
        nothing = partial(zero_of, value_type(dtype))
        return builder.branch(builder.value(node.predicate), load_it, nothing)
    base = first_of_run(index)
    if node.predicate is None and base is not None:
        return _load_at(builder, buffer, base, dtype)
    builder.forwarding.forget(buffer.data)
    if node.predicate is not None:
        return _masked_load(builder, node, index, node.predicate)
    _check_scalar_elements(node)
    element, lanes = buffer.dtype, index.dtype.lanes
    match index:
        case Ramp(base=base, stride=IntImm(value=-1)) if base.dtype.lanes == 1:
            forwards = _load_at(builder, buffer, base - (lanes - 1), dtype)
            return builder.shuffle(forwards, list(reversed(range(lanes))))
        case Broadcast(value=scalar) if scalar.dtype.lanes == 1:
            return builder.splat(_load_at(builder, buffer, scalar, element), lanes)
    pointers = _lane_pointers(builder, buffer, index)
    return builder.lanes_to_vector([_load_from(builder, p, element) for p in pointers])


def store(builder: IndexBuilder, node: BufferStore) -> None:
    """Write a value."""
    buffer, index, dtype = node.buffer, _flat_index(node), node.value.dtype
    _check_stored_type(node, index)
    if node.predicate is not None:
        _masked_store(builder, node, index, node.predicate)
        builder.forwarding.forget(buffer.data)
        return
    value = builder.value(node.value)
    base = index if index.dtype.lanes == 1 else first_of_run(index)
    if base is not None:
        _store_at(builder, buffer, base, value, dtype)
        return
    builder.forwarding.forget(buffer.data)
    _check_scalar_elements(node)
    for lane, pointer in enumerate(_lane_pointers(builder, buffer, index)):
        _store_to(builder, pointer, builder.lane(value, lane), buffer.dtype)


def _text(node: BufferLoad | BufferStore) -> str:
    """The access without the declarations that a statement is printed with."""
    return str(node).splitlines()[-1]


def _flat_index(node: BufferLoad | BufferStore) -> PrimExpr:
    if len(node.indices) != 1:
        raise CodegenError(
            f"buffer {node.buffer.name} is accessed with {len(node.indices)} indices; "
            "flatten_buffer must run before code generation"
        )
    if not node.indices[0].dtype.is_integral:
        raise CodegenError(
            f"buffer {node.buffer.name} is indexed by {node.indices[0].dtype!s}, "
            f"expected integers: `{_text(node)}`"
        )
    return node.indices[0]


def _check_scalar_elements(node: BufferLoad | BufferStore) -> None:
    if node.buffer.dtype.lanes != 1:
        raise CodegenError(
            f"buffer {node.buffer.name} of {node.buffer.dtype!s} elements can be accessed one by "
            f"one or contiguously, not as in `{_text(node)}`"
        )


def _check_stored_type(node: BufferStore, index: PrimExpr) -> None:
    element = node.buffer.dtype
    expected = element.with_lanes(element.lanes * index.dtype.lanes)
    if node.value.dtype is not expected:
        raise CodegenError(
            f"a value of dtype {node.value.dtype!s} is stored where buffer {node.buffer.name} "
            f"takes {expected!s}: `{_text(node)}`"
        )


def address(builder: IndexBuilder, buffer: Buffer, index: PrimExpr) -> Pointer:
    """The address of an element; the constant part of the index comes last."""
    terms, constant = builder.linear(index)
    data = builder.value(buffer.data)
    element = buffer.dtype
    type_ = stride_type(element)
    pointer, offset = data, builder.sum_of(terms)
    # Only the sum of both steps is known to stay inside the buffer.
    kind = "getelementptr" if offset is not None and constant else "getelementptr inbounds"
    if offset is not None:
        pointer = builder.emitter.pure("ptr", f"{kind} {type_}, {data}, {offset}", (data, offset))
    if constant:
        pointer = builder.emitter.pure(
            "ptr", f"{kind} {type_}, {pointer}, i64 {constant}", (pointer,)
        )
    step = math.gcd(constant, *terms.values()) * element.nbytes
    base = builder.alignments.get(buffer.data, element.itemsize)
    variable = "" if offset is None else offset.text
    return Pointer(pointer, math.gcd(base, step) if step else base, variable, constant)


def _load_at(builder: IndexBuilder, buffer: Buffer, index: PrimExpr, dtype: DType) -> Value:
    """A load that may turn out to be a value we know already."""
    pointer, data = address(builder, buffer, index), buffer.data
    stored = memory_type(dtype)
    if data in builder.read_only:
        text = f"load {stored}, {pointer.place}, align {pointer.alignment}"
        return _from_memory(builder, builder.emitter.shared(stored, text), dtype)
    if data not in builder.private:
        return _load_from(builder, pointer, dtype)
    spot = (data, pointer.variable, pointer.constant)
    width = dtype.lanes // buffer.dtype.lanes
    known = builder.forwarding.value(*spot, value_type(dtype), width)
    if known is None:
        known = _load_from(builder, pointer, dtype)
        builder.forwarding.loaded(*spot, known, width)
    return known


def _load_from(builder: IndexBuilder, pointer: Pointer, dtype: DType) -> Value:
    stored = memory_type(dtype)
    raw = builder.emitter.here(stored, f"load {stored}, {pointer.place}, align {pointer.alignment}")
    return _from_memory(builder, raw, dtype)


def _from_memory(builder: IndexBuilder, raw: Value, dtype: DType) -> Value:
    wanted = value_type(dtype)
    return raw if wanted == raw.type else builder.convert("trunc", raw, wanted)


def _store_at(
    builder: IndexBuilder, buffer: Buffer, index: PrimExpr, value: Value, dtype: DType
) -> None:
    pointer = address(builder, buffer, index)
    size = dtype.nbytes
    suffix = streaming.store_suffix(builder, buffer.data, size, pointer.alignment)
    _store_to(builder, pointer, value, dtype, suffix)
    if buffer.data in builder.private:
        width = dtype.lanes // buffer.dtype.lanes
        builder.forwarding.stored(buffer.data, pointer.variable, pointer.constant, value, width)


def _store_to(
    builder: IndexBuilder, pointer: Pointer, value: Value, dtype: DType, suffix: str = ""
) -> None:
    raw = _to_memory(builder, value, dtype)
    builder.emitter.line(f"store {raw}, {pointer.place}, align {pointer.alignment}{suffix}")


def _to_memory(builder: IndexBuilder, value: Value, dtype: DType) -> Value:
    stored = memory_type(dtype)
    if value.type == stored:
        return value
    return builder.convert("sext" if dtype.is_int else "zext", value, stored)


def _lane_pointers(builder: IndexBuilder, buffer: Buffer, index: PrimExpr) -> list[Pointer]:
    lanes = index.dtype.lanes
    if isinstance(index, Ramp) and index.base.dtype.lanes == 1:
        return [address(builder, buffer, index.base + index.stride * i) for i in range(lanes)]
    vector = builder.value(index)
    if index.dtype.is_uint:
        vector = builder.convert("zext", vector, f"<{lanes} x i64>")
    data, size = builder.value(buffer.data), buffer.dtype.itemsize
    type_ = memory_type(buffer.dtype)
    pointers = []
    for lane in range(lanes):
        offset = builder.lane(vector, lane)
        place = builder.emitter.pure(
            "ptr", f"getelementptr inbounds {type_}, {data}, {offset}", (data, offset)
        )
        pointers.append(Pointer(place, size))
    return pointers


# --- masked accesses ----------------------------------------------------------------------------


def _masked_load(
    builder: IndexBuilder, node: BufferLoad, index: PrimExpr, predicate: PrimExpr
) -> Value:
    _check_scalar_elements(node)
    mask = _mask(builder, node, predicate, index.dtype.lanes)
    stored, base = memory_type(node.dtype), first_of_run(index)
    if base is None:
        element, lanes = node.buffer.dtype, []
        nothing = partial(zero_of, value_type(element))
        for lane, pointer in enumerate(_lane_pointers(builder, node.buffer, index)):
            load_lane = partial(_load_from, builder, pointer, element)
            lanes.append(builder.branch(builder.lane(mask, lane), load_lane, nothing))
        return builder.lanes_to_vector(lanes)
    pointer = address(builder, node.buffer, base)
    symbol = f"llvm.masked.load.{_memory_mangled(stored)}.p0"
    builder.context.declare(stored, symbol, f"ptr, {mask.type}, {stored}")
    raw = builder.emitter.here(
        stored,
        f"call {stored} @{symbol}(ptr align {pointer.alignment} {pointer.place.text}, {mask}, "
        f"{zero_of(stored)})",
    )
    return _from_memory(builder, raw, node.dtype)


def _masked_store(
    builder: IndexBuilder, node: BufferStore, index: PrimExpr, predicate: PrimExpr
) -> None:
    if index.dtype.lanes > 1:
        _check_scalar_elements(node)
    mask = _mask(builder, node, predicate, index.dtype.lanes)
    value = builder.value(node.value)
    if mask.type == "i1":
        write = partial(_store_at, builder, node.buffer, index, value, node.value.dtype)
        builder.when(mask, write)
        return
    base = first_of_run(index)
    if base is None:
        for lane, pointer in enumerate(_lane_pointers(builder, node.buffer, index)):
            element = builder.lane(value, lane)
            store_lane = partial(_store_to, builder, pointer, element, node.buffer.dtype)
            builder.when(builder.lane(mask, lane), store_lane)
        return
    raw = _to_memory(builder, value, node.value.dtype)
    pointer = address(builder, node.buffer, base)
    symbol = f"llvm.masked.store.{_memory_mangled(raw.type)}.p0"
    builder.context.declare("void", symbol, f"{raw.type}, ptr, {mask.type}")
    builder.emitter.line(
        f"call void @{symbol}({raw}, ptr align {pointer.alignment} {pointer.place.text}, {mask})"
    )


def _mask(
    builder: IndexBuilder, node: BufferLoad | BufferStore, predicate: PrimExpr, lanes: int
) -> Value:
    kind = predicate.dtype
    if not kind.is_bool or kind.lanes not in (1, lanes):
        raise CodegenError(
            f"an access of {lanes} lanes needs a mask of {lanes} bools, got {kind!s}: "
            f"`{_text(node)}`"
        )
    mask = builder.value(predicate)
    return builder.splat(mask, lanes) if kind.lanes != lanes else mask


def _memory_mangled(stored: str) -> str:
    lanes, element = stored[1:-1].split(" x ")
    name = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}
    return f"v{lanes}{name.get(element, element)}"
