"""Runs kernels with all threads of all blocks in step, and watches shared memory.

A value has one entry a thread; what a condition keeps out is masked. That threads run in step hides
no missing barrier: whoever touches a byte of shared memory that another thread touched since the
last barrier, one of both writing, is an error, and so is a barrier that not all threads of a block
reach. Asynchronous copies land where they are waited for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tilewright import ir
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.oracle.arithmetic import constant
from tilewright.testing.simt.bank_conflicts import BankConflicts
from tilewright.testing.simt.matrices import WARP, WMMA
from tilewright.testing.simt.mma import MMA
from tilewright.testing.simt.threads import (
    MANY,
    Array,
    LockstepThreads,
    RaceError,
    ThreadMemory,
    Value,
    Wait,
    Watch,
    address_taken,
    scope_of,
)

_INSTRUCTIONS = {**WMMA, **MMA}
TAGS = ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y", "threadIdx.x")


class KernelInStep(LockstepThreads):
    """A launch of a kernel."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        params: Mapping[ir.Var, Any],
        conflicts: BankConflicts | None = None,
    ) -> None:
        shape = tuple(sizes.get(tag, 1) for tag in TAGS)
        per_block = math.prod(shape[3:])
        places = dict(zip(TAGS, np.indices(shape).reshape(6, -1), strict=True))
        super().__init__(places, per_block)
        self._block = np.arange(self._count) // per_block
        self._epoch = 0
        self._conflicts = conflicts
        self._landing: list[tuple[ThreadMemory, ir.DType, Array, Array, Array]] = []
        self._groups: list[int] = []
        self.shapes: dict[ir.Var, tuple[int, int]] = {}  # of fragments
        self.bind(params)

    def execute(self, stmt: ir.Stmt) -> None:
        """Run the body of the kernel."""
        for wait in self.steps(stmt):
            raise RaceError(f"threads in step cannot wait for {wait.reason()}")

    def allocate(self, node: ir.Allocate) -> None:
        """Shared memory has a row a block, fragments one a warp."""
        scope = scope_of(node).partition(".")[0]
        if scope not in ("shared", "wmma"):
            self.allocate_registers(node)
            return
        warp = self._block * -(-self._per_block // WARP) + self._thread // WARP
        row_of = self._block if scope == "shared" else warp
        size = int(self.value(node.extents[0])) * to_numpy(node.dtype).itemsize
        shape = (row_of[-1] + 1, size)
        watch = Watch(shape) if scope == "shared" else None
        rows = np.full(shape, 0xAB, np.uint8)
        memory = ThreadMemory(node.buffer_var.name, rows, row_of, watch)
        self._memory.setdefault(node.buffer_var, memory)  # what a loop left stays there

    def evaluate(self, call: ir.Call, name: str) -> Iterator[Wait]:
        """Barriers and copies; none makes the threads wait."""
        yield from ()
        match name.rstrip("0123456789"):
            case "tvm_storage_sync":
                self._barrier(call)
            case "ptx_cp_async":
                self._copy(call)
            case "ptx_commit_group" | "tw_copy_commit":
                self._groups.append(len(self._landing))
            case "ptx_wait_group":
                self._land(int(self.value(call.args[0])))
            case "tw_copy_wait_":
                self._land(int(name.rpartition("_")[2]))
            case "tw_copy_async_":
                self._copy_bytes(call, int(name.rpartition("_")[2]))
            case "tw_wait_for_previous_grid" | "tw_launch_next_grid":
                pass  # kernels run one after another
            case known if known in _INSTRUCTIONS:
                _INSTRUCTIONS[known](self, call)
            case _:
                self.value(call)

    def lanes(self) -> Array:
        """The place of each thread in its warp; all threads of a warp have to be here."""
        warps = self._mask.reshape(-1, math.gcd(WARP, self._per_block))
        if self._per_block % WARP or np.any(warps.any(axis=1) != warps.all(axis=1)):
            raise RaceError("some threads of a warp do not reach a matrix instruction")
        return self._thread % WARP

    def _barrier(self, call: ir.Call) -> None:
        blocks = self._mask.reshape(-1, self._per_block)
        if not np.all(blocks.all(axis=1) | ~blocks.any(axis=1)):
            raise RaceError("some threads of a block do not reach a barrier")
        if isinstance(call.args[0], ir.StringImm) and call.args[0].value != "warp":
            self._epoch += 1

    # --- asynchronous copies -------------------------------------------------------------------

    def _copy(self, call: ir.Call) -> None:
        target, at, source, start, length = call.args[:5]
        assert isinstance(target, ir.Var)
        assert isinstance(source, ir.Var)
        dtype = call.dtype
        count = int(self.value(length)) // to_numpy(dtype).itemsize
        valid = self.value(call.args[5]) if len(call.args) > 5 else True
        places = (self._lanes(at, count), self._lanes(start, count))
        self._start_copy((self._memory[target], self._memory[source]), dtype, places, valid)

    def _copy_bytes(self, call: ir.Call, size: int) -> None:
        """A copy between addresses; zeros where it has no valid bytes."""
        target, source = (address_taken(arg) for arg in call.args[1:3])
        dtype, valid = target.buffer.dtype, np.asarray(self.value(call.args[3]))
        if np.any((valid != 0) & (valid != size)):
            raise RaceError(f"a copy of {size} bytes has some that are not valid")
        count = size // to_numpy(dtype).itemsize
        places = (self._lanes(target.indices[0], count), self._lanes(source.indices[0], count))
        if np.any(places[0][self._mask][:, 0] % count):
            raise RaceError(f"a copy of {size} bytes does not begin at a multiple of them")
        memories = self._memory[target.buffer.data], self._memory[source.buffer.data]
        self._start_copy(memories, dtype, places, valid != 0)

    def _lanes(self, first: ir.PrimExpr, count: int) -> Array:
        return self._spread(self.value(first), 1) + np.arange(count)

    def _start_copy(
        self,
        memories: tuple[ThreadMemory, ThreadMemory],
        dtype: ir.DType,
        places: tuple[Array, Array],
        valid: Value,
    ) -> None:
        (into, source), (to, origin) = memories, places
        taken = self._mask & valid
        values = np.zeros(to.shape, to_numpy(dtype))
        values[taken] = source.view(dtype)[source.row_of[taken][:, None], origin[taken]]
        self._notice("copy", into, dtype, to, self._mask)
        self._touch(into, dtype, to, write=True)
        into.view(dtype)[into.row_of[self._mask][:, None], to[self._mask]] = constant(
            77, dtype
        )  # nobody may rely on what is there until it is waited for
        self._landing.append((into, dtype, to, values, self._mask.copy()))

    def _land(self, pending: int) -> None:
        """The copies of all groups but the newest are there, and seen by their own threads."""
        groups = self._groups
        done = groups[-1 - pending] if len(groups) > pending else 0
        outside = self._mask
        for memory, dtype, to, values, mask in self._landing[:done]:
            self._mask = mask
            rows = memory.row_of[mask][:, None]
            memory.view(dtype)[rows, to[mask]] = values[mask]
            self._touch(memory, dtype, to, write=True, checked=False)
        self._mask = outside
        self._landing = self._landing[done:]
        self._groups = [group - done for group in groups if group > done]

    # --- banks ---------------------------------------------------------------------------------

    def notice_rows(self, var: ir.Var, dtype: ir.DType, rows: Array, count: int) -> None:
        """`ldmatrix` takes `count` times 8 rows of 16 bytes, one a thread."""
        is_used = self._mask & (self._thread % WARP < 8 * count)
        self._notice("ldmatrix", self._memory[var], dtype, rows[:, None], is_used)

    def _store(self, node: ir.BufferStore) -> None:
        if self._conflicts is not None:
            self._notice_access("store", node)
        super()._store(node)

    def _load(self, node: ir.BufferLoad) -> Value:
        if self._conflicts is not None:
            self._notice_access("load", node)
        return super()._load(node)

    def _notice_access(self, kind: str, node: ir.BufferLoad | ir.BufferStore) -> None:
        index = self._spread(self.value(node.indices[0]), node.indices[0].dtype.lanes)
        memory = self._memory[node.buffer.data]
        self._notice(kind, memory, node.buffer.dtype, index, self._mask)

    def _notice(
        self, kind: str, memory: ThreadMemory, dtype: ir.DType, index: Array, active: Array
    ) -> None:
        if self._conflicts is None or memory.watch is None:
            return
        if self._per_block % WARP:
            raise RaceError(f"{self._per_block} threads of a block are no whole number of warps")
        size = to_numpy(dtype).itemsize
        width = 16 if kind == "ldmatrix" else index.shape[1] * size
        self._conflicts.note(kind, index[:, 0].astype(np.int64) * size, width, active)

    # --- who touches what ----------------------------------------------------------------------

    def _touch(
        self,
        memory: ThreadMemory,
        dtype: ir.DType,
        index: Array,
        *,
        write: bool,
        checked: bool = True,
    ) -> None:
        super()._touch(memory, dtype, index, write=write)
        watch = memory.watch
        if watch is None:
            return
        size, used = to_numpy(dtype).itemsize, index[self._mask]
        if not used.size:
            return
        at = (used[:, :, None] * size + np.arange(size)).reshape(len(used), -1)
        rows = np.broadcast_to(memory.row_of[self._mask][:, None], at.shape)
        me = np.broadcast_to(self._thread[self._mask][:, None], at.shape)
        if checked:
            self._check(memory, rows, at, me, write)
        if write:
            watch.writer[rows, at], watch.written[rows, at] = me, self._epoch
            if checked and np.any(watch.writer[rows, at] != me):
                raise RaceError(f"two threads write to one element of {memory.name} at once")
            return
        fresh = watch.read[rows, at] != self._epoch
        other = ~fresh & (watch.reader[rows, at] != me)
        watch.reader[rows, at] = np.where(other, MANY, me)
        many = watch.reader[rows, at] != me
        watch.reader[rows[many], at[many]] = MANY
        watch.read[rows, at] = self._epoch

    def _check(self, memory: ThreadMemory, rows: Array, at: Array, me: Array, write: bool) -> None:
        watch = memory.watch
        assert watch is not None
        recent = watch.written[rows, at] == self._epoch
        if np.any(recent & (watch.writer[rows, at] != me)):
            what = "writes" if write else "reads"
            raise RaceError(
                f"a thread {what} {memory.name} where another wrote, without a barrier between them"
            )
        seen = watch.read[rows, at] == self._epoch
        if write and np.any(seen & (watch.reader[rows, at] != me)):
            raise RaceError(
                f"a thread writes {memory.name} where another read, without a barrier between them"
            )
