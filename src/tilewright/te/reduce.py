"""Reduction axes and commutative reducers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

from tilewright.errors import TensorExpressionError
from tilewright.ir import (
    FALSE,
    TRUE,
    CommReducer,
    DType,
    ExprLike,
    IterType,
    IterVar,
    PrimExpr,
    Range,
    Reduce,
    Select,
    Var,
    const,
    convert,
    equal,
    greater,
    less,
    logical_and,
    logical_or,
    maximum,
    minimum,
    not_equal,
    subtract,
)
from tilewright.ir.intrinsics import max_value, min_value

Axes: TypeAlias = IterVar | Sequence[IterVar]
Values: TypeAlias = Sequence[PrimExpr]
Compare: TypeAlias = Callable[[PrimExpr, PrimExpr], PrimExpr]
Combine: TypeAlias = Callable[[Values, Values], tuple[PrimExpr, ...]]


def reduce_axis(dom: Range | Sequence[ExprLike], name: str = "rv", thread_tag: str = "") -> IterVar:
    """An axis to reduce over, from `dom[0]` up to, not including, `dom[1]`."""
    domain = _domain(dom, f"reduce_axis {name}")
    return IterVar(domain, Var(name, domain.extent.dtype), IterType.COMM_REDUCE, thread_tag)


def thread_axis(
    dom: Range | Sequence[ExprLike] | ExprLike | str | None = None, tag: str = "", name: str = ""
) -> IterVar:
    """An axis of GPU threads or blocks, e.g. `thread_axis("threadIdx.x")`."""
    if isinstance(dom, str):
        tag, dom = dom, None
    if not tag:
        raise TensorExpressionError("thread_axis needs a tag such as 'threadIdx.x'")
    domain: Range | None = None
    if dom is not None:
        bounds: Any = (0, dom) if not isinstance(dom, (Range, Sequence)) else dom
        domain = _domain(bounds, f"thread_axis {tag}")
    dtype = domain.extent.dtype if domain is not None else DType("int32")
    return IterVar(domain, Var(name or tag, dtype), IterType.THREAD_INDEX, tag)


def _domain(dom: Range | Sequence[ExprLike], what: str) -> Range:
    if isinstance(dom, Range):
        return dom
    if len(dom) != 2:
        raise TensorExpressionError(f"{what}: the domain must be (begin, end), got {dom!r}")
    begin, end = convert(dom[0]), convert(dom[1])
    extent = subtract(end, begin)
    if not extent.dtype.is_integral:
        raise TensorExpressionError(f"{what}: the domain must be of integers, got {extent.dtype!s}")
    if begin.dtype is not extent.dtype:
        begin = begin.astype(extent.dtype)
    return Range(begin, extent)


class AxisReducer:
    """Builds reductions; calling it with a tuple of values reduces them together.

    Called with several values and no axis it combines them here and now.
    """

    def __init__(
        self,
        combine: Callable[..., Any],
        identity: Callable[..., Any],
        name: str,
        takes_one: bool = False,
    ) -> None:
        self._takes_one = takes_one  # one value without an axis is that value
        self._combine = combine
        self._identity = identity
        self.name = name

    def __repr__(self) -> str:
        return f"te.{self.name}"

    @overload
    def __call__(
        self,
        expr: ExprLike,
        axis: Axes,
        where: ExprLike | None = ...,
        init: ExprLike | None = ...,
    ) -> PrimExpr: ...
    @overload
    def __call__(
        self,
        expr: Sequence[ExprLike],
        axis: Axes,
        where: ExprLike | None = ...,
        init: Sequence[ExprLike] | None = ...,
    ) -> tuple[PrimExpr, ...]: ...
    @overload
    def __call__(self, *values: ExprLike) -> PrimExpr: ...
    def __call__(self, *given: Any, **named: Any) -> Any:
        """Reduce `expr` over `axis`; where `where` does not hold nothing is added.

        `init` is what the reduction starts from, instead of the identity. Without an axis all
        arguments are combined: `te.max(a, b, c)`.
        """
        if named or (len(given) > 1 and isinstance(given[1], (IterVar, Sequence))):
            return self._reduced(*given, **named)
        if len(given) < 2 and not (given and self._takes_one):
            raise TensorExpressionError(
                f"{self.name}: give an axis made by te.reduce_axis, or several values to combine"
            )
        return functools.reduce(self._combine, map(convert, given))

    def _reduced(
        self, expr: Any, axis: Axes, where: ExprLike | None = None, init: Any = None
    ) -> Any:
        sources = tuple(map(convert, expr if isinstance(expr, (tuple, list)) else (expr,)))
        axes = self._axes(axis)
        combiner = self._combiner(tuple(source.dtype for source in sources))
        start = self._init(init, combiner)
        condition = TRUE if where is None else convert(where)
        if not condition.dtype.is_bool:
            raise TensorExpressionError(
                f"{self.name}: `where` must be a bool, got {condition.dtype!s}"
            )
        results = tuple(
            Reduce(combiner, sources, axes, condition, index, start)
            for index in range(len(sources))
        )
        return results if isinstance(expr, (tuple, list)) else results[0]

    def _axes(self, axis: Axes) -> tuple[IterVar, ...]:
        axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
        for item in axes:
            if getattr(item, "iter_type", None) is not IterType.COMM_REDUCE:
                raise TensorExpressionError(
                    f"{self.name}: axis must be made by te.reduce_axis, got {item!r}"
                )
        if not axes:
            raise TensorExpressionError(f"{self.name}: at least one reduction axis is needed")
        return axes

    def _combiner(self, dtypes: tuple[DType, ...]) -> CommReducer:
        lhs = tuple(Var(f"x{i}", dtype) for i, dtype in enumerate(dtypes))
        rhs = tuple(Var(f"y{i}", dtype) for i, dtype in enumerate(dtypes))
        if len(dtypes) == 1:
            results = (self._combine(lhs[0], rhs[0]),)
            identities = (self._identity(dtypes[0]),)
        else:
            results = tuple(self._combine(lhs, rhs))
            identities = tuple(self._call_identity(dtypes))
        result, identity = tuple(map(convert, results)), tuple(map(convert, identities))
        self._check(dtypes, result, "combiner")
        self._check(dtypes, identity, "identity")
        return CommReducer(lhs, rhs, result, identity)

    def _call_identity(self, dtypes: tuple[DType, ...]) -> Sequence[Any]:
        given = len(inspect.signature(self._identity).parameters)
        if given not in (len(dtypes), 1):
            raise TensorExpressionError(
                f"{self.name}: reduces {len(dtypes)} values, but its identity takes {given} dtypes"
            )
        values: Sequence[Any] = self._identity(*dtypes)
        return values

    def _check(self, dtypes: tuple[DType, ...], values: tuple[PrimExpr, ...], what: str) -> None:
        if len(values) != len(dtypes):
            raise TensorExpressionError(
                f"{self.name}: reduces {len(dtypes)} values, but its {what} gives {len(values)}"
            )
        for dtype, value in zip(dtypes, values, strict=True):
            if value.dtype is not dtype:
                raise TensorExpressionError(
                    f"{self.name}: the {what} gives {value.dtype!s} for a value of {dtype!s}"
                )

    def _init(self, init: Any, combiner: CommReducer) -> tuple[PrimExpr, ...]:
        if init is None:
            return ()
        values = init if isinstance(init, (tuple, list)) else (init,)
        dtypes = tuple(item.dtype for item in combiner.identity_element)
        start = tuple(
            const(value, dtype) if isinstance(value, (int, float)) else convert(value)
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
    before = greater if last else less

    def combine(x: Values, y: Values) -> tuple[PrimExpr, ...]:
        wins, ties = better(x[1], y[1]), equal(x[1], y[1])
        if x[1].dtype.is_float:
            undefined, also = not_equal(x[1], x[1]), not_equal(y[1], y[1])
            wins = logical_or(wins, logical_and(undefined, equal(y[1], y[1])))
            ties = logical_or(ties, logical_and(undefined, also))
        kept = logical_or(wins, logical_and(ties, before(x[0], y[0])))
        return Select(kept, x[0], y[0]), Select(wins, x[1], y[1])

    return combine


sum = AxisReducer(lambda x, y: x + y, lambda t: const(0, t), "sum")
prod = AxisReducer(lambda x, y: x * y, lambda t: const(1, t), "prod")
max = AxisReducer(maximum, min_value, "max")
min = AxisReducer(minimum, max_value, "min")
all = AxisReducer(logical_and, lambda t: TRUE, "all", takes_one=True)
any = AxisReducer(logical_or, lambda t: FALSE, "any", takes_one=True)
