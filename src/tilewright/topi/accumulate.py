"""Types of sums: narrow numbers are added in 32 bits and rounded once, behind the last sum."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import te
from tilewright.ir import DType, PrimExpr, Var, common_dtype
from tilewright.te import Tensor
from tilewright.te.reduce import Axes
from tilewright.topi.axes import ELEMENTWISE, compute_ax
from tilewright.topi.elementwise import cast

_SUM_OF_BOOLS = DType("int32")


@dataclass(frozen=True)
class SumTypes:
    """Terms are converted to `accumulator` before they are multiplied and added."""

    accumulator: DType
    result: DType

    def widen(self, tensor: Tensor) -> Tensor:
        """A tensor in the accumulator's type."""
        return tensor if tensor.dtype is self.accumulator else cast(tensor, self.accumulator)

    def dot(self, x: PrimExpr, y: PrimExpr, axis: Axes) -> PrimExpr:
        """The sum of the products of `x` and `y` over `axis`."""
        return te.sum(x.astype(self.accumulator) * y.astype(self.accumulator), axis=axis)

    def finish(self, total: Tensor) -> Tensor:
        """A sum in the accumulator's type as the result, in an operation of its own."""
        if total.dtype is self.result:
            return total

        def element(*i: Var) -> PrimExpr:
            return total(*i).astype(self.result)

        return compute_ax(total.shape, element, f"{total.name}_cast", ELEMENTWISE)


def sum_types(dtype: str | None, *operands: Tensor) -> SumTypes:
    """The types for sums of (products of) `operands`; `dtype` is the result's where it is given.

    Sums of floats have the type of the operands. Sums of narrow integers have 32 bits.
    """
    if dtype is not None:
        return SumTypes(DType(dtype).accumulator, DType(dtype))
    common = operands[0].dtype
    for operand in operands[1:]:
        common = common_dtype(common, operand.dtype)
    wide = _SUM_OF_BOOLS if common.is_bool else common.accumulator
    return SumTypes(wide, common if common.is_float else wide)
