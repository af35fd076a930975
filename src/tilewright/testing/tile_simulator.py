"""AMX in NumPy: programs in tile registers run on machines that have none.

The oracle calls these functions in place of the instructions. They follow Intel's manual for tiles
of full size, and know when a program reads a tile that it never wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.errors import TilewrightError
from tilewright.ir import IRModule, PrimFunc
from tilewright.lowering.tile_registers import REQUEST_SYMBOL
from tilewright.testing import oracle

ROWS, ROW_BYTES, TILES = 16, 64, 8

# The instruction -> element types of its operands and of its results.
_PRODUCTS: dict[str, tuple[Any, Any, Any]] = {
    "tdpbssd": (np.int8, np.int8, np.int32),
    "tdpbsud": (np.int8, np.uint8, np.int32),
    "tdpbusd": (np.uint8, np.int8, np.int32),
    "tdpbuud": (np.uint8, np.uint8, np.int32),
    "tdpbf16ps": (ml_dtypes.bfloat16, ml_dtypes.bfloat16, np.float32),
}


class TileError(TilewrightError):
    """A program uses tiles in a way that no machine allows."""


class TileSimulator:
    """Eight tile registers and the instructions on them."""

    def __init__(self) -> None:
        self._tiles: dict[int, np.ndarray[Any, Any]] = {}
        self.issued: list[str] = []

    def instructions(self) -> dict[str, Callable[..., Any]]:
        """What each LLVM intrinsic does."""
        products = {
            f"llvm.x86.{name}": partial(self._multiply, name, types)
            for name, types in _PRODUCTS.items()
        }
        return {
            REQUEST_SYMBOL: lambda: np.int32(0),
            "llvm.x86.tilezero": self._zero,
            "llvm.x86.tileloadd64": self._load,
            "llvm.x86.tilestored64": self._store,
            **products,
        }

    def _zero(self, number: Any) -> None:
        self.issued.append("tilezero")
        self._tiles[_checked(number)] = np.zeros((ROWS, ROW_BYTES), np.uint8)

    def _load(self, number: Any, memory: np.ndarray[Any, Any], stride: Any) -> None:
        self.issued.append("tileloadd")
        self._tiles[_checked(number)] = _rows(memory, int(stride)).copy()

    def _store(self, number: Any, memory: np.ndarray[Any, Any], stride: Any) -> None:
        self.issued.append("tilestored")
        _rows(memory, int(stride))[...] = self._tile(number)

    def _tile(self, number: Any) -> np.ndarray[Any, Any]:
        if _checked(number) not in self._tiles:
            raise TileError(f"tile {number} is read, but nothing was put into it")
        return self._tiles[int(number)]

    def _multiply(
        self, name: str, types: tuple[Any, Any, Any], out: Any, left: Any, right: Any
    ) -> None:
        self.issued.append(name)
        kinds = [np.dtype(kind) for kind in types]
        group = 4 // kinds[0].itemsize
        sums = self._tile(out).view(kinds[2])
        a = self._tile(left).view(kinds[0]).reshape(ROWS, ROWS, group).astype(kinds[2])
        b = self._tile(right).view(kinds[1]).reshape(ROWS, ROWS, group).astype(kinds[2])
        for step in range(ROWS):
            for item in range(group):
                sums += a[:, step, item, None] * b[None, step, :, item]


def _checked(number: Any) -> int:
    if not 0 <= int(number) < TILES:
        raise TileError(f"there is no tile {number}")
    return int(number)


def _rows(memory: np.ndarray[Any, Any], stride: int) -> np.ndarray[Any, Any]:
    """The rows that an instruction moves, as a view of the memory behind an address."""
    data = memory.view(np.uint8)
    if (ROWS - 1) * stride + ROW_BYTES > data.size:
        raise TileError(f"a tile with rows {stride} bytes apart goes beyond its {data.size} bytes")
    return np.lib.stride_tricks.as_strided(data, (ROWS, ROW_BYTES), (stride, 1))


def run_in_tiles(program: PrimFunc | IRModule, *arguments: Any) -> TileSimulator:
    """Interpret a program whose tile instructions are carried out here."""
    simulator = TileSimulator()
    for name, function in simulator.instructions().items():
        oracle.register_extern(name, function, override=True)
    # Memory that an instruction wrote is not known to the oracle as written.
    oracle.run(program, *arguments, options=oracle.OracleOptions(track_uninitialized=False))
    return simulator
