"""Quasi-affine iterator maps: the nodes, and what they mean.

An `IterMark` is an iterator over `[0, extent)`: an input variable or a fused sum. An
`IterSplitExpr` takes digits of a mark, `(source // lower_factor) % extent * scale`; an
`IterSumExpr` adds splits and a base. `detect_iter_map` writes index expressions in this form,
where questions such as "does this binding visit every element once?" have simple answers.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from tilewright import ir
from tilewright.arith.analyzer import Analyzer

__all__ = [
    "IterMapLevel", "IterMapExpr", "IterMark", "IterSplitExpr", "IterSumExpr", "IterMapResult",
    "normalize_iter_map_to_expr",
]  # fmt: skip


class IterMapLevel(enum.IntEnum):
    """How much `detect_iter_map` demands."""

    BIJECTIVE = 0  # every input iterator is fully covered, each point is hit exactly once
    SURJECTIVE = 1  # every index takes all of its values, independently of the others
    NO_CHECK = 3  # any sum of iterators will do; values may not be covered


class IterMapExpr(ir.PrimExpr, frozen=True):
    """A node that only occurs inside iterator maps."""


class IterMark(ir.Node, frozen=True):
    """An iterator over `[0, extent)`."""

    child_fields: ClassVar[tuple[str, ...]] = ("source", "extent")
    source: ir.PrimExpr
    extent: ir.PrimExpr

    def __str__(self) -> str:
        return f"IterMark({self.source}, extent={self.extent})"


class IterSplitExpr(IterMapExpr, frozen=True):
    """`(source // lower_factor) % extent * scale`."""

    child_fields: ClassVar[tuple[str, ...]] = ("source", "lower_factor", "extent", "scale")
    source: IterMark
    lower_factor: ir.PrimExpr
    extent: ir.PrimExpr
    scale: ir.PrimExpr

    @property
    def dtype(self) -> ir.DType:
        return self.source.source.dtype

    def __str__(self) -> str:
        parts = f"lower_factor={self.lower_factor}, extent={self.extent}, scale={self.scale}"
        return f"IterSplit({self.source}, {parts})"


class IterSumExpr(IterMapExpr, frozen=True):
    """The sum of splits and a base that depends on no iterator."""

    child_fields: ClassVar[tuple[str, ...]] = ("args", "base")
    args: tuple[IterSplitExpr, ...]
    base: ir.PrimExpr

    @property
    def dtype(self) -> ir.DType:
        return self.base.dtype

    def __str__(self) -> str:
        return f"IterSum([{', '.join(map(str, self.args))}], {self.base})"


@dataclass(frozen=True)
class PaddedMark:
    """A mark that was extended to a multiple of what it is divided by.

    `mark` counts from `-left_pad`; only `[left_pad, left_pad + extent)` of its values are real.
    """

    mark: IterMark
    left_pad: int
    extent: ir.PrimExpr
    divisor: ir.PrimExpr


@dataclass(frozen=True)
class IterMapResult:
    """What `detect_iter_map` found: one sum for each index, or the reasons why there is none."""

    indices: tuple[IterSumExpr, ...]
    errors: tuple[str, ...] = ()
    padding: tuple[PaddedMark, ...] = ()


def normalize_iter_map_to_expr(expr: ir.PrimExpr) -> ir.PrimExpr:
    """The plain expression that an iterator map stands for."""
    match expr:
        case IterSumExpr(args=args, base=base):
            total: ir.PrimExpr | None = None
            for split in args:
                term = normalize_iter_map_to_expr(split)
                total = term if total is None else ir.add(total, term)
            return base if total is None else ir.add(total, base)
        case IterSplitExpr():
            return _split_to_expr(expr)
    return expr


def _split_to_expr(split: IterSplitExpr) -> ir.PrimExpr:
    value = normalize_iter_map_to_expr(split.source.source)
    upper = ir.multiply(split.lower_factor, split.extent)
    whole = split.source.extent
    reaches_top = (
        upper.value == whole.value
        if isinstance(upper, ir.IntImm) and isinstance(whole, ir.IntImm)
        else (ir.is_one(split.lower_factor) and split.extent is whole)
        or Analyzer().can_prove_equal(upper, whole)
    )
    if not reaches_top:
        value = ir.floormod(value, upper)
    if not ir.is_one(split.lower_factor):
        value = ir.floordiv(value, split.lower_factor)
    return ir.multiply(value, split.scale)
