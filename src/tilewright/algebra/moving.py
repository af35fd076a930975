"""Stages that go to other loops: a producer to its consumers, a consumer to its producers."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright import ir
from tilewright.algebra.expr import (
    Expr,
    Value,
    both,
    bounds,
    either,
    equal,
    floor_divide,
    is_more_than_one,
    less,
    less_equal,
    maximum,
    minimum,
    multiply,
    negate,
    remainder,
    where,
)
from tilewright.algebra.indices import quotient_terms
from tilewright.algebra.layout_products import require_fixed
from tilewright.algebra.loop_tree import (
    Digit,
    LoopNode,
    LoopTree,
    NotInterpreted,
    Predicate,
    StageNode,
    Terms,
    digits_of,
    iterators_of,
    loops_between,
    loops_of,
    nest_of,
    roots_of,
)
from tilewright.algebra.reach import DigitReaches, scaled, summed
from tilewright.arith.affine import affine_of
from tilewright.nest.quotients import EVERYTHING


@dataclass(frozen=True)
class Span:
    """The integers from `sum(low) + base` on, `extent` of them."""

    low: Terms
    base: int
    extent: Value
    is_constant: Value = 1  # 0 where the number of them depends on where they begin
    mirrored_in: int = 0  # how many values are counted from the last one down; 0: none


def compute_at(tree: LoopTree, stage: StageNode, loop: LoopNode | None, index: int) -> None:
    """Compute, in each iteration of a loop, what the consumers of a stage need there."""
    if loop is None:  # it stays where it is
        return
    needed: list[list[Span | None]] = []
    for written in stage.block.writes:
        spans = [
            _relaxed(consumer, region, loop, written.buffer, with_predicates=True)
            for consumer in tree.stages_below(loop)
            if consumer is not stage
            for region in consumer.block.reads
            if region.buffer is written.buffer
        ]
        if spans:
            needed.append(_solved(stage, written, _joined(written.buffer, spans)))
    if len(needed) != 1:
        raise NotInterpreted(f"block {stage.name!r} is computed for several buffers at once")
    _move(tree, stage, loop, needed[0], index)


def reverse_compute_at(tree: LoopTree, stage: StageNode, loop: LoopNode | None, index: int) -> None:
    """Run, in each iteration of a loop, what can be computed from what was produced there."""
    if loop is None:
        return
    wanted: list[list[Span | None]] = []
    for read in stage.block.reads:
        spans = [
            _relaxed(producer, region, loop, None, with_predicates=False)
            for producer in tree.stages_below(loop)
            for region in producer.block.writes
            if region.buffer is read.buffer
        ]
        if spans:
            wanted.append(_solved(stage, read, _joined(read.buffer, spans)))
    if len(wanted) != 1:
        raise NotInterpreted(f"block {stage.name!r} follows several producers at once")
    _move(tree, stage, loop, wanted[0], index)


# --- what is touched ----------------------------------------------------------------------------


def terms_of(stage: StageNode, index: ir.PrimExpr) -> tuple[list[tuple[int, Terms]], int]:
    """An index of a stage as multiples of its iterators, which are sums of digits, and a number."""
    form = affine_of(index)
    iterators = {each.var: number for number, each in enumerate(stage.block.iter_vars)}
    parts: list[tuple[int, Terms]] = []
    base: int = form.base
    for term, scale in form.terms.items():
        if isinstance(term, ir.Var) and term in iterators:
            parts.append((scale, stage.bindings[iterators[term]]))
        elif (constant := _constant(stage, term)) is not None:
            base += scale * constant
        else:
            parts.append((scale, _quotient(stage, term)))
    return sorted(parts, key=lambda part: part[0]), base


def _quotient(stage: StageNode, term: ir.PrimExpr) -> Terms:
    """A quotient or remainder as a sum of digits.

    Tiles of an iterator with a power of two of values, over a power of two, begin at multiples of
    the divisor or lie between two of them.
    """
    made = quotient_terms(iterators_of(stage), term, by_terms=True)
    is_cut = all(digit.total != EVERYTHING for digit in made)
    if not is_cut and isinstance(term, ir.FloorDiv) and isinstance(term.b, ir.IntImm):
        for iter_var, terms in zip(stage.block.iter_vars, stage.bindings, strict=True):
            sizes = (_own_extent(iter_var), term.b.value)
            if iter_var.var is term.a and all(size & (size - 1) == 0 for size in sizes):
                return {Digit(EVERYTHING, terms, term.b.value, EVERYTHING, is_aligned=True): 1}
    return made


def _constant(stage: StageNode, term: ir.PrimExpr) -> int | None:
    """A quotient of iterators that is the same number everywhere."""
    if isinstance(term, ir.FloorDiv) and isinstance(term.b, ir.IntImm):
        low = high = (form := affine_of(term.a)).base
        domains = {each.var: each.dom for each in stage.block.iter_vars}
        for var, scale in form.terms.items():
            dom = domains.get(var)  # type: ignore[call-overload]
            if dom is None or not isinstance(dom.extent, ir.IntImm):
                break
            ends = (0, scale * (dom.extent.value - 1))
            low, high = low + min(ends), high + max(ends)
        else:
            if low // term.b.value == high // term.b.value:
                return int(low // term.b.value)
    return None


def _relaxed(
    stage: StageNode,
    region: ir.BufferRegion,
    loop: LoopNode,
    shared_in: ir.Buffer | None,
    *,
    with_predicates: bool,
) -> list[Span]:
    """What a region covers while the loops inside of `loop` run."""
    running = digits_of(loops_between(stage, loop))
    if shared_in is not None:
        running |= digits_of(_sharing([*loops_of(loop), loop], shared_in.scope))
    held: DigitReaches | None = None
    use: Value = 0
    if with_predicates and stage.predicates:
        held = DigitReaches(running, stage.predicates)
        use = negate(_is_ignored(stage, running))
    return [
        _Axis(stage, axis, running, whole).span(held, use)
        for axis, whole in zip(region.region, region.buffer.shape, strict=True)
    ]


def _is_ignored(stage: StageNode, running: set[Digit]) -> Value:
    """1 where the predicate of a stage does not depend on what runs alone: it says nothing then."""
    loops = loops_of(stage)
    everything = DigitReaches(digits_of(loops))
    fused = {digit for loop in loops if loop.is_fused for digit in loop.digits}
    ignored: Value = 0
    for each in stage.predicates:
        is_there = less_equal(each.limit, everything.of(each.terms))
        roots = roots_of(each.terms) - running
        for digit in [own for loop in loops for own in loop.digits if own in roots]:
            # What is fused and runs once is not mentioned any more.
            mentions = is_more_than_one(digit.extent) if digit in fused else 1
            ignored = either(ignored, both(is_there, mentions))
    return ignored


def _sharing(loops: Sequence[LoopNode], scope: str) -> list[LoopNode]:
    """Loops over threads that see the same memory."""
    return [loop for loop in loops if loop.tag and shares_threads(loop.tag, scope)]


def shares_threads(tag: str, scope: str) -> bool:
    """True when the threads of an axis see the same memory of that scope."""
    kind = scope.split(".")[0]
    if kind == "shared":
        return not tag.startswith("blockIdx")
    return kind == "warp" and tag == "threadIdx.x"


class _Axis:
    """One dimension of a region while some digits run."""

    def __init__(
        self, stage: StageNode, axis: ir.Range, running: set[Digit], whole: ir.PrimExpr
    ) -> None:
        if not isinstance(axis.extent, ir.IntImm):
            raise NotInterpreted(f"block {stage.name!r} touches a region of unknown size")
        self._width = axis.extent.value
        self._stage, self._running = stage, running
        self._is_constant: Value = 1
        parts, self._base = terms_of(stage, axis.min)
        self._mirrored_in = 0
        if parts and parts[0][0] < 0:
            parts = self._mirrored(parts, whole)
        self._inner = [(scale, self._part(terms, inside=True)) for scale, terms in parts]
        outer = [scaled(self._part(terms, inside=False), scale) for scale, terms in parts]
        self._low = summed(outer)

    def _mirrored(
        self, parts: Sequence[tuple[int, Terms]], whole: ir.PrimExpr
    ) -> list[tuple[int, Terms]]:
        """An index that runs from the last element down to the first, counted from the last."""
        self._mirrored_in, self._base = self._base + self._width, 0
        mirrored = [(-scale, terms) for scale, terms in parts]
        everything = summed([scaled(terms, scale) for scale, terms in mirrored])
        most = bounds(DigitReaches(roots_of(everything)).of(everything))[1] + self._width
        is_all = isinstance(whole, ir.IntImm) and whole.value == self._mirrored_in == most
        if not is_all or any(scale < 0 for scale, _ in mirrored):
            raise NotInterpreted(f"block {self._stage.name!r} runs backwards")
        return mirrored

    def _part(self, terms: Terms, *, inside: bool) -> Terms:
        """The digits of a sum that run, or that stand still."""
        found: Terms = {}
        for digit, stride in terms.items():
            roots = roots_of([digit])
            if digit.source is not None:  # what runs once does not move it
                roots = {each for each in roots if each.extent != 1} or roots
            if roots <= self._running:
                found.update({digit: stride} if inside else {})
            elif roots.isdisjoint(self._running):
                found.update({} if inside else {digit: stride})
            elif digit.source is None or digit.extent != EVERYTHING:
                require_fixed(digit.source or {})
                raise NotInterpreted(f"block {self._stage.name!r} is moved into a part of a loop")
            elif inside or digit.is_aligned:
                part = self._part(dict(digit.source), inside=inside)
                found[replace(digit, source=part)] = stride
            else:
                found = summed([found, scaled(self._begin(digit), stride)])
        return found

    def _begin(self, digit: Digit) -> Terms:
        """The part of a quotient that stands still; multiples of the divisor come out of it.

        How much is touched depends on the place where it begins, unless the rest divides as well.
        """
        assert digit.source is not None
        divisor, source = digit.below, dict(digit.source)
        outer, inner = self._part(source, inside=False), self._part(source, inside=True)
        reaches = DigitReaches(roots_of(source))
        (even, odd), (_, odd_inside) = _divided(outer, divisor), _divided(inner, divisor)
        whole = equal(remainder(reaches.of(inner), divisor), 0)
        no_step = less(reaches.of(odd) + reaches.of(odd_inside), divisor)
        stays = either(whole, either(no_step, less_equal(reaches.of(odd), 0)))
        self._is_constant = both(self._is_constant, stays)
        return {**even, replace(digit, source=odd): 1}

    def span(self, held: DigitReaches | None, use: Value) -> Span:
        """What is touched; predicates hold it back only where no gaps are left."""
        free = DigitReaches(self._running)
        reach = self._reach(free)
        if held is not None:
            dense = self._is_dense(free)
            reach = where(both(dense, use), self._reach(held), reach)
        extent = reach + self._width
        return Span(self._low, self._base, extent, self._is_constant, self._mirrored_in)

    def _reach(self, reaches: DigitReaches) -> Value:
        return reaches.of(summed([scaled(terms, scale) for scale, terms in self._inner]))

    def _is_dense(self, reaches: DigitReaches) -> Value:
        """1 where no iterator steps over more than what smaller steps fill."""
        width: Value = self._width
        dense: Value = 1
        for scale, terms in self._inner:
            reach = reaches.of(terms)
            dense = both(dense, either(less_equal(scale, width), less_equal(reach, 0)))
            width = width + multiply(reach, scale)
        return dense


def _divided(terms: Terms, divisor: Value) -> tuple[Terms, Terms]:
    """The multiples of a divisor in a sum, divided, and the rest."""
    even: Terms = {}
    odd: Terms = {}
    for digit, stride in terms.items():
        divides = equal(remainder(stride, divisor), 0)
        even[digit] = where(divides, floor_divide(stride, divisor), 0)
        odd[digit] = where(divides, 0, stride)
    return _without_zeros(even), _without_zeros(odd)


def _without_zeros(terms: Terms) -> Terms:
    return {digit: c for digit, c in terms.items() if isinstance(c, Expr) or c}


def _joined(buffer: ir.Buffer, boxes: Sequence[Sequence[Span]]) -> list[Span]:
    return [
        _join(extent, spans)
        for extent, spans in zip(buffer.shape, zip(*boxes, strict=True), strict=True)
    ]


def _join(extent: ir.PrimExpr, spans: Sequence[Span]) -> Span:
    first = spans[0]
    if any(not _same(first.low, other.low) or other.mirrored_in for other in spans[1:]):
        everything = [span for span in spans if not span.low and span.base <= 0]
        for span in everything:
            if isinstance(extent, ir.IntImm) and bounds(span.extent)[0] >= extent.value:
                return span
        raise NotInterpreted("regions begin at places whose distance varies")
    if len(spans) == 1:
        return first
    begin = min(span.base for span in spans)
    end: Value = first.base + first.extent
    for span in spans[1:]:
        end = maximum(end, span.base + span.extent)
    is_constant = functools.reduce(both, [span.is_constant for span in spans])
    return Span(first.low, begin, end - begin, is_constant)


def _same(a: Terms, b: Terms) -> bool:
    return a.keys() == b.keys() and all(a[d] == b[d] for d in a)


# --- what runs then -----------------------------------------------------------------------------


def _solved(stage: StageNode, accessed: ir.BufferRegion, box: Sequence[Span]) -> list[Span | None]:
    """For each iterator of a stage the values that make an access touch a box; None: all."""
    wanted: dict[ir.Var, Span] = {}
    for axis, span in zip(accessed.region, box, strict=True):
        index = _without_units(stage, axis.min)
        if isinstance(index, ir.IntImm):
            continue
        if not isinstance(index, ir.Var) or index in wanted or not ir.is_one(axis.extent):
            raise NotInterpreted(f"block {stage.name!r} is moved by way of the index `{index}`")
        wanted[index] = span
    return [wanted.get(each.var) for each in stage.block.iter_vars]


def _without_units(stage: StageNode, index: ir.PrimExpr) -> ir.PrimExpr:
    """An index without iterators that have one value only; these are zero."""
    units = {each.var for each in stage.block.iter_vars if _own_extent(each) == 1}
    form = affine_of(index)
    left = {term: scale for term, scale in form.terms.items() if term not in units}
    if form.base or len(left) > 1:
        return index
    only = next(iter(left.items()), (ir.const(0), 1))
    return only[0] if only[1] == 1 else index


def _move(
    tree: LoopTree, stage: StageNode, loop: LoopNode, wanted: Sequence[Span | None], index: int
) -> None:
    stage_index = _position(tree, stage, loop, index)
    tree.remove(stage)
    outside = digits_of([*loops_of(loop), loop])
    loops: list[LoopNode] = []
    bindings: list[Terms] = []
    stage.predicates = []
    for iter_var, span in zip(stage.block.iter_vars, wanted, strict=True):
        digit, terms = _domain(tree, stage, iter_var, span, outside)
        loops.append(LoopNode([digit]))
        bindings.append(terms)
    stage.bindings = bindings
    tree.insert(nest_of(loops, stage), loop, stage_index)


def _domain(
    tree: LoopTree, stage: StageNode, iter_var: ir.IterVar, span: Span | None, outside: set[Digit]
) -> tuple[Digit, Terms]:
    """The loop of an iterator and what the iterator is; a predicate where that is too much."""
    own = _own_extent(iter_var)
    if span is None:
        digit = Digit(own)
        return digit, {digit: 1}
    reach = DigitReaches(outside).of(span.low)
    covers = both(less_equal(reach, -span.base), less_equal(own - span.base, span.extent))
    tree.constant_extents.append(either(covers, span.is_constant))
    # What covers all values is never shorter than they are.
    is_short = bounds(span.extent)[1] <= own
    digit = Digit(span.extent if is_short else where(covers, own, span.extent))
    low = span.low
    if span.base < 0:
        low = {each: multiply(stride, negate(covers)) for each, stride in low.items()}
    terms = {**low, digit: 1}
    if span.mirrored_in:
        if span.mirrored_in != own:
            raise NotInterpreted(f"block {stage.name!r} is moved along a loop that runs backwards")
        return digit, {**scaled(low, -1), digit: 1}
    stage.predicates.append(Predicate(terms, minimum(own - span.base, bounds(own)[1] - span.base)))
    return digit, terms


def _own_extent(iter_var: ir.IterVar) -> int:
    dom = iter_var.dom
    if dom is None or not isinstance(dom.extent, ir.IntImm) or not ir.is_zero(dom.min):
        raise NotInterpreted(f"the iterator {iter_var.var.name!r} has no constant domain from zero")
    return dom.extent.value


def _position(tree: LoopTree, stage: StageNode, loop: LoopNode, index: int) -> int:
    """After producers, before consumers: the last such place, or (-2) the first."""
    if index not in (-1, -2):
        raise NotInterpreted("a block is moved to a numbered place in a loop")
    first, last = 0, len(loop.body)
    for number, child in enumerate(loop.body):
        below = [each for each in tree.stages_below(child) if each is not stage]
        if last == len(loop.body) and any(_reads_from(each, stage) for each in below):
            last = number
        if any(_reads_from(stage, each) for each in below):
            first = number + 1
    return last if index == -1 else first


def _reads_from(reader: StageNode, writer: StageNode) -> bool:
    written = {region.buffer for region in writer.block.writes}
    return any(read.buffer in written for read in reader.block.reads)


def readers_of(tree: LoopTree, stage: StageNode) -> Iterator[StageNode]:
    """The stages that read what a stage writes."""
    for other in tree.stages():
        if other is not stage and _reads_from(other, stage):
            yield other


__all__ = ["compute_at", "readers_of", "reverse_compute_at", "terms_of"]
