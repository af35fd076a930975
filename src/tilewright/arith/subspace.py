"""Dividing iterator maps into an outer and an inner part, the basis of blockize.

Given bindings over iterators of which some are *inner*, every binding becomes
`outer * inner_extent + inner`, where `outer` uses only outer iterators and `inner` only inner ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from tilewright import ir
from tilewright.arith.iter_map import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    normalize_iter_map_to_expr,
)
from tilewright.arith.iter_map_detect import as_level, find_iter_map
from tilewright.arith.iter_map_padding import NotAnIterMap
from tilewright.arith.iter_map_rewrite import IterMapRewriter, rescaled
from tilewright.errors import ArithError

Division: TypeAlias = tuple[IterMark, IterMark]


def subspace_divide(
    bindings: Sequence[ir.ExprLike],
    input_iters: Mapping[ir.Var, ir.Range],
    sub_iters: Iterable[ir.Var],
    predicate: ir.ExprLike = ir.TRUE,
    check_level: IterMapLevel | str = IterMapLevel.SURJECTIVE,
    simplify_trivial_iterators: bool = True,
) -> list[Division]:
    """An (outer, inner) pair of marks for each binding, then a pair with the two predicates.

    The predicates are the extents of the last pair. An empty list means that the bindings cannot be
    divided.
    """
    level, condition = as_level(check_level), ir.convert(predicate)
    nodes = [ir.convert(binding) for binding in bindings]
    try:
        sums, rewriter = find_iter_map(
            nodes, input_iters, condition, level, simplify_trivial_iterators
        )
        divider = _Divider(rewriter, frozenset(sub_iters))
        divisions = [divider.binding(total) for total in sums]
        outer, inner = divider.predicates()
    except (NotAnIterMap, ArithError):
        return []
    zero = IterSumExpr((), ir.const(0, "int32"))
    divisions.append((IterMark(zero, outer), IterMark(zero, inner)))
    return divisions


class _Divider:
    """Separates marks into outer and inner parts."""

    def __init__(self, rewriter: IterMapRewriter, sub_iters: frozenset[ir.Var]) -> None:
        self._rewriter = rewriter
        self._sub_iters = sub_iters
        self._input_vars = {
            var for mark in rewriter.input_marks for var in ir.free_vars(mark.source)
        }

    def binding(self, total: IterSumExpr) -> Division:
        if not total.args:
            return self._trivial(total.dtype), self._trivial(total.dtype, total.base)
        (split,) = total.args
        if not ir.is_one(split.scale):
            raise NotAnIterMap(f"a binding advances in steps of {split.scale}")
        if self._is_inner(split):
            return self._trivial(total.dtype), _mark_of(split, total.base)
        if self._is_outer(split):
            return _mark_of(split, total.base), self._trivial(total.dtype)
        outer, inner = self._divide_split(split)
        return outer, _shifted(inner, total.base)

    def _trivial(self, dtype: str, base: ir.PrimExpr | None = None) -> IterMark:
        source = IterSumExpr((), ir.const(0, dtype) if base is None else base)
        return IterMark(source, ir.const(1, dtype))

    def _is_inner(self, node: IterSplitExpr | IterMark) -> bool:
        return not ir.uses_var(node, lambda v: v in self._input_vars and v not in self._sub_iters)

    def _is_outer(self, node: IterSplitExpr | IterMark) -> bool:
        return not ir.uses_var(node, self._sub_iters.__contains__)

    def _divide_split(self, split: IterSplitExpr) -> Division:
        """A split over both kinds of iterators; its mark is a sum."""
        outer, inner = self._divide_mark(split.source)
        rewriter = self._rewriter
        lower, extent, step = split.lower_factor, split.extent, inner.extent
        upper = rewriter.product(lower, extent)
        reaches_top = rewriter.equal(upper, split.source.extent)
        if ir.is_one(lower) and reaches_top:
            return outer, inner
        if ir.is_one(lower) and rewriter.divides(step, extent):
            return _digit(outer, ir.const(1, split.dtype), rewriter.quotient(extent, step)), inner
        if rewriter.divides(step, lower):
            digit = _digit(outer, rewriter.quotient(lower, step), extent)
            return digit, self._trivial(split.dtype)
        if rewriter.divides(upper, step):
            return self._trivial(split.dtype), _digit(inner, lower, extent)
        if rewriter.divides(lower, step) and reaches_top:
            return outer, _digit(inner, lower, rewriter.quotient(step, lower))
        raise NotAnIterMap("a binding takes digits across the outer and inner iterators")

    def _divide_mark(self, mark: IterMark) -> Division:
        source = mark.source
        if not isinstance(source, IterSumExpr) or not ir.is_zero(source.base):
            raise NotAnIterMap("a binding is not a plain sum of iterators")
        args = tuple(self._on_its_side(arg) for arg in source.args)
        inner_from = len(args)
        while inner_from > 0 and self._is_inner(args[inner_from - 1]):
            inner_from -= 1
        outer_to = 0
        while outer_to < inner_from and self._is_outer(args[outer_to]):
            outer_to += 1
        if inner_from - outer_to > 1:
            raise NotAnIterMap("outer and inner iterators alternate in a binding")
        if inner_from == outer_to:
            return self._divide_between(mark, args, inner_from)
        return self._divide_through(mark, args, outer_to)

    def _on_its_side(self, split: IterSplitExpr) -> IterSplitExpr:
        """A split of a sum over both kinds of iterators that takes digits of one kind only."""
        if self._is_inner(split) or self._is_outer(split):
            return split
        outer, inner = self._divide_split(split)
        if ir.is_one(inner.extent):
            return self._with_scale(outer, split.scale)[0]
        if ir.is_one(outer.extent):
            return self._with_scale(inner, split.scale)[0]
        return split

    def _divide_between(self, mark: IterMark, args: tuple[IterSplitExpr, ...], at: int) -> Division:
        """`args[:at]` are outer, `args[at:]` inner; the mark must be their plain product."""
        if at in (0, len(args)):
            self._require_plain(mark, args)
            whole = IterMark(IterSumExpr(args, ir.const(0, mark.extent.dtype)), mark.extent)
            nothing = self._trivial(mark.extent.dtype)
            return (whole, nothing) if at else (nothing, whole)
        inner_extent = args[at - 1].scale
        natural = self._rewriter.product(args[at].scale, args[at].extent)
        if not self._rewriter.equal(inner_extent, natural):
            raise NotAnIterMap("outer and inner iterators overlap in a binding")
        if not self._rewriter.divides(inner_extent, mark.extent):
            raise NotAnIterMap("a predicate cuts through the inner iterators of a binding")
        outer_extent = self._rewriter.quotient(mark.extent, inner_extent)
        zero = ir.const(0, mark.extent.dtype)
        self._require_plain(mark, args)
        outer = IterMark(IterSumExpr(self._over(args[:at], inner_extent), zero), outer_extent)
        return outer, IterMark(IterSumExpr(args[at:], zero), inner_extent)

    def _divide_through(self, mark: IterMark, args: tuple[IterSplitExpr, ...], at: int) -> Division:
        """`args[at]` itself has an outer and an inner part."""
        self._require_plain(mark, args)
        part_outer, part_inner = self._divide_split(args[at])
        below = args[at].scale
        inner_extent = self._rewriter.product(part_inner.extent, below)
        outer_sum = self._with_scale(part_outer, ir.const(1, below.dtype))
        zero = ir.const(0, below.dtype)
        outer = IterSumExpr((*self._over(args[:at], inner_extent), *outer_sum), zero)
        inner = IterSumExpr((*self._with_scale(part_inner, below), *args[at + 1 :]), zero)
        outer_extent = self._rewriter.quotient(mark.extent, inner_extent)
        return IterMark(outer, outer_extent), IterMark(inner, inner_extent)

    def _over(
        self, args: Sequence[IterSplitExpr], divisor: ir.PrimExpr
    ) -> tuple[IterSplitExpr, ...]:
        """Splits with their scales divided."""
        return tuple(rescaled(arg, self._rewriter.quotient(arg.scale, divisor)) for arg in args)

    def _require_plain(self, mark: IterMark, args: tuple[IterSplitExpr, ...]) -> None:
        """The extent of the mark is the product of its parts: nothing overlaps or is cut off."""
        natural = self._rewriter.product(args[0].scale, args[0].extent)
        if not self._rewriter.equal(natural, mark.extent):
            raise NotAnIterMap("the iterators of a binding overlap or are cut by a predicate")

    def _with_scale(self, mark: IterMark, scale: ir.PrimExpr) -> tuple[IterSplitExpr, ...]:
        if ir.is_one(mark.extent):
            return ()
        one = ir.const(1, mark.extent.dtype)
        return (IterSplitExpr(mark, one, mark.extent, scale),)

    def predicates(self) -> tuple[ir.PrimExpr, ir.PrimExpr]:
        """The bounds on outer and on inner iterators that the marks carry in their extents."""
        outer, inner = ir.TRUE, ir.TRUE
        for _, mark, offset in self._rewriter.constrained:
            bound = self._as_condition(mark, offset)
            if self._is_outer(mark):
                outer = ir.logical_and(outer, bound)
            elif self._is_inner(mark):
                inner = ir.logical_and(inner, bound)
            else:
                raise NotAnIterMap("a predicate couples outer and inner iterators")
        return outer, inner

    def _as_condition(self, mark: IterMark, offset: ir.PrimExpr) -> ir.PrimExpr:
        analyzer = self._rewriter.analyzer
        value = normalize_iter_map_to_expr(mark.source)
        plain = analyzer.simplify(ir.add(value, offset))
        bound = ir.less(plain, analyzer.simplify(ir.add(mark.extent, offset)))
        if ir.is_zero(offset):
            return bound
        return ir.logical_and(ir.greater_equal(plain, offset), bound)


def _mark_of(split: IterSplitExpr, base: ir.PrimExpr) -> IterMark:
    source = split if ir.is_zero(base) else IterSumExpr((split,), base)
    return IterMark(source, split.extent)


def _shifted(mark: IterMark, base: ir.PrimExpr) -> IterMark:
    if ir.is_zero(base):
        return mark
    assert isinstance(mark.source, (IterSumExpr, IterSplitExpr))
    if isinstance(mark.source, IterSumExpr):
        return IterMark(IterSumExpr(mark.source.args, ir.add(mark.source.base, base)), mark.extent)
    return IterMark(IterSumExpr((mark.source,), base), mark.extent)


def _digit(mark: IterMark, lower: ir.PrimExpr, extent: ir.PrimExpr) -> IterMark:
    one = ir.const(1, extent.dtype)
    return IterMark(IterSplitExpr(mark, lower, extent, one), extent)
