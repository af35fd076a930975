"""Looking up rows of a table."""

from __future__ import annotations

from tilewright.ir import PrimExpr, Var
from tilewright.te import Tensor
from tilewright.topi.axes import INJECTIVE, check_ndim, compute_ax
from tilewright.topi.index_bounds import check_choice, check_indices, clipped_index


def embedding(indices: Tensor, weight: Tensor) -> Tensor:
    """`out[i..., j] = weight[indices[i...], j]`: a row of `weight` for every index.

    Negative indices count from the end; what is still outside is limited to the nearest row.
    """
    check_indices(indices, "embedding")
    check_ndim(weight, 2, "embedding")
    rows, columns = weight.shape
    check_choice(rows, indices, "embedding")

    def element(*i: Var) -> PrimExpr:
        return weight(clipped_index(indices(*i[:-1]), rows), i[-1])

    return compute_ax([*indices.shape, columns], element, "T_embedding", INJECTIVE)
