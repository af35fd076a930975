"""Commutative reducers: which updates can be regrouped freely, and what they start from.

A reducer combines tuples of values. Recognition compares the update of a block with each row of
the table, as a pattern over the accumulated values `x` and the new values `y`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.ir.intrinsics import lower_limit, max_value, min_value, upper_limit
from tilewright.te.reduce import Combine, Compare, Values, keep_better

Identity = Callable[[ir.DType], ir.PrimExpr]


@dataclass(frozen=True)
class CommutativeReducer:
    """An associative, commutative combination of tuples, with its neutral element."""

    name: str
    combine: Combine
    identities: tuple[Identity, ...]

    @property
    def arity(self) -> int:
        return len(self.identities)

    def identity(self, dtypes: Sequence[ir.DType]) -> tuple[ir.PrimExpr, ...]:
        """The neutral element for values of these types."""
        return tuple(make(dtype) for make, dtype in zip(self.identities, dtypes, strict=True))


def _number(value: int) -> Identity:
    return lambda dtype: ir.const(value, dtype)


def _pick(better: Compare, first: bool = False) -> Combine:
    """(index, value) of the better value; of equal ones, on demand, the smaller index.

    Otherwise the accumulated one wins where `better` holds.
    """

    def combine(x: Values, y: Values) -> tuple[ir.PrimExpr, ...]:
        keep = keep_index = better(x[1], y[1])
        if first:
            tie = ir.logical_and(ir.equal(x[1], y[1]), ir.less(x[0], y[0]))
            keep_index = ir.logical_or(keep, tie)
        return ir.Select(keep_index, x[0], y[0]), ir.Select(keep, x[1], y[1])

    return combine


REDUCERS: tuple[CommutativeReducer, ...] = (
    CommutativeReducer("sum", lambda x, y: (ir.Add(x[0], y[0]),), (_number(0),)),
    CommutativeReducer("product", lambda x, y: (ir.Mul(x[0], y[0]),), (_number(1),)),
    CommutativeReducer("any", lambda x, y: (ir.Or(x[0], y[0]),), (_number(0),)),
    CommutativeReducer("all", lambda x, y: (ir.And(x[0], y[0]),), (_number(1),)),
    CommutativeReducer("min", lambda x, y: (ir.Min(x[0], y[0]),), (max_value,)),
    CommutativeReducer("max", lambda x, y: (ir.Max(x[0], y[0]),), (min_value,)),
    CommutativeReducer(
        "two sums", lambda x, y: (ir.Add(x[0], y[0]), ir.Add(x[1], y[1])), (_number(0), _number(0))
    ),
    CommutativeReducer("argmax", _pick(ir.greater_equal), (_number(-1), min_value)),
    CommutativeReducer(
        "argmax, first index", _pick(ir.greater, first=True), (_number(-1), min_value)
    ),
    CommutativeReducer("argmin", _pick(ir.less_equal), (_number(-1), max_value)),
    CommutativeReducer("argmin, first index", _pick(ir.less, first=True), (_number(-1), max_value)),
    # As topi has them: infinities and NaN are values like others.
    CommutativeReducer("min of all floats", lambda x, y: (ir.Min(x[0], y[0]),), (upper_limit,)),
    CommutativeReducer("max of all floats", lambda x, y: (ir.Max(x[0], y[0]),), (lower_limit,)),
    CommutativeReducer("argmax, first NaN", keep_better(ir.greater), (max_value, lower_limit)),
    CommutativeReducer("argmin, first NaN", keep_better(ir.less), (max_value, upper_limit)),
    CommutativeReducer(
        "argmax, last NaN", keep_better(ir.greater, last=True), (_number(-1), lower_limit)
    ),
    CommutativeReducer(
        "argmin, last NaN", keep_better(ir.less, last=True), (_number(-1), upper_limit)
    ),
)


@dataclass(frozen=True)
class Reduction:
    """The reduction of a block: where it accumulates, how, and what it takes in each time."""

    reducer: CommutativeReducer
    targets: tuple[ir.BufferStore, ...]  # the stores of the update, one a buffer
    inputs: tuple[ir.PrimExpr, ...]


def recognize_reduction(block: ir.Block) -> Reduction | None:
    """The reduction that a block with init carries out, if it is a known one."""
    if block.init is None:
        return None
    updates = _stores_of_update(block.body)
    starts = _stores_of_sequence(block.init)
    if updates is None or starts is None or len(updates) != len(starts):
        return None
    by_buffer = {store.buffer: store for store in starts}
    if len(by_buffer) != len(starts) or any(s.buffer not in by_buffer for s in updates):
        return None
    rows = [store.indices for store in (*updates, *starts)]
    if len({*map(len, rows)}) > 1 or not all(ir.written_alike(rows[0], row) for row in rows):
        return None
    orders = itertools.permutations(updates) if len(updates) == 2 else (updates,)
    found = (_recognized(order, by_buffer) for order in orders)
    return next((reduction for reduction in found if reduction is not None), None)


def _recognized(
    updates: tuple[ir.BufferStore, ...], starts: Mapping[ir.Buffer, ir.BufferStore]
) -> Reduction | None:
    """The reduction that accumulates in this order of its values."""
    values = [store.value for store in updates]
    identity = [starts[store.buffer].value for store in updates]
    accumulators = [ir.BufferLoad(store.buffer, store.indices) for store in updates]
    for reducer in REDUCERS:
        if reducer.arity != len(updates):
            continue
        wanted = reducer.identity([value.dtype for value in identity])
        if all(map(_same_constant, wanted, identity)):
            inputs = _match(reducer, accumulators, values)
            if inputs is not None:
                return Reduction(reducer, updates, inputs)
    return None


def _stores_of_update(body: ir.Stmt) -> tuple[ir.BufferStore, ...] | None:
    """The stores of a body; variables bound in front of them are put in, in their order."""
    values: dict[ir.Var, ir.PrimExpr] = {}
    while isinstance(body, ir.LetStmt):
        values[body.var] = ir.substitute(body.value, values)
        body = body.body
    stores = _stores_of_sequence(body)
    if stores is None:
        return None
    if len(stores) > 1 and not all(store.value in values for store in stores):
        return None  # a later store would see what an earlier one wrote
    if len(stores) > 1:
        order = {variable: position for position, variable in enumerate(values)}
        stores = tuple(sorted(stores, key=lambda store: order[store.value]))  # type: ignore[index]
    return tuple(
        ir.BufferStore(s.buffer, ir.substitute(s.value, values), s.indices) for s in stores
    )


def _stores_of_sequence(stmt: ir.Stmt) -> tuple[ir.BufferStore, ...] | None:
    items = ir.statements_of(stmt)
    stores = tuple(item for item in items if isinstance(item, ir.BufferStore))
    return stores if len(stores) == len(items) else None


def _same_constant(a: ir.PrimExpr, b: ir.PrimExpr) -> bool:
    if isinstance(a, (ir.IntImm, ir.FloatImm)) and isinstance(b, (ir.IntImm, ir.FloatImm)):
        return a.dtype == b.dtype and a.value == b.value
    return ir.expr_deep_equal(a, b)


def _match(
    reducer: CommutativeReducer, accumulators: Sequence[ir.BufferLoad], values: Values
) -> tuple[ir.PrimExpr, ...] | None:
    x = [ir.Var(f"x{n}", load.dtype) for n, load in enumerate(accumulators)]
    y = [ir.Var(f"y{n}", load.dtype) for n, load in enumerate(accumulators)]
    fixed: dict[ir.Var, ir.PrimExpr] = dict(zip(x, accumulators, strict=True))
    orders = ((x, y), (y, x)) if len(x) == 1 else ((x, y),)
    for left, right in orders:
        bound: dict[ir.Var, ir.PrimExpr] = {}
        patterns = reducer.combine(left, right)
        if all(_matches(p, v, fixed, bound) for p, v in zip(patterns, values, strict=True)):
            inputs = tuple(bound[variable] for variable in y)
            buffers = {load.buffer for load in accumulators}
            loads = (load for value in inputs for load in ir.nodes_of(value, ir.BufferLoad))
            if not any(load.buffer in buffers for load in loads):
                return inputs
    return None


def _matches(
    pattern: ir.Node,
    value: ir.Node,
    fixed: Mapping[ir.Var, ir.PrimExpr],
    bound: dict[ir.Var, ir.PrimExpr],
) -> bool:
    if isinstance(pattern, ir.Var):
        assert isinstance(value, ir.PrimExpr)
        wanted = fixed.get(pattern)
        if wanted is None:
            wanted = bound.setdefault(pattern, value)
        return wanted is value or ir.expr_deep_equal(wanted, value)
    if type(pattern) is not type(value):
        return False
    pairs = zip(ir.children(pattern), ir.children(value), strict=True)
    return all(_matches(p, v, fixed, bound) for p, v in pairs)
