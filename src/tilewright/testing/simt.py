"""Runs lowered GPU programs on NumPy arrays, all threads in step, and watches shared memory.

A value has one entry a thread; what a condition keeps out is masked. All blocks run at once. That
threads run in step hides no missing barrier: whoever touches a byte of shared memory that another
thread touched since the last barrier, one of both writing, is an error, and so is a barrier that
not all threads of a block reach. Asynchronous copies land where they are waited for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright import ir
from tilewright.errors import TilewrightError
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.oracle.arithmetic import binary_operator, caster, constant, select
from tilewright.testing.oracle.intrinsics import builtin
from tilewright.testing.simt_matrices import FUNCTIONS, INSTRUCTIONS, WARP

Value: TypeAlias = Any  # a NumPy scalar, or an array with one entry, or row of lanes, a thread
Array: TypeAlias = npt.NDArray[Any]
NOBODY, MANY = -1, -2


class RaceError(TilewrightError):
    """Threads that get into each other's way."""


@dataclass
class _Watch:
    """Who touched each byte of shared memory last, and in which interval between barriers."""

    shape: tuple[int, int]
    writer: Array = field(init=False)
    written: Array = field(init=False)
    reader: Array = field(init=False)
    read: Array = field(init=False)

    def __post_init__(self) -> None:
        self.writer, self.reader = (np.full(self.shape, NOBODY) for _ in range(2))
        self.written, self.read = (np.full(self.shape, -1) for _ in range(2))


@dataclass
class _Memory:
    """Bytes: one row for all threads, a block, a warp or a thread."""

    name: str
    rows: Array  # of bytes
    row_of: Array  # the row that each thread uses
    watch: _Watch | None = None

    def view(self, dtype: str) -> Array:
        return self.rows.view(to_numpy(dtype))


def run(module: ir.IRModule, arrays: Sequence[Array], scalars: Sequence[int] = ()) -> None:
    """Call the one function of a lowered module that is no kernel; it writes to its arrays."""
    (host,) = (func for func in module.functions.values() if "calling_conv" not in func.attrs)
    values: dict[ir.Var, Any] = {}
    pending, numbers = list(arrays), list(scalars)
    for param in host.params:
        values[param] = pending.pop(0) if param.dtype.is_handle else numbers.pop(0)
    _Host(module, values).execute(host.body)


@dataclass
class _Host:
    module: ir.IRModule
    values: dict[ir.Var, Any]

    def execute(self, stmt: ir.Stmt) -> None:
        match stmt:
            case ir.SeqStmt():
                for each in stmt.seq:
                    self.execute(each)
            case ir.Allocate():
                size = self._number(stmt.extents[0])
                self.values[stmt.buffer_var] = np.zeros(size, to_numpy(stmt.dtype))
                self.execute(stmt.body)
            case ir.For():
                first = self._number(stmt.min)
                for value in range(first, first + self._number(stmt.extent)):
                    self.values[stmt.loop_var] = value
                    self.execute(stmt.body)
            case ir.LetStmt():
                self.values[stmt.var] = self._number(stmt.value)
                self.execute(stmt.body)
            case ir.Evaluate(value=ir.Call(args=args)):
                self._launch(args)
            case _:
                raise RaceError(f"a host cannot run {type(stmt).__name__}")

    def _number(self, expr: ir.PrimExpr) -> int:
        numbers = {var: ir.const(value) for var, value in self.values.items() if var.dtype.is_int}
        result = ir.substitute(expr, numbers)
        return int(_Kernel({}, 1, {}).value(result))

    def _launch(self, args: Sequence[ir.PrimExpr]) -> None:
        name = args[0]
        assert isinstance(name, ir.StringImm)
        kernel = self.module[name.value]
        tags = kernel.attrs["tir.kernel_launch_params"]
        passed, extents = args[1 : -len(tags)], args[len(args) - len(tags) :]
        bound = {
            param: self.values[arg] if arg.dtype.is_handle else self._number(arg)  # type: ignore[index]
            for param, arg in zip(kernel.params, passed, strict=True)
        }
        sizes = dict(zip(map(str, tags), map(self._number, extents), strict=True))
        blocks = math.prod(size for tag, size in sizes.items() if tag.startswith("blockIdx"))
        _Kernel(sizes, blocks, bound).execute(kernel.body)


_SIZES = ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y", "threadIdx.x")


class _Kernel:
    def __init__(self, sizes: Mapping[str, int], blocks: int, params: Mapping[ir.Var, Any]) -> None:
        shape = tuple(sizes.get(tag, 1) for tag in _SIZES)
        self._count = math.prod(shape)
        self._places = dict(zip(_SIZES, np.indices(shape).reshape(6, -1), strict=True))
        self._per_block = self._count // blocks
        self._block = np.arange(self._count) // self._per_block
        self._thread = np.arange(self._count) % self._per_block
        self._mask = np.ones(self._count, np.bool_)
        self._epoch = 0
        self._landing: list[tuple[_Memory, ir.DType, Array, Array, Array]] = []
        self._groups: list[int] = []
        self.shapes: dict[ir.Var, tuple[int, int]] = {}  # of fragments
        self._values: dict[ir.Var, Value] = {}
        self._memory: dict[ir.Var, _Memory] = {}
        for var, value in params.items():
            if isinstance(value, np.ndarray):
                rows = value.reshape(-1).view(np.uint8).reshape(1, -1)
                self._memory[var] = _Memory(var.name, rows, np.zeros(self._count, np.int64))
            else:
                self._values[var] = constant(value, var.dtype)

    # --- statements ----------------------------------------------------------------------------

    def execute(self, stmt: ir.Stmt) -> None:
        match stmt:
            case ir.SeqStmt():
                for each in stmt.seq:
                    self.execute(each)
            case ir.AttrStmt():
                if isinstance(stmt.node, ir.IterVar):
                    var = stmt.node.var
                    self._values[var] = self._places[stmt.node.thread_tag].astype(
                        to_numpy(var.dtype)
                    )
                self.execute(stmt.body)
            case ir.Allocate():
                self._allocate(stmt)
                self.execute(stmt.body)
            case ir.LetStmt():
                self._values[stmt.var] = self.value(stmt.value)
                self.execute(stmt.body)
            case ir.For():
                self._loop(stmt)
            case ir.IfThenElse():
                self._choose(stmt)
            case ir.BufferStore():
                self._store(stmt)
            case ir.Evaluate():
                self._evaluate(stmt)
            case _:
                raise RaceError(f"{type(stmt).__name__} is left")

    def _allocate(self, node: ir.Allocate) -> None:
        assert node.buffer_var.type_annotation is not None
        scope = node.buffer_var.type_annotation.storage_scope
        size = int(self.value(node.extents[0])) * to_numpy(node.dtype).itemsize
        if scope.startswith("shared"):
            shape = (self._count // self._per_block, size)
            watch = _Watch(shape)
            rows = np.full(shape, 0xAB, np.uint8)
            memory = _Memory(node.buffer_var.name, rows, self._block, watch)
        elif scope == "local":
            rows = np.full((self._count, size), 0xAB, np.uint8)
            memory = _Memory(node.buffer_var.name, rows, np.arange(self._count))
        elif scope.startswith("wmma."):
            warp = self._block * -(-self._per_block // WARP) + self._thread // WARP
            rows = np.full((warp[-1] + 1, size), 0xAB, np.uint8)
            memory = _Memory(node.buffer_var.name, rows, warp)
        else:
            raise RaceError(f"{node.buffer_var.name} is in scope {scope}")
        self._memory.setdefault(node.buffer_var, memory)  # what a loop left stays there

    def _loop(self, node: ir.For) -> None:
        first, count = self.value(node.min), self.value(node.extent)
        outside = self._mask
        for step in range(int(np.max(count, initial=0))):
            self._values[node.loop_var] = first + constant(step, node.loop_var.dtype)
            self._mask = outside & (step < count)
            self.execute(node.body)
        self._mask = outside

    def _choose(self, node: ir.IfThenElse) -> None:
        outside, condition = self._mask, self.value(node.condition)
        for case, mask in ((node.then_case, condition), (node.else_case, ~condition)):
            self._mask = outside & mask
            if case is not None and self._mask.any():
                self.execute(case)
        self._mask = outside

    def _store(self, node: ir.BufferStore) -> None:
        value, lanes = self.value(node.value), node.value.dtype.lanes
        index = self._spread(self.value(node.indices[0]), lanes)
        self.write(node.buffer.data, node.buffer.dtype, index, self._spread(value, lanes))

    def write(self, var: ir.Var, dtype: ir.DType, index: Array, values: Array) -> None:
        """Write one row of elements a thread."""
        memory = self._memory[var]
        self._touch(memory, dtype, index, write=True)
        rows = memory.row_of[self._mask][:, None]
        memory.view(dtype)[rows, index[self._mask]] = values[self._mask]

    def read(self, var: ir.Var, dtype: ir.DType, index: Array) -> Array:
        """The elements at one row of indices a thread."""
        memory = self._memory[var]
        self._touch(memory, dtype, index, write=False)
        safe = np.where(self._mask[:, None], index, 0)
        found: Array = memory.view(dtype)[memory.row_of[:, None], safe]
        return found

    def lanes(self) -> Array:
        """The place of each thread in its warp; all threads of a warp have to be here."""
        warps = self._mask.reshape(-1, math.gcd(WARP, self._per_block))
        if self._per_block % WARP or np.any(warps.any(axis=1) != warps.all(axis=1)):
            raise RaceError("some threads of a warp do not reach a matrix instruction")
        return self._thread % WARP

    def _spread(self, value: Value, lanes: int) -> Array:
        """One row of lanes for each thread."""
        array = np.asarray(value)
        if array.ndim == 1 and lanes == 1:
            array = array[:, None]
        return np.broadcast_to(array, (self._count, lanes))

    def _evaluate(self, node: ir.Evaluate) -> None:
        if not isinstance(node.value, ir.Call) or not isinstance(node.value.op, ir.Op):
            return
        match node.value.op.name:
            case "tir.tvm_storage_sync":
                self._barrier(node.value)
            case "tir.ptx_cp_async":
                self._copy(node.value)
            case "tir.ptx_commit_group":
                self._groups.append(len(self._landing))
            case "tir.ptx_wait_group":
                self._land(int(self.value(node.value.args[0])))
            case "tir.call_extern":
                self._device_function(node.value)
            case name if name in INSTRUCTIONS:
                INSTRUCTIONS[name](self, node.value)
            case _:
                self.value(node.value)

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
        taken = self._mask
        if len(call.args) > 5:
            taken = taken & self.value(call.args[5])
        size = int(self.value(length))
        self._start_copy(call.dtype, size, (target, at), (source, start), taken)

    def _device_function(self, call: ir.Call) -> None:
        """The copies of tile kernels: of 4, 8 or 16 bytes, zeros where no byte is valid."""
        assert isinstance(call.args[0], ir.StringImm)
        name, _, number = call.args[0].value.rpartition("_")
        match name:
            case "tw_copy_async":
                target, source = (_pointed_at(arg) for arg in call.args[1:3])
                places = [(load.buffer.data, load.indices[0]) for load in (target, source)]
                taken = self._mask & (self.value(call.args[3]) > 0)
                self._start_copy(target.dtype, int(number), places[0], places[1], taken)
            case "tw_copy_wait":
                self._land(int(number))
            case "tw_copy":
                self._groups.append(len(self._landing))
            case _:
                raise RaceError(f"cannot compute {name}")

    def _start_copy(
        self,
        dtype: ir.DType,
        size: int,
        target: tuple[ir.Var, ir.PrimExpr],
        source: tuple[ir.Var, ir.PrimExpr],
        taken: Array,
    ) -> None:
        count = size // to_numpy(dtype).itemsize
        lanes = np.arange(count)
        to = self._spread(self.value(target[1]), 1) + lanes
        origin = self._spread(self.value(source[1]), 1) + lanes
        from_memory, into = self._memory[source[0]], self._memory[target[0]]
        values = np.zeros((self._count, count), to_numpy(dtype))
        rows = from_memory.row_of[taken][:, None]
        values[taken] = from_memory.view(dtype)[rows, origin[taken]]
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

    # --- who touches what ----------------------------------------------------------------------

    def _touch(
        self, memory: _Memory, dtype: ir.DType, index: Array, *, write: bool, checked: bool = True
    ) -> None:
        size, length = to_numpy(dtype).itemsize, memory.rows.shape[1]
        used = index[self._mask]
        if used.size and (used.min() < 0 or (used.max() + 1) * size > length):
            raise RaceError(f"an access of {memory.name} is out of bounds")
        watch = memory.watch
        if watch is None or not used.size:
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

    def _check(self, memory: _Memory, rows: Array, at: Array, me: Array, write: bool) -> None:
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

    # --- expressions ---------------------------------------------------------------------------

    def value(self, node: ir.PrimExpr) -> Value:
        match node:
            case ir.IntImm() | ir.FloatImm():
                return constant(node.value, node.dtype)
            case ir.Var():
                return self._values[node]
            case ir.BinaryOp(a=a, b=b):
                return self._binary(node, self.value(a), self.value(b))
            case ir.Not(a=a):
                return ~self.value(a)
            case ir.Cast():
                return caster(node.value.dtype, node.dtype)(np.asarray(self.value(node.value)))
            case ir.Select():
                chosen = self.value(node.condition)
                return select(chosen, self.value(node.true_value), self.value(node.false_value))
            case ir.Let():
                self._values[node.var] = self.value(node.value)
                return self.value(node.body)
            case ir.BufferLoad():
                return self._load(node)
            case ir.Call():
                return self._call(node)
        return self._vector(node)

    def _vector(self, node: ir.PrimExpr) -> Value:
        match node:
            case ir.Ramp():
                base = np.broadcast_to(self.value(node.base), (self._count,))
                return base[:, None] + np.arange(node.lanes) * self.value(node.stride)
            case ir.Broadcast():
                value = np.broadcast_to(self.value(node.value), (self._count,))
                return np.broadcast_to(value[:, None], (self._count, node.lanes))
        raise RaceError(f"cannot compute {node}")

    def _binary(self, node: ir.BinaryOp, a: Value, b: Value) -> Value:
        if isinstance(node, ir.And | ir.Or):
            return a & b if isinstance(node, ir.And) else a | b
        compute = binary_operator(type(node), node.a.dtype)
        assert compute is not None
        with np.errstate(all="ignore"):
            return compute(np.asarray(a), np.asarray(b))

    def _load(self, node: ir.BufferLoad) -> Value:
        lanes = node.dtype.lanes
        index = self._spread(self.value(node.indices[0]), lanes)
        found = self.read(node.buffer.data, node.buffer.dtype, index)
        return found if lanes > 1 else found[:, 0]

    def _call(self, node: ir.Call) -> Value:
        assert isinstance(node.op, ir.Op)
        name = node.op.name.removeprefix("tir.")
        if name == "if_then_else":
            return self._if_then_else(node)
        if name == "likely":
            return self.value(node.args[0])
        if name in ("tvm_warp_shuffle_xor", "tvm_warp_shuffle"):
            return self._shuffled(node)
        if name == "tvm_warp_activemask":
            return constant(0xFFFFFFFF, node.dtype)
        args, compute = node.args, builtin(name, node.args[0].dtype, node.dtype)
        if name == "call_pure_extern" and isinstance(node.args[0], ir.StringImm):
            name, args = node.args[0].value, node.args[1:]
            compute = FUNCTIONS.get(name)
        if compute is None:
            raise RaceError(f"cannot compute {name}")
        with np.errstate(all="ignore"):
            return compute(*(np.asarray(self.value(arg)) for arg in args))

    def _if_then_else(self, node: ir.Call) -> Value:
        """Only threads that choose a value compute it."""
        condition, yes, no = node.args
        chosen = np.broadcast_to(np.asarray(self.value(condition)), (self._count,))
        outside = self._mask
        self._mask = outside & chosen
        first = self.value(yes)
        self._mask = outside & ~chosen
        second = self.value(no)
        self._mask = outside
        return np.where(chosen[:, None] if node.dtype.lanes > 1 else chosen, first, second)

    def _shuffled(self, node: ir.Call) -> Value:
        value = np.broadcast_to(self.value(node.args[1]), (self._count,))
        lane, which = self._thread % 32, self.value(node.args[2])
        partner = lane ^ which if str(node.op).endswith("xor)") else which
        source = np.arange(self._count) - lane + partner
        inside = (self._thread - lane + partner) < self._per_block
        source = np.where(inside, source, np.arange(self._count))
        active = self._mask[source]
        if not np.all(active[self._mask]):
            raise RaceError("a thread takes a value from another that does not run")
        return value[source]


def _pointed_at(pointer: ir.PrimExpr) -> ir.BufferLoad:
    """The element whose address an argument is."""
    assert isinstance(pointer, ir.Call)
    assert isinstance(pointer.args[0], ir.BufferLoad)
    return pointer.args[0]
