"""Linear forms: `sum of scale * split + base`, the data structure of the canonical simplifier.

A split `(atom, lower, upper)` stands for `(atom % upper) // lower`; `upper == WHOLE` means no
remainder is taken. Splits of one atom that tile it recombine: `x // 4 * 4 + x % 4` is `x`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd
from operator import floordiv
from typing import TYPE_CHECKING, Final, TypeAlias

from tilewright.arith import bounds
from tilewright.arith.affine import summed
from tilewright.ir import PrimExpr

if TYPE_CHECKING:
    from tilewright.arith.facts import Facts

WHOLE: Final = bounds.POS_INF
Split: TypeAlias = tuple[PrimExpr, int, int]  # atom, lower factor, upper factor


class NotLinear(Exception):
    """The form cannot stand for the expression: a constant does not fit the type, or evaluating
    the expression has side effects, which a form could drop. Never leaves this package."""


@dataclass(frozen=True, eq=False, slots=True)
class LinearForm:
    """`sum(scale * split) + base`; no scale is zero."""

    terms: dict[Split, int]
    base: int = 0

    def plus(self, other: LinearForm, factor: int = 1) -> LinearForm:
        """`self + factor * other`."""
        if not other.terms:
            return LinearForm(self.terms, self.base + factor * other.base)
        terms = summed(self.terms, other.terms, factor)
        result = LinearForm(terms, self.base + factor * other.base)
        atoms = {split[0] for split in self.terms}
        touched = any(split[0] in atoms for split in other.terms)
        return _recombine(result) if touched else result

    def times(self, factor: int) -> LinearForm:
        if factor == 0:
            return LinearForm({})
        return LinearForm(
            {split: scale * factor for split, scale in self.terms.items()}, self.base * factor
        )

    def divided_exactly(self, divisor: int) -> LinearForm:
        """Every scale over `divisor`, which divides them; the base is rounded down."""
        terms = {split: scale // divisor for split, scale in self.terms.items()}
        return LinearForm(terms, self.base // divisor)

    def scale_gcd(self, start: int) -> int:
        return gcd(start, *self.terms.values())

    def is_congruent(self, other: LinearForm, divisor: int) -> bool:
        """True when both surely leave the same remainder."""
        difference = self.plus(other, -1)
        return difference.scale_gcd(difference.base) % divisor == 0

    def partition(self, divisor: int) -> tuple[dict[Split, int], dict[Split, int]]:
        """The terms whose scale `divisor` divides, and the others."""
        multiple: dict[Split, int] = {}
        rest: dict[Split, int] = {}
        for split, scale in self.terms.items():
            (rest if scale % divisor else multiple)[split] = scale
        return multiple, rest


def constant_form(value: int) -> LinearForm:
    return LinearForm({}, value)


def atom_form(atom: PrimExpr, lower: int = 1, upper: int = WHOLE, scale: int = 1) -> LinearForm:
    return LinearForm({(atom, lower, upper): scale})


def _recombine(form: LinearForm) -> LinearForm:
    """Join splits of the same atom until no two fit together."""
    by_atom: dict[PrimExpr, list[Split]] = {}
    for split in form.terms:
        by_atom.setdefault(split[0], []).append(split)
    terms = form.terms
    for splits in by_atom.values():
        while len(splits) > 1:
            joined = _join_some_pair(terms, splits)
            if joined is None:
                break
            terms, splits = joined
    return form if terms is form.terms else LinearForm(terms, form.base)


def _join_some_pair(
    terms: dict[Split, int], splits: list[Split]
) -> tuple[dict[Split, int], list[Split]] | None:
    for high in splits:
        for low in splits:
            joined = None if high is low else _join(high, terms[high], low, terms[low])
            if joined is None:
                continue
            split, scale = joined
            changed: dict[Split, int] = {}
            for key, value in terms.items():  # the result takes the place of the first of the two
                if key is high or key is low:
                    changed.setdefault(split, 0)
                else:
                    changed[key] = changed.get(key, 0) + value
            changed[split] += scale
            if changed[split] == 0:
                del changed[split]
            return changed, [s for s in changed if s[0] is split[0]]
    return None


def _join(high: Split, high_scale: int, low: Split, low_scale: int) -> tuple[Split, int] | None:
    """One split equal to `high_scale * high + low_scale * low`, if there is one."""
    atom, lower, upper = low
    _, cut, high_upper = high
    if cut % lower or cut == lower or (high_upper != WHOLE and high_upper % cut):
        return None
    factor = cut // lower
    if upper == cut and high_scale == low_scale * factor:  # quotient and remainder at the cut
        return (atom, lower, high_upper), low_scale
    if upper == high_upper and high_scale == -low_scale * factor:  # value less its quotient
        return (atom, lower, cut), low_scale
    return None


def bound_of_terms(
    facts: Facts, terms: Iterable[tuple[Split, int]], base: int
) -> bounds.ConstIntBound:
    total = bounds.ConstIntBound(base, base)
    for (atom, lower, upper), scale in terms:
        bound = facts.bound(atom)
        if upper != WHOLE:
            bound = bounds.floormod_bounds(bound, bounds.ConstIntBound(upper, upper))
        if lower != 1:
            bound = bounds.div_bounds(bound, bounds.ConstIntBound(lower, lower), floordiv)
        total = bounds.add_bounds(total, bounds.scale_bound(bound, scale))
    return total
