"""The functions that kernels for Hopper call (`tw_*`), by name."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

import numpy as np

from tilewright import ir
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.simt import given_sums
from tilewright.testing.simt.products import TileProduct, Wgmma
from tilewright.testing.simt.shared_memory import Barrier
from tilewright.testing.simt.tensor_maps import rounded_to_tf32
from tilewright.testing.simt.threads import Array, RaceError, Value, Wait, address_taken
from tilewright.testing.simt.warp import (
    LANES,
    Arguments,
    DeviceFunctions,
    Effect,
    NamedBarrier,
    Result,
    Warp,
)
from tilewright.testing.simt.warp_state import BulkStore

_EFFECTS: dict[str, Callable[..., Iterator[Wait] | None]] = {}
_RESULTS: dict[str, Result] = {}


def _effect(pattern: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Register a function for its effect; it gets the groups of the pattern as well."""

    def register(function: Callable[..., object]) -> Callable[..., object]:
        _EFFECTS[pattern] = function  # type: ignore[assignment]
        return function

    return register


@functools.cache
def _effect_of(name: str) -> Effect:
    for pattern, function in _EFFECTS.items():
        if found := re.fullmatch(pattern, name):
            return lambda warp, args: function(warp, args, *found.groups())
    raise RaceError(f"warps cannot run {name}")


# --- barriers ------------------------------------------------------------------------------------


@_effect("tw_barrier_start")
def _start_barrier(warp: Warp, args: Arguments) -> None:
    warp.need(1, "tw_barrier_start")
    address, arrivals = map(warp.number, args)
    warp.block.shared.start_barrier(address, Barrier(arrivals, warp.name))


@_effect("tw_fence_barriers")
def _fence_barriers(warp: Warp, args: Arguments) -> None:
    for barrier in warp.block.shared.barriers.values():
        barrier.is_visible = barrier.is_visible or barrier.starter == warp.name


@_effect("tw_barrier_expect")
def _expect(warp: Warp, args: Arguments) -> None:
    warp.need(1, "tw_barrier_expect")
    address, count = map(warp.number, args)
    warp.block.shared.barrier(address).arrive(count)


@_effect("tw_barrier_arrive")
def _arrive(warp: Warp, args: Arguments) -> None:
    for _ in range(warp.active):
        warp.block.shared.barrier(warp.number(args[0])).arrive()


@_effect("tw_barrier_wait")
def _wait(warp: Warp, args: Arguments) -> Iterator[Wait]:
    address, parity = map(warp.number, args)
    barrier = warp.block.shared.barrier(address)
    place = warp.block.shared.place(address)
    yield Wait(
        lambda: barrier.has_ended(parity),
        lambda: f"parity {parity} of the barrier at {place} ({barrier})",
    )


@_effect("tw_named_barrier")
def _named_barrier(warp: Warp, args: Arguments) -> Iterator[Wait]:
    number, threads = map(warp.number, args)
    return _meet(warp, number, threads)


@_effect("tvm_storage_sync")
def _sync(warp: Warp, args: Arguments) -> Iterator[Wait]:
    return _meet(warp, 0, warp.block.threads)


@_effect("tw_cluster_barrier")
def _cluster_barrier(warp: Warp, args: Arguments) -> Iterator[Wait]:
    return _wait_at(warp, warp.block.cluster.barrier, "the barrier of a cluster")


def _meet(warp: Warp, number: int, threads: int) -> Iterator[Wait]:
    barrier = warp.block.named.setdefault(number, NamedBarrier(threads))
    if barrier.threads != threads or not 0 <= number < 16:
        raise RaceError(f"named barrier {number} is of {barrier.threads} and of {threads} threads")
    return _wait_at(warp, barrier, f"named barrier {number}")


def _wait_at(warp: Warp, barrier: NamedBarrier, name: str) -> Iterator[Wait]:
    warp.need(LANES, name)
    turn = barrier.turn
    barrier.arrive()
    yield Wait(
        lambda: barrier.turn != turn,
        lambda: f"{name} ({barrier.arrived} of {barrier.threads} threads are there)",
    )


# --- bulk copies ---------------------------------------------------------------------------------


@_effect(r"tw_load_(?:[1-5]d|windows)")
def _load(warp: Warp, args: Arguments) -> None:
    warp.need(1, "a bulk load")
    shared, tensor_map = warp.block.shared, warp.map(args[1])
    to, address, *coordinates = map(warp.number, (args[0], *args[2:]))
    barrier, places = shared.barrier(address), tensor_map.shared_addresses(to)
    if not barrier.is_visible:
        raise RaceError("a bulk copy uses a barrier that was started without a fence since")
    shared.begin_copy(places)
    phase = barrier.phase

    def land() -> None:
        shared.end_copy(places, tensor_map.read(coordinates), (address, phase))
        barrier.complete(tensor_map.box_bytes, phase)

    warp.block.scheduler.load_later(land)


@_effect(r"tw_store_[1-5]d")
def _store(warp: Warp, args: Arguments) -> None:
    warp.need(1, "a bulk store")
    tensor_map, shared = warp.map(args[0]), warp.block.shared
    source, *coordinates = map(warp.number, args[1:])
    store = BulkStore(tensor_map, coordinates, shared, tensor_map.shared_addresses(source))
    warp.stores.add(store)
    warp.block.scheduler.store_later(store.write)


@_effect("tw_bulk_commit")
def _commit_stores(warp: Warp, args: Arguments) -> None:
    warp.stores.commit()


@_effect(r"tw_bulk_wait_(read_)?(\d)")
def _wait_for_stores(warp: Warp, args: Arguments, read: str | None, pending: str) -> None:
    warp.stores.wait(int(pending), only_read=read is not None)


# --- products ------------------------------------------------------------------------------------


@_effect("tw_wgmma_fence")
def _fence_products(warp: Warp, args: Arguments) -> None:
    warp.need(LANES, "tw_wgmma_fence")
    warp.products.fence()


@_effect(r"tw_wgmma_m64n(\d+)k\d+_(f32|s32)_(\w+?)_(\w+?)_t([01])([01])")
def _multiply(warp: Warp, args: Arguments, *kind: str) -> None:
    warp.need(LANES, "wgmma")
    columns, sums, left, right, *turned = kind
    instruction = Wgmma(int(columns), sums, (left, right), (turned[0] == "1", turned[1] == "1"))
    registers = address_taken(args[0])
    first = warp.number(registers.indices[0])
    a, b, adds = map(warp.number, args[1:])
    place = slice(first, first + instruction.columns // 2)
    product = TileProduct(instruction, (a, b))
    warp.products.start(warp.memory(registers.buffer), place, product, bool(adds))


@_effect("tw_wgmma_commit")
def _commit_products(warp: Warp, args: Arguments) -> None:
    warp.products.commit()


@_effect(r"tw_wgmma_wait_(\d)(?:_for_\d+)?")
def _wait_for_products(warp: Warp, args: Arguments, pending: str) -> Iterator[Wait]:
    warp.need(LANES, "tw_wgmma_wait")
    return warp.products.wait(int(pending))


# --- threads write to shared memory --------------------------------------------------------------


@_effect("tw_store_matrices")
def _store_matrices(warp: Warp, args: Arguments) -> None:
    """Four matrices of 8 x 8 of 16 bits; each lane has the address of one of their rows."""
    warp.need(LANES, "tw_store_matrices")
    words = np.stack([warp.lanes(arg) for arg in args[1:]])  # by matrix and lane
    _write(warp, warp.lanes(args[0]), words.astype(np.uint32).reshape(LANES, 4))


@_effect("tw_store_words")
def _store_words(warp: Warp, args: Arguments) -> None:
    words = np.stack([warp.lanes(arg).astype(np.uint32) for arg in args[1:]], axis=1)
    _write(warp, warp.lanes(args[0]), words)


@_effect(r"tw_gather_(1|2|4|8|16)")
def _gather(warp: Warp, args: Arguments, size: str) -> None:
    """Each lane fills words of its registers with what it finds, and zeros where nothing is."""
    target = address_taken(args[0])
    words = warp.memory(target.buffer)
    first = warp.number(target.indices[0])
    parts = [
        _taken(warp, address_taken(place), warp.lanes(inside) != 0, int(size))
        for place, inside in zip(args[1::2], args[2::2], strict=True)
    ]
    data = np.concatenate(parts, axis=1)
    lanes = words.row_of[warp.taken]
    words.rows[lanes, 4 * first : 4 * first + data.shape[1]] = data[warp.taken]


@_effect(r"tw_take_(1|2|4|8|16)")
def _take(warp: Warp, args: Arguments, size: str) -> None:
    """The same from shared memory."""
    target, count = address_taken(args[0]), int(size)
    words = warp.memory(target.buffer)
    first = 4 * warp.number(target.indices[0])
    for place, inside in zip(args[1::2], args[2::2], strict=True):
        is_inside = (warp.lanes(inside) != 0) & warp.taken
        begin = warp.lanes(place).astype(np.int64)[is_inside]
        if np.any(begin % count):
            raise RaceError(f"{warp.name} reads {size} bytes at an address that is no multiple")
        found = np.zeros((LANES, count), np.uint8)
        places = begin[:, None] + np.arange(count)
        found[is_inside] = warp.block.shared.read_landed(places, warp.name)
        words.rows[words.row_of[warp.taken], first : first + count] = found[warp.taken]
        first += count


def _taken(warp: Warp, source: ir.BufferLoad, is_inside: Array, size: int) -> Array:
    """Bytes of an array for each lane."""
    memory = warp.memory(source.buffer).rows[0]
    begin = warp.lanes(source.indices[0]).astype(np.int64) * source.dtype.itemsize
    begin = np.where(is_inside & warp.taken, begin, 0)
    if np.any(begin % size) or begin.min() < 0 or begin.max() + size > len(memory):
        raise RaceError(f"{warp.name} reads {size} bytes of {source.buffer.name} where none are")
    found: Array = memory[begin[:, None] + np.arange(size)]
    found[~is_inside] = 0
    return found


@_effect("tw_store_pair_(f32|s32)")
def _store_pair(warp: Warp, args: Arguments, kind: str) -> None:
    dtype = np.float32 if kind == "f32" else np.int32
    pairs = np.stack([warp.lanes(arg).astype(dtype) for arg in args[1:]], axis=1)
    _write(warp, warp.lanes(args[0]), pairs)


def _write(warp: Warp, addresses: Array, values: Array) -> None:
    """Each lane writes its row of values."""
    data = np.ascontiguousarray(values).view(np.uint8)[warp.taken]
    first = addresses.astype(np.int64)[warp.taken]
    if np.any(first % data.shape[1]):
        raise RaceError(f"a store of {data.shape[1]} bytes does not begin at a multiple of them")
    places = first[:, None] + np.arange(data.shape[1])
    warp.block.shared.write(places, data, warp.block.interval)
    warp.unfenced.append(places)


@_effect("tw_load_(own|far)_([14])_(f32|s32)")
def _load_sums(warp: Warp, args: Arguments, where: str, width: str, kind: str) -> None:
    """Neighbours in shared memory: of this block, or of one of its cluster."""
    target, source, *rank = args
    block = warp.block.cluster.blocks[warp.number(rank[0])] if where == "far" else warp.block
    if not block.running:
        raise RaceError(f"{warp.name} reads shared memory of a block that has ended")
    count = int(width)
    first = warp.lanes(source).astype(np.int64)[warp.taken]
    if np.any(first % (4 * count)):
        raise RaceError(f"a load of {4 * count} bytes does not begin at a multiple of them")
    found = block.shared.read(first[:, None] + np.arange(4 * count), block.interval)
    registers = address_taken(target)
    begin = warp.number(registers.indices[0])
    memory = warp.memory(registers.buffer).view("float32" if kind == "f32" else "int32")
    memory[warp.taken, begin : begin + count] = np.ascontiguousarray(found).view(memory.dtype)


@_effect("tw_fence_async_shared")
def _fence_shared(warp: Warp, args: Arguments) -> None:
    for places in warp.unfenced:
        warp.block.shared.fence(places)
    warp.unfenced.clear()


@_effect(
    r"tw_(warp_sync|prefetch_map|wait_for_previous_grid|launch_next_grid|registers_(inc|dec)_\d+)"
)
def _ignored(warp: Warp, args: Arguments, *parts: str) -> None:
    """Changes how fast a kernel is, not what it computes."""


# --- sums of other blocks ------------------------------------------------------------------------

_EFFECTS.update(
    {
        "tw_give_sums_(?:f32|s32)": given_sums.give,
        "tw_take_sums_(?:f32|s32)": given_sums.take,
        "tw_put_flag": given_sums.put_flag,
        "tw_take_flag": given_sums.take_flag,
    }
)


# --- values --------------------------------------------------------------------------------------


def _shared_address(warp: Warp, args: Arguments) -> Value:
    index = warp.lanes(address_taken(args[0]).indices[0])
    return (warp.block.shared.start + index).astype(np.uint32)


def _warp_of_thread(warp: Warp, args: Arguments) -> Value:
    return np.full(LANES, warp.lanes(args[0])[0] // LANES, np.int32)


def _descriptor(warp: Warp, args: Arguments) -> Value:
    address, leading, stride, mode = map(warp.number, args)
    if address % 16 or leading % 16 or stride % 16:
        raise RaceError("the address and distances of a tile are not multiples of 16")
    word = (address & 0x3FFFF) >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62
    return np.uint64(word)


def _packed(dtype: str) -> Result:
    def pack(warp: Warp, args: Arguments) -> Value:
        with np.errstate(over="ignore"):
            low, high = (
                warp.lanes(arg).astype(to_numpy(dtype)).view(np.uint16).astype(np.uint32)
                for arg in args
            )
        return low | high << 16

    return pack


def _short_erf(warp: Warp, args: Arguments) -> Value:
    """The same polynomial as on a GPU, in float64."""
    x = np.clip(warp.lanes(args[0]).astype(np.float64), -3, 3)
    return (x * np.polyval(_ERF, x * x)).astype(np.float32)


_ERF = (
    4.5173717e-08, -2.1190478e-06, 4.3894797e-05, -5.3565978e-04, 4.3583144e-03, -2.5454991e-02,
    1.1162393e-01, -3.7570354e-01, 1.1283532,
)  # fmt: skip


_RESULTS.update(
    {
        "tw_shared_address": _shared_address,
        "tw_warp_of_thread": _warp_of_thread,
        "tw_matrix_descriptor": _descriptor,
        "tw_short_erf": _short_erf,
        "tw_tf32": lambda warp, args: rounded_to_tf32(warp.lanes(args[0])).view(np.uint32),
        "tw_pack_f16": _packed("float16"),
        "tw_pack_bf16": _packed("bfloat16"),
    }
)

DEVICE_FUNCTIONS = DeviceFunctions(_effect_of, _RESULTS.get)
