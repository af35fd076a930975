"""Knowledge of an analyzer: domains of variables, conditions that hold, results so far.

Everything learnt lives in small dictionaries. Entering a scope copies the knowledge and starts
with empty memories, since an answer found without the new condition may be weaker than necessary;
leaving it puts the old ones back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.arith.bounds import NEG_INF, POS_INF, ConstIntBound, compute_bound
from tilewright.arith.interning import Interner
from tilewright.arith.modular import ModularSet, compute_modular, intersect_modular
from tilewright.ir import PrimExpr, Range, Var


class Facts:
    """Knowledge and memory of one analyzer."""

    def __init__(self) -> None:
        self.interner = Interner()
        self.var_bounds: dict[Var, ConstIntBound] = {}
        self.var_modular: dict[Var, ModularSet] = {}
        self.var_values: dict[Var, PrimExpr] = {}
        self.var_ranges: dict[Var, Range] = {}
        self.expr_bounds: dict[PrimExpr, ConstIntBound] = {}
        self.expr_modular: dict[PrimExpr, ModularSet] = {}
        self.known_conditions: dict[PrimExpr, bool] = {}
        self.forget()

    def forget(self) -> None:
        """Drop the memories; needed whenever something new is learnt."""
        self._bounds: dict[PrimExpr, ConstIntBound] = {}
        self._modular: dict[PrimExpr, ModularSet] = {}
        self.rewritten: dict[PrimExpr, PrimExpr] = {}
        self.canonical: dict[PrimExpr, PrimExpr] = {}
        self.simplified: dict[PrimExpr, PrimExpr] = {}

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Everything learnt inside is forgotten at the end."""
        saved = dict(self.__dict__)
        for name in ("var_bounds", "var_modular", "var_values", "var_ranges"):
            setattr(self, name, dict(saved[name]))
        for name in ("expr_bounds", "expr_modular", "known_conditions"):
            setattr(self, name, dict(saved[name]))
        self.forget()
        try:
            yield
        finally:
            self.__dict__.update(saved)

    def bound(self, expr: PrimExpr) -> ConstIntBound:
        """Constant bounds of an integer expression."""
        known = self._bounds.get(expr)
        if known is None:
            known = compute_bound(self, expr)
            if self.expr_bounds:
                known = self._constrained_bound(expr, known)
            self._bounds[expr] = known
        return known

    def _constrained_bound(self, expr: PrimExpr, bound: ConstIntBound) -> ConstIntBound:
        limit = self.expr_bounds.get(self.interner.intern(expr))
        if limit is None:
            return bound
        low, high = max(bound[0], limit[0]), min(bound[1], limit[1])
        # Contradicting conditions mean dead code; any answer is right, so keep the consistent one.
        return ConstIntBound(low, high) if low <= high else bound

    def modular(self, expr: PrimExpr) -> ModularSet:
        """The modular set of an integer expression."""
        known = self._modular.get(expr)
        if known is None:
            known = compute_modular(self, expr)
            if self.expr_modular:
                learnt = self.expr_modular.get(self.interner.intern(expr))
                known = known if learnt is None else intersect_modular(known, learnt)
            self._modular[expr] = known
        return known

    def learn_bound(self, expr: PrimExpr, low: int = NEG_INF, high: int = POS_INF) -> None:
        """Remember that `low <= expr <= high`; `expr` is a representative."""
        old = self.expr_bounds.get(expr)
        if old is not None:
            low, high = max(low, old[0]), min(high, old[1])
        self.expr_bounds[expr] = ConstIntBound(low, high)

    def learn_modular(self, expr: PrimExpr, learnt: ModularSet) -> None:
        """Remember that `expr` lies in a modular set; `expr` is a representative."""
        old = self.expr_modular.get(expr)
        self.expr_modular[expr] = learnt if old is None else intersect_modular(old, learnt)
