"""`compute`: a tensor given by an expression for each of its elements."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from tilewright import ir
from tilewright.errors import TensorExpressionError
from tilewright.support.nesting import nested_deeply
from tilewright.te.tensor import Operation, ProducerLoad, Tensor, shape_of


@dataclass(frozen=True, eq=False)
class ComputeOp(Operation):
    """One expression for each output; all outputs share the axes."""

    axis: tuple[ir.IterVar, ...] = ()
    body: tuple[ir.PrimExpr, ...] = ()
    # of the outputs; kept, since asking goes through all producers
    dtypes: tuple[ir.DType, ...] = ()

    @property
    def reduce_axis(self) -> tuple[ir.IterVar, ...]:
        first = self.body[0]
        return first.axis if isinstance(first, ir.Reduce) else ()

    @property
    def num_outputs(self) -> int:
        return len(self.body)

    @functools.cached_property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tensors_read_by(self.body)

    def output_shape(self, index: int) -> tuple[ir.PrimExpr, ...]:
        return tuple(domain_of(item).extent for item in self.axis)

    def output_dtype(self, index: int) -> ir.DType:
        return self.dtypes[index]


def spatial_axis(name: str, extent: ir.PrimExpr) -> ir.IterVar:
    """An axis from zero up to `extent`."""
    domain = ir.Range(ir.const(0, extent.dtype), extent)
    return ir.IterVar(domain, ir.Var(name, extent.dtype), ir.IterType.DATA_PAR)


def domain_of(axis: ir.IterVar) -> ir.Range:
    """The domain of an axis, which must have one."""
    if axis.dom is None:
        raise TensorExpressionError(f"axis {axis.var.name} has no domain")
    return axis.dom


def tensors_read_by(nodes: Sequence[ir.Node]) -> tuple[Tensor, ...]:
    """The tensors that occur in some expressions, each once, in post order."""
    found: dict[Tensor, None] = {}

    def visit(node: ir.Node) -> None:
        if isinstance(node, ProducerLoad):
            found[node.producer] = None

    for node in nodes:
        ir.post_order_visit(node, visit)
    return tuple(found)


@overload
def compute(
    shape: Sequence[ir.ExprLike] | ir.ExprLike,
    fcompute: Callable[..., ir.ExprLike],
    name: str = ...,
    tag: str = ...,
    attrs: Mapping[str, Any] | None = ...,
    varargs_names: Sequence[str] | None = ...,
) -> Tensor: ...
@overload
def compute(
    shape: Sequence[ir.ExprLike] | ir.ExprLike,
    fcompute: Callable[..., Sequence[ir.ExprLike]],
    name: str = ...,
    tag: str = ...,
    attrs: Mapping[str, Any] | None = ...,
    varargs_names: Sequence[str] | None = ...,
) -> tuple[Tensor, ...]: ...
def compute(
    shape: Sequence[ir.ExprLike] | ir.ExprLike,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """A tensor of `shape` whose element at `i, j, ...` is `fcompute(i, j, ...)`.

    The names of the arguments of `fcompute` become the names of the axes. A function that returns a
    tuple makes a tuple of tensors.
    """
    what = f"compute {name}"
    extents = shape_of(shape, what)
    names = _axis_names(fcompute, len(extents), what, varargs_names)
    axes = tuple(map(spatial_axis, names, extents))
    with nested_deeply(TensorExpressionError, what):
        result = fcompute(*(axis.var for axis in axes))
        several = isinstance(result, (tuple, list))
        body = tuple(_body_expr(item, what) for item in (result if several else (result,)))
        _check_body(body, what)
    dtypes = tuple(expr.dtype for expr in body)
    operation = ComputeOp(name, tag, dict(attrs or {}), axes, body, dtypes)
    return operation.outputs() if several else operation.output(0)


def _axis_names(
    fcompute: Callable[..., Any], ndim: int, what: str, varargs_names: Sequence[str] | None
) -> list[str]:
    parameters = inspect.signature(fcompute).parameters.values()
    kinds = inspect.Parameter
    named = [
        p.name for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    if any(p.kind is kinds.VAR_POSITIONAL for p in parameters):
        missing = ndim - len(named)
        rest = list(varargs_names or (f"i{k}" for k in range(max(missing, 0))))
        named += rest
    if len(named) != ndim:
        raise TensorExpressionError(
            f"{what}: the shape has {ndim} dimensions, but the function takes {len(named)} indices"
        )
    return named


def _body_expr(value: Any, what: str) -> ir.PrimExpr:
    if isinstance(value, Tensor):
        raise TensorExpressionError(
            f"{what}: the function returned the whole tensor {value.name}; "
            f"index it, e.g. `{value.name}({', '.join('ijklmn'[: value.ndim])})`"
        )
    return ir.convert(value)


def _check_body(body: tuple[ir.PrimExpr, ...], what: str) -> None:
    if not body:
        raise TensorExpressionError(f"{what}: the function returned no value")
    for expr in body:
        nested = (
            (*expr.source, expr.condition) if isinstance(expr, ir.Reduce) else ir.children(expr)
        )
        if any(isinstance(node, ir.Reduce) for child in nested for node in ir.walk(child)):
            raise TensorExpressionError(
                f"{what}: a reduction must be the whole value; compute it into a tensor of its own "
                "and use that tensor here"
            )
    reductions = [expr for expr in body if isinstance(expr, ir.Reduce)]
    if reductions and len(body) > 1:
        _check_joint_reduction(body, reductions, what)


def _check_joint_reduction(
    body: tuple[ir.PrimExpr, ...], reductions: list[ir.Reduce], what: str
) -> None:
    first = reductions[0]
    joint = len(reductions) == len(body) and all(
        reduction.combiner is first.combiner and reduction.value_index == index
        for index, reduction in enumerate(reductions)
    )
    if not joint or len(body) != len(first.source):
        raise TensorExpressionError(
            f"{what}: several outputs with a reduction must be the results of one comm_reducer, "
            "in order"
        )
