"""The peaks that NVIDIA's GPUs are built for: operations on each type, bytes a second."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.target import Target

_L2_FACTOR = 2.0  # of the bytes a second of memory; 8.9 over 4.8 TB on an H200

# Architecture -> operations of a multiprocessor in a cycle, multiply-adds being two.
_RATES: Mapping[int, Mapping[str, float]] = MappingProxyType(
    {
        70: {"float32": 128, "float64": 64, "float16": 1024},
        75: {"float32": 128, "float16": 1024, "int8": 2048},
        80: {"float32": 128, "float64": 128, "float16": 2048, "bfloat16": 2048, "int8": 4096},
        86: {"float32": 256, "float16": 1024, "bfloat16": 1024, "int8": 2048},
        89: {"float32": 256, "float16": 1024, "bfloat16": 1024, "int8": 2048, "float8": 2048},
        90: {
            "float32": 256,
            "float64": 256,
            "float16": 4096,
            "bfloat16": 4096,
            "int8": 8192,
            "float8": 8192,
        },
    }
)


@dataclass(frozen=True)
class GpuPeaks:
    """The peaks of a target that is a GPU."""

    target: Target

    def operations(self, dtypes: Sequence[str]) -> float:
        """Operations a second on data of these types, in tensor cores where there are some."""
        gpu = self.target.gpu
        rates = _rates_of(gpu.arch)
        rate = max(rates.get(_family(dtype), 0.0) for dtype in (*dtypes, "float32"))
        return gpu.multiprocessors * gpu.clock_mhz * 1e6 * rate

    def bandwidth(self, size: int) -> float:
        """Bytes a second, when data of `size` bytes are read again and again."""
        gpu = self.target.gpu
        return gpu.bytes_per_second * (_L2_FACTOR if size <= gpu.l2_bytes else 1.0)


def _rates_of(arch: str) -> Mapping[str, float]:
    """Of the newest architecture that is not newer."""
    number = int((re.search(r"\d+", arch) or ["0"])[0])
    return _RATES[max((known for known in _RATES if known <= number), default=min(_RATES))]


def _family(dtype: str) -> str:
    """`float8` for all floats of 8 bits, `int8` for both kinds of bytes."""
    return "float8" if dtype.startswith("float8") else dtype.removeprefix("u")
