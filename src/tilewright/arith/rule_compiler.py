"""Turns the rules of a table into Python functions.

A rule becomes straight-line code: class checks from the root downwards, then its condition, then
the construction of the right side. `x + c` also matches `x - 3` (with `c` = -3), because that is
how a simplified expression spells a negative constant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright import ir
from tilewright.arith.bounds import dtype_bound, sub_bounds
from tilewright.arith.pattern import (
    ConstVar,
    ExprVar,
    Literal,
    OperationPattern,
    Pattern,
    Rule,
    is_constant_only,
    orders,
    variables,
)
from tilewright.ir import expr as _expr

if TYPE_CHECKING:
    from tilewright.arith.facts import Facts

CompiledRule: TypeAlias = Callable[[Any, "Facts"], ir.PrimExpr | None]

IF_THEN_ELSE = ir.Op.get("tir.if_then_else")
_BINARY = {cls.__name__: cls for cls in vars(_expr).values()
           if isinstance(cls, type) and issubclass(cls, ir.BinaryOp)}  # fmt: skip
_COMPARISONS = frozenset({"EQ", "NE", "LT", "LE", "GT", "GE"})
_FIELDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_BINARY, ("a", "b")),
    "Not": ("a",),
    "Select": ("condition", "true_value", "false_value"),
    "if_then_else": ("args[0]", "args[1]", "args[2]"),
    "Ramp": ("base", "stride", "lanes"),
    "Broadcast": ("value", "lanes"),
}
NODE_CLASS: dict[str, type] = {
    **_BINARY,
    "Not": ir.Not,
    "Select": ir.Select,
    "if_then_else": ir.Call,
    "Ramp": ir.Ramp,
    "Broadcast": ir.Broadcast,
}
_PYTHON: dict[str, str] = {
    "Add": "({} + {})", "Sub": "({} - {})", "Mul": "({} * {})", "FloorDiv": "({} // {})",
    "FloorMod": "({} % {})", "Min": "min({}, {})", "Max": "max({}, {})",
    "EQ": "({} == {})", "NE": "({} != {})", "LT": "({} < {})", "LE": "({} <= {})",
    "GT": "({} > {})", "GE": "({} >= {})", "And": "({} and {})", "Or": "({} or {})",
    "Not": "(not {})",
}  # fmt: skip
_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "EQ": "EQ", "NE": "NE"}
# How the bounds `b` of an expression prove `expr op k`.
_PROOF_BY_BOUND = {
    "LT": "bound({0})[1] < {1}",
    "LE": "bound({0})[1] <= {1}",
    "GT": "bound({0})[0] > {1}",
    "GE": "bound({0})[0] >= {1}",
    "EQ": "bound({0})[0] == {1} == bound({0})[1]",
    "NE": "(bound({0})[0] > {1} or bound({0})[1] < {1})",
}


def fits(value: int, dtype: ir.DType) -> bool:
    """True when a constant and its negation can be written in `dtype`."""
    whole = dtype_bound(dtype)
    return whole[0] <= value <= whole[1] and (whole[0] == 0 or -value <= whole[1])


def plus_constant(expr: ir.PrimExpr, value: int, dtype: ir.DType) -> ir.PrimExpr:
    """`expr + value` in its simplified spelling."""
    if value == 0:
        return expr
    return (
        ir.Add(expr, ir.const(value, dtype)) if value > 0 else ir.Sub(expr, ir.const(-value, dtype))
    )


def _congruent(facts: Facts, expr: ir.PrimExpr, modulus: int, remainder: int) -> bool:
    known = facts.modular(expr)
    return modulus != 0 and known.coeff % modulus == 0 and (known.base - remainder) % modulus == 0


class _Code:
    """The body of one compiled rule while it is being written."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.lines: list[str] = []
        self.bound_names: set[str] = set()
        self.has_dtype: set[str] = set()  # constants that were matched as nodes
        self._count = 0

    def _fresh(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def _require(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return None")

    def match(self, pattern: Pattern, place: str, *, is_number: bool = False) -> None:
        match pattern:
            case ExprVar(name) | ConstVar(name) if name in self.bound_names and (
                isinstance(pattern, ExprVar) or is_number
            ):
                same = "==" if is_number else "is"
                self._require(f"{place} {same} {name}")
            case ExprVar(name):
                self.bound_names.add(name)
                self.lines.append(f"{name} = {place}")
            case ConstVar(name):
                self._match_constant(name, place, is_number)
            case Literal(value):
                self._require(f"type({place}) in IMMEDIATE and {place}.value == {value!r}")
            case OperationPattern():
                self._match_operation(pattern, place, check=True)

    def _match_constant(self, name: str, place: str, is_number: bool) -> None:
        if not is_number:
            self._require(f"type({place}) is IntImm")
        value = place if is_number else f"{place}.value"
        if name in self.bound_names:
            self._require(f"{value} == {name}")
            return
        self.bound_names.add(name)
        self.lines.append(f"{name} = {value}")
        if not is_number:
            self.has_dtype.add(name)
            self.lines.append(f"d_{name} = {place}.dtype")

    def _match_operation(self, pattern: OperationPattern, place: str, *, check: bool) -> None:
        if place != "e":
            local = self._fresh()
            self.lines.append(f"{local} = {place}")
            place = local
        if _allows_subtraction(pattern):
            self._match_shifted(pattern, place)
            return
        if check:
            self._require(f"type({place}) is {NODE_CLASS[pattern.kind].__name__}")
        if pattern.kind == "if_then_else":
            self._require(f"{place}.op is IF_THEN_ELSE")
        for field, arg in zip(_FIELDS[pattern.kind], pattern.args, strict=True):
            self.match(arg, f"{place}.{field}", is_number=field == "lanes")

    def _match_shifted(self, pattern: OperationPattern, place: str) -> None:
        """`p + c`, where the node may be an Add or a Sub of a constant."""
        shift = pattern.args[1]
        assert isinstance(shift, ConstVar)
        self._require(f"type({place}) is Add or type({place}) is Sub")
        self._require(f"type({place}.b) is IntImm")
        value = f"({place}.b.value if type({place}) is Add else -{place}.b.value)"
        if shift.name in self.bound_names:
            self._require(f"{value} == {shift.name}")
        else:
            self.bound_names.add(shift.name)
            self.has_dtype.add(shift.name)
            self.lines += [f"{shift.name} = {value}", f"d_{shift.name} = {place}.b.dtype"]
        self.match(pattern.args[0], f"{place}.a")

    def condition(self, pattern: Pattern) -> str:
        """A Python expression that is true only if the condition holds."""
        if isinstance(pattern, OperationPattern) and pattern.kind in ("And", "Or"):
            return _PYTHON[pattern.kind].format(*map(self.condition, pattern.args))
        if isinstance(pattern, OperationPattern) and pattern.kind == "is_integer":
            return f"{self.build(pattern.args[0], '')}.dtype.code in INTEGER_CODES"
        if is_constant_only(pattern):
            return self.number(pattern)
        assert isinstance(pattern, OperationPattern)
        assert pattern.kind in _COMPARISONS
        return self._proof(pattern.kind, *pattern.args)

    def _proof(self, kind: str, left: Pattern, right: Pattern) -> str:
        if is_constant_only(left):
            return self._proof(_MIRRORED[kind], right, left)
        if not is_constant_only(right):
            # Not the bound of a Sub node: in an unsigned type that would wrap around.
            sides = (self.build(left, "dt"), self.build(right, "dt"))
            self.lines.append("difference = sub_bounds(bound({}), bound({}))".format(*sides))
            return _PROOF_BY_BOUND[kind].replace("bound({0})", "difference").format("", "0")
        match left:
            case OperationPattern("FloorMod", (dividend, divisor)) if kind == "EQ":
                parts = (self.build(dividend, "dt"), self.number(divisor), self.number(right))
                return f"congruent(facts, {', '.join(parts)})"
        return _PROOF_BY_BOUND[kind].format(self.build(left, "dt"), self.number(right))

    def number(self, pattern: Pattern) -> str:
        match pattern:
            case ConstVar(name):
                return name
            case Literal(value):
                return repr(value)
            case OperationPattern(kind, args):
                return _PYTHON[kind].format(*map(self.number, args))
        raise TypeError(f"{pattern!r} is not a constant")

    def build(self, pattern: Pattern, dtype: str) -> str:
        """Python code that makes the node; constants without a dtype of their own take `dtype`."""
        if isinstance(pattern, ExprVar):
            return pattern.name
        if is_constant_only(pattern):
            return "wrapped_const({}, {})".format(*self._constant(pattern, dtype))
        assert isinstance(pattern, OperationPattern)
        kind, args = pattern.kind, pattern.args
        if kind in ("Ramp", "Broadcast"):
            lane = dtype if dtype.endswith("element_of") else f"{dtype}.element_of"
            parts = [self.build(arg, lane) for arg in args[:-1]]
            return f"{kind}({', '.join([*parts, self.number(args[-1])])})"
        operand = "da" if kind in _COMPARISONS and dtype == "dt" else dtype
        if kind == "Add" and is_constant_only(args[1]):
            value, constant_dtype = self._constant(args[1], operand)
            return f"plus_constant({self.build(args[0], operand)}, {value}, {constant_dtype})"
        parts = [self.build(arg, operand) for arg in args]
        if kind == "if_then_else":
            return f"Call({parts[1]}.dtype, IF_THEN_ELSE, ({', '.join(parts)}))"
        return f"{kind}({', '.join(parts)})"

    def _constant(self, pattern: Pattern, dtype: str) -> tuple[str, str]:
        """A local with the value, checked to fit, and the dtype it takes."""
        own = next((v.name for v in variables(pattern) if v.name in self.has_dtype), None)
        constant_dtype = dtype if own is None else f"d_{own}"
        local = self._fresh()
        self.lines.append(f"{local} = {self.number(pattern)}")
        if not isinstance(pattern, Literal):
            self._require(f"fits({local}, {constant_dtype})")
        return local, constant_dtype

    def _guard_dropped_operands(self) -> None:
        """An operand that is evaluated less often than before must not have side effects."""
        before = Counter(v.name for v in variables(self.rule.left) if isinstance(v, ExprVar))
        after = Counter(v.name for v in variables(self.rule.right) if isinstance(v, ExprVar))
        for name in before - after:
            self._require(f"not has_side_effect({name})")

    def source(self, name: str) -> str:
        self._match_operation(self.rule.left, "e", check=False)
        prologue = ["bound = facts.bound", "dt = e.dtype"]
        if self.rule.left.kind in _COMPARISONS:
            prologue.append("da = e.a.dtype")
        if self.rule.when is not None:
            self.lines += prologue
            self._require(self.condition(self.rule.when))
        else:
            self.lines += prologue[1:]
        self._guard_dropped_operands()
        result = self.build(self.rule.right, "dt")
        body = "\n    ".join([*self.lines, f"return {result}"])
        return f"def {name}(e, facts):\n    {body}\n"


def _allows_subtraction(pattern: Pattern) -> bool:
    return (
        isinstance(pattern, OperationPattern)
        and pattern.kind == "Add"
        and isinstance(pattern.args[1], ConstVar)
    )


def root_classes(pattern: OperationPattern) -> tuple[type, ...]:
    """The node classes that the root of a pattern matches."""
    return (ir.Add, ir.Sub) if _allows_subtraction(pattern) else (NODE_CLASS[pattern.kind],)


def child_classes(pattern: Pattern) -> tuple[type, ...] | None:
    """The node classes an operand pattern matches; None means any."""
    match pattern:
        case ConstVar():
            return (ir.IntImm,)
        case Literal():
            return (ir.IntImm, ir.FloatImm)
        case OperationPattern():
            return root_classes(pattern)
    return None


def expand(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Every rule in all orders of its commutative operators, each form once."""
    for rule in rules:
        seen: set[str] = set()
        for left in orders(rule.left):
            assert isinstance(left, OperationPattern)
            variant = Rule(left, rule.right, rule.when)
            key = _renamed(variant)
            if key not in seen:
                seen.add(key)
                yield variant


def _renamed(rule: Rule) -> str:
    """The rule with its variables numbered by first occurrence, to find duplicates."""
    numbers: dict[str, str] = {}
    for variable in variables(rule.left):
        numbers.setdefault(variable.name, f"_{len(numbers)}")

    def show(pattern: Pattern) -> str:
        match pattern:
            case ExprVar(name) | ConstVar(name):
                return numbers.get(name, name)
            case OperationPattern(kind, args):
                return f"{kind}({','.join(map(show, args))})"
        return repr(pattern)

    condition = "" if rule.when is None else show(rule.when)
    return f"{show(rule.left)}>{show(rule.right)}?{condition}"


def compile_rule(rule: Rule, namespace: dict[str, object]) -> CompiledRule:
    """The function that applies one rule, in one order of operands, to a node of its class."""
    scope: dict[str, Any] = dict(namespace)
    exec(_Code(rule).source("apply"), scope)  # the text is made of the rule tables alone
    compiled: CompiledRule = scope["apply"]
    return compiled


def make_namespace(has_side_effect: Callable[[ir.PrimExpr], bool]) -> dict[str, object]:
    """The names that compiled rules use."""
    return {
        **NODE_CLASS,
        "Call": ir.Call,
        "IntImm": ir.IntImm,
        "IMMEDIATE": frozenset({ir.IntImm, ir.FloatImm}),
        "IF_THEN_ELSE": IF_THEN_ELSE,
        "INTEGER_CODES": frozenset({"int", "uint"}),
        "wrapped_const": ir.wrapped_const,
        "fits": fits,
        "plus_constant": plus_constant,
        "congruent": _congruent,
        "sub_bounds": sub_bounds,
        "has_side_effect": has_side_effect,
    }
