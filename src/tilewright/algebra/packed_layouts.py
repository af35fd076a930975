"""Buffers that are stored in the order in which loops read them: `RewriteLayout` on trees.

The dimensions of such a buffer are the digits of the loops that index it, the outermost first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from tilewright import ir
from tilewright.algebra.choices import Choices
from tilewright.algebra.expr import (
    Value,
    both,
    ceil_divide,
    either,
    equal,
    is_more_than_one,
    less_equal,
    maximum,
    minimum,
    multiply,
    negate,
    product_of,
    where,
)
from tilewright.algebra.indices import index_terms
from tilewright.algebra.lift import lift
from tilewright.algebra.loop_tree import (
    Digit,
    LoopNode,
    LoopTree,
    NotInterpreted,
    Predicate,
    StageNode,
    Terms,
    digits_of,
    inner_stages,
    iterators_of,
    loops_of,
    roots_of,
    scopes_of,
)
from tilewright.algebra.reach import DigitReaches
from tilewright.ir.annotation_keys import LAYOUT_REWRITE_PREPROC
from tilewright.nest.access import LINE
from tilewright.schedule import Schedule
from tilewright.space.layout_free import has_bound_weights


@dataclass(frozen=True, eq=False)
class PackedLayout:
    """The extents of a buffer, each with the digit of a loop that moves along it."""

    dims: tuple[tuple[Value, Digit], ...]
    below: Value = 1  # elements inside of all dimensions

    def bytes(self, running: Set[Digit], width: int, unit: int) -> Value:
        """Bytes in whole lines while some loops run; a last dimension has more than one element.

        A tensor instruction touches a unit inside of all dimensions.
        """
        last: Value = 1
        others: Value = 1
        for (extent, mover), is_last in zip(self.dims, self._last(), strict=True):
            span = extent if mover in running else 1
            last = multiply(last, 1 if unit else where(is_last, span, 1))
            others = multiply(others, span if unit else where(is_last, 1, span))
        lines = ceil_divide(maximum(multiply(last, width), unit), LINE)
        return multiply(others, multiply(lines, LINE))

    def _last(self) -> list[Value]:
        """1 for the innermost dimension that is not of extent 1."""
        found: list[Value] = []
        waiting: Value = 1
        for extent, _ in reversed(self.dims):
            runs = is_more_than_one(extent)
            found.insert(0, both(waiting, runs))
            waiting = both(waiting, negate(runs))
        return found

    def stride(self, mover: Digit) -> Value:
        """Elements between two iterations of a loop; 0 where they follow no rule."""
        sizes = [extent for extent, _ in self.dims]
        stride: Value = 0
        expected: Value = 0
        found: Value = 0
        regular: Value = 1
        for place in reversed(range(len(sizes))):
            if self.dims[place][1] is mover:
                own = product_of([self.below, *sizes[place + 1 :]])
                runs = is_more_than_one(sizes[place])
                fits = either(negate(both(runs, found)), equal(own, expected))
                regular = both(regular, fits)
                stride = where(both(runs, negate(found)), own, stride)
                expected = where(runs, multiply(own, sizes[place]), expected)
                found = either(found, runs)
        return multiply(regular, stride)

    def within(self, digits: Set[Digit]) -> PackedLayout:
        """The dimensions that some loops move along; the others are inside of them."""
        below = product_of([extent for extent, mover in self.dims if mover not in digits])
        return PackedLayout(tuple(each for each in self.dims if each[1] in digits), below)


def pack(
    tree: LoopTree, func: ir.PrimFunc, buffer: ir.Buffer, choices: Choices
) -> StageNode | None:
    """Let the reader of a buffer read a copy of it in its own order.

    That reader, or None where the buffer is packed already, is read by an instruction, or by loops
    that have no order of their own.
    """
    readers = list(_readers(tree, buffer))
    if not readers or any(
        LAYOUT_REWRITE_PREPROC in scopes_of(stage)[0].annotations for stage, _ in readers
    ):
        return None
    if len(readers) != 1 or has_bound_weights(func) or _is_copy(readers[0][0]):
        raise NotInterpreted(f"the layout of {buffer.name!r} follows one of several readers")
    ((stage, load),) = readers
    axes = [index_terms(iterators_of(stage), index) for index in load.indices]
    around = [loop for scope in scopes_of(stage) for loop in loops_of(scope)]
    predicates = [each for scope in scopes_of(stage) for each in scope.predicates]
    extents = {digit: _held_extent(digit, predicates) for terms in axes for digit in terms}
    whole = _is_whole(buffer, extents, axes, around, predicates)
    if not choices.decide((buffer.name, "is packed"), whole):
        return None
    used = [digit for loop in around for digit in loop.digits if digit in extents]
    top = scopes_of(stage)[0]
    made = _copy(func, top, buffer)
    movers = [loop.digits[0] for loop in loops_of(made)]
    axis_of = {digit: axis for axis, terms in enumerate(axes) for digit in terms}
    (written,) = made.block.writes
    made.packed[written.buffer] = PackedLayout(
        tuple((extents[digit], movers[axis_of[digit]]) for digit in used)
    )
    tree.packed.add(buffer)
    made.annotations[LAYOUT_REWRITE_PREPROC] = True
    tree.insert(loops_of(made)[0], None, 0)
    stage.packed[buffer] = PackedLayout(tuple((extents[digit], digit) for digit in used))
    return stage


def _readers(tree: LoopTree, buffer: ir.Buffer) -> Iterator[tuple[StageNode, ir.BufferLoad]]:
    for top in tree.stages():
        for stage in inner_stages(top.parts) or [top]:
            if stage.does != "init":
                for load in ir.nodes_of(stage.block.body, ir.BufferLoad):
                    if load.buffer is buffer:
                        yield stage, load


def _is_copy(stage: StageNode) -> bool:
    match stage.block.body:
        case ir.BufferStore(indices=to, value=ir.BufferLoad(indices=places)):
            return len(to) == len(places) and all(a is b for a, b in zip(to, places, strict=True))
    return False


def _held_extent(digit: Digit, predicates: Sequence[Predicate]) -> Value:
    """How far a loop gets; a predicate on it alone holds it back."""
    extent = digit.extent
    for predicate in predicates:
        if digit in predicate.terms:
            alone = equal(predicate.terms[digit], 1)
            for other in predicate.terms:
                alone = alone if other is digit else both(alone, equal(other.extent, 1))
            extent = where(alone, minimum(extent, predicate.limit), extent)
    return extent


def _is_whole(
    buffer: ir.Buffer,
    extents: Mapping[Digit, Value],
    axes: Sequence[Terms],
    around: Sequence[LoopNode],
    predicates: Sequence[Predicate],
) -> Value:
    """1 where loops go through all of a buffer, and read each element in one iteration."""
    shape = [each.value if isinstance(each, ir.IntImm) else 0 for each in buffer.shape]
    if any(digit.source is not None for digit in extents) or len(extents) < sum(map(len, axes)):
        raise NotInterpreted(f"loops do not go through {buffer.name!r} element by element")
    whole = equal(product_of(list(extents.values())), math.prod(shape))
    for predicate in predicates:
        whole = both(whole, negate(_tears(predicate, set(extents), around)))
    return whole


def _tears(predicate: Predicate, used: Set[Digit], around: Sequence[LoopNode]) -> Value:
    """1 where a predicate stops a loop that was fused of one that it is about and a used one."""
    roots = roots_of(predicate.terms)
    stops = less_equal(predicate.limit, DigitReaches(roots).of(predicate.terms))
    torn: Value = 0
    for loop in around:
        inside = [digit for digit in loop.digits if digit in roots]
        others = [digit for digit in loop.digits if digit in used and digit not in roots]
        for one, other in itertools.product(inside, others):
            runs = both(is_more_than_one(one.extent), is_more_than_one(other.extent))
            torn = either(torn, runs)
    return both(stops, torn)


def _copy(func: ir.PrimFunc, reader: StageNode, buffer: ir.Buffer) -> StageNode:
    """A stage that copies a buffer, in loops of its own."""
    sch = Schedule(ir.IRModule({"main": func}), error_render_level="fast")
    block = sch.get_block(reader.block.name_hint)
    regions = sch.get_sref(block).block.reads
    place = next(n for n, region in enumerate(regions) if region.buffer is buffer)
    copy = sch.get_sref(sch.cache_read(block, place, "global")).block
    _, nodes = lift(sch.mod["main"])
    made = nodes[copy]
    assert isinstance(made, StageNode)
    return made


def outer_layout(stage: StageNode, inner: StageNode, buffer: ir.Buffer) -> PackedLayout:
    """The layout of a buffer as a block sees it that does not know the loops of its units."""
    layout: PackedLayout = inner.packed[buffer]
    return layout.within(digits_of(loops_of(stage)))
