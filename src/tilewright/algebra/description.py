"""The algebra of a sketch as text: variables, constraints, and expressions written as formulas.

An expression that occurs in several places is written once, under a name of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tilewright.algebra.decisions import CategoricalDecision, Decision, TileDecision
from tilewright.algebra.expr import Expr, Value
from tilewright.algebra.interpreter import Interpretation
from tilewright.algebra.nest_view import NestView
from tilewright.schedule.primitives.sample_compute_location import INLINE

_INFIX = {"+": 1, "*": 2, "//": 2, "%": 2, "<=": 0, "==": 0}  # the higher, the tighter


def variable_lines(decisions: Sequence[Decision]) -> list[str]:
    """A line for each decision: its variables and what they may be."""
    return [f"{', '.join(each.names)}: {_domain(each)}" for each in decisions]


def _domain(decision: Decision) -> str:
    if isinstance(decision, CategoricalDecision):
        return "in {" + ", ".join(map(str, decision.values)) + "}"
    if isinstance(decision, TileDecision):
        limit = f", the last at most {decision.most[-1]}" if decision.max_innermost > 0 else ""
        return f"product {decision.extent}{limit}"
    return f"from {INLINE} to {max(1, decision.loops) - 1}, a place to compute a block at"


def structure_lines(found: Interpretation) -> list[str]:
    """Checks, loops and nests of one structure, after the expressions that they share."""
    text = Formulas(_values(found))
    lines: list[str] = []
    for check in found.checks:
        lines.append(f"require {text.of(check.holds)}  # {check.origin}")
    for block in found.blocks:
        lines.append(f"loops of {block.name}: {', '.join(map(text.of, block.extents))}")
    for nest in found.nests:
        lines += _nest_lines(nest, text)
    return [*text.definitions, *lines]


def _nest_lines(nest: NestView, text: Formulas) -> Iterator[str]:
    yield f"nest {nest.name}: operations {text.of(nest.operations)}"
    for access in nest.accesses:
        verb = "stores to" if access.is_store else "loads"
        below = ", ".join(map(text.of, access.footprints))
        yield f"  {verb} {access.buffer.name}: bytes below each loop {below}"


def _values(found: Interpretation) -> Iterator[Value | float]:
    """All that is written, in order."""
    yield from (check.holds for check in found.checks)
    for block in found.blocks:
        yield from block.extents
    for nest in found.nests:
        yield nest.operations
        for access in nest.accesses:
            yield from access.footprints


class Formulas:
    """Values as formulas; what they share has a name and a definition."""

    def __init__(self, values: Iterable[Value | float]) -> None:
        uses = _uses([each for each in values if isinstance(each, Expr)])
        self._names: dict[Expr, str] = {}
        self.definitions: list[str] = []
        for node in sorted(uses, key=lambda each: each.number):
            if uses[node] > 1 and node.op != "variable":
                made = self._formula(node, 0)
                self._names[node] = f"x{len(self._names)}"
                self.definitions.append(f"{self._names[node]} = {made}")

    def of(self, value: Value | float) -> str:
        """A value as a formula."""
        return self._formula(value, 0)

    def _formula(self, value: Value | float, around: int) -> str:
        if not isinstance(value, Expr):
            return str(value)
        if value in self._names:
            return self._names[value]
        if value.op == "variable":
            return str(value.args[0])
        if value.op not in _INFIX:
            return f"{value.op}({', '.join(self.of(each) for each in value.args)})"
        own = _INFIX[value.op]
        left, right = value.args
        # Operators of one level are read from the left.
        made = f"{self._formula(left, own)} {value.op} {self._formula(right, own + 1)}"
        return f"({made})" if own < around else made


def _uses(values: Sequence[Expr]) -> Counter[Expr]:
    """How often each expression is an operand, or is asked for."""
    found = Counter(values)
    waiting = list(found)
    seen = set(waiting)
    while waiting:
        for arg in waiting.pop().args:
            if isinstance(arg, Expr):
                found[arg] += 1
                if arg not in seen:
                    seen.add(arg)
                    waiting.append(arg)
    return found
