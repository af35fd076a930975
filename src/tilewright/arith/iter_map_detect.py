"""Finding iterator maps, checking that they are bijective or surjective, and inverting them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tilewright import ir
from tilewright.arith import iter_map as maps
from tilewright.arith.analyzer import Analyzer
from tilewright.arith.iter_map_padding import NotAnIterMap
from tilewright.arith.iter_map_predicate import BoundConstraint, parse_predicate, shrink_domains
from tilewright.arith.iter_map_rewrite import IterMapRewriter
from tilewright.errors import ArithError

_LEVELS = {
    "bijective": maps.IterMapLevel.BIJECTIVE,
    "surjective": maps.IterMapLevel.SURJECTIVE,
    "nocheck": maps.IterMapLevel.NO_CHECK,
}


def as_level(level: maps.IterMapLevel | str) -> maps.IterMapLevel:
    if isinstance(level, maps.IterMapLevel):
        return level
    found = _LEVELS.get(level.lower())
    if found is None:
        raise ArithError(f"unknown check level {level!r}; expected one of {', '.join(_LEVELS)}")
    return found


def detect_iter_map(
    indices: Sequence[ir.ExprLike],
    input_iters: Mapping[ir.Var, ir.Range],
    predicate: ir.ExprLike = ir.TRUE,
    check_level: maps.IterMapLevel | str = maps.IterMapLevel.SURJECTIVE,
    simplify_trivial_iterators: bool = True,
) -> maps.IterMapResult:
    """Write every index as one fused iterator plus a base, all of them independent.

    On failure the result has no indices and says in `errors` what stood in the way.
    """
    level, holds = as_level(check_level), ir.convert(predicate)
    nodes = [ir.convert(index) for index in indices]

    def attempt(exprs: Sequence[ir.PrimExpr]) -> maps.IterMapResult:
        try:
            sums, rewriter = find_iter_map(
                exprs, input_iters, holds, level, simplify_trivial_iterators
            )
        except (NotAnIterMap, ArithError) as failure:
            return maps.IterMapResult((), (str(failure),))
        return maps.IterMapResult(tuple(sums), (), rewriter.padding)

    found = attempt(nodes)
    together = _with_common_dividends(nodes) if found.errors else None
    return found if together is None else attempt(together)


def _with_common_dividends(indices: Sequence[ir.PrimExpr]) -> list[ir.PrimExpr] | None:
    """The indices with remainders of what others are quotients of; None if nothing changes.

    `(a * 32 + b) // 15` and `(a * 2 + b) % 15` are the two parts of `a * 32 + b`: multiples of the
    divisor change no remainder, which a simplifier uses. Written with one dividend, they are an
    iterator map. With `(a * 32 + b) // 240` and `(a * 32 + b) % 240 // 15` they have three parts.
    """
    dividends: dict[int, list[ir.PrimExpr]] = {}
    for index in indices:
        for node in ir.nodes_of(index, ir.FloorDiv):
            if isinstance(node.b, ir.IntImm) and node.b.value > 0:
                dividends.setdefault(node.b.value, []).append(node.a)
    form_of = Analyzer().linear_form

    def with_dividend(node: ir.FloorMod) -> ir.PrimExpr:
        if not isinstance(node.b, ir.IntImm):
            return node
        divisor = node.b.value
        known = [
            dividend
            for other in sorted(dividends, reverse=True)
            if other % divisor == 0
            for dividend in dividends[other]
            if form_of(dividend).is_congruent(form_of(node.a), divisor)
        ]
        if not known or any(ir.structural_equal(dividend, node.a) for dividend in known):
            return node
        return ir.floormod(known[0], divisor)

    changed = [ir.rewrite(index, {ir.FloorMod: with_dividend}) for index in indices]
    same = all(new is old for new, old in zip(changed, indices, strict=True))
    return None if same else list(changed)


def find_iter_map(
    indices: Sequence[ir.PrimExpr],
    input_iters: Mapping[ir.Var, ir.Range],
    predicate: ir.PrimExpr,
    level: maps.IterMapLevel,
    simplify_trivial: bool,
) -> tuple[list[maps.IterSumExpr], IterMapRewriter]:
    """The checked map and the rewriter that made it; raises NotAnIterMap."""
    rewriter = make_rewriter(input_iters, predicate, level, simplify_trivial)
    sums = rewriter.rewrite_all(indices)
    _MappingCheck(rewriter).run(sums)
    return sums, rewriter


def make_rewriter(
    input_iters: Mapping[ir.Var, ir.Range],
    predicate: ir.PrimExpr,
    level: maps.IterMapLevel,
    simplify_trivial: bool,
) -> IterMapRewriter:
    """A rewriter that knows the iterators and the bounds the predicate puts on them."""
    analyzer = Analyzer(input_iters)
    constraints: list[BoundConstraint] = []
    if not ir.is_one(predicate):
        parsed = parse_predicate(analyzer, predicate, input_iters)
        input_iters, constraints = shrink_domains(analyzer, input_iters, parsed)
    rewriter = IterMapRewriter(analyzer, input_iters, level, simplify_trivial)
    for constraint in constraints:
        total = rewriter.rewrite(constraint.expr)
        if total.args:
            rewriter.constrain(total, constraint.low, constraint.high)
            continue
        low, high = constraint.low, constraint.high
        starts = low is None or analyzer.can_prove(total.base >= low)
        if not starts or (high is not None and not analyzer.can_prove(total.base < high)):
            raise NotAnIterMap("the predicate does not hold for the only value of an iterator")
    return rewriter


class _MappingCheck:
    """Verifies that the splits of every mark tile it, from the outputs down to the inputs."""

    def __init__(self, rewriter: IterMapRewriter) -> None:
        self._rewriter = rewriter
        self._bijective = rewriter.level == maps.IterMapLevel.BIJECTIVE
        self._covering = rewriter.level != maps.IterMapLevel.NO_CHECK
        self._padded = {padded.mark: padded for padded in rewriter.padding}
        self._uses: dict[maps.IterMark, list[maps.IterSplitExpr]] = {}

    def run(self, sums: Sequence[maps.IterSumExpr]) -> None:
        for total in sums:
            self._add_uses(total.args)
        for mark in marks_outermost_first(sums):
            self._check_mark(mark, self._uses[mark])
            if isinstance(mark.source, maps.IterSumExpr):
                self._add_uses(mark.source.args)
        if self._covering:
            self._check_constraints()
        if self._bijective:
            self._check_all_inputs_used()

    def _add_uses(self, splits: Sequence[maps.IterSplitExpr]) -> None:
        for split in splits:
            self._uses.setdefault(split.source, []).append(split)

    def _check_mark(self, mark: maps.IterMark, splits: list[maps.IterSplitExpr]) -> None:
        padded = self._padded.get(mark)
        if padded is not None and self._covering:
            _check_padded(padded, splits)
        chain = self._sorted_by_lower_factor(splits)
        covered: ir.PrimExpr = chain[0].lower_factor
        if self._bijective and not ir.is_one(covered):
            raise NotAnIterMap("the indices do not form a bijective map")
        for split in chain:
            if not self._meets(covered, split.lower_factor):
                raise NotAnIterMap("the indices are not independent")
            covered = self._rewriter.product(split.lower_factor, split.extent)
        if self._covering and not self._meets(covered, mark.extent):
            raise NotAnIterMap("the indices do not form a bijective map")

    def _meets(self, covered: ir.PrimExpr, wanted: ir.PrimExpr) -> bool:
        """True when digits reach just as far as wanted or, of no bijection, an even part of it."""
        if self._rewriter.equal(covered, wanted):
            return True
        return not self._bijective and self._rewriter.divides(covered, wanted)

    def _sorted_by_lower_factor(self, splits: list[maps.IterSplitExpr]) -> list[maps.IterSplitExpr]:
        if all(isinstance(split.lower_factor, ir.IntImm) for split in splits):
            return sorted(splits, key=_lower_then_extent)
        ordered: list[maps.IterSplitExpr] = []
        rest = list(splits)
        expected: ir.PrimExpr = ir.const(1, rest[0].dtype)
        while rest:
            fits = (self._rewriter.equal(split.lower_factor, expected) for split in rest)
            split = rest.pop(next((at for at, fit in enumerate(fits) if fit), 0))
            ordered.append(split)
            expected = self._rewriter.product(split.lower_factor, split.extent)
        return ordered

    def _check_constraints(self) -> None:
        """An iterator bounded together with others must not be used without them."""
        for _, mark, _ in self._rewriter.constrained:
            if mark in self._uses:
                continue
            assert isinstance(mark.source, maps.IterSumExpr)
            inner = marks_outermost_first([mark.source])
            if any(other in self._uses for other in inner if other is not mark):
                raise NotAnIterMap("the predicate couples iterators that the indices separate")

    def _check_all_inputs_used(self) -> None:
        for mark in self._rewriter.input_marks:
            if mark not in self._uses and not ir.is_one(mark.extent):
                raise NotAnIterMap("the indices do not form a bijective map")


def _check_padded(padded: maps.PaddedMark, splits: list[maps.IterSplitExpr]) -> None:
    """A padded iterator may give one index, whose values its real part must all reach."""
    if len(splits) > 1:
        raise NotAnIterMap("indices depend on each other where an iterator is padded")
    lower, extent = _lower_then_extent(splits[0])
    total, real = padded.mark.extent, padded.extent
    assert isinstance(total, ir.IntImm)
    assert isinstance(real, ir.IntImm)
    right_pad = total.value - padded.left_pad - real.value
    is_quotient = lower * extent == total.value and max(padded.left_pad, right_pad) < lower
    if not is_quotient and real.value < lower * extent:
        raise NotAnIterMap("an index does not reach all of its values where an iterator is padded")


def _lower_then_extent(split: maps.IterSplitExpr) -> tuple[int, int]:
    lower = split.lower_factor.value if isinstance(split.lower_factor, ir.IntImm) else 0
    extent = split.extent.value if isinstance(split.extent, ir.IntImm) else 0
    return lower, extent


def marks_outermost_first(sums: Sequence[maps.IterSumExpr]) -> list[maps.IterMark]:
    """Every mark below the sums, each after all the marks that are made of it."""
    finished: dict[maps.IterMark, None] = {}

    def visit(mark: maps.IterMark) -> None:
        if mark in finished:
            return
        if isinstance(mark.source, maps.IterSumExpr):
            for split in mark.source.args:
                visit(split.source)
        finished[mark] = None

    for total in sums:
        for split in total.args:
            visit(split.source)
    return list(reversed(finished))


def normalize_to_iter_sum(
    index: ir.ExprLike, input_iters: Mapping[ir.Var, ir.Range]
) -> maps.IterSumExpr:
    """The index as a sum of splits, fused where possible, with decreasing scales."""
    rewriter = make_rewriter(input_iters, ir.TRUE, maps.IterMapLevel.NO_CHECK, False)
    try:
        return rewriter.rewrite(ir.convert(index))
    except NotAnIterMap as failure:
        raise ArithError(f"{index} is not a sum of iterators: {failure}") from None


def iter_map_simplify(
    indices: Sequence[ir.ExprLike],
    input_iters: Mapping[ir.Var, ir.Range],
    predicate: ir.ExprLike = ir.TRUE,
    check_level: maps.IterMapLevel | str = maps.IterMapLevel.SURJECTIVE,
    simplify_trivial_iterators: bool = True,
) -> list[ir.PrimExpr]:
    """The indices as their iterator map reads, or unchanged where there is none."""
    nodes = [ir.convert(index) for index in indices]
    result = detect_iter_map(nodes, input_iters, predicate, check_level, simplify_trivial_iterators)
    if not result.indices:
        return nodes
    return [maps.normalize_iter_map_to_expr(total) for total in result.indices]


class IterMapInverse:
    """The values of all marks of a map, and of its input variables, in terms of the outputs."""

    def __init__(
        self,
        iter_map: Sequence[maps.IterSumExpr],
        outputs: Sequence[ir.ExprLike],
        *,
        simplified: bool = True,
    ) -> None:
        if len(iter_map) != len(outputs):
            raise ArithError(
                f"the map has {len(iter_map)} indices but {len(outputs)} outputs were given"
            )
        self._analyzer = Analyzer()
        self._simplify = self._analyzer.simplify if simplified else lambda expr: expr
        self._parts: dict[maps.IterMark, ir.PrimExpr] = {}
        self.value_of: dict[maps.IterMark, ir.PrimExpr] = {}
        self.variables: dict[ir.Var, ir.PrimExpr] = {}
        for total, output in zip(iter_map, outputs, strict=True):
            self._push_output(total, ir.convert(output))
        for mark in marks_outermost_first(iter_map):
            self._resolve(mark)

    def _push_output(self, total: maps.IterSumExpr, output: ir.PrimExpr) -> None:
        if not total.args:
            return
        (split,) = total.args
        if not (isinstance(split.scale, ir.IntImm) and split.scale.value in (1, -1)):
            raise ArithError(
                f"the map cannot be inverted: an index advances in steps of {split.scale}"
            )
        self._push(split, ir.multiply(ir.subtract(output, total.base), split.scale))

    def _push(self, split: maps.IterSplitExpr, value: ir.PrimExpr) -> None:
        """The digit `split` of its mark is `value`."""
        part = ir.multiply(value, split.lower_factor)
        known = self._parts.get(split.source)
        self._parts[split.source] = part if known is None else ir.add(known, part)

    def _resolve(self, mark: maps.IterMark) -> None:
        """All digits of `mark` are known; hand its value on to what it is made of."""
        value = self.value_of[mark] = self._simplify(self._parts[mark])
        match mark.source:
            case maps.IterSumExpr(args=args, base=base):
                self._distribute(args, self._simplify(ir.subtract(value, base)))
            case ir.Sub(a=ir.Var() as var, b=low):
                self.variables[var] = self._simplify(ir.add(value, low))
            case ir.Var() as var:
                self.variables[var] = value

    def _distribute(self, args: Sequence[maps.IterSplitExpr], value: ir.PrimExpr) -> None:
        """Read the digits of a fused iterator off its value."""
        expected: ir.PrimExpr | None = None
        for position, split in enumerate(reversed(args)):
            if expected is not None and not self._analyzer.can_prove_equal(split.scale, expected):
                raise ArithError("the map cannot be inverted: two iterators overlap in one index")
            expected = ir.multiply(split.scale, split.extent)
            digit = value
            if not ir.is_one(split.scale):
                digit = ir.floordiv(digit, split.scale)
            outermost = position == len(args) - 1
            if not outermost:
                digit = ir.floormod(digit, split.extent)
            self._push(split, digit)


def inverse_affine_iter_map(
    iter_map: Iterable[maps.IterSumExpr], outputs: Sequence[ir.ExprLike], *, simplified: bool = True
) -> dict[ir.Var, ir.PrimExpr]:
    """The input variables of a bijective map, given its outputs.

    Not simplified, they have the form that TVM gives them.
    """
    return IterMapInverse(tuple(iter_map), outputs, simplified=simplified).variables
