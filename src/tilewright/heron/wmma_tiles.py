"""Fragments of tensor cores, and the instructions for those that are not square."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tilewright.intrin import cuda_wmma as wmma
from tilewright.intrin.programs import Pair
from tilewright.ir.tensor_intrin import TensorIntrin

FRAGMENTS = ((16, 16), (32, 8), (8, 32))  # rows and columns
DEPTH = 16

_TILES = tuple(wmma.Tile(m, n, DEPTH) for m, n in FRAGMENTS if m != n)


def _makers(tile: wmma.Tile) -> Iterator[tuple[str, Callable[[], Pair]]]:
    load = partial(wmma.get_wmma_load_intrin, *tile, "float16", "shared")
    yield f"wmma_load_{tile}_f16_a_shared", partial(load, False, False)
    yield f"wmma_load_{tile}_f16_b_trans_shared", partial(load, True, True)
    for out, short in (("float16", "f16"), ("float32", "f32")):
        sync = partial(wmma.get_wmma_sync_intrin, *tile, "float16", out, True)
        yield f"wmma_sync_{tile}_f16f16{short}_trans", sync
        yield f"wmma_fill_{tile}_{short}", partial(wmma.get_wmma_fill_intrin, *tile, out)
        store = partial(wmma.get_wmma_store_intrin, *tile, out, "shared")
        yield f"wmma_store_{tile}_{short}_shared", store


for _tile in _TILES:
    for _name, _make in _makers(_tile):
        TensorIntrin.register_maker(_name, _make)
