"""Buffers that are stored in the order in which loops read them: `RewriteLayout` on trees.

The dimensions of such a buffer are the digits of the loops that index it, the outermost first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from tilewright import ir
from tilewright.algebra.expr import (
    Value,
    both,
    ceil_divide,
    either,
    equal,
    is_more_than_one,
    less_equal,
    maximum,
    multiply,
    negate,
    product_of,
    where,
)
from tilewright.algebra.indices import index_terms
from tilewright.algebra.lift import lift
from tilewright.algebra.loop_tree import (
    Digit,
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


def pack(tree: LoopTree, func: ir.PrimFunc, buffer: ir.Buffer) -> StageNode | None:
    """Let the reader of a buffer read a copy of it in its own order.

    That reader, or None where the buffer is packed already, or read by an instruction.
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
    _check_whole(buffer, axes, [each for scope in scopes_of(stage) for each in scope.predicates])
    around = [loop for scope in scopes_of(stage) for loop in loops_of(scope)]
    used = [digit for loop in around for digit in loop.digits if any(digit in t for t in axes)]
    top = scopes_of(stage)[0]
    made = _copy(func, top, buffer)
    movers = [loop.digits[0] for loop in loops_of(made)]
    axis_of = {digit: axis for axis, terms in enumerate(axes) for digit in terms}
    (written,) = made.block.writes
    made.packed[written.buffer] = PackedLayout(
        tuple((digit.extent, movers[axis_of[digit]]) for digit in used)
    )
    tree.packed.add(buffer)
    made.annotations[LAYOUT_REWRITE_PREPROC] = True
    tree.insert(loops_of(made)[0], None, 0)
    stage.packed[buffer] = PackedLayout(tuple((digit.extent, digit) for digit in used))
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


def _check_whole(buffer: ir.Buffer, axes: Sequence[Terms], predicates: Sequence[Predicate]) -> None:
    """Loops go through all of a buffer, and read each element in one iteration."""
    shape = [each.value if isinstance(each, ir.IntImm) else 0 for each in buffer.shape]
    digits = list(itertools.chain(*axes))
    may_hold = [
        less_equal(each.limit, DigitReaches(roots_of(each.terms)).of(each.terms))
        for each in predicates
    ]
    if (
        any(holds != 0 for holds in may_hold)
        or any(digit.source is not None for digit in digits)
        or len(set(digits)) < len(digits)
        or product_of([digit.extent for digit in digits]) != math.prod(shape)
    ):
        raise NotInterpreted(f"loops do not go through {buffer.name!r} element by element")


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
