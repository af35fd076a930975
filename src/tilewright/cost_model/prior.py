"""An estimate of a candidate on a CPU, from its loops alone: the prior of the learned models.

For each nest: the instructions of its innermost part (the unrolled and vectorised loops), the
latency of its accumulators, the bytes that move between the caches, and how well its tasks fill the
cores. Rough in absolute terms; what counts is that it ranks candidates before any is measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.cost_model.gpu_prior import estimate_on_gpu
from tilewright.cost_model.vta_prior import estimate_on_vta
from tilewright.ir import DType, ForKind, PrimFunc, Var, annotation_keys as keys
from tilewright.nest.access import LINE, MemoryAccess
from tilewright.nest.loops import Loop
from tilewright.nest.nests import StoreNest, nests_in
from tilewright.nest.reading import Reading, read
from tilewright.records import Candidates, MeasureCandidate, entry_function
from tilewright.space.base import TaskContext
from tilewright.space.cpu.cpu_rule import VectorShape
from tilewright.space.layout_free import has_bound_weights
from tilewright.target import Target

_SERIAL, _PARALLEL, _VECTORIZED = ForKind.SERIAL, ForKind.PARALLEL, ForKind.VECTORIZED
SCALARS_PER_CYCLE = 3.0
TILE_SCOPES = "amx"  # of buffers that are registers for tiles
# Lines that lie a multiple of `CACHE_WAY_BYTES` apart share a place in the first cache, which has
# a few such places; what was pushed out of it comes from the second one.
CACHE_WAY_BYTES = 4096
CONFLICT_CYCLES = 0.5
L2_WAY_BYTES = 65536
# Rows that lie a multiple of this apart use a small part of a cache.
FAR_BYTES = 2048


@dataclass(frozen=True)
class Machine:
    """The figures of a processor that the prior needs."""

    cores: int
    vector_bytes: int
    registers: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    hertz: float = 3.5e9
    latency: float = 4.0  # of a multiply-add
    l2_bytes_per_cycle: float = 24.0
    l3_bytes_per_cycle: float = 8.0
    memory_bytes_per_cycle: float = 4.0
    region_seconds: float = 1.0e-6  # to start and join a parallel loop
    vectors_per_cycle: float = 1.0  # that are multiplied and added, or loaded

    @staticmethod
    def of(target: Target | None) -> Machine:
        """The figures of a target; those of a common machine if nothing is known."""
        if target is None or not target.is_cpu:
            return Machine(1, 32, 16, 32 << 10, 1 << 20, 8 << 20)
        caches = target.cpu.caches
        vectors = VectorShape.of(target)
        return Machine(
            max(1, target.num_cores),
            vectors.bits // 8,
            vectors.registers,
            caches.l1d_bytes,
            caches.l2_bytes,
            caches.l3_bytes,
            vectors_per_cycle=1.0 if _halves_wide_vectors(target) else 2.0,
        )


class AnalyticPrior:
    """Predicts the running time of candidates without running anything."""

    def score(self, context: TaskContext, candidates: Candidates) -> npt.NDArray[np.float64]:
        """The logarithm (base 2) of the seconds that each candidate would take."""
        target: Target | None = getattr(context, "target", None)
        seconds = [_seconds_of(candidate, target) for candidate in candidates]
        return np.log2(np.array(seconds, np.float64))


def _seconds_of(candidate: MeasureCandidate, target: Target | None) -> float:
    func = entry_function(candidate.sch.mod)
    reading = candidate.reading_of(func)
    if target is not None and target.kind.name == "cuda":
        return estimate_on_gpu(func, target, reading)
    if target is not None and target.kind.name == "vta":
        return estimate_on_vta(func, target)
    return estimate(func, Machine.of(target), reading)


def estimate(func: PrimFunc, machine: Machine, reading: Reading | None = None) -> float:
    """Seconds that one run of a scheduled function takes, roughly."""
    total = 1e-7
    regions: set[Var] = set()
    packed_before = has_bound_weights(func)
    for nest in nests_in(reading or read(func)):
        if nest.packs_weights and packed_before:
            continue
        costs = _NestCost(nest, machine)
        total += costs.seconds()
        region = costs.parallel_loop
        if region is not None and region.var not in regions:
            regions.add(region.var)
            total += machine.region_seconds * costs.times_region_starts
    return total


class _NestCost:
    """The cost of one nest."""

    def __init__(self, nest: StoreNest, machine: Machine) -> None:
        self._nest = nest
        self._machine = machine
        self._loops = [loop for loop in nest.loops if loop.extent > 1]
        self._vector, self._lanes = self._find_vector()
        self._inner = self._written_out()
        self._outer = self._loops[: len(self._loops) - len(self._inner)]
        self._unrolled = [loop for loop in self._inner if loop is not self._vector]

    # --- the loops ------------------------------------------------------------------------------

    def _find_vector(self) -> tuple[Loop | None, int]:
        if vectors := [loop for loop in self._loops if loop.kind is _VECTORIZED]:
            return vectors[-1], vectors[-1].extent
        marked = [
            loop.annotation(keys.VECTOR_REDUCTION) for loop in self._loops if loop.annotations
        ]
        width = max(marked, default=0)
        if width and self._loops[-1].extent >= width:
            return self._loops[-1], width
        return None, 1

    def _written_out(self) -> list[Loop]:
        """The loops at the inside that are unrolled or part of a vector."""
        limit = max((loop.unroll_step for loop in self._nest.loops), default=0)
        found: list[Loop] = []
        steps = 1
        for loop in reversed(self._loops):
            if loop.kind is _SERIAL and loop is not self._vector:
                steps *= loop.extent
                if steps > limit:
                    break
            elif loop.kind is _PARALLEL:
                break
            found.append(loop)
        return found

    @property
    def parallel_loop(self) -> Loop | None:
        """The loop whose iterations run on all cores."""
        return next((loop for loop in self._loops if loop.kind is _PARALLEL), None)

    @property
    def times_region_starts(self) -> int:
        """How often that loop is started."""
        count = 1
        for loop in self._loops:
            if loop.kind is _PARALLEL:
                break
            count *= loop.extent
        return count

    # --- costs ----------------------------------------------------------------------------------

    def seconds(self) -> float:
        """All parts together, on all cores that the nest can use."""
        repeats = math.prod(loop.extent for loop in self._outer) * self._nest.share
        if self._vector is not None and self._vector.extent > self._lanes:
            repeats *= math.ceil(self._vector.extent / self._lanes)
        compute = repeats * self._cycles_inside()
        traffic = self._traffic_cycles()
        cycles = max(compute, *traffic) + 0.3 * sum(sorted([compute, *traffic])[:-1])
        return cycles / self._machine.hertz / self._speed_up()

    def _speed_up(self) -> float:
        loop = self.parallel_loop
        if loop is None:
            return 1.0
        cores = min(self._machine.cores, loop.extent)
        return loop.extent / math.ceil(loop.extent / cores)

    def _registers(self, access: MemoryAccess) -> float:
        """Vector registers (or scalars) that one position of the unrolled loops needs."""
        if self._vector is None or not access.depends_on(self._vector):
            return 1.0
        bytes_ = self._lanes * access.element_bytes
        return math.ceil(bytes_ / self._machine.vector_bytes)

    def _instructions(self, access: MemoryAccess) -> float:
        """Loads or stores of an access for one pass through the written-out loops."""
        distinct = math.prod([loop.extent for loop in self._unrolled if access.depends_on(loop)])
        if access.buffer.scope.startswith(TILE_SCOPES):
            return distinct  # stays in registers of its own
        if access.unit_bytes * 2 >= self._machine.vector_bytes:
            return distinct * math.ceil(access.unit_bytes / self._machine.vector_bytes)
        if self._vector is None or not access.depends_on(self._vector):
            return distinct * 0.5  # a broadcast, of which two are done in a cycle
        if abs(access.stride(self._vector) or 0) == 1:
            return distinct * self._registers(access)
        return distinct * self._lanes * 1.5  # gathered or scattered

    def _conflicts(self, access: MemoryAccess) -> float:
        """Loads of evicted lines, since the rows of a tile share too few sets of the cache."""
        if access.buffer.scope.startswith(("local", TILE_SCOPES)):
            return 0.0
        ways = self._machine.l1_bytes // CACHE_WAY_BYTES
        if all([loop.extent <= ways for loop in self._unrolled]):
            return 0.0
        moving = [loop for loop in self._unrolled if access.depends_on(loop)]
        for loop in moving:
            stride = abs(access.stride(loop) or 0) * access.element_bytes
            places = CACHE_WAY_BYTES // math.gcd(stride, CACHE_WAY_BYTES)
            if stride >= LINE and loop.extent > places * ways:
                return math.prod([loop.extent for loop in moving])
        return 0.0

    def _cycles_inside(self) -> float:
        """Cycles of one pass through the written-out loops."""
        nest = self._nest
        unrolled = math.prod([loop.extent for loop in self._unrolled])
        vectors = self._registers(nest.store)
        if self._vector is not None and not nest.store.depends_on(self._vector):
            width = self._lanes * nest.store.element_bytes
            vectors = math.ceil(width / self._machine.vector_bytes)
        arithmetic = unrolled * vectors * nest.operations
        if self._vector is None:
            arithmetic /= SCALARS_PER_CYCLE
        loads = sum(map(self._instructions, nest.loads))
        stores = self._instructions(nest.store)
        cycles = max(max(arithmetic, loads) / self._machine.vectors_per_cycle, 1.0)
        cycles += CONFLICT_CYCLES * sum(map(self._conflicts, nest.loads))
        if not nest.is_reduction:
            return max(cycles, stores) + 1.0
        return self._with_accumulators(cycles, unrolled * vectors, stores) + 1.0

    def _with_accumulators(self, cycles: float, steps: float, stores: float) -> float:
        """Accumulators stay in registers, if they fit and do not move with the loop outside."""
        accumulators = max(1.0, stores)
        if self._vector is not None and not self._nest.store.depends_on(self._vector):
            accumulators = max(1.0, self._lanes * 4 / self._machine.vector_bytes)
        chain = max(1.0, steps / accumulators)
        cycles = max(cycles, self._machine.latency * chain)
        innermost = self._outer[-1] if self._outer else None
        stays = innermost is None or not self._nest.store.depends_on(innermost)
        if stays and accumulators <= self._machine.registers - 3:
            return cycles
        return max(cycles, 2.0 * accumulators) + accumulators

    def _traffic_cycles(self) -> list[float]:
        """Cycles for the bytes that come from the second cache, the third, and memory."""
        machine = self._machine
        accesses = [
            access
            for access in (self._nest.store, *self._nest.loads)
            if not access.buffer.scope.startswith(("local", TILE_SCOPES))
        ]
        # Of each access, the bytes that it touches below each depth (0: the whole nest).
        touched = [access.footprints(self._loops) for access in accesses]
        sizes = _sums(touched) or [0] * (len(self._loops) + 1)
        rows = [
            _Rows(access, own, self._loops, self._vector)
            for access, own in zip(accesses, touched, strict=True)
        ]
        levels = (
            (machine.l1_bytes, CACHE_WAY_BYTES, machine.l2_bytes_per_cycle),
            (machine.l2_bytes, L2_WAY_BYTES, machine.l3_bytes_per_cycle),
            (machine.l3_bytes, 0, machine.memory_bytes_per_cycle),
        )
        return [self._traffic(sizes, rows, size, way) / speed for size, way, speed in levels]

    def _traffic(
        self, sizes: Sequence[float], rows: Sequence[_Rows], capacity: int, way: int
    ) -> float:
        """Bytes that enter a cache: what fits stays, all else comes again in every iteration."""
        times, most = 1.0, 0.75 * capacity
        for depth, below in enumerate(sizes):
            if below <= most:
                lost = sum([each.lost(depth, capacity, way) for each in rows]) if way else 0.0
                if below + lost <= most:
                    return times * below if depth else 0.0
            if depth < len(self._loops):
                times *= self._loops[depth].extent
        return times * sizes[-1] if self._loops else 0.0


class _Rows:
    """The rows of a buffer that an access touches below each depth of a nest."""

    __slots__ = ("_access", "_found", "_loops", "_touched", "_vector")

    def __init__(
        self,
        access: MemoryAccess,
        touched: Sequence[int],
        loops: Sequence[Loop],
        vector: Loop | None,
    ) -> None:
        self._access = access
        self._touched = touched  # bytes, below each depth
        self._loops = loops
        self._vector = vector
        # Width and distance (0: one row), the innermost depth first, as far as they were asked for.
        self._found = [(access.element_bytes, 0)]

    def lost(self, depth: int, capacity: int, way: int) -> float:
        """Bytes of a cache that nothing can use while what is touched below a depth is there."""
        size = self._touched[depth]
        if size * way <= LINE * capacity:
            return 0.0  # even rows of a line each have room
        width, apart = self._below(depth)
        part = min(1.0, max(width, LINE) / math.gcd(apart, way)) if apart else 1.0
        return size / part - size if size > part * capacity else 0.0

    def _below(self, depth: int) -> tuple[int, int]:
        """The width of a row below a depth, and a divisor of the distances between rows."""
        found = self._found
        while len(found) <= len(self._loops) - depth:
            width, apart = found[-1]
            found.append(self._with_loop(self._loops[-len(found)], width, apart))
        return found[len(self._loops) - depth]

    def _with_loop(self, loop: Loop, width: int, apart: int) -> tuple[int, int]:
        """The same once a loop runs; other cores have caches of their own."""
        size = self._access.element_bytes
        stride = 0 if loop.kind is _PARALLEL else abs(self._access.stride(loop) or 0) * size
        if loop is self._vector:
            return width + (stride * (loop.extent - 1) if stride == size else 0), apart
        if stride % FAR_BYTES:
            return width + stride * (loop.extent - 1), apart
        return width, math.gcd(apart, stride)


def _sums(rows: Sequence[Sequence[float]]) -> list[float]:
    return list(map(sum, zip(*rows, strict=True)))


_PER_LANE = 4.0  # two multiply-adds
# Processors that do one multiply-add of 512 bits a cycle: two halves of it, or one unit for it.
_HALF_AS_MANY_IF_WIDE = frozenset({"znver4", "icelake-client", "rocketlake", "tigerlake"})

# What instructions for narrow types make of it: a feature of the CPU ("": any CPU), and how many
# times the operations of single precision that is. The first that fits counts.
_NARROW: Mapping[str, Sequence[tuple[str, float]]] = {
    **dict.fromkeys(("int8", "uint8"), (("amx-int8", 32.0), ("i8mm", 8.0), ("", 4.0))),
    **dict.fromkeys(("int16", "uint16"), (("", 2.0),)),
    "bfloat16": (("amx-bf16", 16.0), ("bf16", 4.0), ("avx512bf16", 2.0)),
    "float16": (("amx-fp16", 16.0), ("avx512fp16", 2.0), ("fullfp16", 2.0)),
}


def operations_per_cycle(target: Target, dtypes: Sequence[str] = ()) -> float:
    """Operations of one core on data of these types; of single precision without any."""
    single = target.vector_bits / 32 * _PER_LANE / (2 if _halves_wide_vectors(target) else 1)
    return single * max((_factor(target, dtype) for dtype in dtypes), default=1.0)


def _halves_wide_vectors(target: Target) -> bool:
    return target.vector_bits >= 512 and target.mcpu in _HALF_AS_MANY_IF_WIDE


def operations_per_second(target: Target, dtypes: Sequence[str] = ()) -> float:
    """The same for all cores together, in a second."""
    machine = Machine.of(target)
    return machine.cores * operations_per_cycle(target, dtypes) * machine.hertz


def _factor(target: Target, dtype: str) -> float:
    """Operations on a type for each one on single precision."""
    for feature, factor in _NARROW.get(dtype, ()):
        if not feature or feature in target.features:
            return factor
    return 32 / max(32, DType(dtype).bits)
