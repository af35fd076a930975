"""Allocations share memory where their lives do not overlap, and move out of loops.

The statements are laid out in linear order, the live range of every allocation is found
(`liveness`), and storage is handed out in that order: a buffer whose predecessor died takes its
memory, or writes over it while it dies if each element is only read to compute its successor
(`may_overwrite`). Storage belongs to the innermost parallel loop, or launch of the threads of a
kernel, around it: threads never share it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright import ir
from tilewright.arith.affine import affine_in, is_injective
from tilewright.ir.visit import Substituter
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.liveness import Entry, Events, LinearAccess, LiveAllocation, live_ranges
from tilewright.target import Target

# Arrays up to this size live in registers or in the nearest cache: sharing would only tie them up.
SMALL_BYTES = 4096
# Storage is reused for a buffer only if the sizes differ by less than this factor.
MATCH_RANGE = 16


_Owner = ir.For | ir.AttrStmt


def _owns_storage(stmt: _Owner) -> bool:
    if isinstance(stmt, ir.For):
        return stmt.kind == ir.ForKind.PARALLEL
    return stmt.attr_key == "thread_extent"


@dataclass
class _Storage:
    """A piece of memory, and the allocations that live in it one after another."""

    var: ir.Var
    dtype: ir.DType
    scope: str
    owner: _Owner | None  # the parallel loop or launch that it belongs to
    size: int
    tenants: list[ir.Var] = field(default_factory=list)


class _Planner:
    def __init__(self, access: LinearAccess, events: Events, reuse: bool) -> None:
        self._entries = access.entries
        self._allocations = access.allocations
        self._events = events
        self._reuse = reuse
        self._free: list[_Storage] = []
        self._owners: list[_Owner | None] = [None]
        self._serial_loops = [0]  # around the current place, inside each owner
        self.storages: list[_Storage] = []
        self.home: dict[ir.Var, _Storage] = {}
        self.moved = False  # does some allocation leave the scope it was written in?

    def run(self) -> None:
        for position, entry in enumerate(self._entries):
            if not entry.is_end:
                for var in self._events.gen.get(position, ()):
                    self._allocate(var, position, entry)
                    self.moved = self.moved or self._serial_loops[-1] > 0
            self._enter_or_leave(entry)
            if not entry.is_begin:
                for var in self._events.kill.get(position, ()):
                    storage = self.home.get(var)
                    if storage is not None and storage.tenants[-1] is var:
                        self._free.append(storage)

    def _enter_or_leave(self, entry: Entry) -> None:
        if not isinstance(entry.stmt, ir.For | ir.AttrStmt):
            return
        if not _owns_storage(entry.stmt):
            if isinstance(entry.stmt, ir.For):
                self._serial_loops[-1] += 1 if entry.is_begin else -1
        elif entry.is_begin:
            self._owners.append(entry.stmt)
            self._serial_loops.append(0)
        else:
            self._owners.pop()
            self._serial_loops.pop()

    def _allocate(self, var: ir.Var, position: int, entry: Entry) -> None:
        allocation = self._allocations[var]
        storage = self._dying_input(var, allocation, position, entry)
        storage = storage or self._find_free(allocation)
        if storage is None:
            dtype, scope = allocation.node.dtype, scope_of(var)
            storage = _Storage(var, dtype, scope, self._owners[-1], allocation.size)
            self.storages.append(storage)
        storage.size = max(storage.size, allocation.size)
        storage.tenants.append(var)
        self.home[var] = storage

    def _shareable(self, allocation: LiveAllocation) -> bool:
        return self._reuse and allocation.size * allocation.node.dtype.itemsize > SMALL_BYTES

    def _fits(self, storage: _Storage, allocation: LiveAllocation) -> bool:
        node = allocation.node
        if storage.dtype is not node.dtype or storage.scope != scope_of(node.buffer_var):
            return False
        return storage.owner is self._owners[-1]

    def _dying_input(
        self, var: ir.Var, allocation: LiveAllocation, position: int, entry: Entry
    ) -> _Storage | None:
        """The storage of a buffer that dies in this very statement and may be written over."""
        if not self._shareable(allocation) or len(self._events.gen[position]) > 1:
            return None
        end = entry.begin_of if entry.is_begin else position
        for source in self._events.kill.get(end, ()):
            storage = self.home.get(source)
            if storage is None or source is var or storage.tenants[-1] is not source:
                continue
            fits = storage.size >= allocation.size and self._fits(storage, allocation)
            if fits and may_overwrite(entry.stmt, var, source):
                return storage
        return None

    def _find_free(self, allocation: LiveAllocation) -> _Storage | None:
        if not self._shareable(allocation):
            return None
        need = allocation.size
        fitting = [
            storage
            for storage in self._free
            if self._fits(storage, allocation)
            and storage.size <= need * MATCH_RANGE
            and need <= storage.size * MATCH_RANGE
        ]
        if not fitting:
            return None
        # The smallest that is large enough, else the largest, which then grows.
        best = min(fitting, key=lambda storage: (storage.size < need, abs(storage.size - need)))
        self._free = [storage for storage in self._free if storage is not best]
        return best


def scope_of(data: ir.Var) -> str:
    """The storage scope behind a data pointer."""
    return "global" if data.type_annotation is None else data.type_annotation.storage_scope


def may_overwrite(stmt: ir.Stmt, target: ir.Var, source: ir.Var) -> bool:
    """True when `stmt` computes each element of `target` from the same element of `source`.

    Then both may share memory: every element is read just before it is overwritten, once.
    """
    nodes = list(ir.walk(stmt))
    stores = [node for node in nodes if isinstance(node, ir.BufferStore)]
    loads = [node for node in nodes if isinstance(node, ir.BufferLoad)]
    writing = [store for store in stores if store.buffer.data is target]
    reading = [load for load in loads if load.buffer.data is source]
    if len(writing) != 1 or not reading or any(node is target or node is source for node in nodes):
        return False
    if any(store.buffer.data is source for store in stores):
        return False
    if any(load.buffer.data is target for load in loads):
        return False
    (store,) = writing
    read = [load for load in ir.nodes_of(store.value, ir.BufferLoad) if load.buffer.data is source]
    if len(read) != len(reading):
        return False
    same = all(ir.expr_deep_equal(load.indices[0], store.indices[0]) for load in reading)
    loops = [node for node in nodes if isinstance(node, ir.For)]
    return same and _visits_each_element_once(store.indices[0], loops)


def _visits_each_element_once(index: ir.PrimExpr, loops: list[ir.For]) -> bool:
    extents: dict[ir.Var, int] = {}
    for loop in loops:
        if not isinstance(loop.extent, ir.IntImm):
            return False
        extents[loop.loop_var] = loop.extent.value
    base, lanes, stride = index, 1, 0
    if isinstance(index, ir.Ramp):
        if not isinstance(index.stride, ir.IntImm):
            return False
        base, lanes, stride = index.base, index.lanes, index.stride.value
    found = affine_in(base, lambda var: var in extents)
    if found is None:
        return False
    coefficients = [found[0].terms.get(var, 0) for var in extents]
    return is_injective([*coefficients, stride], [*extents.values(), lanes])


class _Rewriter(Substituter):
    def __init__(self, planner: _Planner) -> None:
        self._home = planner.home
        super().__init__({var: storage.var for var, storage in planner.home.items()}.get)
        self._by_owner: dict[_Owner | None, list[_Storage]] = {}
        for storage in planner.storages:
            self._by_owner.setdefault(storage.owner, []).append(storage)

    def visit_allocate(self, node: ir.Allocate | ir.AllocateConst) -> ir.Stmt:
        if node.buffer_var in self._home:
            return self.rewrite(node.body)
        return ir.map_children(node, self.visit)

    def visit_for(self, node: _Owner) -> ir.Stmt:
        new = ir.map_children(node, self.visit)
        body = self.with_storage(node, new.body)
        return new if body is new.body else ir.replace(new, body=body)

    visit_attr_stmt = visit_for

    def with_storage(self, owner: _Owner | None, body: ir.Stmt) -> ir.Stmt:
        """`body` with the memory around it that belongs to a parallel loop, or to none."""
        for storage in reversed(self._by_owner.get(owner, [])):
            body = ir.Allocate(storage.var, storage.dtype, (ir.const(storage.size),), ir.TRUE, body)
        return body


@register_pass
class StorageRewrite(FunctionPass):
    """Plan the memory of allocations; without `reuse` they only move out of loops."""

    reuse: bool = True

    def run_function(self, func: ir.PrimFunc, target: Target | None = None) -> ir.PrimFunc:
        access = LinearAccess()
        access.visit(func.body)
        if not access.allocations:
            return func
        planner = _Planner(access, live_ranges(access.entries), self.reuse)
        planner.run()
        shared = len(planner.storages) < len(planner.home)
        unused = len(planner.home) < len(access.allocations)
        if not (shared or unused or planner.moved):
            return func
        rewriter = _Rewriter(planner)
        return func.with_body(rewriter.with_storage(None, rewriter.rewrite(func.body)))
