"""The stores of a tree of loops with all that costs and features ask of them, as expressions.

Loops are slots: where decisions say how many of them run in parallel or make a vector, slots carry
marks. A depth between two slots of one fused loop is no place at which anything is seen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright import ir
from tilewright.algebra.expr import (
    Expr,
    Value,
    both,
    bounds,
    ceil_divide,
    either,
    equal,
    floor_divide,
    is_more_than_one,
    less,
    less_equal,
    maximum,
    multiply,
    negate,
    product_of,
    remainder,
    where,
)
from tilewright.algebra.loop_tree import (
    EVERYTHING,
    Digit,
    LoopNode,
    LoopTree,
    NotInterpreted,
    StageNode,
    Terms,
    digits_of,
    is_spatial,
    loops_of,
    roots_of,
)
from tilewright.algebra.reach import DigitReaches, scaled, summed
from tilewright.arith.affine import affine_of
from tilewright.ir.annotation_keys import (
    AUTO_UNROLL_MAX_STEP,
    LAYOUT_REWRITE_PREPROC,
    SKIP_ZERO_TERMS,
    VECTOR_REDUCTION,
)
from tilewright.nest.access import LINE
from tilewright.nest.nests import (
    WrittenOperations,
    distinct_loads,
    operations_of,
    unconditional,
)


@dataclass
class Slot:
    """A loop, or a part of one that decisions make."""

    extent: Value
    kind: ir.ForKind
    loop: LoopNode
    in_parallel: Value = 0
    in_vector: Value = 0


@dataclass
class AccessView:
    """An access as seen from each depth; `depends` is 1 for slots that move it."""

    buffer: ir.Buffer
    is_store: bool
    footprints: list[Value]  # bytes in whole lines below each slot, and (last) below none
    depends: list[Value]
    strides: list[Value]  # elements between two iterations of each slot; 0: none, or by no rule

    @property
    def element_bytes(self) -> int:
        return max(1, self.buffer.dtype.bits // 8)


@dataclass
class NestView:
    """One store, the slots around it and its accesses."""

    name: str
    slots: list[Slot]
    store: AccessView
    loads: list[AccessView]
    operations: Value | float  # at least a half
    is_reduction: bool
    shares: list[tuple[Value, Value]]  # iterations that a predicate lets through, and all
    unroll_step: Value = 0
    reduction_width: Value = 0  # of a vector that adds up, where a loop is marked so
    packs_weights: bool = False
    boundaries: list[Value] = field(default_factory=list)  # 1 where a loop begins, and inside
    region: LoopNode | None = None  # its parallel loop, or the loop that begins it

    @property
    def accesses(self) -> list[AccessView]:
        return [self.store, *self.loads]


def nests_of(tree: LoopTree) -> list[NestView]:
    """All nests in program order."""
    return [nest for stage in tree.stages() for nest in _nests(stage)]


def _nests(stage: StageNode) -> list[NestView]:
    block = stage.block
    if block.match_buffers:
        raise NotInterpreted(f"block {stage.name!r} is a tensor instruction")
    found: list[NestView] = []
    loops = loops_of(stage)
    if block.init is not None and stage.does != "update":
        results = loops if stage.does == "init" else _loops_of_results(stage, loops)
        found.append(_nest(stage, block.init, results))
    if stage.does != "init":
        found.append(_nest(stage, block.body, loops))
    return found


def _loops_of_results(stage: StageNode, loops: Sequence[LoopNode]) -> list[LoopNode]:
    """The loops of a reduction in which its results start: those that do not reduce."""
    reducing = {
        digit
        for iter_var, terms in zip(stage.block.iter_vars, stage.bindings, strict=True)
        if not is_spatial(iter_var)
        for digit in roots_of(terms)
    }
    return [loop for loop in loops if reducing.isdisjoint(loop.digits)]


def _nest(stage: StageNode, body: ir.Stmt, loops: Sequence[LoopNode]) -> NestView:
    if not isinstance(body, ir.BufferStore):
        raise NotInterpreted(f"block {stage.name!r} is more than one store")
    if any(SKIP_ZERO_TERMS in loop.annotations for loop in loops):
        body = ir.replace(body, value=unconditional(body.value))
    written = operations_of(body.value)
    if written.cases > 1:
        raise NotInterpreted(f"block {stage.name!r} chooses between expressions by an index")
    loads = distinct_loads(written.loads)
    others = [load for load in loads if load.buffer is not body.buffer]
    region = next((each for each in loops if each.kind is ir.ForKind.PARALLEL), None)
    region = region or (loops[0] if loops else None)
    everything = loops
    # What never runs twice is no place at which anything could be seen.
    loops = [each for each in loops if not isinstance(each.extent, int) or each.extent > 1]
    reader = _Accesses(stage, loops)
    slots = [Slot(loop.extent, loop.kind, loop, loop.in_parallel, loop.in_vector) for loop in loops]
    return NestView(
        stage.name,
        slots,
        reader.read(body.buffer, body.indices, True),
        [reader.read(load.buffer, load.indices, False) for load in others],
        _operations(stage, written, slots),
        len(others) < len(loads),
        _shares(stage, loops),
        _largest(AUTO_UNROLL_MAX_STEP, everything),
        _largest(VECTOR_REDUCTION, everything),
        LAYOUT_REWRITE_PREPROC in stage.annotations,
        _boundaries(slots),
        region,
    )


def _operations(
    stage: StageNode, written: WrittenOperations, slots: Sequence[Slot]
) -> Value | float:
    """Operations that are left inside of the innermost loop; of short expressions it is all."""
    if written.moving is None:
        return max(written.total, 0.5)
    moved = _moved_inside(stage, slots)
    total: Value = 0
    for cost, variables in written.moving:
        moves: Value = 0
        for var in variables:
            moves = either(moves, moved.get(var, 0))
        total = total + multiply(moves, int(cost))
    return total if isinstance(total, Expr) else max(total, 0.5)


def _moved_inside(stage: StageNode, slots: Sequence[Slot]) -> dict[ir.Var, Value]:
    """1 for the iterators of a stage that the innermost loop moves."""
    chosen: list[tuple[Slot, Value]] = []
    waiting: Value = 1
    in_vector: Value = 0
    in_parallel: Value = 0
    for slot in reversed(slots):
        runs = is_more_than_one(slot.extent)
        first = both(waiting, runs)
        in_vector = either(in_vector, both(first, slot.in_vector))
        in_parallel = either(in_parallel, both(first, slot.in_parallel))
        joins = either(both(in_vector, slot.in_vector), both(in_parallel, slot.in_parallel))
        chosen.append((slot, either(first, both(runs, joins))))
        waiting = both(waiting, negate(runs))
    found: dict[ir.Var, Value] = {}
    for iter_var, terms in zip(stage.block.iter_vars, stage.bindings, strict=True):
        roots = roots_of(terms)
        moves: Value = 0
        for slot, is_chosen in chosen:
            if not roots.isdisjoint(slot.loop.digits):
                moves = either(moves, is_chosen)
        found[iter_var.var] = moves
    return found


def _boundaries(slots: Sequence[Slot]) -> list[Value]:
    found: list[Value] = [1]
    for outer, inner in itertools.pairwise(slots):
        fused = either(
            both(outer.in_parallel, inner.in_parallel), both(outer.in_vector, inner.in_vector)
        )
        found.append(negate(fused))
    return [*found, 1] if slots else found


def _shares(stage: StageNode, loops: Sequence[LoopNode]) -> list[tuple[Value, Value]]:
    everything = DigitReaches(digits_of(loops_of(stage)))
    return [(each.limit, everything.of(each.terms) + 1) for each in stage.predicates]


def _largest(key: str, loops: Sequence[LoopNode]) -> Value:
    """The largest annotation of loops."""
    most: Value = 0
    for loop in loops:
        most = maximum(most, loop.annotations.get(key, 0))
    return most


def index_terms(stage: StageNode, index: ir.PrimExpr) -> Terms:
    """An index of a stage as a sum of digits; its base does not matter."""
    return _Accesses(stage, ())._terms(index)


class _Accesses:
    """Reads the accesses of a stage; depths share what is known of digits."""

    def __init__(self, stage: StageNode, loops: Sequence[LoopNode]) -> None:
        self._stage = stage
        self._loops = loops
        self._below = [
            DigitReaches(digits_of(loops[depth:]), stage.predicates)
            for depth in range(len(loops) + 1)
        ]
        self._alone = [DigitReaches(set(loop.digits)) for loop in loops]
        self._values = {
            each.var: terms
            for each, terms in zip(stage.block.iter_vars, stage.bindings, strict=True)
        }

    def read(self, buffer: ir.Buffer, indices: Sequence[ir.PrimExpr], is_store: bool) -> AccessView:
        forms = [self._terms(index) for index in indices]
        width = max(1, buffer.dtype.bits // 8)
        below = list(zip(*[self._reaches(form) for form in forms], strict=True))
        found = [_bytes([reach + 1 for reach in reaches], width) for reaches in below]
        if not forms:
            found = [LINE] * (len(self._loops) + 1)
        depends = [self._depends(number, forms) for number in range(len(self._loops))]
        strides = _strides(buffer)
        flat = summed([scaled(f, s) for f, s in zip(forms, strides, strict=True)])
        steps = [_stride(flat, loop) for loop in self._loops]
        return AccessView(buffer, is_store, found, depends, steps)

    def _reaches(self, form: Terms) -> list[Value]:
        """How far a sum reaches below each loop, and below none."""
        held = {digit for each in self._stage.predicates for digit in each.terms}
        if any(digit.source is not None or digit in held for digit in form):
            return [reach.of(form) for reach in self._below]
        found: list[Value] = [0]
        for alone in reversed(self._alone):
            found.append(found[-1] + alone.of(form))
        return found[::-1]

    def _terms(self, index: ir.PrimExpr) -> Terms:
        """An index as a sum of digits; its base does not matter."""
        parts: list[Terms] = []
        for term, scale in affine_of(index).terms.items():
            if isinstance(term, ir.Var) and term in self._values:
                parts.append(scaled(self._values[term], scale))
            else:
                parts.append(scaled(self._quotient(term), scale))
        return summed(parts)

    def _quotient(self, term: ir.PrimExpr) -> Terms:
        """`x // below % extent`, or one of both."""
        extent, below = EVERYTHING, 1
        inner: Any = term
        if isinstance(inner, ir.FloorMod) and isinstance(inner.b, ir.IntImm):
            inner, extent = inner.a, inner.b.value
        if isinstance(inner, ir.FloorDiv) and isinstance(inner.b, ir.IntImm):
            inner, below = inner.a, inner.b.value
        if extent == EVERYTHING and below == 1:
            raise NotInterpreted(f"block {self._stage.name!r} has `{term}` in an index")
        whole = self._whole(inner)
        high, low = _cut(whole, below)
        if low is None:
            return {Digit(extent, whole, below, EVERYTHING): 1}
        quotient = {digit: floor_divide(stride, below) for digit, stride in high.items()}
        _, rest = _cut(quotient, extent)
        return {Digit(extent, quotient, 1, EVERYTHING): 1} if rest is None else rest

    def _whole(self, expr: ir.PrimExpr) -> Terms:
        if affine_of(expr).base:
            raise NotInterpreted(f"block {self._stage.name!r} divides `{expr}` in an index")
        return self._terms(expr)

    def _depends(self, number: int, forms: Sequence[Terms]) -> Value:
        moves: Value = 0
        for form in forms:
            moves = either(moves, less_equal(1, self._alone[number].of(form)))
        return moves


def _cut(terms: Terms, divisor: int) -> tuple[Terms, Terms | None]:
    """The multiples of a divisor in a sum, and the rest if that stays below the divisor."""
    high: Terms = {d: s for d, s in terms.items() if isinstance(s, int) and s % divisor == 0}
    low = {d: s for d, s in terms.items() if d not in high}
    reach = DigitReaches(roots_of(low)).of(low)
    return high, low if bounds(reach)[1] < divisor else None


def _strides(buffer: ir.Buffer) -> list[int]:
    shape = [each.value if isinstance(each, ir.IntImm) else 1 for each in buffer.shape]
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _bytes(spans: Sequence[Value], width: int) -> Value:
    lines = ceil_divide(multiply(spans[-1], width), LINE)
    return multiply(product_of([*spans[:-1], lines]), LINE)


def _stride(flat: Terms, loop: LoopNode) -> Value:
    """Elements between two iterations of a loop; 0 where they follow no rule."""
    stride: Value = 0
    expected: Value = 0
    regular: Value = 1
    found: Value = 0  # the innermost digit that runs
    for digit in reversed(loop.digits):
        runs = 1 if len(loop.digits) == 1 else is_more_than_one(digit.extent)
        own = _digit_stride(flat, digit)
        regular = both(regular, either(negate(both(runs, found)), equal(own, expected)))
        stride = where(both(runs, negate(found)), own, stride)
        expected = where(runs, multiply(own, digit.extent), expected)
        found = either(found, runs)
    return multiply(regular, stride)


def _digit_stride(flat: Terms, digit: Digit) -> Value:
    """Elements by which one step of a digit moves an access; 0 where that follows no rule."""
    direct = flat.get(digit, 0)
    derived = [each for each in flat if each.source is not None and digit in each.source]
    if not derived:
        return direct
    if all(each.extent == EVERYTHING for each in derived):
        return _quotient_stride(flat, digit, derived)
    source = derived[0].source
    if direct != 0 or source is None or any(each.source != source for each in derived):
        return 0
    last = next((each for each in derived if type(each.below) is int and each.below == 1), None)
    if last is None:
        return 0
    regular: Value = 1
    for each in derived:
        expected = multiply(flat[last], each.below)
        fits = equal(flat[each], expected)
        regular = both(regular, either(fits, equal(each.extent, 1)))
    return multiply(regular, multiply(flat[last], source[digit]))


def _quotient_stride(flat: Terms, digit: Digit, quotients: Sequence[Digit]) -> Value:
    """The same where indices divide: only multiples of the divisor step evenly."""
    stride = flat.get(digit, 0)
    regular: Value = 1
    for each in quotients:
        assert each.source is not None
        step = each.source[digit]
        divides = equal(remainder(step, each.below), 0)
        stays = less(multiply(step, digit.extent - 1), each.below)
        regular = both(regular, either(divides, stays))
        even = multiply(flat[each], floor_divide(step, each.below))
        stride = stride + where(divides, even, 0)
    return multiply(regular, stride)
