"""The roofline of a machine: no program is faster than its arithmetic and its data allow.

The peaks of the machine are measured beside the kernels, or else those that it is built for. A
share of the roofline tells a kernel that leaves a factor of five from one that leaves nothing.

A processor changes its speed with its load and its temperature, and shares caches and memory. So
peaks are measured beside the times that they are compared with: multiply-adds on registers that
never leave them, and sums over as much memory as a program has.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
import numpy as np

from tilewright.cost_model.gpu_peaks import GpuPeaks
from tilewright.cost_model.peaks import BuiltFor as BuiltFor
from tilewright.cost_model.prior import operations_per_cycle
from tilewright.database import Database
from tilewright.driver import build
from tilewright.errors import StoredDataError
from tilewright.ir import DType, IRModule
from tilewright.records import args_info_of
from tilewright.runtime.module import CompiledFunction, Module
from tilewright.schedule.analysis import flop_of as flop_of
from tilewright.script import from_source
from tilewright.support.decoding import decoding
from tilewright.target import Target

logger = logging.getLogger("tilewright.report")

_ROW_SECS = 0.002
_ROWS = 8  # the best counts: somebody else may be busy now and then
_VECTORS = 12  # independent chains: more than the latency of a multiply-add times the units
_SUMS = 8
_SMALLEST, _LARGEST = 32 << 10, 64 << 20  # bytes that are read; more is memory, too


@dataclass
class MeasuredPeaks:
    """The same as it was measured on this machine; of several measurements the best."""

    target: Target
    best_operations: float = 0.0
    best_bandwidth: dict[int, float] = field(default_factory=dict)  # by size

    def operations(self) -> float:
        return self.best_operations or self._measure_operations()

    def bandwidth(self, size: int) -> float:
        return self.best_bandwidth.get(_rounded(size)) or self._measure_bandwidth(_rounded(size))

    def measure_again(self, size: int | None = None) -> None:
        """Look whether the machine can do more by now, with that many bytes or all that are known.

        It takes some hundredths of a second for each size. GPUs have the peaks of their table.
        """
        if not self.target.is_cpu or not self.target.cpu.is_host:
            return
        self._measure_operations()
        for known in list(self.best_bandwidth) if size is None else [_rounded(size)]:
            self._measure_bandwidth(known)

    def _measure_operations(self) -> float:
        kernel = _kernels(self.target)["arithmetic"]
        done = 2 * self.target.num_cores * _VECTORS * _lanes(self.target)
        out = np.empty((self.target.num_cores, _VECTORS * _lanes(self.target)), np.float32)
        rate = done * _most_a_second(kernel, np.full(1, 0.5, "f4"), out)
        self.best_operations = max(self.best_operations, rate)
        return self.best_operations

    def _measure_bandwidth(self, size: int) -> float:
        cores, step = self.target.num_cores, _SUMS * _lanes(self.target)
        steps = max(1, size // (4 * step * cores))
        memory = np.empty((cores, _LARGEST // (4 * cores * step), step), np.float32)
        memory[:, :steps] = 1  # memory that nobody wrote to is not there
        out = np.empty((cores, step), np.float32)
        passes = _most_a_second(_kernels(self.target)["reading"], memory, out, steps)
        rate = passes * 4 * step * steps * cores
        self.best_bandwidth[size] = max(self.best_bandwidth.get(size, 0.0), rate)
        return self.best_bandwidth[size]

    def save(self, database: Database) -> None:
        """Keep the best of what this and earlier calls measured with the records."""
        known = MeasuredPeaks.stored(database, self.target)
        sizes = {*self.best_bandwidth, *known.best_bandwidth}
        value = {
            "operations": max(self.best_operations, known.best_operations),
            "bandwidth": {
                str(n): max(each.best_bandwidth.get(n, 0.0) for each in (self, known))
                for n in sizes
            },
        }
        database.save_state(_key(self.target), value)

    @staticmethod
    def stored(database: Database, target: Target) -> MeasuredPeaks:
        """What was measured when records were."""
        try:
            with decoding("the stored peaks are damaged", StoredDataError):
                found = msgspec.convert(database.load_state(_key(target)) or {}, _Stored)
                sizes = {int(size): rate for size, rate in found.bandwidth.items()}
        except StoredDataError as error:
            logger.warning("%s", error)
            return MeasuredPeaks(target, 0.0, {})
        return MeasuredPeaks(target, found.operations, sizes)

    def covers(self, size: int) -> bool:
        """True if everything that a program of that size needs is known already."""
        return bool(self.best_operations) and _rounded(size) in self.best_bandwidth


@dataclass(frozen=True)
class GpuRoof:
    """The peaks that a GPU is built for, with data of some types."""

    gpu: GpuPeaks
    dtypes: Sequence[str] = ()

    def operations(self) -> float:
        """Operations a second."""
        return self.gpu.operations(self.dtypes)

    def bandwidth(self, size: int) -> float:
        """Bytes a second."""
        return self.gpu.bandwidth(size)


Peaks: TypeAlias = BuiltFor | MeasuredPeaks | GpuRoof


def known_peaks(database: Database, target: Target, dtypes: Sequence[str] = ()) -> Peaks | None:
    """The peaks behind a picture; nothing is measured for it.

    They are those that were measured with the records, else those that the target is built for;
    None: nobody knows.
    """
    if target.kind.name == "cuda":
        return GpuRoof(GpuPeaks(target), dtypes)
    if not target.is_cpu:
        return None
    stored = MeasuredPeaks.stored(database, target)
    return stored if stored.covers(_LARGEST) else BuiltFor(target)


class _Stored(msgspec.Struct, frozen=True):
    """The form in which peaks are saved."""

    operations: float = 0.0
    bandwidth: dict[str, float] = {}


def _key(target: Target) -> str:
    return f"peaks/{target.fingerprint}"


def _rounded(size: int) -> int:
    """The power of two that is not larger, within reason."""
    return min(_LARGEST, max(_SMALLEST, 1 << (max(1, size).bit_length() - 1)))


def _lanes(target: Target) -> int:
    return max(1, target.vector_bits // 32)


def _most_a_second(function: CompiledFunction, *arguments: object) -> float:
    """How many repetitions a second a kernel does in its best row."""
    repeat = 1
    seconds = function.run_in_a_row([*arguments, repeat])
    while seconds < _ROW_SECS:
        repeat *= 2 if seconds > _ROW_SECS / 4 else 4
        seconds = function.run_in_a_row([*arguments, repeat])
    rows = [seconds, *(function.run_in_a_row([*arguments, repeat]) for _ in range(_ROWS - 1))]
    return repeat / min(rows)


@functools.lru_cache(maxsize=4)
def _kernels(target: Target) -> Module:
    lanes, cores = _lanes(target), target.num_cores
    sizes = {
        "lanes": lanes,
        "cores": cores,
        "vectors": _VECTORS,
        "sums": _SUMS,
        "steps": _LARGEST // (4 * cores * _SUMS * lanes),
    }
    return build(from_source(_SOURCE.format(**sizes)), target)


_SOURCE = """
@I.ir_module
class Kernels:
    @T.prim_func
    def arithmetic(
        x: T.Buffer((1,)), out: T.Buffer(({cores}, {vectors} * {lanes})), repeat: T.int32
    ):
        for core in T.parallel({cores}):
            with T.block("chains"):
                c = T.axis.spatial({cores}, core)
                chains = T.alloc_buffer(({vectors}, {lanes}), scope="local")
                for v in T.unroll({vectors}):
                    for l in T.vectorized({lanes}):
                        chains[v, l] = x[0]
                for _ in range(repeat):
                    for v in T.unroll({vectors}):
                        for l in T.vectorized({lanes}):
                            chains[v, l] = chains[v, l] * x[0] + x[0]
                for v in T.unroll({vectors}):
                    for l in T.vectorized({lanes}):
                        out[c, v * {lanes} + l] = chains[v, l]

    @T.prim_func
    def reading(
        memory: T.Buffer(({cores}, {steps}, {sums} * {lanes})),
        out: T.Buffer(({cores}, {sums} * {lanes})),
        count: T.int32,
        repeat: T.int32,
    ):
        for core in T.parallel({cores}):
            with T.block("sums"):
                c = T.axis.spatial({cores}, core)
                sums = T.alloc_buffer(({sums}, {lanes}), scope="local")
                for v in T.unroll({sums}):
                    for l in T.vectorized({lanes}):
                        sums[v, l] = T.float32(0)
                for _ in range(repeat):
                    for i in range(count):
                        for v in T.unroll({sums}):
                            for l in T.vectorized({lanes}):
                                sums[v, l] = sums[v, l] + memory[c, i, v * {lanes} + l]
                for v in T.unroll({sums}):
                    for l in T.vectorized({lanes}):
                        out[c, v * {lanes} + l] = sums[v, l]
"""


@dataclass(frozen=True)
class Roofline:
    """The least time that a program takes, and what that time goes into."""

    seconds: float
    bound: str  # "compute" or "memory"

    def share(self, measured: float | None) -> float | None:
        """How much of what is possible a measured time makes use of.

        Never more than all of it: what was done is possible. A kernel that seems faster skips
        operations that were counted, or ran in a better moment than the peaks.
        """
        return None if not measured else min(1.0, self.seconds / measured)


def roofline_of(
    mod: IRModule, target: Target | None, peaks: Peaks | None = None
) -> Roofline | None:
    """The roofline of a program; None where the figures of the machine are not known.

    Without peaks that were measured those count that the target is built for.
    """
    if target is None or not (target.is_cpu or target.kind.name == "cuda"):
        return None
    dtypes, size = [info.dtype for info in args_info_of(mod)], bytes_of(mod)
    if target.is_cpu:
        known = peaks if peaks and target.cpu.is_host else BuiltFor(target)
        factor = operations_per_cycle(target, dtypes) / operations_per_cycle(target)
        rate, bandwidth = known.operations() * factor, known.bandwidth(size)
    else:
        gpu = GpuPeaks(target)
        rate, bandwidth = gpu.operations(dtypes), gpu.bandwidth(size)
    compute, memory = flop_of(mod) / rate, size / bandwidth
    return Roofline(max(compute, memory), "compute" if compute >= memory else "memory")


def bytes_of(mod: IRModule) -> int:
    """The size of all arguments of a program."""
    return sum(math.prod(info.shape) * DType(info.dtype).bits // 8 for info in args_info_of(mod))
