"""Reduction axes and commutative reducers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

from tilewright import ir
from tilewright.errors import TensorExpressionError
from tilewright.ir.intrinsics import max_value, min_value

__all__ = ["reduce_axis", "thread_axis", "comm_reducer", "sum", "prod", "max", "min", "all", "any"]

Axes: TypeAlias = ir.IterVar | Sequence[ir.IterVar]
Values: TypeAlias = Sequence[ir.PrimExpr]
Compare: TypeAlias = Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr]
Combine: TypeAlias = Callable[[Values, Values], tuple[ir.PrimExpr, ...]]


def reduce_axis(
    dom: ir.Range | Sequence[ir.ExprLike], name: str = "rv", thread_tag: str = ""
) -> ir.IterVar:
    """An axis to reduce over, from `dom[0]` up to, not including, `dom[1]`."""
    domain = _domain(dom, f"reduce_axis {name}")
    return ir.IterVar(
        domain, ir.Var(name, domain.extent.dtype), ir.IterType.COMM_REDUCE, thread_tag
    )


def thread_axis(
    dom: ir.Range | Sequence[ir.ExprLike] | ir.ExprLike | str | None = None,
    tag: str = "",
    name: str = "",
) -> ir.IterVar:
    """An axis of GPU threads or blocks, e.g. `thread_axis("threadIdx.x")`."""
    if isinstance(dom, str):
        tag, dom = dom, None
    if not tag:
        raise TensorExpressionError("thread_axis needs a tag such as 'threadIdx.x'")
    domain: ir.Range | None = None
    if dom is not None:
        bounds: Any = (0, dom) if not isinstance(dom, (ir.Range, Sequence)) else dom
        domain = _domain(bounds, f"thread_axis {tag}")
    dtype = domain.extent.dtype if domain is not None else ir.DType("int32")
    return ir.IterVar(domain, ir.Var(name or tag, dtype), ir.IterType.THREAD_INDEX, tag)


def _domain(dom: ir.Range | Sequence[ir.ExprLike], what: str) -> ir.Range:
    if isinstance(dom, ir.Range):
        return dom
    if len(dom) != 2:
        raise TensorExpressionError(f"{what}: the domain must be (begin, end), got {dom!r}")
    begin, end = ir.convert(dom[0]), ir.convert(dom[1])
    extent = ir.subtract(end, begin)
    if not extent.dtype.is_integral:
        raise TensorExpressionError(f"{what}: the domain must be of integers, got {extent.dtype!s}")
    if begin.dtype is not extent.dtype:
        begin = begin.astype(extent.dtype)
    return ir.Range(begin, extent)


@dataclass(frozen=True, eq=False, repr=False)
class AxisReducer:
    """Builds reductions; calling it with a tuple of values reduces them together.

    Called with several values and no axis it combines them here and now.
    """

    _combine: Callable[..., Any]
    _identity: Callable[..., Any]
    name: str
    _takes_one: bool = False  # one value without an axis is that value

    def __repr__(self) -> str:
        return f"te.{self.name}"

    @overload
    def __call__(
        self,
        expr: ir.ExprLike,
        axis: Axes,
        where: ir.ExprLike | None = ...,
        init: ir.ExprLike | None = ...,
    ) -> ir.PrimExpr: ...
    @overload
    def __call__(
        self,
        expr: Sequence[ir.ExprLike],
        axis: Axes,
        where: ir.ExprLike | None = ...,
        init: Sequence[ir.ExprLike] | None = ...,
    ) -> tuple[ir.PrimExpr, ...]: ...
    @overload
    def __call__(self, *values: ir.ExprLike) -> ir.PrimExpr: ...
    def __call__(self, *given: Any, **named: Any) -> Any:
        """Reduce `expr` over `axis`; where `where` does not hold nothing is added.

        `init` is what the reduction starts from, instead of the identity. Without an axis all
        arguments are combined: `te.max(a, b, c)`.
        """
        if named or (len(given) > 1 and isinstance(given[1], (ir.IterVar, Sequence))):
            return self._reduced(*given, **named)
        if len(given) < 2 and not (given and self._takes_one):
            raise TensorExpressionError(
                f"{self.name}: give an axis made by te.reduce_axis, or several values to combine"
            )
        return functools.reduce(self._combine, map(ir.convert, given))

    def _reduced(
        self, expr: Any, axis: Axes, where: ir.ExprLike | None = None, init: Any = None
    ) -> Any:
        sources = tuple(map(ir.convert, expr if isinstance(expr, (tuple, list)) else (expr,)))
        axes = self._axes(axis)
        combiner = self._combiner(tuple(source.dtype for source in sources))
        start = self._init(init, combiner)
        condition = ir.TRUE if where is None else ir.convert(where)
        if not condition.dtype.is_bool:
            raise TensorExpressionError(
                f"{self.name}: `where` must be a bool, got {condition.dtype!s}"
            )
        results = tuple(
            ir.Reduce(combiner, sources, axes, condition, index, start)
            for index in range(len(sources))
        )
        return results if isinstance(expr, (tuple, list)) else results[0]

    def _axes(self, axis: Axes) -> tuple[ir.IterVar, ...]:
        axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
        for item in axes:
            if getattr(item, "iter_type", None) is not ir.IterType.COMM_REDUCE:
                raise TensorExpressionError(
                    f"{self.name}: axis must be made by te.reduce_axis, got {item!r}"
                )
        if not axes:
            raise TensorExpressionError(f"{self.name}: at least one reduction axis is needed")
        return axes

    def _combiner(self, dtypes: tuple[ir.DType, ...]) -> ir.CommReducer:
        lhs = tuple(ir.Var(f"x{i}", dtype) for i, dtype in enumerate(dtypes))
        rhs = tuple(ir.Var(f"y{i}", dtype) for i, dtype in enumerate(dtypes))
        if len(dtypes) == 1:
            results = (self._combine(lhs[0], rhs[0]),)
            identities = (self._identity(dtypes[0]),)
        else:
            results = tuple(self._combine(lhs, rhs))
            identities = tuple(self._call_identity(dtypes))
        result, identity = tuple(map(ir.convert, results)), tuple(map(ir.convert, identities))
        self._check(dtypes, result, "combiner")
        self._check(dtypes, identity, "identity")
        return ir.CommReducer(lhs, rhs, result, identity)

    def _call_identity(self, dtypes: tuple[ir.DType, ...]) -> Sequence[Any]:
        given = len(inspect.signature(self._identity).parameters)
        if given not in (len(dtypes), 1):
            raise TensorExpressionError(
                f"{self.name}: reduces {len(dtypes)} values, but its identity takes {given} dtypes"
            )
        values: Sequence[Any] = self._identity(*dtypes)
        return values

    def _check(
        self, dtypes: tuple[ir.DType, ...], values: tuple[ir.PrimExpr, ...], what: str
    ) -> None:
        if len(values) != len(dtypes):
            raise TensorExpressionError(
                f"{self.name}: reduces {len(dtypes)} values, but its {what} gives {len(values)}"
            )
        for dtype, value in zip(dtypes, values, strict=True):
            if value.dtype is not dtype:
                raise TensorExpressionError(
                    f"{self.name}: the {what} gives {value.dtype!s} for a value of {dtype!s}"
                )

    def _init(self, init: Any, combiner: ir.CommReducer) -> tuple[ir.PrimExpr, ...]:
        if init is None:
            return ()
        values = init if isinstance(init, (tuple, list)) else (init,)
        dtypes = tuple(item.dtype for item in combiner.identity_element)
        start = tuple(
            ir.const(value, dtype) if isinstance(value, (int, float)) else ir.convert(value)
            for value, dtype in zip(values, dtypes, strict=False)
        )
        self._check(dtypes, start, "init")
        return start


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> AxisReducer:
    """A reducer from a commutative, associative combiner and its identity.

    For one value `fcombine(x, y)` and `fidentity(dtype)`; for several both work on tuples:
    `fcombine((x0, x1), (y0, y1))` and `fidentity(dtype0, dtype1)`.
    """
    return AxisReducer(fcombine, fidentity, name)


def keep_better(better: Compare, last: bool = False) -> Combine:
    """Of two (position, value) pairs the one with the better value.

    NaN is better than all others; of equal values the first (or last) counts.
    """
    before = ir.greater if last else ir.less

    def combine(x: Values, y: Values) -> tuple[ir.PrimExpr, ...]:
        wins, ties = better(x[1], y[1]), ir.equal(x[1], y[1])
        if x[1].dtype.is_float:
            undefined, also = ir.not_equal(x[1], x[1]), ir.not_equal(y[1], y[1])
            wins = ir.logical_or(wins, ir.logical_and(undefined, ir.equal(y[1], y[1])))
            ties = ir.logical_or(ties, ir.logical_and(undefined, also))
        kept = ir.logical_or(wins, ir.logical_and(ties, before(x[0], y[0])))
        return ir.Select(kept, x[0], y[0]), ir.Select(wins, x[1], y[1])

    return combine


sum = AxisReducer(lambda x, y: x + y, lambda t: ir.const(0, t), "sum")
prod = AxisReducer(lambda x, y: x * y, lambda t: ir.const(1, t), "prod")
max = AxisReducer(ir.maximum, min_value, "max")
min = AxisReducer(ir.minimum, max_value, "min")
all = AxisReducer(ir.logical_and, lambda t: ir.TRUE, "all", True)
any = AxisReducer(ir.logical_or, lambda t: ir.FALSE, "any", True)
