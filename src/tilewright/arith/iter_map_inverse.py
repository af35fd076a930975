"""Inverting iterator maps: the input variables as functions of the indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright import ir
from tilewright.arith.analyzer import Analyzer
from tilewright.arith.iter_map import IterMark, IterSplitExpr, IterSumExpr, is_constant
from tilewright.arith.iter_map_detect import marks_outermost_first
from tilewright.errors import ArithError


class IterMapInverse:
    """The values of all marks of a map, and of its input variables, in terms of the outputs."""

    def __init__(
        self,
        iter_map: Sequence[IterSumExpr],
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
        self._parts: dict[IterMark, ir.PrimExpr] = {}
        self.value_of: dict[IterMark, ir.PrimExpr] = {}
        self.variables: dict[ir.Var, ir.PrimExpr] = {}
        for total, output in zip(iter_map, outputs, strict=True):
            self._push_output(total, ir.convert(output))
        for mark in marks_outermost_first(iter_map):
            self._resolve(mark)

    def _push_output(self, total: IterSumExpr, output: ir.PrimExpr) -> None:
        if not total.args:
            return
        (split,) = total.args
        if not (is_constant(split.scale, 1) or is_constant(split.scale, -1)):
            raise ArithError(
                f"the map cannot be inverted: an index advances in steps of {split.scale}"
            )
        self._push(split, ir.multiply(ir.subtract(output, total.base), split.scale))

    def _push(self, split: IterSplitExpr, value: ir.PrimExpr) -> None:
        """The digit `split` of its mark is `value`."""
        part = ir.multiply(value, split.lower_factor)
        known = self._parts.get(split.source)
        self._parts[split.source] = part if known is None else ir.add(known, part)

    def _resolve(self, mark: IterMark) -> None:
        """All digits of `mark` are known; hand its value on to what it is made of."""
        value = self.value_of[mark] = self._simplify(self._parts[mark])
        match mark.source:
            case IterSumExpr(args=args, base=base):
                self._distribute(args, self._simplify(ir.subtract(value, base)))
            case ir.Sub(a=ir.Var() as var, b=low):
                self.variables[var] = self._simplify(ir.add(value, low))
            case ir.Var() as var:
                self.variables[var] = value

    def _distribute(self, args: Sequence[IterSplitExpr], value: ir.PrimExpr) -> None:
        """Read the digits of a fused iterator off its value."""
        expected: ir.PrimExpr | None = None
        for position, split in enumerate(reversed(args)):
            if expected is not None and not self._analyzer.can_prove_equal(split.scale, expected):
                raise ArithError("the map cannot be inverted: two iterators overlap in one index")
            expected = ir.multiply(split.scale, split.extent)
            digit = value
            if not is_constant(split.scale, 1):
                digit = ir.floordiv(digit, split.scale)
            outermost = position == len(args) - 1
            if not outermost:
                digit = ir.floormod(digit, split.extent)
            self._push(split, digit)


def inverse_affine_iter_map(
    iter_map: Iterable[IterSumExpr], outputs: Sequence[ir.ExprLike], *, simplified: bool = True
) -> dict[ir.Var, ir.PrimExpr]:
    """The input variables of a bijective map, given its outputs.

    Not simplified, they have the form that TVM gives them.
    """
    return IterMapInverse(tuple(iter_map), outputs, simplified=simplified).variables
