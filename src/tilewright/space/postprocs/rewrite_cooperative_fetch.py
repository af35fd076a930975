"""`RewriteCooperativeFetch`: all threads of a block copy inputs together, several elements each.

Tiling only notes on a copy how many elements a thread takes at once, as the number of threads is
not settled before all tiles are. It is found here by reading the trace.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import ir
from tilewright.errors import ScheduleError
from tilewright.ir import annotation_keys as keys
from tilewright.schedule import BlockRV, Schedule
from tilewright.schedule.primitives.annotate import Annotate
from tilewright.schedule.primitives.loop_kind import Bind
from tilewright.space.base import Postproc, TaskContext, postprocs
from tilewright.space.conditions import constant_extent
from tilewright.space.gpu.gpu_limits import WARP_SIZE, gpu_number

# A copy that computes on wider values than this is not vectorised.
WIDEST_BYTES = 4
_FIXED_POINT_OPS = ("tir.q_multiply_shift", "tir.q_multiply_shift_per_axis")
_FIXED_POINT_BYTES = 8


@postprocs.register("RewriteCooperativeFetch")
class RewriteCooperativeFetch(Postproc):
    """Split and bind the loop of every block that is noted to be copied by all threads."""

    def __init__(self) -> None:
        self.thread_warp_size: int | None = None

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        self.thread_warp_size = gpu_number(context.target, WARP_SIZE)

    def apply(self, sch: Schedule) -> bool:
        for block, threads_x, threads_y, lanes in list(self._fetches(sch)):
            _rewrite(sch, block, threads_x, threads_y, lanes)
        return True

    def _fetches(self, sch: Schedule) -> Iterator[tuple[BlockRV, int | None, int | None, int]]:
        """The blocks that copy, with how many threads along x and y, and the lanes of each."""
        threads: dict[str, int | None] = {}
        for inst in sch.trace.insts if sch.trace is not None else ():
            match inst.step:
                case Bind(loop=loop, thread_axis="threadIdx.x" | "threadIdx.y" as axis):
                    threads[axis] = constant_extent(sch.get_sref(loop))
                case Annotate(ann_key=key) if key == keys.WARP_EXECUTION:
                    threads["threadIdx.x"] = self._warp_size()
                case Annotate(block, key, lanes) if key == keys.COOPERATIVE_FETCH:
                    x, y = threads.get("threadIdx.x"), threads.get("threadIdx.y")
                    yield block, x, y, sch.int_of(lanes)  # type: ignore[misc]

    def _warp_size(self) -> int:
        if self.thread_warp_size is None:
            raise ScheduleError(
                "RewriteCooperativeFetch: a block is run by whole warps, but the target does not "
                f"say how many threads those have; add -{WARP_SIZE}=<number>"
            )
        return self.thread_warp_size


def _rewrite(
    sch: Schedule, block: BlockRV, threads_x: int | None, threads_y: int | None, lanes: int
) -> None:
    sch.unannotate(block, keys.COOPERATIVE_FETCH)
    loop = sch.get_loops(block)[-1]
    extent = constant_extent(sch.get_sref(loop))
    if extent is None or threads_x is None:
        return
    body = sch.get_sref(block).block.body
    is_vector = extent % lanes == 0 and max(map(moved_bytes, ir.walk(body))) <= WIDEST_BYTES
    vector = [lanes] if is_vector and lanes > 1 else []
    rows = [] if threads_y is None else [threads_y]
    pieces = sch.split(loop, [None, *rows, threads_x, *vector])
    if vector:
        sch.vectorize(pieces.pop())
    sch.bind(pieces.pop(), "threadIdx.x")
    if rows:
        sch.bind(pieces.pop(), "threadIdx.y")


def moved_bytes(node: ir.Node) -> int:
    """How many bytes a value has that a node moves or converts."""
    match node:
        case ir.BufferStore(value=value):
            return value.dtype.bits // 8
        case ir.BufferLoad() | ir.Cast():
            return node.dtype.bits // 8
        case ir.Call(op=op) if getattr(op, "name", "") in _FIXED_POINT_OPS:
            return _FIXED_POINT_BYTES
    return 0
