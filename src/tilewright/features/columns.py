"""The columns of a store's row, group by group, before they are put on a logarithmic scale.

`names` says what each column is. All values are plain numbers; the flags are 0 or 1, which the
scale (`log2(|x| + 1)`) leaves as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import prod

from tilewright.features.access_pattern import BufferUse, Footprints, Reuse, buffer_uses
from tilewright.features.store_value import NUM_COUNTS, NUM_KINDS, Counts, count_index
from tilewright.features.stores import Store, StoreReader
from tilewright.ir import ForKind
from tilewright.nest.index_reader import Indices
from tilewright.nest.loops import Loop

_OPERATIONS = ("mad", "addsub", "mul", "divmod", "cmp", "mathfunc", "otherfunc")
_POSITIONS = (
    "kPosNone",
    *(f"kPos{at}{of}" for of in ("Spatial", "Reduce") for at in ("Inner", "Middle", "Outer")),
    "kPosMixed",
)
_KINDS = {"vec": ForKind.VECTORIZED, "unroll": ForKind.UNROLLED, "parallel": ForKind.PARALLEL}
_THREADS = tuple(f"{of}Idx.{axis}" for of in ("block", "thread") for axis in "xyz")
_SIZES = ("bytes", "unique_bytes", "lines", "unique_lines")
_BUFFER_COLUMNS = (
    *(f"acc_type.k{kind}" for kind in ("Read", "Write", "ReadWrite")),
    *_SIZES,
    *(f"reuse_type.k{kind}" for kind in ("LoopMultipleRead", "SerialMultipleReadWrite", "NoReuse")),
    *("reuse_dis_iter", "reuse_dis_bytes", "reuse_ct"),
    *(f"{size}_d_reuse_ct" for size in _SIZES),
    "stride",
)
_TAIL = (
    *("alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod"),
    *("outer_prod", "num_loops", "auto_unroll_max_step"),
)


@dataclass(frozen=True)
class Layout:
    """How many columns of each kind there are."""

    buffers: int
    curve_samples: int
    cache_line_bytes: int
    is_gpu: bool


def names(buffers: int, curve_samples: int) -> list[str]:
    """The names of the columns, in order."""
    return [
        *(f"{group}_{operation}" for group in ("float", "int") for operation in _OPERATIONS),
        "bool_op",
        "select_op",
        *(
            f"{kind}_{column}"
            for kind in _KINDS
            for column in ("num", "prod", "len", *(f"type.{name}" for name in _POSITIONS))
        ),
        "is_gpu",
        *(f"{tag.replace('.', '_')}_len" for tag in _THREADS),
        "vthread_len",
        *(f"B{number}.{column}" for number in range(buffers) for column in _BUFFER_COLUMNS),
        *(f"arith_intensity_curve_{number}" for number in range(curve_samples)),
        *_TAIL,
    ]


class RowMaker:
    """Makes the rows of one function, store by store, in program order."""

    def __init__(self, layout: Layout, found: StoreReader) -> None:
        self._layout = layout
        self._placements = found.placements
        self._footprints = Footprints(found.reader, found.placements)

    def row(self, store: Store) -> list[float]:
        loops, layout = store.loops, self._layout
        iterations = prod([loop.iterations for loop in loops])
        uses, loads = buffer_uses(store, self._placements)
        bytes_under = self._footprints.measure(uses, loops)
        counts = _counts(store, loads)
        row: list[float] = [float(count * iterations) for count in counts]
        for kind in _KINDS.values():
            row += _loop_kind(loops, kind)
        row += _threads(loops, layout.is_gpu)
        row += self._buffers(uses, loops, iterations)
        operations = sum(counts[:NUM_KINDS])
        row += _intensity_curve(operations, loops, bytes_under, layout.curve_samples)
        row += self._allocation(uses[0], iterations)
        steps = next((loop.unroll_step for loop in reversed(loops) if loop.unroll_step > 0), 0)
        row += (float(iterations), float(len(loops)), float(steps))
        return row

    def _buffers(
        self, uses: list[BufferUse], loops: tuple[Loop, ...], iterations: int
    ) -> list[float]:
        columns = []
        for use in uses:
            reuse = self._footprints.reuse(use, uses, loops)
            columns.append((use, self._buffer(use, reuse, loops, iterations)))
        # Most lines first, then most bytes, then by name.
        columns.sort(key=lambda item: (-item[1][5], -item[1][3], item[0].buffer.name))
        width = len(_BUFFER_COLUMNS)
        flat = [value for _, column in columns[: self._layout.buffers] for value in column]
        return flat + [0.0] * (width * self._layout.buffers - len(flat))

    def _buffer(
        self, use: BufferUse, reuse: Reuse, loops: tuple[Loop, ...], iterations: int
    ) -> list[float]:
        line = self._layout.cache_line_bytes
        total = float(iterations * use.itemsize)
        unique = float(use.numel * use.itemsize) if loops else 1.0
        stride, inner_stride, skipped = self._strides(use, loops)
        lines = max(1.0, iterations / max(1, skipped) * min(1.0, stride * use.itemsize / line))
        unique_lines = max(1.0, unique / min(line, _contiguous_bytes(use)))
        sizes = (total, unique, lines, unique_lines)
        kind, distance, distance_bytes, count = reuse
        share = count or 0.5
        return [
            *_FLAGS[use.kind],
            *sizes,
            *_FLAGS[kind],
            float(distance),
            float(distance_bytes),
            float(count),
            *[size / share for size in sizes],
            float(inner_stride),
        ]

    def _strides(self, use: BufferUse, loops: tuple[Loop, ...]) -> tuple[int, int, int]:
        """The stride of the innermost loop that moves the buffer, the same if no loop is inside
        that one (else 0), and how many iterations those inside have."""
        skipped = 1
        for loop in reversed(loops):
            stride = use.stride_of(loop.var)
            if stride:
                return stride, stride if loop is loops[-1] else 0, skipped
            skipped *= loop.iterations
        return 0, 0, skipped

    def _allocation(self, own: BufferUse, iterations: int) -> list[float]:
        outer, numel = own.placement.outer_prod, prod(own.placement.shape)
        sizes = numel * own.itemsize, numel * outer, outer
        return [*map(float, sizes), iterations / max(1, outer)]


def _counts(store: Store, loads: list[Indices]) -> Counts:
    counts = list(store.counts)
    for indices in loads:
        for index in indices:
            if index.terms:
                count_index(index, counts)
    return counts


_NO_LOOPS = [0.0, 0.0, 0.0, 1.0, *[0.0] * (len(_POSITIONS) - 1)]
_MIXED = [*[0.0] * (len(_POSITIONS) - 1), 1.0]
_NO_THREADS = [0.0, *[1.0] * (len(_THREADS) + 1)]
_FLAGS = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))  # one of three kinds


def _loop_kind(loops: tuple[Loop, ...], kind: ForKind) -> list[float]:
    """Number, product and innermost length of the loops of a kind, and where they stand."""
    extents = [loop.iterations for loop in loops if loop.kind is kind]
    if not extents:
        return _NO_LOOPS
    return [float(len(extents)), float(prod(extents)), float(extents[-1]), *_MIXED]


def _threads(loops: tuple[Loop, ...], is_gpu: bool) -> list[float]:
    if not is_gpu:
        return _NO_THREADS
    lengths = dict.fromkeys((*_THREADS, "vthread"), 1.0)
    for loop in reversed(loops):
        tag = "vthread" if loop.tag.startswith("vthread") else loop.tag
        if tag in lengths:
            lengths[tag] = float(loop.iterations)
    return [1.0, *lengths.values()]


def _contiguous_bytes(use: BufferUse) -> int:
    for accessed, extent in zip(reversed(use.box), reversed(use.placement.shape), strict=True):
        if accessed == extent:
            return max(1, extent * use.itemsize)
    return 1


def _intensity_curve(
    operations: int, loops: tuple[Loop, ...], bytes_under: list[int], samples: int
) -> list[float]:
    """Operations for each byte touched, while a growing share of the work is done."""
    if operations <= 0 or not loops:
        return [0.0] * samples
    done: list[float] = []
    current = float(operations)
    for loop in reversed(loops):
        current *= loop.iterations
        done.append(current)
    intensity = [work / max(1, size) for work, size in zip(done, bytes_under, strict=True)]
    curve = []
    for sample in range(1, samples + 1):
        goal = sample / samples * done[-1]
        at = bisect_left(done, goal - 1e-4)
        if at == 0:
            curve.append(intensity[0])
            continue
        slope = (intensity[at] - intensity[at - 1]) / (done[at] - done[at - 1])
        curve.append(intensity[at - 1] + slope * (goal - done[at - 1]))
    return curve


assert NUM_COUNTS == 2 * NUM_KINDS + 2
