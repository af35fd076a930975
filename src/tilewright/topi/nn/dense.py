"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, PrimExpr, Var, is_one
from tilewright.ir.annotation_keys import LAYOUT_FREE_PLACEHOLDERS
from tilewright.te import Tensor
from tilewright.topi.accumulate import SumTypes, sum_types
from tilewright.topi.axes import check_extents, check_ndim, compute_ax, extent_product
from tilewright.topi.broadcast import add
from tilewright.topi.elementwise import cast
from tilewright.topi.transform import unflatten_index

__all__ = ["matmul", "dense", "batch_matmul", "flatten"]


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """The product of two matrices (with leading batch dimensions on `tensor_a` if it has more)."""
    if tensor_a.ndim < 2:
        raise TensorExpressionError(
            f"matmul: {tensor_a.name} must have at least 2 dimensions, it has {tensor_a.ndim}"
        )
    check_ndim(tensor_b, 2, "matmul")
    types = sum_types(out_dtype, tensor_a, tensor_b)
    shape, element = _product(tensor_a, tensor_b, types, transpose_a, transpose_b)
    name = f"T_matmul_{_letter(transpose_a)}{_letter(transpose_b)}"
    free = {LAYOUT_FREE_PLACEHOLDERS: [tensor_b]}
    product = te.compute(shape, element, name, "matmul", free)
    if bias is None:
        return types.finish(product)
    check_ndim(bias, 1, "matmul")
    check_extents(bias.shape[0], shape[-1], "matmul", "the extents of bias and output")
    return types.finish(add(product, cast(bias, types.accumulator)))


def dense(
    data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None
) -> Tensor:
    """`data @ weight.T + bias`, the fully connected layer."""
    return matmul(data, weight, bias, out_dtype, transpose_a=False, transpose_b=True)


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Tensor:
    """Products of two batches of matrices; a batch of one is used for all."""
    check_ndim(tensor_a, 3, "batch_matmul")
    check_ndim(tensor_b, 3, "batch_matmul")
    types = sum_types(out_dtype, tensor_a, tensor_b)
    batch_a, rows, depth = tensor_a.shape
    if transpose_a:
        rows, depth = depth, rows
    batch_b, depth_b, columns = tensor_b.shape
    if transpose_b:
        depth_b, columns = columns, depth_b
    check_extents(depth, depth_b, "batch_matmul", "the inner extents")
    if not (is_one(batch_a) or is_one(batch_b)):
        check_extents(batch_a, batch_b, "batch_matmul", "the batch extents")
    single_a = is_one(batch_a) and not is_one(batch_b)
    single_b = is_one(batch_b) and not is_one(batch_a)
    k = te.reduce_axis((0, depth), name="k")

    def element(b: Var, i: Var, j: Var) -> ExprLike:
        of_a: ExprLike = 0 if single_a else b
        of_b: ExprLike = 0 if single_b else b
        x = tensor_a(of_a, k, i) if transpose_a else tensor_a(of_a, i, k)
        y = tensor_b(of_b, j, k) if transpose_b else tensor_b(of_b, k, j)
        return types.dot(x, y, k)

    name = f"T_batch_matmul_{_letter(transpose_a)}{_letter(transpose_b)}"
    free = {LAYOUT_FREE_PLACEHOLDERS: [tensor_b]}
    shape = (batch_b if single_a else batch_a, rows, columns)
    return types.finish(te.compute(shape, element, name, "batch_matmul", free))


def _letter(transposed: bool) -> str:
    return "T" if transposed else "N"


def plain_matmul(a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False) -> Tensor:
    """`topi.matmul`: the product of two matrices."""
    check_ndim(a, 2, "matmul")
    check_ndim(b, 2, "matmul")
    types = sum_types(None, a, b)
    shape, element = _product(a, b, types, transp_a, transp_b)
    return types.finish(compute_ax(shape, element, "T_matmul", "matmul"))


def _product(
    a: Tensor, b: Tensor, types: SumTypes, transpose_a: bool, transpose_b: bool
) -> tuple[list[PrimExpr], Callable[..., ExprLike]]:
    """The shape and the elements of `a @ b`; `a` may have leading batch dimensions."""
    *batches, rows, depth = a.shape
    if transpose_a:
        rows, depth = depth, rows
    depth_b, columns = b.shape[::-1] if transpose_b else b.shape
    check_extents(depth, depth_b, "matmul", "the inner extents")
    k = te.reduce_axis((0, depth), name="k")

    def element(*i: Var) -> ExprLike:
        batch, row, column = i[:-2], i[-2], i[-1]
        x = a(*batch, k, row) if transpose_a else a(*batch, row, k)
        y = b(column, k) if transpose_b else b(k, column)
        return types.dot(x, y, k)

    return [*batches, rows, columns], element


def flatten(data: Tensor) -> Tensor:
    """All axes but the first as one."""
    if data.ndim == 0:
        raise TensorExpressionError(f"flatten: {data.name} has no dimensions, expected at least 1")
    inner = data.shape[1:]

    def element(i: Var, j: Var) -> ExprLike:
        return data(i, *unflatten_index(j, inner))

    return te.compute((data.shape[0], extent_product(inner)), element, tag="injective")
