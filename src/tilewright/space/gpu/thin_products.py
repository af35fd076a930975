"""Products of a matrix and a vector: each weight is read once, so that memory is the limit.

Tiles for tensor cores would be almost empty, and few of them in flight; a group of threads for each
row of the matrix has all of it on the way at once.
"""

from __future__ import annotations

from tilewright.ir import Block
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.cpu.vector_reduction import walks_over_neighbours


def is_thin_product(block: Block) -> bool:
    """True for `y[n] = sum(x[k] * w[n, k])`, whatever axes of extent 1 there are."""
    contraction = Contraction.of(block, any_layout=True)
    return (
        contraction is not None
        and contraction.right is not None
        and bool(contraction.left)
        and all(contraction.extents[n] == 1 for n in contraction.rows)
        and walks_over_neighbours(block)
    )
