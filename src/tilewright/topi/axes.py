"""Axes of operators: names `ax0, ax1, ...` or letters, axis numbers, extents, window sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, SupportsIndex, TypeAlias

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, IntImm, PrimExpr, Var, const, convert
from tilewright.ir.structure import expr_deep_equal

Shape: TypeAlias = Sequence[ExprLike]
Window: TypeAlias = int | Sequence[int]
Indices: TypeAlias = Mapping[str, Var]

# Operator classes, as tags of the operations; fusion decides by them.
ELEMENTWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def compute_ax(
    shape: Shape,
    element: Callable[..., ExprLike],
    name: str,
    tag: str,
    attrs: Mapping[str, Any] | None = None,
) -> te.Tensor:
    """`te.compute` with the axes called `ax0, ax1, ...`."""
    names = [f"ax{i}" for i in range(len(shape))]

    def fcompute(*indices: Var) -> ExprLike:
        return element(*indices)

    return te.compute(shape, fcompute, name, tag, attrs, varargs_names=names)


def whole_number(value: Any, what: str) -> int:
    """Insist on an integer."""
    if not isinstance(value, SupportsIndex):
        raise TensorExpressionError(f"{what}: {value!r} is not an integer")
    return index(value)


def normalize_axis(axis: int, ndim: int, what: str) -> int:
    """A possibly negative axis as a position from the left."""
    axis = whole_number(axis, f"{what} axis")
    if not -ndim <= axis < ndim:
        raise TensorExpressionError(
            f"{what}: axis {axis} is out of range for a tensor of {ndim} dimensions"
        )
    return axis % ndim


def normalize_axes(axes: int | Sequence[int] | None, ndim: int, what: str) -> list[int]:
    """Several axes, sorted; None means all of them."""
    if axes is None:
        return list(range(ndim))
    given = list(axes) if isinstance(axes, Iterable) else [axes]
    found = sorted(normalize_axis(axis, ndim, what) for axis in given)
    if len(set(found)) != len(found):
        raise TensorExpressionError(f"{what}: an axis is named twice in {given}")
    return found


def same_extent(a: PrimExpr, b: PrimExpr) -> bool:
    """True when two extents are known to be equal."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    return a is b or expr_deep_equal(a, b)


def is_zero(value: ExprLike) -> bool:
    return isinstance(value, (int, IntImm)) and int(value) == 0


def wrapped(position: PrimExpr, extent: PrimExpr) -> PrimExpr:
    """`position % extent`, where an axis without elements is never looked at."""
    return const(0, position.dtype) if is_zero(extent) else position % extent


def constant_extent(extent: ExprLike, what: str) -> int:
    """An extent that must be known while the program is built."""
    value = convert(extent)
    if not isinstance(value, IntImm):
        raise TensorExpressionError(f"{what}: extent `{value}` must be a constant")
    return value.value


def extent_product(extents: Sequence[PrimExpr]) -> PrimExpr:
    """The number of elements of a shape."""
    total: PrimExpr = const(1, extents[0].dtype) if extents else const(1)
    for extent in extents:
        total = total * extent
    return total


def shape_text(shape: Sequence[PrimExpr]) -> str:
    """A shape as users write it."""
    return f"({', '.join(map(str, shape))})"


def check_one_of(value: str, known: Iterable[str], role: str, what: str) -> None:
    """Insist on one of some names."""
    if value not in known:
        raise TensorExpressionError(
            f"{what}: unknown {role} {value!r}, expected one of {', '.join(map(repr, known))}"
        )


def check_ndim(tensor: te.Tensor, ndim: int, what: str) -> None:
    """Insist on a number of dimensions."""
    if tensor.ndim != ndim:
        raise TensorExpressionError(
            f"{what}: tensor {tensor.name} must have {ndim} dimensions, it has {tensor.ndim}"
        )


def check_float(tensor: te.Tensor, what: str) -> None:
    """Insist on a float type."""
    if not tensor.dtype.is_float:
        raise TensorExpressionError(
            f"{what}: {tensor.name} is {tensor.dtype!s}, expected a float type"
        )


def check_extents(a: PrimExpr, b: PrimExpr, what: str, description: str) -> None:
    """Insist that two extents agree where both are known."""
    if isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value:
        raise TensorExpressionError(f"{what}: {description} differ: {a.value} and {b.value}")


def per_axis(value: Window, count: int, what: str) -> list[int]:
    """A stride, dilation or kernel size for each of `count` spatial axes."""
    given = list(value) if isinstance(value, Iterable) else [value] * count
    if len(given) != count:
        raise TensorExpressionError(f"{what}: expected {count} values, got {len(given)}")
    return [whole_number(item, what) for item in given]


def positive_per_axis(value: Window, count: int, what: str) -> list[int]:
    """A stride, dilation or kernel size, each at least 1."""
    values = per_axis(value, count, what)
    if min(values, default=1) < 1:
        raise TensorExpressionError(f"{what} must be positive, got {values}")
    return values


def pad_widths(
    padding: Window | str, kernel: Sequence[ExprLike], what: str
) -> tuple[list[int], list[int]]:
    """Padding before and after each spatial axis.

    Takes one number, one for each axis, one before and one after each axis (all the befores first),
    "VALID" or "SAME" (the latter for stride 1, as `(k - 1) / 2` rounded down before and up after).
    """
    count = len(kernel)
    if isinstance(padding, str):
        return _named_padding(padding, kernel, what)
    given = list(padding) if isinstance(padding, Iterable) else [padding] * count
    values = [whole_number(item, f"{what} padding") for item in given]
    if len(values) == count:
        values = values + values
    if len(values) != 2 * count:
        raise TensorExpressionError(
            f"{what}: padding must have 1, {count} or {2 * count} values, got {len(values)}"
        )
    if min(values, default=0) < 0:
        raise TensorExpressionError(f"{what}: padding {values} must not be negative")
    return values[:count], values[count:]


def _named_padding(
    padding: str, kernel: Sequence[ExprLike], what: str
) -> tuple[list[int], list[int]]:
    if padding == "VALID":
        return [0] * len(kernel), [0] * len(kernel)
    if padding != "SAME":
        raise TensorExpressionError(
            f"{what}: padding {padding!r} is unknown, expected 'VALID', 'SAME' or numbers"
        )
    total = [constant_extent(extent, what) - 1 for extent in kernel]
    return [t // 2 for t in total], [t - t // 2 for t in total]


# --- tensors whose axes have names, so that an operator is written once for all layouts ----------


@dataclass(frozen=True)
class NamedTensor:
    """A tensor and the names of its axes: "NCHW", or ("n", "ci", "h", "w")."""

    tensor: te.Tensor
    axes: Sequence[str]

    def at(self, **indices: ExprLike) -> PrimExpr:
        return self.tensor(*(indices[axis] for axis in self.axes))

    def extent(self, axis: str) -> PrimExpr:
        return self.tensor.shape[self.axes.index(axis)]


def compute_named(
    name: str,
    axes: Mapping[str, str] | Sequence[str],
    sizes: Mapping[str, ExprLike],
    element: Callable[[Indices], ExprLike],
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> NamedTensor:
    """A tensor with the given axes, in this order; a mapping says what programs call them."""
    keys = tuple(axes)
    shown = list(axes.values()) if isinstance(axes, Mapping) else keys

    def positional(*i: Var) -> ExprLike:
        return element(dict(zip(keys, i, strict=True)))

    shape = [sizes[axis] for axis in keys]
    return NamedTensor(te.compute(shape, positional, name, tag, attrs, varargs_names=shown), keys)
