"""Lifetimes of memory: its first and last touch over a linear order of statements.

Loops and branches open scopes. A buffer counts as touched in the statement, of the scope in which
it was allocated, that contains the access: a buffer from outside a loop lives while the loop runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright import ir


@dataclass
class Entry:
    """A point of the linear order: a statement, or the begin or the end of a scope."""

    stmt: ir.Stmt
    touched: dict[ir.Var, None] = field(default_factory=dict)
    end_of: int = -1  # for the end of a scope: where it began
    begin_of: int = -1  # for the begin of a scope: where it ends

    @property
    def is_begin(self) -> bool:
        return self.begin_of >= 0

    @property
    def is_end(self) -> bool:
        return self.end_of >= 0


@dataclass(frozen=True)
class LiveAllocation:
    """An allocation of constant size, and how deeply it is nested."""

    node: ir.Allocate
    level: int  # number of scopes around it
    size: int


class LinearAccess(ir.Visitor):
    """Lays a statement out in linear order and notes what each part touches."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.allocations: dict[ir.Var, LiveAllocation] = {}
        self._scopes: list[Entry] = []

    def visit_buffer_store(self, node: ir.BufferStore | ir.Evaluate) -> None:
        entry = Entry(node)
        self._scopes.append(entry)
        self.generic_visit(node)
        if isinstance(node, ir.BufferStore):
            self._touch(node.buffer.data)
        self._scopes.pop()
        self.entries.append(entry)

    visit_evaluate = visit_buffer_store

    def _scope(self, node: ir.Stmt) -> None:
        begin = len(self.entries)
        entry = Entry(node)
        self.entries.append(entry)
        self._scopes.append(entry)
        self.generic_visit(node)
        self._scopes.pop()
        entry.begin_of = len(self.entries)
        self.entries.append(Entry(node, entry.touched, end_of=begin))

    visit_for = visit_if_then_else = visit_while = _scope
    visit_let_stmt = visit_assert_stmt = visit_attr_stmt = _scope

    def visit_allocate(self, node: ir.Allocate) -> None:
        match node.extents:
            case (ir.IntImm(value=size),) if ir.is_true(node.condition) and not node.annotations:
                allocation = LiveAllocation(node, len(self._scopes), size)
                self.allocations[node.buffer_var] = allocation
        self.generic_visit(node)

    def visit_int_imm(self, node: ir.IntImm) -> None:
        """Nothing inside."""

    def visit_buffer_load(self, node: ir.BufferLoad) -> None:
        self._touch(node.buffer.data)
        self.generic_visit(node)

    def visit_var(self, node: ir.Var) -> None:
        if node.dtype.is_handle:
            self._touch(node)

    def _touch(self, var: ir.Var) -> None:
        allocation = self.allocations.get(var)
        if allocation is not None:
            self._scopes[allocation.level].touched[var] = None


@dataclass
class Events:
    """What comes to life before, and what dies after, each entry of the linear order."""

    gen: dict[int, list[ir.Var]] = field(default_factory=dict)
    kill: dict[int, list[ir.Var]] = field(default_factory=dict)


def live_ranges(entries: list[Entry]) -> Events:
    """The first and last touch of every allocation."""
    events = Events()
    seen: set[ir.Var] = set()
    for position, entry in enumerate(entries):
        fresh = [] if entry.is_end else [var for var in entry.touched if var not in seen]
        if fresh:
            events.gen[position] = fresh
            seen.update(fresh)
    seen.clear()
    for position in reversed(range(len(entries))):
        entry = entries[position]
        dying = [] if entry.is_begin else [var for var in entry.touched if var not in seen]
        if dying:
            events.kill[position] = dying
            seen.update(dying)
    return events
