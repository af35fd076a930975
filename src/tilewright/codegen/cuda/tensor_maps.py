"""Tensor maps: descriptions of arrays that bulk copies of Hopper take, made by the driver.

A map holds the address of its array, so it is made anew when that is another one; the last ones are
kept.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from tilewright.errors import DeviceError
from tilewright.native.cuda_driver import CudaDriver

MAP_CALLS = ("tw_tensor_map", "tw_window_map")
_MAP_BYTES = 128
_KEPT = 64
_DTYPES = {
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "float32": "FLOAT32",
    "tfloat32": "TFLOAT32",  # float32 in memory, rounded on the way
    "float64": "FLOAT64",
    "int32": "INT32",
    "int8": "UINT8",
    "uint8": "UINT8",
    "float8_e4m3fn": "UINT8",
    "float8_e5m2": "UINT8",
}
_ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "tfloat32": 4, "float64": 8, "int32": 4}
_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}


class MapMaker:
    """Makes the maps of one operand of a kernel; `numbers` are those of the call in the program."""

    def __init__(self, call: str, dtype: str, numbers: Sequence[int]) -> None:
        self._encode = self._tiled if call == "tw_tensor_map" else self._windows
        self._dtype = dtype
        self._numbers = list(numbers)
        self._made: OrderedDict[int, bytes] = OrderedDict()

    def map_at(self, driver: CudaDriver, address: int) -> bytes:
        """The map of the array at an address."""
        known = self._made.get(address)
        if known is None:
            try:
                made = self._encode(driver, address)
            except DeviceError as error:
                raise DeviceError(
                    f"the driver made no tensor map of {self._dtype} at {address:#x}: {error}; "
                    "arrays that kernels copy in tiles must begin at multiples of 16 bytes"
                ) from error
            known = ctypes.string_at(int(made.getPtr()), _MAP_BYTES)
            self._made[address] = known
            if len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return known

    def _tiled(self, driver: CudaDriver, address: int) -> Any:
        rank, *rest = self._numbers
        sizes, strides, boxes = rest[:rank], rest[rank : 2 * rank - 1], rest[2 * rank - 1 : -1]
        module = driver.module
        return driver(
            "cuTensorMapEncodeTiled",
            self._data_type(driver),
            rank,
            address,
            [module.cuuint64_t(size) for size in sizes],
            [module.cuuint64_t(stride) for stride in strides],
            [module.cuuint32_t(box) for box in boxes],
            [module.cuuint32_t(1)] * rank,
            *self._options(driver, rest[-1]),
        )

    def _windows(self, driver: CudaDriver, address: int) -> Any:
        c, w, h, n, *corners, channels, pixels, across, down = self._numbers
        size = _ITEM_BYTES.get(self._dtype, 1)
        module = driver.module
        return driver(
            "cuTensorMapEncodeIm2col",
            self._data_type(driver),
            4,
            address,
            [module.cuuint64_t(extent) for extent in (c, w, h, n)],
            [module.cuuint64_t(stride * size) for stride in (c, w * c, h * w * c)],
            corners[:2],
            corners[2:],
            channels,
            pixels,
            [module.cuuint32_t(step) for step in (1, across, down, 1)],
            *self._options(driver, 128),
        )

    def _data_type(self, driver: CudaDriver) -> Any:
        name = f"CU_TENSOR_MAP_DATA_TYPE_{_DTYPES[self._dtype]}"
        return driver.constant("CUtensorMapDataType", name)

    def _options(self, driver: CudaDriver, swizzle: int) -> tuple[Any, ...]:
        """No interleaving, a pattern of banks, whole lines in the cache, zeros outside."""
        chosen = {
            "CUtensorMapInterleave": "CU_TENSOR_MAP_INTERLEAVE_NONE",
            "CUtensorMapSwizzle": f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[swizzle]}",
            "CUtensorMapL2promotion": "CU_TENSOR_MAP_L2_PROMOTION_L2_128B",
            "CUtensorMapFloatOOBfill": "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
        }
        return tuple(driver.constant(kind, name) for kind, name in chosen.items())
