"""Everything a rule or a code generator may ask about the GPU of a target.

Of a GPU of this machine all of it is detected. Of others the table of models below knows it, as far
as architectures do not say it already.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.errors import DeviceError
from tilewright.native.cuda_driver import CudaDriver, cuda_driver

# From here on a variant of the architecture has instructions that its successors lack.
_FIRST_WITH_VARIANTS = 90


@dataclass(frozen=True, slots=True)
class GpuDescription:
    """A GPU as the compiler sees it; a multiprocessor is what runs a block."""

    model: str
    arch: str
    multiprocessors: int
    clock_mhz: int
    l2_bytes: int
    memory_bytes: int
    bytes_per_second: int  # of its memory
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    shared_per_multiprocessor: int
    shared_per_block: int  # with the dynamic part, which TVM's attribute leaves out
    registers_per_multiprocessor: int = 65536


def full_arch(arch: str) -> str:
    """The architecture with all its instructions: "sm_90a" for "sm_90"."""
    found = re.fullmatch(r"sm_(\d+)", arch)
    return f"{arch}a" if found and int(found[1]) >= _FIRST_WITH_VARIANTS else arch


# Architecture -> threads and blocks of a multiprocessor, its KB of shared memory, those of a block.
_LIMITS = {
    "sm_50": (2048, 32, 64, 48),
    "sm_60": (2048, 32, 64, 48),
    "sm_61": (2048, 32, 96, 48),
    "sm_70": (2048, 32, 96, 96),
    "sm_72": (2048, 32, 96, 96),
    "sm_75": (1024, 16, 64, 64),
    "sm_80": (2048, 32, 164, 163),
    "sm_86": (1536, 16, 100, 99),
    "sm_87": (1536, 16, 164, 163),
    "sm_89": (1536, 24, 100, 99),
    "sm_90": (2048, 32, 228, 227),
    "sm_100": (2048, 32, 228, 227),
    "sm_120": (1536, 24, 100, 99),
}

# Tag -> model, architecture, multiprocessors, MHz, KB of L2, GB of memory, GB/s. The first of an
# architecture stands for it where a target names no model.
_MODELS = {
    "nvidia-h100": ("NVIDIA H100 80GB HBM3", "sm_90a", 132, 1980, 51200, 80, 3350),
    "nvidia-h200": ("NVIDIA H200", "sm_90a", 132, 1980, 61440, 141, 4800),
    "nvidia-a100": ("NVIDIA A100-SXM4-40GB", "sm_80", 108, 1410, 40960, 40, 1555),
    "nvidia-a30": ("NVIDIA A30", "sm_80", 56, 1440, 24576, 24, 933),
    "geforce-rtx-3070": ("NVIDIA GeForce RTX 3070", "sm_86", 46, 1725, 4096, 8, 448),
    "geforce-rtx-3090": ("NVIDIA GeForce RTX 3090", "sm_86", 82, 1695, 6144, 24, 936),
    "nvidia-a10": ("NVIDIA A10", "sm_86", 72, 1695, 6144, 24, 600),
    "geforce-rtx-4090": ("NVIDIA GeForce RTX 4090", "sm_89", 128, 2520, 73728, 24, 1008),
    "nvidia-l4": ("NVIDIA L4", "sm_89", 58, 2040, 49152, 24, 300),
    "nvidia-l40s": ("NVIDIA L40S", "sm_89", 142, 2520, 98304, 48, 864),
    "nvidia-t4": ("Tesla T4", "sm_75", 40, 1590, 4096, 16, 320),
    "geforce-rtx-2080": ("NVIDIA GeForce RTX 2080", "sm_75", 46, 1710, 4096, 8, 448),
    "nvidia-v100": ("Tesla V100-SXM2-16GB", "sm_70", 80, 1530, 6144, 16, 900),
}

_UNKNOWN = ("unknown", "", 46, 1500, 4096, 8, 448)


def describe_gpu(model: str, tag: str, arch: str) -> GpuDescription:
    """The GPU that a target stands for: by its model, else by its tag, else by its architecture."""
    here = detected_gpu()
    if here is not None and (here.model == model or (not tag and here.arch == full_arch(arch))):
        return here
    return _known_gpu(model, tag, arch)


def _known_gpu(model: str, tag: str, arch: str) -> GpuDescription:
    by_model = next((row for row in _MODELS.values() if row[0] == model), None)
    by_arch = next((row for row in _MODELS.values() if row[1] == full_arch(arch)), None)
    row = by_model or _MODELS.get(tag.removeprefix("nvidia/")) or by_arch or _UNKNOWN
    return _described(row, arch)


def _described(row: tuple[str, str, int, int, int, int, int], arch: str) -> GpuDescription:
    model, _, multiprocessors, clock, l2, memory, speed = row
    threads, blocks, shared, of_block = _LIMITS.get(arch.rstrip("af"), _LIMITS["sm_75"])
    return GpuDescription(
        model,
        full_arch(arch),
        multiprocessors,
        clock,
        l2 << 10,
        memory * 10**9,
        speed * 10**9,
        threads,
        blocks,
        shared << 10,
        of_block << 10,
    )


# --- the GPU of this machine ---------------------------------------------------------------------

_ATTRIBUTES = {
    "multiprocessors": "MULTIPROCESSOR_COUNT",
    "l2_bytes": "L2_CACHE_SIZE",
    "threads_per_multiprocessor": "MAX_THREADS_PER_MULTIPROCESSOR",
    "blocks_per_multiprocessor": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "shared_per_multiprocessor": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "shared_per_block": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "registers_per_multiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR",
}
_CLOCKS = ("GLOBAL_MEMORY_BUS_WIDTH", "CLOCK_RATE", "MEMORY_CLOCK_RATE")
# Attributes of targets, under the names that TVM has for them.
_TARGET_ATTRIBUTES = {
    "max_threads_per_block": "MAX_THREADS_PER_BLOCK",
    "max_shared_memory_per_block": "MAX_SHARED_MEMORY_PER_BLOCK",
    "registers_per_block": "MAX_REGISTERS_PER_BLOCK",
    "thread_warp_size": "WARP_SIZE",
    "l2_cache_size_bytes": "L2_CACHE_SIZE",
}


@functools.cache
def detected_gpu() -> GpuDescription | None:
    """The first GPU of this machine."""
    driver = _driver()
    if driver is None:
        return None
    numbers = {name: driver.attribute(0, asked) for name, asked in _ATTRIBUTES.items()}
    model, arch = driver.name(0), full_arch(driver.arch(0))
    known = _known_gpu(model, "", arch)
    # Memory moves data on both edges of its clock. Not every driver tells clocks.
    width, clock, memory_clock = (_asked(driver, name) for name in _CLOCKS)
    return GpuDescription(
        model=model,
        arch=arch,
        clock_mhz=clock // 1000 or known.clock_mhz,
        memory_bytes=int(driver("cuDeviceTotalMem", driver.device(0))),
        bytes_per_second=2000 * memory_clock * width // 8 or known.bytes_per_second,
        **numbers,
    )


def _asked(driver: CudaDriver, name: str) -> int:
    try:
        return driver.attribute(0, name)
    except DeviceError:
        return 0


@functools.cache
def detected_attributes() -> Mapping[str, int | str]:
    """The attributes of a target that stands for the first GPU of this machine."""
    driver, here = _driver(), detected_gpu()
    if driver is None or here is None:
        return {}
    numbers = {name: driver.attribute(0, asked) for name, asked in _TARGET_ATTRIBUTES.items()}
    return {"arch": here.arch, "model": here.model, **numbers}


def _driver() -> CudaDriver | None:
    try:
        driver = cuda_driver()
    except DeviceError:
        return None
    return driver if driver.device_count else None
