"""Values of many threads at once: what their expressions compute, and what memory they see."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright import ir
from tilewright.errors import TilewrightError
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.oracle.arithmetic import (
    INTEGER_DIVISIONS,
    Binary,
    binary_operator,
    caster,
    constant,
    select,
)
from tilewright.testing.oracle.intrinsics import builtin
from tilewright.testing.simt.matrices import FUNCTIONS

Value: TypeAlias = Any  # a NumPy scalar, or an array with one entry, or row of lanes, a thread
Array: TypeAlias = npt.NDArray[Any]
NOBODY, MANY = -1, -2


class RaceError(TilewrightError):
    """LockstepThreads that get into each other's way."""


@dataclass
class Watch:
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
class ThreadMemory:
    """Bytes: one row for all threads, a block, a warp or a thread."""

    name: str
    rows: Array  # of bytes
    row_of: Array  # the row that each thread uses
    watch: Watch | None = None
    _views: dict[str, Array] = field(default_factory=dict)

    def view(self, dtype: str) -> Array:
        found = self._views.get(dtype)
        if found is None:
            found = self._views[dtype] = self.rows.view(to_numpy(dtype))
        return found


class Wait(NamedTuple):
    """A point where threads stop until they may go on."""

    ready: Callable[[], bool]
    reason: Callable[[], str]


def function_name(call: ir.Call) -> str:
    """Of a built-in function, or of an external one."""
    assert isinstance(call.op, ir.Op)
    if call.op.name in ("tir.call_extern", "tir.call_pure_extern"):
        assert isinstance(call.args[0], ir.StringImm)
        return call.args[0].value
    return call.op.name.removeprefix("tir.")


def scope_of(node: ir.Allocate) -> str:
    """Where memory is allocated."""
    assert node.buffer_var.type_annotation is not None
    return node.buffer_var.type_annotation.storage_scope


def address_taken(argument: ir.PrimExpr) -> ir.BufferLoad:
    """The element whose address an argument is."""
    assert isinstance(argument, ir.Call)
    (element,) = argument.args
    assert isinstance(element, ir.BufferLoad)
    return element


def _operator(node: ir.BinaryOp) -> Binary:
    """What an operator makes of two arrays; NumPy says nothing of what overflows or has no result.

    It would not anyway of integers, unless they are divided by zero.
    """
    if isinstance(node, ir.And | ir.Or):
        return operator.and_ if isinstance(node, ir.And) else operator.or_
    compute = binary_operator(type(node), node.a.dtype)
    assert compute is not None
    divides = type(node) in INTEGER_DIVISIONS and not isinstance(node.b, ir.IntImm)
    return np.errstate(all="ignore")(compute) if node.a.dtype.is_float or divides else compute


class LockstepThreads:
    """Threads that run in step; those that a condition keeps out are masked."""

    def __init__(self, places: Mapping[str, Array], per_block: int) -> None:
        self._places = places
        self._count = len(next(iter(places.values())))
        self._per_block = per_block
        self._mask = np.ones(self._count, np.bool_)
        self._values: dict[ir.Var, Value] = {}
        self._computations: dict[ir.PrimExpr, Callable[[], Value]] = {}
        self._memory: dict[ir.Var, ThreadMemory] = {}

    @property
    def _thread(self) -> Array:
        """The number of each thread in its block."""
        return np.arange(self._count) % self._per_block

    def bind(self, params: Mapping[ir.Var, Any]) -> None:
        """Give parameters their values; arrays are memory that all threads see."""
        for var, value in params.items():
            if isinstance(value, np.ndarray):
                rows = value.reshape(-1).view(np.uint8).reshape(1, -1)
                self._memory[var] = ThreadMemory(var.name, rows, np.zeros(self._count, np.int64))
            elif isinstance(value, int):
                self._values[var] = constant(value, var.dtype)

    # --- statements ----------------------------------------------------------------------------

    def steps(self, stmt: ir.Stmt) -> Iterator[Wait]:
        """Run a statement; gives the points where threads wait."""
        match stmt:
            case ir.SeqStmt():
                for each in stmt.seq:
                    yield from self.steps(each)
            case ir.For():
                yield from self._loop(stmt)
            case ir.IfThenElse():
                yield from self._choose(stmt)
            case ir.BufferStore():
                self._store(stmt)
            case ir.Evaluate():
                if isinstance(stmt.value, ir.Call) and isinstance(stmt.value.op, ir.Op):
                    yield from self.evaluate(stmt.value, function_name(stmt.value))
            case ir.AttrStmt() | ir.Allocate() | ir.LetStmt():
                self._enter(stmt)
                yield from self.steps(stmt.body)
            case _:
                raise RaceError(f"{type(stmt).__name__} is left")

    def _enter(self, node: ir.AttrStmt | ir.Allocate | ir.LetStmt) -> None:
        if isinstance(node, ir.Allocate):
            self.allocate(node)
        elif isinstance(node, ir.LetStmt):
            self._values[node.var] = self.value(node.value)
        elif isinstance(node.node, ir.IterVar):
            var = node.node.var
            self._values[var] = self._places[node.node.thread_tag].astype(to_numpy(var.dtype))

    def allocate(self, node: ir.Allocate) -> None:
        """Make memory."""
        raise NotImplementedError

    def evaluate(self, call: ir.Call, name: str) -> Iterator[Wait]:
        """Run a call for its effect."""
        raise NotImplementedError

    def _loop(self, node: ir.For) -> Iterator[Wait]:
        first, count = self.value(node.min), self.value(node.extent)
        outside, is_same = self._mask, np.ndim(count) == 0
        for step in range(int(count if is_same else np.max(count, initial=0))):
            self._values[node.loop_var] = first + constant(step, node.loop_var.dtype)
            self._mask = outside if is_same else outside & (step < count)
            yield from self.steps(node.body)
        self._mask = outside

    def _choose(self, node: ir.IfThenElse) -> Iterator[Wait]:
        outside, condition = self._mask, self.value(node.condition)
        for case, mask in ((node.then_case, condition), (node.else_case, ~condition)):
            self._mask = outside & mask
            if case is not None and self._mask.any():
                yield from self.steps(case)
        self._mask = outside

    # --- memory --------------------------------------------------------------------------------

    def allocate_registers(self, node: ir.Allocate) -> None:
        """ThreadMemory that each thread has for itself; what a loop left stays there."""
        if scope_of(node) != "local":
            raise RaceError(f"{node.buffer_var.name} is in scope {scope_of(node)}")
        size = int(self.value(node.extents[0])) * to_numpy(node.dtype).itemsize
        rows = np.full((self._count, size), 0xAB, np.uint8)
        memory = ThreadMemory(node.buffer_var.name, rows, np.arange(self._count))
        self._memory.setdefault(node.buffer_var, memory)

    def _touch(self, memory: ThreadMemory, dtype: ir.DType, index: Array, *, write: bool) -> None:
        """Notice an access."""
        count = memory.view(dtype).shape[1]
        if index.min() >= 0 and index.max() < count:
            return
        used = index[self._mask]  # of threads that are kept out, indices may be anything
        if used.size and (used.min() < 0 or used.max() >= count):
            raise RaceError(f"an access of {memory.name} is out of bounds")

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

    def _spread(self, value: Value, lanes: int) -> Array:
        """One row of lanes for each thread."""
        array = np.asarray(value)
        if array.ndim == 1 and lanes == 1:
            array = array[:, None]
        shape = (self._count, lanes)
        return array if array.shape == shape else np.broadcast_to(array, shape)

    # --- expressions ---------------------------------------------------------------------------

    def value(self, node: ir.PrimExpr) -> Value:
        """What each thread computes."""
        compute = self._computations.get(node)
        if compute is None:
            compute = self._computations[node] = self._computation(node)
        return compute()

    def _computation(self, node: ir.PrimExpr) -> Callable[[], Value]:
        """Loops compute the same expressions again and again, so their operators are found once."""
        if isinstance(node, ir.BinaryOp):
            compute, array = _operator(node), np.asarray
            a, b = self._computation(node.a), self._computation(node.b)
            return lambda: compute(array(a()), array(b()))
        if isinstance(node, ir.Var):
            values = self._values
            return lambda: values[node]
        if isinstance(node, ir.IntImm | ir.FloatImm):
            known = constant(node.value, node.dtype)
            return lambda: known
        return lambda: self._other_value(node)

    def _other_value(self, node: ir.PrimExpr) -> Value:
        match node:
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

    def _load(self, node: ir.BufferLoad) -> Value:
        lanes = node.dtype.lanes
        index = self._spread(self.value(node.indices[0]), lanes)
        found = self.read(node.buffer.data, node.buffer.dtype, index)
        return found if lanes > 1 else found[:, 0]

    def _call(self, node: ir.Call) -> Value:
        name = function_name(node)
        if name == "if_then_else":
            return self._if_then_else(node)
        if name == "likely":
            return self.value(node.args[0])
        if name in ("tvm_warp_shuffle_xor", "tvm_warp_shuffle"):
            return self._shuffled(node)
        if name == "tvm_warp_activemask":
            return constant(0xFFFFFFFF, node.dtype)
        is_extern = isinstance(node.args[0], ir.StringImm)
        args = node.args[1:] if is_extern else node.args
        compute = FUNCTIONS.get(name) or builtin(name, node.args[0].dtype, node.dtype)
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
