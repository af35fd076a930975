"""A scheduled program as loop nests: each store with the loops around it and what it touches.

Read straight from TensorIR with blocks, without lowering, since the prior looks at hundreds of
candidates before one is measured. Indices become linear forms in the loop variables; parts with
division or modulo (fused loops) stay expressions whose range is evaluated when needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.arith.interning import Interner
from tilewright.ir import (
    LT,
    Add,
    And,
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IterType,
    LetStmt,
    Max,
    Min,
    Mul,
    Node,
    PrimExpr,
    PrimFunc,
    SeqStmt,
    Stmt,
    Sub,
    Var,
    children,
    expr_deep_equal,
    free_vars,
    substitute,
    uses_var,
)
from tilewright.ir.annotation_keys import (
    LAYOUT_REWRITE_PREPROC,
    VECTOR_REDUCTION as VECTOR_REDUCTION,
)

UNROLL_PRAGMA = "pragma_auto_unroll_max_step"
LONG_EXPRESSION = 8  # operations from which on it is worth looking for those that repeat
UNKNOWN_EXTENT = 16  # of a loop that runs as often as its data say


@dataclass(frozen=True, eq=False)  # a loop is itself and no other
class Loop:
    """A loop as the cost of a nest depends on it."""

    var: Var
    extent: int
    kind: ForKind
    annotations: Mapping[str, Any] = field(default_factory=dict)

    def annotation(self, key: str) -> int:
        """An annotation as a number, 0 if it is missing."""
        value = self.annotations.get(key, 0)
        return int(getattr(value, "value", value))


@dataclass(frozen=True)
class Index:
    """One index: `constant + sum(coefficient * var)` plus multiples of parts of another form."""

    coefficients: Mapping[Var, int]
    others: tuple[tuple[PrimExpr, int], ...]

    def depends_on(self, loop: Loop) -> bool:
        """True when the index changes with a loop."""
        return loop.var in self.coefficients or self.varies_irregularly(loop)

    def varies_irregularly(self, loop: Loop) -> bool:
        """True when parts with division or modulo change; `i // 64` does not for a loop of 16."""
        return any(_is_varied(part, loop) for part, _ in self.others)

    def span(self, extents: Mapping[Var, int]) -> int:
        """How many values the index takes between its ends while some loops run."""
        width = sum(abs(c) * (extents.get(v, 1) - 1) for v, c in self.coefficients.items())
        for part, factor in self.others:
            low, high = _range(part, extents)
            width += abs(factor) * (high - low)
        return width + 1


@dataclass(frozen=True)
class Access:
    """A buffer and where it is read or written."""

    buffer: Any
    indices: tuple[Index, ...]
    is_store: bool
    unit_bytes: int = 0  # that a tensor instruction touches at once; 0: no such instruction

    def depends_on(self, loop: Loop) -> bool:
        """True when another element is touched in each iteration of a loop."""
        return any(index.depends_on(loop) for index in self.indices)

    def stride(self, loop: Loop) -> int | None:
        """Elements between two iterations; None: not in a regular way."""
        total, scale = 0, 1
        others: list[tuple[PrimExpr, int]] = []
        for index, extent in zip(reversed(self.indices), reversed(self.buffer.shape), strict=True):
            total += index.coefficients.get(loop.var, 0) * scale
            others += [(part, f * scale) for part, f in index.others]
            scale *= extent.value if isinstance(extent, IntImm) else 1
        if not any(_is_varied(part, loop) for part, _ in others):
            return total
        joined = _stride_of_digits(others, loop)
        return None if joined is None else total + joined

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return max(1, int(self.buffer.dtype.bits) // 8)

    def footprint(self, extents: Mapping[Var, int], line: int = 64) -> int:
        """Bytes, in whole cache lines, that are touched while some loops run."""
        if not self.indices:
            return line
        *outer, last = self.indices
        rows = math.prod(index.span(extents) for index in outer)
        width = max(last.span(extents) * self.element_bytes, self.unit_bytes)
        return rows * math.ceil(width / line) * line


@dataclass(frozen=True)
class Nest:
    """One store, the loops around it, and the cost of its value in operations."""

    loops: tuple[Loop, ...]
    store: Access
    loads: tuple[Access, ...]
    operations: float
    is_reduction: bool  # the store adds to what it finds
    share: float = 1.0  # of the iterations that run at all, where tiles do not divide
    packs_weights: bool = False


# What an operation costs, in multiply-adds.
_COSTS: dict[type, float] = {
    Add: 1.0, Sub: 1.0, Mul: 1.0, Max: 1.0, Min: 1.0, Div: 8.0, Cast: 1.0,
}  # fmt: skip
_CALL_COST = 20.0
_CHEAP_CALLS = frozenset(
    f"tir.{name}"
    for name in (
        "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "fabs", "if_then_else", "likely",
        "reinterpret", "shift_left", "shift_right",
    )
)  # fmt: skip


def nests_of(func: PrimFunc) -> list[Nest]:
    """All nests of a function, in program order."""
    return list(_walk(func.body, (), {}))


def _walk(stmt: Stmt, loops: tuple[Loop, ...], bound: Mapping[Var, PrimExpr]) -> Iterator[Nest]:
    match stmt:
        case For(loop_var=var, extent=extent, kind=kind, body=body, annotations=notes):
            count = extent.value if isinstance(extent, IntImm) else UNKNOWN_EXTENT
            yield from _walk(body, (*loops, Loop(var, count, kind, notes)), bound)
        case BlockRealize():
            yield from _walk_realize(stmt, loops, bound)
        case SeqStmt(seq=parts):
            for part in parts:
                yield from _walk(part, loops, bound)
        case IfThenElse(then_case=then_case, else_case=else_case):
            yield from _walk(then_case, loops, bound)
            if else_case is not None:
                yield from _walk(else_case, loops, bound)
        case LetStmt(var=var, value=value, body=body):
            yield from _walk(substitute(body, {var: value}), loops, bound)
        case BufferStore():
            yield _nest(stmt, loops, bound)
        case _:
            for child in children(stmt):
                if isinstance(child, Stmt):
                    yield from _walk(child, loops, bound)


def _walk_realize(
    realize: BlockRealize, loops: tuple[Loop, ...], bound: Mapping[Var, PrimExpr]
) -> Iterator[Nest]:
    block = realize.block
    share = _share(realize.predicate, {loop.var: loop.extent for loop in loops})
    packs = LAYOUT_REWRITE_PREPROC in block.annotations
    for nest in _walk_block(block, realize.iter_values, loops, bound):
        if share != 1.0 or packs:
            nest = replace(nest, share=nest.share * share, packs_weights=packs)
        yield nest


def _walk_block(
    block: Block,
    values: Sequence[PrimExpr],
    loops: tuple[Loop, ...],
    bound: Mapping[Var, PrimExpr],
) -> Iterator[Nest]:
    inner = dict(bound)
    for iter_var, value in zip(block.iter_vars, values, strict=True):
        inner[iter_var.var] = substitute(value, bound) if bound else value
    if block.match_buffers and len(block.writes) == 1:
        yield _tensor_nest(block, loops, inner)
        return
    if block.init is not None:
        yield from _walk(block.init, _loops_of_results(block, values, loops), inner)
    yield from _walk(block.body, loops, inner)


def _loops_of_results(
    block: Block, values: Sequence[PrimExpr], loops: tuple[Loop, ...]
) -> tuple[Loop, ...]:
    """The loops around a reduction in which its results start: those that do not reduce."""
    reducing = {
        var
        for iter_var, value in zip(block.iter_vars, values, strict=True)
        if iter_var.iter_type == IterType.COMM_REDUCE
        for var in free_vars(value)
    }
    return tuple(loop for loop in loops if loop.var not in reducing)


# Products a cycle of instructions that work on tiles; those that work on vectors take a cycle.
_TILE_PRODUCTS = 1024


def _tensor_nest(block: Block, loops: tuple[Loop, ...], bound: Mapping[Var, PrimExpr]) -> Nest:
    """A block that is one tensor instruction: it touches regions, whatever it does inside."""
    extents = {loop.var: loop.extent for loop in loops}
    (write,) = block.writes
    target = _region_access(write, bound, extents, is_store=True)
    loads = [_region_access(region, bound, extents, is_store=False) for region in block.reads]
    others = tuple(load for load in loads if load.buffer is not write.buffer)
    # The sides of a product of matrices follow from the sizes of its three operands.
    products = math.sqrt(math.prod(_elements(each) for each in (target, *others)))
    operations = max(1.0, products / _TILE_PRODUCTS) if len(others) == 2 else 1.0
    again = len(others) < len(loads)
    return Nest(loops, target, others, operations, again)


def _elements(access: Access) -> int:
    return access.unit_bytes // access.element_bytes


def _region_access(
    region: BufferRegion, bound: Mapping[Var, PrimExpr], extents: Mapping[Var, int], is_store: bool
) -> Access:
    indices = tuple(_Terms(extents).of(substitute(axis.min, bound)) for axis in region.region)
    sizes = [axis.extent.value if isinstance(axis.extent, IntImm) else 1 for axis in region.region]
    size = math.prod(sizes) * max(1, region.buffer.dtype.bits // 8)
    return Access(region.buffer, indices, is_store, size)


def _share(predicate: PrimExpr, extents: Mapping[Var, int]) -> float:
    """The share of iterations that bound checks `index < limit` let through."""
    match predicate:
        case And(a=a, b=b):
            return _share(a, extents) * _share(b, extents)
        case LT(a=index, b=IntImm(value=limit)):
            return min(1.0, limit / (_range(index, extents)[1] + 1))
    return 1.0


def _nest(store: BufferStore, loops: tuple[Loop, ...], bound: Mapping[Var, PrimExpr]) -> Nest:
    count = _Operations()
    operations = count.of(store.value)
    if operations > LONG_EXPRESSION:
        count = _OperationsInside(_moving(loops, bound))
        operations = count.of(Interner().intern(store.value))
    extents = {loop.var: loop.extent for loop in loops}
    target = _access(store, bound, extents)
    others = [load for load in count.loads if load.buffer is not store.buffer]
    loads = tuple(_access(load, bound, extents) for load in _distinct(others))
    again = len(others) < len(count.loads)
    return Nest(loops, target, loads, max(operations, 0.5), again)


def _distinct(loads: Sequence[BufferLoad]) -> Iterator[BufferLoad]:
    """Loads without those of an element that another one has loaded."""
    for place, load in enumerate(loads):
        same = (a for a in loads[:place] if a.buffer is load.buffer)
        if not any(expr_deep_equal(a, load) for a in same):
            yield load


class _Operations:
    """Counts the operations of an expression and collects what it loads."""

    def __init__(self) -> None:
        self.loads: list[BufferLoad] = []

    def of(self, expr: Node) -> float:
        """The operations; a sum with a product in it is one multiply-add."""
        match expr:
            case BufferLoad():
                self.loads.append(expr)
                return 0.0
            case Add(a=a, b=Mul() as product) | Add(a=Mul() as product, b=a):
                return self.of(a) + self.of(product)
        return self._own(expr) + sum(map(self.of, children(expr)))

    def _own(self, expr: Node) -> float:
        if isinstance(expr, Call):
            return 1.0 if getattr(expr.op, "name", "") in _CHEAP_CALLS else _CALL_COST
        return _COSTS.get(type(expr), 0.0)


def _moving(loops: Sequence[Loop], bound: Mapping[Var, PrimExpr]) -> Set[Var]:
    """The innermost loop's variable and what is bound to it."""
    inner = {loop.var for loop in [loop for loop in loops if loop.extent > 1][-1:]}
    return inner | {v for v, value in bound.items() if uses_var(value, inner.__contains__)}


class _OperationsInside(_Operations):
    """Counts what a compiler leaves inside the innermost loop: nothing twice, nothing constant.

    For expressions in which equal parts are one object.
    """

    def __init__(self, moving: Set[Var]) -> None:
        super().__init__()
        self._moving = moving
        self._seen: set[Node] = set()

    def of(self, expr: Node) -> float:
        """The operations in every iteration of the innermost loop."""
        if expr in self._seen:
            return 0.0
        self._seen.add(expr)
        return super().of(expr)

    def _own(self, expr: Node) -> float:
        moves = uses_var(expr, self._moving.__contains__)
        return super()._own(expr) if moves else 0.0


def _access(
    node: BufferLoad | BufferStore, bound: Mapping[Var, PrimExpr], extents: Mapping[Var, int]
) -> Access:
    indices = tuple(_Terms(extents).of(substitute(index, bound)) for index in node.indices)
    return Access(node.buffer, indices, isinstance(node, BufferStore))


class _Terms:
    """Collects the terms of an index."""

    def __init__(self, extents: Mapping[Var, int]) -> None:
        self._extents = extents
        self._coefficients: dict[Var, int] = {}
        self._others: list[tuple[PrimExpr, int]] = []

    def of(self, expr: PrimExpr) -> Index:
        """The index that an expression is."""
        self._add(expr, 1)
        return Index(self._coefficients, tuple(self._others))

    def _add(self, expr: PrimExpr, factor: int) -> None:
        match expr:
            case IntImm():
                return
            case Var():
                self._coefficients[expr] = self._coefficients.get(expr, 0) + factor
            case Add(a=a, b=b):
                self._add(a, factor)
                self._add(b, factor)
            case Sub(a=a, b=b):
                self._add(a, factor)
                self._add(b, -factor)
            case Mul(a=a, b=IntImm(value=times)):
                self._add(a, factor * times)
            case FloorDiv(a=a, b=IntImm(value=divisor)) if self._digits(a, divisor, factor, 0):
                return
            case FloorMod(a=a, b=IntImm(value=divisor)) if self._digits(a, divisor, factor, 1):
                return
            case _:
                self._others.append((expr, factor))

    def _digits(self, expr: PrimExpr, divisor: int, factor: int, wanted: int) -> bool:
        """Add quotient (0) or remainder (1) of a sum whose terms divide or stay below `divisor`."""
        whole = _Terms(self._extents).of(expr)
        if divisor <= 0 or any(times % divisor for _, times in whole.others):
            return False
        high = {v: c for v, c in whole.coefficients.items() if c % divisor == 0}
        low = {v: c for v, c in whole.coefficients.items() if c % divisor}
        if sum(abs(c) * (self._extents.get(v, 1) - 1) for v, c in low.items()) >= divisor:
            return False
        for var, times in (low if wanted else high).items():
            scaled = factor * (times if wanted else times // divisor)
            self._coefficients[var] = self._coefficients.get(var, 0) + scaled
        if not wanted:
            self._others += [(part, factor * times // divisor) for part, times in whole.others]
        return True


def _stride_of_digits(parts: Sequence[tuple[PrimExpr, int]], loop: Loop) -> int | None:
    """The stride of `x // c * (c * f) + x % c * f`, which is `x * f`; None for all else."""
    match parts:
        case [
            (FloorMod(a=low, b=IntImm(value=divisor)), factor),
            (FloorDiv(a=high, b=IntImm(value=cut)), times),
        ] if divisor == cut and times == factor * cut and expr_deep_equal(low, high):
            whole = _Terms({}).of(low)
            if not whole.varies_irregularly(loop):
                return whole.coefficients.get(loop.var, 0) * factor
    return None


def _is_varied(part: PrimExpr, loop: Loop) -> bool:
    low, high = _range(part, {loop.var: loop.extent})
    return low != high


def _range(expr: Node, extents: Mapping[Var, int]) -> tuple[int, int]:
    """Between which values an expression stays while some loops run and the others stand still."""
    match expr:
        case IntImm(value=value):
            return value, value
        case Var():
            return 0, extents.get(expr, 1) - 1
        case Add(a=a, b=b):
            (a0, a1), (b0, b1) = _range(a, extents), _range(b, extents)
            return a0 + b0, a1 + b1
        case Sub(a=a, b=b):
            (a0, a1), (b0, b1) = _range(a, extents), _range(b, extents)
            return a0 - b1, a1 - b0
        case Mul(a=a, b=IntImm(value=factor)):
            ends = [end * factor for end in _range(a, extents)]
            return min(ends), max(ends)
        case FloorDiv(a=a, b=IntImm(value=divisor)) if divisor > 0:
            low, high = _range(a, extents)
            return low // divisor, high // divisor
        case FloorMod(a=a, b=IntImm(value=divisor)) if divisor > 0:
            low, high = _range(a, extents)
            if high - low >= divisor - 1 or low // divisor != high // divisor:
                return 0, divisor - 1
            return low % divisor, high % divisor
        case Min(a=a, b=b):
            (a0, a1), (b0, b1) = _range(a, extents), _range(b, extents)
            return min(a0, b0), min(a1, b1)
        case Max(a=a, b=b):
            (a0, a1), (b0, b1) = _range(a, extents), _range(b, extents)
            return max(a0, b0), max(a1, b1)
    moves = any(_range(child, extents)[0] != _range(child, extents)[1] for child in children(expr))
    return 0, int(moves)  # it is not known where
