"""A test of whether the iterations of a vectorised loop would get into each other's way.

Lanes run side by side: all loads of a statement happen before its stores, and one statement is done
in all lanes before the next. This differs from one iteration after the other only if an element
that one lane stores is loaded or stored by another. What cannot be excluded counts as a conflict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.arith.affine import Affine, affine_in
from tilewright.lowering.rewriters import is_multiple


@dataclass(frozen=True)
class _Access:
    index: ir.PrimExpr
    position: int  # in program order


@dataclass
class _Memory:
    stores: list[_Access] = field(default_factory=list)
    loads: list[_Access] = field(default_factory=list)


class _Collector:
    def __init__(self) -> None:
        self.memory: dict[ir.Var, _Memory] = {}
        self.private: set[ir.Var] = set()
        self.inner: dict[ir.Var, int | None] = {}  # bound inside; None: of unknown extent
        self._count = 0

    def note(self, node: ir.Node) -> None:
        """One node, after those inside of it."""
        match node:
            case ir.For(loop_var=var, extent=extent):
                self.inner[var] = extent.value if isinstance(extent, ir.IntImm) else None
            case ir.Let(var=var) | ir.LetStmt(var=var):
                self.inner[var] = None
            case ir.Allocate(buffer_var=var):
                self.private.add(var)
            case ir.BufferLoad() | ir.BufferStore():
                self._count += 1
                memory = self.memory.setdefault(node.buffer.data, _Memory())
                accesses = memory.loads if isinstance(node, ir.BufferLoad) else memory.stores
                accesses.append(_Access(node.indices[-1], self._count))


def lanes_conflict(loop: ir.For, lanes: int) -> bool:
    """True unless no lane can touch what another one stores."""
    found = _Collector()
    ir.post_order_visit(loop.body, found.note)
    pairs = _Pairs(loop.loop_var, lanes, found.inner)
    shared = (memory for data, memory in found.memory.items() if data not in found.private)
    return any(map(pairs.conflict, shared))


class _Pairs:
    """Compares a store with a load of the same memory."""

    def __init__(self, lane: ir.Var, lanes: int, inner: dict[ir.Var, int | None]) -> None:
        self._lane = lane
        self._lanes = lanes
        self._inner = inner

    def _varies(self, var: ir.Var) -> bool:
        return var is self._lane or var in self._inner

    def conflict(self, memory: _Memory) -> bool:
        """True if a store of one lane meets an access of another."""
        stores = memory.stores
        return any(self._may_meet(store, load) for store in stores for load in memory.loads) or any(
            self._may_collide(first, second)
            for count, first in enumerate(stores)
            for second in stores[count:]
        )

    def _may_collide(self, first: _Access, second: _Access) -> bool:
        """True if stores of different lanes may reach an element in another order than before."""
        if first is second and not ir.uses_var(first.index, self._inner.__contains__):
            return False  # the last lane wins, as the last iteration did
        uniform = not any(
            ir.uses_var(store.index, lambda var: var is self._lane) for store in (first, second)
        )
        return not uniform and self._may_meet(first, second)

    def _may_meet(self, store: _Access, load: _Access) -> bool:
        """True if one lane may touch with `load` what another lane wrote with `store`."""
        stored = affine_in(store.index, self._varies)
        loaded = affine_in(load.index, self._varies)
        if stored is None or loaded is None:
            return True
        written, read = stored[0], loaded[0]
        step = written.terms.get(self._lane, 0)
        if read.terms.get(self._lane, 0) != step:
            return True
        if step == 0:
            # All lanes store to one element: what is loaded later is what the last lane stored.
            return load.position < store.position
        apart = self._distances(written, read, self._rest(store.index, load.index))
        if apart is None:
            return True
        steps = range(1, self._lanes)
        return any(apart.contains(d * step) or apart.contains(-d * step) for d in steps)

    def _rest(self, store: ir.PrimExpr, load: ir.PrimExpr) -> ir.PrimExpr:
        """The difference of two indices, apart from what varies."""
        if store is load or ir.expr_deep_equal(store, load):
            return ir.const(0)
        zero = {self._lane: ir.const(0, self._lane.dtype)}
        zero |= {var: ir.const(0, var.dtype) for var in self._inner}
        return Analyzer().simplify(
            ir.subtract(ir.substitute(load, zero), ir.substitute(store, zero))
        )

    def _distances(self, written: Affine, read: Affine, rest: ir.PrimExpr) -> _Distances | None:
        """How far apart load and store can be, each at any step of the inner loops."""
        span = self._lanes * abs(written.terms[self._lane])
        if isinstance(rest, ir.IntImm):
            offset, unit, reach = rest.value, 0, 0
        elif is_multiple(rest, span):
            offset, unit, reach = 0, span, 2 * span
        else:
            return None
        for form in (written, read):
            for var, factor in form.variable_terms():
                if var is self._lane:
                    continue
                extent = self._inner[var]
                if extent is None:
                    return None
                unit = math.gcd(unit, factor)
                reach += abs(factor) * (extent - 1)
        return _Distances(offset, unit, offset - reach, offset + reach)


@dataclass(frozen=True)
class _Distances:
    """All numbers `offset + k * unit` between `low` and `high`."""

    offset: int
    unit: int
    low: int
    high: int

    def contains(self, number: int) -> bool:
        if not self.low <= number <= self.high:
            return False
        return number == self.offset if self.unit == 0 else (number - self.offset) % self.unit == 0
