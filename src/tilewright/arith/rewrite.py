"""The rewrite simplifier: applies the rule tables bottom-up until none matches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeAlias

from tilewright import ir
from tilewright.arith.interning import has_side_effect, is_pure_call
from tilewright.arith.pattern import OperationPattern, Rule
from tilewright.arith.rule_compiler import (
    IF_THEN_ELSE,
    CompiledRule,
    child_classes,
    compile_rule,
    expand,
    make_namespace,
    root_classes,
)
from tilewright.arith.rules import ALL_RULES
from tilewright.arith.rules.table import Domain, domains_of
from tilewright.ir.arithmetic import DIVISIONS, FOLDERS

if TYPE_CHECKING:
    from tilewright.arith.facts import Facts

# Types whose arithmetic the folding functions round correctly.
_EXACT_FLOATS = frozenset({"float16", "float32", "float64"})


def fold_binary(kind: type[ir.BinaryOp], a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr | None:
    """`kind(a, b)` evaluated, or with a negative constant respelt; None when neither applies."""
    if type(b) is ir.IntImm:
        if type(a) is ir.IntImm:
            inexact = a.dtype.is_bool or (b.value == 0 and kind in DIVISIONS)
            return None if inexact else FOLDERS[kind](a, b)
        if b.value < 0 and (kind is ir.Add or kind is ir.Sub):
            return _respell_negative(kind, a, b)
    elif type(a) is ir.FloatImm and type(b) is ir.FloatImm and a.dtype in _EXACT_FLOATS:
        inexact = kind in DIVISIONS and (kind is not ir.Div or b.value == 0)
        return None if inexact else FOLDERS[kind](a, b)
    return None


def _respell_negative(kind: type[ir.BinaryOp], a: ir.PrimExpr, b: ir.IntImm) -> ir.PrimExpr | None:
    """`a + -3` as `a - 3`, and the other way round."""
    if ir.wrap_int(-b.value, b.dtype) != -b.value:
        return None  # the smallest number of the type has no opposite
    opposite = ir.const(-b.value, b.dtype)
    return ir.Sub(a, opposite) if kind is ir.Add else ir.Add(a, opposite)


def fold_cast(dtype: ir.DType, value: ir.PrimExpr) -> ir.PrimExpr:
    """A cast, evaluated on constants and moved below broadcasts."""
    if isinstance(value, (ir.IntImm, ir.Broadcast)) or value.dtype is dtype:
        return ir.cast(dtype, value)
    if isinstance(value, ir.FloatImm) and dtype in _EXACT_FLOATS and value.dtype.bits <= dtype.bits:
        return ir.cast(dtype, value)
    return ir.Cast(dtype, value)


_BITWISE = frozenset(
    f"tir.{name}"
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]
)


def fold_call(call: ir.Call) -> ir.PrimExpr:
    """A call of a builtin on constants, evaluated where that is exact."""
    if not isinstance(call.op, ir.Op) or not is_pure_call(call):
        return call
    if call.op.name == "tir.likely" and isinstance(call.args[0], ir.IntImm):
        return call.args[0]
    if call.op.name in _BITWISE and all(isinstance(arg, ir.IntImm) for arg in call.args):
        shift = call.args[1]
        if "shift" not in call.op.name or (isinstance(shift, ir.IntImm) and 0 <= shift.value < 64):
            return ir.bitwise(call.op.name, *call.args)
    return call


# Opens a scope in which a condition holds.
Scope: TypeAlias = Callable[[ir.PrimExpr], AbstractContextManager[None]]
# A chain of rewrites at one node that gets this long is cut; the tables are meant to terminate.
_MAX_CHAIN = 40


class _RuleIndex:
    """Finds the rules that may match a node from the classes of the node and its operands."""

    def __init__(self) -> None:
        self._by_root: dict[type, list[tuple[Domain, Rule]]] = {}
        for table in ALL_RULES:
            for rule in expand(table.rules):
                for root in root_classes(rule.left):
                    self._by_root.setdefault(root, []).append((table.domain, rule))
        self._compiled: dict[Rule, CompiledRule] = {}
        self._namespace = make_namespace(has_side_effect)
        self._by_key: dict[tuple[type, tuple[type, ...], ir.DType], tuple[CompiledRule, ...]] = {}

    def candidates(
        self, root: type, operands: tuple[type, ...], dtype: ir.DType
    ) -> tuple[CompiledRule, ...]:
        key = (root, operands, dtype)
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = self._select(root, operands, domains_of(dtype))
        return found

    def _select(
        self, root: type, operands: tuple[type, ...], domains: frozenset[Domain]
    ) -> tuple[CompiledRule, ...]:
        return tuple(
            self._compile(rule)
            for domain, rule in self._by_root.get(root, ())
            if domain in domains and _may_match(rule.left, operands)
        )

    def _compile(self, rule: Rule) -> CompiledRule:
        compiled = self._compiled.get(rule)
        if compiled is None:
            compiled = self._compiled[rule] = compile_rule(rule, self._namespace)
        return compiled


def _may_match(pattern: OperationPattern, operands: tuple[type, ...]) -> bool:
    for arg, operand in zip(pattern.args, operands, strict=False):
        allowed = child_classes(arg)
        if allowed is not None and operand not in allowed:
            return False
    return True


@functools.cache
def _rule_index() -> _RuleIndex:
    """Made for the first analyzer; a rule is compiled when an expression of its shape shows up."""
    return _RuleIndex()


class RewriteSimplifier:
    """Simplifies with the rule tables, under the facts of one analyzer."""

    def __init__(self, facts: Facts, enter: Scope) -> None:
        self._facts = facts
        self._enter = enter
        self._chain = 0
        self._index = _rule_index()

    def visit(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """The simplified form of `expr`, a representative of the interner."""
        memory = self._facts.rewritten
        known = memory.get(expr)
        if known is not None:
            return known
        if type(expr) is ir.Var and not self._facts.var_values:
            return expr
        node = self._with_simple_children(expr)
        known = memory.get(node)
        result = self._reduce(node) if known is None else known
        memory[expr] = memory[node] = result
        memory[result] = result
        return result

    def reduce_root(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """Apply the rules to a node whose children are simplified already."""
        known = self._facts.rewritten.get(expr)
        return self._reduce(expr) if known is None else known

    def _with_simple_children(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """The node over simplified children, with constants folded."""
        interner = self._facts.interner
        if isinstance(expr, ir.BinaryOp):
            a, b = self.visit(expr.a), self.visit(expr.b)
            folded = fold_binary(type(expr), a, b)
            if folded is not None:
                return interner.intern(folded)
            if a is expr.a and b is expr.b:
                return interner.shallow(expr)
            return interner.binary(type(expr), a, b)
        match expr:
            case ir.Var():
                value = self._facts.var_values.get(expr)
                return expr if value is None else self.visit(value)
            case ir.IntImm() | ir.FloatImm() | ir.StringImm():
                return interner.intern(expr)
            case ir.Select():
                return self._choice(expr, expr.condition, expr.true_value, expr.false_value)
            case ir.Call() if expr.op is IF_THEN_ELSE:
                return self._choice(expr, *expr.args)
            case ir.Call():
                return interner.intern(fold_call(ir.map_children(expr, self.visit)))
            case ir.Cast():
                return interner.intern(fold_cast(expr.dtype, self.visit(expr.value)))
            case ir.Let():
                return ir.map_children(expr, self.visit)
        return interner.shallow(
            ir.map_children(expr, lambda n: self.visit(n) if isinstance(n, ir.PrimExpr) else n)
        )

    def _choice(
        self, expr: ir.Select | ir.Call, condition: ir.PrimExpr, yes: ir.PrimExpr, no: ir.PrimExpr
    ) -> ir.PrimExpr:
        """A Select or if_then_else; each value is simplified knowing how the condition went."""
        condition = self.visit(condition)
        if isinstance(condition, ir.IntImm):
            return self.visit(yes if condition.value else no)
        new_yes = self._visit_knowing(condition, yes)
        new_no = self._visit_knowing(ir.Not(condition), no)
        interner = self._facts.interner
        if isinstance(expr, ir.Select):
            return interner.shallow(ir.Select(condition, new_yes, new_no))
        return interner.shallow(ir.Call(expr.dtype, IF_THEN_ELSE, (condition, new_yes, new_no)))

    def _visit_knowing(self, condition: ir.PrimExpr, value: ir.PrimExpr) -> ir.PrimExpr:
        if isinstance(value, (ir.Var, ir.IntImm, ir.FloatImm)) or condition.dtype.lanes != 1:
            return self.visit(value)
        with self._enter(condition):
            return self.visit(value)

    def _reduce(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """Apply rules at the root, then wherever their results allow more."""
        if isinstance(expr, (ir.Var, ir.IntImm, ir.FloatImm)):
            return expr
        if self._facts.known_conditions:
            known = self._facts.known_conditions.get(expr)
            if known is not None:
                return self._facts.interner.intern(ir.const(known, expr.dtype))
        better = self._apply_once(expr)
        if better is None or self._chain >= _MAX_CHAIN:
            return expr
        self._chain += 1
        try:
            return self.visit(better)
        finally:
            self._chain -= 1

    def _apply_once(self, expr: ir.PrimExpr) -> ir.PrimExpr | None:
        kind: type = type(expr)
        if isinstance(expr, ir.BinaryOp):
            operands: tuple[type, ...] = (type(expr.a), type(expr.b))
            dtype = expr.a.dtype
        elif isinstance(expr, ir.Not):
            operands, dtype = (type(expr.a),), expr.dtype
        elif isinstance(expr, ir.Select) or (isinstance(expr, ir.Call) and expr.op is IF_THEN_ELSE):
            operands, dtype = (), expr.dtype
        else:
            return None
        for apply in self._index.candidates(kind, operands, dtype):
            result = apply(expr, self._facts)
            if result is not None:
                return result
        return self._by_modular_set(expr)

    def _by_modular_set(self, expr: ir.PrimExpr) -> ir.PrimExpr | None:
        """Remainders and equalities that divisibility alone decides."""
        match expr:
            case ir.FloorMod(a=a, b=ir.IntImm(value=divisor)) if divisor != 0:
                coeff, base = self._facts.modular(a)
                if coeff % divisor == 0:
                    return ir.const(base % divisor, expr.dtype)
            case ir.EQ(a=a, b=b) | ir.NE(a=a, b=b) if a.dtype.is_integral:
                left, right = self._facts.modular(a), self._facts.modular(b)
                shared = left.gcd_with(right.coeff)
                if shared.coeff > 1 and (shared.base - right.base) % shared.coeff:
                    return ir.const(isinstance(expr, ir.NE), expr.dtype)
        return None
