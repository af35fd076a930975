"""Barriers between accesses of different threads to the same shared memory, and no others.

Statements are looked at in order. What was accessed since the last barrier is pending; a statement
whose accesses meet pending ones of other threads gets a barrier in front of it. The end of a loop
body is followed by its begin: what is pending there meets the next iteration. Asynchronous copies
count as writes where they are issued and again, for all that may have been copied, where they are
waited for. Barriers that the program contains are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.ir.intrinsics import call_intrin
from tilewright.lowering.base import function_pass
from tilewright.lowering.gpu.shared_accesses import Access, Conflicts
from tilewright.lowering.gpu.statement_accesses import AccessFinder
from tilewright.lowering.gpu.threads import is_thread_tag, launched_tag, launches_of

# On statements whose barriers are where they have to be.
SYNCHRONIZED = "tilewright.synchronized"
STORAGE_SYNC = ir.Op.get("tir.tvm_storage_sync")


def barrier() -> ir.Stmt:
    """All threads of a block wait for each other."""
    return ir.Evaluate(call_intrin("int32", STORAGE_SYNC.name, ir.StringImm("shared")))


def is_barrier(stmt: ir.Stmt) -> bool:
    """True for a wait of all threads of a block."""
    if not isinstance(stmt, ir.Evaluate) or not isinstance(stmt.value, ir.Call):
        return False
    if stmt.value.op is not STORAGE_SYNC:
        return False
    scope = stmt.value.args[0]
    return not isinstance(scope, ir.StringImm) or scope.value != "warp"


@dataclass(frozen=True)
class _SyncedStmt:
    """A statement with its barriers: what comes before the first of them, and after the last."""

    stmt: ir.Stmt
    entry: tuple[Access, ...] = ()
    exit: tuple[Access, ...] = ()
    waits: bool = False  # it has a barrier that every thread is sure to reach
    has_barrier: bool = False


@dataclass(frozen=True)
class _Carried:
    """The iteration before: what was pending at its end, and how it looks from the next one."""

    loop: ir.For
    pending: tuple[Access, ...]
    next_iteration: bool  # only the next one, as a barrier separates all later ones


class _Planner:
    def __init__(self, kernel: ir.Stmt) -> None:
        by_tag = {launch.node.thread_tag: launch for launch in launches_of(kernel)}
        threads = {
            by_tag[tag].node.var: by_tag[tag].value
            for tag in sorted(by_tag, reverse=True)  # threadIdx.x last
            if is_thread_tag(tag)
        }
        extents = {
            var: extent.value for var, extent in threads.items() if isinstance(extent, ir.IntImm)
        }
        self._conflicts = Conflicts(extents if len(extents) == len(threads) else None)
        self._finder = AccessFinder(kernel)
        self._loops: list[ir.For] = []
        self._varying: set[ir.Var] = set(threads)

    def run(self, stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.AttrStmt) and launched_tag(stmt):
            return ir.replace(stmt, body=self.run(stmt.body))
        return self._visit(stmt).stmt

    # --- one statement -------------------------------------------------------------------------

    def _visit(self, stmt: ir.Stmt) -> _SyncedStmt:
        match stmt:
            case ir.SeqStmt():
                return self._sequence([self._visit(each) for each in stmt.seq])
            case ir.For():
                return self._loop(stmt)
            case ir.IfThenElse():
                return self._branches(stmt)
            case ir.While():
                return self._while(stmt)
            case ir.AttrStmt(attr_key=key) if key == SYNCHRONIZED:
                return _SyncedStmt(stmt, waits=True, has_barrier=True)
            case ir.LetStmt() | ir.AttrStmt() | ir.Allocate() | ir.AssertStmt():
                return self._wrapper(stmt)
        if is_barrier(stmt):
            return _SyncedStmt(stmt, waits=True, has_barrier=True)
        found = self._finder.of(stmt, tuple(self._loops))
        return _SyncedStmt(stmt, found.entry, found.exit)

    def _wrapper(self, stmt: ir.LetStmt | ir.AttrStmt | ir.Allocate | ir.AssertStmt) -> _SyncedStmt:
        if isinstance(stmt, ir.LetStmt):
            self._finder.bind(stmt.var, stmt.value)
            if self._differs(stmt.value):
                self._varying.add(stmt.var)
        own = self._finder.of_header(stmt, tuple(self._loops))
        inner = self._visit(stmt.body)
        whole = self._sequence([_SyncedStmt(ir.no_op(), own, own), inner])
        stmt = ir.updated(stmt, body=inner.stmt)
        return _SyncedStmt(stmt, whole.entry, whole.exit, inner.waits, inner.has_barrier)

    def _differs(self, expr: ir.PrimExpr) -> bool:
        """True unless all threads of a block have the same value."""
        return ir.has_load(expr) or ir.uses_var(expr, self._varying.__contains__)

    # --- statements after one another ----------------------------------------------------------

    def _sequence(
        self, parts: Sequence[_SyncedStmt], carried: _Carried | None = None
    ) -> _SyncedStmt:
        pending: list[Access] = []
        before = () if carried is None else carried.pending
        entry: list[Access] = []
        waits = has_barrier = False
        statements: list[ir.Stmt] = []
        for part in parts:
            if self._meets(pending, part) or self._meets_next(before, part, carried):
                statements.append(barrier())
                pending, before, waits, has_barrier = [], (), True, True
            statements.append(part.stmt)
            if not waits:
                entry += part.entry
            if part.waits:
                pending, before, waits = [], (), True
            pending += part.exit
            has_barrier = has_barrier or part.has_barrier
        return _SyncedStmt(
            ir.seq(statements),
            tuple(_distinct(entry)),
            tuple(_distinct(pending)),
            waits,
            has_barrier,
        )

    def _meets(self, pending: Sequence[Access], part: _SyncedStmt) -> bool:
        still = [loop.loop_var for loop in self._loops]
        return any(self._conflicts.between(a, b, still) for a in pending for b in part.entry)

    def _meets_next(
        self, before: Sequence[Access], part: _SyncedStmt, carried: _Carried | None
    ) -> bool:
        if carried is None or not before:
            return False
        var = carried.loop.loop_var
        outer = [loop.loop_var for loop in self._loops if loop.loop_var is not var]
        if not carried.next_iteration:
            return any(self._conflicts.between(a, b, outer) for a in before for b in part.entry)
        later = {var: var + ir.const(1, var.dtype)}
        return any(
            self._conflicts.between(a, b.moved(later), [*outer, var])
            for a in before
            for b in part.entry
        )

    # --- loops and branches --------------------------------------------------------------------

    def _loop(self, loop: ir.For) -> _SyncedStmt:
        if isinstance(loop.extent, ir.IntImm) and isinstance(loop.min, ir.IntImm):
            first = loop.min.value
            self._conflicts.ranges[loop.loop_var] = range(first, first + loop.extent.value)
        differs = self._differs(loop.extent) or self._differs(loop.min)
        self._loops.append(loop)
        wrap, parts = self._body(loop.body)
        once = self._sequence(parts)
        carried = _Carried(loop, once.exit, once.waits)
        body = self._sequence(parts, carried)
        self._loops.pop()
        if differs and body.has_barrier:
            raise _divergent(f"the loop over {loop.loop_var.name}")
        may_be_empty = not isinstance(loop.extent, ir.IntImm) or loop.extent.value < 1
        new = ir.updated(loop, body=wrap(body.stmt))
        own = self._finder.of_header(loop, tuple(self._loops))
        waits = body.waits and not may_be_empty
        return _SyncedStmt(new, (*own, *body.entry), (*own, *body.exit), waits, body.has_barrier)

    def _body(self, body: ir.Stmt) -> tuple[Callable[[ir.Stmt], ir.Stmt], list[_SyncedStmt]]:
        """The statements of a loop, and what puts bindings back around them."""
        if isinstance(body, ir.SeqStmt):
            return (lambda stmt: stmt), [self._visit(each) for each in body.seq]
        is_plain = isinstance(body, ir.Allocate | ir.AttrStmt) or (
            isinstance(body, ir.LetStmt) and not ir.has_load(body.value)
        )
        if not is_plain:
            return (lambda stmt: stmt), [self._visit(body)]
        assert isinstance(body, ir.Allocate | ir.AttrStmt | ir.LetStmt)
        if isinstance(body, ir.LetStmt):
            self._finder.bind(body.var, body.value)
            if self._differs(body.value):
                self._varying.add(body.var)
        inner, parts = self._body(body.body)
        return (lambda stmt: ir.updated(body, body=inner(stmt))), parts

    def _branches(self, stmt: ir.IfThenElse) -> _SyncedStmt:
        own = self._finder.of_header(stmt, tuple(self._loops))
        with self._finder.under(stmt.condition):
            then_case = self._visit(stmt.then_case)
        else_case = None
        if stmt.else_case is not None:
            with self._finder.under(ir.logical_not(stmt.condition)):
                else_case = self._visit(stmt.else_case)
        cases = [case for case in (then_case, else_case) if case is not None]
        if self._differs(stmt.condition) and any(case.has_barrier for case in cases):
            return self._divided(stmt)
        return _SyncedStmt(
            ir.updated(
                stmt,
                then_case=then_case.stmt,
                else_case=None if else_case is None else else_case.stmt,
            ),
            (*own, *(access for case in cases for access in case.entry)),
            (*own, *(access for case in cases for access in case.exit)),
            len(cases) == 2 and all(case.waits for case in cases),
            any(case.has_barrier for case in cases),
        )

    def _divided(self, stmt: ir.IfThenElse) -> _SyncedStmt:
        """A condition that differs between threads is tested again after each barrier."""
        body = stmt.then_case
        if stmt.else_case is not None or not isinstance(body, ir.SeqStmt):
            raise _divergent(f"`if {stmt.condition}`")
        if ir.has_load(stmt.condition):
            raise _divergent(f"`if {stmt.condition}`")
        parts = []
        for each in body.seq:
            if is_barrier(each):
                parts.append(_SyncedStmt(each, waits=True, has_barrier=True))
            else:
                parts.append(self._branches(ir.IfThenElse(stmt.condition, each)))
        return self._sequence(parts)

    def _while(self, stmt: ir.While) -> _SyncedStmt:
        own = self._finder.of_header(stmt, tuple(self._loops))
        body = self._visit(stmt.body)
        accesses = (*own, *body.entry, *body.exit)
        still = [loop.loop_var for loop in self._loops]
        meets = any(self._conflicts.between(a, b, still) for a in accesses for b in accesses)
        if body.has_barrier and self._differs(stmt.condition):
            raise _divergent(f"`while {stmt.condition}`")
        new = body.stmt
        if meets:
            if self._differs(stmt.condition):
                raise _divergent(f"`while {stmt.condition}`")
            new = ir.seq((body.stmt, barrier()))
        stmt = ir.updated(stmt, body=new)
        return _SyncedStmt(stmt, accesses, accesses, False, meets or body.has_barrier)


def _distinct(accesses: Sequence[Access]) -> list[Access]:
    return list(dict.fromkeys(accesses))


def _divergent(place: str) -> LowerError:
    return LowerError(
        f"threads must wait for each other inside of {place}, which not all of them enter; "
        "let all threads of a block run the same loops and branches around shared memory"
    )


def _synced(node: ir.AttrStmt) -> ir.Stmt | None:
    return _Planner(node).run(node) if launched_tag(node) else None


@function_pass
def ThreadSync(func: ir.PrimFunc) -> ir.PrimFunc:
    """Put barriers where threads of a block exchange values through shared memory."""
    return ir.rewrite(func, before={ir.AttrStmt: _synced})
