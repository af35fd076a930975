"""Operators that move elements: transpose, reshape, concatenate, split, ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, IntImm, PrimExpr, Var, const, is_one
from tilewright.ir.intrinsics import if_then_else
from tilewright.te import Tensor
from tilewright.te.tensor import shape_of
from tilewright.topi import axes as ax

__all__ = [
    "transpose", "reshape", "squeeze", "expand_dims", "concatenate", "stack", "split", "flip",
    "repeat", "tile",
]  # fmt: skip


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """The axes in another order (reversed if `axes` is None)."""
    order = list(range(a.ndim))[::-1] if axes is None else list(axes)
    normalized = [ax.normalize_axis(axis, a.ndim, "transpose") for axis in order]
    if sorted(normalized) != list(range(a.ndim)):
        raise TensorExpressionError(
            f"transpose: axes {order} is not a permutation of the {a.ndim} axes of {a.name}"
        )

    def element(*i: Var) -> PrimExpr:
        source: list[ExprLike] = [0] * a.ndim
        for position, axis in enumerate(normalized):
            source[axis] = i[position]
        return a(*source)

    return ax.compute_ax(
        [a.shape[axis] for axis in normalized], element, "T_transpose", ax.INJECTIVE
    )


def flatten_index(indices: Sequence[ExprLike], shape: Sequence[PrimExpr]) -> PrimExpr:
    """The row-major position of an element."""
    position: PrimExpr = const(0, shape[0].dtype) if shape else const(0)
    for index, extent in zip(indices, shape, strict=True):
        position = position * extent + index
    return position


def unflatten_index(position: PrimExpr, shape: Sequence[PrimExpr]) -> list[PrimExpr]:
    """The indices of the element at a row-major position."""
    indices: list[PrimExpr] = []
    for extent in reversed(shape):
        indices.append(ax.wrapped(position, extent))
        position = position if ax.is_zero(extent) else position // extent
    return indices[::-1]


def reshape(a: Tensor, newshape: ax.Shape) -> Tensor:
    """The same elements, row-major, in another shape; one extent may be -1."""
    target = _resolve_shape(a, list(newshape))

    def element(*i: Var) -> PrimExpr:
        return a(*unflatten_index(flatten_index(i, target), a.shape))

    return ax.compute_ax(target, element, "T_reshape", ax.INJECTIVE)


def _resolve_shape(a: Tensor, newshape: list[ExprLike]) -> tuple[PrimExpr, ...]:
    unknown = [d for d, extent in enumerate(newshape) if isinstance(extent, int) and extent == -1]
    if len(unknown) > 1:
        raise TensorExpressionError(f"reshape: only one extent may be -1, got {newshape}")
    size = ax.extent_product(a.shape)
    if unknown:
        known = [extent for d, extent in enumerate(newshape) if d != unknown[0]]
        rest = ax.extent_product(shape_of(known, "reshape"))
        if ax.is_zero(rest):
            raise TensorExpressionError(f"reshape: -1 beside 0 in {newshape} is ambiguous")
        newshape[unknown[0]] = size // rest
    target = shape_of(newshape, "reshape")
    wanted = ax.extent_product(target)
    if isinstance(size, IntImm) and isinstance(wanted, IntImm) and size.value != wanted.value:
        raise TensorExpressionError(
            f"reshape: {a.name} has {size.value} elements, "
            f"shape {ax.shape_text(target)} has {wanted.value}"
        )
    return target


def squeeze(a: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Without the axes of extent 1 (all of them if `axis` is None)."""
    if axis is None:
        dropped = [d for d in range(a.ndim) if is_one(a.shape[d])]
    else:
        dropped = ax.normalize_axes(axis, a.ndim, "squeeze")
    for d in dropped:
        if not is_one(a.shape[d]):
            raise TensorExpressionError(
                f"squeeze: axis {d} of {a.name} has extent {a.shape[d]}, expected 1"
            )
    kept = [extent for d, extent in enumerate(a.shape) if d not in dropped]

    def element(*i: Var) -> PrimExpr:
        remaining = iter(i)
        return a(*(const(0) if d in dropped else next(remaining) for d in range(a.ndim)))

    return ax.compute_ax(kept, element, "T_squeeze", ax.INJECTIVE)


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """With `num_newaxis` axes of extent 1 inserted at `axis`."""
    at = ax.normalize_axis(axis, a.ndim + 1, "expand_dims")
    shape = [*a.shape[:at], *[const(1)] * num_newaxis, *a.shape[at:]]
    return ax.compute_ax(
        shape, lambda *i: a(*i[:at], *i[at + num_newaxis :]), "T_expand_dims", ax.INJECTIVE
    )


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors one after another along `axis`."""
    if not a_tuple:
        raise TensorExpressionError("concatenate: at least one tensor is needed")
    first = a_tuple[0]
    at = ax.normalize_axis(axis, first.ndim, "concatenate")
    for other in a_tuple[1:]:
        _check_joinable(first, other, at, "concatenate")
    starts: list[PrimExpr] = [const(0, first.shape[at].dtype)]
    for tensor in a_tuple:
        starts.append(starts[-1] + tensor.shape[at])

    def element(*i: Var) -> ExprLike:
        value: PrimExpr = first(*i)
        for tensor, start in zip(a_tuple[1:], starts[1:], strict=False):
            own = [*i[:at], i[at] - start, *i[at + 1 :]]
            value = if_then_else(i[at] >= start, tensor(*own), value)
        return value

    shape = [*first.shape[:at], starts[-1], *first.shape[at + 1 :]]
    return ax.compute_ax(shape, element, "T_concat", ax.INJECTIVE)


def _check_joinable(first: Tensor, other: Tensor, axis: int, what: str) -> None:
    if other.ndim != first.ndim or other.dtype is not first.dtype:
        raise TensorExpressionError(
            f"{what}: {first.name} ({first.ndim} dimensions, {first.dtype!s}) and {other.name} "
            f"({other.ndim} dimensions, {other.dtype!s}) cannot be joined"
        )
    for d, (x, y) in enumerate(zip(first.shape, other.shape, strict=True)):
        if d != axis:
            ax.check_extents(
                x, y, what, f"the extents of {first.name} and {other.name} at axis {d}"
            )


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    if not tensors:
        raise TensorExpressionError("stack: at least one tensor is needed")
    first = tensors[0]
    at = ax.normalize_axis(axis, first.ndim + 1, "stack")
    for other in tensors[1:]:
        _check_joinable(first, other, -1, "stack")

    def element(*i: Var) -> ExprLike:
        own = [*i[:at], *i[at + 1 :]]
        value: PrimExpr = first(*own)
        for position, tensor in enumerate(tensors[1:], start=1):
            value = if_then_else(i[at].equal(position), tensor(*own), value)
        return value

    shape = [*first.shape[:at], const(len(tensors)), *first.shape[at:]]
    return ax.compute_ax(shape, element, "T_stack", ax.INJECTIVE)


def split(
    ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0
) -> tuple[Tensor, ...]:
    """Parts along `axis`: a number of equal ones, or cut at the given positions."""
    at = ax.normalize_axis(axis, ary.ndim, "split")
    extent = ax.constant_extent(ary.shape[at], "split")
    cuts = _cuts(extent, indices_or_sections)
    bounds = zip(cuts, [*cuts[1:], extent], strict=True)
    return tuple(_part(ary, at, begin, end) for begin, end in bounds)


def _cuts(extent: int, indices_or_sections: int | Sequence[int]) -> list[int]:
    if isinstance(indices_or_sections, int):
        sections = indices_or_sections
        if sections <= 0 or extent % sections:
            raise TensorExpressionError(
                f"split: extent {extent} cannot be split into {sections} equal parts"
            )
        return [part * (extent // sections) for part in range(sections)]
    cuts = [0, *indices_or_sections]
    if cuts != sorted(cuts) or cuts[-1] > extent:
        raise TensorExpressionError(
            f"split: positions {list(indices_or_sections)} must be increasing and at most {extent}"
        )
    return cuts


def _part(ary: Tensor, axis: int, begin: int, end: int) -> Tensor:
    extent = const(end - begin, ary.shape[axis].dtype)
    return _picked(ary, axis, extent, lambda i: i + begin, "T_split")


def _picked(
    a: Tensor, at: int, extent: PrimExpr, position: Callable[[Var], PrimExpr], name: str
) -> Tensor:
    """`a` with other elements along one axis; `position` says which they are."""
    shape = [*a.shape[:at], extent, *a.shape[at + 1 :]]

    def element(*i: Var) -> PrimExpr:
        return a(*i[:at], position(i[at]), *i[at + 1 :])

    return ax.compute_ax(shape, element, name, ax.INJECTIVE)


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """Reversed along `axis`."""
    at = ax.normalize_axis(axis, a.ndim, "flip")
    last = a.shape[at] - 1
    return _picked(a, at, a.shape[at], lambda i: last - i, "T_reverse_sequence")


def repeat(a: Tensor, repeats: int, axis: int) -> Tensor:
    """Every element `repeats` times along `axis`."""
    at = ax.normalize_axis(axis, a.ndim, "repeat")
    _check_repetitions([repeats], "repeat")
    return _picked(a, at, a.shape[at] * repeats, lambda i: i // max(repeats, 1), "T_repeat")


def _check_repetitions(counts: Sequence[int], what: str) -> None:
    if any(ax.whole_number(count, what) < 0 for count in counts):
        raise TensorExpressionError(f"{what}: repetitions {list(counts)} must not be negative")


def tile(a: Tensor, reps: Sequence[int]) -> Tensor:
    """The whole tensor repeated along each axis."""
    if len(reps) != a.ndim:
        raise TensorExpressionError(
            f"tile: {a.name} has {a.ndim} dimensions, got {len(reps)} repetitions"
        )
    _check_repetitions(reps, "tile")
    shape = [extent * count for extent, count in zip(a.shape, reps, strict=True)]
    return ax.compute_ax(shape, lambda *i: a(*map(ax.wrapped, i, a.shape)), "T_tile", ax.INJECTIVE)
